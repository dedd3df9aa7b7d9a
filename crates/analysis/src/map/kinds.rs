//! Workloads whose pods are of the same classes, and what one kind may send another.

use std::collections::HashMap;
use std::net::IpAddr;

use palisade_model::address::Family;
use palisade_model::flow::Who;
use palisade_model::policy::Direction;
use palisade_model::snapshot::Snapshot;

use super::near::Hosts;
use super::workloads::Workload;
use super::{Map, allowed};
use crate::reach::cells::Cells;
use crate::reach::traffics::{TrafficId, Traffics};
use crate::reach::{Matrix, Reach};

/// What some pods may send others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    /// What is let through between some pods of the two, over the family that they prefer.
    pub allowed: TrafficId,
    /// The same over the other family, where they have both and it is something else.
    pub other: Option<TrafficId>,
    /// Whether all pairs of pods are alike.
    pub uniform: bool,
}

/// What a pod is to a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Profile {
    /// Its class in each family.
    pub(crate) classes: [Option<u32>; 2],
    /// Whether it has no address yet, so that it goes along with the other end.
    pub(crate) unaddressed: bool,
    /// Whether its first address is of IPv6.
    pub(crate) six_first: bool,
}

/// Two sorts of pods that can meet over a family of addresses, by their classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// Which family.
    pub family: Family,
    /// Whether it is the one that they prefer.
    pub preferred: bool,
    /// Who opens connections.
    pub source: u32,
    /// Who receives them.
    pub destination: u32,
}

/// The kinds of all workloads.
#[derive(Debug)]
pub struct Kinds {
    /// For each workload its kind.
    of: Vec<u32>,
    /// The different pods of each kind.
    profiles: Vec<Vec<Profile>>,
    hosts: Hosts,
}

// === impl Entry ===

impl Entry {
    /// Everything.
    pub const ALL: Entry = Entry { allowed: Traffics::ALL, other: None, uniform: true };
    /// Nothing.
    pub const NOTHING: Entry = Entry { allowed: Traffics::EMPTY, other: None, uniform: true };

    /// Whether nothing is let through, over either family.
    pub fn is_nothing(&self) -> bool {
        self.allowed == Traffics::EMPTY && self.other.is_none_or(|other| other == Traffics::EMPTY)
    }

    /// Over a family.
    fn over_both(&self) -> [TrafficId; 2] {
        [self.allowed, self.other.unwrap_or(self.allowed)]
    }

    fn of(over: [TrafficId; 2], uniform: bool) -> Self {
        Entry { allowed: over[0], other: (over[1] != over[0]).then_some(over[1]), uniform }
    }

    /// What either of two lets through.
    pub fn or(self, another: Entry, cells: &mut Cells) -> Entry {
        let (one, two) = (self.over_both(), another.over_both());
        let over = [0, 1].map(|at| cells.traffics.union(one[at], two[at]));
        Entry::of(over, self.uniform && another.uniform && one == two)
    }
}

// === impl Profile ===

impl Profile {
    /// Of a pod or a node: more than one where it has several addresses of a family.
    pub(crate) fn all(
        snapshot: &Snapshot,
        who: Who,
        reach: &[Reach<'_>; 2],
    ) -> impl Iterator<Item = Profile> + use<> {
        let addresses: &[IpAddr] = match who {
            Who::Pod(pod) => &snapshot.pods()[pod].addresses,
            Who::Node(node) => &snapshot.nodes()[node].addresses,
            Who::Outside => &[],
        };
        let first = Profile {
            classes: [reach[0].class(who), reach[1].class(who)],
            unaddressed: addresses.is_empty(),
            six_first: addresses.first().is_some_and(IpAddr::is_ipv6),
        };
        let further: Vec<Profile> = match addresses.len() {
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

// === impl Kinds ===

impl Kinds {
    /// Of these workloads.
    pub fn of(snapshot: &Snapshot, workloads: &[Workload], reach: &[Reach<'_>; 2]) -> Self {
        let mut known: HashMap<Vec<Profile>, u32> = HashMap::new();
        let hosts = Hosts::of(snapshot, workloads);
        let mut kinds = Kinds { of: Vec::new(), profiles: Vec::new(), hosts };
        for workload in workloads {
            let of = |pod: &usize| Profile::all(snapshot, Who::Pod(*pod), reach);
            let mut profiles: Vec<Profile> = workload.pods.iter().flat_map(of).collect();
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

    /// How many kinds there are.
    pub fn len(&self) -> usize {
        self.profiles.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.profiles.is_empty()
    }

    /// A workload's kind.
    pub fn kind(&self, workload: usize) -> u32 {
        self.of[workload]
    }

    /// Whether pods of a workload differ.
    pub fn is_mixed(&self, workload: usize) -> bool {
        self.profiles[self.of[workload] as usize].len() > 1
    }

    /// Whether a workload has pods in their nodes' network, so that it matters where the other end is.
    pub fn is_host(&self, workload: usize) -> bool {
        self.hosts.is_host(workload)
    }

    /// Where pods are.
    pub(super) fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// The classes of a workload's pods in a family.
    pub fn classes(&self, workload: usize, family: Family) -> Vec<u32> {
        let profiles = &self.profiles[self.of[workload] as usize];
        let mut classes: Vec<u32> = profiles.iter().filter_map(|p| p.classes[family as usize]).collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    /// The different pods of a workload.
    pub(crate) fn profiles(&self, workload: usize) -> &[Profile] {
        &self.profiles[self.of[workload] as usize]
    }

    /// What pods of one workload may send pods of another, wherever they run.
    pub fn entry(
        &self,
        source: usize,
        destination: usize,
        reach: &[Reach<'_>; 2],
        cells: &mut Cells,
    ) -> Entry {
        self.between(self.of[source], self.of[destination], reach, cells)
    }

    /// The same for two kinds.
    pub fn between(&self, source: u32, destination: u32, reach: &[Reach<'_>; 2], cells: &mut Cells) -> Entry {
        let (from, to) = (&self.profiles[source as usize], &self.profiles[destination as usize]);
        between(from, to, reach, cells).unwrap_or(Entry::NOTHING)
    }
}

/// What kinds may send each other, a row at a time.
#[derive(Debug)]
pub struct KindRows<'m, 's> {
    map: &'m Map<'s>,
    matrices: [Matrix<'m, 's>; 2],
    row: Vec<Entry>,
    /// The kind that the row is about.
    about: Option<u32>,
}

// === impl KindRows ===

impl<'m, 's> KindRows<'m, 's> {
    /// Of a map.
    pub fn new(map: &'m Map<'s>, cells: &Cells) -> Self {
        let matrices = [0, 1].map(|family| Matrix::new(&map.reach[family], cells));
        KindRows { map, matrices, row: Vec::new(), about: None }
    }

    /// What a kind may send each kind, wherever pods run. Whoever asks for one after the other in order of their
    /// classes asks for little.
    pub fn from(&mut self, source: u32, cells: &mut Cells) -> &[Entry] {
        if self.about != Some(source) {
            self.row = self.work_out(source, cells);
            self.about = Some(source);
        }
        &self.row
    }

    fn work_out(&mut self, source: u32, cells: &mut Cells) -> Vec<Entry> {
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
            entries.push(preferred(from, to, over).unwrap_or(Entry::NOTHING));
        }
        entries
    }
}

/// The pairs of classes that some pods and others come to, each once.
pub(crate) fn pairs(sources: &[Profile], destinations: &[Profile]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for from in sources {
        for to in destinations {
            let mut preferred = true;
            for family in in_order(from, to) {
                let classes = (from.classes[family as usize], to.classes[family as usize]);
                if let (Some(source), Some(destination)) = classes {
                    pairs.push(Pair { family, preferred, source, destination });
                    preferred = false;
                }
            }
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// What some sorts of pods may send others. `None` where none of them have a family in common.
pub(crate) fn between(
    sources: &[Profile],
    destinations: &[Profile],
    reach: &[Reach<'_>; 2],
    cells: &mut Cells,
) -> Option<Entry> {
    let mut entry: Option<Entry> = None;
    for (from, to) in sources.iter().flat_map(|from| destinations.iter().map(move |to| (from, to))) {
        if let Some(own) = profiles(from, to, reach, cells) {
            entry = Some(entry.map_or(own, |entry| entry.or(own, cells)));
        }
    }
    entry
}

/// Returns whether both ends of two pairs of sorts of pods get the same cells, one by one: then what [`between`] makes of them
/// is the same, and need not be worked out. False says nothing. The maps share their cells.
pub(crate) fn is_same_by_sides(
    [one_from, one_to]: [&[Profile]; 2],
    [other_from, other_to]: [&[Profile]; 2],
    [one_reach, other_reach]: [&[Reach<'_>; 2]; 2],
) -> bool {
    let sides = |from: &Profile, to: &Profile, reach: &[Reach<'_>; 2]| {
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

/// What one sort of pod may send another. `None` where they have no family in common.
fn profiles(from: &Profile, to: &Profile, reach: &[Reach<'_>; 2], cells: &mut Cells) -> Option<Entry> {
    let over = |family: usize| -> Option<TrafficId> {
        let (from, to) = (from.classes[family]?, to.classes[family]?);
        let egress = reach[family].side(Direction::Egress, from, to);
        let ingress = reach[family].side(Direction::Ingress, to, from);
        let cell = cells.both(egress, ingress);
        Some(allowed(cell, cells))
    };
    preferred(from, to, over)
}

/// What two may do over the families that they have in common, the one that they prefer first.
fn preferred(
    from: &Profile,
    to: &Profile,
    mut over: impl FnMut(usize) -> Option<TrafficId>,
) -> Option<Entry> {
    let mut found = in_order(from, to).filter_map(|family| over(family as usize));
    let preferred = found.next()?;
    Some(Entry::of([preferred, found.next().unwrap_or(preferred)], true))
}

/// The families that two could meet over, the one that they prefer first.
fn in_order(from: &Profile, to: &Profile) -> impl Iterator<Item = Family> + use<> {
    let six_first = if from.unaddressed { to.six_first } else { from.six_first };
    let order = if six_first { [Family::V6, Family::V4] } else { [Family::V4, Family::V6] };
    // Two without any address: there is no family to be in, and no address that a rule could be about.
    let count = if from.unaddressed && to.unaddressed { 1 } else { 2 };
    order.into_iter().take(count)
}
