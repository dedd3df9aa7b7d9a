//! The text of a query: `SOURCE -> DESTINATION [TRAFFIC] [is empty|is not empty|is full]`.

use std::fmt;
use std::str::FromStr;

use palisade_model::traffic::{PortRange, Protocol};
use thiserror::Error;

use super::Ends;

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
    /// The two ends as written, the source first.
    pub ends: [String; 2],
    /// As written.
    pub text: String,
}

/// What must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Must {
    /// Nothing of it is let through.
    BeEmpty,
    /// Some of it is.
    NotBeEmpty,
    /// All of it is.
    BeFull,
}

/// A query that cannot be read. Not retryable: the text is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QueryError {
    /// No arrow.
    #[error("a query is SOURCE -> DESTINATION [TRAFFIC] [{ASSERTIONS}]; {0:?} has neither -> nor <-")]
    Arrow(String),
    /// An end that is none of the forms.
    #[error(
        "{0:?} is no endpoint: expected namespace/name, ns:namespace, labels as app=web or namespace/app=web, internet, \
         ip:ADDRESS or ip:CIDR, or node:NAME"
    )]
    End(String),
    /// An address without `ip:`.
    #[error("{0:?} is an address: write ip:{0}")]
    BareAddress(String),
    /// A service.
    #[error(
        "{0:?} is a Service: a query is about pods and addresses themselves; write who serves it, as in shop/web or \
         shop/app=web, and the port that they listen on"
    )]
    Service(String),
    /// Traffic that is none.
    #[error("{}", no_traffic(.0))]
    Traffic(String),
    /// Traffic before the arrow.
    #[error("{0:?} stands before the arrow: traffic comes last, as in shop/web -> shop/db tcp/5432 is full")]
    Early(String),
    /// A verb that is none.
    #[error("{0:?} cannot be asserted: expected {VERBS}")]
    Verb(String),
}

/// What can be asserted, as a form and in words.
const ASSERTIONS: &str = "is empty|is not empty|is full";
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
        let (right, must) = verb(right.trim())?;
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
        Ok(Query { source, destination, traffic, must, ends, text: text.trim().to_owned() })
    }
}

/// What stands before and after the first arrow, and whether it points to the left.
fn arrow(text: &str) -> Option<(&str, &str, bool)> {
    let arrows = [("->", false), ("→", false), ("<-", true), ("←", true)];
    let found = arrows.iter().filter_map(|(arrow, backwards)| Some((text.find(arrow)?, *arrow, *backwards)));
    let (at, arrow, backwards) = found.min()?;
    Some((&text[..at], &text[at + arrow.len()..], backwards))
}

/// Takes the verb off the end: `is empty`, `is not empty`, `must be full`, `empty`.
fn verb(text: &str) -> Result<(&str, Option<Must>), QueryError> {
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
        (false, None) => Ok((rest, Some(Must::BeEmpty))),
        (false, Some(_)) => Ok((rest, Some(Must::NotBeEmpty))),
        (true, None) => Ok((rest, Some(Must::BeFull))),
        (true, Some(_)) => Err(QueryError::Verb("not full".to_owned())),
    }
}

/// An end, and the traffic that comes after it: at a blank outside of parentheses, where a protocol follows. Labels may
/// have blanks, too: `app in (a, b)`.
fn split_end(text: &str) -> Result<(Ends, &str), QueryError> {
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
    for at in &places {
        let rest = text[*at..].trim_start();
        let name = rest.split(['/', ',', ' ']).next().unwrap_or_default().to_ascii_lowercase();
        if matches!(name.as_str(), "tcp" | "udp" | "sctp" | "icmp" | "any") {
            return Ok((text[..*at].trim_end().parse()?, rest));
        }
    }
    // Where what comes before a blank is an end, and all of it is none, the rest was meant to be traffic.
    let is_end = |at: &&usize| text[..**at].trim_end().parse::<Ends>().is_ok();
    text.parse().map(|end| (end, "")).map_err(|error| match places.iter().rev().find(is_end) {
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

// === impl Must ===

impl fmt::Display for Must {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Must::BeEmpty => "empty",
            Must::NotBeEmpty => "not empty",
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
        assert_eq!(query("a/b → c/d").destination, query("a/b -> c/d").destination);
        assert_eq!(query("a/b ← c/d").source, query("a/b <- c/d").source);
        assert_eq!(query("ns:a <- ip:[::1] udp").ends, ["ip:[::1]", "ns:a"]);
        for (text, must) in [
            ("is empty", Must::BeEmpty),
            ("must be empty", Must::BeEmpty),
            ("empty", Must::BeEmpty),
            ("is not empty", Must::NotBeEmpty),
            ("must not be empty", Must::NotBeEmpty),
            ("is full", Must::BeFull),
        ] {
            let asked = query(&format!("a/b -> c/d tcp/80 {text}"));
            assert_eq!((asked.must, asked.traffic.len()), (Some(must), 1), "{text}");
            assert_eq!(asked.ends, ["a/b", "c/d"]);
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
