//! NetworkPolicies as rules that are evaluated in order: what any of them allows, then denials for isolated pods.
//!
//! The rules stand directly behind the NetworkPolicy stage, before everything in the baseline tiers: isolated pods get a
//! final verdict there, as before, and others go on to the baseline. The result is equivalent only if every policy of the
//! stage is converted: one that stays would deny what these allow.

use std::sync::Arc;

use palisade_analysis::disjoint::are_disjoint;
use palisade_model::policy::{Direction, Isolation, Placement, Rule, Subject};
use palisade_model::snapshot::Stage;

use super::codes;
use super::conversion::Conversion;
use super::output::{ConversionOutput, PolicyScope};
use super::precedence::Precedence;
use super::priorities::PreferredPriority;
use super::slots::{ConvertedRule, DialectWriter, PolicyDraft, PrioritySlot, drafts, side_by_side};

/// Effect of a union rule, by whether its subjects are isolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnionEffect {
    /// All of its subjects are isolated: it opens what it allows.
    Opens,
    /// None of its subjects is isolated: everything is open without it.
    Nothing,
    /// Some of its subjects may be isolated, and some not.
    Mixed,
}

/// Directions in the order of `policyTypes`.
pub(super) const DIRECTIONS: [Direction; 2] = [Direction::Ingress, Direction::Egress];

/// Returns the slots of the union policies to convert, allowing ones before denying ones.
pub(super) fn slots<W: DialectWriter>(
    conversion: &Conversion<'_>,
    writer: &W,
    output: &mut ConversionOutput,
) -> Vec<PrioritySlot> {
    let origins: Vec<usize> = (0..conversion.origins.len())
        .filter(|at| {
            conversion.origins[*at].policy.placement == Placement::Union && !output.failed.contains(at)
        })
        .collect();
    let mut allowing: Vec<Vec<PolicyDraft>> = Vec::new();
    let mut denying: Vec<Vec<PolicyDraft>> = Vec::new();
    for origin in origins {
        let policy = &conversion.origins[origin].policy;
        let mut scope = output.scope(conversion, origin);
        let mut rules = Vec::new();
        for rule in &policy.rules {
            if opens(&mut scope, rule) {
                rules.push(ConvertedRule::new(writer, &mut scope, rule, Stage::Baseline));
            }
        }
        allowing.push(drafts(conversion, writer, &rules, output));
        let mut scope = output.scope(conversion, origin);
        let mut rules = Vec::new();
        for isolation in
            policy.isolations.iter().filter(|isolation| !is_covered(conversion, origin, isolation))
        {
            let Some(written) = writer.deny_all(isolation.direction) else {
                let reason = format!(
                    "it isolates pods for {}: everybody has to be denied, and there are no words for everybody there",
                    isolation.direction
                );
                scope.refuse(&codes::UNION, None, "", reason);
                continue;
            };
            rules.push(ConvertedRule {
                origin,
                direction: isolation.direction,
                index: 0,
                subjects: Arc::clone(&isolation.subjects),
                written: vec![written],
            });
        }
        let isolating = drafts(conversion, writer, &rules, output).into_iter();
        denying.push(isolating.map(|draft| PolicyDraft { isolates: true, ..draft }).collect());
    }
    // Among rules that all allow, or all deny, order changes no verdict.
    let mut slots = side_by_side(Precedence::UNION, PreferredPriority::Anywhere, allowing);
    slots.extend(side_by_side(Precedence::UNION, PreferredPriority::Anywhere, denying));
    slots
}

/// Whether a union rule has to be written. Reports one without effect, and refuses one whose effect is mixed.
pub(super) fn opens(scope: &mut PolicyScope<'_, '_>, rule: &Rule) -> bool {
    let conversion = scope.conversion;
    let key = (Arc::clone(&rule.subjects), rule.direction);
    let known = conversion.union_effects.borrow().get(&key).copied();
    let effect = known.unwrap_or_else(|| {
        let effect = union_effect(conversion, rule);
        conversion.union_effects.borrow_mut().insert(key, effect);
        effect
    });
    match effect {
        UnionEffect::Opens => true,
        UnionEffect::Nothing => {
            let message = "nobody isolates the pods of the rule: it opens nothing and is left out".to_owned();
            scope.report(&codes::NO_EFFECT, Some(rule), "", message);
            false
        }
        UnionEffect::Mixed => {
            let reason =
                "some of its pods are isolated and some may not be: elsewhere the rule would hold for all";
            scope.refuse(&codes::UNION, Some(rule), "", reason.to_owned());
            false
        }
    }
}

/// Returns the effect of a rule, given the isolations of all policies, converted and staying.
fn union_effect(conversion: &Conversion<'_>, rule: &Rule) -> UnionEffect {
    let all = || conversion.origins.iter().chain(&conversion.staying);
    let isolations = || {
        all()
            .flat_map(|origin| &origin.policy.isolations)
            .filter(|isolation| isolation.direction == rule.direction)
            .flat_map(|isolation| isolation.subjects.iter())
    };
    let effect = |subject: &Subject| {
        if isolations().any(|isolated| covers(isolated, subject)) {
            UnionEffect::Opens
        } else if isolations().all(|isolated| are_disjoint(isolated, subject)) {
            UnionEffect::Nothing
        } else {
            UnionEffect::Mixed
        }
    };
    let mut each = rule.subjects.iter().map(effect);
    let first = each.next().unwrap_or(UnionEffect::Nothing);
    if each.all(|one| one == first) { first } else { UnionEffect::Mixed }
}

/// Whether another converted policy isolates all of these pods. Of two that isolate the same ones the second is covered.
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

/// Whether `all` selects everything that `some` selects, in every cluster. `false` is no proof of the contrary.
pub(super) fn covers(all: &Subject, some: &Subject) -> bool {
    match (all, some) {
        (Subject::Pods(all), Subject::Pods(some)) => {
            let required = all.pods.requirements();
            all.namespaces == some.namespaces
                && all.external == some.external
                && (all.account.is_none() || all.account == some.account)
                && required.iter().all(|requirement| some.pods.requirements().contains(requirement))
        }
        (all, some) => all == some,
    }
}
