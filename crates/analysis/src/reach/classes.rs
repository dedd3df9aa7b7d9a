//! Classes: groups that are in the same peer sets and have the same programs.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use super::EndpointClass;
use super::groups::{DestinationId, EndpointGroups, GroupKind, number};
use super::members::{self, Spans};
use super::programs::Programs;

/// Merges groups that are in the same peer sets and have the same programs. Returns the classes, and the class of each group.
///
/// The sets that hold a group are a sum of one random number for each ([`mark`]): groups with different sets have the same sum
/// with probability 2^-128.
pub(super) fn classify(groups: &EndpointGroups<'_>, programs: &Programs) -> (Vec<EndpointClass>, Vec<u32>) {
    let mut changes: Vec<u128> = vec![0; groups.len() + 1];
    for (set, spans) in (0_u64..).zip(&programs.peer_sets) {
        let mark = mark(set);
        for (first, last) in spans {
            let (start, end) = (*first as usize, *last as usize + 1);
            changes[start] = changes[start].wrapping_add(mark);
            changes[end] = changes[end].wrapping_sub(mark);
        }
    }
    let outside = groups.outside().start;
    let mut known: HashMap<(u128, [u32; 2], DestinationId, bool), u32> = HashMap::new();
    let (mut classes, mut class_of) = (Vec::new(), Vec::with_capacity(groups.len()));
    let mut sum = 0_u128;
    for (at, group) in (0..).zip(groups.iter()) {
        sum = sum.wrapping_add(changes[at as usize]);
        let own = [programs.of_group[0][at as usize], programs.of_group[1][at as usize]];
        let fresh = number(classes.len());
        let pods = matches!(group.kind, GroupKind::Pods(..));
        let class = match at < outside {
            true => *known.entry((sum, own, group.destination, pods)).or_insert(fresh),
            // Intervals are few, and stay in their order.
            false => fresh,
        };
        if class == fresh {
            classes.push(EndpointClass { group: at, programs: own });
        }
        class_of.push(class);
    }
    (classes, class_of)
}

/// Returns a random number for an index, so that sums of different ones differ. Policies are untrusted input that could be
/// chosen so that sums of predictable numbers collide: these are seeded per process.
pub(crate) fn mark(at: u64) -> u128 {
    static SECRETS: LazyLock<[u64; 2]> = LazyLock::new(|| {
        let random = RandomState::new();
        [random.hash_one(0), random.hash_one(1)]
    });
    let [high, low] = SECRETS.map(|secret| mixed(mixed(at) ^ secret));
    u128::from(high) << 64 | u128::from(low)
}

/// Returns a pseudorandom number (splitmix64).
fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Converts intervals of groups to intervals of the classes whose first group is in them.
pub(super) fn of_classes(spans: &Spans, starts: &[u32]) -> Spans {
    let class = |spans: &(u32, u32)| {
        let first = starts.partition_point(|start| *start < spans.0);
        let after = starts.partition_point(|start| *start <= spans.1);
        (first < after).then(|| (number(first), number(after) - 1))
    };
    members::spans(spans.iter().filter_map(class).collect())
}
