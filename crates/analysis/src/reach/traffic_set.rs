//! Sets of traffic, exact and canonical: what of all that a connection can carry.
//!
//! Everything that rules tell apart lies on one line: for each protocol 65,536 places (a port; for ICMP type and code;
//! for IGMP the type), and the whole of it once more for each interval of source ports that some rule names. A set is a
//! list of intervals on that line. Two sets that hold the same are equal, so they are interned, and operations on them
//! are remembered: a cluster of ten thousand policies has some hundred sets, and every cell of its matrix is a number.

use std::ops::RangeInclusive;

use palisade_model::traffic::{PortRange, Protocol, Traffic};

use super::groups::Table;

/// Places on the line for each protocol.
const WIDTH: u32 = 1 << 16;
/// The protocols, in their order on the line.
pub const PROTOCOLS: [Protocol; 5] =
    [Protocol::Tcp, Protocol::Udp, Protocol::Sctp, Protocol::Icmp, Protocol::Igmp];
/// Where an IGMP question without a type stands.
const IGMP_ANY: u16 = 256;

/// A set of traffic: intervals, sorted, none touching another.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrafficSet(Box<[(u32, u32)]>);

/// How the line is laid out: which source ports are told apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// The first source port of each interval, sorted, the first of them 0; empty when no rule names source ports.
    sources: Vec<u16>,
}

/// An interned set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrafficId(pub u32);

/// Interned sets, and what came of combining them.
#[derive(Debug)]
pub struct Traffics {
    line: Line,
    sets: Vec<TrafficSet>,
    ids: Table<TrafficSet, TrafficId>,
    and: Remembered,
    or: Remembered,
    minus: Remembered,
}

/// What came of pairs of sets.
type Remembered = Table<(TrafficId, TrafficId), TrafficId>;

/// More pairs than this are not remembered: they can be worked out again.
const MOST_REMEMBERED: usize = 1 << 22;

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
        TrafficSet(Box::new([(0, self.last())]))
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
}

fn index(protocol: Protocol) -> u32 {
    match protocol {
        Protocol::Tcp => 0,
        Protocol::Udp => 1,
        Protocol::Sctp => 2,
        Protocol::Icmp => 3,
        Protocol::Igmp => 4,
    }
}

// === impl TrafficSet ===

impl TrafficSet {
    /// From pieces in any order, which may overlap.
    pub fn of(mut pieces: Vec<(u32, u32)>) -> Self {
        pieces.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(pieces.len());
        for (first, last) in pieces {
            match merged.last_mut() {
                Some(open) if first <= open.1.saturating_add(1) => open.1 = open.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        TrafficSet(merged.into())
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The intervals.
    pub fn pieces(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// Whether a place is in it.
    pub fn contains(&self, place: u32) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= place);
        after > 0 && place <= self.0[after - 1].1
    }

    /// What is in either.
    pub fn or(&self, other: &Self) -> Self {
        TrafficSet::of(self.0.iter().chain(&other.0).copied().collect())
    }

    /// What is in both.
    pub fn and(&self, other: &Self) -> Self {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut both = Vec::new();
        while let (Some(one), Some(two)) = (a.peek(), b.peek()) {
            let (first, last) = (one.0.max(two.0), one.1.min(two.1));
            if first <= last {
                both.push((first, last));
            }
            if one.1 <= two.1 {
                a.next();
            } else {
                b.next();
            }
        }
        TrafficSet(both.into())
    }

    /// What is in this one and not in the other.
    pub fn minus(&self, other: &Self) -> Self {
        let mut left = Vec::new();
        let mut holes = other.0.iter().peekable();
        for (first, last) in self.0.iter().copied() {
            let mut from = Some(first);
            while let (Some(start), Some(hole)) = (from, holes.peek()) {
                if hole.1 < start {
                    holes.next();
                } else if hole.0 > last {
                    break;
                } else {
                    if hole.0 > start {
                        left.push((start, hole.0 - 1));
                    }
                    from = (hole.1 < last).then(|| hole.1 + 1);
                    if from.is_some() {
                        holes.next();
                    }
                }
            }
            left.extend(from.map(|start| (start, last)));
        }
        TrafficSet(left.into())
    }

    /// The places of one protocol, in the layer of connections that name no source port.
    pub fn of_protocol(&self, protocol: Protocol) -> Vec<(u16, u16)> {
        self.of_layer(0, protocol)
    }

    /// The places of one protocol in a layer.
    pub fn of_layer(&self, layer: u32, protocol: Protocol) -> Vec<(u16, u16)> {
        let base = layer * WIDTH * 5 + index(protocol) * WIDTH;
        let end = base + WIDTH - 1;
        let start = self.0.partition_point(|(_, last)| *last < base);
        let inside = self.0[start..].iter().take_while(|(first, _)| *first <= end);
        let clip = |place: u32| u16::try_from(place.clamp(base, end) - base).unwrap_or(u16::MAX);
        inside.map(|(first, last)| (clip(*first), clip(*last))).collect()
    }
}

// === impl Traffics ===

impl Traffics {
    /// Nothing.
    pub const EMPTY: TrafficId = TrafficId(0);
    /// Everything.
    pub const ALL: TrafficId = TrafficId(1);

    /// With the two that are always there.
    pub fn new(line: Line) -> Self {
        let all = line.all();
        let mut traffics = Traffics {
            line,
            sets: Vec::new(),
            ids: Table::default(),
            and: Table::default(),
            or: Table::default(),
            minus: Table::default(),
        };
        traffics.intern(TrafficSet::default());
        traffics.intern(all);
        traffics
    }

    /// The line that the sets lie on.
    pub fn line(&self) -> &Line {
        &self.line
    }

    /// How many sets there are.
    pub fn len(&self) -> u32 {
        u32::try_from(self.sets.len()).unwrap_or(u32::MAX)
    }

    /// Whether there are none, which never happens.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// A set's number.
    pub fn intern(&mut self, set: TrafficSet) -> TrafficId {
        if let Some(id) = self.ids.get(&set) {
            return *id;
        }
        let id = TrafficId(u32::try_from(self.sets.len()).unwrap_or(u32::MAX));
        self.sets.push(set.clone());
        self.ids.insert(set, id);
        id
    }

    /// A number's set.
    pub fn set(&self, id: TrafficId) -> &TrafficSet {
        &self.sets[id.0 as usize]
    }

    /// What is in both.
    pub fn and(&mut self, a: TrafficId, b: TrafficId) -> TrafficId {
        match (a, b) {
            (Self::EMPTY, _) | (_, Self::EMPTY) => return Self::EMPTY,
            (Self::ALL, other) | (other, Self::ALL) => return other,
            _ if a == b => return a,
            _ => {}
        }
        let key = (a.min(b), a.max(b));
        if let Some(known) = self.and.get(&key) {
            return *known;
        }
        let set = self.set(a).and(self.set(b));
        let id = self.intern(set);
        remember(&mut self.and, key, id);
        id
    }

    /// What is in either.
    pub fn or(&mut self, a: TrafficId, b: TrafficId) -> TrafficId {
        match (a, b) {
            (Self::ALL, _) | (_, Self::ALL) => return Self::ALL,
            (Self::EMPTY, other) | (other, Self::EMPTY) => return other,
            _ if a == b => return a,
            _ => {}
        }
        let key = (a.min(b), a.max(b));
        if let Some(known) = self.or.get(&key) {
            return *known;
        }
        let set = self.set(a).or(self.set(b));
        let id = self.intern(set);
        remember(&mut self.or, key, id);
        id
    }

    /// What is in the first and not in the second.
    pub fn minus(&mut self, a: TrafficId, b: TrafficId) -> TrafficId {
        match (a, b) {
            (Self::EMPTY, _) | (_, Self::ALL) => return Self::EMPTY,
            (_, Self::EMPTY) => return a,
            _ if a == b => return Self::EMPTY,
            _ => {}
        }
        if let Some(known) = self.minus.get(&(a, b)) {
            return *known;
        }
        let set = self.set(a).minus(self.set(b));
        let id = self.intern(set);
        remember(&mut self.minus, (a, b), id);
        id
    }
}

fn remember(known: &mut Remembered, key: (TrafficId, TrafficId), id: TrafficId) {
    if known.len() >= MOST_REMEMBERED {
        known.clear();
    }
    known.insert(key, id);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pieces: &[(u32, u32)]) -> TrafficSet {
        TrafficSet::of(pieces.to_vec())
    }

    #[test]
    fn operations_say_what_membership_says() {
        let mut sets = Vec::new();
        for bits in 0_u32..256 {
            let pieces = (0..8).filter(|bit| bits >> bit & 1 == 1).map(|bit| (bit, bit)).collect();
            sets.push(TrafficSet::of(pieces));
        }
        for a in &sets {
            for b in &sets {
                let (and, or, minus) = (a.and(b), a.or(b), a.minus(b));
                for place in 0..8 {
                    let (x, y) = (a.contains(place), b.contains(place));
                    assert_eq!(and.contains(place), x && y);
                    assert_eq!(or.contains(place), x || y);
                    assert_eq!(minus.contains(place), x && !y);
                }
                // Canonical: the same places are the same set.
                assert_eq!(minus.or(&and), *a);
            }
        }
    }

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

    #[test]
    fn minus_of_many_holes() {
        let left = set(&[(0, 100)]).minus(&set(&[(0, 3), (10, 10), (50, 60), (99, 200)]));
        assert_eq!(left, set(&[(4, 9), (11, 49), (61, 98)]));
        assert_eq!(set(&[(5, 6), (8, 9)]).minus(&set(&[(0, 20)])), set(&[]));
    }
}
