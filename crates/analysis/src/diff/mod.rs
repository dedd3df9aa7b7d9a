//! What another set of policies, or another cluster, lets through that this one does not, and the other way round.
//!
//! Both sides are worked out on the same line of traffic and with the same boundaries of addresses, so that what is equal
//! has equal numbers. Workloads are the same by name. A pair of workloads can only differ where their kinds do, so that
//! kinds are compared, and pairs looked at only where something is to be told: no difference is a proof about all
//! connections, not a sample of them.

mod causes;
mod comparison;
mod findings;
mod near;
mod outliers;
mod outside;
mod pairs;
mod proof;
mod verdicts;
mod witness;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::ControlFlow;

use palisade_model::address::Family;
use palisade_model::options::Options;
use palisade_model::policy::Direction;
use palisade_model::snapshot::Snapshot;

use crate::map::{Entry, INGRESS_CONTROLLER, Level, Map, Told, WorkloadName};
use crate::reach::cells::Cells;
use crate::reach::cuts::Cuts;
pub use causes::{Causes, Relabelled};
pub use comparison::{Comparison, Sides};
pub use findings::{By, Deciders, Deciding, Finding, Findings, grouped, parts};
pub use outliers::Outlier;
use outside::Known;
use pairs::Kinds;
pub use pairs::WorkloadPair;
pub use proof::{Beyond, Counterexample, Proof, is_about_names, policies_of, proven};
pub use verdicts::{Compared, Differing, Differs, compare};

/// Steps to look at a pair of workloads, or at a run of addresses.
const ROW: u64 = 5;

/// Two sides of a change.
#[derive(Debug)]
pub struct Diff<'s> {
    /// As it is.
    pub before: Map<'s>,
    /// As it would be.
    pub after: Map<'s>,
    /// Every workload of either, by namespace, name and kind.
    pub workloads: Vec<WorkloadPair>,
    /// Nodes, and pods that are not like the others of their workload.
    pub outliers: Vec<Outlier>,
    /// Workloads that are not compared: working out what policies say about their pods is too much work.
    pub left_out: BTreeSet<WorkloadName>,
    kinds: Kinds,
}

/// One end of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// A workload, by its place in [`Diff::workloads`].
    Workload(usize),
    /// Outside addresses, first and last.
    Range(IpAddr, IpAddr),
    /// Whoever serves Ingress and Route objects.
    IngressController,
    /// Nodes, or pods of a workload that are not like the others, by their place in [`Diff::outliers`].
    Outlier(usize),
}

/// A pair that may do something else afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Who opens the connections.
    pub source: Peer,
    /// Who receives them.
    pub destination: Peer,
    /// What is let through before.
    pub before: Entry,
    /// And after.
    pub after: Entry,
}

/// What sort of a change it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChangeKind {
    /// Nothing was let through before.
    Added,
    /// Nothing is let through after.
    Removed,
    /// Something before and something else after.
    Changed,
}

/// Which changes are told.
#[derive(Debug, Clone, Default)]
pub struct Select {
    /// Without what workloads send themselves.
    pub ignore_self: bool,
    /// The families of outside addresses.
    pub families: Vec<Family>,
}

// === impl Change ===

impl Change {
    /// What sort it is.
    pub fn kind(&self) -> ChangeKind {
        match (self.before.is_nothing(), self.after.is_nothing()) {
            (true, _) => ChangeKind::Added,
            (_, true) => ChangeKind::Removed,
            _ => ChangeKind::Changed,
        }
    }
}

impl ChangeKind {
    /// As JSON has it.
    pub fn as_str(self) -> &'static str {
        match self {
            ChangeKind::Added => "added",
            ChangeKind::Removed => "removed",
            ChangeKind::Changed => "changed",
        }
    }
}

// === impl Diff ===

impl<'s> Diff<'s> {
    /// Works out both sides. The cuts must be those of both snapshots.
    pub fn new(
        before: &'s Snapshot,
        after: &'s Snapshot,
        options: &Options,
        level: Level,
        cuts: &Cuts,
        cells: &mut Cells,
    ) -> Self {
        // Both sides get about the same.
        let kept = cells.work().share(2);
        let before = Map::new(before, options, level, cuts, cells);
        cells.work().put_back(kept);
        let after = Map::new(after, options, level, cuts, cells);
        let left_out: BTreeSet<WorkloadName> =
            before.left_out.iter().chain(&after.left_out).cloned().collect();
        let (before, after) = (before.without(&left_out), after.without(&left_out));
        let workloads = pairs::join(&before, &after);
        let kinds = Kinds::of(&before, &after, &workloads);
        let outliers = outliers::outliers(&before, &after, &workloads);
        Diff { before, after, workloads, outliers, left_out, kinds }
    }

    /// A workload's name.
    pub fn name(&self, workload: usize) -> &WorkloadName {
        &self.workloads[workload].name
    }

    /// The workloads of manifests: all but the ingress controller, which nobody wrote.
    pub fn written(&self) -> impl Iterator<Item = &WorkloadPair> {
        self.workloads.iter().filter(|pair| pair.name.kind != INGRESS_CONTROLLER)
    }

    /// Whether there is nobody whose connections could be compared.
    pub fn is_about_nobody(&self) -> bool {
        self.written().next().is_none()
    }

    /// The workloads that are there after and not before.
    pub fn came(&self) -> impl Iterator<Item = &WorkloadName> {
        self.written().filter(|pair| pair.before.is_none()).map(|pair| &pair.name)
    }

    /// The workloads that are there before and not after.
    pub fn went(&self) -> impl Iterator<Item = &WorkloadName> {
        self.written().filter(|pair| pair.after.is_none()).map(|pair| &pair.name)
    }

    /// Tells every pair that differs, sources in their order: first what each workload sends to workloads, then what it
    /// sends out; then what comes in; at the end nodes, and pods that are not like the others of their workload. Ends early where it
    /// is too much work, and says where.
    pub fn changes(
        &self,
        select: &Select,
        cuts: &Cuts,
        cells: &mut Cells,
        mut tell: impl FnMut(&mut Cells, Change) -> ControlFlow<()>,
    ) -> ControlFlow<(), Told> {
        let mut rows = pairs::Rows::new(self, cells);
        let mut outside = Known::new();
        for source in 0..self.workloads.len() {
            if self.is_controller(source) {
                continue;
            }
            if cells.work().is_spent() {
                return ControlFlow::Continue(Told { left_out: self.workloads.len() - source });
            }
            cells.work().take(ROW * self.workloads.len() as u64);
            for (destination, [before, after]) in rows.from(source, cells) {
                if self.is_controller(destination) || (select.ignore_self && source == destination) {
                    continue;
                }
                let (source, destination) = (Peer::Workload(source), Peer::Workload(destination));
                tell(cells, Change { source, destination, before, after })?;
            }
            self.outside(select, (source, Direction::Egress), &mut outside, cuts, cells, &mut tell)?;
        }
        for destination in (0..self.workloads.len()).filter(|at| !self.is_controller(*at)) {
            if cells.work().is_spent() {
                return ControlFlow::Continue(Told { left_out: self.workloads.len() - destination });
            }
            self.outside(select, (destination, Direction::Ingress), &mut outside, cuts, cells, &mut tell)?;
        }
        self.entrances(cells, &mut tell)?;
        self.apart(select, cuts, cells, &mut tell)?;
        // What nodes and pods of mixed workloads do comes last, and stops where there is no more work left.
        let left_out = if cells.work().is_spent() { self.outliers.len().max(1) } else { 0 };
        ControlFlow::Continue(Told { left_out })
    }

    /// Tells what the ingress controller may do otherwise.
    fn entrances(
        &self,
        cells: &mut Cells,
        tell: &mut impl FnMut(&mut Cells, Change) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (before, after) = (self.before.from_entrances(cells), self.after.from_entrances(cells));
        for (at, pair) in self.workloads.iter().enumerate() {
            let side = |side: Option<usize>, gets: &BTreeMap<usize, Entry>| {
                let entry = side.and_then(|at| gets.get(&at)).copied().unwrap_or(Entry::NOTHING);
                Entry { uniform: true, ..entry }
            };
            let (before, after) = (side(pair.before, &before), side(pair.after, &after));
            if before != after {
                let (source, destination) = (Peer::IngressController, Peer::Workload(at));
                tell(cells, Change { source, destination, before, after })?;
            }
        }
        ControlFlow::Continue(())
    }

    /// What two workloads may do before and after. Whether pods are alike is no difference.
    pub fn entries(&self, source: usize, destination: usize, cells: &mut Cells) -> [Entry; 2] {
        let (source, destination) = (&self.workloads[source], &self.workloads[destination]);
        let mut entry = |map: &Map<'_>, source: Option<usize>, destination: Option<usize>| {
            let entry = source.zip(destination).map(|(from, to)| map.entry(from, to, cells));
            Entry { uniform: true, ..entry.unwrap_or(Entry::NOTHING) }
        };
        [
            entry(&self.before, source.before, destination.before),
            entry(&self.after, source.after, destination.after),
        ]
    }

    /// A number that workloads share which are of the same kind on both sides.
    fn kind(&self, workload: usize) -> u32 {
        self.kinds.kind(workload)
    }

    /// Whether what a workload may do depends on where its pods run.
    fn is_host(&self, workload: usize) -> bool {
        self.kinds.is_host(workload)
    }

    fn is_controller(&self, workload: usize) -> bool {
        self.workloads[workload].name.kind == INGRESS_CONTROLLER
    }
}
