//! Protocols, ports, and the traffic of one connection with its text form (`tcp/80`, `icmp/8/0`).

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// What the APIs can tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
    /// ICMP, and ICMPv6 on IPv6.
    Icmp,
    /// IGMP, by which hosts join multicast groups.
    Igmp,
}

/// Ports from first to last, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRange {
    /// The first port of the range.
    pub first: u16,
    /// The last port of the range.
    pub last: u16,
}

/// What one connection carries: the protocol and, depending on it, ports or an ICMP type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Traffic {
    /// The protocol.
    pub protocol: Protocol,
    /// The destination's port, for protocols with ports.
    pub port: u16,
    /// The source's port, where the question names one.
    pub source_port: Option<u16>,
    /// Type and code, for ICMP, and the type for IGMP, where the question names them.
    pub icmp: Option<(u8, Option<u8>)>,
}

/// A traffic text that says nothing. Not retryable: the text is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TrafficError {
    /// The protocol is none of ours.
    #[error(
        "unknown protocol {0:?}: expected tcp/PORT, udp/PORT, sctp/PORT, icmp[/TYPE[/CODE]] or igmp[/TYPE]"
    )]
    Protocol(String),
    /// The right thing in another form.
    #[error("{0:?} is no traffic: write {1}")]
    Form(String, String),
    /// No port, or not a number from 1 to 65535.
    #[error("{0:?} is not a port: expected a number from 1 to 65535, as in {1}/80")]
    Port(String, Protocol),
    /// Not a number from 0 to 255.
    #[error("{0:?} is not an ICMP or IGMP type or code: expected a number from 0 to 255")]
    Icmp(String),
    /// More text than a traffic has.
    #[error("cannot read {0:?} after the traffic: expected nothing, or `sport PORT`")]
    Trailing(String),
    /// No text.
    #[error("the traffic is missing: add for example tcp/80")]
    Missing,
}

// === impl Protocol ===

impl Protocol {
    /// Whether it has ports.
    pub fn has_ports(self) -> bool {
        !matches!(self, Protocol::Icmp | Protocol::Igmp)
    }

    /// The name as Kubernetes writes it.
    pub fn as_kubernetes(self) -> &'static str {
        match self {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Sctp => "SCTP",
            Protocol::Icmp => "ICMP",
            Protocol::Igmp => "IGMP",
        }
    }

    /// From the name as Kubernetes writes it; it is case-sensitive there.
    pub fn from_kubernetes(text: &str) -> Option<Self> {
        [Protocol::Tcp, Protocol::Udp, Protocol::Sctp]
            .into_iter()
            .find(|protocol| protocol.as_kubernetes() == text)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Sctp => "sctp",
            Protocol::Icmp => "icmp",
            Protocol::Igmp => "igmp",
        })
    }
}

// === impl PortRange ===

impl PortRange {
    /// Every port.
    pub const ALL: PortRange = PortRange { first: 0, last: u16::MAX };

    /// The ports that a host opens connections from, unless told otherwise: Linux's own default.
    pub const EPHEMERAL: PortRange = PortRange { first: 32768, last: 60999 };

    /// One port.
    pub fn single(port: u16) -> Self {
        PortRange { first: port, last: port }
    }

    /// Whether the port is in it.
    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortRange { first, last } if first == last => write!(f, "{first}"),
            PortRange { first, last } => write!(f, "{first}-{last}"),
        }
    }
}

// === impl Traffic ===

impl Traffic {
    /// A connection to a port.
    pub fn new(protocol: Protocol, port: u16) -> Self {
        Traffic { protocol, port, source_port: None, icmp: None }
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.protocol, self.icmp) {
            (protocol, _) if protocol.has_ports() => write!(f, "{protocol}/{}", self.port),
            (protocol, None) => write!(f, "{protocol}"),
            (protocol, Some((kind, None))) => write!(f, "{protocol}/{kind}"),
            (protocol, Some((kind, Some(code)))) => write!(f, "{protocol}/{kind}/{code}"),
        }?;
        match self.source_port {
            Some(port) => write!(f, " sport {port}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Traffic {
    type Err = TrafficError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = text.split_whitespace();
        let first = words.next().ok_or(TrafficError::Missing)?;
        let mut parts = first.split('/');
        let name = parts.next().unwrap_or("");
        let protocol = match name.to_ascii_lowercase().as_str() {
            "tcp" => Protocol::Tcp,
            "udp" => Protocol::Udp,
            "sctp" => Protocol::Sctp,
            "icmp" => Protocol::Icmp,
            "igmp" => Protocol::Igmp,
            _ => return Err(TrafficError::protocol(name)),
        };
        let mut traffic = Traffic::new(protocol, 0);
        if protocol.has_ports() {
            traffic.port = port(parts.next().unwrap_or(""), protocol)?;
        } else if let Some(kind) = parts.next() {
            let code = match protocol {
                Protocol::Icmp => parts.next().map(icmp_number).transpose()?,
                _ => None,
            };
            traffic.icmp = Some((icmp_number(kind)?, code));
        }
        if let Some(rest) = parts.next() {
            return Err(TrafficError::Trailing(rest.to_owned()));
        }
        match (words.next(), words.next(), words.next()) {
            (None, ..) => {}
            (Some("sport"), Some(number), None) if protocol.has_ports() => {
                traffic.source_port = Some(port(number, protocol)?);
            }
            (Some(word), ..) => return Err(TrafficError::Trailing(word.to_owned())),
        }
        Ok(traffic)
    }
}

impl TrafficError {
    /// For a word that is no protocol: `tcp:80` and `80` are nearly right.
    fn protocol(text: &str) -> Self {
        let form = |right: String| TrafficError::Form(text.to_owned(), right);
        match text.split_once([':', '-']) {
            Some((protocol, port)) if !protocol.is_empty() && port.parse::<u16>().is_ok() => {
                form(format!("{}/{port}", protocol.to_ascii_lowercase()))
            }
            _ if text.parse::<u16>().is_ok() => form(format!("tcp/{text} or udp/{text}")),
            _ => TrafficError::Protocol(text.to_owned()),
        }
    }
}

fn port(text: &str, protocol: Protocol) -> Result<u16, TrafficError> {
    match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(TrafficError::Port(text.to_owned(), protocol)),
    }
}

fn icmp_number(text: &str) -> Result<u8, TrafficError> {
    text.parse().map_err(|_| TrafficError::Icmp(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! reads {
        ($($text:literal => $display:literal;)*) => {
            #[test]
            fn reads() {
                $(assert_eq!($text.parse::<Traffic>().map(|t| t.to_string()), Ok($display.to_owned()));)*
            }
        };
    }

    reads! {
        "tcp/80" => "tcp/80";
        "UDP/53" => "udp/53";
        "sctp/9003 sport 5000" => "sctp/9003 sport 5000";
        "icmp" => "icmp";
        "icmp/8" => "icmp/8";
        "icmp/3/1" => "icmp/3/1";
        "igmp/17" => "igmp/17";
    }

    #[test]
    fn what_is_nearly_right_is_put_right() {
        let says = |text: &str| text.parse::<Traffic>().unwrap_err().to_string();
        assert_eq!(says("TCP:80"), "\"TCP:80\" is no traffic: write tcp/80");
        assert_eq!(says("80"), "\"80\" is no traffic: write tcp/80 or udp/80");
    }

    #[test]
    fn refuses() {
        for text in [
            "",
            "tcp",
            "tcp/0",
            "tcp/65536",
            "tcp/http",
            "tcp/80/x",
            "icmp/256",
            "igmp/17/0",
            "gre",
            "tcp/80 sport",
            "icmp sport 5",
            "tcp/80 sport 1 2",
        ] {
            assert!(text.parse::<Traffic>().is_err(), "{text:?}");
        }
    }
}
