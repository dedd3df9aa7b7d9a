//! All rules of a snapshot, resolved and in order: what fast verdicts and `analysis` start from.

use super::{ResolvedRule, rank, rule};
use crate::policy::Direction;
use crate::snapshot::{Snapshot, Stage};

/// The index of a rule in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleAt {
    /// The index of its policy in [`Snapshot::policies`].
    pub policy: usize,
    /// Its index in [`Policy::rules`](crate::policy::Policy::rules).
    pub rule: usize,
}

/// The rules of a snapshot that have an effect.
#[derive(Debug)]
pub struct Resolution<'s> {
    /// By policy and rule, as they are written.
    rules: Vec<ResolvedRuleAt<'s>>,
    /// For each policy the index of its first rule in `rules`, and one more for the end.
    policies: Vec<u32>,
    /// Indices of the rules of tiers before the NetworkPolicy stage, in order of evaluation.
    tiers: Vec<u32>,
    /// Indices of the rules of the tiers behind it.
    baseline: Vec<u32>,
}

/// A resolved rule and where it is written.
#[derive(Debug)]
pub struct ResolvedRuleAt<'s> {
    /// Its index in the snapshot.
    pub at: RuleAt,
    /// Its direction.
    pub direction: Direction,
    /// The rule.
    pub rule: ResolvedRule<'s>,
}

// === impl Resolution ===

impl<'s> Resolution<'s> {
    /// Resolves the rules of a snapshot.
    pub fn new(snapshot: &'s Snapshot) -> Self {
        let count = snapshot.policies().iter().map(|policy| policy.rules.len()).sum();
        let mut resolution = Resolution {
            rules: Vec::with_capacity(count),
            policies: Vec::with_capacity(snapshot.policies().len() + 1),
            tiers: Vec::new(),
            baseline: Vec::new(),
        };
        resolution.policies.push(0);
        for (policy, written) in snapshot.policies().iter().enumerate() {
            let rank = rank(written, &snapshot);
            for (at, own) in written.rules.iter().enumerate() {
                let Some(resolved) = rule(own, rank, &snapshot) else { continue };
                let index = resolution.end();
                match rank.stage {
                    Stage::Tiers => resolution.tiers.push(index),
                    Stage::NetworkPolicy => {}
                    Stage::Baseline => resolution.baseline.push(index),
                }
                resolution.rules.push(ResolvedRuleAt {
                    at: RuleAt { policy, rule: at },
                    direction: own.direction,
                    rule: resolved,
                });
            }
            let end = resolution.end();
            resolution.policies.push(end);
        }
        // Policies are sorted by kind, namespace and name, and the sort is stable: their order is the rest of the rank.
        let rules = &resolution.rules;
        let rank = |index: &u32| rules[*index as usize].rule.rank;
        resolution.tiers.sort_by_key(rank);
        resolution.baseline.sort_by_key(rank);
        resolution
    }

    /// Indices are u32: a snapshot holds at most 2^32 rules, more than fit in memory.
    fn end(&self) -> u32 {
        u32::try_from(self.rules.len()).unwrap_or(u32::MAX)
    }

    /// Returns the rule of an index.
    pub fn rule(&self, index: u32) -> &ResolvedRuleAt<'s> {
        &self.rules[index as usize]
    }

    /// Returns all rules, by policy and in the order they are written.
    pub fn rules(&self) -> &[ResolvedRuleAt<'s>] {
        &self.rules
    }

    /// Returns the indices of a policy's rules.
    pub fn of_policy(&self, policy: usize) -> std::ops::Range<u32> {
        self.policies[policy]..self.policies[policy + 1]
    }

    /// Returns the indices of the first-match rules of a stage, in order of evaluation; none for the NetworkPolicy stage.
    pub fn ranked(&self, stage: Stage) -> &[u32] {
        match stage {
            Stage::Tiers => &self.tiers,
            Stage::NetworkPolicy => &[],
            Stage::Baseline => &self.baseline,
        }
    }
}
