//! Ends of a query as written: pods by name or by labels, addresses, a node.

use std::net::IpAddr;
use std::str::FromStr;

use palisade_model::flow::Glob;
use palisade_model::label::{Operator, Requirement, Selector};
use smol_str::SmolStr;

use super::QueryError;

/// Endpoints that an end of a query selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryEndpoints {
    /// Pods, by namespace, name and labels.
    Pods {
        /// Pattern of the namespace.
        namespace: Glob,
        /// Pattern of the name of the pod, or of one of its controllers.
        name: Glob,
        /// Selector of the pod's labels.
        selector: Selector,
    },
    /// Every address outside of the cluster: not those of its pods and nodes.
    Internet,
    /// First and last address: those of a block that are outside; for a single one, the endpoint that has it.
    Addresses(IpAddr, IpAddr),
    /// A node, by name.
    Node(SmolStr),
}

// === impl QueryEndpoints ===

impl FromStr for QueryEndpoints {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || match text.parse::<IpAddr>().is_ok() || text.parse::<ipnet::IpNet>().is_ok() {
            true => QueryError::BareAddress(text.to_owned()),
            false => QueryError::End(text.to_owned()),
        };
        // Names have no blanks.
        let glob = |text: &str| match text.contains(|c: char| c.is_whitespace() || matches!(c, ':' | '/')) {
            true => Err(wrong()),
            false => text.parse::<Glob>().map_err(|_| wrong()),
        };
        let any = || glob("*");
        if matches!(text, "internet" | "outside") {
            return Ok(QueryEndpoints::Internet);
        }
        if let Some(addresses) = text.strip_prefix("ip:") {
            let bare =
                addresses.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(addresses);
            let address = bare.parse::<IpAddr>().map(|address| address.to_canonical());
            let address = address.map(|address| (address, address));
            let block = || {
                addresses
                    .parse::<ipnet::IpNet>()
                    .map(|net| net.trunc())
                    .map(|net| (net.network(), net.broadcast()))
            };
            let (first, last) = address.or_else(|_| block()).map_err(|_| wrong())?;
            return Ok(QueryEndpoints::Addresses(first, last));
        }
        if text.starts_with("svc:") {
            return Err(QueryError::Service(text.to_owned()));
        }
        if let Some(name) = text.strip_prefix("node:") {
            return if name.is_empty() || name.contains(char::is_whitespace) {
                Err(wrong())
            } else {
                Ok(QueryEndpoints::Node(name.into()))
            };
        }
        let everything = Selector::everything;
        let named = text.strip_prefix("ns:");
        if let Some(namespace) = named.filter(|rest| !rest.contains('/')) {
            return Ok(QueryEndpoints::Pods {
                namespace: glob(namespace)?,
                name: any()?,
                selector: everything(),
            });
        }
        let text = named.unwrap_or(text);
        // The key of a label may have a slash: the text before the first one is a namespace only if it is a valid name.
        let split = text.split_once('/').filter(|(head, _)| !head.contains(['.', '=', '!', ' ', '(']));
        match split {
            Some((namespace, rest)) if is_selector(rest) => Ok(QueryEndpoints::Pods {
                namespace: glob(namespace)?,
                name: any()?,
                selector: selector(rest).ok_or_else(wrong)?,
            }),
            Some((namespace, name)) => Ok(QueryEndpoints::Pods {
                namespace: glob(namespace)?,
                name: glob(name)?,
                selector: everything(),
            }),
            None if is_selector(text) => Ok(QueryEndpoints::Pods {
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

/// Parses a selector in the syntax of kubectl: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
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
    let value = |text: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        text.trim().chars().all(plain).then(|| SmolStr::from(text.trim()))
    };
    let list = |text: &str| -> Option<Vec<SmolStr>> {
        let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
        inner.split(',').map(value).collect()
    };
    if let Some((name, other)) = text.split_once("!=") {
        return Some(Requirement::new(key(name)?, Operator::NotIn(vec![value(other)?])));
    }
    if let Some((name, only)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Some(Requirement::new(key(name)?, Operator::In(vec![value(only)?])));
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
