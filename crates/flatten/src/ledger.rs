//! The ledger of the flattening: atoms of traffic, each decided once.
//!
//! Rules paint the undecided atoms that they cover, in the order of [`pipeline::decide`](palisade_model::pipeline::decide).
//! Decided atoms are skipped by a union-find structure, so that painting takes time in the number of intervals that rules cover
//! and of atoms, not in their product: a port is not checked against each of ten thousand rules.

use std::ops::Range;

use palisade_model::pipeline::{Ledger, Only, Rest};
use palisade_model::policy::{Action, TrafficMatches};
use palisade_model::trace::Verdict;
use palisade_model::traffic::Protocol;

use crate::layout::Layout;
use crate::rule_list::RuleList;
use crate::verdicts::Decision;

/// The atoms of a layout, and what was decided about them.
pub(crate) struct Painting<'a> {
    list: &'a RuleList,
    layout: &'a Layout,
    decisions: Vec<Decision>,
    /// For each atom an atom from which on to look for the next undecided one; itself if it is undecided. The last entry stands
    /// behind all atoms.
    next: Vec<u32>,
    undecided: usize,
    /// Atoms that a Pass rule took out of the stage.
    passed: Vec<u32>,
}

// === impl Painting ===

impl<'a> Painting<'a> {
    pub(crate) fn new(list: &'a RuleList, layout: &'a Layout) -> Self {
        let undecided = layout.len();
        // Overwritten: nothing is undecided behind the last stage.
        let nothing = Decision { verdict: Verdict::Deny, rule: None };
        let behind = u32::try_from(undecided).unwrap_or(u32::MAX);
        Painting {
            list,
            layout,
            decisions: vec![nothing; undecided],
            next: (0..=behind).collect(),
            undecided,
            passed: Vec::new(),
        }
    }

    /// Returns the decision about each atom.
    pub(crate) fn into_decisions(self) -> Vec<Decision> {
        self.decisions
    }

    /// Paints the undecided ones of some atoms. Passed atoms have no verdict.
    fn paint(&mut self, atoms: Range<usize>, verdict: Option<Verdict>, rule: Option<u32>) {
        let mut atom = self.first_undecided(atoms.start);
        while atom < atoms.end {
            match verdict {
                Some(verdict) => self.decisions[atom] = Decision { verdict, rule },
                None => self.passed.push(u32::try_from(atom).unwrap_or(u32::MAX)),
            }
            self.next[atom] += 1;
            self.undecided -= 1;
            atom = self.first_undecided(atom + 1);
        }
    }

    /// Returns the first undecided atom from this one on. Halves the paths that it follows.
    fn first_undecided(&mut self, mut atom: usize) -> usize {
        while self.next[atom] as usize != atom {
            let next = self.next[self.next[atom] as usize];
            self.next[atom] = next;
            atom = next as usize;
        }
        atom
    }
}

impl Ledger<u32> for Painting<'_> {
    fn assign(&mut self, rule: u32, only: Only, action: Action) {
        let verdict = match action {
            Action::Allow => Some(Verdict::Allow),
            Action::Deny => Some(Verdict::Deny),
            Action::Reject => Some(Verdict::Reject),
            Action::Pass => None,
        };
        let (list, layout) = (self.list, self.layout);
        match (&list.rules()[rule as usize].traffic, only) {
            (TrafficMatches::Any, Only::All) => self.paint(0..layout.len(), verdict, Some(rule)),
            (TrafficMatches::Any, Only::Tcp) => {
                let tcp = layout.protocol(Protocol::Tcp);
                self.paint(layout.atom(tcp.start)..layout.atom(tcp.end), verdict, Some(rule));
            }
            (TrafficMatches::Of(all), only) => layout.for_each_interval(all, |protocol, offsets| {
                if only == Only::All || protocol == Protocol::Tcp {
                    let first = layout.atom(offsets.start);
                    let atoms = first..layout.atom_after(first, offsets.end);
                    self.paint(atoms, verdict, Some(rule));
                }
            }),
        }
    }

    fn assign_rest(&mut self, rest: Rest) {
        let (verdict, rule) = match rest {
            Rest::Isolated => (Verdict::Deny, self.list.isolation()),
            Rest::Default => (Verdict::Allow, None),
        };
        self.paint(0..self.layout.len(), Some(verdict), rule);
    }

    fn reopen_passed(&mut self) {
        if self.passed.is_empty() {
            return;
        }
        for atom in std::mem::take(&mut self.passed) {
            self.next[atom as usize] = atom;
            self.undecided += 1;
        }
        // Paths that led past an atom which is undecided again must not skip it.
        let mut next = self.next.len() - 1;
        for atom in (0..next).rev() {
            if self.next[atom] as usize == atom {
                next = atom;
            } else {
                self.next[atom] = u32::try_from(next).unwrap_or(u32::MAX);
            }
        }
    }

    fn is_decided(&self) -> bool {
        self.undecided == 0
    }
}
