//! Kinds of workloads: those whose pods are of the same classes, and the traffic between two kinds.

use std::collections::HashMap;
use std::net::IpAddr;

use palisade_model::address::Family;
use palisade_model::flow::Who;
use palisade_model::policy::Direction;
use palisade_model::snapshot::Snapshot;

use super::same_node::HostPods;
use super::workloads::Workload;
use super::{Map, allowed};
use crate::reach::cells::Cells;
use crate::reach::traffics::{TrafficId, Traffics};
use crate::reach::{Matrix, Reach};

/// Traffic that some pods may send others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PairTraffic {
    /// Traffic allowed between some pods of the two, over the family that they prefer.
    pub allowed: TrafficId,
    /// Traffic allowed over the other family, where they have both and it differs.
    pub other: Option<TrafficId>,
    /// Whether all pairs of pods have the same traffic.
    pub uniform: bool,
}

/// Classes of a pod, and the address family it prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodProfile {
    /// Class in each family.
    pub(crate) classes: [Option<u32>; 2],
    /// Whether it has no address yet, so that the other end determines the family.
    pub(crate) unaddressed: bool,
    /// Whether its first address is of IPv6.
    pub(crate) prefers_ipv6: bool,
}

/// Two classes that can connect over an address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassPair {
    /// Address family of the connection.
    pub family: Family,
    /// Whether it is the family that they prefer.
    pub preferred: bool,
    /// Class that opens connections.
    pub source: u32,
    /// Class that receives them.
    pub destination: u32,
}

/// Kinds of all workloads.
#[derive(Debug)]
pub struct WorkloadKinds {
    /// Kind of each workload.
    of: Vec<u32>,
    /// Distinct profiles of the pods of each kind.
    profiles: Vec<Vec<PodProfile>>,
    hosts: HostPods,
}

// === impl PairTraffic ===

impl PairTraffic {
    /// All traffic, between all pods.
    pub const ALL: PairTraffic = PairTraffic { allowed: Traffics::ALL, other: None, uniform: true };
    /// No traffic, between all pods.
    pub const NOTHING: PairTraffic = PairTraffic { allowed: Traffics::EMPTY, other: None, uniform: true };

    /// Whether nothing is allowed, over either family.
    pub fn is_nothing(&self) -> bool {
        self.allowed == Traffics::EMPTY && self.other.is_none_or(|other| other == Traffics::EMPTY)
    }

    /// Returns the traffic over the preferred and over the other family.
    fn over_both(&self) -> [TrafficId; 2] {
        [self.allowed, self.other.unwrap_or(self.allowed)]
    }

    fn of(over: [TrafficId; 2], uniform: bool) -> Self {
        PairTraffic { allowed: over[0], other: (over[1] != over[0]).then_some(over[1]), uniform }
    }

    /// Returns what either of two allows.
    pub fn or(self, another: PairTraffic, cells: &mut Cells) -> PairTraffic {
        let (one, two) = (self.over_both(), another.over_both());
        let over = [0, 1].map(|at| cells.traffics.union(one[at], two[at]));
        PairTraffic::of(over, self.uniform && another.uniform && one == two)
    }
}

// === impl PodProfile ===

impl PodProfile {
    /// Returns the profiles of a pod or a node: more than one where it has several addresses of a family.
    pub(crate) fn all(
        snapshot: &Snapshot,
        who: Who,
        reach: &[Reach<'_>; 2],
    ) -> impl Iterator<Item = PodProfile> + use<> {
        let addresses: &[IpAddr] = match who {
            Who::Pod(pod) => &snapshot.pods()[pod].addresses,
            Who::Node(node) => &snapshot.nodes()[node].addresses,
            Who::Outside => &[],
        };
        let first = PodProfile {
            classes: [reach[0].class(who), reach[1].class(who)],
            unaddressed: addresses.is_empty(),
            prefers_ipv6: addresses.first().is_some_and(IpAddr::is_ipv6),
        };
        let further: Vec<PodProfile> = match addresses.len() {
            0 | 1 => Vec::new(),
            _ => [0, 1]
                .into_iter()
                .flat_map(|family| {
                    reach[family].classes_of(who).skip(1).map(move |(class, _)| {
                        let mut other = first;
                        other.classes[family] = Some(class);
                        other
                    })
                })
                .collect(),
        };
        std::iter::once(first).chain(further)
    }
}

// === impl WorkloadKinds ===

impl WorkloadKinds {
    /// Computes the kinds of these workloads.
    pub fn of(snapshot: &Snapshot, workloads: &[Workload], reach: &[Reach<'_>; 2]) -> Self {
        let mut known: HashMap<Vec<PodProfile>, u32> = HashMap::new();
        let hosts = HostPods::of(snapshot, workloads);
        let mut kinds = WorkloadKinds { of: Vec::new(), profiles: Vec::new(), hosts };
        for workload in workloads {
            let of = |pod: &usize| PodProfile::all(snapshot, Who::Pod(*pod), reach);
            let mut profiles: Vec<PodProfile> = workload.pods.iter().flat_map(of).collect();
            profiles.sort_unstable();
            profiles.dedup();
            let fresh = u32::try_from(kinds.profiles.len()).unwrap_or(u32::MAX);
            let kind = *known.entry(profiles).or_insert_with_key(|profiles| {
                kinds.profiles.push(profiles.clone());
                fresh
            });
            kinds.of.push(kind);
        }
        kinds
    }

    /// Returns the number of kinds.
    pub fn len(&self) -> usize {
        self.profiles.len()
    }

    /// Whether there are no kinds.
    pub fn is_empty(&self) -> bool {
        self.profiles.is_empty()
    }

    /// Returns a workload's kind.
    pub fn kind(&self, workload: usize) -> u32 {
        self.of[workload]
    }

    /// Whether pods of a workload have different profiles.
    pub fn is_mixed(&self, workload: usize) -> bool {
        self.profiles[self.of[workload] as usize].len() > 1
    }

    /// Whether a workload has pods in their nodes' network, so that the other end's node matters.
    pub fn is_host(&self, workload: usize) -> bool {
        self.hosts.is_host(workload)
    }

    /// Returns the nodes of pods.
    pub(super) fn hosts(&self) -> &HostPods {
        &self.hosts
    }

    /// Returns the classes of a workload's pods in a family.
    pub fn classes(&self, workload: usize, family: Family) -> Vec<u32> {
        let profiles = &self.profiles[self.of[workload] as usize];
        let mut classes: Vec<u32> = profiles.iter().filter_map(|p| p.classes[family as usize]).collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    /// Returns the distinct profiles of a workload's pods.
    pub(crate) fn profiles(&self, workload: usize) -> &[PodProfile] {
        &self.profiles[self.of[workload] as usize]
    }

    /// Returns the traffic of pods of one workload to pods of another, without exemptions of one node.
    pub fn entry(
        &self,
        source: usize,
        destination: usize,
        reach: &[Reach<'_>; 2],
        cells: &mut Cells,
    ) -> PairTraffic {
        self.between(self.of[source], self.of[destination], reach, cells)
    }

    /// Returns the traffic of one kind to another, without exemptions of one node.
    pub fn between(
        &self,
        source: u32,
        destination: u32,
        reach: &[Reach<'_>; 2],
        cells: &mut Cells,
    ) -> PairTraffic {
        let (from, to) = (&self.profiles[source as usize], &self.profiles[destination as usize]);
        between(from, to, reach, cells).unwrap_or(PairTraffic::NOTHING)
    }
}

/// Traffic between kinds, a source at a time.
#[derive(Debug)]
pub struct KindRows<'m, 's> {
    map: &'m Map<'s>,
    matrices: [Matrix<'m, 's>; 2],
    row: Vec<PairTraffic>,
    /// Source of the current row.
    about: Option<u32>,
}

// === impl KindRows ===

impl<'m, 's> KindRows<'m, 's> {
    /// Creates the rows of a map.
    pub fn new(map: &'m Map<'s>, cells: &Cells) -> Self {
        let matrices = [0, 1].map(|family| Matrix::new(&map.reach[family], cells));
        KindRows { map, matrices, row: Vec::new(), about: None }
    }

    /// Returns the traffic of a kind to each kind, without exemptions of one node. Cheapest for sources in order of their
    /// classes ([`Matrix`]).
    pub fn from(&mut self, source: u32, cells: &mut Cells) -> &[PairTraffic] {
        if self.about != Some(source) {
            self.row = self.compute(source, cells);
            self.about = Some(source);
        }
        &self.row
    }

    fn compute(&mut self, source: u32, cells: &mut Cells) -> Vec<PairTraffic> {
        let (kinds, reach) = (&self.map.kinds, &self.map.reach);
        let one_by_one = |to: usize, cells: &mut Cells| {
            kinds.between(source, u32::try_from(to).unwrap_or(u32::MAX), reach, cells)
        };
        let [from] = &kinds.profiles[source as usize][..] else {
            return (0..kinds.len()).map(|to| one_by_one(to, cells)).collect();
        };
        let [four, six] = &mut self.matrices;
        let rows = [
            from.classes[0].map(|class| four.from(class, cells)),
            from.classes[1].map(|class| six.from(class, cells)),
        ];
        let mut entries = Vec::with_capacity(kinds.len());
        for (at, to) in kinds.profiles.iter().enumerate() {
            let [to] = &to[..] else {
                entries.push(one_by_one(at, cells));
                continue;
            };
            let over = |family: usize| -> Option<TrafficId> {
                Some(allowed(rows[family]?[to.classes[family]? as usize], cells))
            };
            entries.push(preferred(from, to, over).unwrap_or(PairTraffic::NOTHING));
        }
        entries
    }
}

/// Returns the distinct pairs of classes of some pods and others.
pub(crate) fn pairs(sources: &[PodProfile], destinations: &[PodProfile]) -> Vec<ClassPair> {
    let mut pairs = Vec::new();
    for from in sources {
        for to in destinations {
            let mut preferred = true;
            for family in in_order(from, to) {
                let classes = (from.classes[family as usize], to.classes[family as usize]);
                if let (Some(source), Some(destination)) = classes {
                    pairs.push(ClassPair { family, preferred, source, destination });
                    preferred = false;
                }
            }
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// Returns the traffic between pods of these profiles. `None` where none of them have a family in common.
pub(crate) fn between(
    sources: &[PodProfile],
    destinations: &[PodProfile],
    reach: &[Reach<'_>; 2],
    cells: &mut Cells,
) -> Option<PairTraffic> {
    let mut entry: Option<PairTraffic> = None;
    for (from, to) in sources.iter().flat_map(|from| destinations.iter().map(move |to| (from, to))) {
        if let Some(own) = profiles(from, to, reach, cells) {
            entry = Some(entry.map_or(own, |entry| entry.or(own, cells)));
        }
    }
    entry
}

/// Returns whether both sides of two pairs of profiles have the same cells, one by one: then [`between`] returns the same for
/// them, and need not be computed. `false` is no proof of a difference. The maps share their cells.
pub(crate) fn is_same_by_sides(
    [one_from, one_to]: [&[PodProfile]; 2],
    [other_from, other_to]: [&[PodProfile]; 2],
    [one_reach, other_reach]: [&[Reach<'_>; 2]; 2],
) -> bool {
    let sides = |from: &PodProfile, to: &PodProfile, reach: &[Reach<'_>; 2]| {
        let cells = [0, 1].map(|family| {
            let (from, to) = (from.classes[family]?, to.classes[family]?);
            let reach = &reach[family];
            Some((reach.side(Direction::Egress, from, to), reach.side(Direction::Ingress, to, from)))
        });
        let mut order = in_order(from, to);
        (cells, [order.next(), order.next()])
    };
    if (one_from.len(), one_to.len()) != (other_from.len(), other_to.len()) {
        return false;
    }
    one_from.iter().zip(other_from).all(|(one, other)| {
        let mut ends = one_to.iter().zip(other_to);
        ends.all(|(one_to, other_to)| sides(one, one_to, one_reach) == sides(other, other_to, other_reach))
    })
}

/// Returns the traffic of one profile to another. `None` where they have no family in common.
fn profiles(
    from: &PodProfile,
    to: &PodProfile,
    reach: &[Reach<'_>; 2],
    cells: &mut Cells,
) -> Option<PairTraffic> {
    let over = |family: usize| -> Option<TrafficId> {
        let (from, to) = (from.classes[family]?, to.classes[family]?);
        let egress = reach[family].side(Direction::Egress, from, to);
        let ingress = reach[family].side(Direction::Ingress, to, from);
        let cell = cells.both(egress, ingress);
        Some(allowed(cell, cells))
    };
    preferred(from, to, over)
}

/// Returns the traffic of two profiles over the families they have in common, the preferred one first.
fn preferred(
    from: &PodProfile,
    to: &PodProfile,
    mut over: impl FnMut(usize) -> Option<TrafficId>,
) -> Option<PairTraffic> {
    let mut found = in_order(from, to).filter_map(|family| over(family as usize));
    let preferred = found.next()?;
    Some(PairTraffic::of([preferred, found.next().unwrap_or(preferred)], true))
}

/// Returns the families that two profiles could connect over, the preferred one first.
fn in_order(from: &PodProfile, to: &PodProfile) -> impl Iterator<Item = Family> + use<> {
    let prefers_ipv6 = if from.unaddressed { to.prefers_ipv6 } else { from.prefers_ipv6 };
    let order = if prefers_ipv6 { [Family::V6, Family::V4] } else { [Family::V4, Family::V6] };
    // Without any address the families do not differ: one of them counts.
    let count = if from.unaddressed && to.unaddressed { 1 } else { 2 };
    order.into_iter().take(count)
}
