//! Whom a policy or a rule applies to.

use palisade_model::policy::Direction;

use super::policy::is_about_services;
use super::{count, empty, is_set, labels};
use crate::antrea::codes;
use crate::apimachinery::field::{self, Path};
use crate::definition::findings::Findings;
use crate::definition::schema::{items, written};
use crate::source::tree::{Node, Value};

const FIELDS: &[&str] = &[
    "podSelector",
    "namespaceSelector",
    "externalEntitySelector",
    "group",
    "serviceAccount",
    "service",
    "nodeSelector",
];

/// Those that stand alone in an entry.
const ALONE: &[&str] = &["group", "nodeSelector", "serviceAccount", "service"];

/// Checks that subjects are in the policy or in every rule of it.
pub fn places(spec: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    let in_spec = !items(spec, "appliedTo").is_empty();
    let rules: Vec<(&str, usize, bool)> = ["ingress", "egress"]
        .into_iter()
        .flat_map(|list| items(spec, list).iter().enumerate().map(move |(index, rule)| (list, index, rule)))
        .map(|(list, index, rule)| (list, index, !items(rule, "appliedTo").is_empty()))
        .collect();
    let in_rules = rules.iter().filter(|(.., there)| *there).count();
    let path_of_spec = path.child("appliedTo");
    // What is there and no list, the definition has complained about.
    let unreadable = written(spec, "appliedTo").is_some_and(|list| !matches!(list.value, Value::List(_)));
    if in_spec && in_rules > 0 {
        let message = "appliedTo should not be set in both spec and rules";
        findings.say(&codes::APPLIED_TO, &path_of_spec, message);
    } else if !in_spec && in_rules == 0 && !unreadable {
        let message = "appliedTo needs to be set in either spec or rules";
        findings.say(&codes::APPLIED_TO, &path_of_spec, message).help =
            Some("for all pods write appliedTo: [{podSelector: {}}]".to_owned());
    }
    if in_rules > 0 && in_rules < rules.len() {
        for (list, index, _) in rules.iter().filter(|(.., there)| !there) {
            let message = "appliedTo field should either be set in all rules or in none of them";
            let path = path.child(list);
            findings.say(&codes::APPLIED_TO, &path.index(*index).child("appliedTo"), message);
        }
    }
}

/// Checks the subjects of a rule, or those of a policy.
pub fn entries(
    node: &Node<'_>,
    path: &Path<'_>,
    direction: Option<Direction>,
    findings: &mut Findings<'_, '_>,
) {
    let path = path.child("appliedTo");
    let list = items(node, "appliedTo");
    let egress = match direction {
        Some(direction) => direction == Direction::Egress,
        None => !items(node, "egress").is_empty(),
    };
    for (index, entry) in list.iter().enumerate() {
        let path = path.index(index);
        if !matches!(entry.value, Value::Map(_)) {
            continue;
        }
        let set = count(entry, FIELDS);
        for name in ALONE.iter().filter(|name| set > 1 && is_set(entry, name)) {
            let message = format!("{name} cannot be set with other peers in appliedTo");
            findings.say(&codes::APPLIED_TO_ENTRY, &path.child(name), message);
        }
        if is_set(entry, "podSelector") && is_set(entry, "externalEntitySelector") {
            let message =
                "podSelector and externalEntitySelector cannot be set at the same time in appliedTo";
            findings.say(&codes::APPLIED_TO_ENTRY, &path, message);
        }
        if set == 0 {
            empty(&path, findings);
        }
        if egress && is_set(entry, "service") {
            let message = "egress rule cannot be applied to Services";
            findings.say(&codes::APPLIED_TO_SERVICE, &path.child("service"), message);
        }
        labels(entry, &path, findings);
    }
    let services = list.iter().filter(|entry| is_set(entry, "service")).count();
    if services > 0 && services < list.len() {
        let message = "a rule/policy cannot be applied to Services and other peers at the same time";
        findings.say(&codes::APPLIED_TO_SERVICE, &path, message);
    }
}

/// Checks that rules for services have addresses as peers.
pub fn services(spec: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    let path = path.child("ingress");
    for (index, rule) in items(spec, "ingress").iter().enumerate() {
        if !(is_about_services(spec) || is_about_services(rule)) {
            continue;
        }
        let path = path.index(index);
        let path = path.child("from");
        for (index, peer) in items(rule, "from").iter().enumerate() {
            let others = count(peer, super::peers::FIELDS) > usize::from(is_set(peer, "ipBlock"));
            if !is_set(peer, "ipBlock") || others {
                let message =
                    "a rule/policy that is applied to Services can only use ipBlock to select workloads";
                findings.say(&codes::APPLIED_TO_SERVICE, &path.index(index), message);
            }
        }
    }
}

/// Checks the subjects of a policy of 2020.
pub fn entries_2020(cluster: bool, spec: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    let path = path.child("appliedTo");
    for (index, entry) in items(spec, "appliedTo").iter().enumerate() {
        let path = path.index(index);
        if is_set(entry, "ipBlock") {
            let body = field::forbidden("ipBlock cannot be set in appliedTo");
            findings.say(&codes::NOT_IN_2020, &path.child("ipBlock"), body);
        }
        if !cluster && is_set(entry, "namespaceSelector") {
            let body = field::forbidden("namespaceSelector cannot be set in appliedTo of a NetworkPolicy");
            findings.say(&codes::NOT_IN_2020, &path.child("namespaceSelector"), body).help = Some(
                "it applies to pods of its own namespace; a ClusterNetworkPolicy selects namespaces".into(),
            );
        }
        if matches!(&entry.value, Value::Map(fields) if fields.iter().all(|field| field.value.is_null())) {
            empty(&path, findings);
        }
        labels(entry, &path, findings);
    }
}
