//! Workloads of both sides paired by name, and which of the pairs can differ at all.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::Diff;
use crate::map::{Entry, KindRows, Map, WorkloadName};
use crate::reach::cells::Cells;

/// A workload by its name, with its index in the map of each side that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadPair {
    /// Which one.
    pub name: WorkloadName,
    /// Where it is before.
    pub before: Option<usize>,
    /// Where it is after.
    pub after: Option<usize>,
}

/// A workload's kind before and after.
type Pair = (Option<u32>, Option<u32>);

/// Workloads by their kinds on both sides.
#[derive(Debug)]
pub(super) struct Kinds {
    /// For each workload its kind.
    of: Vec<u32>,
    list: Vec<Pair>,
    /// The workloads of each kind, in order.
    members: Vec<Vec<usize>>,
    /// Those whose entries depend on where their pods run.
    hosts: Vec<bool>,
}

/// Rows of both sides, compared kind by kind.
pub(super) struct Rows<'d, 's> {
    diff: &'d Diff<'s>,
    before: KindRows<'d, 's>,
    after: KindRows<'d, 's>,
    /// For each kind the kinds that it differs towards, with what it may do before and after, once asked.
    known: HashMap<u32, Rc<[Differing]>>,
}

/// A kind that another one differs towards.
type Differing = (u32, [Entry; 2]);

/// All workloads of two maps.
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

// === impl Kinds ===

impl Kinds {
    pub fn of(before: &Map<'_>, after: &Map<'_>, workloads: &[WorkloadPair]) -> Self {
        let mut kinds = Kinds { of: Vec::new(), list: Vec::new(), members: Vec::new(), hosts: Vec::new() };
        let mut known: HashMap<Pair, u32> = HashMap::new();
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

    pub fn pair(&self, kind: u32) -> Pair {
        self.list[kind as usize]
    }
}

// === impl Rows ===

impl<'d, 's> Rows<'d, 's> {
    pub fn new(diff: &'d Diff<'s>, cells: &Cells) -> Self {
        let (before, after) = (KindRows::new(&diff.before, cells), KindRows::new(&diff.after, cells));
        Rows { diff, before, after, known: HashMap::new() }
    }

    /// The workloads that something changed towards, in order, with what may be done before and after.
    pub fn from(&mut self, source: usize, cells: &mut Cells) -> Vec<(usize, [Entry; 2])> {
        let diff = self.diff;
        let kinds = &diff.kinds;
        let one_by_one = |destination: usize, cells: &mut Cells| {
            let [before, after] = diff.entries(source, destination, cells);
            (before != after).then_some((destination, [before, after]))
        };
        // Where pods are in their node's network, it matters where the others run: each of them is asked about.
        if kinds.hosts[source] {
            return self.of_host(source, cells);
        }
        let differing = self.differing(kinds.kind(source), cells);
        let count: usize = differing.iter().map(|(kind, _)| kinds.members[*kind as usize].len()).sum();
        if count > diff.workloads.len() / 8 {
            return self.scan(source, &differing, cells);
        }
        let members = |(kind, entries): &Differing| {
            let entries = *entries;
            kinds.members[*kind as usize].iter().map(move |to| (*to, entries))
        };
        let mut found: Vec<(usize, [Entry; 2])> =
            differing.iter().flat_map(members).filter(|(to, _)| *to != source).collect();
        // A workload and itself may differ though its kind does not: one pod became several.
        found.extend(one_by_one(source, cells));
        found.sort_unstable_by_key(|(to, _)| *to);
        found
    }

    /// The same where it is many: workloads are gone through in their order instead of being sorted.
    fn scan(&self, source: usize, differing: &[Differing], cells: &mut Cells) -> Vec<(usize, [Entry; 2])> {
        let diff = self.diff;
        let mut of_kind: Vec<Option<[Entry; 2]>> = vec![None; diff.kinds.list.len()];
        for (kind, entries) in differing {
            of_kind[*kind as usize] = Some(*entries);
        }
        let differs = |to: usize| of_kind[diff.kinds.kind(to) as usize].map(|entries| (to, entries));
        let mut found: Vec<(usize, [Entry; 2])> = (0..source).filter_map(differs).collect();
        let [before, after] = diff.entries(source, source, cells);
        found.extend((before != after).then_some((source, [before, after])));
        found.extend((source + 1..diff.workloads.len()).filter_map(differs));
        found
    }

    /// The same for a workload with pods in their node's network.
    fn of_host(&mut self, source: usize, cells: &mut Cells) -> Vec<(usize, [Entry; 2])> {
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
                |map: &Map<'_>, row: &Option<&[Entry]>, from: Option<usize>, at: Option<usize>| {
                    let (row, from, at) = ((*row)?, from?, at?);
                    let entry = map.with_near(row[map.kinds().kind(at) as usize], from, at, cells);
                    Some(Entry { uniform: true, ..entry })
                };
            let entries = match to == source {
                true => diff.entries(source, to, cells),
                false => [
                    entry(&diff.before, &rows[0], own.before, other.before),
                    entry(&diff.after, &rows[1], own.after, other.after),
                ]
                .map(|entry| entry.unwrap_or(Entry::NOTHING)),
            };
            if entries[0] != entries[1] {
                found.push((to, entries));
            }
        }
        found
    }

    fn differing(&mut self, kind: u32, cells: &mut Cells) -> Rc<[Differing]> {
        if let Some(known) = self.known.get(&kind) {
            return Rc::clone(known);
        }
        let kinds = &self.diff.kinds;
        let (before, after) = kinds.pair(kind);
        let rows = [
            before.map(|kind| self.before.from(kind, cells)),
            after.map(|kind| self.after.from(kind, cells)),
        ];
        let entry = |row: &Option<&[Entry]>, kind: Option<u32>| {
            let entry = row.zip(kind).map(|(row, kind)| row[kind as usize]);
            Entry { uniform: true, ..entry.unwrap_or(Entry::NOTHING) }
        };
        let mut found = Vec::new();
        for (at, (before, after)) in (0..).zip(&kinds.list) {
            let entries = [entry(&rows[0], *before), entry(&rows[1], *after)];
            if entries[0] != entries[1] {
                found.push((at, entries));
            }
        }
        let found: Rc<[Differing]> = found.into();
        self.known.insert(kind, Rc::clone(&found));
        found
    }
}
