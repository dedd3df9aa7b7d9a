//! Semantic diff of two sets of policies, or of two clusters: traffic that is allowed by one side only.
//!
//! ```text
//!   before, after ──► two maps with shared cuts and cells ──► kinds compared ──► changes, streamed ──► findings
//!   policies alone ──► proof: pods that could exist
//! ```
//!
//! Both sides share the layout of traffic and the boundaries of addresses, so that equal traffic has equal ids. Workloads are
//! matched by name. Pairs of workloads differ only where their kinds do, so that kinds are compared and pairs enumerated only
//! where they differ: an empty diff is a proof about all connections, not a sample.

mod causes;
mod equality;
mod findings;
mod outliers;
mod outside;
mod proof;
mod same_node;
mod witness;
mod workload_pairs;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::ControlFlow;

use palisade_model::address::Family;
use palisade_model::options::Options;
use palisade_model::policy::Direction;
use palisade_model::snapshot::Snapshot;

use crate::map::{INGRESS_CONTROLLER, Level, Map, PairTraffic, StreamEnd, WorkloadName};
use crate::reach::cells::Cells;
use crate::reach::cuts::Cuts;
pub use causes::{Causes, Relabelled};
pub use equality::{ComparisonExtent, DifferenceKind, DivergentFlow, compare};
pub use findings::{DeciderLookup, DecisionSource, DiffFinding, DiffFindings, SideDecision, grouped, parts};
pub use outliers::Outlier;
use outside::OutsideCache;
pub use proof::{Counterexample, PotentialDifferences, Proof, is_about_names, policies_of, proven};
use workload_pairs::PairKinds;
pub use workload_pairs::WorkloadPair;

/// Work of a pair of workloads, or of a run of addresses.
const ROW_WORK: u64 = 5;

/// The two sides of a diff.
#[derive(Debug)]
pub struct Diff<'s> {
    /// Map before the change.
    pub before: Map<'s>,
    /// Map after the change.
    pub after: Map<'s>,
    /// Workloads of either side, sorted by namespace, name and kind.
    pub workloads: Vec<WorkloadPair>,
    /// Nodes, and pods whose profile differs from others of their workload.
    pub outliers: Vec<Outlier>,
    /// Workloads that are not compared, because a limit was reached for their pods.
    pub left_out: BTreeSet<WorkloadName>,
    kinds: PairKinds,
}

/// One end of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiffPeer {
    /// A workload, by its index in [`Diff::workloads`].
    Workload(usize),
    /// Outside addresses, first and last.
    Range(IpAddr, IpAddr),
    /// The controller that serves Ingress and Route objects.
    IngressController,
    /// Nodes, or pods that differ from others of their workload, by index in [`Diff::outliers`].
    Outlier(usize),
}

/// A pair whose allowed traffic changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrafficChange {
    /// The end that opens connections.
    pub source: DiffPeer,
    /// The end that receives them.
    pub destination: DiffPeer,
    /// Traffic allowed before.
    pub before: PairTraffic,
    /// Traffic allowed after.
    pub after: PairTraffic,
}

/// Kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChangeKind {
    /// Nothing was allowed before.
    Added,
    /// Nothing is allowed after.
    Removed,
    /// Something is allowed before and after, and it differs.
    Changed,
}

/// Filter of changes.
#[derive(Debug, Clone, Default)]
pub struct ChangeFilter {
    /// Whether traffic of workloads to themselves is omitted.
    pub ignore_self: bool,
    /// Families of outside addresses.
    pub families: Vec<Family>,
}

// === impl TrafficChange ===

impl TrafficChange {
    /// Returns the kind of the change.
    pub fn kind(&self) -> ChangeKind {
        match (self.before.is_nothing(), self.after.is_nothing()) {
            (true, _) => ChangeKind::Added,
            (_, true) => ChangeKind::Removed,
            _ => ChangeKind::Changed,
        }
    }
}

impl ChangeKind {
    /// Returns the keyword in JSON.
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
    /// Computes both sides. The cuts must be those of both snapshots.
    pub fn new(
        before: &'s Snapshot,
        after: &'s Snapshot,
        options: &Options,
        level: Level,
        cuts: &Cuts,
        cells: &mut Cells,
    ) -> Self {
        // Both sides get about the same share of work.
        let kept = cells.work().share(2);
        let before = Map::new(before, options, level, cuts, cells);
        cells.work().put_back(kept);
        let after = Map::new(after, options, level, cuts, cells);
        let left_out: BTreeSet<WorkloadName> =
            before.left_out.iter().chain(&after.left_out).cloned().collect();
        let (before, after) = (before.without(&left_out), after.without(&left_out));
        let workloads = workload_pairs::join(&before, &after);
        let kinds = PairKinds::of(&before, &after, &workloads);
        let outliers = outliers::outliers(&before, &after, &workloads);
        Diff { before, after, workloads, outliers, left_out, kinds }
    }

    /// Returns a workload's name.
    pub fn name(&self, workload: usize) -> &WorkloadName {
        &self.workloads[workload].name
    }

    /// Returns the workloads of manifests: all but the modelled ingress controller.
    pub fn written(&self) -> impl Iterator<Item = &WorkloadPair> {
        self.workloads.iter().filter(|pair| pair.name.kind != INGRESS_CONTROLLER)
    }

    /// Whether neither side has workloads to compare.
    pub fn has_no_workloads(&self) -> bool {
        self.written().next().is_none()
    }

    /// Returns the workloads that only the side after has.
    pub fn added(&self) -> impl Iterator<Item = &WorkloadName> {
        self.written().filter(|pair| pair.before.is_none()).map(|pair| &pair.name)
    }

    /// Returns the workloads that only the side before has.
    pub fn removed(&self) -> impl Iterator<Item = &WorkloadName> {
        self.written().filter(|pair| pair.after.is_none()).map(|pair| &pair.name)
    }

    /// Emits every pair that differs, by source: from each workload to workloads, then to the outside; then from the outside;
    /// at the end entrances, nodes, and pods that differ from others of their workload. Stops early when the work is used
    /// up.
    pub fn changes(
        &self,
        filter: &ChangeFilter,
        cuts: &Cuts,
        cells: &mut Cells,
        mut emit: impl FnMut(&mut Cells, TrafficChange) -> ControlFlow<()>,
    ) -> ControlFlow<(), StreamEnd> {
        let mut rows = workload_pairs::DiffRows::new(self, cells);
        let mut outside = OutsideCache::new();
        for source in 0..self.workloads.len() {
            if self.is_controller(source) {
                continue;
            }
            if cells.work().is_spent() {
                return ControlFlow::Continue(StreamEnd { left_out: self.workloads.len() - source });
            }
            cells.work().take(ROW_WORK * self.workloads.len() as u64);
            for (destination, [before, after]) in rows.from(source, cells) {
                if self.is_controller(destination) || (filter.ignore_self && source == destination) {
                    continue;
                }
                let (source, destination) = (DiffPeer::Workload(source), DiffPeer::Workload(destination));
                emit(cells, TrafficChange { source, destination, before, after })?;
            }
            self.outside(filter, (source, Direction::Egress), &mut outside, cuts, cells, &mut emit)?;
        }
        for destination in (0..self.workloads.len()).filter(|at| !self.is_controller(*at)) {
            if cells.work().is_spent() {
                return ControlFlow::Continue(StreamEnd { left_out: self.workloads.len() - destination });
            }
            self.outside(filter, (destination, Direction::Ingress), &mut outside, cuts, cells, &mut emit)?;
        }
        self.entrances(cells, &mut emit)?;
        self.outlier_changes(filter, cuts, cells, &mut emit)?;
        // Outliers come last: if the work is used up, some of them were skipped.
        let left_out = if cells.work().is_spent() { self.outliers.len().max(1) } else { 0 };
        ControlFlow::Continue(StreamEnd { left_out })
    }

    /// Emits the changes of the ingress controller.
    fn entrances(
        &self,
        cells: &mut Cells,
        emit: &mut impl FnMut(&mut Cells, TrafficChange) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (before, after) = (self.before.from_entrances(cells), self.after.from_entrances(cells));
        for (at, pair) in self.workloads.iter().enumerate() {
            let side = |side: Option<usize>, gets: &BTreeMap<usize, PairTraffic>| {
                let entry = side.and_then(|at| gets.get(&at)).copied().unwrap_or(PairTraffic::NOTHING);
                PairTraffic { uniform: true, ..entry }
            };
            let (before, after) = (side(pair.before, &before), side(pair.after, &after));
            if before != after {
                let (source, destination) = (DiffPeer::IngressController, DiffPeer::Workload(at));
                emit(cells, TrafficChange { source, destination, before, after })?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Returns the traffic of two workloads before and after. Uniformity is no difference.
    pub fn entries(&self, source: usize, destination: usize, cells: &mut Cells) -> [PairTraffic; 2] {
        let (source, destination) = (&self.workloads[source], &self.workloads[destination]);
        let mut entry = |map: &Map<'_>, source: Option<usize>, destination: Option<usize>| {
            let entry = source.zip(destination).map(|(from, to)| map.entry(from, to, cells));
            PairTraffic { uniform: true, ..entry.unwrap_or(PairTraffic::NOTHING) }
        };
        [
            entry(&self.before, source.before, destination.before),
            entry(&self.after, source.after, destination.after),
        ]
    }

    /// Returns the kind of a workload: equal for those of the same kind on both sides.
    fn kind(&self, workload: usize) -> u32 {
        self.kinds.kind(workload)
    }

    /// Whether traffic of a workload depends on the nodes of its pods.
    fn is_host(&self, workload: usize) -> bool {
        self.kinds.is_host(workload)
    }

    fn is_controller(&self, workload: usize) -> bool {
        self.workloads[workload].name.kind == INGRESS_CONTROLLER
    }
}
