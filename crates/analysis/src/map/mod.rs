//! Map of a cluster: the traffic that both sides allow, for every pair of workloads and every workload with the outside.
//!
//! ```text
//!   reach (IPv4, IPv6) ──► kinds of workloads ──► rows, streamed to a consumer
//! ```
//!
//! Workloads whose pods are of the same classes are of one kind, and traffic between two kinds is computed once. Rows are
//! streamed and never kept, so that memory does not grow with the number of pairs.

mod entrances;
mod kinds;
mod nodes;
pub mod reasons;
mod rows;
mod same_node;
mod workloads;

use std::collections::BTreeSet;
use std::net::IpAddr;

use palisade_model::address::Family;
use palisade_model::flow::Who;
use palisade_model::options::Options;
use palisade_model::policy::Direction;
use palisade_model::snapshot::Snapshot;
use smol_str::SmolStr;

use crate::reach::Reach;
use crate::reach::cells::{CellId, Cells};
use crate::reach::connections::Connections;
use crate::reach::cuts::Cuts;
use crate::reach::traffics::{TrafficId, Traffics};
pub use entrances::with_ingress_controller;
pub use kinds::{ClassPair, KindRows, PairTraffic, PodProfile, WorkloadKinds};
pub(crate) use kinds::{between, is_same_by_sides, pairs};
pub use nodes::NodeRow;
pub use rows::RowFilter;
pub use workloads::{EXTERNAL, INGRESS_CONTROLLER, Level, Workload, WorkloadName, workloads};

/// A cluster with its workloads and their reachability.
#[derive(Debug)]
pub struct Map<'s> {
    /// Objects of the cluster.
    pub snapshot: &'s Snapshot,
    /// Its workloads, sorted by namespace, name and kind.
    pub workloads: Vec<Workload>,
    /// Reachability over IPv4 and over IPv6.
    pub reach: [Reach<'s>; 2],
    /// Workloads and nodes without rows, because a limit was reached for their pods.
    pub left_out: Vec<WorkloadName>,
    kinds: WorkloadKinds,
    options: Options,
}

/// How far rows were streamed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamEnd {
    /// Number of workloads that no row was streamed for, because a limit was reached.
    pub left_out: usize,
}

/// One end of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MapPeer {
    /// A workload, by its index.
    Workload(usize),
    /// Outside addresses, first and last.
    Range(IpAddr, IpAddr),
    /// The controller that serves Ingress and Route objects.
    IngressController,
}

/// Traffic that one end may send the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkloadRow {
    /// The end that opens connections.
    pub source: MapPeer,
    /// The end that receives them.
    pub destination: MapPeer,
    /// Allowed traffic.
    pub entry: PairTraffic,
}

// === impl Map ===

impl<'s> Map<'s> {
    /// Computes the map of a snapshot. Maps that are compared share cuts and cells.
    pub fn new(
        snapshot: &'s Snapshot,
        options: &Options,
        level: Level,
        cuts: &Cuts,
        cells: &mut Cells,
    ) -> Self {
        let reach = [Family::V4, Family::V6].map(|family| Reach::new(snapshot, options, family, cuts, cells));
        let workloads = workloads(snapshot, level);
        let knows = |workload: &Workload| {
            workload.pods.iter().all(|pod| reach.iter().all(|reach| reach.knows(Who::Pod(*pod))))
        };
        let (workloads, unknown): (Vec<Workload>, Vec<Workload>) = match reach.iter().all(Reach::is_complete)
        {
            true => (workloads, Vec::new()),
            false => workloads.into_iter().partition(knows),
        };
        let kinds = WorkloadKinds::of(snapshot, &workloads, &reach);
        let mut map = Map { snapshot, workloads, reach, left_out: Vec::new(), kinds, options: *options };
        let nodes = (0..snapshot.nodes().len()).filter(|at| !map.knows_node(*at));
        let nodes = nodes.map(|at| WorkloadName {
            namespace: SmolStr::default(),
            name: snapshot.nodes()[at].name.clone(),
            kind: "Node".into(),
        });
        map.left_out = unknown.into_iter().map(|workload| workload.name).chain(nodes).collect();
        map
    }

    /// Removes workloads that a map it is compared with has left out.
    #[must_use]
    pub(crate) fn without(self, names: &BTreeSet<WorkloadName>) -> Self {
        if names.is_empty() {
            return self;
        }
        let (out, workloads): (Vec<Workload>, Vec<Workload>) =
            self.workloads.into_iter().partition(|workload| names.contains(&workload.name));
        let kinds = WorkloadKinds::of(self.snapshot, &workloads, &self.reach);
        let left_out = self.left_out.into_iter().chain(out.into_iter().map(|workload| workload.name));
        Map { workloads, kinds, left_out: left_out.collect(), ..self }
    }

    /// Whether the rows of a node are complete.
    pub(crate) fn knows_node(&self, node: usize) -> bool {
        self.reach.iter().all(|reach| reach.knows(Who::Node(node)))
    }

    /// Returns the kinds of the workloads.
    pub fn kinds(&self) -> &WorkloadKinds {
        &self.kinds
    }

    /// Returns the traffic that one workload may send another, or its own pods.
    pub fn entry(&self, source: usize, destination: usize, cells: &mut Cells) -> PairTraffic {
        let from = &self.workloads[source];
        if source == destination && workloads::is_single_endpoint(self.snapshot, from) {
            let own = Who::Pod(from.pods[0]);
            // With the option to evaluate it, traffic to itself is no exemption.
            if self.reach[0].is_itself(own, own) {
                return PairTraffic::ALL;
            }
        }
        let entry = self.kinds.entry(source, destination, &self.reach, cells);
        self.with_same_node(entry, source, destination, cells)
    }

    /// Returns the traffic of a workload with outside addresses of a family, in a direction: ranges with the same traffic,
    /// without those that get nothing.
    pub fn outside(
        &self,
        workload: usize,
        direction: Direction,
        family: Family,
        cuts: &Cuts,
        cells: &mut Cells,
    ) -> Vec<(IpAddr, IpAddr, TrafficId)> {
        self.outside_of(&self.kinds.classes(workload, family), direction, family, cuts, cells)
    }

    /// Returns the traffic of pods of these classes with outside addresses; see [`Map::outside`].
    pub(crate) fn outside_of(
        &self,
        classes: &[u32],
        direction: Direction,
        family: Family,
        cuts: &Cuts,
        cells: &mut Cells,
    ) -> Vec<(IpAddr, IpAddr, TrafficId)> {
        let reach = &self.reach[family as usize];
        let mut runs: Vec<(u32, TrafficId)> = Vec::new();
        for class in classes {
            let own = of_outside(reach, direction, *class, cells);
            runs = if runs.is_empty() { own } else { either(&runs, &own, cells) };
        }
        ranges(&runs, reach.outside(), family, cuts)
    }

    /// Whether some rule, endpoint or service has an IPv6 address.
    pub fn uses_ipv6(&self, cuts: &Cuts) -> bool {
        let six = |address: &IpAddr| address.is_ipv6();
        cuts.len(Family::V6) > 1
            || self.snapshot.pods().iter().any(|pod| pod.addresses.iter().any(six))
            || self.snapshot.nodes().iter().any(|node| node.addresses.iter().any(six))
            || self.snapshot.services().iter().any(|service| service.addresses.iter().any(six))
    }

    /// Returns the evaluation options.
    pub fn options(&self) -> &Options {
        &self.options
    }
}

/// Returns the traffic of a class with outside addresses, as runs of intervals: the first interval of each run.
fn of_outside(reach: &Reach<'_>, direction: Direction, class: u32, cells: &Cells) -> Vec<(u32, TrafficId)> {
    let outside = reach.outside();
    let runs = reach.row(direction, class).runs();
    let first = runs.partition_point(|(start, _)| *start <= outside.start).saturating_sub(1);
    let mut found: Vec<(u32, TrafficId)> = Vec::new();
    for (start, cell) in &runs[first..] {
        let allowed = cells.get(*cell).allow;
        if found.last().is_none_or(|(_, last)| *last != allowed) {
            found.push(((*start).max(outside.start) - outside.start, allowed));
        }
    }
    found
}

/// Returns the union of two lists of runs.
fn either(one: &[(u32, TrafficId)], other: &[(u32, TrafficId)], cells: &mut Cells) -> Vec<(u32, TrafficId)> {
    let mut starts: Vec<u32> = one.iter().chain(other).map(|(start, _)| *start).collect();
    starts.sort_unstable();
    starts.dedup();
    let at = |runs: &[(u32, TrafficId)], start: u32| {
        runs[runs.partition_point(|(first, _)| *first <= start).saturating_sub(1)].1
    };
    let mut both: Vec<(u32, TrafficId)> = Vec::new();
    for start in starts {
        let allowed = cells.traffics.union(at(one, start), at(other, start));
        if both.last().is_none_or(|(_, last)| *last != allowed) {
            both.push((start, allowed));
        }
    }
    both
}

/// Converts runs of intervals to ranges of addresses, without those that get nothing.
fn ranges(
    runs: &[(u32, TrafficId)],
    outside: std::ops::Range<u32>,
    family: Family,
    cuts: &Cuts,
) -> Vec<(IpAddr, IpAddr, TrafficId)> {
    let count = outside.end - outside.start;
    let ends = runs.iter().skip(1).map(|(start, _)| *start).chain([count]);
    let ranges = runs.iter().zip(ends).filter(|((_, allowed), _)| *allowed != Traffics::EMPTY);
    ranges
        .map(|((start, allowed), end)| {
            let first = cuts.interval(family, *start as usize).0;
            let last = cuts.interval(family, end as usize - 1).1;
            (first, last, *allowed)
        })
        .collect()
}

/// Converts traffic to protocols and ports.
pub fn connections(allowed: TrafficId, cells: &Cells) -> Connections {
    Connections::of(cells.traffics.set(allowed), cells.traffics.space())
}

/// Returns the allowed traffic of a cell.
fn allowed(cell: CellId, cells: &Cells) -> TrafficId {
    cells.get(cell).allow
}
