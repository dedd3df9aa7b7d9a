//! Policies whose order nobody has decided.

use std::collections::{BTreeMap, BTreeSet};

use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_model::label::{Operator, Selector};
use palisade_model::matching::{Context, Endpoint};
use palisade_model::options::Options;
use palisade_model::policy::{Direction, Namespaces, Placement, PodSet, Policy, Priority, Rule, Subject};
use palisade_model::snapshot::Snapshot;

use super::{about, conflict, pods};

/// A tie.
pub static TIE: Code = Code {
    id: "L0107",
    severity: Severity::Warning,
    title: "two policies of one tier have the same priority and apply to the same pods",
    explanation: "Which of the two comes first is not defined: an implementation may take either, and OVN-Kubernetes calls it illegal. Antrea interleaves the rules of policies with equal priority by their index, and leaves open which of two rules with the same index comes first. Palisade does the same, and settles what is left by kind, namespace and name, so its answers are stable, but the cluster's may differ. Where the order decides a connection, one is named with the rules that disagree about it. Give the policies different priorities.",
};

/// The same priority, with nobody in common.
pub static SAME_PRIORITY: Code = Code {
    id: "L0108",
    severity: Severity::Note,
    title: "two policies of one tier have the same priority",
    explanation: "No pod that is known is subject to both, so nothing depends on their order now. A new pod or label may change that, and OVN-Kubernetes does not support equal priorities at all.",
};

/// OVN-Kubernetes' limit.
pub static OVN_LIMIT: Code = Code {
    id: "L0110",
    severity: Severity::Note,
    title: "more, or a later priority, than OVN-Kubernetes supports",
    explanation: "The API allows priorities from 0 to 1000; OVN-Kubernetes supports AdminNetworkPolicies with priorities from 0 to 99 and at most 100 of them.",
};

/// As many AdminNetworkPolicies OVN-Kubernetes supports.
const OVN_MOST_POLICIES: usize = 100;

/// Pairs reported for one priority; the rest would say the same again.
const MOST_PAIRS: usize = 10;

/// Pairs compared for one priority: a cluster may have thousands of policies at one.
const MOST_COMPARED: usize = 20_000;

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
    if let Some(beyond) = admin.nth(OVN_MOST_POLICIES) {
        let message =
            format!("more than the {OVN_MOST_POLICIES} AdminNetworkPolicies that OVN-Kubernetes supports");
        found.push(about(&OVN_LIMIT, &beyond.object, message));
    }
    // By the number of the tier: two names may stand for one place.
    let mut peers: BTreeMap<(u8, Priority), BTreeSet<usize>> = BTreeMap::new();
    for ranked in snapshot.ranked().iter().filter(|ranked| !ranked.unplaced) {
        peers.entry((ranked.tier, ranked.priority)).or_default().insert(ranked.policy);
    }
    for ((_, priority), policies) in peers {
        let policies: Vec<&Policy> = policies.iter().map(|at| &snapshot.policies()[*at]).collect();
        let pairs = policies
            .iter()
            .enumerate()
            .flat_map(|(index, a)| policies[index + 1..].iter().map(move |b| (*a, *b)));
        let ties =
            pairs.take(MOST_COMPARED).filter_map(|(a, b)| report(&context, a, b, priority)).take(MOST_PAIRS);
        found.extend(ties);
    }
}

fn report(context: &Context<'_>, a: &Policy, b: &Policy, priority: Priority) -> Option<Diagnostic> {
    if shared(a, b).is_empty() || disjoint_policies(a, b) {
        return None;
    }
    let names = format!("{} and {} have the same priority {priority}", a.object, b.object.full_name());
    let (code, message) = match conflict::find(context, a, b) {
        Some(conflict) => (&TIE, format!("{names}, and {conflict}")),
        // Antrea says what equal priorities mean: rules interleave by index. Only equal places are left open.
        None if a.object.api == "Antrea" && b.object.api == "Antrea" => return None,
        None => {
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

/// The directions that both speak about.
fn shared(a: &Policy, b: &Policy) -> Vec<Direction> {
    let speaks = |policy: &Policy, direction| policy.rules.iter().any(|rule| rule.direction == direction);
    Direction::BOTH.into_iter().filter(|direction| speaks(a, *direction) && speaks(b, *direction)).collect()
}

fn applies(context: &Context<'_>, policy: &Policy, direction: Direction, pod: usize) -> bool {
    policy
        .rules
        .iter()
        .any(|rule| rule.direction == direction && context.applies(&rule.subjects, Endpoint::Pod(pod)))
}

/// Whether no pod at all can be subject to both.
fn disjoint_policies(a: &Policy, b: &Policy) -> bool {
    let subjects = |policy: &Policy| -> Vec<Subject> {
        policy.rules.iter().flat_map(|rule: &Rule| rule.subjects.iter().cloned()).collect()
    };
    let disjoint = |a: &Subject, b: &Subject| match (a, b) {
        (Subject::Pods(a), Subject::Pods(b)) => disjoint_sets(a, b),
        (Subject::Nodes(a), Subject::Nodes(b)) => disjoint(a, b),
        (Subject::Service(a), Subject::Service(b)) => a != b,
        (Subject::Group { .. }, _) | (_, Subject::Group { .. }) => false,
        _ => true,
    };
    let (a, b) = (subjects(a), subjects(b));
    a.iter().all(|a| b.iter().all(|b| disjoint(a, b)))
}

fn disjoint_sets(a: &PodSet, b: &PodSet) -> bool {
    let namespaces = match (&a.namespaces, &b.namespaces) {
        (Namespaces::Named(a), Namespaces::Named(b)) => a != b,
        (Namespaces::Matching(a), Namespaces::Matching(b)) => disjoint(a, b),
        _ => false,
    };
    namespaces || disjoint(&a.pods, &b.pods)
}

/// Whether no labels can satisfy both. `false` means only that it is not obvious.
fn disjoint(a: &Selector, b: &Selector) -> bool {
    a.requirements().iter().any(|x| {
        b.requirements().iter().filter(|y| x.key == y.key).any(|y| match (&x.operator, &y.operator) {
            (Operator::In(a), Operator::In(b)) => !a.iter().any(|value| b.contains(value)),
            (Operator::In(a), Operator::NotIn(b)) | (Operator::NotIn(b), Operator::In(a)) => {
                a.iter().all(|value| b.contains(value))
            }
            (Operator::In(_) | Operator::Exists, Operator::DoesNotExist)
            | (Operator::DoesNotExist, Operator::In(_) | Operator::Exists) => true,
            _ => false,
        })
    })
}
