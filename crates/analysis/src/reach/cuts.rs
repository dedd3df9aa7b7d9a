//! Cuts: the boundaries of addresses and of source ports in rules.
//!
//! Addresses between two neighbouring boundaries are equivalent, so that an interval is one endpoint. Snapshots that are
//! compared share their cuts: an interval is the same in both.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use palisade_model::address::{Block, Family, next, previous};
use palisade_model::group::GroupName;
use palisade_model::policy::{Peer, Peers, TrafficMatch, TrafficMatches};
use palisade_model::ranges::Ranges;
use palisade_model::resolve::GroupMember;
use palisade_model::snapshot::Snapshot;

use super::groups::FastMap;
use palisade_model::traffic_set::TrafficSpace;

/// Maximum number of intervals of source ports that are distinguished.
const MAX_SOURCES: usize = 1024;
/// Maximum number of traffic intervals in all intervals of source ports together, 8 bytes each; with more, source ports are
/// not distinguished.
const MAX_INTERVALS: usize = 8_000_000;

/// Boundaries of one or more snapshots.
#[derive(Debug, Clone)]
pub struct Cuts {
    /// First address of each interval, of IPv4 and of IPv6.
    starts: [Vec<IpAddr>; 2],
    /// Multicast groups of rules.
    groups: BTreeSet<IpAddr>,
    space: TrafficSpace,
    /// Whether source ports are not distinguished, because there are too many boundaries.
    pub coarse: bool,
}

// === impl Cuts ===

impl Cuts {
    /// Collects the boundaries of all rules of these snapshots.
    pub fn of<'s>(snapshots: impl IntoIterator<Item = &'s Snapshot>) -> Self {
        let mut found = CutCollector::default();
        for snapshot in snapshots {
            found.snapshot(snapshot);
        }
        if !found.groups.is_empty() {
            found.range(Ipv4Addr::new(224, 0, 0, 0).into(), Ipv4Addr::new(239, 255, 255, 255).into());
            let six = Ipv6Addr::from_bits(0xff << 120);
            found.range(six.into(), Ipv6Addr::from_bits(u128::MAX).into());
            for group in found.groups.clone() {
                found.range(group, group);
            }
        }
        let pieces = found.sources.len().saturating_mul(found.matches);
        let coarse = found.sources.len() > MAX_SOURCES || pieces > MAX_INTERVALS;
        let space = if coarse { TrafficSpace::new([]) } else { TrafficSpace::new(found.sources) };
        let (four, six) = found.starts.into_iter().partition(IpAddr::is_ipv4);
        Cuts { starts: [four, six], groups: found.groups, space, coarse }
    }

    /// Returns the layout of traffic.
    pub fn space(&self) -> &TrafficSpace {
        &self.space
    }

    /// Returns the number of address intervals.
    pub fn len(&self, family: Family) -> usize {
        self.starts[family as usize].len()
    }

    /// Returns the first and the last address of an interval.
    pub fn interval(&self, family: Family, at: usize) -> (IpAddr, IpAddr) {
        let starts = &self.starts[family as usize];
        let last = starts.get(at + 1).and_then(|start| previous(*start));
        (starts[at], last.unwrap_or(last_address(family)))
    }

    /// Returns the index of the interval that holds an address.
    pub fn interval_of(&self, address: IpAddr) -> usize {
        let starts = &self.starts[Family::of(address) as usize];
        starts.partition_point(|start| *start <= address).saturating_sub(1)
    }

    /// Returns the intervals that ranges of a family consist of. Their ends must be boundaries.
    pub fn intervals(&self, family: Family, ranges: &Ranges) -> Vec<(u32, u32)> {
        let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let own = ranges.iter().filter(|(first, _)| Family::of(*first) == family);
        own.map(|(first, last)| (number(self.interval_of(first)), number(self.interval_of(last)))).collect()
    }

    /// Returns the multicast groups of rules.
    pub fn groups(&self) -> &BTreeSet<IpAddr> {
        &self.groups
    }
}

fn last_address(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::from_bits(u32::MAX).into(),
        Family::V6 => Ipv6Addr::from_bits(u128::MAX).into(),
    }
}

/// Boundaries collected so far.
#[derive(Debug)]
struct CutCollector {
    starts: BTreeSet<IpAddr>,
    sources: BTreeSet<u16>,
    groups: BTreeSet<IpAddr>,
    /// Number of traffic entries of all rules.
    matches: usize,
}

impl Default for CutCollector {
    fn default() -> Self {
        let starts = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()].into();
        CutCollector { starts, sources: BTreeSet::new(), groups: BTreeSet::new(), matches: 0 }
    }
}

impl CutCollector {
    fn snapshot(&mut self, snapshot: &Snapshot) {
        let mut names = false;
        let (mut seen, mut groups) = (FastMap::default(), FastMap::default());
        for rule in snapshot.policies().iter().flat_map(|policy| &policy.rules) {
            if let Peers::Of(peers) = &rule.peers {
                for peer in peers {
                    names |= matches!(peer, Peer::Names(_));
                    self.peer(snapshot, peer, &mut seen, &mut groups);
                }
            }
            if let TrafficMatches::Of(matches) = &rule.traffic {
                self.matches += matches.len();
                matches.iter().for_each(|one| self.traffic(one));
            }
        }
        if names {
            snapshot.named_addresses().for_each(|address| self.range(address, address));
        }
    }

    /// Adds the boundaries of a peer. Many rules have the same blocks and groups: each counts once.
    fn peer<'s>(
        &mut self,
        snapshot: &Snapshot,
        peer: &'s Peer,
        seen: &mut FastMap<&'s Block, ()>,
        groups: &mut FastMap<&'s GroupName, ()>,
    ) {
        match peer {
            Peer::Addresses(block) if seen.insert(block, ()).is_some() => {}
            Peer::Addresses(block) => self.ranges(&Ranges::of([block])),
            Peer::Group(group) if groups.insert(group, ()).is_some() => {}
            Peer::Group(group) => {
                for member in snapshot.group(group).into_iter().flatten() {
                    if let GroupMember::Addresses(blocks) = member {
                        self.ranges(&Ranges::of(blocks));
                    }
                }
            }
            _ => {}
        }
    }

    fn traffic(&mut self, one: &TrafficMatch) {
        match one {
            // Destination ports need no boundary: each has an offset of its own.
            TrafficMatch::From(range, _) => {
                self.sources.insert(range.first);
                self.sources.extend(range.last.checked_add(1));
            }
            TrafficMatch::Igmp(_, group) => self.groups.extend(*group),
            TrafficMatch::Ports(..)
            | TrafficMatch::Named(..)
            | TrafficMatch::Icmp(_)
            | TrafficMatch::Unknown(_) => {}
        }
    }

    fn ranges(&mut self, ranges: &Ranges) {
        ranges.iter().for_each(|(first, last)| self.range(first, last));
    }

    fn range(&mut self, first: IpAddr, last: IpAddr) {
        self.starts.insert(first);
        self.starts.extend(next(last));
    }
}
