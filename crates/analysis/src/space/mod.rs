//! Space of all pods that could exist in a cluster.
//!
//! ```text
//!   pod sets ──► predicates ──► problem: in all of these and none of those? ──► solver ──► witness
//! ```
//!
//! A pod that could exist is in an existing namespace, with that one's labels, or in a new one with any labels; it has any
//! labels and any service account. A selection of pods is a [`Predicate`], and every query is whether some pod is in all of
//! some predicates and in none of others ([`Space::find`]). The answer is exact and comes with an example, a [`Witness`].
//!
//! There are infinitely many label values, but a selector distinguishes only those it mentions. So predicates are Boolean
//! formulas over finitely many fields, which a small solver decides (`solve.rs`). Such formulas are hard in the worst case:
//! the search is bounded, and [`SearchResult::Unknown`] is an answer.
//!
//! Values that an API server refuses (a blank in a label, a dot in a namespace's name) belong to no possible pod. Pods of a
//! file may have them: those are matched by the model.

mod bits;
mod clash;
mod describe;
mod predicate;
mod problem;
mod region;
mod signatures;
mod solve;
mod values;
mod witness;

use std::collections::HashMap;

use palisade_model::cluster::{NAMESPACE_NAME_LABEL, Namespace};
use palisade_model::policy::PodSet;
use palisade_model::snapshot::Snapshot;
use smol_str::{SmolStr, format_smolstr};

pub use bits::BitSet;
pub use clash::{Clash, never_matches};
pub use describe::{Description, PodDescription, describe, describe_groups};
pub use predicate::Predicate;
use problem::Problem;
pub use signatures::{Signature, TooMany};
use solve::SolverSteps;
pub use witness::Witness;

/// Pods that could exist in a cluster.
#[derive(Debug, Clone)]
pub struct Space {
    namespaces: Vec<Namespace>,
    by_name: HashMap<SmolStr, usize>,
    external: bool,
    steps: u64,
}

/// Index of an existing namespace in a [`Space`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespaceIndex(usize);

/// Result of a search for a pod.
#[derive(Debug, Clone)]
pub enum SearchResult {
    /// A pod exists; this is an example.
    Found(Box<Witness>),
    /// No pod exists.
    Empty,
    /// The search exceeded its limit.
    Unknown,
}

/// Truth of a claim about all pods that could exist.
#[derive(Debug, Clone)]
pub enum Claim {
    /// True for all.
    Holds,
    /// False, e.g. for this pod.
    Fails(Box<Witness>),
    /// The search exceeded its limit.
    Unknown,
}

/// Default maximum number of clauses evaluated for one answer: some seconds.
const MAX_STEPS: u64 = 50_000_000;

// === impl Space ===

impl Space {
    /// Creates the space of pods of the pod network.
    pub fn new(snapshot: &Snapshot) -> Self {
        let (namespaces, by_name) = (Vec::new(), HashMap::new());
        let empty = Space { namespaces, by_name, external: false, steps: MAX_STEPS };
        snapshot.namespaces().iter().cloned().fold(empty, Space::and)
    }

    /// Creates the space of external entities.
    pub fn external(snapshot: &Snapshot) -> Self {
        Space { external: true, ..Space::new(snapshot) }
    }

    /// Adds an existing namespace, e.g. that of a witness, for queries relative to it. Replaces one of the same name.
    /// Predicates created before are invalid in the new space.
    #[must_use]
    pub fn and(mut self, mut namespace: Namespace) -> Self {
        namespace.labels.set(NAMESPACE_NAME_LABEL.into(), namespace.name.clone());
        match self.by_name.get(&namespace.name) {
            Some(at) => self.namespaces[*at] = namespace,
            None => {
                self.by_name.insert(namespace.name.clone(), self.namespaces.len());
                self.namespaces.push(namespace);
            }
        }
        self
    }

    /// Sets the maximum number of clauses evaluated for one answer.
    #[must_use]
    pub fn bounded(self, steps: u64) -> Self {
        Space { steps, ..self }
    }

    /// Returns an existing namespace by name.
    pub fn namespace(&self, name: &str) -> Option<NamespaceIndex> {
        self.by_name.get(name).copied().map(NamespaceIndex)
    }

    /// Creates the predicate of a pod set. Relative namespaces are resolved for the subject's, and empty without one.
    pub fn predicate(&self, set: &PodSet, subject: Option<NamespaceIndex>) -> Predicate {
        Predicate::new(self, set, subject)
    }

    /// Whether a pod is in a predicate.
    pub fn holds(&self, predicate: &Predicate, witness: &Witness) -> bool {
        match witness.place {
            Some(NamespaceIndex(at)) => predicate.namespaces_in.has(at) && witness.is_in(&predicate.pods),
            None => {
                predicate.new_namespaces.as_ref().is_some_and(|ask| ask.holds(|region| witness.is_in(region)))
            }
        }
    }

    /// Searches for a pod that is in all of these and in none of those.
    pub fn find(&self, all: &[&Predicate], none: &[&Predicate]) -> SearchResult {
        let predicates: Vec<&Predicate> = all.iter().chain(none).copied().collect();
        let problem = Problem::new(self, predicates);
        let mut part = problem.all_pods();
        for at in 0..all.len() {
            match problem.intersect(&part, at) {
                Some(inner) => part = inner,
                None => return SearchResult::Empty,
            }
        }
        (all.len()..all.len() + none.len()).for_each(|at| problem.exclude(&mut part, at));
        match problem.find(&part, &mut SolverSteps(self.steps)) {
            Ok(Some(witness)) => SearchResult::Found(Box::new(witness)),
            Ok(None) => SearchResult::Empty,
            Err(solve::Exhausted) => SearchResult::Unknown,
        }
    }

    /// Whether every pod of `inner` is in `outer`.
    pub fn contains(&self, outer: &Predicate, inner: &Predicate) -> Claim {
        self.find(&[inner], &[outer]).negated()
    }

    /// Whether no pod is in both.
    pub fn disjoint(&self, a: &Predicate, b: &Predicate) -> Claim {
        self.find(&[a, b], &[]).negated()
    }

    /// Whether both hold the same pods.
    pub fn same(&self, a: &Predicate, b: &Predicate) -> Claim {
        match self.contains(a, b) {
            Claim::Holds => self.contains(b, a),
            // A pod in only one of them decides the claim, even if the other search is inconclusive.
            Claim::Unknown => match self.contains(b, a) {
                Claim::Fails(witness) => Claim::Fails(witness),
                _ => Claim::Unknown,
            },
            fails => fails,
        }
    }

    /// Returns a name that no namespace has.
    fn new_name(&self) -> SmolStr {
        let names = std::iter::once("other".into()).chain((1_usize..).map(|n| format_smolstr!("other-{n}")));
        names.into_iter().find(|name| self.namespace(name).is_none()).unwrap_or_default()
    }
}

// === impl SearchResult ===

impl SearchResult {
    /// Returns the example, if one was found.
    pub fn witness(&self) -> Option<&Witness> {
        match self {
            SearchResult::Found(witness) => Some(witness),
            _ => None,
        }
    }

    /// Returns the claim that no pod exists.
    fn negated(self) -> Claim {
        match self {
            SearchResult::Found(witness) => Claim::Fails(witness),
            SearchResult::Empty => Claim::Holds,
            SearchResult::Unknown => Claim::Unknown,
        }
    }
}

// === impl Claim ===

impl Claim {
    /// Whether it certainly holds.
    pub fn holds(&self) -> bool {
        matches!(self, Claim::Holds)
    }

    /// Whether it certainly fails.
    pub fn fails(&self) -> bool {
        matches!(self, Claim::Fails(_))
    }
}
