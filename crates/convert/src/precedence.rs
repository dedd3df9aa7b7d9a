//! Precedence of policies, and the check that a conversion changes the order of no two policies that may meet.

use std::cell::Cell;

use palisade_analysis::disjoint::are_disjoint;
use palisade_model::policy::{Direction, Policy, Priority, Subject};
use palisade_model::snapshot::Stage;

use super::codes;
use super::conversion::Conversion;
use super::output::{ConversionOutput, EmittedObject};

/// Maximum number of pairs of subjects that are compared in one attempt: some seconds of work.
const MAX_COMPARED: usize = 20_000_000;
/// Maximum number of reorderings that are reported.
const MAX_REORDERINGS: usize = 10_000;

/// Tier and priority of a policy; lower ones are evaluated first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Precedence {
    pub tier: u8,
    pub priority: Priority,
}

/// Subjects that a policy applies to, egress and ingress apart.
#[derive(Debug, Clone)]
pub(super) struct PolicySubjects([Vec<Subject>; 2]);

// === impl Precedence ===

impl Precedence {
    /// The NetworkPolicy stage: tier 252, which no dialect can name.
    pub const UNION: Precedence = Precedence { tier: 252, priority: Priority(0.0) };

    pub fn new(tier: u8, priority: f64) -> Self {
        Precedence { tier, priority: Priority(priority) }
    }

    pub fn stage(self) -> Stage {
        if self.tier <= Stage::LAST_TIER { Stage::Tiers } else { Stage::Baseline }
    }
}

// === impl PolicySubjects ===

impl PolicySubjects {
    pub fn of(policy: &Policy) -> Self {
        PolicySubjects(
            Direction::BOTH.map(|direction| subjects_of(policy, direction).into_iter().cloned().collect()),
        )
    }

    /// Whether no connection can be subject to both policies in the same direction.
    ///
    /// Comparing all policies with each other is quadratic, and so are their subjects. `compared` counts the pairs of an
    /// attempt; beyond [`MAX_COMPARED`] policies are taken to meet, which refuses or splits more than is necessary and
    /// never less.
    pub fn are_disjoint(&self, other: &PolicySubjects, compared: &Cell<usize>) -> bool {
        let pairs = || self.0.iter().zip(&other.0);
        let count: usize = pairs().map(|(one, other)| one.len().saturating_mul(other.len())).sum();
        compared.set(compared.get().saturating_add(count + 1));
        compared.get() < MAX_COMPARED
            && pairs().all(|(one, other)| one.iter().all(|a| other.iter().all(|b| are_disjoint(a, b))))
    }
}

/// Refuses emitted policies that would be evaluated before or after another one, other than now, where both may apply to the
/// same pods.
pub(super) fn refuse_reorderings(conversion: &Conversion<'_>, output: &mut ConversionOutput) {
    let mut wrong: Vec<(usize, String)> = Vec::new();
    for emitted in &output.emitted {
        let origin = &conversion.origins[emitted.origin];
        let Some(from) = origin.precedence else { continue };
        for stays in &conversion.staying {
            let Some(precedence) = stays.precedence else { continue };
            if from.cmp(&precedence) == emitted.precedence.cmp(&precedence)
                || origin.subjects.are_disjoint(&stays.subjects, &conversion.compared)
            {
                continue;
            }
            let side = if emitted.precedence < precedence { "before" } else { "after" };
            let reason = format!("it would come {side} {}, which stays as it is", stays.policy.object);
            wrong.push((emitted.origin, reason));
            if wrong.len() >= MAX_REORDERINGS {
                break;
            }
        }
    }
    // Converted policies among themselves: they may be given tiers in another order.
    let froms: Vec<Option<Precedence>> =
        output.emitted.iter().map(|emitted| conversion.origins[emitted.origin].precedence).collect();
    for (at, emitted) in output.emitted.iter().enumerate() {
        for (other, from) in output.emitted[..at].iter().zip(&froms) {
            let (Some(own), Some(from)) = (froms[at], *from) else { continue };
            // NetworkPolicies have no order, and their target has compared every pair already.
            let union = emitted.precedence == Precedence::UNION && other.precedence == Precedence::UNION;
            // Rules of one object are in their order.
            let union = union || emitted.object.is_none();
            let ordered = own.cmp(&from) == emitted.precedence.cmp(&other.precedence) || own == from || union;
            let origin = |emitted: &EmittedObject| &conversion.origins[emitted.origin];
            if !ordered
                && !origin(emitted).subjects.are_disjoint(&origin(other).subjects, &conversion.compared)
            {
                let side = if emitted.precedence < other.precedence { "before" } else { "after" };
                let reason =
                    format!("it would come {side} {}, and does not now", origin(other).policy.object);
                wrong.push((emitted.origin, reason));
                if wrong.len() >= MAX_REORDERINGS {
                    break;
                }
            }
        }
    }
    for (origin, reason) in wrong {
        output.scope(conversion, origin).refuse(&codes::ORDER, None, "", reason);
    }
}

/// Returns the subjects of a policy's rules and isolations in a direction, sorted, without duplicates.
fn subjects_of(policy: &Policy, direction: Direction) -> Vec<&Subject> {
    let rules = policy.rules.iter().filter(|rule| rule.direction == direction).map(|rule| &rule.subjects);
    let isolations = policy.isolations.iter().filter(|isolation| isolation.direction == direction);
    let mut all: Vec<&Subject> =
        rules.chain(isolations.map(|isolation| &isolation.subjects)).flat_map(|list| list.iter()).collect();
    all.sort_unstable();
    all.dedup();
    all
}
