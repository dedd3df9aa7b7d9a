//! Lint for policies of equal priority, whose order is undefined.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use palisade_analysis::disjoint::are_disjoint;
use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_model::matching::{Context, Endpoint};
use palisade_model::options::Options;
use palisade_model::policy::{Direction, Placement, Policy, Priority, Subject};
use palisade_model::snapshot::Snapshot;

use super::conflict::{ConflictSearch, OrderDependence};
use super::{about, pods};

/// Equal priorities, and pods or connections that both apply to.
pub static TIE: Code = Code {
    id: "L0107",
    severity: Severity::Warning,
    title: "two policies of one tier have the same priority and apply to the same pods",
    explanation: "Which of the two comes first is not defined: an implementation may take either, and OVN-Kubernetes calls it illegal. Antrea interleaves the rules of policies with equal priority by their index, and leaves open which of two rules with the same index comes first. Palisade does the same, and settles what is left by kind, namespace and name, so its answers are stable, but the cluster's may differ. Where the order decides a connection, one is named with the rules that disagree about it. Give the policies different priorities.",
};

/// Equal priorities, without pods in common.
pub static SAME_PRIORITY: Code = Code {
    id: "L0108",
    severity: Severity::Note,
    title: "two policies of one tier have the same priority",
    explanation: "No pod that is known is subject to both, so nothing depends on their order now. A new pod or label may change that, and OVN-Kubernetes does not support equal priorities at all.",
};

/// Limits of OVN-Kubernetes on AdminNetworkPolicies.
pub static OVN_LIMIT: Code = Code {
    id: "L0110",
    severity: Severity::Note,
    title: "more, or a later priority, than OVN-Kubernetes supports",
    explanation: "The API allows priorities from 0 to 1000; OVN-Kubernetes supports AdminNetworkPolicies with priorities from 0 to 99 and at most 100 of them.",
};

/// Maximum number of AdminNetworkPolicies that OVN-Kubernetes supports.
const OVN_MAX_POLICIES: usize = 100;

/// Maximum number of pairs reported for one priority; the rest is counted.
const MAX_PAIRS: usize = 10;

/// Maximum number of pairs compared for one priority: a cluster may have thousands of policies at one.
const MAX_COMPARED: usize = 20_000;

pub(super) fn check(snapshot: &Snapshot, found: &mut Vec<Diagnostic>) {
    let context = Context { snapshot, options: Options::default() };
    for policy in snapshot.policies() {
        if let Placement::Tier { priority, .. } = &policy.placement
            && policy.object.kind == "AdminNetworkPolicy"
            && priority.0 > 99.0
        {
            let message = format!("priority {priority} is beyond the 99 that OVN-Kubernetes supports");
            found.push(about(&OVN_LIMIT, &policy.object, message).field("spec.priority"));
        }
    }
    let mut admin = snapshot.policies().iter().filter(|policy| policy.object.kind == "AdminNetworkPolicy");
    if let Some(beyond) = admin.nth(OVN_MAX_POLICIES) {
        let message =
            format!("more than the {OVN_MAX_POLICIES} AdminNetworkPolicies that OVN-Kubernetes supports");
        found.push(about(&OVN_LIMIT, &beyond.object, message));
    }
    // By the number of the tier: two tiers may have one number.
    let mut peers: BTreeMap<(u8, Priority), BTreeSet<usize>> = BTreeMap::new();
    for ranked in snapshot.ranked().iter().filter(|ranked| !ranked.unplaced) {
        peers.entry((ranked.tier, ranked.priority)).or_default().insert(ranked.policy);
    }
    let mut search = ConflictSearch::new(context);
    for ((_, priority), policies) in peers {
        let policies: Vec<&Policy> = policies.iter().map(|at| &snapshot.policies()[*at]).collect();
        let mut reported = 0;
        let mut pairs = pairs(&policies).take(MAX_COMPARED);
        while reported < MAX_PAIRS
            && let Some((a, b)) = pairs.next()
        {
            if let Some(tie) = report(&context, &mut search, a, b, priority) {
                found.push(tie);
                reported += 1;
            }
        }
        let more = pairs.filter(|(a, b)| !shared(a, b).is_empty() && !disjoint_policies(a, b)).count();
        if let Some(last) = found.last_mut().filter(|_| more > 0) {
            let noun = if more == 1 { "pair" } else { "pairs" };
            let all = format!(
                "; {more} more {noun} of policies with priority {priority} may have the same trouble"
            );
            last.help = Some(last.help.take().unwrap_or_default() + &all);
        }
    }
}

/// Returns the pairs of policies that can apply to the same pods: not those of two namespaces.
fn pairs<'p>(policies: &'p [&'p Policy]) -> impl Iterator<Item = (&'p Policy, &'p Policy)> {
    let mut by_namespace: BTreeMap<Option<&str>, Vec<&Policy>> = BTreeMap::new();
    for policy in policies {
        by_namespace.entry(policy.object.namespace.as_deref()).or_default().push(policy);
    }
    let cluster = by_namespace.get(&None).cloned().unwrap_or_default();
    let across =
        |(namespace, own_policies): (Option<&str>, Vec<&'p Policy>)| -> Vec<(&'p Policy, &'p Policy)> {
            let own = own_policies
                .iter()
                .enumerate()
                .flat_map(|(at, a)| own_policies[at + 1..].iter().map(|b| (*a, *b)));
            let mut pairs: Vec<_> = own.take(MAX_COMPARED).collect();
            if namespace.is_some() {
                let with = cluster.iter().flat_map(|a| own_policies.iter().map(|b| (*a, *b)));
                pairs.extend(with.take(MAX_COMPARED));
            }
            pairs
        };
    let all: Vec<_> = by_namespace.into_iter().flat_map(across).take(MAX_COMPARED).collect();
    all.into_iter()
}

fn report(
    context: &Context<'_>,
    search: &mut ConflictSearch<'_>,
    a: &Policy,
    b: &Policy,
    priority: Priority,
) -> Option<Diagnostic> {
    if shared(a, b).is_empty() || disjoint_policies(a, b) {
        return None;
    }
    let names = format!("{} and {} have the same priority {priority}", a.object, b.object.full_name());
    let both_antrea = a.object.dialect.is_antrea() && b.object.dialect.is_antrea();
    let (code, message) = match search.between(a, b) {
        OrderDependence::Conflict(conflict) => (&TIE, format!("{names}, and {conflict}")),
        // Antrea defines equal priorities: rules interleave by index. Only rules of one index are undefined.
        OrderDependence::Nothing if both_antrea => return None,
        OrderDependence::Disagreement if both_antrea => {
            let nobody_known = pods(context.snapshot).next().is_none();
            let message = format!("{names}, and rules at the same place disagree");
            (if nobody_known { &TIE } else { &SAME_PRIORITY }, message)
        }
        OrderDependence::Disagreement | OrderDependence::Nothing => {
            let both = |pod: &usize| {
                shared(a, b).into_iter().any(|d| applies(context, a, d, *pod) && applies(context, b, d, *pod))
            };
            match pods(context.snapshot).find(both) {
                Some(pod) => {
                    let pod = &context.snapshot.pods()[pod];
                    (&TIE, format!("{names}, and both apply to {}/{}", pod.namespace, pod.name))
                }
                None if pods(context.snapshot).next().is_none() => {
                    (&TIE, format!("{names}, and may apply to the same pods"))
                }
                None => (&SAME_PRIORITY, names),
            }
        }
    };
    let at =
        b.object.at.as_ref().map(|at| format!("give one of them another priority; the other is at {at}"));
    let diagnostic = about(code, &a.object, message).field("spec.priority");
    Some(diagnostic.help(at.unwrap_or_else(|| "give one of them another priority".to_owned())))
}

/// Returns the directions in which both have rules.
fn shared(a: &Policy, b: &Policy) -> Vec<Direction> {
    let has_rules = |policy: &Policy, direction| policy.rules.iter().any(|rule| rule.direction == direction);
    Direction::BOTH
        .into_iter()
        .filter(|direction| has_rules(a, *direction) && has_rules(b, *direction))
        .collect()
}

fn applies(context: &Context<'_>, policy: &Policy, direction: Direction, pod: usize) -> bool {
    policy
        .rules
        .iter()
        .any(|rule| rule.direction == direction && context.applies(&rule.subjects, Endpoint::Pod(pod)))
}

/// Whether no pod can be subject to both. Policies with many subjects are not compared.
fn disjoint_policies(a: &Policy, b: &Policy) -> bool {
    let (a, b) = (distinct(a), distinct(b));
    a.len().saturating_mul(b.len()) < MAX_COMPARED && a.iter().all(|a| b.iter().all(|b| are_disjoint(a, b)))
}

/// Returns the distinct subjects of a policy: most have one list for all of their rules.
fn distinct(policy: &Policy) -> BTreeSet<&Subject> {
    let mut last: Option<&Arc<[Subject]>> = None;
    let mut subjects = BTreeSet::new();
    for rule in &policy.rules {
        if !last.is_some_and(|last| Arc::ptr_eq(last, &rule.subjects)) {
            subjects.extend(rule.subjects.iter());
            last = Some(&rule.subjects);
        }
    }
    subjects
}
