//! The outside as a workload sees it: runs of addresses that get the same from its pods, whether these are alike or not.

use palisade_model::policy::Direction;

use super::Addresses;
use crate::reach::Reach;
use crate::reach::cells::Cells;
use crate::reach::cuts::Cuts;
use crate::reach::traffics::{TrafficId, Traffics};

/// What pods of these classes do with the addresses of a family, without those that get nothing.
pub(super) fn of(
    reach: &Reach<'_>,
    direction: Direction,
    classes: &[u32],
    cuts: &Cuts,
    cells: &mut Cells,
) -> Vec<Addresses> {
    if classes.is_empty() {
        return Vec::new();
    }
    let outside = reach.outside();
    let rows = || classes.iter().map(|class| reach.row(direction, *class));
    // Something changes only where a run of some row begins.
    let mut starts = vec![outside.start];
    starts.extend(rows().flat_map(|row| row.runs()).map(|(start, _)| *start));
    starts.retain(|start| outside.contains(start));
    starts.sort_unstable();
    starts.dedup();
    let mut runs: Vec<(u32, TrafficId, bool)> = Vec::new();
    for start in starts {
        let each: Vec<TrafficId> = rows().map(|row| cells.get(row.at(start)).allow).collect();
        let gets = each.iter().fold(Traffics::EMPTY, |some, own| cells.traffics.union(some, *own));
        let uniform = each.iter().all(|own| *own == gets);
        if runs.last().is_none_or(|(_, known, alike)| (*known, *alike) != (gets, uniform)) {
            runs.push((start, gets, uniform));
        }
    }
    let ends: Vec<u32> = runs.iter().skip(1).map(|(start, ..)| *start).chain([outside.end]).collect();
    let told = runs.into_iter().zip(ends).filter(|((_, gets, _), _)| *gets != Traffics::EMPTY);
    let address = |class: u32| cuts.interval(reach.family(), (class - outside.start) as usize);
    told.map(|((start, gets, uniform), end)| Addresses {
        first: address(start).0,
        last: address(end - 1).1,
        gets,
        uniform,
    })
    .collect()
}
