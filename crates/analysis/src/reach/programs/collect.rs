//! Sorts rules by whom they apply to, stage after stage.
//!
//! The rules of a policy mostly follow each other in all respects: they are handed to their subjects as one piece, so that
//! a policy of ten thousand rules costs each of its subjects as much as one of one rule.

use std::sync::Arc;

use palisade_model::policy::{Direction, Placement, Subject};
use palisade_model::snapshot::Stage;

use super::{Builder, Collected, HANDED};
use crate::reach::members::Shared;

/// Rules in a row with the same subjects, not handed to them yet.
struct Piece<'s> {
    subjects: &'s Arc<[Subject]>,
    first: u32,
    end: u32,
}

/// Where such a row of rules goes when it ends.
struct Pieces<'s> {
    /// One for each direction, if there is any.
    open: [Option<Piece<'s>>; 2],
    /// Whether hosts can be subjects.
    hosts: bool,
    /// Counts the rules of the stage.
    count: fn(&mut Collected, usize),
}

// === impl Builder ===

impl<'s> Builder<'_, '_, 's> {
    /// Sorts the rules of all stages.
    pub(super) fn collect(&mut self) {
        let resolution = self.resolution;
        let mut pieces = Pieces::new(true, |collected, count| collected.tiers += count);
        for id in resolution.ranked(Stage::Tiers) {
            self.add(*id, &mut pieces);
        }
        self.close(&mut pieces);
        // NetworkPolicies select pods: hosts, which are numbered after them, have no such stage.
        let pods = self.groups.hosts().start;
        let mut pieces = Pieces::new(false, |collected, count| collected.union += count);
        for (at, policy) in self.groups.context.snapshot.policies().iter().enumerate() {
            if policy.placement != Placement::Union {
                continue;
            }
            for isolation in &policy.isolations {
                if self.is_spent() {
                    self.unsorted = true;
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
        let mut pieces = Pieces::new(true, |_, _| {});
        for id in resolution.ranked(Stage::Baseline) {
            self.add(*id, &mut pieces);
        }
        self.close(&mut pieces);
    }

    fn add(&mut self, id: u32, pieces: &mut Pieces<'s>) {
        let resolved = self.resolution.rule(id);
        let snapshot = self.groups.context.snapshot;
        let subjects = &snapshot.policies()[resolved.at.policy].rules[resolved.at.rule].subjects;
        let direction = resolved.direction;
        match &mut pieces.open[direction as usize] {
            Some(open) if open.end == id && Arc::ptr_eq(open.subjects, subjects) => open.end += 1,
            open => {
                if let Some(whole) = open.replace(Piece { subjects, first: id, end: id + 1 }) {
                    self.hand_over(&whole, direction, pieces);
                }
            }
        }
    }

    fn close(&mut self, pieces: &mut Pieces<'s>) {
        for direction in Direction::BOTH {
            if let Some(whole) = pieces.open[direction as usize].take() {
                self.hand_over(&whole, direction, pieces);
            }
        }
    }

    fn hand_over(&mut self, piece: &Piece<'s>, direction: Direction, pieces: &Pieces<'s>) {
        if self.unsorted || self.is_spent() {
            self.unsorted = true;
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
            self.cells.work().take(HANDED * u64::from(last + 1 - first));
        }
    }

    /// Whom subjects mean. The rules of a policy share theirs.
    fn subjects(&mut self, subjects: &'s Arc<[Subject]>) -> Shared {
        let found = self.meant.entry(Arc::as_ptr(subjects).cast());
        Shared::clone(found.or_insert_with(|| self.lookup.subjects(subjects)))
    }
}

// === impl Pieces ===

impl Pieces<'_> {
    fn new(hosts: bool, count: fn(&mut Collected, usize)) -> Self {
        Pieces { open: [None, None], hosts, count }
    }
}
