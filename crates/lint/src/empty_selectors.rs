//! Lint for selectors that match nothing.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use palisade_analysis::space::never_matches;
use palisade_model::cluster::{NAMESPACE_NAME_LABEL, Service};
use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_model::label::{Operator, Requirement};
use palisade_model::matching::{Context, Endpoint};
use palisade_model::options::Options;
use palisade_model::policy::{Direction, Namespaces, Peer, Peers, PodSet, Policy, Subject};
use palisade_model::resolve::GroupMember;
use palisade_model::snapshot::Snapshot;

use super::{about, about_rule, has_candidates, pods, pods_of};

/// A policy whose subject selects no pod.
pub static SELECTS_NOTHING: Code = Code {
    id: "L0101",
    severity: Severity::Warning,
    title: "a policy that selects no pod",
    explanation: "The policy's own selector matches none of the pods that are known, so it protects nobody. Often a label is misspelled, or the pods carry it under another key. Not reported when no pod of the namespace is among the input, unless the selector contradicts itself so that no pod can ever match, and not for selectors that select everything.",
};

/// A peer that selects no endpoint.
pub static PEER_SELECTS_NOTHING: Code = Code {
    id: "L0102",
    severity: Severity::Warning,
    title: "a peer that selects nobody",
    explanation: "A rule names pods, and none of the pods that are known matches. For an Allow rule the connection it was written for is still denied. Not reported when no pod of the namespaces concerned is among the input, unless it can never match, whatever there is: a selector of pods, namespaces or nodes, or of a group, contradicts itself or asks for a namespace without `kubernetes.io/metadata.name`, which every namespace has; the exceptions of an address block are all of it.",
};

/// Maximum number of matches of a pod with a selector, in all: some seconds of work.
const MAX_MATCHED: usize = 40_000_000;

/// Search for pods of a set, with a cache and a budget.
struct SelectionSearch<'s> {
    context: Context<'s>,
    /// Labels of all pods.
    labels: HashSet<(&'s str, &'s str)>,
    /// Results for sets that do not depend on the subject.
    cache: HashMap<&'s PodSet, bool>,
    /// A policy's index, and pods that it applies to, one of each namespace.
    subjects_of: Option<(usize, Vec<usize>)>,
    budget: usize,
    exceeded: bool,
}

pub(super) fn check(snapshot: &Snapshot, found: &mut Vec<Diagnostic>) {
    let context = Context { snapshot, options: Options::default() };
    let mut search = SelectionSearch::new(context);
    for (at, policy) in snapshot.policies().iter().enumerate() {
        subjects(&mut search, policy, found);
        for rule in &policy.rules {
            let Peers::Of(peers) = &rule.peers else { continue };
            for (index, peer) in peers.iter().enumerate() {
                let Some((message, help)) = why_empty(&mut search, at, peer) else { continue };
                let list = if rule.direction == Direction::Ingress { "from" } else { "to" };
                // One entry of an admin policy may be lowered to several peers (`networks`): its index is not known.
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
    if let Some(policy) = snapshot.policies().first().filter(|_| search.exceeded) {
        let message = "there are more selectors and pods than are compared: selectors that select nothing may be missing";
        found.push(about(&super::rule_decisions::TOO_MUCH, &policy.object, message.to_owned()));
    }
}

// === impl SelectionSearch ===

impl<'s> SelectionSearch<'s> {
    fn new(context: Context<'s>) -> Self {
        let labels = context.snapshot.pods().iter().flat_map(|pod| pod.labels.iter()).collect();
        SelectionSearch {
            context,
            labels,
            cache: HashMap::new(),
            subjects_of: None,
            budget: MAX_MATCHED,
            exceeded: false,
        }
    }

    /// Whether one of these pods is in a set; `true` also where the budget is exhausted.
    fn any(&mut self, pods: impl Iterator<Item = usize>, mut holds: impl FnMut(usize) -> bool) -> bool {
        for pod in pods {
            if self.budget == 0 {
                self.exceeded = true;
                return true;
            }
            self.budget -= 1;
            if holds(pod) {
                return true;
            }
        }
        false
    }

    /// Whether any pod is in a set that does not depend on the subject.
    fn selects_any(&mut self, set: &'s PodSet) -> bool {
        if set.pods.required_label().is_some_and(|label| !self.labels.contains(&label)) {
            return false;
        }
        if let Some(known) = self.cache.get(set) {
            return *known;
        }
        let context = self.context;
        let candidates = pods_of(context.snapshot, &set.namespaces);
        let found = self.any(candidates, |pod| context.holds(set, pod, Endpoint::Pod(pod)));
        self.cache.insert(set, found);
        found
    }

    /// Whether any pod is in a peer's set, for any pod that the policy applies to.
    fn selects_any_for(&mut self, policy: usize, set: &'s PodSet) -> bool {
        let (context, snapshot) = (self.context, self.context.snapshot);
        if let Namespaces::Named(_) | Namespaces::Matching(_) = set.namespaces {
            return self.selects_any(set);
        }
        if self.subjects_of.as_ref().is_none_or(|(of, _)| *of != policy) {
            let rules = &snapshot.policies()[policy].rules;
            let mut lists: Vec<&Arc<[Subject]>> = rules.iter().map(|rule| &rule.subjects).collect();
            lists.dedup_by(|one, other| Arc::ptr_eq(one, other));
            self.budget = self.budget.saturating_sub(snapshot.pods().len());
            let is_subject =
                |pod: &usize| lists.iter().any(|list| context.applies(list, Endpoint::Pod(*pod)));
            let mut subjects: Vec<usize> = pods(snapshot).filter(is_subject).collect();
            // A set can be relative to the subject's namespace only: one pod of each is enough.
            subjects.dedup_by_key(|pod| &snapshot.namespace_of(*pod).name);
            self.subjects_of = Some((policy, subjects));
        }
        let subjects = self.subjects_of.as_ref().map(|(_, subjects)| subjects.clone()).unwrap_or_default();
        if matches!(set.namespaces, Namespaces::Own) {
            let of_namespace: HashMap<&str, usize> =
                subjects.iter().map(|pod| (snapshot.namespace_of(*pod).name.as_str(), *pod)).collect();
            return self.any(pods(snapshot), |pod| {
                let subject = of_namespace.get(snapshot.namespace_of(pod).name.as_str());
                subject.is_some_and(|subject| context.holds(set, pod, Endpoint::Pod(*subject)))
            });
        }
        // Labels first: they do not depend on the subject.
        let labelled = pods(snapshot).filter(|pod| set.pods.matches(&snapshot.pods()[*pod].labels));
        let pairs = labelled.flat_map(|pod| subjects.iter().map(move |subject| (pod, *subject)));
        for (pod, subject) in pairs {
            if self.budget == 0 {
                self.exceeded = true;
                return true;
            }
            self.budget -= 1;
            if context.holds(set, pod, Endpoint::Pod(subject)) {
                return true;
            }
        }
        false
    }
}

/// Returns why a peer selects nothing, with help; `None` when it may select something.
fn why_empty<'s>(
    search: &mut SelectionSearch<'s>,
    policy: usize,
    peer: &'s Peer,
) -> Option<(String, Option<String>)> {
    let snapshot = search.context.snapshot;
    match peer {
        Peer::Pods(set) => {
            let narrow = !set.pods.is_everything() | matches!(set.namespaces, Namespaces::Matching(_));
            let known = has_candidates(snapshot, set) || contradiction(set).is_some();
            let why_empty = narrow && known && !search.selects_any_for(policy, set);
            why_empty.then(|| (format!("no pod matches this peer: {set}"), help(snapshot, set)))
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
            let why = why_group_empty(members)?;
            Some((format!("nobody can be in group {group}"), Some(why)))
        }
        _ => None,
    }
}

/// Returns why a group cannot have members in any cluster.
fn why_group_empty(members: &[GroupMember]) -> Option<String> {
    let why = |member: &GroupMember| match member {
        GroupMember::Pods(set) => contradiction(set),
        GroupMember::Nodes(selector) => never_matches(selector).map(|clash| clash.to_string()),
        GroupMember::Addresses(blocks) => blocks
            .iter()
            .all(|block| block.example().is_none())
            .then(|| "the exceptions are all of its blocks".to_owned()),
    };
    let all: Vec<String> = members.iter().map(why).collect::<Option<_>>()?;
    all.into_iter().next()
}

fn subjects<'s>(search: &mut SelectionSearch<'s>, policy: &'s Policy, found: &mut Vec<Diagnostic>) {
    let isolations = policy.isolations.iter().map(|isolation| &isolation.subjects);
    // Most policies have one list for all of their rules.
    let mut lists: Vec<&Arc<[Subject]>> =
        isolations.chain(policy.rules.iter().map(|rule| &rule.subjects)).collect();
    lists.dedup_by(|one, other| Arc::ptr_eq(one, other));
    let mut seen: BTreeSet<&Subject> = BTreeSet::new();
    let mut subjects: Vec<&Subject> = lists.into_iter().flat_map(|list| list.iter()).collect();
    subjects.retain(|subject| seen.insert(subject));
    if subjects.is_empty() {
        return;
    }
    let snapshot = search.context.snapshot;
    let narrow = |subject: &&Subject| match subject {
        Subject::Pods(PodSet { namespaces: Namespaces::Matching(selector), pods, account, .. }) => {
            !(selector.is_everything() && pods.is_everything() && account.is_none())
        }
        Subject::Pods(set) => !set.pods.is_everything() || set.account.is_some(),
        _ => true,
    };
    // Whether the input suffices to call a subject empty.
    let known = |subject: &&Subject| match subject {
        Subject::Pods(set) => has_candidates(snapshot, set) || contradiction(set).is_some(),
        Subject::Nodes(selector) => !snapshot.nodes().is_empty() || never_matches(selector).is_some(),
        Subject::Service(service) => !snapshot.pods_in(&service.namespace).is_empty(),
        // Unparsable groups are reported where they are lowered.
        Subject::Group { group, .. } => {
            let is_nobody = |members: &[GroupMember]| why_group_empty(members).is_some();
            let known = pods(snapshot).next().is_some();
            let there = snapshot.has_group(group);
            there && snapshot.group(group).is_ok_and(|members| known || is_nobody(members))
        }
    };
    let mut selects_any = |subject: &&'s Subject| match subject {
        Subject::Nodes(selector) => snapshot.nodes().iter().any(|node| selector.matches(&node.labels)),
        Subject::Service(name) => {
            let named = |s: &Service| s.namespace == name.namespace && s.name == name.name;
            snapshot.services().iter().any(named)
        }
        Subject::Pods(set) if matches!(set.namespaces, Namespaces::Named(_) | Namespaces::Matching(_)) => {
            search.selects_any(set)
        }
        Subject::Group { group, within: None } => snapshot.group(group).is_ok_and(|members| {
            members.iter().any(|member| match member {
                GroupMember::Pods(set) => search.selects_any(set),
                _ => false,
            })
        }),
        subject => {
            let context = search.context;
            let own = std::slice::from_ref(*subject);
            search.any(pods(snapshot), |pod| context.applies(own, Endpoint::Pod(pod)))
        }
    };
    if subjects.iter().all(known) && !subjects.iter().any(&mut selects_any) && subjects.iter().any(narrow) {
        let words: Vec<String> = subjects.iter().map(ToString::to_string).collect();
        let message = format!("the policy selects no pod: it applies to {}", words.join(", or "));
        let mut diagnostic = about(&SELECTS_NOTHING, &policy.object, message);
        let field = match policy.object.kind.as_str() {
            _ if policy.object.dialect.is_antrea() => "spec.appliedTo",
            "NetworkPolicy" => "spec.podSelector",
            _ => "spec.subject",
        };
        diagnostic = diagnostic.field(field);
        diagnostic.help = match subjects.first() {
            Some(Subject::Pods(set)) => help(snapshot, set),
            Some(Subject::Nodes(selector)) => never_matches(selector).map(|clash| clash.to_string()),
            Some(Subject::Group { group, .. }) => snapshot.group(group).ok().and_then(why_group_empty),
            _ => None,
        };
        found.push(diagnostic);
    }
}

/// Returns why no pod of any cluster can be in a set.
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

/// Suggests values for the first label that no pod has, where there are pods to compare with.
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
