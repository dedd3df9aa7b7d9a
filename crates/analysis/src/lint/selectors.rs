//! Selectors that select nothing.

use palisade_model::cluster::{NAMESPACE_NAME_LABEL, Service};
use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_model::group::Members;
use palisade_model::label::{Operator, Requirement};
use palisade_model::matching::{Context, Endpoint};
use palisade_model::options::Options;
use palisade_model::policy::{Direction, Namespaces, Peer, Peers, PodSet, Policy, Subject};
use palisade_model::snapshot::Snapshot;

use super::{about, about_rule, is_known, pods, pods_of, pods_under};
use crate::space::never_matches;

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
    title: "a peer that selects nobody",
    explanation: "A rule names pods, and none of the pods that are known matches. For an Allow rule the connection it was written for is still denied. Not reported when no pod of the namespaces concerned is among the input, unless it can never match, whatever there is: a selector of pods, namespaces or nodes, or of a group, contradicts itself or asks for a namespace without `kubernetes.io/metadata.name`, which every namespace has; the exceptions of an address block are all of it.",
};

pub(super) fn check(snapshot: &Snapshot, found: &mut Vec<Diagnostic>) {
    let context = Context { snapshot, options: Options::default() };
    for policy in snapshot.policies() {
        subjects(&context, policy, found);
        for rule in &policy.rules {
            let Peers::Of(peers) = &rule.peers else { continue };
            for (index, peer) in peers.iter().enumerate() {
                let Some((message, help)) = nobody(&context, policy, peer) else { continue };
                let list = if rule.direction == Direction::Ingress { "from" } else { "to" };
                // One entry of an admin policy may be several peers here (`networks`), so its place is not known.
                let part = match policy.object.kind.as_str() {
                    "NetworkPolicy" => format!(".{list}[{index}]"),
                    _ => format!(".{list}"),
                };
                let mut diagnostic = about_rule(&PEER_SELECTS_NOTHING, policy, rule, &part, message);
                diagnostic.help = help;
                found.push(diagnostic);
            }
        }
    }
}

/// Why a peer is nobody, and what would help; `None` when it may be somebody.
fn nobody(context: &Context<'_>, policy: &Policy, peer: &Peer) -> Option<(String, Option<String>)> {
    let snapshot = context.snapshot;
    match peer {
        Peer::Pods(set) => {
            let narrow = !set.pods.is_everything() | matches!(set.namespaces, Namespaces::Matching(_));
            let known = is_known(snapshot, set) || contradiction(set).is_some();
            let nobody = narrow && known && !holds_anybody(context, policy, set);
            nobody.then(|| (format!("no pod matches this peer: {set}"), help(snapshot, set)))
        }
        Peer::Nodes(selector) => {
            let clash = never_matches(selector)?;
            Some((format!("no node can match this peer: {selector}"), Some(clash.to_string())))
        }
        Peer::Addresses(block) if block.example().is_none() => {
            let help = "the exceptions are all of the block: name what is meant, or remove the peer";
            Some((format!("no address is left of this peer: {block}"), Some(help.to_owned())))
        }
        Peer::Group(group) => {
            let members = snapshot.group(group).ok().filter(|_| snapshot.has_group(group))?;
            let why = group_is_nobody(members)?;
            Some((format!("nobody can be in group {group}"), Some(why)))
        }
        _ => None,
    }
}

/// Why nobody can be in a group, whatever there is.
fn group_is_nobody(members: &[Members]) -> Option<String> {
    let why = |member: &Members| match member {
        Members::Pods(set) => contradiction(set),
        Members::Nodes(selector) => never_matches(selector).map(|clash| clash.to_string()),
        Members::Addresses(blocks) => blocks
            .iter()
            .all(|block| block.example().is_none())
            .then(|| "the exceptions are all of its blocks".to_owned()),
        _ => None,
    };
    let all: Vec<String> = members.iter().map(why).collect::<Option<_>>()?;
    all.into_iter().next()
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
        Subject::Nodes(selector) => !snapshot.nodes().is_empty() || never_matches(selector).is_some(),
        Subject::Service(service) => !snapshot.pods_in(&service.namespace).is_empty(),
        // What is wrong with groups is said by who reads them.
        Subject::Group { group, .. } => {
            let is_nobody = |members: &[Members]| group_is_nobody(members).is_some();
            let known = pods(snapshot).next().is_some();
            let there = snapshot.has_group(group);
            there && snapshot.group(group).is_ok_and(|members| known || is_nobody(members))
        }
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
            Some(Subject::Nodes(selector)) => never_matches(selector).map(|clash| clash.to_string()),
            Some(Subject::Group { group, .. }) => snapshot.group(group).ok().and_then(group_is_nobody),
            _ => None,
        };
        found.push(diagnostic);
    }
}

/// Why nobody can be in a set, whatever pods there are.
fn contradiction(set: &PodSet) -> Option<String> {
    let clash = |selector| never_matches(selector).map(|clash| clash.to_string());
    let of_namespaces = match &set.namespaces {
        Namespaces::Matching(selector) => clash(selector).or_else(|| {
            let without_name = |one: &Requirement| {
                one.key == NAMESPACE_NAME_LABEL && matches!(one.operator, Operator::DoesNotExist)
            };
            let asked = selector.requirements().iter().any(without_name);
            asked.then(|| format!("every namespace has the label {NAMESPACE_NAME_LABEL}"))
        }),
        _ => None,
    };
    of_namespaces.or_else(|| clash(&set.pods))
}

/// What the first label that nobody has is instead, where there are pods to compare with.
fn help(snapshot: &Snapshot, set: &PodSet) -> Option<String> {
    if let Some(clash) = contradiction(set) {
        return Some(clash);
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
