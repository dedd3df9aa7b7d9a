//! NetworkPolicies as rules that are asked in order: first what any of them allows, then that they deny the rest.
//!
//! This stands directly behind the NetworkPolicy stage, at the very beginning of the baseline tiers: whoever is isolated
//! gets a final answer there, as before, and everybody else goes on to the baseline. It is the same only if every
//! policy that adds up goes: one that stays would deny what these allow.

use std::sync::Arc;

use palisade_analysis::disjoint::are_disjoint;
use palisade_model::policy::{Direction, Isolation, Placement, Rule, Subject};
use palisade_model::snapshot::Stage;

use super::codes;
use super::conversion::Conversion;
use super::numbers::Wanted;
use super::order::{Line, Piece, Place, Slot, Tongue, pieces, side_by_side};
use super::speech::Speech;

/// What a rule of a policy that adds up is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Worth {
    /// Whoever it applies to is isolated: what it allows is allowed.
    Counts,
    /// Nobody it applies to is isolated: it opens nothing, because nothing is closed.
    Nothing,
    /// Some may be, and some not.
    Unclear,
}

/// The union policies to convert, allowing ones before denying ones.
pub(super) fn slots<T: Tongue>(conversion: &Conversion<'_>, tongue: &T, speech: &mut Speech) -> Vec<Slot> {
    let origins: Vec<usize> = (0..conversion.origins.len())
        .filter(|at| {
            conversion.origins[*at].policy.placement == Placement::Union && !speech.failed.contains(at)
        })
        .collect();
    let mut allowing: Vec<Vec<Piece>> = Vec::new();
    let mut denying: Vec<Vec<Piece>> = Vec::new();
    for origin in origins {
        let policy = &conversion.origins[origin].policy;
        let mut lines = Vec::new();
        for rule in &policy.rules {
            if counts(conversion, origin, rule, speech) {
                lines.push(Line {
                    origin,
                    direction: rule.direction,
                    index: rule.index,
                    subjects: Arc::clone(&rule.subjects),
                    words: tongue.rule(conversion, origin, rule, Stage::Baseline, speech),
                });
            }
        }
        allowing.push(pieces(conversion, tongue, &lines, speech));
        let mut lines = Vec::new();
        for isolation in
            policy.isolations.iter().filter(|isolation| !is_covered(conversion, origin, isolation))
        {
            let Some(words) = tongue.deny_all(isolation.direction) else {
                let why = format!(
                    "it isolates pods for {}: everybody has to be denied, and there are no words for everybody there",
                    isolation.direction
                );
                speech.cannot(&codes::UNION, conversion, origin, None, "", why);
                continue;
            };
            lines.push(Line {
                origin,
                direction: isolation.direction,
                index: 0,
                subjects: Arc::clone(&isolation.subjects),
                words: vec![words],
            });
        }
        let isolating = pieces(conversion, tongue, &lines, speech).into_iter();
        denying.push(isolating.map(|piece| Piece { isolates: true, ..piece }).collect());
    }
    // What is allowed is allowed in any order, and so is what is denied.
    let mut slots = side_by_side(Place::UNION, Wanted::Anywhere, allowing);
    slots.extend(side_by_side(Place::UNION, Wanted::Anywhere, denying));
    slots
}

/// Whether a rule has to be said. Notes where it has not, and where nobody can say.
pub(super) fn counts(conversion: &Conversion<'_>, origin: usize, rule: &Rule, speech: &mut Speech) -> bool {
    let key = (Arc::clone(&rule.subjects), rule.direction);
    let known = conversion.worths.borrow().get(&key).copied();
    let own = known.unwrap_or_else(|| {
        let own = worth(conversion, rule);
        conversion.worths.borrow_mut().insert(key, own);
        own
    });
    match own {
        Worth::Counts => true,
        Worth::Nothing => {
            let message = "nobody isolates the pods of the rule: it opens nothing and is left out".to_owned();
            speech.note(&codes::NO_EFFECT, conversion, origin, Some(rule), "", message);
            false
        }
        Worth::Unclear => {
            let why =
                "some of its pods are isolated and some may not be: elsewhere the rule would hold for all";
            speech.cannot(&codes::UNION, conversion, origin, Some(rule), "", why.to_owned());
            false
        }
    }
}

/// What a rule is worth where all policies that add up are taken together.
fn worth(conversion: &Conversion<'_>, rule: &Rule) -> Worth {
    let all = || conversion.origins.iter().chain(&conversion.staying);
    let isolations = || {
        all()
            .flat_map(|origin| &origin.policy.isolations)
            .filter(|isolation| isolation.direction == rule.direction)
            .flat_map(|isolation| isolation.subjects.iter())
    };
    let worth = |subject: &Subject| {
        if isolations().any(|isolated| covers(isolated, subject)) {
            Worth::Counts
        } else if isolations().all(|isolated| are_disjoint(isolated, subject)) {
            Worth::Nothing
        } else {
            Worth::Unclear
        }
    };
    let mut each = rule.subjects.iter().map(worth);
    let first = each.next().unwrap_or(Worth::Nothing);
    if each.all(|one| one == first) { first } else { Worth::Unclear }
}

/// Whether another policy that is converted isolates all of these pods already; of two that isolate the same, the second.
fn is_covered(conversion: &Conversion<'_>, origin: usize, isolation: &Isolation) -> bool {
    let covered = |by: &Isolation| {
        by.direction == isolation.direction
            && isolation.subjects.iter().all(|one| by.subjects.iter().any(|other| covers(other, one)))
    };
    conversion.origins.iter().enumerate().any(|(at, other)| {
        let others = || other.policy.isolations.iter();
        let same = |by: &&Isolation| {
            let back = |one: &Subject| isolation.subjects.iter().any(|other| covers(other, one));
            by.subjects.iter().all(back)
        };
        at != origin && others().any(|by| covered(by) && (at < origin || !same(&by)))
    })
}

/// Whether everybody of the second is in the first, whatever the cluster. `false` means only that it is not obvious.
pub(super) fn covers(all: &Subject, some: &Subject) -> bool {
    match (all, some) {
        (Subject::Pods(all), Subject::Pods(some)) => {
            let asked = all.pods.requirements();
            all.namespaces == some.namespaces
                && all.external == some.external
                && (all.account.is_none() || all.account == some.account)
                && asked.iter().all(|requirement| some.pods.requirements().contains(requirement))
        }
        (all, some) => all == some,
    }
}

/// Both directions that a policy says something about, in the order of `policyTypes`.
pub(super) const DIRECTIONS: [Direction; 2] = [Direction::Ingress, Direction::Egress];
