//! A conversion before it is attempted: the policies to convert, those that stay, and their places; and what an attempt yields.

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

use super::changes::changes;
use super::ends::affords;
use super::order::{Concerned, Place, crossings};
use super::originals::{self, Originals};
use super::speech::{Speech, Taken, about};
use super::union::Worth;
use super::{Request, Target, admin, antrea, cluster, codes, networkpolicy};

/// What holds for a group that is written out.
pub(super) const FOLLOWS_NOT: &str = "when it changes, the converted policy does not";

/// A policy to convert, or one that stays.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub policy: Policy,
    pub dialect: Dialect,
    /// Where it stands; nowhere, when its tier does not exist.
    pub place: Option<Place>,
    pub concerned: Concerned,
}

/// What rules are worth, by their subjects and direction.
pub type Worths = HashMap<(Arc<[Subject]>, Direction), Worth>;

/// The input of an attempt: the policies to convert, those that stay, and what was computed about them so far.
#[derive(Debug)]
pub(super) struct Conversion<'w> {
    pub world: &'w World,
    pub originals: &'w Originals,
    /// The world before, to look up groups.
    pub snapshot: Snapshot,
    /// The policies to convert, by kind, namespace and name.
    pub origins: Vec<Origin>,
    /// Those that stay, because they are in the right dialect already, or because nobody asked for them.
    pub staying: Vec<Origin>,
    /// Thorium's policies as NetworkPolicies, if they are to be converted.
    pub compiled: Vec<Written>,
    /// Thorium's policies in the rule language, which those take the place of.
    thorium: Vec<Policy>,
    /// Subjects that were compared so far, to see whether policies meet.
    pub compared: Cell<usize>,
    /// Values that were written so far.
    pub written: Cell<usize>,
    /// What rules of policies that add up are worth, by whom they apply to: rules of a policy share that.
    pub worths: RefCell<Worths>,
    /// Objects that are in the right dialect already, as they were written; and those that cannot be read.
    at_home: (Vec<Written>, Vec<Diagnostic>),
}

/// What came of an attempt.
#[derive(Debug)]
pub(super) struct Attempt {
    /// What was in the right dialect already.
    pub at_home: Vec<Written>,
    /// What is new in it.
    pub objects: Vec<Written>,
    pub replaced: Vec<Arc<Object>>,
    pub found: Vec<Diagnostic>,
    failed: BTreeSet<usize>,
    thorium_failed: bool,
}

// === impl Conversion ===

impl<'w> Conversion<'w> {
    pub fn new(
        world: &'w World,
        originals: &'w Originals,
        before: &Objects,
        request: &Request,
        kept: &BTreeSet<Arc<Object>>,
    ) -> Self {
        let tiers = tiers(world);
        let place = |policy: &Policy| match &policy.placement {
            Placement::Union => Some(Place::UNION),
            Placement::Tier { tier, priority } => {
                let number = match tier {
                    Tier::Fixed(number, _) => Some(*number),
                    Tier::Named(name) => tiers.get(name).copied(),
                };
                number.map(|tier| Place { tier, priority: *priority })
            }
        };
        let wanted = |dialect: Dialect| request.from.is_empty() || request.from.contains(&dialect);
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
            worths: RefCell::default(),
            at_home: at_home(world, originals, request.to),
        };
        for policy in conversion.snapshot.policies() {
            let dialect = policy.object.dialect;
            let origin = Origin::new(policy.clone(), dialect, place(policy));
            let goes = wanted(dialect) && dialect != request.to.dialect() && !kept.contains(&policy.object);
            match (goes, dialect) {
                (true, Dialect::Thorium) => conversion.thorium.push(origin.policy),
                (true, _) => conversion.origins.push(origin),
                (false, _) => conversion.staying.push(origin),
            }
        }
        // One instance: its policies go together or not at all.
        let stays = |origin: &Origin| origin.dialect == Dialect::Thorium;
        if conversion.staying.iter().any(stays) {
            let back = std::mem::take(&mut conversion.thorium);
            let origin = |policy| Origin::new(policy, Dialect::Thorium, Some(Place::UNION));
            conversion.staying.extend(back.into_iter().map(origin));
        }
        if !conversion.thorium.is_empty()
            && let Some(instance) = world.thorium_instance()
        {
            let holds = |object: &&NetworkPolicy| is_in_force(object, &conversion.thorium);
            conversion.compiled =
                compile(&instance).iter().filter(holds).map(NetworkPolicy::written).collect();
            if request.to != Target::NetworkPolicy {
                conversion.origins.extend(compiled_policies(&conversion.compiled));
            }
        }
        conversion
    }

    /// Thorium's policies that are converted, as they are now.
    pub fn thorium(&self) -> impl Iterator<Item = &Policy> {
        self.thorium.iter()
    }

    /// Says it all in the words of the target.
    pub fn attempt(&self, target: Target) -> Attempt {
        let mut speech = Speech::default();
        self.at_home.1.iter().for_each(|one| speech.found.add(one.clone()));
        let thorium_failed = self.readable(&mut speech);
        match target {
            Target::NetworkPolicy => networkpolicy::say(self, &mut speech),
            Target::ClusterNetworkPolicy => cluster::say(self, &mut speech),
            Target::AdminNetworkPolicy => admin::say(self, &mut speech),
            Target::Antrea => antrea::say(self, &mut speech),
        }
        crossings(self, &mut speech);
        changes(self, &mut speech);
        let Speech { said, found, failed, beside, gone } = speech;
        let replaced = self.origins.iter().filter(|origin| origin.dialect != Dialect::Thorium);
        let mut replaced: Vec<&Origin> = replaced.collect();
        replaced.sort_by_key(|origin| std::cmp::Reverse(origin.place));
        let replaced = replaced.into_iter().map(|origin| &origin.policy).chain(&self.thorium);
        Attempt {
            at_home: self.at_home.0.clone(),
            objects: beside.into_iter().chain(said.into_iter().filter_map(|said| said.object)).collect(),
            replaced: replaced.map(|policy| Arc::clone(&policy.object)).chain(gone).collect(),
            found: found.list,
            failed,
            thorium_failed,
        }
    }

    /// What cannot be read, and what names something that is not there. Says whether anything of Thorium's is.
    fn readable(&self, speech: &mut Speech) -> bool {
        let context = Context { snapshot: &self.snapshot, options: Options::default() };
        for (index, origin) in self.origins.iter().enumerate() {
            if let Some(what) = &origin.policy.unreadable {
                let why = format!("the policy cannot be read ({what})");
                speech.cannot(&codes::UNREADABLE, self, index, None, "", why);
            }
            if origin.place.is_none() {
                let why = "the policy names a tier that does not exist".to_owned();
                speech.cannot(&codes::UNREADABLE, self, index, None, ".tier", why);
            }
            for rule in &origin.policy.rules {
                self.grouped(index, rule, speech);
                if let Some(what) = resolve::unknown(rule, &context.snapshot) {
                    let why = format!("the rule cannot be read ({what})");
                    speech.cannot(&codes::UNREADABLE, self, index, Some(rule), "", why);
                }
            }
        }
        let mut failed = false;
        for policy in &self.thorium {
            let unknown = policy.rules.iter().find_map(Rule::unknown);
            if let Some(what) = policy.unreadable.as_deref().or(unknown) {
                let why = format!("the policy cannot be read ({what})");
                speech.found.add(about(&codes::UNREADABLE, &policy.object, why));
                failed = true;
            }
        }
        failed
    }

    /// Reports the groups that a rule names. Those it applies to are written out. A group that does not exist has no
    /// members yet: written out it would never have any, so that the rule stays as it is.
    fn grouped(&self, index: usize, rule: &Rule, speech: &mut Speech) {
        for subject in rule.subjects.iter() {
            let Subject::Group { group, .. } = subject else { continue };
            let why = match self.snapshot.group(group) {
                Ok(members) if !affords(self, members.len()) => {
                    let why = format!("group {group} is too much to write out, with all others");
                    speech.cannot(&codes::TOO_MUCH, self, index, Some(rule), ".appliedTo", why);
                    continue;
                }
                Ok(_) if self.snapshot.has_group(group) => {
                    let message = format!("group {group} is written out: {FOLLOWS_NOT}");
                    speech.note(&codes::GROUP, self, index, None, ".appliedTo", message);
                    continue;
                }
                Ok(_) => format!("it applies to group {group}, which does not exist"),
                Err(why) => format!("it applies to group {group}: {why}"),
            };
            speech.cannot(&codes::UNREADABLE, self, index, Some(rule), "", why);
        }
        let Peers::Of(peers) = &rule.peers else { return };
        for peer in peers {
            if let Peer::Group(group) = peer
                && !self.snapshot.has_group(group)
            {
                let why = format!("it names group {group}, which does not exist");
                speech.cannot(&codes::UNREADABLE, self, index, Some(rule), "", why);
            }
        }
    }

    /// The words for names that are taken, in a kind of this API group.
    pub fn taken(&self, group: &str, kind: &str) -> Taken {
        let there = self.world.iter().map(|loaded| &loaded.key);
        let there = there.filter(|key: &&Key| key.group == group && key.kind == kind);
        // What is converted away makes room.
        let goes: BTreeSet<Key> =
            self.origins.iter().map(|origin| originals::key(&origin.policy.object)).collect();
        there.filter(|key| !goes.contains(key)).map(|key| (key.namespace.clone(), key.name.clone())).collect()
    }

    /// `metadata` for what says a policy: its labels and annotations, under another name.
    pub fn metadata(&self, origin: &Origin, name: &str, namespace: Option<&str>) -> Written {
        let map = |field| self.originals.map(&origin.policy.object, field);
        // Of a namespace that isolates they are the namespace's own.
        let own = origin.policy.object.kind != "Namespace";
        Written::map([
            ("name", Some(Written::text(name))),
            ("namespace", namespace.map(Written::text)),
            ("labels", map("labels").filter(|_| own)),
            ("annotations", map("annotations").filter(|_| own)),
        ])
    }
}

/// Everything that is in the target's dialect already, as and in the order it was written; and what of it cannot be read.
fn at_home(world: &World, originals: &Originals, target: Target) -> (Vec<Written>, Vec<Diagnostic>) {
    let mut found = Vec::new();
    let mut objects: Vec<(&Location, &Written)> = Vec::new();
    for loaded in world.iter() {
        let antrea = target == Target::Antrea && loaded.key.group == GROUP;
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
            found.push(about(&codes::UNREADABLE, object, format!("it cannot be read ({what})")));
        } else if let Some(object) = originals.by_key(&loaded.key) {
            objects.push((&loaded.at, object));
        }
    }
    objects.sort_by_key(|(at, _)| *at);
    (objects.into_iter().map(|(_, object)| object.clone()).collect(), found)
}

/// Whether somebody has the policy of Thorium that an object was compiled from. One that nobody has selects pods by a
/// label that nobody carries: it says nothing about the instance as it is.
fn is_in_force(object: &NetworkPolicy, policies: &[Policy]) -> bool {
    let Some(meta) = &object.metadata else { return false };
    let origin = meta.annotation(ORIGIN).map_or("", SmolStr::as_str);
    let name = origin.strip_prefix("base:").unwrap_or(origin);
    // A long name is cut off there.
    let stem = name.strip_suffix('…').unwrap_or(name);
    let same = |policy: &Policy| {
        policy.object.namespace == meta.namespace
            && (policy.object.name == name || (stem != name && policy.object.name.starts_with(stem)))
    };
    policies.iter().any(same)
}

/// Thorium's policies as NetworkPolicies in the rule language.
fn compiled_policies(objects: &[Written]) -> Vec<Origin> {
    let text = Source::new("Thorium's policies", written::yaml(objects));
    let mut world = World::default();
    load(&text, &Limits::default(), &mut world, &mut Vec::new());
    let origin = |policy| Origin::new(policy, Dialect::Thorium, Some(Place::UNION));
    world.into_objects().policies.into_iter().map(origin).collect()
}

// === impl Origin ===

impl Origin {
    fn new(policy: Policy, dialect: Dialect, place: Option<Place>) -> Self {
        Origin { concerned: Concerned::by(&policy), policy, dialect, place }
    }

    /// The namespace that a policy is about as a whole.
    pub fn home(&self) -> Option<&SmolStr> {
        let object = &self.policy.object;
        if object.kind == "Namespace" { Some(&object.name) } else { object.namespace.as_ref() }
    }

    /// The name for an object that says the policy.
    pub fn name(&self) -> SmolStr {
        let object = &self.policy.object;
        if object.kind == "Namespace" { "default-deny-ingress".into() } else { object.name.clone() }
    }
}

// === impl Attempt ===

impl Attempt {
    /// The objects of the policies that cannot be said.
    pub fn failed(&self, conversion: &Conversion<'_>) -> Vec<Arc<Object>> {
        let old = |index: &usize| conversion.origins[*index].dialect == Dialect::Antrea2020;
        // The built-in tiers of 2020 have other numbers as soon as there is a policy of today: all go, or none.
        let all_old = self.failed.iter().any(old).then(|| (0..conversion.origins.len()).filter(old));
        let failed: BTreeSet<usize> =
            self.failed.iter().copied().chain(all_old.into_iter().flatten()).collect();
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
