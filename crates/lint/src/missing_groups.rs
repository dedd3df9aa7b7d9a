//! Lint for missing groups, and for groups with pods outside the namespace of the policy.

use std::collections::BTreeSet;

use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_model::group::GroupName;
use palisade_model::matching::{Context, Endpoint};
use palisade_model::nearest::nearest;
use palisade_model::options::Options;
use palisade_model::policy::{Direction, Peer, Peers, Policy, Rule, Subject};
use palisade_model::resolve::GroupMember;
use palisade_model::snapshot::Snapshot;

use super::{about, about_rule, pods};

/// The group does not exist.
pub static MISSING_GROUP: Code = Code {
    id: "L0111",
    severity: Severity::Error,
    title: "a policy names a group that does not exist",
    explanation: "A group that does not exist has no members, in `appliedTo`, `from` and `to`, whatever the action: a Drop rule towards it drops nothing, a policy applied to it applies to no pod. Antrea accepts the policy, because the group may be created later, and evaluates it in the same way until then. A ClusterNetworkPolicy names ClusterGroups, a NetworkPolicy Groups of its own namespace.",
};

/// The group of a namespaced policy selects pods of other namespaces.
pub static GROUP_REACHES_OUT: Code = Code {
    id: "L0112",
    severity: Severity::Warning,
    title: "a namespaced policy is applied to a group with pods of other namespaces",
    explanation: "A NetworkPolicy is about pods of its own namespace. Antrea does not realise a policy whose group selects others (its status says `Realizable: False`), so that in the cluster it protects nobody; Palisade applies it to the members in its own namespace. Take `namespaceSelector` out of the group.",
};

/// Maximum number of suggestions; each compares with all groups.
const MAX_GUESSES: usize = 50;

pub(super) fn check(snapshot: &Snapshot, found: &mut Vec<Diagnostic>) {
    let context = Context { snapshot, options: Options::default() };
    let first = found.len();
    for policy in snapshot.policies() {
        let mut subjects: BTreeSet<&GroupName> = BTreeSet::new();
        for rule in &policy.rules {
            for subject in rule.subjects.iter() {
                // Most policies have one list of subjects for all of their rules.
                if let Subject::Group { group, within } = subject
                    && subjects.insert(group)
                {
                    check_subject(&context, policy, rule, group, within.as_deref(), found);
                }
            }
            let Peers::Of(peers) = &rule.peers else { continue };
            let list = if rule.direction == Direction::Ingress { ".from" } else { ".to" };
            for peer in peers {
                if let Peer::Group(group) = peer
                    && !snapshot.has_group(group)
                {
                    let message = format!("group {group} does not exist: it has no members");
                    let diagnostic = about_rule(&MISSING_GROUP, policy, rule, list, message);
                    let guess = found.len() - first < MAX_GUESSES;
                    found.push(if guess { with_suggestion(snapshot, group, diagnostic) } else { diagnostic });
                }
            }
        }
    }
}

fn check_subject(
    context: &Context<'_>,
    policy: &Policy,
    rule: &Rule,
    group: &GroupName,
    within: Option<&str>,
    found: &mut Vec<Diagnostic>,
) {
    let snapshot = context.snapshot;
    let shared = policy.rules.iter().all(|other| other.subjects == rule.subjects);
    let about = |code, message| match shared {
        true => about(code, &policy.object, message).field("spec.appliedTo"),
        false => about_rule(code, policy, rule, ".appliedTo", message),
    };
    if !snapshot.has_group(group) {
        let message = format!("group {group} does not exist: it has no members");
        found.push(with_suggestion(snapshot, group, about(&MISSING_GROUP, message)));
    }
    if let (Ok(members), Some(namespace)) = (snapshot.group(group), within) {
        let outside = |pod: &usize| {
            snapshot.namespace_of(*pod).name != namespace
                && members.iter().any(|member| match member {
                    GroupMember::Pods(set) => context.holds(set, *pod, Endpoint::Pod(*pod)),
                    _ => false,
                })
        };
        if let Some(pod) = pods(snapshot).find(outside).map(|pod| &snapshot.pods()[pod]) {
            let message = format!(
                "group {group} holds {}/{}, which is in another namespace: only members in {namespace} count",
                pod.namespace, pod.name
            );
            found.push(about(&GROUP_REACHES_OUT, message));
        }
    }
}

fn with_suggestion(snapshot: &Snapshot, group: &GroupName, mut diagnostic: Diagnostic) -> Diagnostic {
    let beside = snapshot.groups().filter(|other| other.namespace == group.namespace);
    let near = nearest(&group.name, beside.map(|other| other.name.as_str()));
    let other_scope = snapshot.groups().find(|other| other.name == group.name);
    diagnostic.help = match (near.first(), other_scope) {
        (Some(near), _) => Some(format!("did you mean {near}?")),
        (None, Some(GroupName { namespace: Some(namespace), .. })) => Some(format!(
            "there is a Group {namespace}/{}, which only a NetworkPolicy there can name",
            group.name
        )),
        (None, Some(_)) => Some(format!(
            "there is a ClusterGroup {}, which only a ClusterNetworkPolicy can name",
            group.name
        )),
        (None, None) => None,
    };
    diagnostic
}
