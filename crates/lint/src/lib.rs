//! Lints: checks of a whole [`Snapshot`] for policies that are valid and probably a mistake.
//!
//! ```text
//!   snapshot ──┬──────────────────────────────► LINTS ──────────┬──► diagnostics
//!              └─► Decisions (reach, both families) ─► DECISION_LINTS ─┘
//! ```
//!
//! To add a lint: write a function of type [`Lint`] in a file of its own, give it a [`Code`] with its documentation, and add
//! both to [`LINTS`]. Lints about the decisions of rules share one analysis, and go to [`DECISION_LINTS`]. Mistakes in a
//! single object as written (an empty `egress` without `policyTypes`) belong to its dialect's validation.

mod conflict;
mod divergent_pods;
mod empty_selectors;
mod entrances;
mod missing_groups;
mod missing_ipv6;
mod missing_services;
mod name_collisions;
mod named_ports;
mod no_dns;
mod open_to_internet;
mod pass_to_nowhere;
mod policies_without_rules;
mod redundant_rules;
mod refused_by_other_side;
mod rule_decisions;
mod rule_inclusion;
mod shared_addresses;
mod ties;
mod undeclared_namespaces;
mod unprotected_workloads;
mod unreachable_in_space;
mod unreachable_rules;

use palisade_model::cluster::{Namespace, Pod};
use palisade_model::diagnostic::{self, Code, Diagnostic};
use palisade_model::matching::{Context, Endpoint};
use palisade_model::policy::{Dialect, Namespaces, Object, PodSet, Policy, Rule, Subject};
use palisade_model::snapshot::Snapshot;

use rule_decisions::Decisions;

/// A check of a snapshot that appends its findings.
pub type Lint = fn(&Snapshot, &mut Vec<Diagnostic>);

/// Lints about objects as written, each with the codes it can report.
pub static LINTS: &[(Lint, &[&Code])] = &[
    (empty_selectors::check, &[&empty_selectors::SELECTS_NOTHING, &empty_selectors::PEER_SELECTS_NOTHING]),
    (named_ports::check, &[&named_ports::RESOLVES_NOWHERE]),
    (no_dns::check, &[&no_dns::NO_DNS]),
    (missing_ipv6::check, &[&missing_ipv6::ONE_FAMILY]),
    (undeclared_namespaces::check, &[&undeclared_namespaces::UNDECLARED]),
    (ties::check, &[&ties::TIE, &ties::SAME_PRIORITY, &ties::OVN_LIMIT]),
    (policies_without_rules::check, &[&policies_without_rules::NO_RULES]),
    (shared_addresses::check, &[&shared_addresses::SHARED_ADDRESS]),
    (missing_services::check, &[&missing_services::MISSING_SERVICE, &missing_services::NO_CLUSTER_ADDRESS]),
    (name_collisions::check, &[&name_collisions::COLLISION]),
    (missing_groups::check, &[&missing_groups::MISSING_GROUP, &missing_groups::GROUP_REACHES_OUT]),
    (entrances::check, &[&entrances::MISSING_BACKEND, &entrances::MISSING_PORT, &entrances::NOBODY_BEHIND]),
];

/// A check of the decisions of rules that appends its findings.
type DecisionLint = fn(&mut Decisions<'_>, &mut Vec<Diagnostic>);

/// Lints about the decisions of rules, each with the codes it can report. Order matters: a rule that one reports is skipped
/// by later ones, whose findings would be weaker.
static DECISION_LINTS: &[(DecisionLint, &[&Code])] = &[
    (unreachable_rules::check, &[&unreachable_rules::SHADOWED, &unreachable_rules::CONTRADICTED]),
    (pass_to_nowhere::check, &[&pass_to_nowhere::LEADS_NOWHERE]),
    (open_to_internet::check, &[&open_to_internet::OPEN_INGRESS, &open_to_internet::OPEN_EGRESS]),
    (redundant_rules::check, &[&redundant_rules::REDUNDANT_RULE, &redundant_rules::REDUNDANT_POLICY]),
    (refused_by_other_side::check, &[&refused_by_other_side::REFUSED]),
    (unprotected_workloads::check, &[&unprotected_workloads::UNPROTECTED]),
    (divergent_pods::check, &[&divergent_pods::DIVERGENT_PODS]),
    (rule_decisions::check, &[&rule_decisions::TOO_MUCH]),
];

/// Runs all lints.
pub fn lint(snapshot: &Snapshot) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (lint, _) in LINTS {
        lint(snapshot, &mut found);
    }
    // Without any policy nothing is decided.
    if !snapshot.policies().is_empty() {
        let mut decisions = Decisions::new(snapshot);
        if decisions.is_complete() {
            DECISION_LINTS.iter().for_each(|(lint, _)| lint(&mut decisions, &mut found));
        } else {
            rule_decisions::check(&mut decisions, &mut found);
        }
    }
    // Objects without a location are built in (Thorium's default base policy) and cannot be changed.
    found.retain(|finding| finding.location.is_some());
    found
}

/// Returns findings about dangling references, which make every answer about a snapshot doubtful.
pub fn dangling(snapshot: &Snapshot) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    missing_groups::check(snapshot, &mut found);
    found
}

/// Returns the codes of all lints.
pub fn codes() -> impl Iterator<Item = &'static Code> {
    LINTS.iter().flat_map(|(_, codes)| codes.iter().copied()).chain(codes_of_decisions())
}

/// Returns the codes of the lints about the decisions of rules.
pub fn codes_of_decisions() -> impl Iterator<Item = &'static Code> {
    DECISION_LINTS.iter().flat_map(|(_, codes)| codes.iter().copied())
}

/// Creates a finding about a policy, located where the policy is written.
fn about(code: &'static Code, object: &Object, message: String) -> Diagnostic {
    let subject = diagnostic::Subject {
        kind: object.kind.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    };
    Diagnostic::new(code, message).about(subject).at(object.at.clone())
}

/// Creates a finding about a rule, or about the field `part` below it.
fn about_rule(code: &'static Code, policy: &Policy, rule: &Rule, part: &str, message: String) -> Diagnostic {
    let field = match policy.object.dialect == Dialect::Thorium {
        true => format!("{}[{}]", rule.direction, rule.index),
        false => format!("spec.{}[{}]{part}", rule.direction, rule.index),
    };
    let at = rule.at.clone().or_else(|| policy.object.at.clone());
    about(code, &policy.object, message).field(field).at(at)
}

/// Returns the pods that policies can select: alive, and in the pod network.
fn pods(snapshot: &Snapshot) -> impl Iterator<Item = usize> {
    (0..snapshot.pods().len()).filter(|pod| is_visible(&snapshot.pods()[*pod]))
}

/// Returns the pods of these namespaces; of all, where namespaces are relative to a subject.
///
/// A cluster has thousands of policies and pods, and nearly every policy selects in one namespace: this keeps lints from
/// comparing every pod with every policy.
fn pods_of<'s>(snapshot: &'s Snapshot, namespaces: &'s Namespaces) -> impl Iterator<Item = usize> + 's {
    let among = match namespaces {
        Namespaces::Named(name) => snapshot.namespace(name).map(std::slice::from_ref).unwrap_or_default(),
        _ => snapshot.namespaces(),
    };
    let is_selected = |namespace: &&Namespace| match namespaces {
        Namespaces::Matching(selector) => selector.matches(&namespace.labels),
        _ => true,
    };
    let here = among.iter().filter(is_selected).flat_map(|namespace| snapshot.pods_in(&namespace.name));
    here.filter(|pod| is_visible(&snapshot.pods()[*pod]))
}

fn is_visible(pod: &Pod) -> bool {
    !pod.terminated && !pod.host_network && !pod.external
}

/// Returns the pods of a subject.
fn pods_of_subject<'c>(
    context: &'c Context<'_>,
    subject: &'c Subject,
) -> Box<dyn Iterator<Item = usize> + 'c> {
    let candidates: Box<dyn Iterator<Item = usize> + 'c> = match subject {
        Subject::Pods(set) => Box::new(pods_of(context.snapshot, &set.namespaces)),
        Subject::Group { .. } => Box::new(pods(context.snapshot)),
        Subject::Nodes(_) | Subject::Service(_) => Box::new(std::iter::empty()),
    };
    Box::new(
        candidates.filter(move |pod| context.applies(std::slice::from_ref(subject), Endpoint::Pod(*pod))),
    )
}

/// Whether an empty set is worth reporting: the input has some pod of the namespaces it selects.
fn has_candidates(snapshot: &Snapshot, set: &PodSet) -> bool {
    if set.external {
        return false;
    }
    match &set.namespaces {
        Namespaces::Named(_) => pods_of(snapshot, &set.namespaces).next().is_some(),
        _ => pods(snapshot).next().is_some(),
    }
}
