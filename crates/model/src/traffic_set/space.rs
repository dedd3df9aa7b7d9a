//! The axis that sets of traffic lie on.
//!
//! ```text
//!   layer 0: no source port named          layer 1: source ports 0–1023        …
//!   ├ tcp ┼ udp ┼ sctp ┼ icmp ┼ igmp ┤├ tcp ┼ udp ┼ sctp ┼ icmp ┼ igmp ┤
//!   └ 65,536 places each: a port, or type and code
//! ```

use super::{PROTOCOLS, Point, Region, TrafficSet};
use crate::traffic::{PortRange, Protocol, Traffic};

/// Offsets for each protocol of a layer.
const WIDTH: u32 = 1 << 16;
/// Offsets for each layer.
const LAYER: u32 = WIDTH * 5;

/// The layout of the axis: which source ports rules distinguish.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrafficSpace {
    /// The first source port of each interval, sorted, the first of them 0; empty when no rule names source ports.
    sources: Vec<u16>,
}

// === impl TrafficSpace ===

impl TrafficSpace {
    /// Returns the space in which each of these source ports begins an interval.
    pub fn new(boundaries: impl IntoIterator<Item = u16>) -> Self {
        let mut sources: Vec<u16> = boundaries.into_iter().collect();
        if !sources.is_empty() {
            sources.push(0);
        }
        sources.sort_unstable();
        sources.dedup();
        TrafficSpace { sources }
    }

    /// Returns all traffic.
    pub fn all(&self) -> TrafficSet {
        TrafficSet([(0, self.layers().saturating_mul(LAYER).saturating_sub(1))].into())
    }

    /// Returns all traffic of a protocol.
    pub fn protocol(&self, protocol: Protocol) -> TrafficSet {
        self.region(Region { protocol, first: 0, last: u16::MAX, sources: PortRange::ALL })
    }

    /// Returns the traffic of a region.
    pub fn region(&self, region: Region) -> TrafficSet {
        let mut intervals = Vec::new();
        self.add(region, &mut intervals);
        TrafficSet::from_intervals(intervals)
    }

    /// Appends the intervals of a region.
    pub fn add(&self, region: Region, intervals: &mut Vec<(u32, u32)>) {
        let Region { protocol, first, last, sources } = region;
        // No connection goes to port 0: it goes with port 1, so that sets which differ in nothing else are equal.
        let first = if protocol.has_ports() && first == 1 { 0 } else { first };
        let at = |layer: u32| {
            let base = layer * LAYER + offset(protocol);
            (base + u32::from(first), base + u32::from(last))
        };
        let every = sources == PortRange::ALL || !protocol.has_ports();
        let ephemeral = PortRange::EPHEMERAL;
        if every || (sources.contains(ephemeral.first) && sources.contains(ephemeral.last)) {
            intervals.push(at(0));
        }
        for (layer, first) in (1..).zip(&self.sources) {
            if every || sources.contains(*first) {
                intervals.push(at(layer));
            }
        }
    }

    /// Returns the offset of one connection's traffic.
    pub fn offset(&self, traffic: Traffic, is_ipv6: bool) -> u32 {
        let layer = match traffic.source_port {
            None => 0,
            Some(_) if self.sources.is_empty() => 0,
            Some(port) => u32::try_from(self.sources.partition_point(|first| *first <= port)).unwrap_or(0),
        };
        layer * LAYER + offset(traffic.protocol) + u32::from(Point::new(traffic, is_ipv6).place)
    }

    /// Returns a connection at an offset. Some offsets have none that hosts make (port 0, IGMP behind its last type).
    pub fn traffic(&self, offset: u32) -> Traffic {
        let (layer, rest) = (offset / LAYER, offset % LAYER);
        let protocol = PROTOCOLS[usize::try_from(rest / WIDTH).unwrap_or(0)];
        let place = u16::try_from(rest % WIDTH).unwrap_or(0);
        let source = layer.checked_sub(1).and_then(|at| self.sources.get(usize::try_from(at).ok()?)).copied();
        Point::traffic(protocol, place, source)
    }

    /// Returns the places of one protocol in a layer, first and last of each range.
    pub fn places(set: &TrafficSet, layer: u32, protocol: Protocol) -> Vec<(u16, u16)> {
        let base = layer * LAYER + offset(protocol);
        let end = base + WIDTH - 1;
        let start = set.intervals().partition_point(|(_, last)| *last < base);
        let inside = set.intervals()[start..].iter().take_while(|(first, _)| *first <= end);
        let clip = |offset: u32| u16::try_from(offset.clamp(base, end) - base).unwrap_or(u16::MAX);
        inside.map(|(first, last)| (clip(*first), clip(*last))).collect()
    }

    /// Returns the source ports of a layer; `None` for layer 0, whose connections name none.
    pub fn source_ports(&self, layer: u32) -> Option<PortRange> {
        let at = usize::try_from(layer.checked_sub(1)?).ok()?;
        let first = *self.sources.get(at)?;
        let last = self.sources.get(at + 1).map_or(u16::MAX, |next| next - 1);
        Some(PortRange { first, last })
    }

    /// Returns the number of layers.
    pub fn layers(&self) -> u32 {
        u32::try_from(self.sources.len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// Returns a connection of a set, a well-known one if it has any.
    pub fn sample(&self, set: &TrafficSet) -> Option<Traffic> {
        let known = [(Protocol::Tcp, 80), (Protocol::Tcp, 443), (Protocol::Udp, 53)];
        let known = known.map(|(protocol, port)| Traffic::new(protocol, port));
        let here = |traffic: &Traffic| set.contains(self.offset(*traffic, false));
        known.into_iter().find(here).or_else(|| {
            let offsets = set.intervals().iter().flat_map(|(first, last)| [*first, (*first + 1).min(*last)]);
            offsets.map(|offset| (offset, self.traffic(offset))).find_map(|(offset, traffic)| {
                let exists = self.offset(traffic, false) == offset;
                (exists && !(traffic.protocol.has_ports() && traffic.port == 0)).then_some(traffic)
            })
        })
    }
}

/// Offset of a protocol in its layer.
fn offset(protocol: Protocol) -> u32 {
    WIDTH
        * match protocol {
            Protocol::Tcp => 0,
            Protocol::Udp => 1,
            Protocol::Sctp => 2,
            Protocol::Icmp => 3,
            Protocol::Igmp => 4,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(protocol: Protocol, first: u16, last: u16, sources: PortRange) -> Region {
        Region { protocol, first, last, sources }
    }

    #[test]
    fn a_protocol_is_a_part_of_the_axis() {
        let space = TrafficSpace::new([]);
        let web = space.region(ports(Protocol::Udp, 80, 90, PortRange::ALL));
        let places = |set: &TrafficSet, protocol| TrafficSpace::places(set, 0, protocol);
        assert_eq!(places(&web, Protocol::Udp), [(80, 90)]);
        assert_eq!(places(&web, Protocol::Tcp), []);
        assert_eq!(places(&space.all().difference(&web), Protocol::Udp), [(0, 79), (91, 65535)]);
        assert_eq!(places(&space.all(), Protocol::Igmp), [(0, 65535)]);
    }

    #[test]
    fn source_ports_are_layers() {
        let space = TrafficSpace::new([1024, 2048]);
        let low = space.region(ports(Protocol::Tcp, 53, 53, PortRange { first: 0, last: 1023 }));
        let asked = |port| Traffic { source_port: port, ..Traffic::new(Protocol::Tcp, 53) };
        assert!(low.contains(space.offset(asked(Some(1000)), false)));
        assert!(!low.contains(space.offset(asked(Some(1024)), false)));
        assert!(!low.contains(space.offset(asked(None), false)));
        let any = space.region(ports(Protocol::Tcp, 53, 53, PortRange::ALL));
        for port in [None, Some(0), Some(1500), Some(65535)] {
            assert!(any.contains(space.offset(asked(port), false)));
        }
        assert_eq!(space.traffic(space.offset(asked(Some(1024)), false)), asked(Some(1024)));
    }
}
