//! Selections as text, for comments in data planes, findings and tests.

use std::fmt;

use super::{Content, Selection};

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.content {
            Content::Pods(set, None) => set.fmt(f),
            Content::Pods(set, Some(port)) => {
                write!(f, "{set} whose port {} is {}/{}", port.name, port.protocol, port.number)
            }
            Content::Nodes(selector) if selector.is_everything() => f.write_str("any node"),
            Content::Nodes(selector) => write!(f, "nodes with {selector}"),
            Content::Addresses(ranges) => ranges.fmt(f),
            Content::Names(names) => {
                let names: Vec<String> = names.iter().map(ToString::to_string).collect();
                f.write_str(&names.join(" or "))
            }
            Content::Service(name) => write!(f, "service {name}"),
        }
    }
}
