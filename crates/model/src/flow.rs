//! One connection, and the text that asks about it: `SOURCE -> DESTINATION TRAFFIC`.
//!
//! A [`FlowPattern`] is what a person writes (with wildcards, workload and service names); a [`Flow`] is one concrete
//! connection between two parties of a snapshot. [`crate::snapshot::Snapshot::flows`] goes from the first to the second.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use smol_str::SmolStr;
use thiserror::Error;

use crate::traffic::{Traffic, TrafficError};

/// One concrete connection in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// Who opens it.
    pub source: Party,
    /// Who receives it, after service translation.
    pub destination: Party,
    /// What it carries; the port is the one after service translation.
    pub traffic: Traffic,
    /// The service it went through: its place in the snapshot.
    pub via: Option<usize>,
}

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Party {
    /// Who it is.
    pub who: Who,
    /// The address it uses; a pod that has not started has none.
    pub address: Option<IpAddr>,
}

/// Who stands at one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// A pod, by its place in the snapshot.
    Pod(usize),
    /// A node, by its place in the snapshot.
    Node(usize),
    /// Nobody we know: an address outside.
    Outside,
}

/// The question as written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowPattern {
    /// Who opens the connection.
    pub source: EndpointPattern,
    /// Who receives it.
    pub destination: EndpointPattern,
    /// What it carries.
    pub traffic: Traffic,
}

/// One end as written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndpointPattern {
    /// `namespace/pod`, either with wildcards.
    Pods {
        /// The namespace.
        namespace: Glob,
        /// The pod's name, or its workload's.
        name: Glob,
    },
    /// `ip:ADDRESS`.
    Address(IpAddr),
    /// `node:NAME`.
    Node(SmolStr),
    /// `svc:namespace/name`.
    Service {
        /// The namespace.
        namespace: SmolStr,
        /// The name.
        name: SmolStr,
    },
}

/// A name, in which a `*` may stand for all of it or end it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Glob {
    stem: SmolStr,
    open: bool,
}

/// A flow text that cannot be read. Not retryable: the text is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FlowError {
    /// No arrow.
    #[error(
        "a flow is SOURCE -> DESTINATION TRAFFIC, as in \"shop/web -> shop/db tcp/5432\"; {0:?} has no ->"
    )]
    Arrow(String),
    /// An end that is none of the forms.
    #[error(
        "{0:?} is no endpoint: expected namespace/pod, ip:ADDRESS, node:NAME or (as destination) svc:namespace/name"
    )]
    Endpoint(String),
    /// An address without `ip:`.
    #[error("{0:?} is an address: write ip:{0}")]
    BareAddress(String),
    /// `ip:` with something else behind it.
    #[error("{0:?} is not an IP address")]
    Address(String),
    /// A wildcard in the middle.
    #[error("in {0:?} the * stands in the middle: it may stand alone or at the end of a name")]
    Glob(String),
    /// A service as source.
    #[error("a service cannot open a connection: svc: is for the destination")]
    ServiceSource,
    /// The traffic.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
}

// === impl Glob ===

impl Glob {
    /// Whether the name is meant.
    pub fn matches(&self, name: &str) -> bool {
        if self.open { name.starts_with(self.stem.as_str()) } else { self.stem == name }
    }

    /// Whether it can stand for several names.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// The name, where it is exactly one.
    pub fn exact(&self) -> Option<&str> {
        (!self.open).then_some(self.stem.as_str())
    }
}

impl FromStr for Glob {
    type Err = FlowError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (stem, open) = match text.strip_suffix('*') {
            Some(stem) => (stem, true),
            None => (text, false),
        };
        if stem.contains('*') {
            return Err(FlowError::Glob(text.to_owned()));
        }
        if stem.is_empty() && !open {
            return Err(FlowError::Endpoint(text.to_owned()));
        }
        Ok(Glob { stem: stem.into(), open })
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.stem, if self.open { "*" } else { "" })
    }
}

// === impl EndpointPattern ===

impl EndpointPattern {
    /// Whether it can stand for several endpoints because of a `*`.
    pub fn is_open(&self) -> bool {
        matches!(self, EndpointPattern::Pods { namespace, name } if namespace.is_open() || name.is_open())
    }
}

impl FromStr for EndpointPattern {
    type Err = FlowError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || match text.parse::<IpAddr>() {
            Ok(_) => FlowError::BareAddress(text.to_owned()),
            Err(_) => FlowError::Endpoint(text.to_owned()),
        };
        if let Some(address) = text.strip_prefix("ip:") {
            let bare = address.strip_prefix('[').and_then(|a| a.strip_suffix(']')).unwrap_or(address);
            let address: IpAddr = bare.parse().map_err(|_| FlowError::Address(address.to_owned()))?;
            return Ok(EndpointPattern::Address(address.to_canonical()));
        }
        if let Some(name) = text.strip_prefix("node:") {
            return if name.is_empty() { Err(malformed()) } else { Ok(EndpointPattern::Node(name.into())) };
        }
        let (service, path) = match text.strip_prefix("svc:") {
            Some(path) => (true, path),
            None => (false, text),
        };
        let (namespace, name) = path.split_once('/').ok_or_else(malformed)?;
        if namespace.is_empty() || name.is_empty() || name.contains('/') || path.contains(':') {
            return Err(malformed());
        }
        if service {
            if path.contains('*') {
                return Err(FlowError::Glob(text.to_owned()));
            }
            return Ok(EndpointPattern::Service { namespace: namespace.into(), name: name.into() });
        }
        Ok(EndpointPattern::Pods { namespace: namespace.parse()?, name: name.parse()? })
    }
}

impl fmt::Display for EndpointPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndpointPattern::Pods { namespace, name } => write!(f, "{namespace}/{name}"),
            EndpointPattern::Address(address) => write!(f, "ip:{address}"),
            EndpointPattern::Node(name) => write!(f, "node:{name}"),
            EndpointPattern::Service { namespace, name } => write!(f, "svc:{namespace}/{name}"),
        }
    }
}

// === impl FlowPattern ===

impl FlowPattern {
    /// Whether an end is an address, so that the question is about that address and no other of the same endpoint.
    pub fn names_an_address(&self) -> bool {
        [&self.source, &self.destination].into_iter().any(|end| matches!(end, EndpointPattern::Address(_)))
    }
}

impl FromStr for FlowPattern {
    type Err = FlowError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (source, rest) = text
            .split_once("->")
            .or_else(|| text.split_once('→'))
            .ok_or_else(|| FlowError::Arrow(text.to_owned()))?;
        let rest = rest.trim();
        let (destination, traffic) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let source: EndpointPattern = source.trim().parse()?;
        if matches!(source, EndpointPattern::Service { .. }) {
            return Err(FlowError::ServiceSource);
        }
        Ok(FlowPattern { source, destination: destination.parse()?, traffic: traffic.parse()? })
    }
}

impl fmt::Display for FlowPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {} {}", self.source, self.destination, self.traffic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! reads {
        ($($text:literal => $display:literal;)*) => {
            #[test]
            fn reads() {
                $(assert_eq!($text.parse::<FlowPattern>().map(|t| t.to_string()), Ok($display.to_owned()));)*
            }
        };
    }

    reads! {
        "x/a -> y/b tcp/80" => "x/a -> y/b tcp/80";
        "*/* -> x/web-* udp/53" => "*/* -> x/web-* udp/53";
        "ip:203.0.113.7->x/a   icmp/8" => "ip:203.0.113.7 -> x/a icmp/8";
        "ip:2001:db8::7 → node:n1 sctp/9003 sport 5" => "ip:2001:db8::7 -> node:n1 sctp/9003 sport 5";
        "x/a -> svc:y/db tcp/5432" => "x/a -> svc:y/db tcp/5432";
        "ip:[::ffff:10.0.0.1] -> x/a tcp/1" => "ip:10.0.0.1 -> x/a tcp/1";
    }

    #[test]
    fn refuses() {
        for text in [
            "",
            "x/a y/b tcp/80",
            "x/a -> y/b",
            "x -> y/b tcp/80",
            "x/a/b -> y/b tcp/80",
            "ip:1.2.3 -> y/b tcp/80",
            "node: -> y/b tcp/80",
            "svc:x/a -> y/b tcp/80",
            "x/a*b -> y/b tcp/80",
            "x/a -> svc:y/* tcp/80",
            "/a -> y/b tcp/80",
            "x/ -> y/b tcp/80",
            "foo:x/a -> y/b tcp/80",
        ] {
            assert!(text.parse::<FlowPattern>().is_err(), "{text:?}");
        }
    }
}
