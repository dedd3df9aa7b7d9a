//! A policy as a whole.

use std::collections::HashSet;

use palisade_model::policy::Direction;

use super::{applied_to, count, is_set, peers, text, traffic};
use crate::antrea::types::Policy;
use crate::antrea::{codes, defaults};
use crate::apimachinery::field::{self, Path};
use crate::definition::findings::Findings;
use crate::definition::schema::{items, written};
use crate::source::tree::Node;

/// Everything about a policy of v1beta1. (That its tier exists, only the world knows.)
pub fn policy(policy: &Policy, node: &Node<'_>, findings: &mut Findings<'_, '_>) {
    let Some(spec) = written(node, "spec") else { return };
    let path = Path::new("spec");
    pass_in_baseline(spec, &path, findings);
    rule_names(policy, &path, findings);
    applied_to::places(spec, &path, findings);
    applied_to::entries(spec, &path, None, findings);
    for direction in [Direction::Ingress, Direction::Egress] {
        each_rule(spec, &path, direction, |rule, path| {
            applied_to::entries(rule, path, Some(direction), findings);
            peers::peers(rule, path, direction, findings);
            if direction == Direction::Egress {
                peers::to_services(rule, path, findings);
                peers::multicast(rule, path, findings);
            }
            traffic::igmp(rule, path, findings);
            traffic::layer7(rule, path, findings);
            traffic::ports(rule, path, findings);
        });
    }
    applied_to::services(spec, &path, findings);
    log_labels(policy, spec, &path, findings);
}

/// Everything about a policy of 2020: what its text says, and what cannot be in any version.
pub fn policy_2020(cluster: bool, node: &Node<'_>, findings: &mut Findings<'_, '_>) {
    let Some(spec) = written(node, "spec") else { return };
    let path = Path::new("spec");
    applied_to::entries_2020(cluster, spec, &path, findings);
    for direction in [Direction::Ingress, Direction::Egress] {
        each_rule(spec, &path, direction, |rule, path| {
            peers::peers_2020(rule, path, direction, findings);
            traffic::ports(rule, path, findings);
        });
    }
}

/// Calls `with` for each rule of a direction.
fn each_rule(
    spec: &Node<'_>,
    path: &Path<'_>,
    direction: Direction,
    mut with: impl FnMut(&Node<'_>, &Path<'_>),
) {
    let path = path.child(direction.as_str());
    for (index, rule) in items(spec, direction.as_str()).iter().enumerate() {
        with(rule, &path.index(index));
    }
}

fn pass_in_baseline(spec: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    if !text(spec, "tier").is_some_and(|tier| tier.eq_ignore_ascii_case("baseline")) {
        return;
    }
    for direction in [Direction::Ingress, Direction::Egress] {
        each_rule(spec, path, direction, |rule, path| {
            if text(rule, "action") == Some("Pass") {
                let message = "`Pass` action should not be set for Baseline Tier policy rules";
                findings.say(&codes::PASS_IN_BASELINE, &path.child("action"), message);
            }
        });
    }
}

fn rule_names(policy: &Policy, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    let mut seen = HashSet::new();
    let Some(spec) = &policy.spec else { return };
    for (direction, rules) in [(Direction::Ingress, &spec.ingress), (Direction::Egress, &spec.egress)] {
        let path = path.child(direction.as_str());
        for (index, rule) in rules.iter().flat_map(|rules| rules.iter()).enumerate() {
            // Without its name nobody can say; that it cannot be read has been.
            let Some(name) = defaults::rule_name(direction, rule) else { continue };
            let written = rule.name.as_ref().is_some_and(|name| !name.is_empty());
            if !seen.insert(name.clone()) {
                let message = "rules names must be unique within the policy";
                let path = path.index(index);
                findings.say(&codes::RULE_NAME, &path.child("name"), message).help = Some(match written {
                    true => format!("another rule is called {name}, too"),
                    false => format!("a rule before it says the same: both get the name {name}"),
                });
            }
        }
    }
}

fn log_labels(policy: &Policy, spec: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    if !items(spec, "appliedTo").iter().any(|entry| is_set(entry, "nodeSelector")) {
        return;
    }
    let Some(spec) = &policy.spec else { return };
    for (direction, rules) in [(Direction::Ingress, &spec.ingress), (Direction::Egress, &spec.egress)] {
        let path = path.child(direction.as_str());
        for (index, rule) in rules.iter().flat_map(|rules| rules.iter()).enumerate() {
            let label = rule.log_label.as_ref().map_or("", |label| label.as_str());
            if label.len() > 12 && rule.enable_logging.is_some_and(|logging| logging.0) {
                let name = defaults::rule_name(direction, rule).unwrap_or_default();
                let message = format!(
                    "LogLabels for Node NetworkPolicies are limited to 12 characters, but the label {} for policy rule {} \
                     exceeds the limit and will be truncated in kernel logs",
                    field::quoted(label),
                    field::quoted(&name)
                );
                findings.say(&codes::LOG_LABEL, &path.index(index).child("logLabel"), message);
            }
        }
    }
}

/// Whether a list of subjects is about services. Antrea looks at the first entry, which is enough: they are not mixed.
pub fn is_about_services(node: &Node<'_>) -> bool {
    items(node, "appliedTo").iter().any(|entry| count(entry, &["service"]) > 0)
}
