//! The rows of a map, one after the other, as far as somebody wants to see them.

use std::net::IpAddr;
use std::ops::ControlFlow;

use palisade_model::address::Family;
use palisade_model::policy::Direction;
use palisade_model::traffic::Traffic;
use smol_str::SmolStr;

use super::kinds::{Entry, KindRows, Profile};
use super::{INGRESS_CONTROLLER, Map, Peer, Row, Told};
use crate::reach::cells::Cells;
use crate::reach::cuts::Cuts;
use crate::reach::traffics::TrafficId;

/// Which rows.
#[derive(Debug, Clone, Default)]
pub struct Select {
    /// Only rows with a workload of these namespaces; all where there are none.
    pub namespaces: Vec<SmolStr>,
    /// Only rows with these workloads, by their places; all where there are none.
    pub focus: Vec<usize>,
    /// Of those, only what they receive, or what they send.
    pub direction: Option<Direction>,
    /// Only rows that let this through.
    pub traffic: Option<Traffic>,
    /// Without what workloads send themselves.
    pub ignore_self: bool,
    /// The families of outside addresses.
    pub families: Vec<Family>,
}

// === impl Select ===

impl Select {
    /// Whether a workload is one that is asked about.
    pub fn is_meant(&self, map: &Map<'_>, workload: usize) -> bool {
        let name = &map.workloads[workload].name;
        (self.namespaces.is_empty() || self.namespaces.contains(&name.namespace))
            && (self.focus.is_empty() || self.focus.contains(&workload))
    }

    /// Whether rows are asked for that those receive, or that they send.
    pub fn wants(&self, direction: Direction) -> bool {
        self.direction.is_none_or(|wanted| wanted == direction)
    }

    /// Whether a row lets the traffic through that is asked for: over either family, with the ping of either.
    pub(super) fn lets_through(&self, entry: Entry, cells: &Cells) -> bool {
        let place = |traffic, six| cells.traffics.space().offset(traffic, six);
        let holds = |set: TrafficId, place: u32| cells.traffics.set(set).contains(place);
        self.traffic.is_none_or(|traffic| {
            let places = [place(traffic, false), place(traffic, true)];
            let sets = [entry.allowed, entry.other.unwrap_or(entry.allowed)];
            sets.into_iter().any(|set| places.into_iter().any(|place| holds(set, place)))
        })
    }
}

/// Steps to look at a pair of workloads, or at a run of addresses.
const ROW: u64 = 5;

impl Map<'_> {
    /// Tells every row with something allowed that is asked for, sources in their order: first each workload's way to
    /// each workload, then its way out; at the end who comes in. Ends early where it is too much work, and says where.
    pub fn rows(
        &self,
        select: &Select,
        cuts: &Cuts,
        cells: &mut Cells,
        mut tell: impl FnMut(&mut Cells, Row) -> ControlFlow<()>,
    ) -> ControlFlow<(), Told> {
        let meant: Vec<bool> = (0..self.workloads.len()).map(|at| select.is_meant(self, at)).collect();
        let mut rows = KindRows::new(self, cells);
        let controller = |at: usize| self.workloads[at].name.kind == INGRESS_CONTROLLER;
        for source in 0..self.workloads.len() {
            let outward = meant[source] && select.wants(Direction::Egress);
            // Whoever is not asked about is still a source for those who are.
            if controller(source) || (!outward && !select.wants(Direction::Ingress)) {
                continue;
            }
            if cells.work().is_spent() {
                return ControlFlow::Continue(Told { left_out: self.workloads.len() - source });
            }
            cells.work().take(ROW * self.workloads.len() as u64);
            let row = rows.from(self.kinds().kind(source), cells);
            for destination in 0..self.workloads.len() {
                let inward = meant[destination] && select.wants(Direction::Ingress);
                if !(outward || inward)
                    || controller(destination)
                    || (select.ignore_self && source == destination)
                {
                    continue;
                }
                let entry = match row[self.kinds().kind(destination) as usize] {
                    _ if source == destination => self.entry(source, destination, cells),
                    entry if self.kinds().is_host(source) => {
                        self.with_near(entry, source, destination, cells)
                    }
                    entry => entry,
                };
                if !entry.is_nothing() && select.lets_through(entry, cells) {
                    let (source, destination) = (Peer::Workload(source), Peer::Workload(destination));
                    tell(cells, Row { source, destination, entry })?;
                }
            }
            if outward {
                self.outside_rows(select, source, Direction::Egress, cuts, cells, &mut tell)?;
            }
        }
        if select.wants(Direction::Ingress) {
            for destination in (0..self.workloads.len()).filter(|at| meant[*at] && !controller(*at)) {
                if cells.work().is_spent() {
                    return ControlFlow::Continue(Told { left_out: self.workloads.len() - destination });
                }
                self.outside_rows(select, destination, Direction::Ingress, cuts, cells, &mut tell)?;
            }
            self.entrance_rows(select, cells, &mut tell)?;
        }
        ControlFlow::Continue(Told::default())
    }

    fn outside_rows(
        &self,
        select: &Select,
        workload: usize,
        direction: Direction,
        cuts: &Cuts,
        cells: &mut Cells,
        tell: &mut impl FnMut(&mut Cells, Row) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for family in &select.families {
            cells.work().take(ROW * cuts.len(*family) as u64);
            let mut of = |classes: &[u32]| self.outside_of(classes, direction, *family, cuts, cells);
            let classes = self.kinds().classes(workload, *family);
            let (all, each): (_, Vec<_>) = match &classes[..] {
                [_] => (of(&classes), Vec::new()),
                several => (of(several), several.iter().map(|class| of(&[*class])).collect()),
            };
            // Pods that are not there, in this family, are not like the others either.
            let absent = |profile: &Profile| profile.classes[*family as usize].is_none();
            let some_absent = self.kinds().profiles(workload).iter().any(absent);
            for (first, last, allowed) in all {
                let (own, range) = (Peer::Workload(workload), Peer::Range(first, last));
                let (source, destination) = match direction {
                    Direction::Egress => (own, range),
                    Direction::Ingress => (range, own),
                };
                // Runs are in order and have no overlaps: only the last that begins before can hold it.
                let same = |runs: &Vec<(IpAddr, IpAddr, TrafficId)>| {
                    let run = runs.partition_point(|run| run.0 <= first).checked_sub(1).map(|at| runs[at]);
                    run.is_some_and(|run| last <= run.1 && run.2 == allowed)
                };
                let uniform = !some_absent && each.iter().all(same);
                let entry = Entry { allowed, other: None, uniform };
                if !select.lets_through(entry, cells) {
                    continue;
                }
                tell(cells, Row { source, destination, entry })?;
            }
        }
        ControlFlow::Continue(())
    }
}
