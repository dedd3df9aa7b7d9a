//! What a traffic match of a rule covers, as regions: a protocol, a range of places in it, and a range of source ports.
//!
//! The place of a connection is its destination port; for ICMP it is type and code (`type << 8 | code`), for IGMP the type.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use smol_str::SmolStr;

use crate::policy::{IcmpMatch, PortMatch, TrafficMatch, TrafficMatches};
use crate::traffic::{PortRange, Protocol, Traffic};

/// Traffic of one protocol: the places from `first` to `last`, from any of the source ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Region {
    /// The protocol.
    pub protocol: Protocol,
    /// The first place.
    pub first: u16,
    /// The last place.
    pub last: u16,
    /// Source ports; all of them for protocols that have none.
    pub sources: PortRange,
}

/// A single connection among the regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// The protocol.
    pub protocol: Protocol,
    /// Its place.
    pub place: u16,
    /// Source ports that a region must cover. A connection that names none may come from any port that hosts open connections
    /// from, so that only a rule for all of these matches it.
    pub sources: PortRange,
}

/// The receiver of a connection, as far as rules ask about it.
pub trait Receiver {
    /// Returns the number of its port of this name and protocol. Only pods of the pod network have named ports.
    fn port_named(&self, name: &str, protocol: Protocol) -> Option<u16>;

    /// Returns where the connection is addressed to.
    fn addressing(&self) -> Addressing;
}

/// Where a connection is addressed to, as far as rules about IGMP ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Addressing {
    /// A host: an IGMP message to it may be about any group.
    Host,
    /// A multicast group.
    Group(IpAddr),
    /// A multicast group that no rule names.
    OtherGroup,
}

/// A receiver of which nothing is known: a host without named ports.
#[derive(Debug, Clone, Copy)]
pub struct Unresolved;

/// Place of an IGMP question that names no type: behind all of them.
const IGMP_ANY_TYPE: u16 = 256;

// === impl TrafficMatches ===

impl TrafficMatches {
    /// Returns whether a connection to this receiver matches.
    #[inline]
    pub fn covers(&self, point: Point, receiver: &impl Receiver) -> bool {
        match self {
            TrafficMatches::Any => true,
            TrafficMatches::Of(all) => all.iter().any(|one| one.covers(point, receiver)),
        }
    }
}

// === impl TrafficMatch ===

impl TrafficMatch {
    /// Returns whether a connection to this receiver matches.
    pub fn covers(&self, point: Point, receiver: &impl Receiver) -> bool {
        match self {
            // Most rules name ports.
            TrafficMatch::Ports(protocol, range) => {
                return *protocol == point.protocol && protocol.has_ports() && range.contains(point.place);
            }
            // A code without a type is 256 regions, which need not be listed for one connection.
            TrafficMatch::Icmp(wanted) => {
                let [kind, code] = point.place.to_be_bytes();
                return point.protocol == Protocol::Icmp && wanted.contains(kind, code);
            }
            _ => {}
        }
        let mut covers = false;
        self.regions(receiver, |region| covers |= region.contains(point));
        covers
    }

    /// Emits what the match covers for connections to this receiver. Regions may overlap.
    pub fn regions(&self, receiver: &impl Receiver, mut emit: impl FnMut(Region)) {
        let every = PortRange::ALL;
        match self {
            TrafficMatch::Ports(protocol, range) => ports(*protocol, *range, every, &mut emit),
            TrafficMatch::Named(protocol, name) => named(*protocol, name, every, receiver, &mut emit),
            TrafficMatch::From(sources, port) => match &**port {
                PortMatch::Numbers(protocol, range) => ports(*protocol, *range, *sources, &mut emit),
                PortMatch::Named(protocol, name) => named(*protocol, name, *sources, receiver, &mut emit),
            },
            TrafficMatch::Icmp(wanted) => icmp(*wanted, &mut emit),
            TrafficMatch::Igmp(kind, group) => {
                let addressed = group.is_none_or(|group| match receiver.addressing() {
                    Addressing::Host => true,
                    Addressing::Group(own) => own == group,
                    Addressing::OtherGroup => false,
                });
                if addressed {
                    let (first, last) = kind.map_or((0, u16::MAX), |kind| (kind.into(), kind.into()));
                    emit(Region { protocol: Protocol::Igmp, first, last, sources: every });
                }
            }
            TrafficMatch::Unknown(_) => {}
        }
    }

    /// Returns the multicast group that the match names.
    pub fn group(&self) -> Option<IpAddr> {
        match self {
            TrafficMatch::Igmp(_, group) => *group,
            TrafficMatch::Ports(..)
            | TrafficMatch::Named(..)
            | TrafficMatch::From(..)
            | TrafficMatch::Icmp(_)
            | TrafficMatch::Unknown(_) => None,
        }
    }

    /// Returns whether what the match covers depends on the receiver.
    pub fn depends_on_receiver(&self) -> bool {
        match self {
            TrafficMatch::Named(..) => true,
            TrafficMatch::From(_, port) => matches!(**port, PortMatch::Named(..)),
            TrafficMatch::Igmp(_, group) => group.is_some(),
            TrafficMatch::Ports(..) | TrafficMatch::Icmp(_) | TrafficMatch::Unknown(_) => false,
        }
    }
}

fn ports(protocol: Protocol, range: PortRange, sources: PortRange, emit: &mut impl FnMut(Region)) {
    if protocol.has_ports() {
        emit(Region { protocol, first: range.first, last: range.last, sources });
    }
}

fn named(
    protocol: Option<Protocol>,
    name: &SmolStr,
    sources: PortRange,
    receiver: &impl Receiver,
    emit: &mut impl FnMut(Region),
) {
    for own in [Protocol::Tcp, Protocol::Udp, Protocol::Sctp] {
        if protocol.is_none_or(|wanted| wanted == own)
            && let Some(number) = receiver.port_named(name, own)
        {
            ports(own, PortRange::single(number), sources, emit);
        }
    }
}

/// The messages of a type stand side by side; those of a code are one region for each type.
fn icmp(wanted: IcmpMatch, emit: &mut impl FnMut(Region)) {
    let IcmpMatch { kind, code } = wanted;
    let (first_kind, last_kind) = kind.map_or((0, u8::MAX), |kind| (kind, kind));
    let place = |kind: u8, code: u8| u16::from_be_bytes([kind, code]);
    let mut emit = |first, last| {
        emit(Region { protocol: Protocol::Icmp, first, last, sources: PortRange::ALL });
    };
    match code {
        None => emit(place(first_kind, 0), place(last_kind, u8::MAX)),
        Some(code) => (first_kind..=last_kind).for_each(|kind| emit(place(kind, code), place(kind, code))),
    }
}

// === impl Region ===

impl Region {
    /// Returns the places of a protocol, from any of the source ports.
    pub fn new(protocol: Protocol, places: RangeInclusive<u16>, sources: PortRange) -> Self {
        Region { protocol, first: *places.start(), last: *places.end(), sources }
    }

    /// Returns whether a connection is in the region.
    pub fn contains(self, point: Point) -> bool {
        self.protocol == point.protocol
            && (self.first..=self.last).contains(&point.place)
            && self.sources.contains(point.sources.first)
            && self.sources.contains(point.sources.last)
    }
}

// === impl Point ===

impl Point {
    /// Returns the point of a connection. ICMP without a type is an echo request of the address family, and without a code
    /// code 0.
    pub fn new(traffic: Traffic, is_ipv6: bool) -> Self {
        let place = match traffic.protocol {
            Protocol::Icmp => {
                let echo_request = if is_ipv6 { 128 } else { 8 };
                let (kind, code) = traffic.icmp.unwrap_or((echo_request, None));
                u16::from_be_bytes([kind, code.unwrap_or(0)])
            }
            Protocol::Igmp => traffic.icmp.map_or(IGMP_ANY_TYPE, |(kind, _)| kind.into()),
            Protocol::Tcp | Protocol::Udp | Protocol::Sctp => traffic.port,
        };
        let sources = traffic.source_port.map_or(PortRange::EPHEMERAL, PortRange::single);
        Point { protocol: traffic.protocol, place, sources }
    }

    /// Returns a connection at this place. Port 0 is at one, and is no port that hosts connect to.
    pub(super) fn traffic(protocol: Protocol, place: u16, source_port: Option<u16>) -> Traffic {
        let mut traffic = Traffic::new(protocol, 0);
        let [kind, code] = place.to_be_bytes();
        match protocol {
            Protocol::Icmp => traffic.icmp = Some((kind, Some(code))),
            Protocol::Igmp if place < IGMP_ANY_TYPE => traffic.icmp = Some((code, None)),
            Protocol::Igmp => {}
            Protocol::Tcp | Protocol::Udp | Protocol::Sctp => {
                traffic.port = place;
                traffic.source_port = source_port;
            }
        }
        traffic
    }
}

// === impl Unresolved ===

impl Receiver for Unresolved {
    fn port_named(&self, _: &str, _: Protocol) -> Option<u16> {
        None
    }

    fn addressing(&self) -> Addressing {
        Addressing::Host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Listing regions and asking about one connection are two paths for ICMP.
    #[test]
    fn icmp_regions_cover_what_the_match_covers() {
        for (kind, code) in [(None, None), (Some(8), None), (None, Some(3)), (Some(8), Some(3))] {
            let wanted = TrafficMatch::Icmp(IcmpMatch { kind, code });
            for place in 0..=u16::MAX {
                let point = Point { protocol: Protocol::Icmp, place, sources: PortRange::EPHEMERAL };
                let mut listed = false;
                wanted.regions(&Unresolved, |region| listed |= region.contains(point));
                assert_eq!(wanted.covers(point, &Unresolved), listed);
            }
        }
    }

    #[test]
    fn port_regions_cover_what_the_match_covers() {
        for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Icmp] {
            let wanted = TrafficMatch::Ports(protocol, PortRange { first: 80, last: 90 });
            for (own, place) in
                [(Protocol::Tcp, 79), (Protocol::Tcp, 80), (Protocol::Udp, 90), (Protocol::Icmp, 85)]
            {
                let point = Point { protocol: own, place, sources: PortRange::EPHEMERAL };
                let mut listed = false;
                wanted.regions(&Unresolved, |region| listed |= region.contains(point));
                assert_eq!(wanted.covers(point, &Unresolved), listed, "{wanted} {own}/{place}");
            }
        }
    }

    #[test]
    fn a_connection_without_a_source_port_needs_all_ephemeral_ones() {
        let from = |first, last| {
            let port = PortMatch::Numbers(Protocol::Tcp, PortRange::single(53));
            TrafficMatch::From(PortRange { first, last }, Box::new(port))
        };
        let asked =
            |source_port| Point::new(Traffic { source_port, ..Traffic::new(Protocol::Tcp, 53) }, false);
        assert!(from(32768, 60999).covers(asked(None), &Unresolved));
        assert!(!from(32769, 60999).covers(asked(None), &Unresolved));
        assert!(from(1000, 1000).covers(asked(Some(1000)), &Unresolved));
    }
}
