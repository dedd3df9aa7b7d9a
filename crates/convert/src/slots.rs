//! Rules of tiered targets, cut into objects that keep their order.
//!
//! ```text
//!   policies of one precedence ──► converted rules ──► drafts: what one object holds ──► slots: drafts of one priority
//!      (of_precedence)              (DialectWriter)        (drafts)                        (super::priorities)
//! ```
//!
//! Policies of one precedence interleave by the index of their rules, subjects may differ from rule to rule, and an object
//! of the target holds a limited number of rules and perhaps a single subject. So rules are put in evaluation order and cut
//! into [`PolicyDraft`]s, each of which gets a priority of its own. Where nothing of this is needed, one policy is one draft
//! and keeps its priority.

use std::collections::BTreeMap;
use std::sync::Arc;

use palisade_dialects::written::Written;
use palisade_model::policy::{Dialect, Direction, Placement, Rule, Subject};
use palisade_model::snapshot::Stage;

use super::conversion::{Conversion, OriginPolicy};
use super::output::{ConversionOutput, PolicyScope};
use super::precedence::Precedence;
use super::priorities::PreferredPriority;
use super::{codes, normalize, union};

/// Writer of a target whose rules are evaluated in order. What it cannot express it refuses in the scope.
pub(super) trait DialectWriter {
    /// Maximum number of rules of one direction in an object.
    fn max_rules(&self) -> usize;

    /// Whether an object has a single subject.
    fn has_single_subject(&self) -> bool;

    /// Writes the subjects of an object.
    fn subjects(&self, scope: &mut PolicyScope<'_, '_>, subjects: &[Subject]) -> Vec<Written>;

    /// Writes a rule as one or more, or as none when it matches nothing.
    fn rule(&self, scope: &mut PolicyScope<'_, '_>, rule: &Rule, stage: Stage) -> Vec<Written>;

    /// Writes a rule that denies everything to all peers; `None` when the target has no such peer.
    fn deny_all(&self, direction: Direction) -> Option<Written>;

    /// Whether policies of this dialect that share a precedence may share a priority in the target.
    fn may_tie(&self, dialect: Dialect) -> bool;

    /// Returns the priority that a policy should have.
    fn preferred_priority(&self, origin: &OriginPolicy) -> PreferredPriority;
}

/// A rule with what it is written as in the target.
#[derive(Debug, Clone)]
pub(super) struct ConvertedRule {
    pub origin: usize,
    pub direction: Direction,
    pub index: u32,
    pub subjects: Arc<[Subject]>,
    pub written: Vec<Written>,
}

/// Content of one object to emit.
#[derive(Debug, Clone)]
pub(super) struct PolicyDraft {
    pub origin: usize,
    pub subjects: Vec<Written>,
    pub ingress: Vec<Written>,
    pub egress: Vec<Written>,
    /// Whether it denies what no other draft of the policy allows.
    pub isolates: bool,
}

/// Drafts that get the same priority, with the precedence they have now.
#[derive(Debug, Clone)]
pub(super) struct PrioritySlot {
    pub from: Precedence,
    pub preferred: PreferredPriority,
    pub drafts: Vec<PolicyDraft>,
}

/// Consecutive rules of a policy that have the same subjects.
struct RuleRun<'l> {
    origin: usize,
    subjects: &'l Arc<[Subject]>,
    written: Vec<Written>,
}

/// Returns the slots of all policies to convert, in evaluation order.
pub(super) fn slots<W: DialectWriter>(
    conversion: &Conversion<'_>,
    writer: &W,
    output: &mut ConversionOutput,
) -> Vec<PrioritySlot> {
    let mut by_precedence: BTreeMap<Precedence, Vec<usize>> = BTreeMap::new();
    for (index, origin) in conversion.origins.iter().enumerate() {
        if let (Some(precedence), Placement::Tier { .. }) = (origin.precedence, &origin.policy.placement)
            && !output.failed.contains(&index)
        {
            by_precedence.entry(precedence).or_default().push(index);
        }
    }
    let mut slots = Vec::new();
    for (precedence, origins) in by_precedence.range(..Precedence::UNION) {
        slots.extend(of_precedence(conversion, writer, *precedence, origins, output));
    }
    slots.extend(union::slots(conversion, writer, output));
    for (precedence, origins) in by_precedence.range(Precedence::UNION..) {
        slots.extend(of_precedence(conversion, writer, *precedence, origins, output));
    }
    slots
}

/// Returns the slots of the policies that share a precedence.
fn of_precedence<W: DialectWriter>(
    conversion: &Conversion<'_>,
    writer: &W,
    precedence: Precedence,
    origins: &[usize],
    output: &mut ConversionOutput,
) -> Vec<PrioritySlot> {
    let rules: Vec<Vec<ConvertedRule>> = origins
        .iter()
        .map(|origin| converted_rules(conversion, writer, *origin, precedence.stage(), output))
        .collect();
    let subjects = |at: &usize| &conversion.origins[*at].subjects;
    let tied = origins.iter().enumerate().any(|(at, a)| {
        origins[at + 1..].iter().any(|b| !subjects(a).are_disjoint(subjects(b), &conversion.compared))
    });
    let preferred = origins
        .first()
        .map_or(PreferredPriority::Next, |first| writer.preferred_priority(&conversion.origins[*first]));
    let may_tie = origins.iter().all(|origin| writer.may_tie(conversion.origins[*origin].dialect));
    if !tied || may_tie {
        let by_policy: Vec<Vec<PolicyDraft>> =
            rules.iter().map(|rules| drafts(conversion, writer, rules, output)).collect();
        // Rules interleave by their index, and keep it only where each is written as one.
        let one_for_one = |rules: &Vec<ConvertedRule>| {
            rules.iter().all(|rule| rule.written.len() == 1)
                && rules.windows(2).all(|pair| pair[0].subjects == pair[1].subjects)
        };
        let same_subjects =
            |drafts: &Vec<PolicyDraft>| drafts.windows(2).all(|pair| pair[0].subjects == pair[1].subjects);
        if origins.len() > 1 && rules.iter().all(one_for_one) && by_policy.iter().all(same_subjects) {
            return side_by_side(precedence, preferred, by_policy);
        }
        if !tied {
            return one_by_one(precedence, preferred, by_policy.into_iter().flatten());
        }
    }
    let mut all: Vec<ConvertedRule> = rules.into_iter().flatten().collect();
    // The sort is stable: rules of one index stay in the order of their policies.
    all.sort_by_key(|rule| rule.index);
    let drafts = drafts(conversion, writer, &all, output);
    one_by_one(precedence, preferred, drafts)
}

/// Writes the rules of a policy.
fn converted_rules<W: DialectWriter>(
    conversion: &Conversion<'_>,
    writer: &W,
    origin: usize,
    stage: Stage,
    output: &mut ConversionOutput,
) -> Vec<ConvertedRule> {
    let mut scope = output.scope(conversion, origin);
    let rules = conversion.origins[origin].policy.rules.iter();
    rules.map(|rule| ConvertedRule::new(writer, &mut scope, rule, stage)).collect()
}

/// Cuts rules in evaluation order into what objects can hold.
pub(super) fn drafts<W: DialectWriter>(
    conversion: &Conversion<'_>,
    writer: &W,
    rules: &[ConvertedRule],
    output: &mut ConversionOutput,
) -> Vec<PolicyDraft> {
    let of = |direction| runs(rules.iter().filter(move |rule| rule.direction == direction));
    let (mut ingress, mut egress) = (of(Direction::Ingress), of(Direction::Egress));
    ingress.reverse();
    egress.reverse();
    let mut drafts = Vec::new();
    // The directions are independent: where both have rules for the same pods, one object holds both.
    loop {
        let same = matches!((ingress.last(), egress.last()), (Some(a), Some(b)) if a.has_subjects_of(b));
        let waits =
            |list: &[RuleRun<'_>], one: &RuleRun<'_>| list.iter().any(|other| other.has_subjects_of(one));
        let (a, b) = match (ingress.pop(), egress.pop()) {
            (None, None) => break,
            (Some(a), Some(b)) if !same => {
                if waits(&ingress, &b) {
                    egress.push(b);
                    (Some(a), None)
                } else {
                    ingress.push(a);
                    (None, Some(b))
                }
            }
            both => both,
        };
        let Some(run) = a.as_ref().or(b.as_ref()) else { break };
        let (origin, subjects) = (run.origin, run.subjects);
        let written = |run: Option<&RuleRun<'_>>| run.map(|run| run.written.clone()).unwrap_or_default();
        let (ingress, egress) = (written(a.as_ref()), written(b.as_ref()));
        let mut scope = output.scope(conversion, origin);
        // Subjects are written also where the rules were refused, so that everything is reported at once.
        if ingress.is_empty() && egress.is_empty() && !scope.has_failed() {
            continue;
        }
        let subjects = writer.subjects(&mut scope, subjects);
        let groups: Vec<Vec<Written>> = match writer.has_single_subject() {
            true => subjects.into_iter().map(|one| vec![one]).collect(),
            false => vec![subjects],
        };
        let weight: usize = ingress.iter().chain(&egress).map(normalize::weight).sum();
        if !conversion.affords(groups.len().saturating_mul(weight)) {
            let reason =
                "its rules for each of its subjects are too much to write, with all others".to_owned();
            scope.refuse(&codes::TOO_MUCH, None, "", reason);
            continue;
        }
        // Pods of two subjects get the same rules twice, which changes no verdict.
        let max_rules = writer.max_rules();
        for subjects in groups {
            let parts = ingress.len().max(egress.len()).div_ceil(max_rules);
            let part = |rules: &[Written], at: usize| -> Vec<Written> {
                rules.iter().skip(at.saturating_mul(max_rules)).take(max_rules).cloned().collect()
            };
            drafts.extend((0..parts).map(|at| PolicyDraft {
                origin,
                subjects: subjects.clone(),
                ingress: part(&ingress, at),
                egress: part(&egress, at),
                isolates: false,
            }));
        }
    }
    drafts
}

/// Gives policies common priorities: one for the first draft of each, one for the second of each, and so on.
pub(super) fn side_by_side(
    from: Precedence,
    preferred: PreferredPriority,
    by_policy: Vec<Vec<PolicyDraft>>,
) -> Vec<PrioritySlot> {
    let most = by_policy.iter().map(Vec::len).max().unwrap_or(0);
    let mut slots: Vec<PrioritySlot> =
        (0..most).map(|at| PrioritySlot::new(from, preferred, at, Vec::new())).collect();
    for drafts in by_policy {
        for (slot, draft) in slots.iter_mut().zip(drafts) {
            slot.drafts.push(draft);
        }
    }
    slots
}

/// Gives each draft a priority of its own.
fn one_by_one(
    from: Precedence,
    preferred: PreferredPriority,
    drafts: impl IntoIterator<Item = PolicyDraft>,
) -> Vec<PrioritySlot> {
    let slot = |(at, draft)| PrioritySlot::new(from, preferred, at, vec![draft]);
    drafts.into_iter().enumerate().map(slot).collect()
}

// === impl ConvertedRule ===

impl ConvertedRule {
    /// Writes a rule of the scope's policy.
    pub fn new<W: DialectWriter>(
        writer: &W,
        scope: &mut PolicyScope<'_, '_>,
        rule: &Rule,
        stage: Stage,
    ) -> Self {
        ConvertedRule {
            origin: scope.origin,
            direction: rule.direction,
            index: rule.index,
            subjects: Arc::clone(&rule.subjects),
            written: writer.rule(scope, rule, stage),
        }
    }
}

// === impl PrioritySlot ===

impl PrioritySlot {
    /// Creates the slot number `at` of a precedence: only the first one has a preference.
    fn new(from: Precedence, preferred: PreferredPriority, at: usize, drafts: Vec<PolicyDraft>) -> Self {
        let preferred = if at == 0 { preferred } else { PreferredPriority::Next };
        PrioritySlot { from, preferred, drafts }
    }
}

// === impl RuleRun ===

impl RuleRun<'_> {
    fn has_subjects_of(&self, other: &RuleRun<'_>) -> bool {
        self.origin == other.origin && self.subjects == other.subjects
    }
}

fn runs<'l>(rules: impl Iterator<Item = &'l ConvertedRule>) -> Vec<RuleRun<'l>> {
    let mut all: Vec<RuleRun<'l>> = Vec::new();
    for rule in rules {
        match all.last_mut() {
            Some(last) if last.origin == rule.origin && *last.subjects == rule.subjects => {
                last.written.extend(rule.written.iter().cloned());
            }
            _ => {
                let written = rule.written.clone();
                all.push(RuleRun { origin: rule.origin, subjects: &rule.subjects, written });
            }
        }
    }
    all
}
