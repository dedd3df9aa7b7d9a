//! Workloads of both sides, by name, and which of them can differ at all.

use std::collections::{BTreeMap, HashMap};

use super::Diff;
use crate::map::{Entry, KindRows, Map, WorkloadName};
use crate::reach::cells::Cells;

/// A workload of either side: its place in each map that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joint {
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
    /// For each kind the workloads that it may differ towards, once asked.
    known: HashMap<u32, Vec<usize>>,
}

/// All workloads of two maps.
pub(super) fn join(before: &Map<'_>, after: &Map<'_>) -> Vec<Joint> {
    let mut all: BTreeMap<&WorkloadName, (Option<usize>, Option<usize>)> = BTreeMap::new();
    for (at, workload) in before.workloads.iter().enumerate() {
        all.entry(&workload.name).or_default().0 = Some(at);
    }
    for (at, workload) in after.workloads.iter().enumerate() {
        all.entry(&workload.name).or_default().1 = Some(at);
    }
    let joint = |(name, (before, after)): (&WorkloadName, _)| Joint { name: name.clone(), before, after };
    all.into_iter().map(joint).collect()
}

// === impl Kinds ===

impl Kinds {
    pub fn of(before: &Map<'_>, after: &Map<'_>, workloads: &[Joint]) -> Self {
        let mut kinds = Kinds { of: Vec::new(), list: Vec::new(), members: Vec::new(), hosts: Vec::new() };
        let mut known: HashMap<Pair, u32> = HashMap::new();
        for (at, joint) in workloads.iter().enumerate() {
            let pair = (
                joint.before.map(|at| before.kinds().kind(at)),
                joint.after.map(|at| after.kinds().kind(at)),
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
            kinds.hosts.push(host(before, joint.before) || host(after, joint.after));
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

    /// The workloads that something may have changed towards, in order: whoever is not among them is the same.
    pub fn candidates(&mut self, source: usize, cells: &mut Cells) -> Vec<usize> {
        let kinds = &self.diff.kinds;
        // Where pods are in their node's network, it matters where the others run: each of them is asked about.
        if kinds.hosts[source] {
            return (0..self.diff.workloads.len()).collect();
        }
        let kind = kinds.kind(source);
        if !self.known.contains_key(&kind) {
            let found = self.differing(kind, cells);
            self.known.insert(kind, found);
        }
        let mut found = self.known[&kind].clone();
        // A workload and itself may differ though its kind does not: one pod became several.
        if let Err(at) = found.binary_search(&source) {
            found.insert(at, source);
        }
        found
    }

    fn differing(&mut self, kind: u32, cells: &mut Cells) -> Vec<usize> {
        let kinds = &self.diff.kinds;
        let (before, after) = kinds.pair(kind);
        let rows = [
            before.map(|kind| self.before.from(kind, cells).to_vec()),
            after.map(|kind| self.after.from(kind, cells).to_vec()),
        ];
        let entry = |row: &Option<Vec<Entry>>, kind: Option<u32>| {
            let entry = row.as_ref().zip(kind).map(|(row, kind)| row[kind as usize]);
            Entry { uniform: true, ..entry.unwrap_or(Entry::NOTHING) }
        };
        let mut found = Vec::new();
        for (at, (before, after)) in kinds.list.iter().enumerate() {
            if entry(&rows[0], *before) != entry(&rows[1], *after) {
                found.extend_from_slice(&kinds.members[at]);
            }
        }
        found.sort_unstable();
        found
    }
}
