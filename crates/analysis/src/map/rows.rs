//! Rows of a map, streamed and filtered.

use std::net::IpAddr;
use std::ops::ControlFlow;

use palisade_model::address::Family;
use palisade_model::policy::Direction;
use palisade_model::traffic::Traffic;
use smol_str::SmolStr;

use super::kinds::{KindRows, PairTraffic, PodProfile};
use super::{INGRESS_CONTROLLER, Map, MapPeer, StreamEnd, WorkloadRow};
use crate::reach::cells::Cells;
use crate::reach::cuts::Cuts;
use crate::reach::traffics::TrafficId;

/// Filter of rows.
#[derive(Debug, Clone, Default)]
pub struct RowFilter {
    /// Rows with a workload of these namespaces; all when empty.
    pub namespaces: Vec<SmolStr>,
    /// Rows with these workloads, by index; all when empty.
    pub focus: Vec<usize>,
    /// Rows in which the selected workloads receive, or send.
    pub direction: Option<Direction>,
    /// Rows that allow this traffic.
    pub traffic: Option<Traffic>,
    /// Whether traffic of workloads to themselves is omitted.
    pub ignore_self: bool,
    /// Families of outside addresses.
    pub families: Vec<Family>,
}

// === impl RowFilter ===

impl RowFilter {
    /// Whether the filter selects a workload.
    pub fn selects(&self, map: &Map<'_>, workload: usize) -> bool {
        let name = &map.workloads[workload].name;
        (self.namespaces.is_empty() || self.namespaces.contains(&name.namespace))
            && (self.focus.is_empty() || self.focus.contains(&workload))
    }

    /// Whether the filter includes rows of a direction, seen from the selected workloads.
    pub fn includes(&self, direction: Direction) -> bool {
        self.direction.is_none_or(|wanted| wanted == direction)
    }

    /// Whether a row allows the traffic of the filter: over either family, with the echo request of either.
    pub(super) fn matches_traffic(&self, entry: PairTraffic, cells: &Cells) -> bool {
        let place = |traffic, six| cells.traffics.space().offset(traffic, six);
        let holds = |set: TrafficId, place: u32| cells.traffics.set(set).contains(place);
        self.traffic.is_none_or(|traffic| {
            let places = [place(traffic, false), place(traffic, true)];
            let sets = [entry.allowed, entry.other.unwrap_or(entry.allowed)];
            sets.into_iter().any(|set| places.into_iter().any(|place| holds(set, place)))
        })
    }
}

/// Work of a pair of workloads, or of a run of addresses.
const ROW_WORK: u64 = 5;

impl Map<'_> {
    /// Emits every selected row with something allowed, by source: rows to each workload, then to the outside; at the end
    /// rows from the outside and of entrances. Stops early when the work is used up.
    pub fn rows(
        &self,
        filter: &RowFilter,
        cuts: &Cuts,
        cells: &mut Cells,
        mut emit: impl FnMut(&mut Cells, WorkloadRow) -> ControlFlow<()>,
    ) -> ControlFlow<(), StreamEnd> {
        let selected: Vec<bool> = (0..self.workloads.len()).map(|at| filter.selects(self, at)).collect();
        let mut rows = KindRows::new(self, cells);
        let controller = |at: usize| self.workloads[at].name.kind == INGRESS_CONTROLLER;
        for source in 0..self.workloads.len() {
            let outward = selected[source] && filter.includes(Direction::Egress);
            // Unselected workloads are still sources for selected ones.
            if controller(source) || (!outward && !filter.includes(Direction::Ingress)) {
                continue;
            }
            if cells.work().is_spent() {
                return ControlFlow::Continue(StreamEnd { left_out: self.workloads.len() - source });
            }
            cells.work().take(ROW_WORK * self.workloads.len() as u64);
            let row = rows.from(self.kinds().kind(source), cells);
            for destination in 0..self.workloads.len() {
                let inward = selected[destination] && filter.includes(Direction::Ingress);
                if !(outward || inward)
                    || controller(destination)
                    || (filter.ignore_self && source == destination)
                {
                    continue;
                }
                let entry = match row[self.kinds().kind(destination) as usize] {
                    _ if source == destination => self.entry(source, destination, cells),
                    entry if self.kinds().is_host(source) => {
                        self.with_same_node(entry, source, destination, cells)
                    }
                    entry => entry,
                };
                if !entry.is_nothing() && filter.matches_traffic(entry, cells) {
                    let (source, destination) = (MapPeer::Workload(source), MapPeer::Workload(destination));
                    emit(cells, WorkloadRow { source, destination, entry })?;
                }
            }
            if outward {
                self.outside_rows(filter, source, Direction::Egress, cuts, cells, &mut emit)?;
            }
        }
        if filter.includes(Direction::Ingress) {
            for destination in (0..self.workloads.len()).filter(|at| selected[*at] && !controller(*at)) {
                if cells.work().is_spent() {
                    return ControlFlow::Continue(StreamEnd { left_out: self.workloads.len() - destination });
                }
                self.outside_rows(filter, destination, Direction::Ingress, cuts, cells, &mut emit)?;
            }
            self.entrance_rows(filter, cells, &mut emit)?;
        }
        ControlFlow::Continue(StreamEnd::default())
    }

    fn outside_rows(
        &self,
        filter: &RowFilter,
        workload: usize,
        direction: Direction,
        cuts: &Cuts,
        cells: &mut Cells,
        emit: &mut impl FnMut(&mut Cells, WorkloadRow) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for family in &filter.families {
            cells.work().take(ROW_WORK * cuts.len(*family) as u64);
            let mut of = |classes: &[u32]| self.outside_of(classes, direction, *family, cuts, cells);
            let classes = self.kinds().classes(workload, *family);
            let (all, each): (_, Vec<_>) = match &classes[..] {
                [_] => (of(&classes), Vec::new()),
                several => (of(several), several.iter().map(|class| of(&[*class])).collect()),
            };
            // Pods without an address of this family make rows non-uniform, too.
            let absent = |profile: &PodProfile| profile.classes[*family as usize].is_none();
            let some_absent = self.kinds().profiles(workload).iter().any(absent);
            for (first, last, allowed) in all {
                let (own, range) = (MapPeer::Workload(workload), MapPeer::Range(first, last));
                let (source, destination) = match direction {
                    Direction::Egress => (own, range),
                    Direction::Ingress => (range, own),
                };
                // Runs are sorted and disjoint: only the last that begins before can hold it.
                let same = |runs: &Vec<(IpAddr, IpAddr, TrafficId)>| {
                    let run = runs.partition_point(|run| run.0 <= first).checked_sub(1).map(|at| runs[at]);
                    run.is_some_and(|run| last <= run.1 && run.2 == allowed)
                };
                let uniform = !some_absent && each.iter().all(same);
                let entry = PairTraffic { allowed, other: None, uniform };
                if !filter.matches_traffic(entry, cells) {
                    continue;
                }
                emit(cells, WorkloadRow { source, destination, entry })?;
            }
        }
        ControlFlow::Continue(())
    }
}
