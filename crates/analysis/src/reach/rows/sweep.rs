//! One sweep over the classes that a program's rules name.
//!
//! Rules that name the same peers begin and end together, so what is swept over are the sets, each once. Which sets hold
//! a class is kept as one number that a set's own number is mixed into where the set begins and taken out of where it
//! ends: no list is made for a combination that has been met before.

use super::{Row, Runner};
use crate::reach::cells::CellId;
use crate::reach::groups::{DestinationId, Table, number};
use crate::reach::programs::{Carried, Program};

/// Steps for the begin or end of a set.
const END: u64 = 40;
/// Steps to keep a run: 8 bytes, and as much again where rows are compared.
const RUN: u64 = 300;

/// The peer sets of a program.
struct Sets {
    /// For each its number among all, and the rules that name it, in order.
    list: Vec<(u32, Vec<u32>)>,
    /// Whether what some rule of it is about depends on the destination.
    by_destination: Vec<bool>,
}

/// The sets that hold a class.
struct Active {
    /// A bit for each.
    bits: Vec<u64>,
    /// What identifies the combination.
    key: u128,
    /// How many of them depend on the destination.
    by_destination: usize,
}

// === impl Runner ===

impl Runner<'_> {
    /// What a program says about every class. `out` says whether the class is the destination.
    pub fn row(&mut self, program: &Program, out: bool, classes: u32) -> Row {
        if !program.known || self.cells.work().is_spent() {
            return Row::unknown();
        }
        let sets = Sets::of(program, out);
        let mut active = Active { bits: vec![0; sets.list.len().div_ceil(64)], key: 0, by_destination: 0 };
        // Where sets begin or end, as class and set in one number: that is quicker to sort.
        let mut ends: Vec<u64> = Vec::new();
        for (at, (set, _)) in (0_u32..).zip(&sets.list) {
            for (first, last) in &*self.peers[*set as usize] {
                match *first {
                    0 => active.toggle(at, &sets),
                    first => ends.push(u64::from(first) << 32 | u64::from(at)),
                }
                if last + 1 < classes {
                    ends.push(u64::from(last + 1) << 32 | u64::from(at));
                }
            }
        }
        ends.sort_unstable();
        self.cells.work().take(END * (ends.len() + sets.list.len()) as u64);
        let class_of = |end: &u64| u32::try_from(end >> 32).unwrap_or(u32::MAX);
        let mut known: Table<(u128, DestinationId), CellId> = Table::default();
        let mut runs: Vec<(u32, CellId)> = Vec::new();
        let mut rules: Vec<u32> = Vec::new();
        let (mut class, mut next) = (0, 0);
        while class < classes {
            while let Some(end) = ends.get(next).filter(|end| class_of(end) <= class) {
                active.toggle(u32::try_from(end & u64::from(u32::MAX)).unwrap_or(0), &sets);
                next += 1;
            }
            let mut until = ends.get(next).map_or(classes, |end| class_of(end).min(classes));
            let mut destination = DestinationId(0);
            if active.by_destination > 0 {
                destination = self.destinations[class as usize];
                let alike = self.destinations[class as usize..until as usize].iter();
                until = class + number(alike.take_while(|other| **other == destination).count());
            }
            let cell = match known.get(&(active.key, destination)) {
                Some(cell) => *cell,
                None => {
                    if self.cells.work().is_spent() {
                        return Row::unknown();
                    }
                    active.rules(&sets, &mut rules);
                    let cell = self.cell(program, &rules, destination);
                    known.insert((active.key, destination), cell);
                    cell
                }
            };
            if runs.last().is_none_or(|(_, last)| *last != cell) {
                runs.push((class, cell));
            }
            class = until;
        }
        self.cells.work().take(RUN * runs.len() as u64);
        Row { runs: runs.into(), known: true }
    }
}

// === impl Sets ===

impl Sets {
    fn of(program: &Program, out: bool) -> Self {
        let mut named: Vec<(u32, u32)> =
            (0..).zip(&program.rules).map(|(rule, held)| (held.peers.0, rule)).collect();
        named.sort_unstable();
        let mut sets = Sets { list: Vec::new(), by_destination: Vec::new() };
        for (set, rule) in named {
            if sets.list.last().is_none_or(|(last, _)| *last != set) {
                sets.list.push((set, Vec::new()));
                sets.by_destination.push(false);
            }
            if let (Some((_, rules)), Some(by_destination)) =
                (sets.list.last_mut(), sets.by_destination.last_mut())
            {
                rules.push(rule);
                *by_destination |= out && program.rules[rule as usize].carried == Carried::ByDestination;
            }
        }
        sets
    }

    /// A set's own number. Where there are few sets, combinations of these are what they are; where there are many, two
    /// different ones come to the same once in 2^128.
    fn mark(&self, at: u32) -> u128 {
        if self.list.len() <= 128 {
            return 1 << at;
        }
        crate::reach::classes::mark(at.into())
    }
}

// === impl Active ===

impl Active {
    /// A set begins, or ends.
    fn toggle(&mut self, at: u32, sets: &Sets) {
        let (word, bit) = (at as usize / 64, 1 << (at % 64));
        self.bits[word] ^= bit;
        self.key ^= sets.mark(at);
        if sets.by_destination[at as usize] {
            match self.bits[word] & bit {
                0 => self.by_destination -= 1,
                _ => self.by_destination += 1,
            }
        }
    }

    /// The rules of all sets that hold the class, in order.
    fn rules(&self, sets: &Sets, rules: &mut Vec<u32>) {
        rules.clear();
        for (at, word) in self.bits.iter().enumerate() {
            let mut left = *word;
            while left != 0 {
                let set = at * 64 + left.trailing_zeros() as usize;
                rules.extend_from_slice(&sets.list[set].1);
                left &= left - 1;
            }
        }
        rules.sort_unstable();
    }
}
