//! Signatures: the combinations of predicates that some pod is in.
//!
//! Predicates are decided one by one. A known witness decides one branch without a search, and empty branches are not
//! followed: the cost is that of the result, not of the 2ⁿ possible combinations.

use std::fmt;
use std::rc::Rc;

use super::Space;
use super::bits::BitSet;
use super::predicate::Predicate;
use super::problem::{PodSubset, Problem};
use super::solve::{Exhausted, SolverSteps};
use super::witness::Witness;

/// Pods that are in exactly these of some predicates; at least one exists.
#[derive(Debug, Clone)]
pub struct Signature {
    /// Indices of the predicates they are in.
    pub members: BitSet,
    /// Example of such a pod.
    pub witness: Witness,
}

/// Limit that the list of signatures exceeds. Not retryable with the same limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooMany {
    /// There are more signatures than the limit.
    Signatures,
    /// The search exceeded its steps.
    Steps,
}

/// A subset that is decided for some of the predicates.
struct PendingSignature {
    part: PodSubset,
    members: BitSet,
    witness: Witness,
    /// Predicates that were open for the subset it was split from, to be decided from `next` on.
    open: Rc<[usize]>,
    next: usize,
}

/// Checks of a subset against a predicate that cost as much as a solver step.
const CHECKS_PER_STEP: u64 = 1;

// === impl Space ===

impl Space {
    /// Returns the signatures of the predicates: exhaustive and exclusive, each possible pod has exactly one. Sorted by
    /// members: those in the first predicate first, that in none last.
    pub fn signatures(&self, predicates: &[&Predicate], limit: usize) -> Result<Vec<Signature>, TooMany> {
        self.list(predicates, limit, &mut SolverSteps(self.steps), u64::MAX)
    }

    /// Returns the signatures, and charges `left`, a budget of steps that several queries share.
    pub fn signatures_within(
        &self,
        predicates: &[&Predicate],
        limit: usize,
        left: &mut u64,
    ) -> Result<Vec<Signature>, TooMany> {
        let mut steps = SolverSteps(*left);
        let found = self.list(predicates, limit, &mut steps, CHECKS_PER_STEP * *left);
        let looked = found.as_ref().map_or(limit, Vec::len) * predicates.len();
        *left = match found {
            Err(TooMany::Steps) => 0,
            _ => steps.0.saturating_sub(looked as u64 / CHECKS_PER_STEP),
        };
        found
    }

    fn list(
        &self,
        predicates: &[&Predicate],
        limit: usize,
        steps: &mut SolverSteps,
        mut checks: u64,
    ) -> Result<Vec<Signature>, TooMany> {
        let problem = Problem::new(self, predicates.to_vec());
        let all_pods = problem.all_pods();
        let Some(witness) = problem.find(&all_pods, steps)? else { return Ok(Vec::new()) };
        let members = BitSet::none(problem.len());
        let open = (0..problem.len()).collect();
        let mut undecided = vec![PendingSignature { part: all_pods, members, witness, open, next: 0 }];
        let mut found: Vec<Signature> = Vec::new();
        while let Some(next) = undecided.pop() {
            let open = (next.open.len() - next.next) as u64;
            checks = checks.checked_sub(open).ok_or(TooMany::Steps)?;
            found.push(self.decide(&problem, next, &mut undecided, steps)?);
            // Each pending subset yields at least one signature.
            if found.len() + undecided.len() > limit {
                return Err(TooMany::Signatures);
            }
        }
        found.sort_by(|a, b| b.members.by_first(&a.members));
        Ok(found)
    }

    /// Decides all open predicates of a subset; where both branches are non-empty, one is added to `later`.
    fn decide(
        &self,
        problem: &Problem<'_>,
        from: PendingSignature,
        later: &mut Vec<PendingSignature>,
        steps: &mut SolverSteps,
    ) -> Result<Signature, TooMany> {
        let PendingSignature { mut part, mut members, mut witness, open, next } = from;
        let open: Rc<[usize]> = open[next..].iter().copied().filter(|at| problem.meets(&part, *at)).collect();
        for (place, at) in open.iter().copied().enumerate() {
            if problem.is_within(&part, at) {
                members.insert(at);
                continue;
            }
            // Decisions since the list was created may have excluded it.
            let Some(intersect) = problem.intersect(&part, at) else { continue };
            let mut joined = members.clone();
            joined.insert(at);
            let mut leave = |part, members, witness| {
                later.push(PendingSignature {
                    part,
                    members,
                    witness,
                    open: Rc::clone(&open),
                    next: place + 1,
                });
            };
            if self.holds(problem.predicate(at), &witness) {
                problem.exclude(&mut part, at);
                match problem.find(&part, steps)? {
                    Some(outside) => leave(intersect, joined, std::mem::replace(&mut witness, outside)),
                    None => (part, members) = (intersect, joined),
                }
            } else {
                if let Some(other) = problem.find(&intersect, steps)? {
                    leave(intersect, joined, other);
                }
                problem.exclude(&mut part, at);
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
