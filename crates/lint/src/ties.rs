//! Policies whose order nobody has decided.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use palisade_analysis::disjoint::are_disjoint;
use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_model::matching::{Context, Endpoint};
use palisade_model::options::Options;
use palisade_model::policy::{Direction, Placement, Policy, Priority, Subject};
use palisade_model::snapshot::Snapshot;

use super::conflict::{Found, Search};
use super::{about, pods};

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
    let mut search = Search::new(context);
    for ((_, priority), policies) in peers {
        let policies: Vec<&Policy> = policies.iter().map(|at| &snapshot.policies()[*at]).collect();
        let mut reported = 0;
        let mut pairs = pairs(&policies).take(MOST_COMPARED);
        while reported < MOST_PAIRS
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

/// The pairs of policies that can meet: those of two namespaces never do.
fn pairs<'p>(policies: &'p [&'p Policy]) -> impl Iterator<Item = (&'p Policy, &'p Policy)> {
    let mut homes: BTreeMap<Option<&str>, Vec<&Policy>> = BTreeMap::new();
    for policy in policies {
        homes.entry(policy.object.namespace.as_deref()).or_default().push(policy);
    }
    let cluster = homes.get(&None).cloned().unwrap_or_default();
    let across = |(home, at_home): (Option<&str>, Vec<&'p Policy>)| -> Vec<(&'p Policy, &'p Policy)> {
        let own = at_home.iter().enumerate().flat_map(|(at, a)| at_home[at + 1..].iter().map(|b| (*a, *b)));
        let mut pairs: Vec<_> = own.take(MOST_COMPARED).collect();
        if home.is_some() {
            let with = cluster.iter().flat_map(|a| at_home.iter().map(|b| (*a, *b)));
            pairs.extend(with.take(MOST_COMPARED));
        }
        pairs
    };
    let all: Vec<_> = homes.into_iter().flat_map(across).take(MOST_COMPARED).collect();
    all.into_iter()
}

fn report(
    context: &Context<'_>,
    search: &mut Search<'_>,
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
        Found::Conflict(conflict) => (&TIE, format!("{names}, and {conflict}")),
        // Antrea says what equal priorities mean: rules interleave by index. Only equal places are left open.
        Found::Nothing if both_antrea => return None,
        Found::Disagreement if both_antrea => {
            let nobody_known = pods(context.snapshot).next().is_none();
            let message = format!("{names}, and rules at the same place disagree");
            (if nobody_known { &TIE } else { &SAME_PRIORITY }, message)
        }
        Found::Disagreement | Found::Nothing => {
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

/// Whether no pod at all can be subject to both. Policies with many lists of subjects are not looked through.
fn disjoint_policies(a: &Policy, b: &Policy) -> bool {
    let (a, b) = (distinct(a), distinct(b));
    a.len().saturating_mul(b.len()) < MOST_COMPARED && a.iter().all(|a| b.iter().all(|b| are_disjoint(a, b)))
}

/// The subjects of a policy, each once: most have one list for all of their rules.
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
