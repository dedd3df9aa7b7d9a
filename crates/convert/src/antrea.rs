//! Conversion to Antrea, `crd.antrea.io/v1beta1`: cluster-wide policies become ClusterNetworkPolicies, those of a namespace
//! NetworkPolicies.
//!
//! ClusterNetworkPolicy's tier Admin stands at 220, and AdminNetworkPolicy at 251, where Antrea allows no tier. Both go to
//! the last tier before, behind the policies that are there: `platform` and `application`, unless custom tiers lie between.
//! NetworkPolicies, and everything behind them, go to `baseline`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use palisade_dialects::antrea::{GROUP, GROUP_2020, tiers, write};
use palisade_dialects::object::Lowered;
use palisade_dialects::written::Written;
use palisade_model::policy::{Action, Dialect, Direction, Namespaces, Peer, Placement, Rule, Subject, Tier};
use palisade_model::snapshot::Stage;
use smol_str::SmolStr;

use super::conversion::{Conversion, OriginPolicy};
use super::inexpressible::Inexpressible;
use super::names::{TakenNames, suffixed};
use super::output::{ConversionOutput, EmittedObject, PolicyScope};
use super::precedence::Precedence;
use super::priorities::{self, PreferredPriority, PriorityRange};
use super::slots::{DialectWriter, PolicyDraft, PrioritySlot, slots};
use super::{codes, normalize, rule_lists};

/// Tiers that every cluster has, with their priorities.
const BUILT_IN: [(&str, u8); 6] = [
    ("emergency", 50),
    ("securityops", 100),
    ("networkops", 150),
    ("platform", 200),
    ("application", 250),
    ("baseline", 253),
];
const PRIORITIES: PriorityRange = PriorityRange { min: 1.0, max: 10000.0, fractions: true };
/// Added to priorities of `policy.networking.k8s.io`, which begin at 0.
const SHIFT: f64 = 1.0;

struct AntreaWriter;

/// Names in use, by kind.
struct TakenPolicyNames {
    cluster: TakenNames,
    namespaced: TakenNames,
}

/// Emits the policies to convert, and the tiers of 2020 that they are in.
pub(super) fn emit(conversion: &Conversion<'_>, output: &mut ConversionOutput) {
    let known = known_tiers(conversion, output);
    let slots = slots(conversion, &AntreaWriter, output);
    let mut by_tier: BTreeMap<(u8, SmolStr), Vec<&PrioritySlot>> = BTreeMap::new();
    for slot in &slots {
        let origin = slot.drafts.first().map(|draft| &conversion.origins[draft.origin]);
        if let Some((name, number)) = origin.and_then(|origin| tier_for(origin, slot.from, &known)) {
            by_tier.entry((number, name)).or_default().push(slot);
        }
    }
    let mut taken = TakenPolicyNames {
        cluster: conversion.taken_names(GROUP, "ClusterNetworkPolicy"),
        namespaced: conversion.taken_names(GROUP, "NetworkPolicy"),
    };
    for ((number, tier), slots) in by_tier {
        for (slot, priority) in priorities::assign(conversion, &slots, number, PRIORITIES, output) {
            for draft in &slot.drafts {
                let mut scope = output.scope(conversion, draft.origin);
                let object = Some(object(&mut scope, draft, &tier, priority, &mut taken));
                let precedence = Precedence::new(number, priority);
                output.emitted.push(EmittedObject { object, origin: draft.origin, precedence });
            }
        }
    }
}

/// Returns the priorities of all tiers by name, those of the 2020 API as converted; emits the latter as objects of today's
/// API.
fn known_tiers(conversion: &Conversion<'_>, output: &mut ConversionOutput) -> BTreeMap<SmolStr, u8> {
    let built_in = |name: &str| BUILT_IN.iter().any(|(known, _)| *known == name);
    let mut known: BTreeMap<SmolStr, u8> =
        BUILT_IN.iter().map(|(name, number)| (SmolStr::new_static(name), *number)).collect();
    let written = tiers(conversion.world).into_iter().filter(|(name, _)| !built_in(name));
    known.extend(written);
    if !conversion.origins.iter().any(|origin| origin.dialect == Dialect::Antrea2020) {
        return known;
    }
    for loaded in conversion.world.iter().filter(|loaded| loaded.key.group == GROUP_2020) {
        let Lowered::Tier(tier) = &loaded.lowered else { continue };
        output.obsolete.push(Arc::clone(&tier.object));
        let name = &tier.object.name;
        let today = conversion
            .world
            .iter()
            .any(|other| other.key.group == GROUP && other.key.kind == "Tier" && other.key.name == *name);
        if let Some(number) = tier.priority.filter(|_| !built_in(name) && !today) {
            output.companions.push(write::tier(name, number));
            // No two tiers may have one priority, and the built-in ones have others today than in 2020.
            if known.iter().any(|(other, taken)| other != name && *taken == number) {
                for (index, origin) in conversion.origins.iter().enumerate() {
                    if matches!(&origin.policy.placement, Placement::Tier { tier: Tier::Named(own), .. } if own == name)
                    {
                        let reason =
                            format!("tier {name} has the number {number}, which another tier has today");
                        output.scope(conversion, index).refuse(&codes::ORDER, None, ".tier", reason);
                    }
                }
            }
        }
    }
    known
}

/// Returns name and priority of the tier that a policy goes to.
fn tier_for(origin: &OriginPolicy, from: Precedence, known: &BTreeMap<SmolStr, u8>) -> Option<(SmolStr, u8)> {
    if origin.dialect == Dialect::Antrea2020 {
        let Placement::Tier { tier: Tier::Named(name), .. } = &origin.policy.placement else { return None };
        return known.get(name).map(|number| (name.clone(), *number));
    }
    let before = match from.stage() {
        Stage::Tiers => from.tier,
        _ => return Some((SmolStr::new_static("baseline"), 253)),
    };
    let last = known.iter().filter(|(_, number)| **number < before).max_by_key(|(_, number)| **number);
    last.map(|(name, number)| (name.clone(), *number))
}

fn object(
    scope: &mut PolicyScope<'_, '_>,
    draft: &PolicyDraft,
    tier: &SmolStr,
    priority: f64,
    taken: &mut TakenPolicyNames,
) -> Written {
    let conversion = scope.conversion;
    let origin = &conversion.origins[draft.origin];
    let namespace = origin.own_namespace();
    let (kind, taken) = match namespace {
        None => ("ClusterNetworkPolicy", &mut taken.cluster),
        Some(_) => ("NetworkPolicy", &mut taken.namespaced),
    };
    // Rules that isolate have an object of their own: those that allow, of every policy, come first.
    let keeps_name = !draft.isolates || origin.policy.rules.is_empty();
    let wanted = if keeps_name { origin.name() } else { suffixed(&origin.name(), "-isolation") };
    let name = taken.claim(namespace, &wanted);
    if keeps_name && name != origin.policy.object.name {
        scope.report(&codes::NAME, None, "", format!("it becomes {name}"));
    }
    let (mut ingress, mut egress) = (draft.ingress.clone(), draft.egress.clone());
    distinct_names(&mut ingress, &mut egress);
    let metadata = conversion.metadata(origin, &name, namespace.map(SmolStr::as_str));
    write::policy(kind, metadata, (tier, priority), draft.subjects.clone(), (ingress, egress))
}

/// Makes the names of a policy's rules distinct. Antrea derives a missing name from the rule's content, so of equal rules
/// without a name all but the first get one.
fn distinct_names(ingress: &mut [Written], egress: &mut [Written]) {
    let mut taken = TakenNames::default();
    let mut unnamed: BTreeSet<Written> = BTreeSet::new();
    for (word, rules) in [("ingress", ingress), ("egress", egress)] {
        unnamed.clear();
        for (index, rule) in rules.iter_mut().enumerate() {
            let twin = rule.get("name").is_none() && unnamed.contains(rule);
            if rule.get("name").is_none() && !twin {
                unnamed.insert(rule.clone());
                continue;
            }
            let wanted = match rule.get("name") {
                Some(Written::Text(name)) => name.clone(),
                _ => format!("{word}-{index}"),
            };
            let name = Written::text(taken.claim(None, &wanted).as_str());
            if let Written::Map(fields) = rule {
                match fields.iter_mut().find(|(key, _)| key == "name") {
                    Some(field) => field.1 = name,
                    None => fields.insert(0, ("name".to_owned(), name)),
                }
            }
        }
    }
}

fn peer(peer: &Peer, namespace: Option<&SmolStr>) -> Result<Vec<Written>, Inexpressible> {
    match peer {
        Peer::Pods(set) if matches!(set.namespaces, Namespaces::NotSameLabels(_)) => {
            Err(Inexpressible::DivergentNamespaces(set.clone()))
        }
        Peer::Pods(set) => Ok(vec![write::pods(set, namespace)]),
        Peer::Addresses(block) if block.cidr().addr().is_multicast() => {
            Err(Inexpressible::Multicast(block.clone()))
        }
        Peer::Addresses(block) => Ok(vec![write::ip_block(block)]),
        Peer::Nodes(selector) => Ok(vec![write::nodes(selector)]),
        Peer::Names(names) => names
            .iter()
            .map(|name| write::fqdn(name).ok_or_else(|| Inexpressible::DomainName(name.clone())))
            .collect(),
        other => Err(Inexpressible::Peer(other.clone())),
    }
}

// === impl AntreaWriter ===

impl DialectWriter for AntreaWriter {
    fn max_rules(&self) -> usize {
        usize::MAX
    }

    fn has_single_subject(&self) -> bool {
        false
    }

    fn subjects(&self, scope: &mut PolicyScope<'_, '_>, subjects: &[Subject]) -> Vec<Written> {
        let namespace = scope.conversion.origins[scope.origin].own_namespace();
        let mut written = Vec::new();
        for subject in subjects {
            match subject {
                Subject::Pods(set) if normalize::by_labels_alone(set).is_ok() => {
                    written.push(write::pods(set, namespace));
                }
                other => scope.refuse(&codes::SUBJECT, None, "", format!("cannot apply to {other}")),
            }
        }
        written
    }

    fn rule(&self, scope: &mut PolicyScope<'_, '_>, rule: &Rule, stage: Stage) -> Vec<Written> {
        let namespace = scope.conversion.origins[scope.origin].own_namespace();
        let lists = rule_lists::peers_and_ports(scope, rule, |one| peer(one, namespace));
        let Some((peers, ports)) = lists else { return Vec::new() };
        // Behind the baseline everything is allowed, and Antrea refuses Pass in that tier.
        let action = match rule.action {
            Action::Pass if stage == Stage::Baseline => Action::Allow,
            action => action,
        };
        vec![write::rule(rule, action, peers, ports)]
    }

    fn deny_all(&self, _: Direction) -> Option<Written> {
        Some(write::drop_all())
    }

    fn may_tie(&self, _: Dialect) -> bool {
        true
    }

    fn preferred_priority(&self, origin: &OriginPolicy) -> PreferredPriority {
        match (origin.dialect, origin.precedence) {
            (Dialect::Antrea2020, Some(precedence)) => PreferredPriority::Exactly(precedence.priority.0),
            (_, Some(precedence)) => PreferredPriority::Exactly(precedence.priority.0 + SHIFT),
            _ => PreferredPriority::Anywhere,
        }
    }
}
