//! The ends of connections and what they may carry, as every printer of a map or a diff says them.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use palisade_analysis::map::WorkloadName;
use palisade_analysis::reach::connections::Connections;
use palisade_model::address::{next, previous};
use serde::Serialize;

/// An end, in JSON.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Peer {
    /// A workload.
    Workload(Workload),
    /// Outside addresses.
    Range(Range),
    /// Whoever serves Ingress and Route objects.
    IngressController(Empty),
    /// Nodes with the same answer.
    Node(Nodes),
}

/// A workload, in JSON.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Workload {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
}

/// Addresses; both belong to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Range {
    /// The first.
    pub from: IpAddr,
    /// The last.
    pub to: IpAddr,
}

/// Nodes, in JSON.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Nodes {
    /// Their names, unless it is every node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Whether it is every node there is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub every: bool,
}

/// Nothing to say.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Empty {}

/// What is let through, in JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Allowed {
    /// TCP ports, first and last of each range.
    #[serde(rename = "TCP", skip_serializing_if = "Vec::is_empty")]
    pub tcp: Vec<(u16, u16)>,
    /// UDP ports.
    #[serde(rename = "UDP", skip_serializing_if = "Vec::is_empty")]
    pub udp: Vec<(u16, u16)>,
    /// SCTP ports.
    #[serde(rename = "SCTP", skip_serializing_if = "Vec::is_empty")]
    pub sctp: Vec<(u16, u16)>,
    /// Whether any ICMP is.
    #[serde(rename = "ICMP")]
    pub icmp: bool,
    /// Which types and codes of it, where not all.
    #[serde(rename = "icmpTypes", skip_serializing_if = "Vec::is_empty")]
    pub icmp_types: Vec<String>,
    /// The same for connections from source ports that rules name, where that is something else.
    #[serde(rename = "fromSourcePorts", skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<FromPorts>,
}

/// What is let through from some source ports, in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct FromPorts {
    /// First and last source port.
    pub ports: (u16, u16),
    /// What is let through from them.
    pub allowed: Box<Allowed>,
}

// === impl Peer ===

impl From<&WorkloadName> for Peer {
    fn from(name: &WorkloadName) -> Self {
        Peer::Workload(Workload::from(name))
    }
}

impl From<&WorkloadName> for Workload {
    fn from(name: &WorkloadName) -> Self {
        Workload {
            namespace: name.namespace.to_string(),
            name: name.name.to_string(),
            kind: name.kind.to_string(),
        }
    }
}

// === impl Allowed ===

impl From<&Connections> for Allowed {
    fn from(connections: &Connections) -> Self {
        let all = connections.icmp == [(0, u16::MAX)];
        Allowed {
            tcp: connections.tcp.clone(),
            udp: connections.udp.clone(),
            sctp: connections.sctp.clone(),
            icmp: !connections.icmp.is_empty(),
            from: connections
                .from
                .iter()
                .map(|(first, last, from)| FromPorts {
                    ports: (*first, *last),
                    allowed: Box::new(Allowed::from(&**from)),
                })
                .collect(),
            icmp_types: if all { Vec::new() } else { connections.icmp_types() },
        }
    }
}

/// Ranges in words: `anywhere outside`, `0.0.0.0/0 except 10.0.0.0/8`, `203.0.113.0/24, 198.51.100.7`.
pub fn outside(ranges: &[(IpAddr, IpAddr)]) -> String {
    let of = |four: bool| -> Vec<(IpAddr, IpAddr)> {
        let mut own: Vec<_> = ranges.iter().copied().filter(|(first, _)| first.is_ipv4() == four).collect();
        own.sort_unstable();
        own
    };
    let all = |four: bool| if four { all_four() } else { all_six() };
    let (four, six) = (of(true), of(false));
    let whole = |own: &[(IpAddr, IpAddr)], four: bool| merged(own) == [all(four)];
    match (whole(&four, true), whole(&six, false)) {
        (true, true) => return "anywhere outside".to_owned(),
        (true, false) if six.is_empty() => return "anywhere outside over IPv4".to_owned(),
        (false, true) if four.is_empty() => return "anywhere outside over IPv6".to_owned(),
        _ => {}
    }
    let mut parts = Vec::new();
    for (own, block) in [(four, FOUR), (six, SIX)] {
        parts.extend(described(&merged(&own), block));
    }
    // A list after `except` must end before the next block begins.
    let plain = parts.iter().all(|part| part.except.is_empty());
    let more = parts.len().saturating_sub(LISTED);
    let listed: Vec<String> = parts.iter().take(LISTED).map(Part::text).collect();
    let mut out = listed.join(if plain { ", " } else { "; " });
    if more > 0 {
        let _ = write!(out, " and {more} more");
    }
    out
}

/// How many blocks are listed.
const LISTED: usize = 6;

/// Blocks of IPv4 and IPv6 addresses as their first bits and how many of them count.
type Bits = (u128, u8);

/// Everything of a family: how long its addresses are, and the block.
type Space = (u8, Bits);
const FOUR: Space = (32, (0, 0));
const SIX: Space = (128, (0, 0));

/// A block, without some blocks in it.
#[derive(Debug, Clone)]
struct Part {
    block: String,
    except: Vec<String>,
}

impl Part {
    fn text(&self) -> String {
        match self.except.is_empty() {
            true => self.block.clone(),
            false => {
                let more = self.except.len().saturating_sub(LISTED);
                let listed = self.except[..self.except.len() - more].join(", ");
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("{} except {listed}{more}", self.block)
            }
        }
    }
}

/// Ranges of one family in as few blocks as say it, some of them with exceptions.
fn described(ranges: &[(IpAddr, IpAddr)], (length, (first, bits)): (u8, Bits)) -> Vec<Part> {
    let last = first | mask(length - bits);
    let (first_address, last_address) = (address(first, length), address(last, length));
    let own: Vec<(IpAddr, IpAddr)> = ranges
        .iter()
        .filter(|(from, to)| *from <= last_address && *to >= first_address)
        .map(|(from, to)| ((*from).max(first_address), (*to).min(last_address)))
        .collect();
    let whole = |except: Vec<String>| {
        let prefix = if bits == length { String::new() } else { format!("/{bits}") };
        vec![Part { block: format!("{first_address}{prefix}"), except }]
    };
    if own.is_empty() {
        return Vec::new();
    }
    if own == [(first_address, last_address)] {
        return whole(Vec::new());
    }
    let half = 1_u128 << (length - bits - 1);
    let mut halves = described(&own, (length, (first, bits + 1)));
    halves.extend(described(&own, (length, (first | half, bits + 1))));
    let except = blocks(&without(&own, (first_address, last_address)));
    let cost = |parts: &[Part]| parts.iter().map(|part| 1 + part.except.len()).sum::<usize>();
    if 1 + except.len() < cost(&halves) { whole(except) } else { halves }
}

/// So many ones.
fn mask(length: u8) -> u128 {
    if length >= 128 { u128::MAX } else { (1 << length) - 1 }
}

fn address(bits: u128, length: u8) -> IpAddr {
    match length {
        32 => Ipv4Addr::from_bits(u32::try_from(bits).unwrap_or(u32::MAX)).into(),
        _ => Ipv6Addr::from_bits(bits).into(),
    }
}

fn all_four() -> (IpAddr, IpAddr) {
    (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::BROADCAST.into())
}

fn all_six() -> (IpAddr, IpAddr) {
    (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::from_bits(u128::MAX).into())
}

/// Ranges of one family, sorted, put together where they touch.
fn merged(ranges: &[(IpAddr, IpAddr)]) -> Vec<(IpAddr, IpAddr)> {
    let mut merged: Vec<(IpAddr, IpAddr)> = Vec::new();
    for (first, last) in ranges {
        match merged.last_mut() {
            Some(open) if *first <= open.1 || next(open.1) == Some(*first) => open.1 = open.1.max(*last),
            _ => merged.push((*first, *last)),
        }
    }
    merged
}

fn without(ranges: &[(IpAddr, IpAddr)], (first, last): (IpAddr, IpAddr)) -> Vec<(IpAddr, IpAddr)> {
    let (mut rest, mut start) = (Vec::new(), Some(first));
    for (from, to) in ranges {
        if let (Some(start), Some(end)) = (start, previous(*from))
            && start <= end
            && *from != first
        {
            rest.push((start, end));
        }
        start = next(*to);
    }
    rest.extend(start.filter(|start| *start <= last).map(|start| (start, last)));
    rest
}

/// Ranges as blocks; a single address without its length.
fn blocks(ranges: &[(IpAddr, IpAddr)]) -> Vec<String> {
    let mut blocks = Vec::new();
    for range in ranges {
        match *range {
            (first, last) if first == last => blocks.push(first.to_string()),
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                blocks.extend(ipnet::Ipv4Subnets::new(first, last, 0).map(|net| net.to_string()));
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => {
                blocks.extend(ipnet::Ipv6Subnets::new(first, last, 0).map(|net| net.to_string()));
            }
            (first, last) => blocks.push(format!("{first}-{last}")),
        }
    }
    let plain = |block: String| match block.strip_suffix("/32") {
        Some(address) if !block.contains(':') => address.to_owned(),
        _ => block.strip_suffix("/128").unwrap_or(&block).to_owned(),
    };
    blocks.into_iter().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(ranges: &[(&str, &str)]) -> String {
        let parse = |(first, last): &(&str, &str)| (first.parse().unwrap(), last.parse().unwrap());
        outside(&ranges.iter().map(parse).collect::<Vec<_>>())
    }

    #[test]
    fn ranges_are_said_as_blocks_the_shorter_way() {
        let six = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        assert_eq!(said(&[("0.0.0.0", "255.255.255.255")]), "anywhere outside over IPv4");
        assert_eq!(said(&[("0.0.0.0", "255.255.255.255"), ("::", six)]), "anywhere outside");
        assert_eq!(
            said(&[("0.0.0.0", "9.255.255.255"), ("11.0.0.0", "255.255.255.255")]),
            "0.0.0.0/0 except 10.0.0.0/8"
        );
        assert_eq!(
            said(&[("203.0.113.0", "203.0.113.255"), ("8.8.8.8", "8.8.8.8")]),
            "8.8.8.8, 203.0.113.0/24"
        );
        assert_eq!(
            said(&[
                ("169.254.0.0", "169.254.169.253"),
                ("169.254.169.255", "169.254.255.255"),
                ("fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff")
            ]),
            "169.254.0.0/16 except 169.254.169.254; fe80::/10"
        );
        assert_eq!(said(&[("2001:db8::", "2001:db8::ffff")]), "2001:db8::/112");
        assert_eq!(said(&[("0.0.0.1", "255.255.255.255")]), "0.0.0.0/0 except 0.0.0.0");
    }
}
