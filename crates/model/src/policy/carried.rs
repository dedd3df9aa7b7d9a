//! What a rule wants a connection to carry.

use std::fmt;
use std::net::IpAddr;

use smol_str::SmolStr;

use crate::traffic::{PortRange, Protocol};

/// The traffic of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrafficMatches {
    /// Any.
    Any,
    /// Any of these; none when there is none.
    Of(Vec<TrafficMatch>),
}

/// One alternative for the traffic.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TrafficMatch {
    /// A protocol and a range of destination ports.
    Ports(Protocol, PortRange),
    /// The destination pod's port of this name; with no protocol given, whatever protocol that port has.
    Named(Option<Protocol>, SmolStr),
    /// Connections from these source ports to a port. Only protocols with ports have source ports, so that nothing else can be
    /// written here.
    From(PortRange, Box<PortMatch>),
    /// ICMP, and ICMPv6 on IPv6.
    Icmp(IcmpMatch),
    /// IGMP, of any type, or of this one, and about any group, or about this one.
    Igmp(Option<u8>, Option<IpAddr>),
    /// Something we cannot read, in the words for a trace. The whole rule fails closed: see [`super::Rule::unknown`].
    Unknown(String),
}

/// The destination port of a connection, by number or by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PortMatch {
    /// As [`TrafficMatch::Ports`].
    Numbers(Protocol, PortRange),
    /// As [`TrafficMatch::Named`].
    Named(Option<Protocol>, SmolStr),
}

/// Messages of ICMP by type and code. The two are independent: Antrea's `icmpCode` without `icmpType` is that code of every type.
///
/// Code that needs less than [`IcmpMatch::contains`] takes both fields by destructuring without `..`, so that neither can be
/// overlooked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IcmpMatch {
    /// `icmpType`; `None` for every type.
    pub kind: Option<u8>,
    /// `icmpCode`; `None` for every code.
    pub code: Option<u8>,
}

/// A condition on what a connection carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layer7 {
    /// HTTP requests, of any kind or of this.
    Http {
        /// The host, with `*` in front or at the end.
        host: Option<SmolStr>,
        /// The method.
        method: Option<SmolStr>,
        /// The path, with `*` in front or at the end.
        path: Option<SmolStr>,
    },
    /// TLS handshakes, for any name or for this.
    Tls {
        /// The server's name.
        sni: Option<SmolStr>,
    },
}

// === impl TrafficMatch ===

impl TrafficMatch {
    /// Whether traffic of this protocol can match at all.
    pub fn is_about(&self, protocol: Protocol) -> bool {
        match self {
            TrafficMatch::Ports(own, _) | TrafficMatch::Named(Some(own), _) => *own == protocol,
            TrafficMatch::Named(None, _) => protocol.has_ports(),
            TrafficMatch::From(_, port) => port.is_about(protocol),
            TrafficMatch::Icmp(..) => protocol == Protocol::Icmp,
            TrafficMatch::Igmp(..) => protocol == Protocol::Igmp,
            TrafficMatch::Unknown(_) => false,
        }
    }
}

impl fmt::Display for TrafficMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrafficMatch::Ports(protocol, range) => display_ports(*protocol, *range, f),
            TrafficMatch::Named(protocol, name) => display_name(*protocol, name, f),
            TrafficMatch::From(range, port) if range.first == range.last => {
                write!(f, "{port} from source port {range}")
            }
            TrafficMatch::From(range, port) => write!(f, "{port} from source ports {range}"),
            TrafficMatch::Icmp(icmp) => icmp.fmt(f),
            TrafficMatch::Igmp(kind, group) => {
                match kind {
                    Some(kind) => write!(f, "igmp/{kind}"),
                    None => f.write_str("any igmp"),
                }?;
                group.map_or(Ok(()), |group| write!(f, " about {group}"))
            }
            TrafficMatch::Unknown(what) => write!(f, "unknown traffic ({what})"),
        }
    }
}

// === impl PortMatch ===

impl PortMatch {
    /// Whether connections of this protocol can match at all.
    pub fn is_about(&self, protocol: Protocol) -> bool {
        match self {
            PortMatch::Numbers(own, _) | PortMatch::Named(Some(own), _) => *own == protocol,
            PortMatch::Named(None, _) => protocol.has_ports(),
        }
    }
}

impl From<PortMatch> for TrafficMatch {
    fn from(port: PortMatch) -> Self {
        match port {
            PortMatch::Numbers(protocol, range) => TrafficMatch::Ports(protocol, range),
            PortMatch::Named(protocol, name) => TrafficMatch::Named(protocol, name),
        }
    }
}

impl fmt::Display for PortMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortMatch::Numbers(protocol, range) => display_ports(*protocol, *range, f),
            PortMatch::Named(protocol, name) => display_name(*protocol, name, f),
        }
    }
}

fn display_ports(protocol: Protocol, range: PortRange, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match range {
        PortRange::ALL => write!(f, "any {protocol} port"),
        range => write!(f, "{protocol}/{range}"),
    }
}

fn display_name(protocol: Option<Protocol>, name: &SmolStr, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match protocol {
        Some(protocol) => write!(f, "{protocol}/{name}"),
        None => write!(f, "port {name}"),
    }
}

// === impl IcmpMatch ===

impl IcmpMatch {
    /// Every message.
    pub const ANY: IcmpMatch = IcmpMatch { kind: None, code: None };

    /// Whether messages of this type and code match.
    pub fn contains(self, kind: u8, code: u8) -> bool {
        let IcmpMatch { kind: own_kind, code: own_code } = self;
        own_kind.is_none_or(|own| own == kind) && own_code.is_none_or(|own| own == code)
    }
}

impl fmt::Display for IcmpMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, self.code) {
            (None, None) => f.write_str("any icmp"),
            (None, Some(code)) => write!(f, "icmp with code {code}"),
            (Some(kind), None) => write!(f, "icmp/{kind}"),
            (Some(kind), Some(code)) => write!(f, "icmp/{kind}/{code}"),
        }
    }
}

// === impl Layer7 ===

impl fmt::Display for Layer7 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layer7::Http { host, method, path } => {
                f.write_str("HTTP")?;
                for part in [method, path].into_iter().flatten() {
                    write!(f, " {part}")?;
                }
                host.as_ref().map_or(Ok(()), |host| write!(f, " to {host}"))
            }
            Layer7::Tls { sni: Some(name) } => write!(f, "TLS to {name}"),
            Layer7::Tls { sni: None } => f.write_str("TLS"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_and_code_of_icmp_are_independent() {
        let icmp = |kind, code| IcmpMatch { kind, code };
        let cases = [
            (IcmpMatch::ANY, "any icmp", [true, true, true, true]),
            (icmp(Some(8), None), "icmp/8", [true, true, false, false]),
            (icmp(None, Some(255)), "icmp with code 255", [false, true, false, true]),
            (icmp(Some(8), Some(255)), "icmp/8/255", [false, true, false, false]),
        ];
        for (wanted, words, matches) in cases {
            assert_eq!(wanted.to_string(), words);
            let messages = [(8, 0), (8, 255), (13, 0), (13, 255)];
            assert_eq!(messages.map(|(kind, code)| wanted.contains(kind, code)), matches, "{words}");
        }
    }
}
