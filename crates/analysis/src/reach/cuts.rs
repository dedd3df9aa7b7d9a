//! Where policies cut what lies outside: the boundaries of addresses and of source ports.
//!
//! Between two neighbouring boundaries no rule tells one address from another, so an interval of addresses is one
//! endpoint. Two sets of policies that are compared share their boundaries: an interval is the same in both.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use palisade_model::address::{Block, Family, next, previous};
use palisade_model::group::GroupName;
use palisade_model::policy::{Peer, Peers, TrafficMatch, TrafficMatches};
use palisade_model::ranges::Ranges;
use palisade_model::resolve::GroupMember;
use palisade_model::snapshot::Snapshot;

use super::groups::Table;
use palisade_model::traffic_set::TrafficSpace;

/// More intervals of source ports than this are not told apart.
const MOST_SOURCES: usize = 1024;
/// Nor are they where all that rules match would be more pieces than this, each in every interval: 8 bytes a piece.
const MOST_PIECES: usize = 8_000_000;

/// The boundaries of one or more snapshots.
#[derive(Debug, Clone)]
pub struct Cuts {
    /// The first address of each interval, of IPv4 and of IPv6.
    starts: [Vec<IpAddr>; 2],
    /// The multicast groups that rules name.
    groups: BTreeSet<IpAddr>,
    space: TrafficSpace,
    /// Whether there are more boundaries of source ports than are told apart.
    pub coarse: bool,
}

// === impl Cuts ===

impl Cuts {
    /// Of everything that these say.
    pub fn of<'s>(snapshots: impl IntoIterator<Item = &'s Snapshot>) -> Self {
        let mut found = Found::default();
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
        let coarse = found.sources.len() > MOST_SOURCES || pieces > MOST_PIECES;
        let space = if coarse { TrafficSpace::new([]) } else { TrafficSpace::new(found.sources) };
        let (four, six) = found.starts.into_iter().partition(IpAddr::is_ipv4);
        Cuts { starts: [four, six], groups: found.groups, space, coarse }
    }

    /// How traffic is laid out.
    pub fn space(&self) -> &TrafficSpace {
        &self.space
    }

    /// How many intervals of addresses there are.
    pub fn len(&self, family: Family) -> usize {
        self.starts[family as usize].len()
    }

    /// First and last address of an interval.
    pub fn interval(&self, family: Family, at: usize) -> (IpAddr, IpAddr) {
        let starts = &self.starts[family as usize];
        let last = starts.get(at + 1).and_then(|start| previous(*start));
        (starts[at], last.unwrap_or(last_address(family)))
    }

    /// The interval that an address is in.
    pub fn interval_of(&self, address: IpAddr) -> usize {
        let starts = &self.starts[Family::of(address) as usize];
        starts.partition_point(|start| *start <= address).saturating_sub(1)
    }

    /// The intervals that ranges of a family come to. Their ends are boundaries.
    pub fn intervals(&self, family: Family, ranges: &Ranges) -> Vec<(u32, u32)> {
        let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let own = ranges.iter().filter(|(first, _)| Family::of(*first) == family);
        own.map(|(first, last)| (number(self.interval_of(first)), number(self.interval_of(last)))).collect()
    }

    /// The multicast groups that rules name.
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

/// What was found so far.
#[derive(Debug)]
struct Found {
    starts: BTreeSet<IpAddr>,
    sources: BTreeSet<u16>,
    groups: BTreeSet<IpAddr>,
    /// How many protocols and ports rules list.
    matches: usize,
}

impl Default for Found {
    fn default() -> Self {
        let starts = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()].into();
        Found { starts, sources: BTreeSet::new(), groups: BTreeSet::new(), matches: 0 }
    }
}

impl Found {
    fn snapshot(&mut self, snapshot: &Snapshot) {
        let mut names = false;
        let (mut seen, mut groups) = (Table::default(), Table::default());
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

    /// Many rules name the same blocks and groups: each counts once.
    fn peer<'s>(
        &mut self,
        snapshot: &Snapshot,
        peer: &'s Peer,
        seen: &mut Table<&'s Block, ()>,
        groups: &mut Table<&'s GroupName, ()>,
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
            // Which destination ports it is about cuts nothing: the line has a place for each.
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
