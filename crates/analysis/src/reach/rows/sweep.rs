//! Sweep over the classes that a program's peer sets hold.
//!
//! Rules with the same peers begin and end together, so that the sweep is over distinct sets. Which sets hold a class is
//! kept as one key: the xor of a number for each set, toggled where the set begins and ends. No list is built for a
//! combination that is cached.

use super::{ClassRow, RowRunner};
use crate::reach::cells::CellId;
use crate::reach::groups::{DestinationId, FastMap, number};
use crate::reach::programs::{RuleProgram, RuleTraffic};

/// Work of a boundary of a set.
const BOUNDARY_WORK: u64 = 40;
/// Work to keep a run: 8 bytes, and as much again where rows are compared.
const RUN_WORK: u64 = 300;

/// The peer sets of a program.
struct ProgramPeerSets {
    /// Index of each set, and the rules that have it as peers, in order.
    list: Vec<(u32, Vec<u32>)>,
    /// Whether the traffic of some rule of it depends on the destination.
    by_destination: Vec<bool>,
}

/// Sets that hold the current class.
struct ActiveSets {
    /// A bit for each set.
    bits: Vec<u64>,
    /// Key of the combination.
    key: u128,
    /// Number of active sets that depend on the destination.
    by_destination: usize,
}

// === impl RowRunner ===

impl RowRunner<'_> {
    /// Returns the cells of a program for all classes. `out` is whether the class is the destination.
    pub fn row(&mut self, program: &RuleProgram, out: bool, classes: u32) -> ClassRow {
        if !program.known || self.cells.work().is_spent() {
            return ClassRow::unknown();
        }
        let sets = ProgramPeerSets::of(program, out);
        let mut active =
            ActiveSets { bits: vec![0; sets.list.len().div_ceil(64)], key: 0, by_destination: 0 };
        // Boundaries of sets as class and set in one number, which sorts faster.
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
        self.cells.work().take(BOUNDARY_WORK * (ends.len() + sets.list.len()) as u64);
        let class_of = |end: &u64| u32::try_from(end >> 32).unwrap_or(u32::MAX);
        let mut known: FastMap<(u128, DestinationId), CellId> = FastMap::default();
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
                        return ClassRow::unknown();
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
        self.cells.work().take(RUN_WORK * runs.len() as u64);
        ClassRow { runs: runs.into(), known: true }
    }
}

// === impl ProgramPeerSets ===

impl ProgramPeerSets {
    fn of(program: &RuleProgram, out: bool) -> Self {
        let mut named: Vec<(u32, u32)> =
            (0..).zip(&program.rules).map(|(rule, held)| (held.peers.0, rule)).collect();
        named.sort_unstable();
        let mut sets = ProgramPeerSets { list: Vec::new(), by_destination: Vec::new() };
        for (set, rule) in named {
            if sets.list.last().is_none_or(|(last, _)| *last != set) {
                sets.list.push((set, Vec::new()));
                sets.by_destination.push(false);
            }
            if let (Some((_, rules)), Some(by_destination)) =
                (sets.list.last_mut(), sets.by_destination.last_mut())
            {
                rules.push(rule);
                *by_destination |= out && program.rules[rule as usize].carried == RuleTraffic::ByDestination;
            }
        }
        sets
    }

    /// Returns the number of a set in keys. With up to 128 sets keys are exact; with more, two combinations collide with
    /// probability 2^-128.
    fn mark(&self, at: u32) -> u128 {
        if self.list.len() <= 128 {
            return 1 << at;
        }
        crate::reach::classes::mark(at.into())
    }
}

// === impl ActiveSets ===

impl ActiveSets {
    /// Adds a set that begins, or removes one that ends.
    fn toggle(&mut self, at: u32, sets: &ProgramPeerSets) {
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

    /// Collects the rules of all active sets, in order.
    fn rules(&self, sets: &ProgramPeerSets, rules: &mut Vec<u32>) {
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
