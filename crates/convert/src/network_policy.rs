//! Conversion to NetworkPolicy, `networking.k8s.io/v1`.
//!
//! Policies of Thorium and of the 2016 API form a union as NetworkPolicies do. Rules of tiers can be converted only where,
//! for each namespace and direction, rules that allow come first and rules that deny everything to the same pods follow:
//! then denying everything is isolating. A NetworkPolicy isolates the pods it selects, so a rule that allows may only be
//! written for pods to which the rest is denied anyway.

use std::collections::BTreeMap;

use palisade_analysis::disjoint::are_disjoint;
use palisade_dialects::kubernetes::write::rules as write;
use palisade_dialects::written::Written;
use palisade_model::label::Selector;
use palisade_model::policy::{
    Action, Direction, Namespaces, Peer, Placement, Policy, Rule, Subject, TrafficMatches,
};
use palisade_model::snapshot::Stage;
use smol_str::SmolStr;

use super::conversion::{Conversion, OriginPolicy};
use super::inexpressible::Inexpressible;
use super::names::TakenNames;
use super::output::{ConversionOutput, EmittedObject, PolicyScope};
use super::precedence::{PolicySubjects, Precedence};
use super::union::{DIRECTIONS, covers, opens};
use super::{codes, normalize, rule_lists};

const GROUP: &str = "networking.k8s.io";
const KIND: &str = "NetworkPolicy";

/// Maximum number of union policies that are reported as adding to one policy of a tier.
const MAX_ADDING: usize = 20;
/// Maximum number of comparisons of rules that allow with rules that deny everything, in one attempt.
const MAX_COMPARED: usize = 20_000_000;

/// Content of one NetworkPolicy: for each direction that it isolates, the rules that allow.
type NetworkPolicyDraft = BTreeMap<Direction, Vec<Written>>;

/// Drafts by policy, namespace and pod selector.
type Drafts = BTreeMap<(usize, SmolStr, Selector), NetworkPolicyDraft>;

/// A rule of a tier for one subject in one namespace.
struct NamespacedRule<'s> {
    origin: usize,
    rule: &'s Rule,
    subject: Subject,
    denies_all: bool,
}

/// Emits the policies to convert as NetworkPolicies.
pub(super) fn emit(conversion: &Conversion<'_>, output: &mut ConversionOutput) {
    let mut taken = conversion.taken_names(GROUP, KIND);
    let mut drafts = Drafts::new();
    draft_union(conversion, &mut drafts, output);
    draft_tiers(conversion, &mut drafts, output);
    for object in &conversion.compiled {
        output.companions.push(renamed(object.clone(), &mut taken));
    }
    for ((index, namespace, pods), draft) in drafts {
        let origin = &conversion.origins[index];
        let name = taken.claim(Some(&namespace), &origin.name());
        if name != origin.policy.object.name || origin.own_namespace().is_none() {
            let message = format!("it becomes {namespace}/{name}");
            output.scope(conversion, index).report(&codes::NAME, None, "", message);
        }
        let object = Some(object(conversion, origin, (&namespace, &name), &pods, draft));
        output.emitted.push(EmittedObject { object, origin: index, precedence: Precedence::UNION });
    }
}

/// Drafts the policies of the 2016 API, and the isolation of their namespaces.
fn draft_union(conversion: &Conversion<'_>, drafts: &mut Drafts, output: &mut ConversionOutput) {
    for (index, origin) in conversion.origins.iter().enumerate() {
        if origin.policy.placement != Placement::Union || output.failed.contains(&index) {
            continue;
        }
        let Some(namespace) = origin.own_namespace() else { continue };
        let mut scope = output.scope(conversion, index);
        for isolation in &origin.policy.isolations {
            for pods in selectors(&isolation.subjects) {
                let draft = drafts.entry((index, namespace.clone(), pods)).or_default();
                draft.entry(isolation.direction).or_default();
            }
            let message = format!(
                "the annotation or spec of namespace {namespace} that isolates it is not needed any more"
            );
            scope.report(&codes::LEFT, None, "", message);
        }
        for rule in &origin.policy.rules {
            if !opens(&mut scope, rule) {
                continue;
            }
            for pods in selectors(&rule.subjects) {
                let written = allow_rule(&mut scope, rule, namespace);
                let draft = drafts.entry((index, namespace.clone(), pods)).or_default();
                draft.entry(rule.direction).or_default().extend(written);
            }
        }
    }
}

/// Returns the pod selectors of subjects, which are pods of the policy's own namespace.
fn selectors(subjects: &[Subject]) -> impl Iterator<Item = Selector> {
    subjects.iter().filter_map(|subject| match subject {
        Subject::Pods(set) => Some(set.pods.clone()),
        _ => None,
    })
}

/// Drafts the policies of tiers.
fn draft_tiers(conversion: &Conversion<'_>, drafts: &mut Drafts, output: &mut ConversionOutput) {
    let mut order: Vec<(Precedence, u32, usize, &Rule)> = Vec::new();
    let thorium: Vec<(&Policy, PolicySubjects)> =
        conversion.thorium().map(|policy| (policy, PolicySubjects::of(policy))).collect();
    for (index, origin) in conversion.origins.iter().enumerate() {
        if let (Some(precedence), Placement::Tier { .. }) = (origin.precedence, &origin.policy.placement)
            && !output.failed.contains(&index)
        {
            let thorium = thorium.iter().map(|(policy, subjects)| (*policy, subjects));
            refuse_interference(&mut output.scope(conversion, index), origin, thorium);
            order.extend(origin.policy.rules.iter().map(|rule| (precedence, rule.index, index, rule)));
        }
    }
    order.sort_by_key(|(precedence, at, index, _)| (*precedence, *at, *index));
    let mut by_namespace: BTreeMap<(SmolStr, Direction), Vec<NamespacedRule<'_>>> = BTreeMap::new();
    for (_, _, origin, rule) in order {
        let mut scope = output.scope(conversion, origin);
        let Some(denies_all) = denies_all(&mut scope, rule) else { continue };
        for (namespace, subject) in subjects_by_namespace(&mut scope, rule) {
            let here = by_namespace.entry((namespace, rule.direction)).or_default();
            here.push(NamespacedRule { origin, rule, subject, denies_all });
        }
    }
    let mut compared = 0_usize;
    for ((namespace, direction), rules) in &by_namespace {
        let denying: Vec<usize> = (0..rules.len()).filter(|at| rules[*at].denies_all).collect();
        for (at, one) in rules.iter().enumerate() {
            let mut scope = output.scope(conversion, one.origin);
            if !one.denies_all {
                compared = compared.saturating_add(denying.len());
                if compared > MAX_COMPARED {
                    let reason = "there are too many rules that could deny everything to its pods".to_owned();
                    scope.refuse(&codes::TOO_MUCH, Some(one.rule), "", reason);
                    continue;
                }
            }
            if !one.denies_all && !is_followed_by_isolation(rules, at, &denying, &mut scope) {
                continue;
            }
            let Subject::Pods(set) = &one.subject else { continue };
            let written = match one.denies_all {
                true => None,
                false => allow_rule(&mut scope, one.rule, namespace),
            };
            let draft = drafts.entry((one.origin, namespace.clone(), set.pods.clone())).or_default();
            draft.entry(*direction).or_default().extend(written);
        }
    }
}

/// Refuses a policy of a tier where others would interfere as NetworkPolicies: by adding to it, or by passing to it.
fn refuse_interference<'t>(
    scope: &mut PolicyScope<'t, '_>,
    origin: &OriginPolicy,
    thorium: impl Iterator<Item = (&'t Policy, &'t PolicySubjects)>,
) {
    let conversion = scope.conversion;
    let meets = |other: &PolicySubjects| !origin.subjects.are_disjoint(other, &conversion.compared);
    let adding = conversion.origins.iter().filter(|other| other.policy.placement == Placement::Union);
    let adding = adding.map(|other| (&other.policy, &other.subjects));
    for (other, _) in adding.chain(thorium).filter(|(_, subjects)| meets(subjects)).take(MAX_ADDING) {
        let reason = format!("{} would add to it, and does not now", other.object);
        scope.refuse(&codes::UNION, None, "", reason);
    }
    let passes = |stays: &&OriginPolicy| {
        let before = stays.precedence.is_some_and(|precedence| precedence.stage() == Stage::Tiers);
        before && stays.policy.rules.iter().any(|rule| rule.action == Action::Pass) && meets(&stays.subjects)
    };
    if let Some(stays) = conversion.staying.iter().find(passes) {
        let reason = format!("{} passes over it now, and would pass to it", stays.policy.object);
        scope.refuse(&codes::UNION, None, "", reason);
    }
}

/// Whether a rule denies everything, or else allows something. Refuses all other rules, and returns `None`.
fn denies_all(scope: &mut PolicyScope<'_, '_>, rule: &Rule) -> Option<bool> {
    if rule.log.is_some() {
        let message = "logging cannot be said there".to_owned();
        scope.report(&codes::LOGGING, Some(rule), ".enableLogging", message);
    }
    let any_peer = normalize::peers(scope, rule).is_none_or(|peers| normalize::are_everything(&peers));
    let (code, field, reason) = match rule.action {
        Action::Allow if rule.layer7.is_empty() => return Some(false),
        Action::Deny if any_peer && rule.traffic == TrafficMatches::Any => return Some(true),
        Action::Allow => (&codes::LAYER7, ".l7Protocols", "conditions on layer 7 cannot be said there"),
        Action::Deny => (&codes::UNION, ".action", "it denies something and not everything"),
        Action::Reject => {
            (&codes::ACTION, ".action", "Reject answers, and there what is not allowed is dropped")
        }
        Action::Pass => {
            (&codes::ACTION, ".action", "there is nothing to pass to: NetworkPolicies only allow")
        }
    };
    scope.refuse(code, Some(rule), field, reason.to_owned());
    None
}

/// Returns the subjects of a rule with their namespaces. Refuses those that are not selected by the namespaces' names.
fn subjects_by_namespace(scope: &mut PolicyScope<'_, '_>, rule: &Rule) -> Vec<(SmolStr, Subject)> {
    let mut all = Vec::new();
    for subject in normalize::subjects(scope.conversion, &rule.subjects) {
        let reason = match &subject {
            Subject::Pods(set) => {
                match (normalize::by_labels_alone(set), normalize::namespace_names(&set.namespaces)) {
                    (Err(reason), _) => reason.to_string(),
                    (Ok(()), None) => format!("{set}: a NetworkPolicy is for the pods of one namespace"),
                    (Ok(()), Some(names)) => {
                        for name in names {
                            let mut set = set.clone();
                            set.namespaces = Namespaces::Named(name.clone());
                            all.push((name, Subject::Pods(set)));
                        }
                        continue;
                    }
                }
            }
            other => format!("{other}: only pods can be subjects there"),
        };
        scope.refuse(&codes::SUBJECT, Some(rule), "", format!("cannot apply to {reason}"));
    }
    all
}

/// Whether no rule before denies everything to pods of the allowing rule `at`, and one after it does so to all of them.
/// Refuses the rule otherwise.
fn is_followed_by_isolation(
    rules: &[NamespacedRule<'_>],
    at: usize,
    denying: &[usize],
    scope: &mut PolicyScope<'_, '_>,
) -> bool {
    let allowing = &rules[at];
    let (before, after) = denying.split_at(denying.partition_point(|other| *other < at));
    let denies = |other: &&NamespacedRule<'_>| !are_disjoint(&other.subject, &allowing.subject);
    let mut after = after.iter().map(|at| &rules[*at]);
    let reason = if let Some(before) = before.iter().map(|at| &rules[*at]).find(denies) {
        format!(
            "{} has denied everything to some of its pods already",
            scope.conversion.origins[before.origin].policy.object
        )
    } else if !after.any(|other| covers(&other.subject, &allowing.subject)) {
        "what it does not allow is not denied to all of its pods, and would be".to_owned()
    } else {
        return true;
    };
    scope.refuse(&codes::UNION, Some(allowing.rule), "", reason);
    false
}

/// Writes a rule that allows; `None` when it matches nothing.
fn allow_rule(scope: &mut PolicyScope<'_, '_>, rule: &Rule, namespace: &SmolStr) -> Option<Written> {
    let peer = |one: &Peer| peer(one, namespace).map(|written| vec![written]);
    let (peers, ports) = rule_lists::peers_and_ports(scope, rule, peer)?;
    Some(write::rule(rule.direction, peers, ports))
}

fn peer(peer: &Peer, namespace: &SmolStr) -> Result<Written, Inexpressible> {
    match peer {
        Peer::Pods(set) => {
            let own = match &set.namespaces {
                Namespaces::Own => true,
                Namespaces::Named(name) => name == namespace,
                _ => false,
            };
            let mut named = set.clone();
            if own {
                named.namespaces = Namespaces::Named(namespace.clone());
            }
            normalize::by_labels_alone(&named)?;
            let labels = (own || !set.pods.is_everything()).then_some(&set.pods);
            let namespaces = (!own).then(|| write::namespaces(&set.namespaces));
            Ok(write::pods(namespaces.as_ref(), labels))
        }
        Peer::Addresses(block) => Ok(write::ip_block(block)),
        other => Err(Inexpressible::NeitherPodsNorAddresses(other.clone())),
    }
}

fn object(
    conversion: &Conversion<'_>,
    origin: &OriginPolicy,
    (namespace, name): (&SmolStr, &SmolStr),
    pods: &Selector,
    mut draft: NetworkPolicyDraft,
) -> Written {
    let types: Vec<Direction> =
        DIRECTIONS.into_iter().filter(|direction| draft.contains_key(direction)).collect();
    let mut rules = |direction| draft.remove(&direction).filter(|rules| !rules.is_empty());
    let (ingress, egress) = (rules(Direction::Ingress), rules(Direction::Egress));
    write::network_policy(conversion.metadata(origin, name, Some(namespace)), pods, &types, ingress, egress)
}

/// Renames a compiled object where its name is taken.
fn renamed(mut object: Written, taken: &mut TakenNames) -> Written {
    let text = |object: &Written, field: &str| match object.get("metadata").and_then(|meta| meta.get(field)) {
        Some(Written::Text(text)) => Some(SmolStr::from(text.as_str())),
        _ => None,
    };
    let (namespace, name) = (text(&object, "namespace"), text(&object, "name").unwrap_or_default());
    let name = taken.claim(namespace.as_ref(), &name);
    if let Written::Map(fields) = &mut object
        && let Some((_, Written::Map(meta))) = fields.iter_mut().find(|(key, _)| key == "metadata")
        && let Some(field) = meta.iter_mut().find(|(key, _)| key == "name")
    {
        field.1 = Written::text(name.as_str());
    }
    object
}
