//! Who can talk to whom: every pair of workloads, and every workload with the outside, with exactly the traffic that both
//! sides let through.
//!
//! Workloads whose pods are of the same classes are of one kind, and what two kinds may do is worked out once; a row is
//! then looked up. Rows come one after the other and are never kept, so that the map of a large cluster is as large as
//! its reader wants it to be.

mod entrances;
mod kinds;
mod near;
mod nodes;
mod select;
pub mod why;
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
pub use kinds::{Entry, KindRows, Kinds, Pair, Profile};
pub(crate) use kinds::{between, is_same_by_sides, pairs};
pub use nodes::NodeRow;
pub use select::Select;
pub use workloads::{EXTERNAL, INGRESS_CONTROLLER, Level, Workload, WorkloadName, workloads};

/// A cluster, and all that policies say about it.
#[derive(Debug)]
pub struct Map<'s> {
    /// The cluster.
    pub snapshot: &'s Snapshot,
    /// Its workloads, by namespace, name and kind.
    pub workloads: Vec<Workload>,
    /// What classes reach, over IPv4 and over IPv6.
    pub reach: [Reach<'s>; 2],
    /// Workloads that it does not tell about: working out what policies say about their pods is too much work.
    pub left_out: Vec<WorkloadName>,
    kinds: Kinds,
    options: Options,
}

/// How far the rows of a map were told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Told {
    /// Workloads at which telling stopped, because it was too much work: no row begins at them.
    pub left_out: usize,
}

/// One end of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// A workload, by its place.
    Workload(usize),
    /// Outside addresses, first and last.
    Range(IpAddr, IpAddr),
    /// Whoever serves Ingress and Route objects.
    IngressController,
}

/// What one end may send the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Who opens the connections.
    pub source: Peer,
    /// Who receives them.
    pub destination: Peer,
    /// What is let through.
    pub entry: Entry,
}

// === impl Map ===

impl<'s> Map<'s> {
    /// Works it out. Maps that are compared share cuts and cells.
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
        let kinds = Kinds::of(snapshot, &workloads, &reach);
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

    /// The map without some workloads: another map, with which it is compared, cannot tell about them.
    #[must_use]
    pub(crate) fn without(self, names: &BTreeSet<WorkloadName>) -> Self {
        if names.is_empty() {
            return self;
        }
        let (out, workloads): (Vec<Workload>, Vec<Workload>) =
            self.workloads.into_iter().partition(|workload| names.contains(&workload.name));
        let kinds = Kinds::of(self.snapshot, &workloads, &self.reach);
        let left_out = self.left_out.into_iter().chain(out.into_iter().map(|workload| workload.name));
        Map { workloads, kinds, left_out: left_out.collect(), ..self }
    }

    /// Whether all is known about a node.
    pub(crate) fn knows_node(&self, node: usize) -> bool {
        self.reach.iter().all(|reach| reach.knows(Who::Node(node)))
    }

    /// The kinds of the workloads.
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// What one workload may send another, or others of its own.
    pub fn entry(&self, source: usize, destination: usize, cells: &mut Cells) -> Entry {
        let from = &self.workloads[source];
        if source == destination && workloads::is_one(self.snapshot, from) {
            let own = Who::Pod(from.pods[0]);
            // Evaluated like any other, where the option says so.
            if self.reach[0].is_itself(own, own) {
                return Entry::ALL;
            }
        }
        let entry = self.kinds.entry(source, destination, &self.reach, cells);
        self.with_near(entry, source, destination, cells)
    }

    /// The outside as a workload sees it, in a direction and a family: runs of addresses that get the same, with what is
    /// let through. Those that get nothing are left out.
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

    /// The same for what some pod of these classes may do.
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

    /// Whether policies say anything about IPv6, or anybody has an address of it.
    pub fn speaks_six(&self, cuts: &Cuts) -> bool {
        let six = |address: &IpAddr| address.is_ipv6();
        cuts.len(Family::V6) > 1
            || self.snapshot.pods().iter().any(|pod| pod.addresses.iter().any(six))
            || self.snapshot.nodes().iter().any(|node| node.addresses.iter().any(six))
            || self.snapshot.services().iter().any(|service| service.addresses.iter().any(six))
    }

    /// The options in force.
    pub fn options(&self) -> &Options {
        &self.options
    }
}

/// What a class gets, or lets in, from each interval of outside addresses: the first interval of each run.
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

/// What either of two lets through, run by run.
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

/// Runs of intervals as ranges of addresses, without those that get nothing.
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

/// What an entry says, in protocols and ports.
pub fn connections(allowed: TrafficId, cells: &Cells) -> Connections {
    Connections::of(cells.traffics.set(allowed), cells.traffics.space())
}

/// A cell's number is not a set's: this is where one becomes the other.
fn allowed(cell: CellId, cells: &Cells) -> TrafficId {
    cells.get(cell).allow
}
