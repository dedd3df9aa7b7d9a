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
    /// The same, of connections that come from these source ports.
    From(PortRange, Box<TrafficMatch>),
    /// ICMP, with any type and code, or with these.
    Icmp(Option<u8>, Option<u8>),
    /// IGMP, of any type, or of this one, and about any group, or about this one.
    Igmp(Option<u8>, Option<IpAddr>),
    /// Something we cannot read, in the words for a trace. The whole rule fails closed: see [`super::Rule::unknown`].
    Unknown(String),
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
            TrafficMatch::From(_, of) => of.is_about(protocol),
            TrafficMatch::Icmp(..) => protocol == Protocol::Icmp,
            TrafficMatch::Igmp(..) => protocol == Protocol::Igmp,
            TrafficMatch::Unknown(_) => false,
        }
    }
}

impl fmt::Display for TrafficMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrafficMatch::Ports(protocol, PortRange::ALL) => write!(f, "any {protocol} port"),
            TrafficMatch::Ports(protocol, range) => write!(f, "{protocol}/{range}"),
            TrafficMatch::Named(Some(protocol), name) => write!(f, "{protocol}/{name}"),
            TrafficMatch::Named(None, name) => write!(f, "port {name}"),
            TrafficMatch::From(range, of) if range.first == range.last => {
                write!(f, "{of} from source port {range}")
            }
            TrafficMatch::From(range, of) => write!(f, "{of} from source ports {range}"),
            TrafficMatch::Icmp(None, _) => f.write_str("any icmp"),
            TrafficMatch::Icmp(Some(kind), None) => write!(f, "icmp/{kind}"),
            TrafficMatch::Icmp(Some(kind), Some(code)) => write!(f, "icmp/{kind}/{code}"),
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
