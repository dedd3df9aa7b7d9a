//! A NetworkPolicy as text: YAML or JSON that every reader takes for the same object.

use std::fmt::Write;

use smol_str::SmolStr;

use super::types::{
    IpBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicyRule, NetworkPolicySpec,
};
use crate::decode::{IntOrString, MetaMap, StringMap};
use crate::meta::{LabelSelector, LabelSelectorRequirement, ObjectMeta};

/// A value to write.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Written {
    /// Text.
    Text(String),
    /// A number.
    Number(i64),
    /// A list.
    List(Vec<Written>),
    /// A mapping, in this order.
    Map(Vec<(String, Written)>),
}

/// What YAML takes for something else than text, in lower case.
const WORDS: [&str; 11] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"];

/// The objects as YAML documents.
pub fn yaml(objects: &[NetworkPolicy]) -> String {
    let texts: Vec<String> = objects
        .iter()
        .map(|object| {
            let mut out = String::new();
            object.written().yaml(0, &mut out);
            out
        })
        .collect();
    texts.join("---\n")
}

/// The objects as one JSON list.
pub fn json(objects: &[NetworkPolicy]) -> String {
    let text = |text: &str| Written::Text(text.to_owned());
    let list = Written::Map(vec![
        ("apiVersion".to_owned(), text("v1")),
        ("kind".to_owned(), text("List")),
        ("items".to_owned(), Written::List(objects.iter().map(NetworkPolicy::written).collect())),
    ]);
    let mut out = String::new();
    list.json(0, &mut out);
    out + "\n"
}

// === impl Written ===

impl Written {
    fn yaml(&self, depth: usize, out: &mut String) {
        let indent = "  ".repeat(depth);
        match self {
            Written::Map(entries) => {
                for (key, value) in entries {
                    let _ = write!(out, "{indent}{}:", scalar(key));
                    value.yaml_below(depth, out);
                }
            }
            Written::List(items) => {
                for item in items {
                    // A list stands as deep as its key; its items are written one step deeper, behind the dash.
                    let mut text = String::new();
                    match item {
                        Written::Map(entries) if !entries.is_empty() => item.yaml(depth + 1, &mut text),
                        item => {
                            item.yaml_below(depth, &mut text);
                            text.insert_str(0, &indent);
                        }
                    }
                    let rest = text.trim_start_matches(' ');
                    let _ = write!(out, "{indent}- {rest}");
                }
            }
            scalar => scalar.yaml_below(depth, out),
        }
    }

    /// The value behind a key.
    fn yaml_below(&self, depth: usize, out: &mut String) {
        match self {
            Written::Text(text) => {
                let _ = writeln!(out, " {}", scalar(text));
            }
            Written::Number(number) => {
                let _ = writeln!(out, " {number}");
            }
            Written::List(items) if items.is_empty() => out.push_str(" []\n"),
            Written::Map(entries) if entries.is_empty() => out.push_str(" {}\n"),
            Written::List(_) => {
                out.push('\n');
                self.yaml(depth, out);
            }
            Written::Map(_) => {
                out.push('\n');
                self.yaml(depth + 1, out);
            }
        }
    }

    fn json(&self, depth: usize, out: &mut String) {
        let (indent, end) = ("  ".repeat(depth + 1), "  ".repeat(depth));
        let comma = |index: usize| if index == 0 { "" } else { "," };
        match self {
            Written::Text(text) => out.push_str(&quoted(text)),
            Written::Number(number) => {
                let _ = write!(out, "{number}");
            }
            Written::List(items) if items.is_empty() => out.push_str("[]"),
            Written::Map(entries) if entries.is_empty() => out.push_str("{}"),
            Written::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    let _ = write!(out, "{}\n{indent}", comma(index));
                    item.json(depth + 1, out);
                }
                let _ = write!(out, "\n{end}]");
            }
            Written::Map(entries) => {
                out.push('{');
                for (index, (key, value)) in entries.iter().enumerate() {
                    let _ = write!(out, "{}\n{indent}{}: ", comma(index), quoted(key));
                    value.json(depth + 1, out);
                }
                let _ = write!(out, "\n{end}}}");
            }
        }
    }

    /// The same with every list sorted, for comparing what means the same.
    #[must_use]
    pub fn sorted(self) -> Self {
        match self {
            Written::List(items) => {
                let mut items: Vec<Written> = items.into_iter().map(Written::sorted).collect();
                items.sort();
                items.dedup();
                Written::List(items)
            }
            Written::Map(entries) => {
                let mut entries: Vec<(String, Written)> =
                    entries.into_iter().map(|(key, value)| (key, value.sorted())).collect();
                entries.sort();
                Written::Map(entries)
            }
            scalar => scalar,
        }
    }
}

/// Text as a YAML scalar: bare where no reader could take it for anything else.
fn scalar(text: &str) -> String {
    let first = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    let word = WORDS.contains(&text.to_ascii_lowercase().as_str());
    let dots = text.split('/').next().is_some_and(|head| head.parse::<std::net::Ipv4Addr>().is_ok());
    if plain && !word && (first || dots) { text.to_owned() } else { quoted(text) }
}

/// Text in double quotes, the same in YAML and JSON.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() || "\u{2028}\u{2029}\u{feff}\u{fffe}\u{ffff}".contains(c) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

// === the object ===

type Fields = Vec<(String, Written)>;

fn field(fields: &mut Fields, key: &str, value: Option<Written>) {
    fields.extend(value.map(|value| (key.to_owned(), value)));
}

fn text(text: &Option<SmolStr>) -> Option<Written> {
    text.as_ref().map(|text| Written::Text(text.to_string()))
}

fn list<T>(items: &Option<Vec<T>>, write: impl Fn(&T) -> Written) -> Option<Written> {
    items.as_ref().map(|items| Written::List(items.iter().map(write).collect()))
}

fn map(map: &StringMap) -> Written {
    Written::Map(map.iter().map(|(k, v)| (k.to_string(), Written::Text(v.to_string()))).collect())
}

impl NetworkPolicy {
    /// The object as it is written.
    pub fn written(&self) -> Written {
        let mut fields = Fields::new();
        field(&mut fields, "apiVersion", Some(Written::Text("networking.k8s.io/v1".to_owned())));
        field(&mut fields, "kind", Some(Written::Text("NetworkPolicy".to_owned())));
        field(&mut fields, "metadata", self.metadata.as_ref().map(metadata));
        field(&mut fields, "spec", self.spec.as_ref().map(NetworkPolicySpec::written));
        Written::Map(fields)
    }
}

fn metadata(meta: &ObjectMeta) -> Written {
    let mut fields = Fields::new();
    let written = |map_: &Option<MetaMap>| map_.as_ref().map(|map_| map(&map_.0));
    field(&mut fields, "name", text(&meta.name));
    field(&mut fields, "namespace", text(&meta.namespace));
    field(&mut fields, "labels", written(&meta.labels));
    field(&mut fields, "annotations", written(&meta.annotations));
    Written::Map(fields)
}

impl NetworkPolicySpec {
    /// The spec as it is written.
    pub fn written(&self) -> Written {
        let mut fields = Fields::new();
        field(&mut fields, "podSelector", self.pod_selector.as_ref().map(selector));
        field(&mut fields, "policyTypes", list(&self.policy_types, |t| Written::Text(t.to_string())));
        field(&mut fields, "ingress", list(&self.ingress, rule));
        field(&mut fields, "egress", list(&self.egress, rule));
        Written::Map(fields)
    }
}

fn rule(rule: &NetworkPolicyRule) -> Written {
    let mut fields = Fields::new();
    field(&mut fields, "from", list(&rule.from, peer));
    field(&mut fields, "to", list(&rule.to, peer));
    field(&mut fields, "ports", list(&rule.ports, port));
    Written::Map(fields)
}

fn peer(peer: &NetworkPolicyPeer) -> Written {
    let mut fields = Fields::new();
    field(&mut fields, "namespaceSelector", peer.namespace_selector.as_ref().map(selector));
    field(&mut fields, "podSelector", peer.pod_selector.as_ref().map(selector));
    field(&mut fields, "ipBlock", peer.ip_block.as_ref().map(ip_block));
    Written::Map(fields)
}

fn ip_block(block: &IpBlock) -> Written {
    let mut fields = Fields::new();
    field(&mut fields, "cidr", text(&block.cidr));
    field(&mut fields, "except", list(&block.except, |t| Written::Text(t.to_string())));
    Written::Map(fields)
}

fn port(port: &NetworkPolicyPort) -> Written {
    let mut fields = Fields::new();
    let number = port.port.as_ref().map(|port| match port {
        IntOrString::Int(number) => Written::Number(*number),
        IntOrString::String(name) => Written::Text(name.to_string()),
    });
    field(&mut fields, "protocol", text(&port.protocol));
    field(&mut fields, "port", number);
    field(&mut fields, "endPort", port.end_port.map(Written::Number));
    Written::Map(fields)
}

fn selector(selector: &LabelSelector) -> Written {
    let mut fields = Fields::new();
    field(&mut fields, "matchLabels", selector.match_labels.as_ref().map(map));
    field(&mut fields, "matchExpressions", list(&selector.match_expressions, requirement));
    Written::Map(fields)
}

fn requirement(requirement: &LabelSelectorRequirement) -> Written {
    let mut fields = Fields::new();
    field(&mut fields, "key", text(&requirement.key));
    field(&mut fields, "operator", text(&requirement.operator));
    field(&mut fields, "values", list(&requirement.values, |t| Written::Text(t.to_string())));
    Written::Map(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_never_taken_for_something_else() {
        for (text, want) in [
            ("web", "web"),
            ("kubernetes.io/metadata.name", "kubernetes.io/metadata.name"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("true", "\"true\""),
            ("No", "\"No\""),
            ("1e3", "\"1e3\""),
            ("10.0", "\"10.0\""),
            ("", "\"\""),
            ("2001:db8::/32", "\"2001:db8::/32\""),
            ("a\u{85}\"\\", "\"a\\u0085\\\"\\\\\""),
        ] {
            assert_eq!(scalar(text), want);
        }
    }

    #[test]
    fn lists_and_mappings_nest() {
        let text = |text: &str| Written::Text(text.to_owned());
        let map = |key: &str, value| Written::Map(vec![(key.to_owned(), value)]);
        let value = map(
            "a",
            Written::List(vec![
                map("b", Written::List(vec![text("x"), Written::Number(1)])),
                Written::Map(Vec::new()),
                map("c", map("d", text("y"))),
            ]),
        );
        let mut out = String::new();
        value.yaml(0, &mut out);
        assert_eq!(out, "a:\n- b:\n  - x\n  - 1\n- {}\n- c:\n    d: \"y\"\n");
    }
}
