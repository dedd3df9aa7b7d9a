//! How everything that rules tell apart is laid out on one line.

use std::ops::RangeInclusive;

use palisade_model::traffic::{PortRange, Protocol, Traffic};

use super::{PROTOCOLS, TrafficSet, WIDTH};

/// Where an IGMP question without a type stands.
const IGMP_ANY: u16 = 256;

/// How the line is laid out: which source ports are told apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// The first source port of each interval, sorted, the first of them 0; empty when no rule names source ports.
    sources: Vec<u16>,
}

// === impl Line ===

impl Line {
    /// With these boundaries of source ports: each begins an interval.
    pub fn new(boundaries: impl IntoIterator<Item = u16>) -> Self {
        let mut sources: Vec<u16> = boundaries.into_iter().collect();
        if !sources.is_empty() {
            sources.push(0);
        }
        sources.sort_unstable();
        sources.dedup();
        Line { sources }
    }

    /// The last place of the line.
    fn last(&self) -> u32 {
        let layers = u32::try_from(self.sources.len()).unwrap_or(u32::MAX).saturating_add(1);
        layers.saturating_mul(WIDTH * 5).saturating_sub(1)
    }

    /// Everything.
    pub fn all(&self) -> TrafficSet {
        TrafficSet([(0, self.last())].into())
    }

    /// Everything of a protocol.
    pub fn of(&self, protocol: Protocol) -> TrafficSet {
        self.places(protocol, 0..=u16::MAX, PortRange::ALL)
    }

    /// Destination ports (or the places of another protocol) from any source port that a rule for this range matches:
    /// a question that names none is matched by a rule for all the ports that hosts open connections from.
    pub fn places(&self, protocol: Protocol, places: RangeInclusive<u16>, from: PortRange) -> TrafficSet {
        // Nobody connects to port 0: it goes with port 1, so that sets which differ in nothing else are equal.
        let first = if protocol.has_ports() && *places.start() == 1 { 0 } else { *places.start() };
        let at = |layer: u32| {
            let base = layer * WIDTH * 5 + index(protocol) * WIDTH;
            (base + u32::from(first), base + u32::from(*places.end()))
        };
        let mut pieces = Vec::new();
        let whole = from == PortRange::ALL;
        if whole || (from.contains(PortRange::EPHEMERAL.first) && from.contains(PortRange::EPHEMERAL.last)) {
            pieces.push(at(0));
        }
        if protocol.has_ports() {
            for (layer, first) in (1..).zip(&self.sources) {
                if from.contains(*first) {
                    pieces.push(at(layer));
                }
            }
        } else if whole {
            pieces.extend((1..).zip(&self.sources).map(|(layer, _)| at(layer)));
        }
        TrafficSet::of(pieces)
    }

    /// The place of one connection's traffic.
    pub fn place(&self, traffic: Traffic, six: bool) -> u32 {
        let layer = match traffic.source_port {
            None => 0,
            Some(_) if self.sources.is_empty() => 0,
            Some(port) => u32::try_from(self.sources.partition_point(|first| *first <= port)).unwrap_or(0),
        };
        let ping = if six { 128 } else { 8 };
        let place = match traffic.protocol {
            Protocol::Icmp => {
                let (kind, code) = traffic.icmp.map_or((ping, 0), |(kind, code)| (kind, code.unwrap_or(0)));
                u16::from(kind) << 8 | u16::from(code)
            }
            Protocol::Igmp => traffic.icmp.map_or(IGMP_ANY, |(kind, _)| u16::from(kind)),
            _ => traffic.port,
        };
        layer * WIDTH * 5 + index(traffic.protocol) * WIDTH + u32::from(place)
    }

    /// A connection that stands at a place. Port 0 is no port that anybody connects to: the caller looks for others first.
    pub fn traffic(&self, place: u32) -> Traffic {
        let (layer, rest) = (place / (WIDTH * 5), place % (WIDTH * 5));
        let protocol = PROTOCOLS[usize::try_from(rest / WIDTH).unwrap_or(0)];
        let at = u16::try_from(rest % WIDTH).unwrap_or(0);
        let [high, low] = at.to_be_bytes();
        let mut traffic = Traffic::new(protocol, if protocol.has_ports() { at } else { 0 });
        match protocol {
            Protocol::Icmp => traffic.icmp = Some((high, Some(low))),
            Protocol::Igmp if at < IGMP_ANY => traffic.icmp = Some((low, None)),
            _ => {}
        }
        if layer > 0 && protocol.has_ports() {
            traffic.source_port =
                usize::try_from(layer - 1).ok().and_then(|at| self.sources.get(at)).copied();
        }
        traffic
    }

    /// The source ports of a layer; `None` for the one that names none.
    pub fn source_ports(&self, layer: u32) -> Option<PortRange> {
        let at = usize::try_from(layer.checked_sub(1)?).ok()?;
        let first = *self.sources.get(at)?;
        let last = self.sources.get(at + 1).map_or(u16::MAX, |next| next - 1);
        Some(PortRange { first, last })
    }

    /// How many layers there are.
    pub fn layers(&self) -> u32 {
        u32::try_from(self.sources.len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// Some traffic of a set: what people know, if it is in there.
    pub fn sample(&self, set: &TrafficSet) -> Option<Traffic> {
        let known = [(Protocol::Tcp, 80), (Protocol::Tcp, 443), (Protocol::Udp, 53)];
        let known = known.map(|(protocol, port)| Traffic::new(protocol, port));
        let here = |traffic: &Traffic| set.contains(self.place(*traffic, false));
        known.into_iter().find(here).or_else(|| {
            let places = set.pieces().iter().flat_map(|(first, last)| [*first, (*first + 1).min(*last)]);
            // Port 0 and what lies beyond the types of IGMP is nothing that anybody sends.
            places.map(|place| (place, self.traffic(place))).find_map(|(place, traffic)| {
                let sent = self.place(traffic, false) == place;
                (sent && !(traffic.protocol.has_ports() && traffic.port == 0)).then_some(traffic)
            })
        })
    }
}

/// A protocol's place among them.
pub(super) fn index(protocol: Protocol) -> u32 {
    match protocol {
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

    #[test]
    fn a_protocol_is_cut_out_of_the_line() {
        let line = Line::new([]);
        let web = line.places(Protocol::Udp, 80..=90, PortRange::ALL);
        assert_eq!(web.of_protocol(Protocol::Udp), [(80, 90)]);
        assert_eq!(web.of_protocol(Protocol::Tcp), []);
        assert_eq!(line.all().minus(&web).of_protocol(Protocol::Udp), [(0, 79), (91, 65535)]);
        assert_eq!(line.all().of_protocol(Protocol::Igmp), [(0, 65535)]);
    }

    #[test]
    fn source_ports_are_layers() {
        let line = Line::new([1024, 2048]);
        let low = line.places(Protocol::Tcp, 53..=53, PortRange { first: 0, last: 1023 });
        let asked = |port| Traffic { source_port: port, ..Traffic::new(Protocol::Tcp, 53) };
        assert!(low.contains(line.place(asked(Some(1000)), false)));
        assert!(!low.contains(line.place(asked(Some(1024)), false)));
        assert!(!low.contains(line.place(asked(None), false)));
        let any = line.places(Protocol::Tcp, 53..=53, PortRange::ALL);
        for port in [None, Some(0), Some(1500), Some(65535)] {
            assert!(any.contains(line.place(asked(port), false)));
        }
        assert_eq!(line.traffic(line.place(asked(Some(1024)), false)), asked(Some(1024)));
    }
}
