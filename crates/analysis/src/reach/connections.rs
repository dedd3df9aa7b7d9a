//! Traffic sets as protocols with ports, as users write them: `tcp/80`, `all`, `all but tcp/80`.

use std::fmt;

use palisade_model::traffic::Protocol;

use palisade_model::traffic_set::{TrafficSet, TrafficSpace};

/// Ports of each protocol, and ICMP by type and code, of connections without a source port.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connections {
    /// TCP ports: first and last of each range, without port 0.
    pub tcp: Vec<(u16, u16)>,
    /// UDP ports, as those of TCP.
    pub udp: Vec<(u16, u16)>,
    /// SCTP ports, as those of TCP.
    pub sctp: Vec<(u16, u16)>,
    /// ICMP: type and code as one number, the type times 256.
    pub icmp: Vec<(u16, u16)>,
    /// IGMP by type; 256 stands for traffic without a type.
    pub igmp: Vec<(u16, u16)>,
    /// Connections from source ports of rules, where they differ: first and last source port, and the connections.
    pub from: Vec<(u16, u16, Box<Connections>)>,
}

/// A protocol, its ranges in a set, and its full range.
type ProtocolRanges<'c> = (Protocol, &'c [(u16, u16)], (u16, u16));

const PORTS: (u16, u16) = (1, u16::MAX);
const IGMP: (u16, u16) = (0, 256);
const ANY: (u16, u16) = (0, u16::MAX);

// === impl Connections ===

impl Connections {
    /// Converts a set.
    pub fn of(set: &TrafficSet, space: &TrafficSpace) -> Self {
        let mut connections = Connections::of_layer(set, 0);
        for layer in 1..space.layers() {
            let from =
                Connections { icmp: Vec::new(), igmp: Vec::new(), ..Connections::of_layer(set, layer) };
            let plain = (&connections.tcp, &connections.udp, &connections.sctp);
            if let Some(ports) = space.source_ports(layer)
                && (&from.tcp, &from.udp, &from.sctp) != plain
            {
                // Adjacent source ports with the same connections are one range.
                match connections.from.last_mut() {
                    Some((_, last, known)) if last.checked_add(1) == Some(ports.first) && **known == from => {
                        *last = ports.last;
                    }
                    _ => connections.from.push((ports.first, ports.last, Box::new(from))),
                }
            }
        }
        connections
    }

    fn of_layer(set: &TrafficSet, layer: u32) -> Self {
        let clipped = |protocol, (lowest, highest): (u16, u16)| -> Vec<(u16, u16)> {
            let ranges = TrafficSpace::places(set, layer, protocol).into_iter();
            let clip = |(first, last): (u16, u16)| (first.max(lowest), last.min(highest));
            ranges.map(clip).filter(|(first, last)| first <= last).collect()
        };
        Connections {
            tcp: clipped(Protocol::Tcp, PORTS),
            udp: clipped(Protocol::Udp, PORTS),
            sctp: clipped(Protocol::Sctp, PORTS),
            icmp: clipped(Protocol::Icmp, ANY),
            igmp: clipped(Protocol::Igmp, IGMP),
            from: Vec::new(),
        }
    }

    /// Each protocol with what of it, and what all of it would be.
    fn parts(&self) -> [ProtocolRanges<'_>; 5] {
        [
            (Protocol::Tcp, &self.tcp, PORTS),
            (Protocol::Udp, &self.udp, PORTS),
            (Protocol::Sctp, &self.sctp, PORTS),
            (Protocol::Icmp, &self.icmp, ANY),
            (Protocol::Igmp, &self.igmp, IGMP),
        ]
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.parts().iter().all(|(_, ranges, _)| ranges.is_empty())
            && self.from.iter().all(|(_, _, from)| from.is_empty())
    }

    /// Whether it is everything.
    pub fn is_all(&self) -> bool {
        self.parts().iter().all(|(_, ranges, whole)| *ranges == [*whole]) && self.from.is_empty()
    }

    /// What is not in it.
    fn rest(&self) -> Connections {
        let rest = |ranges: &[(u16, u16)], (lowest, highest): (u16, u16)| {
            let (mut rest, mut next) = (Vec::new(), Some(lowest));
            for (first, last) in ranges {
                if let Some(start) = next.filter(|start| start < first) {
                    rest.push((start, first - 1));
                }
                next = last.checked_add(1);
            }
            rest.extend(next.filter(|start| *start <= highest).map(|start| (start, highest)));
            rest
        };
        Connections {
            tcp: rest(&self.tcp, PORTS),
            udp: rest(&self.udp, PORTS),
            sctp: rest(&self.sctp, PORTS),
            icmp: rest(&self.icmp, ANY),
            igmp: rest(&self.igmp, IGMP),
            from: Vec::new(),
        }
    }

    /// ICMP as people write it: `8` and `8-11` are types with all of their codes, `8/0` is a code of a type, and `*/0` and `*/0-3`
    /// are codes of every type. Empty for none.
    pub fn icmp_types(&self) -> Vec<String> {
        if let Some((low, high)) = codes_of_every_type(&self.icmp) {
            return vec![if low == high { format!("*/{low}") } else { format!("*/{low}-{high}") }];
        }
        self.icmp.iter().map(|range| icmp(*range)).collect()
    }

    /// How many words it takes.
    fn length(&self) -> usize {
        let words = |(protocol, ranges, whole): &ProtocolRanges<'_>| match protocol {
            _ if *ranges == [*whole] => 1,
            Protocol::Icmp if codes_of_every_type(ranges).is_some() => 1,
            _ => ranges.len(),
        };
        self.parts().iter().map(words).sum()
    }

    fn list(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (protocol, ranges, whole) in self.parts() {
            if ranges.is_empty() {
                continue;
            }
            write!(f, "{separator}{protocol}")?;
            separator = ", ";
            if ranges == [whole] {
                continue;
            }
            if protocol == Protocol::Icmp {
                write!(f, "/{}", self.icmp_types().join(","))?;
                continue;
            }
            for (index, range) in ranges.iter().enumerate() {
                f.write_str(if index == 0 { "/" } else { "," })?;
                match range {
                    (first, last) if first == last => write!(f, "{first}")?,
                    (first, last) => write!(f, "{first}-{last}")?,
                }
            }
        }
        Ok(())
    }
}

/// `8`, `8/0`, `8-11`: types with all of their codes, or types with codes.
fn icmp((first, last): (u16, u16)) -> String {
    let ([from, low], [to, high]) = (first.to_be_bytes(), last.to_be_bytes());
    match (low, high) {
        (0, 255) if from == to => format!("{from}"),
        (0, 255) => format!("{from}-{to}"),
        _ if first == last => format!("{from}/{low}"),
        _ => format!("{from}/{low}-{to}/{high}"),
    }
}

/// The codes, where ranges of ICMP are the same of every type: that is what a rule by code alone allows or refuses.
fn codes_of_every_type(ranges: &[(u16, u16)]) -> Option<(u8, u8)> {
    let ((first, last), all) = (ranges.first()?, usize::from(u8::MAX) + 1);
    let ([_, low], [_, high]) = (first.to_be_bytes(), last.to_be_bytes());
    let of = |(kind, range): (u8, &(u16, u16))| {
        *range == (u16::from_be_bytes([kind, low]), u16::from_be_bytes([kind, high]))
    };
    (ranges.len() == all && (0..=u8::MAX).zip(ranges).all(of)).then_some((low, high))
}

impl fmt::Display for Connections {
    /// The shorter of what it is and what it is not.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = self.rest();
        if self.is_empty() {
            f.write_str("nothing")?;
        } else if rest.is_empty() {
            f.write_str("all")?;
        } else if rest.length() < self.length()
            && self.parts().iter().all(|(_, ranges, _)| !ranges.is_empty())
        {
            f.write_str("all but ")?;
            rest.list(f)?;
        } else {
            // IGMP is shown only where it is all there is: beside other traffic it is of no interest.
            let mut plain = self.clone();
            if plain.igmp == [IGMP] && plain.length() > 1 {
                plain.igmp.clear();
            }
            plain.list(f)?;
        }
        for (first, last, from) in &self.from {
            write!(f, "; from port {first}-{last}: {from}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use palisade_model::traffic::PortRange;

    use palisade_model::traffic_set::Region;

    use super::*;

    fn text_of(set: &TrafficSet) -> String {
        Connections::of(set, &TrafficSpace::new([])).to_string()
    }

    #[test]
    fn a_set_is_said_as_people_write_it() {
        let space = TrafficSpace::new([]);
        let tcp =
            |first: u16, last: u16| space.region(Region::new(Protocol::Tcp, first..=last, PortRange::ALL));
        assert_eq!(text_of(&space.all()), "all");
        assert_eq!(text_of(&TrafficSet::default()), "nothing");
        assert_eq!(text_of(&tcp(80, 80).union(&tcp(8000, 8080))), "tcp/80,8000-8080");
        assert_eq!(text_of(&space.all().difference(&tcp(80, 80))), "all but tcp/80");
        assert_eq!(text_of(&space.protocol(Protocol::Udp).union(&tcp(53, 53))), "tcp/53, udp");
        assert_eq!(
            text_of(&space.region(Region::new(Protocol::Icmp, 8 << 8..=8 << 8, PortRange::ALL))),
            "icmp/8/0"
        );
        let code = |code: u8| {
            let places = (0..=u8::MAX).map(|kind| u16::from_be_bytes([kind, code]));
            let each =
                places.map(|place| space.region(Region::new(Protocol::Icmp, place..=place, PortRange::ALL)));
            each.fold(TrafficSet::default(), |all, one| all.union(&one))
        };
        assert_eq!(text_of(&code(255)), "icmp/*/255");
        assert_eq!(text_of(&code(0).union(&tcp(80, 80))), "tcp/80, icmp/*/0");
        assert_eq!(text_of(&space.all().difference(&code(255))), "all but icmp/*/255");
        assert_eq!(text_of(&space.protocol(Protocol::Icmp).difference(&code(255))), "icmp/*/0-254");
        let all_but_tcp = space.all().difference(&space.protocol(Protocol::Tcp));
        assert_eq!(text_of(&all_but_tcp), "udp, sctp, icmp");
    }

    #[test]
    fn source_ports_that_get_the_same_are_one_range() {
        let from = PortRange { first: 50_000, last: 60_999 };
        let source_ranges = |space: &TrafficSpace| {
            let refused = space.region(Region::new(Protocol::Tcp, 80..=80, from));
            let source_ranges = Connections::of(&space.all().difference(&refused), space).from;
            source_ranges.into_iter().map(|(first, last, _)| (first, last)).collect::<Vec<_>>()
        };
        // Another side may cut the line where this one does not.
        assert_eq!(source_ranges(&TrafficSpace::new([50_000, 61_000])), [(50_000, 60_999)]);
        assert_eq!(source_ranges(&TrafficSpace::new([50_000, 50_001, 55_000, 61_000])), [(50_000, 60_999)]);
    }

    #[test]
    fn nobody_connects_to_port_0() {
        let space = TrafficSpace::new([]);
        let ports = space.region(Region::new(Protocol::Tcp, 0..=65535, PortRange::ALL));
        assert_eq!(Connections::of(&ports, &space).tcp, [(1, 65535)]);
        let zero = space.region(Region::new(Protocol::Tcp, 0..=0, PortRange::ALL));
        assert!(Connections::of(&zero, &space).is_empty());
    }
}
