//! Exposure of a workload to outside addresses: ranges with the same traffic.

use palisade_model::policy::Direction;

use super::OutsideRange;
use crate::reach::Reach;
use crate::reach::cells::Cells;
use crate::reach::cuts::Cuts;
use crate::reach::traffics::{TrafficId, Traffics};

/// Returns the traffic of some pod of these classes with the addresses of a family, without ranges that get nothing.
pub(super) fn of(
    reach: &Reach<'_>,
    direction: Direction,
    classes: &[u32],
    cuts: &Cuts,
    cells: &mut Cells,
) -> Vec<OutsideRange> {
    if classes.is_empty() {
        return Vec::new();
    }
    let outside = reach.outside();
    let rows = || classes.iter().map(|class| reach.row(direction, *class));
    // Traffic changes only where a run of some row begins.
    let mut starts = vec![outside.start];
    starts.extend(rows().flat_map(|row| row.runs()).map(|(start, _)| *start));
    starts.retain(|start| outside.contains(start));
    starts.sort_unstable();
    starts.dedup();
    let mut runs: Vec<(u32, TrafficId, bool)> = Vec::new();
    for start in starts {
        let each: Vec<TrafficId> = rows().map(|row| cells.get(row.at(start)).allow).collect();
        let allowed = each.iter().fold(Traffics::EMPTY, |some, own| cells.traffics.union(some, *own));
        let uniform = each.iter().all(|own| *own == allowed);
        if runs.last().is_none_or(|(_, known, alike)| (*known, *alike) != (allowed, uniform)) {
            runs.push((start, allowed, uniform));
        }
    }
    let ends: Vec<u32> = runs.iter().skip(1).map(|(start, ..)| *start).chain([outside.end]).collect();
    let pods_by_traffic =
        runs.into_iter().zip(ends).filter(|((_, allowed, _), _)| *allowed != Traffics::EMPTY);
    let address = |class: u32| cuts.interval(reach.family(), (class - outside.start) as usize);
    pods_by_traffic
        .map(|((start, allowed, uniform), end)| OutsideRange {
            first: address(start).0,
            last: address(end - 1).1,
            allowed,
            uniform,
        })
        .collect()
}
