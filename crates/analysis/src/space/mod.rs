//! Questions about all pods that could exist, not only about those that do.
//!
//! A **pod that could exist** is in a namespace that exists, which has exactly the labels it has, or in one to come,
//! which may have any; it has any labels of its own and any service account. Whatever policies select pods by is a
//! [`Predicate`] over such pods, and every question is one of whether there is a pod in some and in none of others
//! ([`Space::find`]). The answer is exact and comes with such a pod, a [`Witness`].
//!
//! There are infinitely many label values, but a selector tells apart only those it names: the rest is one. So what
//! selectors say is a Boolean formula over finitely many fields, and a small solver decides it (`solve.rs`). That such
//! formulas can be hard in theory is why looking is bounded and [`Answer::Unknown`] is an answer.
//!
//! What an API server would refuse (a value with a blank, a namespace with a dot in its name) no pod can have, although
//! a pod in a file may: those are asked as they are, by the model.

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

pub use bits::Bits;
pub use clash::{Clash, never_matches};
pub use describe::{Described, Description, describe, describe_groups};
pub use predicate::Predicate;
use problem::Problem;
pub use signatures::{Signature, TooMany};
use solve::Steps;
pub use witness::Witness;

/// All pods that could exist in a cluster.
#[derive(Debug, Clone)]
pub struct Space {
    namespaces: Vec<Namespace>,
    by_name: HashMap<SmolStr, usize>,
    external: bool,
    steps: u64,
}

/// A namespace that exists in a [`Space`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(usize);

/// Whether there is a pod.
#[derive(Debug, Clone)]
pub enum Answer {
    /// There is one, e.g. this.
    Found(Box<Witness>),
    /// There is none.
    Nobody,
    /// Finding out takes longer than is allowed.
    Unknown,
}

/// Whether something holds for all pods that could exist.
#[derive(Debug, Clone)]
pub enum Claim {
    /// It does.
    Holds,
    /// It does not, e.g. for this one.
    Fails(Box<Witness>),
    /// Finding out takes longer than is allowed.
    Unknown,
}

/// As many clauses are looked at for one answer, unless told otherwise: some seconds.
const MOST_STEPS: u64 = 50_000_000;

// === impl Space ===

impl Space {
    /// The pods of the pod network that could exist in a cluster.
    pub fn new(snapshot: &Snapshot) -> Self {
        let (namespaces, by_name) = (Vec::new(), HashMap::new());
        let empty = Space { namespaces, by_name, external: false, steps: MOST_STEPS };
        snapshot.namespaces().iter().cloned().fold(empty, Space::and)
    }

    /// The external entities that could exist, instead of pods.
    pub fn external(snapshot: &Snapshot) -> Self {
        Space { external: true, ..Space::new(snapshot) }
    }

    /// With a namespace that exists, too: that of a witness, in order to ask who is in it or relative to it.
    /// One that has its name is replaced. Predicates made before are of no use in the new space.
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

    /// With another bound for one answer: as many clauses are looked at.
    #[must_use]
    pub fn bounded(self, steps: u64) -> Self {
        Space { steps, ..self }
    }

    /// A namespace that exists.
    pub fn place(&self, name: &str) -> Option<Place> {
        self.by_name.get(name).copied().map(Place)
    }

    /// The pods of a set. What is relative is so to the subject's namespace, and nobody where there is none.
    pub fn predicate(&self, set: &PodSet, subject: Option<Place>) -> Predicate {
        Predicate::new(self, set, subject)
    }

    /// Whether a pod is in a set.
    pub fn holds(&self, predicate: &Predicate, witness: &Witness) -> bool {
        match witness.place {
            Some(Place(at)) => predicate.homes.has(at) && witness.is_in(&predicate.pods),
            None => predicate.to_come.as_ref().is_some_and(|ask| ask.holds(|region| witness.is_in(region))),
        }
    }

    /// A pod that is in all of these and in none of those.
    pub fn find(&self, all: &[&Predicate], none: &[&Predicate]) -> Answer {
        let predicates: Vec<&Predicate> = all.iter().chain(none).copied().collect();
        let problem = Problem::new(self, predicates);
        let mut part = problem.everybody();
        for at in 0..all.len() {
            match problem.inside(&part, at) {
                Some(inner) => part = inner,
                None => return Answer::Nobody,
            }
        }
        (all.len()..all.len() + none.len()).for_each(|at| problem.leave_out(&mut part, at));
        match problem.find(&part, &mut Steps(self.steps)) {
            Ok(Some(witness)) => Answer::Found(Box::new(witness)),
            Ok(None) => Answer::Nobody,
            Err(solve::Exhausted) => Answer::Unknown,
        }
    }

    /// Whether every pod of `inner` is in `outer`.
    pub fn contains(&self, outer: &Predicate, inner: &Predicate) -> Claim {
        self.find(&[inner], &[outer]).denied()
    }

    /// Whether no pod is in both.
    pub fn disjoint(&self, a: &Predicate, b: &Predicate) -> Claim {
        self.find(&[a, b], &[]).denied()
    }

    /// Whether both are the same pods.
    pub fn same(&self, a: &Predicate, b: &Predicate) -> Claim {
        match self.contains(a, b) {
            Claim::Holds => self.contains(b, a),
            // A pod that is in one only is an answer, also where the other question has none.
            Claim::Unknown => match self.contains(b, a) {
                Claim::Fails(witness) => Claim::Fails(witness),
                _ => Claim::Unknown,
            },
            fails => fails,
        }
    }

    /// A name that no namespace has.
    fn new_name(&self) -> SmolStr {
        let names = std::iter::once("other".into()).chain((1_usize..).map(|n| format_smolstr!("other-{n}")));
        names.into_iter().find(|name| self.place(name).is_none()).unwrap_or_default()
    }
}

// === impl Answer ===

impl Answer {
    /// The pod, if one was found.
    pub fn witness(&self) -> Option<&Witness> {
        match self {
            Answer::Found(witness) => Some(witness),
            _ => None,
        }
    }

    /// The claim that there is none.
    fn denied(self) -> Claim {
        match self {
            Answer::Found(witness) => Claim::Fails(witness),
            Answer::Nobody => Claim::Holds,
            Answer::Unknown => Claim::Unknown,
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
