//! Lints: what is legal in the policies of a cluster and probably not meant.
//!
//! A lint asks a [`Snapshot`] one question and reports what it finds. To add one: write a function of this shape in a
//! file of its own, give it a [`Code`] with its documentation, and add both to [`LINTS`]. One that asks what rules decide
//! shares the analysis of that with others, and goes to [`DECIDED`]. What can be seen in a single object as written (an
//! empty `egress` without `policyTypes`) is not here but with its dialect's validation.

mod addresses;
mod collisions;
mod conflict;
mod decisions;
mod dns;
mod entrances;
mod families;
mod forever;
mod groups;
mod idle_policies;
mod includes;
mod named_ports;
mod namespaces;
mod open;
mod pass;
mod redundant;
mod refused;
mod selectors;
mod services;
mod shadowed;
mod ties;
mod unlike;
mod unprotected;

use palisade_model::cluster::{Namespace, Pod};
use palisade_model::diagnostic::{self, Code, Diagnostic};
use palisade_model::matching::{Context, Endpoint};
use palisade_model::policy::{Dialect, Namespaces, Object, PodSet, Policy, Rule, Subject};
use palisade_model::snapshot::Snapshot;

use decisions::Decisions;

/// A question about a snapshot.
pub type Lint = fn(&Snapshot, &mut Vec<Diagnostic>);

/// All of them, each with the codes it can report.
pub static LINTS: &[(Lint, &[&Code])] = &[
    (selectors::check, &[&selectors::SELECTS_NOTHING, &selectors::PEER_SELECTS_NOTHING]),
    (named_ports::check, &[&named_ports::RESOLVES_NOWHERE]),
    (dns::check, &[&dns::NO_DNS]),
    (families::check, &[&families::ONE_FAMILY]),
    (namespaces::check, &[&namespaces::UNDECLARED]),
    (ties::check, &[&ties::TIE, &ties::SAME_PRIORITY, &ties::OVN_LIMIT]),
    (idle_policies::check, &[&idle_policies::NO_RULES]),
    (addresses::check, &[&addresses::SHARED_ADDRESS]),
    (services::check, &[&services::MISSING_SERVICE, &services::NO_CLUSTER_ADDRESS]),
    (collisions::check, &[&collisions::COLLISION]),
    (groups::check, &[&groups::MISSING_GROUP, &groups::GROUP_REACHES_OUT]),
    (entrances::check, &[&entrances::MISSING_BACKEND, &entrances::MISSING_PORT, &entrances::NOBODY_BEHIND]),
];

/// A question about what rules decide.
type Decided = fn(&mut Decisions<'_>, &mut Vec<Diagnostic>);

/// All of those. Their order matters: what the first say about a rule, later ones do not say less about.
static DECIDED: &[(Decided, &[&Code])] = &[
    (shadowed::check, &[&shadowed::SHADOWED, &shadowed::CONTRADICTED]),
    (pass::check, &[&pass::LEADS_NOWHERE]),
    (open::check, &[&open::OPEN_INGRESS, &open::OPEN_EGRESS]),
    (redundant::check, &[&redundant::REDUNDANT_RULE, &redundant::REDUNDANT_POLICY]),
    (refused::check, &[&refused::REFUSED]),
    (unprotected::check, &[&unprotected::UNPROTECTED]),
    (unlike::check, &[&unlike::UNLIKE]),
    (decisions::check, &[&decisions::TOO_MUCH]),
];

/// Everything that all lints find.
pub fn lint(snapshot: &Snapshot) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (lint, _) in LINTS {
        lint(snapshot, &mut found);
    }
    // Without any policy nothing is decided.
    if !snapshot.policies().is_empty() {
        let mut decisions = Decisions::new(snapshot);
        if decisions.is_complete() {
            DECIDED.iter().for_each(|(lint, _)| lint(&mut decisions, &mut found));
        } else {
            decisions::check(&mut decisions, &mut found);
        }
    }
    // What nobody wrote (Thorium's default base policy) nobody can change.
    found.retain(|finding| finding.location.is_some());
    found
}

/// What makes every answer about a snapshot doubtful: names that lead nowhere.
pub fn dangling(snapshot: &Snapshot) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    groups::check(snapshot, &mut found);
    found
}

/// The codes of all lints.
pub fn codes() -> impl Iterator<Item = &'static Code> {
    LINTS.iter().flat_map(|(_, codes)| codes.iter().copied()).chain(codes_of_decisions())
}

/// The codes of those among them that ask what rules decide.
pub fn codes_of_decisions() -> impl Iterator<Item = &'static Code> {
    DECIDED.iter().flat_map(|(_, codes)| codes.iter().copied())
}

/// A finding about a policy.
fn about(code: &'static Code, object: &Object, message: String) -> Diagnostic {
    let subject = diagnostic::Subject {
        kind: object.kind.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    };
    Diagnostic::new(code, message).about(subject).at(object.at.clone())
}

/// A finding about a rule, or about its part.
fn about_rule(code: &'static Code, policy: &Policy, rule: &Rule, part: &str, message: String) -> Diagnostic {
    let field = match policy.object.dialect == Dialect::Thorium {
        true => format!("{}[{}]", rule.direction, rule.index),
        false => format!("spec.{}[{}]{part}", rule.direction, rule.index),
    };
    let at = rule.at.clone().or_else(|| policy.object.at.clone());
    about(code, &policy.object, message).field(field).at(at)
}

/// The pods that policies can see: alive, and in the pod network.
fn pods(snapshot: &Snapshot) -> impl Iterator<Item = usize> {
    (0..snapshot.pods().len()).filter(|pod| is_visible(&snapshot.pods()[*pod]))
}

/// Those of them in these namespaces; everywhere, where namespaces are relative to somebody.
///
/// A cluster has thousands of policies and pods, and nearly every policy speaks about one namespace: this is what keeps
/// lints from asking every pod about every policy.
fn pods_of<'s>(snapshot: &'s Snapshot, namespaces: &'s Namespaces) -> impl Iterator<Item = usize> + 's {
    let among = match namespaces {
        Namespaces::Named(name) => snapshot.namespace(name).map(std::slice::from_ref).unwrap_or_default(),
        _ => snapshot.namespaces(),
    };
    let meant = |namespace: &&Namespace| match namespaces {
        Namespaces::Matching(selector) => selector.matches(&namespace.labels),
        _ => true,
    };
    let here = among.iter().filter(meant).flat_map(|namespace| snapshot.pods_in(&namespace.name));
    here.filter(|pod| is_visible(&snapshot.pods()[*pod]))
}

fn is_visible(pod: &Pod) -> bool {
    !pod.terminated && !pod.host_network && !pod.external
}

/// The pods that a subject holds.
fn pods_under<'c>(context: &'c Context<'_>, subject: &'c Subject) -> Box<dyn Iterator<Item = usize> + 'c> {
    let candidates: Box<dyn Iterator<Item = usize> + 'c> = match subject {
        Subject::Pods(set) => Box::new(pods_of(context.snapshot, &set.namespaces)),
        Subject::Group { .. } => Box::new(pods(context.snapshot)),
        Subject::Nodes(_) | Subject::Service(_) => Box::new(std::iter::empty()),
    };
    Box::new(
        candidates.filter(move |pod| context.applies(std::slice::from_ref(subject), Endpoint::Pod(*pod))),
    )
}

/// Whether enough is known to say that a set is empty: some pod of the namespaces it speaks about is here.
fn is_known(snapshot: &Snapshot, set: &PodSet) -> bool {
    if set.external {
        return false;
    }
    match &set.namespaces {
        Namespaces::Named(_) => pods_of(snapshot, &set.namespaces).next().is_some(),
        _ => pods(snapshot).next().is_some(),
    }
}
