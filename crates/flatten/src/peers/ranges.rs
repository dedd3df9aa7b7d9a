//! Blocks of addresses, cut where one of them begins or ends.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use palisade_engine::delta::SetId;
use palisade_engine::selection::Selection;
use palisade_model::address::{Family, next, previous};
use palisade_model::ranges::Ranges;

use super::PlacedRange;

/// Returns whether a set holds every address of a family.
pub(super) fn is_whole(block: &Selection, family: Family) -> bool {
    let v4 = family == Family::V4;
    let first = if v4 { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
    block.ranges().is_some_and(|ranges| ranges.iter().any(|range| range == (first, last(v4))))
}

/// Returns the number of ranges of a set.
pub(super) fn count(block: &Selection) -> usize {
    block.ranges().map_or(0, Ranges::len)
}

/// Emits ranges that no block splits, with the sets that hold each, for as long as the consumer returns true.
pub(super) fn cut(
    blocks: &[(SetId, Arc<Selection>)],
    emit: &mut dyn FnMut(IpAddr, IpAddr, &BTreeSet<SetId>) -> bool,
) {
    let blocks: Vec<(SetId, &Ranges)> =
        blocks.iter().filter_map(|(id, block)| Some((*id, block.ranges()?))).collect();
    for v4 in [true, false] {
        // For each address where blocks begin, or end before it: their sets.
        let mut turns: BTreeMap<IpAddr, (Vec<SetId>, Vec<SetId>)> = BTreeMap::new();
        for (id, ranges) in &blocks {
            for (first, last) in ranges.iter().filter(|(first, _)| first.is_ipv4() == v4) {
                turns.entry(first).or_default().0.push(*id);
                if let Some(after) = next(last) {
                    turns.entry(after).or_default().1.push(*id);
                }
            }
        }
        let ends: Vec<IpAddr> = turns.keys().skip(1).filter_map(|start| previous(*start)).collect();
        let mut now: BTreeSet<SetId> = BTreeSet::new();
        for (index, (first, (begin, end))) in turns.into_iter().enumerate() {
            for id in &end {
                now.remove(id);
            }
            now.extend(begin);
            if !now.is_empty() {
                let end = ends.get(index).copied().unwrap_or_else(|| last(v4));
                if !emit(first, end, &now) {
                    return;
                }
            }
        }
    }
}

/// Joins neighbouring ranges of one class.
pub(super) fn joined(ranges: Vec<PlacedRange>) -> Vec<PlacedRange> {
    let mut all: Vec<PlacedRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match all.last_mut() {
            Some(open) if open.class == range.class && next(open.last) == Some(range.first) => {
                open.last = range.last;
            }
            _ => all.push(range),
        }
    }
    all
}

fn last(v4: bool) -> IpAddr {
    if v4 { IpAddr::from([255; 4]) } else { IpAddr::from([255; 16]) }
}
