//! Assignment of rules to the groups they apply to, stage after stage.
//!
//! Rules of a policy are mostly consecutive and share their subjects: they are assigned as one run, so that a policy of ten
//! thousand rules costs each of its subjects as much as one of one rule.

use std::sync::Arc;

use palisade_model::policy::{Direction, Placement, Subject};
use palisade_model::snapshot::Stage;

use super::{ASSIGNMENT_WORK, GroupRules, ProgramBuilder};
use crate::reach::members::SharedSpans;

/// Consecutive rules with the same subjects, not assigned yet.
struct SubjectRun<'s> {
    subjects: &'s Arc<[Subject]>,
    first: u32,
    end: u32,
}

/// Open runs of a stage.
struct OpenRuns<'s> {
    /// The open run of each direction.
    open: [Option<SubjectRun<'s>>; 2],
    /// Whether hosts can be subjects.
    hosts: bool,
    /// Adds a number of rules to the count of the stage.
    count: fn(&mut GroupRules, usize),
}

// === impl ProgramBuilder ===

impl<'s> ProgramBuilder<'_, '_, 's> {
    /// Assigns the rules of all stages.
    pub(super) fn collect(&mut self) {
        let resolution = self.resolution;
        let mut pieces = OpenRuns::new(true, |collected, count| collected.tiers += count);
        for id in resolution.ranked(Stage::Tiers) {
            self.add(*id, &mut pieces);
        }
        self.close(&mut pieces);
        // NetworkPolicies select pods: hosts, which are numbered behind them, have no such stage.
        let pods = self.groups.hosts().start;
        let mut pieces = OpenRuns::new(false, |collected, count| collected.union += count);
        for (at, policy) in self.groups.context.snapshot.policies().iter().enumerate() {
            if policy.placement != Placement::Union {
                continue;
            }
            for isolation in &policy.isolations {
                if self.is_spent() {
                    self.out_of_budget = true;
                    break;
                }
                for (first, last) in &*self.subjects(&isolation.subjects) {
                    for group in *first..(*last + 1).min(pods) {
                        self.collected[isolation.direction as usize][group as usize].isolated = true;
                    }
                }
            }
            for id in resolution.of_policy(at) {
                self.add(id, &mut pieces);
            }
        }
        self.close(&mut pieces);
        let mut pieces = OpenRuns::new(true, |_, _| {});
        for id in resolution.ranked(Stage::Baseline) {
            self.add(*id, &mut pieces);
        }
        self.close(&mut pieces);
    }

    fn add(&mut self, id: u32, pieces: &mut OpenRuns<'s>) {
        let resolved = self.resolution.rule(id);
        let snapshot = self.groups.context.snapshot;
        let subjects = &snapshot.policies()[resolved.at.policy].rules[resolved.at.rule].subjects;
        let direction = resolved.direction;
        match &mut pieces.open[direction as usize] {
            Some(open) if open.end == id && Arc::ptr_eq(open.subjects, subjects) => open.end += 1,
            open => {
                if let Some(whole) = open.replace(SubjectRun { subjects, first: id, end: id + 1 }) {
                    self.assign_run(&whole, direction, pieces);
                }
            }
        }
    }

    fn close(&mut self, pieces: &mut OpenRuns<'s>) {
        for direction in Direction::BOTH {
            if let Some(whole) = pieces.open[direction as usize].take() {
                self.assign_run(&whole, direction, pieces);
            }
        }
    }

    fn assign_run(&mut self, piece: &SubjectRun<'s>, direction: Direction, pieces: &OpenRuns<'s>) {
        if self.out_of_budget || self.is_spent() {
            self.out_of_budget = true;
            return;
        }
        let hosts = self.groups.hosts();
        let end = if pieces.hosts { hosts.end } else { hosts.start };
        for (first, last) in &*self.subjects(piece.subjects) {
            for group in *first..(*last + 1).min(end) {
                let collected = &mut self.collected[direction as usize][group as usize];
                collected.rules.push((piece.first, piece.end));
                (pieces.count)(collected, (piece.end - piece.first) as usize);
            }
            self.cells.work().take(ASSIGNMENT_WORK * u64::from(last + 1 - first));
        }
    }

    /// Returns the groups of subjects; cached, because the rules of a policy share theirs.
    fn subjects(&mut self, subjects: &'s Arc<[Subject]>) -> SharedSpans {
        let found = self.meant.entry(Arc::as_ptr(subjects).cast());
        SharedSpans::clone(found.or_insert_with(|| self.lookup.subjects(subjects)))
    }
}

// === impl OpenRuns ===

impl OpenRuns<'_> {
    fn new(hosts: bool, count: fn(&mut GroupRules, usize)) -> Self {
        OpenRuns { open: [None, None], hosts, count }
    }
}
