//! What changes between workloads and outside addresses.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::rc::Rc;

use palisade_model::address::{Family, next, previous};
use palisade_model::policy::Direction;

use super::{Change, Diff, Peer, Select};
use crate::map::{Entry, Map};
use crate::reach::cells::Cells;
use crate::reach::cuts::Cuts;
use crate::reach::traffics::{TrafficId, Traffics};

/// First and last address, and what is let through.
type Range = (IpAddr, IpAddr, TrafficId);
/// First and last address, and what is let through before and after.
type Compared = (IpAddr, IpAddr, TrafficId, TrafficId);
/// What differs for workloads of a kind.
pub(super) type Known = HashMap<(u32, Direction, Family), Rc<[Compared]>>;

impl Diff<'_> {
    /// Tells the ranges of addresses that a workload may do something else with.
    pub(super) fn outside(
        &self,
        select: &Select,
        (workload, direction): (usize, Direction),
        known: &mut Known,
        cuts: &Cuts,
        cells: &mut Cells,
        tell: &mut impl FnMut(&mut Cells, Change) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let pair = &self.workloads[workload];
        for family in &select.families {
            cells.work().take(super::ROW);
            let mut work_out = || -> Rc<[Compared]> {
                cells.work().take(super::ROW * 20 * cuts.len(*family) as u64);
                let mut ranges = |map: &Map<'_>, at: Option<usize>| {
                    at.map_or(Vec::new(), |at| map.outside(at, direction, *family, cuts, cells))
                };
                let (before, after) = (ranges(&self.before, pair.before), ranges(&self.after, pair.after));
                if before == after { Rc::new([]) } else { compared(&before, &after).into() }
            };
            let differing = known.entry((self.kind(workload), direction, *family));
            let differing = Rc::clone(differing.or_insert_with(&mut work_out));
            for (first, last, before, after) in differing.iter().copied() {
                let (own, range) = (Peer::Workload(workload), Peer::Range(first, last));
                let (source, destination) = match direction {
                    Direction::Egress => (own, range),
                    Direction::Ingress => (range, own),
                };
                let entry = |allowed| Entry { allowed, other: None, uniform: true };
                tell(cells, Change { source, destination, before: entry(before), after: entry(after) })?;
            }
        }
        ControlFlow::Continue(())
    }
}

/// The ranges where two lists differ, put together where the difference is the same. Both are sorted and have no overlaps;
/// what is in neither gets nothing in both.
pub(super) fn compared(before: &[Range], after: &[Range]) -> Vec<Compared> {
    let mut starts: Vec<IpAddr> = Vec::new();
    for (first, last, _) in before.iter().chain(after) {
        starts.push(*first);
        starts.extend(next(*last));
    }
    starts.sort_unstable();
    starts.dedup();
    let at = |ranges: &[Range], address: IpAddr| {
        let after = ranges.partition_point(|(first, ..)| *first <= address);
        let inside = after.checked_sub(1).map(|at| ranges[at]).filter(|(_, last, _)| address <= *last);
        inside.map_or(Traffics::EMPTY, |(.., allowed)| allowed)
    };
    let mut found: Vec<Compared> = Vec::new();
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

/// The last address of an address's family.
fn end(address: IpAddr) -> IpAddr {
    match Family::of(address) {
        Family::V4 => std::net::Ipv4Addr::from_bits(u32::MAX).into(),
        Family::V6 => std::net::Ipv6Addr::from_bits(u128::MAX).into(),
    }
}
