//! Changes between workloads and outside addresses.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::rc::Rc;

use palisade_model::address::{Family, next, previous};
use palisade_model::policy::Direction;

use super::{ChangeFilter, Diff, DiffPeer, TrafficChange};
use crate::map::{Map, PairTraffic};
use crate::reach::cells::Cells;
use crate::reach::cuts::Cuts;
use crate::reach::traffics::{TrafficId, Traffics};

/// First and last address, and the traffic allowed.
type RangeTraffic = (IpAddr, IpAddr, TrafficId);
/// First and last address, and the traffic allowed before and after.
type RangeDifference = (IpAddr, IpAddr, TrafficId, TrafficId);
/// Cache of differing ranges, by kind, direction and family.
pub(super) type OutsideCache = HashMap<(u32, Direction, Family), Rc<[RangeDifference]>>;

impl Diff<'_> {
    /// Emits the ranges of addresses for which the traffic of a workload changes.
    pub(super) fn outside(
        &self,
        filter: &ChangeFilter,
        (workload, direction): (usize, Direction),
        known: &mut OutsideCache,
        cuts: &Cuts,
        cells: &mut Cells,
        emit: &mut impl FnMut(&mut Cells, TrafficChange) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let pair = &self.workloads[workload];
        for family in &filter.families {
            cells.work().take(super::ROW_WORK);
            let mut compute = || -> Rc<[RangeDifference]> {
                cells.work().take(super::ROW_WORK * 20 * cuts.len(*family) as u64);
                let mut ranges = |map: &Map<'_>, at: Option<usize>| {
                    at.map_or(Vec::new(), |at| map.outside(at, direction, *family, cuts, cells))
                };
                let (before, after) = (ranges(&self.before, pair.before), ranges(&self.after, pair.after));
                if before == after { Rc::new([]) } else { differing_ranges(&before, &after).into() }
            };
            let differing = known.entry((self.kind(workload), direction, *family));
            let differing = Rc::clone(differing.or_insert_with(&mut compute));
            for (first, last, before, after) in differing.iter().copied() {
                let (own, range) = (DiffPeer::Workload(workload), DiffPeer::Range(first, last));
                let (source, destination) = match direction {
                    Direction::Egress => (own, range),
                    Direction::Ingress => (range, own),
                };
                let entry = |allowed| PairTraffic { allowed, other: None, uniform: true };
                emit(
                    cells,
                    TrafficChange { source, destination, before: entry(before), after: entry(after) },
                )?;
            }
        }
        ControlFlow::Continue(())
    }
}

/// Returns the ranges where two lists differ, merged where the difference is the same. Both are sorted and disjoint;
/// addresses in neither have no traffic.
pub(super) fn differing_ranges(before: &[RangeTraffic], after: &[RangeTraffic]) -> Vec<RangeDifference> {
    let mut starts: Vec<IpAddr> = Vec::new();
    for (first, last, _) in before.iter().chain(after) {
        starts.push(*first);
        starts.extend(next(*last));
    }
    starts.sort_unstable();
    starts.dedup();
    let at = |ranges: &[RangeTraffic], address: IpAddr| {
        let after = ranges.partition_point(|(first, ..)| *first <= address);
        let inside = after.checked_sub(1).map(|at| ranges[at]).filter(|(_, last, _)| address <= *last);
        inside.map_or(Traffics::EMPTY, |(.., allowed)| allowed)
    };
    let mut found: Vec<RangeDifference> = Vec::new();
    for (index, start) in starts.iter().enumerate() {
        let (one, other) = (at(before, *start), at(after, *start));
        if one == other {
            continue;
        }
        let last = starts.get(index + 1).and_then(|next| previous(*next)).unwrap_or_else(|| end(*start));
        match found.last_mut() {
            Some(open) if next(open.1) == Some(*start) && (open.2, open.3) == (one, other) => open.1 = last,
            _ => found.push((*start, last, one, other)),
        }
    }
    found
}

/// Returns the last address of an address's family.
fn end(address: IpAddr) -> IpAddr {
    match Family::of(address) {
        Family::V4 => std::net::Ipv4Addr::from_bits(u32::MAX).into(),
        Family::V6 => std::net::Ipv6Addr::from_bits(u128::MAX).into(),
    }
}
