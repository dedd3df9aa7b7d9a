//! What is legal and probably not meant.
//!
//! A lint asks a [`Snapshot`] one question and reports what it finds. To add one: write a function of this shape in a
//! file of its own, give it a [`Code`] with its documentation, and add both to [`LINTS`]. What can be seen in a single
//! object as written (an empty `egress` without `policyTypes`) is not here but with its dialect's validation.

mod addresses;
mod dns;
mod families;
mod named_ports;
mod selectors;
mod ties;

use std::collections::BTreeMap;

use palisade_model::diagnostic::{Code, Diagnostic, Subject};
use palisade_model::matching::Context;
use palisade_model::policy::{Namespaces, Object, PodSet, Policy, Rule};
use palisade_model::snapshot::Snapshot;

/// A question about a snapshot.
pub type Lint = fn(&Snapshot, &mut Vec<Diagnostic>);

/// All of them, each with the codes it can report.
pub static LINTS: &[(Lint, &[&Code])] = &[
    (selectors::check, &[&selectors::SELECTS_NOTHING, &selectors::PEER_SELECTS_NOTHING]),
    (named_ports::check, &[&named_ports::RESOLVES_NOWHERE]),
    (dns::check, &[&dns::NO_DNS]),
    (families::check, &[&families::ONE_FAMILY]),
    (ties::check, &[&ties::TIE, &ties::SAME_PRIORITY, &ties::OVN_LIMIT]),
    (addresses::check, &[&addresses::SHARED_ADDRESS]),
];

/// Everything that all lints find.
pub fn lint(snapshot: &Snapshot) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (lint, _) in LINTS {
        lint(snapshot, &mut found);
    }
    found
}

/// The codes of all lints.
pub fn codes() -> impl Iterator<Item = &'static Code> {
    LINTS.iter().flat_map(|(_, codes)| codes.iter().copied())
}

/// A finding about a policy.
fn about(code: &'static Code, object: &Object, message: String) -> Diagnostic {
    let subject =
        Subject { kind: object.kind.clone(), namespace: object.namespace.clone(), name: object.name.clone() };
    Diagnostic::new(code, message).about(subject).at(object.at.clone())
}

/// A finding about a rule, or about its part.
fn about_rule(code: &'static Code, policy: &Policy, rule: &Rule, part: &str, message: String) -> Diagnostic {
    let field = format!("spec.{}[{}]{part}", rule.direction, rule.index);
    let at = rule.at.clone().or_else(|| policy.object.at.clone());
    about(code, &policy.object, message).field(field).at(at)
}

/// The pods that policies can see: alive, and in the pod network.
fn pods(snapshot: &Snapshot) -> impl Iterator<Item = usize> {
    let visible = |pod: &palisade_model::cluster::Pod| !pod.terminated && !pod.host_network;
    snapshot.pods().iter().enumerate().filter(move |(_, pod)| visible(pod)).map(|(index, _)| index)
}

/// The same pods by namespace, so that a policy is not held against those of all the others.
struct Pods<'s> {
    all: Vec<usize>,
    by_namespace: BTreeMap<&'s str, Vec<usize>>,
}

impl<'s> Pods<'s> {
    fn of(snapshot: &'s Snapshot) -> Self {
        let mut index = Pods { all: pods(snapshot).collect(), by_namespace: BTreeMap::new() };
        for pod in &index.all {
            index.by_namespace.entry(snapshot.pods()[*pod].namespace.as_str()).or_default().push(*pod);
        }
        index
    }

    /// Those of the namespaces that a set speaks about: whoever is in the set is among them. Where there are none, not
    /// enough is known to say that the set is empty.
    fn near(&self, set: &PodSet) -> &[usize] {
        match &set.namespaces {
            Namespaces::Named(name) => self.by_namespace.get(name.as_str()).map_or(&[], Vec::as_slice),
            _ => &self.all,
        }
    }

    /// Those that are in one of the sets.
    fn within<'p>(
        &'p self,
        context: &'p Context<'_>,
        sets: &'p [PodSet],
    ) -> impl Iterator<Item = usize> + 'p {
        let inside = move |set: &'p PodSet| {
            self.near(set).iter().copied().filter(move |pod| context.holds(set, *pod, *pod))
        };
        sets.iter().flat_map(inside)
    }
}
