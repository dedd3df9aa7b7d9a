//! Parser of queries: `SOURCE -> DESTINATION [TRAFFIC] [is empty|is not empty|is full]`.

use std::fmt;
use std::str::FromStr;

use palisade_model::traffic::{PortRange, Protocol};
use thiserror::Error;

use super::QueryEndpoints;

/// A query about all connections between two sets of endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Endpoints that open connections.
    pub source: QueryEndpoints,
    /// Endpoints that receive them.
    pub destination: QueryEndpoints,
    /// Protocols and ports; all when empty.
    pub traffic: Vec<(Protocol, PortRange)>,
    /// Assertion to check; a query without one is only answered.
    pub assertion: Option<Assertion>,
    /// The two ends as written, the source first.
    pub ends: [String; 2],
    /// The whole query as written.
    pub text: String,
}

/// Assertion of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assertion {
    /// Nothing is allowed.
    BeEmpty,
    /// Something is allowed.
    NotBeEmpty,
    /// Everything is allowed.
    BeFull,
}

/// Syntax error of a query. Not retryable: the text is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QueryError {
    /// There is no arrow.
    #[error("a query is SOURCE -> DESTINATION [TRAFFIC] [{ASSERTIONS}]; {0:?} has neither -> nor <-")]
    Arrow(String),
    /// An end of no known form.
    #[error(
        "{0:?} is no endpoint: expected namespace/name, ns:namespace, labels as app=web or namespace/app=web, internet, \
         ip:ADDRESS or ip:CIDR, or node:NAME"
    )]
    End(String),
    /// An address without `ip:`.
    #[error("{0:?} is an address: write ip:{0}")]
    BareAddress(String),
    /// A service as an end.
    #[error(
        "{0:?} is a Service: a query is about pods and addresses themselves; write who serves it, as in shop/web or \
         shop/app=web, and the port that they listen on"
    )]
    Service(String),
    /// Invalid traffic.
    #[error("{}", no_traffic(.0))]
    Traffic(String),
    /// Traffic before the arrow.
    #[error("{0:?} stands before the arrow: traffic comes last, as in shop/web -> shop/db tcp/5432 is full")]
    Early(String),
    /// An unknown assertion.
    #[error("{0:?} cannot be asserted: expected {VERBS}")]
    Verb(String),
}

/// Syntax of assertions.
const ASSERTIONS: &str = "is empty|is not empty|is full";
/// List of assertions for messages.
const VERBS: &str = "`is empty`, `is not empty` or `is full`";

fn no_traffic(text: &str) -> String {
    let expected = "expected tcp/PORT, tcp/FROM-TO, tcp, udp, sctp or icmp, separated by commas";
    let help = match text {
        _ if text.starts_with(|c: char| c.is_ascii_digit()) => format!("write tcp/{text}"),
        _ if text.eq_ignore_ascii_case("igmp") || text.to_ascii_lowercase().starts_with("igmp/") => {
            format!("a query is about connections; {expected}")
        }
        _ => expected.to_owned(),
    };
    format!("{text:?} is no traffic: {help}; what can be asserted is {VERBS}")
}

// === impl Query ===

impl FromStr for Query {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (left, right, backwards) = arrow(text).ok_or_else(|| QueryError::Arrow(text.to_owned()))?;
        let (right, assertion) = verb(right.trim())?;
        let (first, before) = split_end(left.trim())?;
        let (second, after) = split_end(right)?;
        if !before.is_empty() {
            return Err(QueryError::Early(before.to_owned()));
        }
        let traffic = traffics(after)?;
        let ends = [left.trim(), right[..right.len() - after.len()].trim_end()].map(ToOwned::to_owned);
        let [one, other] = ends;
        let (source, destination, ends) = match backwards {
            true => (second, first, [other, one]),
            false => (first, second, [one, other]),
        };
        Ok(Query { source, destination, traffic, assertion, ends, text: text.trim().to_owned() })
    }
}

/// Splits a text at its first arrow, and returns whether it points to the left.
fn arrow(text: &str) -> Option<(&str, &str, bool)> {
    let arrows = [("->", false), ("→", false), ("<-", true), ("←", true)];
    let found = arrows.iter().filter_map(|(arrow, backwards)| Some((text.find(arrow)?, *arrow, *backwards)));
    let (at, arrow, backwards) = found.min()?;
    Some((&text[..at], &text[at + arrow.len()..], backwards))
}

/// Strips the assertion from the end: `is empty`, `is not empty`, `must be full`, `empty`.
fn verb(text: &str) -> Result<(&str, Option<Assertion>), QueryError> {
    let last = |text: &'_ str, word: &str| -> Option<usize> {
        let rest = text.strip_suffix(word)?;
        (rest.is_empty() || rest.ends_with(char::is_whitespace)).then(|| rest.trim_end().len())
    };
    let without = |text: &str, word: &str| last(text, word).unwrap_or(text.len());
    let (at, full) = match (last(text, "empty"), last(text, "full")) {
        (Some(at), _) => (at, false),
        (None, Some(at)) => (at, true),
        (None, None) => {
            let words = [" is ", " must be ", " must "];
            return match words.iter().find_map(|word| text.rsplit_once(word)) {
                Some((_, wrong)) => Err(QueryError::Verb(wrong.to_owned())),
                None => Ok((text, None)),
            };
        }
    };
    let rest = &text[..at];
    let rest = &rest[..without(rest, "be")];
    let negated = last(rest, "not");
    let rest = &rest[..negated.unwrap_or(rest.len())];
    let rest = &rest[..without(rest, "must")];
    let rest = &rest[..without(rest, "is")];
    match (full, negated) {
        (false, None) => Ok((rest, Some(Assertion::BeEmpty))),
        (false, Some(_)) => Ok((rest, Some(Assertion::NotBeEmpty))),
        (true, None) => Ok((rest, Some(Assertion::BeFull))),
        (true, Some(_)) => Err(QueryError::Verb("not full".to_owned())),
    }
}

/// Splits an end from the traffic behind it: at a blank outside of parentheses that a protocol follows. Labels may have
/// blanks, too: `app in (a, b)`.
fn split_end(text: &str) -> Result<(QueryEndpoints, &str), QueryError> {
    let mut depth = 0_u32;
    let mut blanks = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            c if c.is_whitespace() && depth == 0 => blanks.push(at),
            _ => {}
        }
    }
    for at in &blanks {
        let rest = text[*at..].trim_start();
        let name = rest.split(['/', ',', ' ']).next().unwrap_or_default().to_ascii_lowercase();
        if matches!(name.as_str(), "tcp" | "udp" | "sctp" | "icmp" | "any") {
            return Ok((text[..*at].trim_end().parse()?, rest));
        }
    }
    // If the text before a blank is an end and the whole text is not, the rest is invalid traffic.
    let is_end = |at: &&usize| text[..**at].trim_end().parse::<QueryEndpoints>().is_ok();
    text.parse().map(|end| (end, "")).map_err(|error| match blanks.iter().rev().find(is_end) {
        Some(at) => {
            let wrong = text[*at..].split([',', ' ']).find(|word| !word.is_empty()).unwrap_or_default();
            QueryError::Traffic(wrong.to_owned())
        }
        None => error,
    })
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

// === impl Assertion ===

impl fmt::Display for Assertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Assertion::BeEmpty => "empty",
            Assertion::NotBeEmpty => "not empty",
            Assertion::BeFull => "full",
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
        assert_eq!((one.source, one.assertion), (QueryEndpoints::Internet, Some(Assertion::BeEmpty)));
        assert!(matches!(one.destination, QueryEndpoints::Pods { .. }));
        let two = query("app=web -> app=db tcp/5432 must be full");
        assert_eq!(two.traffic, [(Protocol::Tcp, PortRange::single(5432))]);
        assert_eq!(two.assertion, Some(Assertion::BeFull));
        let three = query("shop/app in (web, api) -> ip:10.0.0.0/8 tcp/80-90,udp");
        assert_eq!(three.traffic.len(), 2);
        assert_eq!(three.assertion, None);
        assert_eq!(
            three.destination,
            QueryEndpoints::Addresses("10.0.0.0".parse().unwrap(), "10.255.255.255".parse().unwrap())
        );
        assert!(matches!(query("ns:shop -> node:worker").destination, QueryEndpoints::Node(_)));
        let keyed = query("app.kubernetes.io/name=web -> shop/db icmp");
        assert!(
            matches!(keyed.source, QueryEndpoints::Pods { ref selector, .. } if !selector.is_everything())
        );
        assert_eq!(query("a/b → c/d").destination, query("a/b -> c/d").destination);
        assert_eq!(query("a/b ← c/d").source, query("a/b <- c/d").source);
        assert_eq!(query("ns:a <- ip:[::1] udp").ends, ["ip:[::1]", "ns:a"]);
        for (text, assertion) in [
            ("is empty", Assertion::BeEmpty),
            ("must be empty", Assertion::BeEmpty),
            ("empty", Assertion::BeEmpty),
            ("is not empty", Assertion::NotBeEmpty),
            ("must not be empty", Assertion::NotBeEmpty),
            ("is full", Assertion::BeFull),
        ] {
            let queried = query(&format!("a/b -> c/d tcp/80 {text}"));
            assert_eq!((queried.assertion, queried.traffic.len()), (Some(assertion), 1), "{text}");
            assert_eq!(queried.ends, ["a/b", "c/d"]);
        }
    }

    #[test]
    fn says_what_to_write_instead() {
        for (text, says) in [
            (
                "a/b -> shop/db 80 is empty",
                "\"80\" is no traffic: write tcp/80; what can be asserted is `is empty`, `is not empty` or `is full`",
            ),
            ("a/b -> shop/db 80-90", "write tcp/80-90"),
            ("a/b -> app=db 80 is full", "write tcp/80"),
            ("a/b -> shop/app in (a, b) 80", "write tcp/80"),
            ("a/b -> c/d igmp is empty", "\"igmp\" is no traffic: a query is about connections"),
            ("a/b -> c/d http", "\"http\" is no traffic: expected tcp/PORT"),
            ("a/b -> svc:shop/db tcp/80 is empty", "\"svc:shop/db\" is a Service"),
            ("a/b -> svc:shop/db", "\"svc:shop/db\" is a Service"),
            ("a/b -> 10.0.0.1 is empty", "write ip:10.0.0.1"),
            ("a/b -> 10.0.0.0/8", "write ip:10.0.0.0/8"),
            ("a/b tcp/80 -> c/d", "traffic comes last"),
            (
                "a/b -> c/d is not full",
                "\"not full\" cannot be asserted: expected `is empty`, `is not empty` or `is full`",
            ),
            ("a/b -> c/d is shiny", "\"shiny\" cannot be asserted"),
            ("a/b c/d", "has neither -> nor <-"),
        ] {
            let error = text.parse::<Query>().expect_err(text).to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
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
