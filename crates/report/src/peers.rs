//! Endpoints and traffic of rows as all printers of maps, diffs, queries and exposure write them.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use palisade_analysis::map::WorkloadName;
use palisade_analysis::reach::connections::Connections;
use palisade_model::address::{next, previous};
use serde::Serialize;

/// An end, in JSON.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Peer"))]
#[serde(rename_all = "camelCase")]
pub enum PeerJson {
    /// A workload.
    Workload(WorkloadJson),
    /// Outside addresses.
    Range(AddressRangeJson),
    /// Whoever serves Ingress and Route objects.
    IngressController(EmptyJson),
    /// Nodes with the same answer.
    Node(NodesJson),
}

/// A workload, in JSON.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Workload"))]
pub struct WorkloadJson {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
}

/// Addresses; both belong to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Range"))]
pub struct AddressRangeJson {
    /// The first.
    pub from: IpAddr,
    /// The last.
    pub to: IpAddr,
}

/// Nodes, in JSON.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Nodes"))]
pub struct NodesJson {
    /// Their names, unless it is every node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Whether it is every node there is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub every: bool,
}

/// Nothing to say.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Empty"))]
pub struct EmptyJson {}

/// What is let through, in JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Allowed"))]
pub struct AllowedJson {
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
    pub from: Vec<SourcePortsJson>,
}

/// What is let through from some source ports, in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "FromPorts"))]
pub struct SourcePortsJson {
    /// First and last source port.
    pub ports: (u16, u16),
    /// What is let through from them.
    pub allowed: Box<AllowedJson>,
}

// === impl Peer ===

impl From<&WorkloadName> for PeerJson {
    fn from(name: &WorkloadName) -> Self {
        PeerJson::Workload(WorkloadJson::from(name))
    }
}

impl From<&WorkloadName> for WorkloadJson {
    fn from(name: &WorkloadName) -> Self {
        WorkloadJson {
            namespace: name.namespace.to_string(),
            name: name.name.to_string(),
            kind: name.kind.to_string(),
        }
    }
}

// === impl Allowed ===

impl From<&Connections> for AllowedJson {
    fn from(connections: &Connections) -> Self {
        let all = connections.icmp == [(0, u16::MAX)];
        AllowedJson {
            tcp: connections.tcp.clone(),
            udp: connections.udp.clone(),
            sctp: connections.sctp.clone(),
            icmp: !connections.icmp.is_empty(),
            from: connections
                .from
                .iter()
                .map(|(first, last, from)| SourcePortsJson {
                    ports: (*first, *last),
                    allowed: Box::new(AllowedJson::from(&**from)),
                })
                .collect(),
            icmp_types: if all { Vec::new() } else { connections.icmp_types() },
        }
    }
}

/// Describes address ranges: `anywhere outside`, `0.0.0.0/0 except 10.0.0.0/8`, `203.0.113.0/24, 198.51.100.7`.
pub fn describe_ranges(ranges: &[(IpAddr, IpAddr)]) -> String {
    let of = |four: bool| -> Vec<(IpAddr, IpAddr)> {
        let mut own: Vec<_> = ranges.iter().copied().filter(|(first, _)| first.is_ipv4() == four).collect();
        own.sort_unstable();
        own
    };
    let all = |four: bool| if four { all_ipv4() } else { all_ipv6() };
    let (four, six) = (of(true), of(false));
    let whole = |own: &[(IpAddr, IpAddr)], four: bool| merged(own) == [all(four)];
    match (whole(&four, true), whole(&six, false)) {
        (true, true) => return "anywhere outside".to_owned(),
        (true, false) if six.is_empty() => return "anywhere outside over IPv4".to_owned(),
        (false, true) if four.is_empty() => return "anywhere outside over IPv6".to_owned(),
        _ => {}
    }
    let mut parts = Vec::new();
    for (own, block) in [(four, IPV4), (six, IPV6)] {
        parts.extend(fewest_blocks(&merged(&own), block));
    }
    // A list after `except` must end before the next block begins.
    let plain = parts.iter().all(|part| part.except.is_empty());
    let more = parts.len().saturating_sub(MAX_LISTED);
    let listed: Vec<String> = parts.iter().take(MAX_LISTED).map(DescribedBlock::text).collect();
    let mut out = listed.join(if plain { ", " } else { "; " });
    if more > 0 {
        let _ = write!(out, " and {more} more");
    }
    out
}

/// Maximum number of blocks, and of exceptions, listed.
const MAX_LISTED: usize = 6;

/// A block: its first address as a number, and the length of its prefix.
type BlockBits = (u128, u8);

/// All addresses of a family: the length of an address in bits, and the block.
type AddressSpace = (u8, BlockBits);
const IPV4: AddressSpace = (32, (0, 0));
const IPV6: AddressSpace = (128, (0, 0));

/// A block with exceptions, as text.
#[derive(Debug, Clone)]
struct DescribedBlock {
    block: String,
    except: Vec<String>,
}

impl DescribedBlock {
    fn text(&self) -> String {
        match self.except.is_empty() {
            true => self.block.clone(),
            false => {
                let more = self.except.len().saturating_sub(MAX_LISTED);
                let listed = self.except[..self.except.len() - more].join(", ");
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("{} except {listed}{more}", self.block)
            }
        }
    }
}

/// Returns the ranges inside a block as the shortest list of blocks with exceptions.
///
/// Compares, at each prefix, the two halves with the whole block minus its exceptions.
fn fewest_blocks(
    ranges: &[(IpAddr, IpAddr)],
    (length, (first, bits)): (u8, BlockBits),
) -> Vec<DescribedBlock> {
    let last = first | mask(length - bits);
    let (first_address, last_address) = (address(first, length), address(last, length));
    let own: Vec<(IpAddr, IpAddr)> = ranges
        .iter()
        .filter(|(from, to)| *from <= last_address && *to >= first_address)
        .map(|(from, to)| ((*from).max(first_address), (*to).min(last_address)))
        .collect();
    let whole = |except: Vec<String>| {
        let prefix = if bits == length { String::new() } else { format!("/{bits}") };
        vec![DescribedBlock { block: format!("{first_address}{prefix}"), except }]
    };
    if own.is_empty() {
        return Vec::new();
    }
    if own == [(first_address, last_address)] {
        return whole(Vec::new());
    }
    let half = 1_u128 << (length - bits - 1);
    let mut halves = fewest_blocks(&own, (length, (first, bits + 1)));
    halves.extend(fewest_blocks(&own, (length, (first | half, bits + 1))));
    let except = blocks(&complement(&own, (first_address, last_address)));
    let cost = |parts: &[DescribedBlock]| parts.iter().map(|part| 1 + part.except.len()).sum::<usize>();
    if 1 + except.len() < cost(&halves) { whole(except) } else { halves }
}

/// Returns a number with the lowest `length` bits set.
fn mask(length: u8) -> u128 {
    if length >= 128 { u128::MAX } else { (1 << length) - 1 }
}

fn address(bits: u128, length: u8) -> IpAddr {
    match length {
        32 => Ipv4Addr::from_bits(u32::try_from(bits).unwrap_or(u32::MAX)).into(),
        _ => Ipv6Addr::from_bits(bits).into(),
    }
}

fn all_ipv4() -> (IpAddr, IpAddr) {
    (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::BROADCAST.into())
}

fn all_ipv6() -> (IpAddr, IpAddr) {
    (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::from_bits(u128::MAX).into())
}

/// Merges adjacent and overlapping ranges; these are of one family and sorted.
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

fn complement(ranges: &[(IpAddr, IpAddr)], (first, last): (IpAddr, IpAddr)) -> Vec<(IpAddr, IpAddr)> {
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

/// Splits ranges into blocks; a single address has no prefix length.
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

    fn described(ranges: &[(&str, &str)]) -> String {
        let parse = |(first, last): &(&str, &str)| (first.parse().unwrap(), last.parse().unwrap());
        describe_ranges(&ranges.iter().map(parse).collect::<Vec<_>>())
    }

    #[test]
    fn ranges_are_said_as_blocks_the_shorter_way() {
        let six = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        assert_eq!(described(&[("0.0.0.0", "255.255.255.255")]), "anywhere outside over IPv4");
        assert_eq!(described(&[("0.0.0.0", "255.255.255.255"), ("::", six)]), "anywhere outside");
        assert_eq!(
            described(&[("0.0.0.0", "9.255.255.255"), ("11.0.0.0", "255.255.255.255")]),
            "0.0.0.0/0 except 10.0.0.0/8"
        );
        assert_eq!(
            described(&[("203.0.113.0", "203.0.113.255"), ("8.8.8.8", "8.8.8.8")]),
            "8.8.8.8, 203.0.113.0/24"
        );
        assert_eq!(
            described(&[
                ("169.254.0.0", "169.254.169.253"),
                ("169.254.169.255", "169.254.255.255"),
                ("fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff")
            ]),
            "169.254.0.0/16 except 169.254.169.254; fe80::/10"
        );
        assert_eq!(described(&[("2001:db8::", "2001:db8::ffff")]), "2001:db8::/112");
        assert_eq!(described(&[("0.0.0.1", "255.255.255.255")]), "0.0.0.0/0 except 0.0.0.0");
    }
}
