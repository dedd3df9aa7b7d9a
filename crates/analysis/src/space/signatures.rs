//! All that predicates tell apart: which combinations of them some pod is in.
//!
//! Predicates are decided one by one. Whoever is known to exist decides one of the two ways for free, what is plain
//! needs no search, and no way is followed that leads to nobody: the work is that of the answer, not of the 2ⁿ
//! combinations there could be.

use std::fmt;
use std::rc::Rc;

use super::Space;
use super::bits::Bits;
use super::predicate::Predicate;
use super::problem::{Part, Problem};
use super::solve::{Exhausted, Steps};
use super::witness::Witness;

/// The pods that are in exactly these of some predicates. There is one.
#[derive(Debug, Clone)]
pub struct Signature {
    /// The predicates they are in, by their place in the list.
    pub members: Bits,
    /// One of them.
    pub witness: Witness,
}

/// Why there is no list of signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooMany {
    /// There are more than were asked for.
    Signatures,
    /// Finding them takes longer than is allowed.
    Steps,
}

/// A part that is decided up to some predicate.
struct Undecided {
    part: Part,
    members: Bits,
    witness: Witness,
    /// The predicates that were open for the part it is split off from, from a place on.
    open: Rc<[usize]>,
    next: usize,
}

/// Looks whether a part meets a predicate that take as long as a step.
const LOOKS: u64 = 1;

// === impl Space ===

impl Space {
    /// Every combination of the predicates that some pod is in, and such a pod. They are exhaustive and exclusive: each
    /// pod that could exist has exactly one of them. Ordered by their members: what is in the first predicate comes
    /// first, and what is in none last.
    pub fn signatures(&self, predicates: &[&Predicate], limit: usize) -> Result<Vec<Signature>, TooMany> {
        self.list(predicates, limit, &mut Steps(self.steps), u64::MAX)
    }

    /// The same with steps that several questions share, of which looking at what is plain takes some, too.
    pub fn signatures_within(
        &self,
        predicates: &[&Predicate],
        limit: usize,
        left: &mut u64,
    ) -> Result<Vec<Signature>, TooMany> {
        let mut steps = Steps(*left);
        let found = self.list(predicates, limit, &mut steps, LOOKS * *left);
        let looked = found.as_ref().map_or(limit, Vec::len) * predicates.len();
        *left = match found {
            Err(TooMany::Steps) => 0,
            _ => steps.0.saturating_sub(looked as u64 / LOOKS),
        };
        found
    }

    fn list(
        &self,
        predicates: &[&Predicate],
        limit: usize,
        steps: &mut Steps,
        mut looks: u64,
    ) -> Result<Vec<Signature>, TooMany> {
        let problem = Problem::new(self, predicates.to_vec());
        let everybody = problem.everybody();
        let Some(witness) = problem.find(&everybody, steps)? else { return Ok(Vec::new()) };
        let members = Bits::none(problem.len());
        let open = (0..problem.len()).collect();
        let mut undecided = vec![Undecided { part: everybody, members, witness, open, next: 0 }];
        let mut found: Vec<Signature> = Vec::new();
        while let Some(next) = undecided.pop() {
            let open = (next.open.len() - next.next) as u64;
            looks = looks.checked_sub(open).ok_or(TooMany::Steps)?;
            found.push(self.decide(&problem, next, &mut undecided, steps)?);
            // Whatever is undecided leads to one more at least.
            if found.len() + undecided.len() > limit {
                return Err(TooMany::Signatures);
            }
        }
        found.sort_by(|a, b| b.members.by_first(&a.members));
        Ok(found)
    }

    /// Decides all that is open, and leaves the other way for later where there are two.
    fn decide(
        &self,
        problem: &Problem<'_>,
        from: Undecided,
        later: &mut Vec<Undecided>,
        steps: &mut Steps,
    ) -> Result<Signature, TooMany> {
        let Undecided { mut part, mut members, mut witness, open, next } = from;
        let open: Rc<[usize]> = open[next..].iter().copied().filter(|at| problem.meets(&part, *at)).collect();
        for (place, at) in open.iter().copied().enumerate() {
            if problem.is_within(&part, at) {
                members.insert(at);
                continue;
            }
            // What was decided since the list was made may have made it plain.
            let Some(inside) = problem.inside(&part, at) else { continue };
            let mut joined = members.clone();
            joined.insert(at);
            let mut leave = |part, members, witness| {
                later.push(Undecided { part, members, witness, open: Rc::clone(&open), next: place + 1 });
            };
            if self.holds(problem.predicate(at), &witness) {
                problem.leave_out(&mut part, at);
                match problem.find(&part, steps)? {
                    Some(outside) => leave(inside, joined, std::mem::replace(&mut witness, outside)),
                    None => (part, members) = (inside, joined),
                }
            } else {
                if let Some(other) = problem.find(&inside, steps)? {
                    leave(inside, joined, other);
                }
                problem.leave_out(&mut part, at);
            }
        }
        Ok(Signature { members, witness })
    }
}

// === impl TooMany ===

impl From<Exhausted> for TooMany {
    fn from(_: Exhausted) -> Self {
        TooMany::Steps
    }
}

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TooMany::Signatures => "there are too many sorts of pods to tell apart",
            TooMany::Steps => "telling the sorts of pods apart takes too long",
        })
    }
}

impl std::error::Error for TooMany {}
