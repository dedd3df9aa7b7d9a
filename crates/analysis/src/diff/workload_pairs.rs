//! Workloads of both sides matched by name, and the pairs of kinds that differ.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::Diff;
use crate::map::{KindRows, Map, PairTraffic, WorkloadName};
use crate::reach::cells::Cells;

/// A workload by its name, with its index in the map of each side that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadPair {
    /// Identity on both sides.
    pub name: WorkloadName,
    /// Index in the map before.
    pub before: Option<usize>,
    /// Index in the map after.
    pub after: Option<usize>,
}

/// A workload's kind before and after.
type KindPair = (Option<u32>, Option<u32>);

/// Workloads by their kinds on both sides.
#[derive(Debug)]
pub(super) struct PairKinds {
    /// Kind of each workload.
    of: Vec<u32>,
    list: Vec<KindPair>,
    /// Workloads of each kind, in order.
    members: Vec<Vec<usize>>,
    /// Whether traffic of each workload depends on the nodes of its pods.
    hosts: Vec<bool>,
}

/// Rows of both sides, compared kind by kind.
pub(super) struct DiffRows<'d, 's> {
    diff: &'d Diff<'s>,
    before: KindRows<'d, 's>,
    after: KindRows<'d, 's>,
    /// Cache: for each source kind the destination kinds with a difference, and the traffic before and after.
    known: HashMap<u32, Rc<[KindDifference]>>,
}

/// A destination kind with the traffic before and after.
type KindDifference = (u32, [PairTraffic; 2]);

/// Matches the workloads of two maps by name.
pub(super) fn join(before: &Map<'_>, after: &Map<'_>) -> Vec<WorkloadPair> {
    let mut all: BTreeMap<&WorkloadName, (Option<usize>, Option<usize>)> = BTreeMap::new();
    for (at, workload) in before.workloads.iter().enumerate() {
        all.entry(&workload.name).or_default().0 = Some(at);
    }
    for (at, workload) in after.workloads.iter().enumerate() {
        all.entry(&workload.name).or_default().1 = Some(at);
    }
    let pair =
        |(name, (before, after)): (&WorkloadName, _)| WorkloadPair { name: name.clone(), before, after };
    all.into_iter().map(pair).collect()
}

// === impl PairKinds ===

impl PairKinds {
    pub fn of(before: &Map<'_>, after: &Map<'_>, workloads: &[WorkloadPair]) -> Self {
        let mut kinds =
            PairKinds { of: Vec::new(), list: Vec::new(), members: Vec::new(), hosts: Vec::new() };
        let mut known: HashMap<KindPair, u32> = HashMap::new();
        for (at, workload) in workloads.iter().enumerate() {
            let pair = (
                workload.before.map(|at| before.kinds().kind(at)),
                workload.after.map(|at| after.kinds().kind(at)),
            );
            let fresh = u32::try_from(kinds.list.len()).unwrap_or(u32::MAX);
            let kind = *known.entry(pair).or_insert(fresh);
            if kind == fresh {
                kinds.list.push(pair);
                kinds.members.push(Vec::new());
            }
            kinds.members[kind as usize].push(at);
            kinds.of.push(kind);
            let host = |map: &Map<'_>, at: Option<usize>| at.is_some_and(|at| map.kinds().is_host(at));
            kinds.hosts.push(host(before, workload.before) || host(after, workload.after));
        }
        kinds
    }

    pub fn kind(&self, workload: usize) -> u32 {
        self.of[workload]
    }

    pub fn is_host(&self, workload: usize) -> bool {
        self.hosts[workload]
    }

    pub fn pair(&self, kind: u32) -> KindPair {
        self.list[kind as usize]
    }
}

// === impl DiffRows ===

impl<'d, 's> DiffRows<'d, 's> {
    pub fn new(diff: &'d Diff<'s>, cells: &Cells) -> Self {
        let (before, after) = (KindRows::new(&diff.before, cells), KindRows::new(&diff.after, cells));
        DiffRows { diff, before, after, known: HashMap::new() }
    }

    /// Returns the destinations with a difference, in order, with the traffic before and after.
    pub fn from(&mut self, source: usize, cells: &mut Cells) -> Vec<(usize, [PairTraffic; 2])> {
        let diff = self.diff;
        let kinds = &diff.kinds;
        let one_by_one = |destination: usize, cells: &mut Cells| {
            let [before, after] = diff.entries(source, destination, cells);
            (before != after).then_some((destination, [before, after]))
        };
        // For pods in their node's network the nodes of others matter: each pair is compared.
        if kinds.hosts[source] {
            return self.of_host(source, cells);
        }
        let differing = self.differing(kinds.kind(source), cells);
        let count: usize = differing.iter().map(|(kind, _)| kinds.members[*kind as usize].len()).sum();
        if count > diff.workloads.len() / 8 {
            return self.scan(source, &differing, cells);
        }
        let members = |(kind, entries): &KindDifference| {
            let entries = *entries;
            kinds.members[*kind as usize].iter().map(move |to| (*to, entries))
        };
        let mut found: Vec<(usize, [PairTraffic; 2])> =
            differing.iter().flat_map(members).filter(|(to, _)| *to != source).collect();
        // Traffic of a workload to itself can differ though its kind does not: one pod became several.
        found.extend(one_by_one(source, cells));
        found.sort_unstable_by_key(|(to, _)| *to);
        found
    }

    /// Returns the destinations with a difference by a scan in order, which is cheaper where there are many.
    fn scan(
        &self,
        source: usize,
        differing: &[KindDifference],
        cells: &mut Cells,
    ) -> Vec<(usize, [PairTraffic; 2])> {
        let diff = self.diff;
        let mut of_kind: Vec<Option<[PairTraffic; 2]>> = vec![None; diff.kinds.list.len()];
        for (kind, entries) in differing {
            of_kind[*kind as usize] = Some(*entries);
        }
        let differs = |to: usize| of_kind[diff.kinds.kind(to) as usize].map(|entries| (to, entries));
        let mut found: Vec<(usize, [PairTraffic; 2])> = (0..source).filter_map(differs).collect();
        let [before, after] = diff.entries(source, source, cells);
        found.extend((before != after).then_some((source, [before, after])));
        found.extend((source + 1..diff.workloads.len()).filter_map(differs));
        found
    }

    /// The same for a workload with pods in their node's network.
    fn of_host(&mut self, source: usize, cells: &mut Cells) -> Vec<(usize, [PairTraffic; 2])> {
        let diff = self.diff;
        let (before, after) = diff.kinds.pair(diff.kinds.kind(source));
        let rows = [
            before.map(|kind| self.before.from(kind, cells)),
            after.map(|kind| self.after.from(kind, cells)),
        ];
        let own = &diff.workloads[source];
        let mut found = Vec::new();
        for (to, other) in diff.workloads.iter().enumerate() {
            let mut entry =
                |map: &Map<'_>, row: &Option<&[PairTraffic]>, from: Option<usize>, at: Option<usize>| {
                    let (row, from, at) = ((*row)?, from?, at?);
                    let entry = map.with_same_node(row[map.kinds().kind(at) as usize], from, at, cells);
                    Some(PairTraffic { uniform: true, ..entry })
                };
            let entries = match to == source {
                true => diff.entries(source, to, cells),
                false => [
                    entry(&diff.before, &rows[0], own.before, other.before),
                    entry(&diff.after, &rows[1], own.after, other.after),
                ]
                .map(|entry| entry.unwrap_or(PairTraffic::NOTHING)),
            };
            if entries[0] != entries[1] {
                found.push((to, entries));
            }
        }
        found
    }

    fn differing(&mut self, kind: u32, cells: &mut Cells) -> Rc<[KindDifference]> {
        if let Some(known) = self.known.get(&kind) {
            return Rc::clone(known);
        }
        let kinds = &self.diff.kinds;
        let (before, after) = kinds.pair(kind);
        let rows = [
            before.map(|kind| self.before.from(kind, cells)),
            after.map(|kind| self.after.from(kind, cells)),
        ];
        let entry = |row: &Option<&[PairTraffic]>, kind: Option<u32>| {
            let entry = row.zip(kind).map(|(row, kind)| row[kind as usize]);
            PairTraffic { uniform: true, ..entry.unwrap_or(PairTraffic::NOTHING) }
        };
        let mut found = Vec::new();
        for (at, (before, after)) in (0..).zip(&kinds.list) {
            let entries = [entry(&rows[0], *before), entry(&rows[1], *after)];
            if entries[0] != entries[1] {
                found.push((at, entries));
            }
        }
        let found: Rc<[KindDifference]> = found.into();
        self.known.insert(kind, Rc::clone(&found));
        found
    }
}
