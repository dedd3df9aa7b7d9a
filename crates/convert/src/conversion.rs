//! Input and result of an attempt to convert: the policies to convert, those that stay, and the objects emitted.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use palisade_dialects::antrea::{GROUP, tiers};
use palisade_dialects::kubernetes::NetworkPolicy;
use palisade_dialects::load::load;
use palisade_dialects::object::{Key, Lowered};
use palisade_dialects::source::Limits;
use palisade_dialects::source::tree::Source;
use palisade_dialects::thorium::compile::{ORIGIN, compile};
use palisade_dialects::world::World;
use palisade_dialects::written::{self, Written};
use palisade_model::diagnostic::{Diagnostic, Location};
use palisade_model::group::Members;
use palisade_model::matching::Context;
use palisade_model::options::Options;
use palisade_model::policy::{
    Dialect, Direction, Object, Peer, Peers, Placement, Policy, Rule, Subject, Tier,
};
use palisade_model::resolve;
use palisade_model::snapshot::{Objects, Snapshot};
use smol_str::SmolStr;

use super::changes::report_changes;
use super::names::TakenNames;
use super::originals::{self, Originals};
use super::output::{ConversionOutput, DiagnosticSink, PolicyScope, diagnostic};
use super::precedence::{PolicySubjects, Precedence, refuse_reorderings};
use super::union::UnionEffect;
use super::{
    ConversionRequest, TargetDialect, admin_network_policy, antrea, cluster_network_policy, codes,
    network_policy,
};

/// Maximum number of values that are written in one attempt: some hundred bytes each, with all copies.
const MAX_WRITTEN: usize = 1_000_000;

/// Caveat of a group that is expanded.
pub(super) const NOT_FOLLOWED: &str = "when it changes, the converted policy does not";

/// A policy of the input: one to convert, or one that stays.
#[derive(Debug, Clone)]
pub(super) struct OriginPolicy {
    pub policy: Policy,
    pub dialect: Dialect,
    /// `None` when its tier does not exist.
    pub precedence: Option<Precedence>,
    pub subjects: PolicySubjects,
}

/// Objects of the target dialect in the input.
#[derive(Debug)]
struct KeptObjects {
    /// As and in the order they were written.
    objects: Vec<Written>,
    /// Objects with unparsable parts.
    diagnostics: Vec<Diagnostic>,
}

/// Effects of union rules by their subjects and direction.
type UnionEffects = HashMap<(Arc<[Subject]>, Direction), UnionEffect>;

/// The input of an attempt, with caches and counters of its work.
#[derive(Debug)]
pub(super) struct Conversion<'w> {
    pub world: &'w World,
    pub originals: &'w Originals,
    /// The world before the conversion, for expanding groups.
    pub snapshot: Snapshot,
    /// The policies to convert, by kind, namespace and name.
    pub origins: Vec<OriginPolicy>,
    /// Policies that stay: of the target dialect, not requested, or not convertible.
    pub staying: Vec<OriginPolicy>,
    /// NetworkPolicies that the Thorium policies to convert compile to.
    pub compiled: Vec<Written>,
    /// The Thorium policies to convert, as lowered.
    thorium: Vec<Policy>,
    /// Number of pairs of subjects compared so far ([`PolicySubjects::are_disjoint`]).
    pub compared: Cell<usize>,
    /// Number of values written so far ([`Conversion::affords`]).
    written: Cell<usize>,
    /// Cache of the effects of union rules: rules of one policy share their subjects.
    pub union_effects: RefCell<UnionEffects>,
    kept: KeptObjects,
}

/// Result of an attempt.
#[derive(Debug)]
pub(super) struct Attempt {
    /// Objects that were of the target dialect before.
    pub kept: Vec<Written>,
    /// Objects emitted by the conversion.
    pub objects: Vec<Written>,
    /// Objects that the emitted ones replace, the last evaluated first.
    pub replaced: Vec<Arc<Object>>,
    pub diagnostics: Vec<Diagnostic>,
    /// Indices of policies that cannot be converted.
    failed: BTreeSet<usize>,
    thorium_failed: bool,
}

// === impl Conversion ===

impl<'w> Conversion<'w> {
    pub fn new(
        world: &'w World,
        originals: &'w Originals,
        before: &Objects,
        request: &ConversionRequest,
        not_convertible: &BTreeSet<Arc<Object>>,
    ) -> Self {
        let tiers = tiers(world);
        let precedence = |policy: &Policy| match &policy.placement {
            Placement::Union => Some(Precedence::UNION),
            Placement::Tier { tier, priority } => {
                let number = match tier {
                    Tier::Fixed(number, _) => Some(*number),
                    Tier::Named(name) => tiers.get(name).copied(),
                };
                number.map(|tier| Precedence { tier, priority: *priority })
            }
        };
        let requested = |dialect: Dialect| request.from.is_empty() || request.from.contains(&dialect);
        let mut conversion = Conversion {
            world,
            originals,
            snapshot: Snapshot::new(before.clone()),
            origins: Vec::new(),
            staying: Vec::new(),
            compiled: Vec::new(),
            thorium: Vec::new(),
            compared: Cell::new(0),
            written: Cell::new(0),
            union_effects: RefCell::default(),
            kept: KeptObjects::collect(world, originals, request.to),
        };
        for policy in conversion.snapshot.policies() {
            let dialect = policy.object.dialect;
            let origin = OriginPolicy::new(policy.clone(), dialect, precedence(policy));
            let converts = requested(dialect)
                && dialect != request.to.dialect()
                && !not_convertible.contains(&policy.object);
            match (converts, dialect) {
                (true, Dialect::Thorium) => conversion.thorium.push(origin.policy),
                (true, _) => conversion.origins.push(origin),
                (false, _) => conversion.staying.push(origin),
            }
        }
        // Policies of a Thorium instance are converted together or not at all.
        let stays = |origin: &OriginPolicy| origin.dialect == Dialect::Thorium;
        if conversion.staying.iter().any(stays) {
            let back = std::mem::take(&mut conversion.thorium);
            let origin = |policy| OriginPolicy::new(policy, Dialect::Thorium, Some(Precedence::UNION));
            conversion.staying.extend(back.into_iter().map(origin));
        }
        if !conversion.thorium.is_empty()
            && let Some(instance) = world.thorium_instance()
        {
            let holds = |object: &&NetworkPolicy| has_origin(object, &conversion.thorium);
            conversion.compiled =
                compile(&instance).iter().filter(holds).map(NetworkPolicy::written).collect();
            if request.to != TargetDialect::NetworkPolicy {
                conversion.origins.extend(compiled_policies(&conversion.compiled));
            }
        }
        conversion
    }

    /// Returns the Thorium policies to convert, as lowered.
    pub fn thorium(&self) -> impl Iterator<Item = &Policy> {
        self.thorium.iter()
    }

    /// Counts values to be written, and returns whether the total is within the limit of an attempt. A short policy can
    /// expand to very many values: large groups, every port of every peer.
    pub fn affords(&self, values: usize) -> bool {
        self.written.set(self.written.get().saturating_add(values));
        self.written.get() <= MAX_WRITTEN
    }

    /// Converts all policies to the target dialect.
    pub fn attempt(&self, target: TargetDialect) -> Attempt {
        let mut output = ConversionOutput::default();
        self.kept.diagnostics.iter().for_each(|one| output.diagnostics.add(one.clone()));
        self.refuse_unresolved(&mut output);
        let thorium_failed = self.report_unparsable_thorium(&mut output.diagnostics);
        match target {
            TargetDialect::NetworkPolicy => network_policy::emit(self, &mut output),
            TargetDialect::ClusterNetworkPolicy => cluster_network_policy::emit(self, &mut output),
            TargetDialect::AdminNetworkPolicy => admin_network_policy::emit(self, &mut output),
            TargetDialect::Antrea => antrea::emit(self, &mut output),
        }
        refuse_reorderings(self, &mut output);
        report_changes(self, &mut output);
        let ConversionOutput { emitted, diagnostics, failed, companions, obsolete } = output;
        let replaced = self.origins.iter().filter(|origin| origin.dialect != Dialect::Thorium);
        let mut replaced: Vec<&OriginPolicy> = replaced.collect();
        replaced.sort_by_key(|origin| std::cmp::Reverse(origin.precedence));
        let replaced = replaced.into_iter().map(|origin| &origin.policy).chain(&self.thorium);
        let emitted = emitted.into_iter().filter_map(|emitted| emitted.object);
        Attempt {
            kept: self.kept.objects.clone(),
            objects: companions.into_iter().chain(emitted).collect(),
            replaced: replaced.map(|policy| Arc::clone(&policy.object)).chain(obsolete).collect(),
            diagnostics: diagnostics.list,
            failed,
            thorium_failed,
        }
    }

    /// Refuses policies with unparsable parts, missing tiers or missing groups.
    fn refuse_unresolved(&self, output: &mut ConversionOutput) {
        let context = Context { snapshot: &self.snapshot, options: Options::default() };
        for (index, origin) in self.origins.iter().enumerate() {
            let mut scope = output.scope(self, index);
            if let Some(what) = &origin.policy.unreadable {
                let reason = format!("the policy cannot be read ({what})");
                scope.refuse(&codes::UNREADABLE, None, "", reason);
            }
            if origin.precedence.is_none() {
                let reason = "the policy names a tier that does not exist".to_owned();
                scope.refuse(&codes::UNREADABLE, None, ".tier", reason);
            }
            for rule in &origin.policy.rules {
                self.check_groups(&mut scope, rule);
                if let Some(what) = resolve::unknown(rule, &context.snapshot) {
                    let reason = format!("the rule cannot be read ({what})");
                    scope.refuse(&codes::UNREADABLE, Some(rule), "", reason);
                }
            }
        }
    }

    /// Reports Thorium policies with unparsable parts, and returns whether there are any.
    fn report_unparsable_thorium(&self, diagnostics: &mut DiagnosticSink) -> bool {
        let mut failed = false;
        for policy in &self.thorium {
            let unknown = policy.rules.iter().find_map(Rule::unknown);
            if let Some(what) = policy.unreadable.as_deref().or(unknown) {
                let reason = format!("the policy cannot be read ({what})");
                diagnostics.add(diagnostic(&codes::UNREADABLE, &policy.object, reason));
                failed = true;
            }
        }
        failed
    }

    /// Reports the groups that are a rule's subjects, which are expanded, and refuses missing groups: expanded they would
    /// never get members, so that the rule stays as it is.
    fn check_groups(&self, scope: &mut PolicyScope<'_, '_>, rule: &Rule) {
        for subject in rule.subjects.iter() {
            let Subject::Group { group, .. } = subject else { continue };
            let reason = match self.snapshot.group(group) {
                Ok(members) if !self.affords(members.len()) => {
                    let reason = format!("group {group} is too much to write out, with all others");
                    scope.refuse(&codes::TOO_MUCH, Some(rule), ".appliedTo", reason);
                    continue;
                }
                Ok(_) if self.snapshot.has_group(group) => {
                    let message = format!("group {group} is written out: {NOT_FOLLOWED}");
                    scope.report(&codes::GROUP, None, ".appliedTo", message);
                    continue;
                }
                Ok(_) => format!("it applies to group {group}, which does not exist"),
                Err(reason) => format!("it applies to group {group}: {reason}"),
            };
            scope.refuse(&codes::UNREADABLE, Some(rule), "", reason);
        }
        let Peers::Of(peers) = &rule.peers else { return };
        for peer in peers {
            if let Peer::Group(group) = peer
                && !self.snapshot.has_group(group)
            {
                let reason = format!("it names group {group}, which does not exist");
                scope.refuse(&codes::UNREADABLE, Some(rule), "", reason);
            }
        }
    }

    /// Returns the names of objects of a kind that stay.
    pub fn taken_names(&self, group: &str, kind: &str) -> TakenNames {
        let all = self.world.iter().map(|loaded| &loaded.key);
        let all = all.filter(|key: &&Key| key.group == group && key.kind == kind);
        // Names of converted policies are free.
        let converted: BTreeSet<Key> =
            self.origins.iter().map(|origin| originals::key(&origin.policy.object)).collect();
        let taken = all.filter(|key| !converted.contains(key));
        taken.map(|key| (key.namespace.clone(), key.name.clone())).collect()
    }

    /// Returns the `metadata` of an emitted object: the policy's labels and annotations, with a name of its own.
    pub fn metadata(&self, origin: &OriginPolicy, name: &str, namespace: Option<&str>) -> Written {
        let map = |field| self.originals.map(&origin.policy.object, field);
        // Labels and annotations of a namespace that isolates are not the policy's.
        let own = origin.policy.object.kind != "Namespace";
        Written::map([
            ("name", Some(Written::text(name))),
            ("namespace", namespace.map(Written::text)),
            ("labels", map("labels").filter(|_| own)),
            ("annotations", map("annotations").filter(|_| own)),
        ])
    }
}

// === impl KeptObjects ===

impl KeptObjects {
    /// Collects the objects of the target dialect.
    fn collect(world: &World, originals: &Originals, target: TargetDialect) -> Self {
        let mut diagnostics = Vec::new();
        let mut objects: Vec<(&Location, &Written)> = Vec::new();
        for loaded in world.iter() {
            let antrea = target == TargetDialect::Antrea && loaded.key.group == GROUP;
            let unreadable = match &loaded.lowered {
                Lowered::Policy(policy) if policy.object.dialect == target.dialect() => {
                    let rule = policy.rules.iter().find_map(Rule::unknown);
                    policy.unreadable.as_deref().or(rule).map(|what| (&policy.object, what))
                }
                Lowered::Tier(tier) if antrea => {
                    tier.priority.is_none().then_some((&tier.object, "its priority"))
                }
                Lowered::Group(group) if antrea => match &group.members {
                    Members::Unknown(what) => Some((&group.object, what.as_str())),
                    _ => None,
                },
                _ => continue,
            };
            if let Some((object, what)) = unreadable {
                diagnostics.push(diagnostic(
                    &codes::UNREADABLE,
                    object,
                    format!("it cannot be read ({what})"),
                ));
            } else if let Some(object) = originals.by_key(&loaded.key) {
                objects.push((&loaded.at, object));
            }
        }
        objects.sort_by_key(|(at, _)| *at);
        let objects = objects.into_iter().map(|(_, object)| object.clone()).collect();
        KeptObjects { objects, diagnostics }
    }
}

/// Whether the Thorium policy that an object was compiled from is among those to convert. An object without one selects pods
/// by a label that no pod of the instance carries.
fn has_origin(object: &NetworkPolicy, policies: &[Policy]) -> bool {
    let Some(meta) = &object.metadata else { return false };
    let origin = meta.annotation(ORIGIN).map_or("", SmolStr::as_str);
    let name = origin.strip_prefix("base:").unwrap_or(origin);
    // The annotation truncates long names.
    let stem = name.strip_suffix('…').unwrap_or(name);
    let same = |policy: &Policy| {
        policy.object.namespace == meta.namespace
            && (policy.object.name == name || (stem != name && policy.object.name.starts_with(stem)))
    };
    policies.iter().any(same)
}

/// Lowers the NetworkPolicies that Thorium's policies compile to.
fn compiled_policies(objects: &[Written]) -> Vec<OriginPolicy> {
    let text = Source::new("Thorium's policies", written::yaml(objects));
    let mut world = World::default();
    load(&text, &Limits::default(), &mut world, &mut Vec::new());
    let origin = |policy| OriginPolicy::new(policy, Dialect::Thorium, Some(Precedence::UNION));
    world.into_objects().policies.into_iter().map(origin).collect()
}

// === impl OriginPolicy ===

impl OriginPolicy {
    fn new(policy: Policy, dialect: Dialect, precedence: Option<Precedence>) -> Self {
        OriginPolicy { subjects: PolicySubjects::of(&policy), policy, dialect, precedence }
    }

    /// Returns the namespace of the policy, or that which isolates its pods by an annotation.
    pub fn own_namespace(&self) -> Option<&SmolStr> {
        let object = &self.policy.object;
        if object.kind == "Namespace" { Some(&object.name) } else { object.namespace.as_ref() }
    }

    /// Returns the name for objects emitted for the policy.
    pub fn name(&self) -> SmolStr {
        let object = &self.policy.object;
        if object.kind == "Namespace" { "default-deny-ingress".into() } else { object.name.clone() }
    }
}

// === impl Attempt ===

impl Attempt {
    /// Returns the objects of the policies that cannot be converted.
    pub fn failed(&self, conversion: &Conversion<'_>) -> Vec<Arc<Object>> {
        let of_2020 = |index: &usize| conversion.origins[*index].dialect == Dialect::Antrea2020;
        // The built-in tiers of 2020 get other priorities as soon as there is a policy of today's API: all of 2020 are
        // converted, or none.
        let all_of_2020 =
            self.failed.iter().any(of_2020).then(|| (0..conversion.origins.len()).filter(of_2020));
        let failed: BTreeSet<usize> =
            self.failed.iter().copied().chain(all_of_2020.into_iter().flatten()).collect();
        let failed = || failed.iter().map(|index| &conversion.origins[*index]);
        let compiled = failed().any(|origin| origin.dialect == Dialect::Thorium);
        let thorium = conversion.thorium.iter().filter(|_| compiled || self.thorium_failed);
        failed()
            .filter(|origin| origin.dialect != Dialect::Thorium)
            .map(|origin| &origin.policy)
            .chain(thorium)
            .map(|policy| Arc::clone(&policy.object))
            .collect()
    }
}
