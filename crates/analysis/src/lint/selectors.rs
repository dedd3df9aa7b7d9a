//! Selectors that select nothing.

use palisade_model::cluster::Service;
use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_model::label::Operator;
use palisade_model::matching::{Context, Endpoint};
use palisade_model::options::Options;
use palisade_model::policy::{Namespaces, Peer, Peers, PodSet, Policy, Subject};
use palisade_model::snapshot::Snapshot;

use super::{about, about_rule, is_known, pods, pods_of, pods_under};
use crate::space::{Clash, never_matches};

/// The subject.
pub static SELECTS_NOTHING: Code = Code {
    id: "L0101",
    severity: Severity::Warning,
    title: "a policy that selects no pod",
    explanation: "The policy's own selector matches none of the pods that are known, so it protects nobody. Often a label is misspelled, or the pods carry it under another key. Not reported when no pod of the namespace is among the input, unless the selector contradicts itself so that no pod can ever match, and not for selectors that select everything.",
};

/// A peer.
pub static PEER_SELECTS_NOTHING: Code = Code {
    id: "L0102",
    severity: Severity::Warning,
    title: "a peer that selects no pod",
    explanation: "A rule names pods, and none of the pods that are known matches. For an Allow rule the connection it was written for is still denied. Not reported when no pod of the namespaces concerned is among the input, unless a selector contradicts itself so that no pod can ever match.",
};

pub(super) fn check(snapshot: &Snapshot, found: &mut Vec<Diagnostic>) {
    let context = Context { snapshot, options: Options::default() };
    for policy in snapshot.policies() {
        subjects(&context, policy, found);
        for rule in &policy.rules {
            let Peers::Of(peers) = &rule.peers else { continue };
            for (index, peer) in peers.iter().enumerate() {
                if let Peer::Pods(set) = peer
                    && !set.pods.is_everything() | matches!(set.namespaces, Namespaces::Matching(_))
                    && (is_known(snapshot, set) || contradiction(set).is_some())
                    && !holds_anybody(&context, policy, set)
                {
                    let list = if rule.direction == palisade_model::policy::Direction::Ingress {
                        "from"
                    } else {
                        "to"
                    };
                    let message = format!("no pod matches this peer: {set}");
                    // One entry of an admin policy may be several peers here (`networks`), so its place is not known.
                    let part = match policy.object.kind.as_str() {
                        "NetworkPolicy" => format!(".{list}[{index}]"),
                        _ => format!(".{list}"),
                    };
                    let mut diagnostic = about_rule(&PEER_SELECTS_NOTHING, policy, rule, &part, message);
                    diagnostic.help = help(snapshot, set);
                    found.push(diagnostic);
                }
            }
        }
    }
}

/// Whether any pod is in a peer's set; if that is relative, seen from any pod the policy applies to.
fn holds_anybody(context: &Context<'_>, policy: &Policy, set: &PodSet) -> bool {
    let snapshot = context.snapshot;
    if let Namespaces::Named(_) | Namespaces::Matching(_) = set.namespaces {
        return pods_of(snapshot, &set.namespaces).any(|pod| context.holds(set, pod, Endpoint::Pod(pod)));
    }
    let is_subject =
        |pod: &usize| policy.rules.iter().any(|rule| context.applies(&rule.subjects, Endpoint::Pod(*pod)));
    let mut subjects: Vec<usize> = pods(snapshot).filter(is_subject).collect();
    // All that a set can be relative to is the subject's namespace: one of each will do.
    subjects.dedup_by_key(|pod| &snapshot.namespace_of(*pod).name);
    pods(snapshot).any(|pod| subjects.iter().any(|subject| context.holds(set, pod, Endpoint::Pod(*subject))))
}

fn subjects(context: &Context<'_>, policy: &Policy, found: &mut Vec<Diagnostic>) {
    let isolations = policy.isolations.iter().map(|isolation| &isolation.subjects);
    let mut subjects: Vec<&Subject> = Vec::new();
    for subject in isolations.chain(policy.rules.iter().map(|rule| &rule.subjects)).flat_map(|s| s.iter()) {
        // Most policies have one list for all of their rules.
        if !subjects.contains(&subject) {
            subjects.push(subject);
        }
    }
    if subjects.is_empty() {
        return;
    }
    let snapshot = context.snapshot;
    let narrow = |subject: &&Subject| match subject {
        Subject::Pods(PodSet { namespaces: Namespaces::Matching(selector), pods, account, .. }) => {
            !(selector.is_everything() && pods.is_everything() && account.is_none())
        }
        Subject::Pods(set) => !set.pods.is_everything() || set.account.is_some(),
        _ => true,
    };
    // Whether enough is known to say that nobody is meant.
    let known = |subject: &&Subject| match subject {
        Subject::Pods(set) => is_known(snapshot, set) || contradiction(set).is_some(),
        Subject::Nodes(_) => !snapshot.nodes().is_empty(),
        Subject::Service(service) => !snapshot.pods_in(&service.namespace).is_empty(),
        // What is wrong with groups is said by who reads them.
        Subject::Group { group, .. } => snapshot.group(group).is_ok() && pods(snapshot).next().is_some(),
    };
    let holds_anybody = |subject: &&Subject| match subject {
        Subject::Nodes(selector) => snapshot.nodes().iter().any(|node| selector.matches(&node.labels)),
        Subject::Service(name) => {
            let named = |s: &Service| s.namespace == name.namespace && s.name == name.name;
            snapshot.services().iter().any(named)
        }
        subject => pods_under(context, subject).next().is_some(),
    };
    if subjects.iter().all(known) && !subjects.iter().any(holds_anybody) && subjects.iter().any(narrow) {
        let words: Vec<String> = subjects.iter().map(ToString::to_string).collect();
        let message = format!("the policy selects no pod: it applies to {}", words.join(", or "));
        let mut diagnostic = about(&SELECTS_NOTHING, &policy.object, message);
        let field = match (policy.object.kind.as_str(), policy.object.api) {
            (_, "Antrea") => "spec.appliedTo",
            ("NetworkPolicy", _) => "spec.podSelector",
            _ => "spec.subject",
        };
        diagnostic = diagnostic.field(field);
        diagnostic.help = match subjects.first() {
            Some(Subject::Pods(set)) => help(snapshot, set),
            _ => None,
        };
        found.push(diagnostic);
    }
}

/// Why nobody can be in a set, whatever pods there are.
fn contradiction(set: &PodSet) -> Option<Clash<'_>> {
    let of_namespaces = match &set.namespaces {
        Namespaces::Matching(selector) => never_matches(selector),
        _ => None,
    };
    of_namespaces.or_else(|| never_matches(&set.pods))
}

/// What the first label that nobody has is instead, where there are pods to compare with.
fn help(snapshot: &Snapshot, set: &PodSet) -> Option<String> {
    if let Some(clash) = contradiction(set) {
        return Some(clash.to_string());
    }
    let pods: Vec<usize> = pods_of(snapshot, &set.namespaces).collect();
    if pods.is_empty() {
        return Some("no namespace with a pod in it matches".to_owned());
    }
    let labels = |pod: &usize| &snapshot.pods()[*pod].labels;
    let unmet = set.pods.requirements().iter().find(|r| !pods.iter().any(|pod| r.matches(labels(pod))))?;
    let mut values: Vec<&str> = pods.iter().filter_map(|pod| labels(pod).get(&unmet.key)).collect();
    values.sort_unstable();
    values.dedup();
    let more = if values.len() > 5 { ", …" } else { "" };
    values.truncate(5);
    match (&unmet.operator, values.is_empty()) {
        (_, true) => Some(format!("no pod there has a label {}", unmet.key)),
        (Operator::In(_), false) => {
            Some(format!("values of {} there: {}{more}", unmet.key, values.join(", ")))
        }
        _ => None,
    }
}
