//! The text of a query: `SOURCE -> DESTINATION [TRAFFIC] [is empty|is full]`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use palisade_model::flow::Glob;
use palisade_model::label::{Operator, Requirement, Selector};
use palisade_model::traffic::{PortRange, Protocol};
use smol_str::SmolStr;
use thiserror::Error;

/// A question about all connections between two sorts of endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Who opens them.
    pub source: Ends,
    /// Who receives them.
    pub destination: Ends,
    /// What they carry; anything where nothing is named.
    pub traffic: Vec<(Protocol, PortRange)>,
    /// What must hold; a query without is only answered.
    pub must: Option<Must>,
    /// As written.
    pub text: String,
}

/// What must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Must {
    /// Nothing of it is let through.
    BeEmpty,
    /// All of it is.
    BeFull,
}

/// Endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ends {
    /// Pods: their namespace, and their name or their workload's, and their labels.
    Pods {
        /// The namespace.
        namespace: Glob,
        /// The name of the pod, or of what made it.
        name: Glob,
        /// The labels.
        selector: Selector,
    },
    /// Every address outside of the cluster.
    Internet,
    /// Addresses outside, first and last.
    Addresses(IpAddr, IpAddr),
    /// A node.
    Node(SmolStr),
}

/// A query that cannot be read. Not retryable: the text is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QueryError {
    /// No arrow.
    #[error("a query is SOURCE -> DESTINATION [TRAFFIC] [is empty|is full]; {0:?} has neither -> nor <-")]
    Arrow(String),
    /// An end that is none of the forms.
    #[error(
        "{0:?} is no endpoint: expected namespace/name, ns:namespace, labels as app=web or namespace/app=web, internet, \
         ip:ADDRESS or ip:CIDR, or node:NAME"
    )]
    End(String),
    /// Traffic that is none.
    #[error(
        "{0:?} is no traffic: expected tcp/PORT, tcp/FROM-TO, tcp, udp, sctp or icmp, separated by commas"
    )]
    Traffic(String),
    /// A verb that is none.
    #[error("{0:?} cannot be asserted: expected `is empty` or `is full`")]
    Verb(String),
}

impl FromStr for Query {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (left, right, backwards) = match (text.split_once("->"), text.split_once("<-")) {
            (Some((left, right)), _) => (left, right, false),
            (None, Some((left, right))) => (left, right, true),
            (None, None) => return Err(QueryError::Arrow(text.to_owned())),
        };
        let (right, must) = verb(right.trim())?;
        // Labels may have blanks in their lists: `app in (a, b)`.
        let (end, traffic) = split_end(right);
        let (left, right): (Ends, Ends) = (left.trim().parse()?, end.parse()?);
        let (source, destination) = if backwards { (right, left) } else { (left, right) };
        Ok(Query { source, destination, traffic: traffics(traffic)?, must, text: text.trim().to_owned() })
    }
}

/// Takes the verb off the end: `is empty`, `must be full`, `empty`.
fn verb(text: &str) -> Result<(&str, Option<Must>), QueryError> {
    let (rest, must) = match text.rsplit_once(char::is_whitespace) {
        Some((rest, "empty")) => (rest.trim_end(), Must::BeEmpty),
        Some((rest, "full")) => (rest.trim_end(), Must::BeFull),
        _ => match text.rsplit_once(" is ").or_else(|| text.rsplit_once(" must be ")) {
            Some((_, wrong)) => return Err(QueryError::Verb(wrong.to_owned())),
            None => return Ok((text, None)),
        },
    };
    let rest = rest.strip_suffix(" must be").or_else(|| rest.strip_suffix(" is")).unwrap_or(rest);
    Ok((rest.trim_end(), Some(must)))
}

/// Where an end is over and the traffic begins: at the last blank outside of parentheses, if a protocol follows.
fn split_end(text: &str) -> (&str, &str) {
    let mut depth = 0_u32;
    let mut places = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            c if c.is_whitespace() && depth == 0 => places.push(at),
            _ => {}
        }
    }
    for at in places {
        let rest = text[at..].trim_start();
        let name = rest.split(['/', ',', ' ']).next().unwrap_or_default().to_ascii_lowercase();
        if matches!(name.as_str(), "tcp" | "udp" | "sctp" | "icmp" | "any") {
            return (text[..at].trim_end(), rest);
        }
    }
    (text, "")
}

fn traffics(text: &str) -> Result<Vec<(Protocol, PortRange)>, QueryError> {
    if text.is_empty() || text == "any" {
        return Ok(Vec::new());
    }
    text.split([',', ' ']).filter(|one| !one.is_empty()).map(traffic).collect()
}

fn traffic(text: &str) -> Result<(Protocol, PortRange), QueryError> {
    let wrong = || QueryError::Traffic(text.to_owned());
    let (protocol, ports) = match text.split_once('/') {
        Some((protocol, ports)) => (protocol, Some(ports)),
        None => (text, None),
    };
    let protocol = match protocol.to_ascii_lowercase().as_str() {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        "sctp" => Protocol::Sctp,
        "icmp" if ports.is_none() => return Ok((Protocol::Icmp, PortRange::ALL)),
        _ => return Err(wrong()),
    };
    let Some(ports) = ports else { return Ok((protocol, PortRange::ALL)) };
    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(wrong);
    let (first, last) = (port(first)?, port(last)?);
    if first > last { Err(wrong()) } else { Ok((protocol, PortRange { first, last })) }
}

impl FromStr for Ends {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || QueryError::End(text.to_owned());
        let glob = |text: &str| text.parse::<Glob>().map_err(|_| wrong());
        let any = || glob("*");
        if matches!(text, "internet" | "outside") {
            return Ok(Ends::Internet);
        }
        if let Some(addresses) = text.strip_prefix("ip:") {
            let address = addresses.parse::<IpAddr>().map(|address| (address, address));
            let block = || {
                addresses
                    .parse::<ipnet::IpNet>()
                    .map(|net| net.trunc())
                    .map(|net| (net.network(), net.broadcast()))
            };
            let (first, last) = address.or_else(|_| block()).map_err(|_| wrong())?;
            return Ok(Ends::Addresses(first, last));
        }
        if let Some(name) = text.strip_prefix("node:") {
            return if name.is_empty() { Err(wrong()) } else { Ok(Ends::Node(name.into())) };
        }
        let everything = Selector::everything;
        let named = text.strip_prefix("ns:");
        if let Some(namespace) = named.filter(|rest| !rest.contains('/')) {
            return Ok(Ends::Pods { namespace: glob(namespace)?, name: any()?, selector: everything() });
        }
        let text = named.unwrap_or(text);
        // A label's key may have a slash: what comes before the first one is a namespace only if a name can be.
        let split = text.split_once('/').filter(|(head, _)| !head.contains(['.', '=', '!', ' ', '(']));
        match split {
            Some((namespace, rest)) if is_selector(rest) => Ok(Ends::Pods {
                namespace: glob(namespace)?,
                name: any()?,
                selector: selector(rest).ok_or_else(wrong)?,
            }),
            Some((namespace, name)) => {
                Ok(Ends::Pods { namespace: glob(namespace)?, name: glob(name)?, selector: everything() })
            }
            None if is_selector(text) => Ok(Ends::Pods {
                namespace: any()?,
                name: any()?,
                selector: selector(text).ok_or_else(wrong)?,
            }),
            None => Err(wrong()),
        }
    }
}

fn is_selector(text: &str) -> bool {
    text.contains(['=', '(', '!'])
}

/// A selector as kubectl writes it: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
fn selector(text: &str) -> Option<Selector> {
    let mut requirements = Vec::new();
    let (mut depth, mut start) = (0_u32, 0);
    let mut parts = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    for part in parts {
        requirements.push(requirement(part.trim())?);
    }
    (depth == 0).then(|| Selector::new(requirements))
}

fn requirement(text: &str) -> Option<Requirement> {
    let key = |text: &str| {
        let text = text.trim();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        (!text.is_empty() && text.chars().all(plain)).then(|| SmolStr::from(text))
    };
    let list = |text: &str| -> Option<Vec<SmolStr>> {
        let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
        inner.split(',').map(|value| Some(SmolStr::from(value.trim()))).collect()
    };
    if let Some((name, value)) = text.split_once("!=") {
        return Some(Requirement::new(key(name)?, Operator::NotIn(vec![value.trim().into()])));
    }
    if let Some((name, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Some(Requirement::new(key(name)?, Operator::In(vec![value.trim().into()])));
    }
    if let Some((name, values)) = text.split_once(" notin ") {
        return Some(Requirement::new(key(name)?, Operator::NotIn(list(values)?)));
    }
    if let Some((name, values)) = text.split_once(" in ") {
        return Some(Requirement::new(key(name)?, Operator::In(list(values)?)));
    }
    match text.strip_prefix('!') {
        Some(name) => Some(Requirement::new(key(name)?, Operator::DoesNotExist)),
        None => Some(Requirement::new(key(text)?, Operator::Exists)),
    }
}

impl fmt::Display for Must {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Must::BeEmpty => "empty",
            Must::BeFull => "full",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn reads_what_people_write() {
        let one = query("ns:payments/* <- internet is empty");
        assert_eq!((one.source, one.must), (Ends::Internet, Some(Must::BeEmpty)));
        assert!(matches!(one.destination, Ends::Pods { .. }));
        let two = query("app=web -> app=db tcp/5432 must be full");
        assert_eq!(two.traffic, [(Protocol::Tcp, PortRange::single(5432))]);
        assert_eq!(two.must, Some(Must::BeFull));
        let three = query("shop/app in (web, api) -> ip:10.0.0.0/8 tcp/80-90,udp");
        assert_eq!(three.traffic.len(), 2);
        assert_eq!(three.must, None);
        assert_eq!(
            three.destination,
            Ends::Addresses("10.0.0.0".parse().unwrap(), "10.255.255.255".parse().unwrap())
        );
        assert!(matches!(query("ns:shop -> node:worker").destination, Ends::Node(_)));
        let keyed = query("app.kubernetes.io/name=web -> shop/db icmp");
        assert!(matches!(keyed.source, Ends::Pods { ref selector, .. } if !selector.is_everything()));
    }

    #[test]
    fn refuses_what_says_nothing() {
        for text in [
            "",
            "a/b",
            "a/b -> c",
            "a/b -> c/d is shiny",
            "a/b -> c/d tcp/0",
            "a/b -> c/d tcp/9-1",
            "ip:x -> a/b",
            "node: -> a/b",
            "app in (a -> a/b",
            "a b=c -> a/b",
        ] {
            assert!(text.parse::<Query>().is_err(), "{text:?}");
        }
    }
}
