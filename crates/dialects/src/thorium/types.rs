//! Thorium's documents as written, in Thorium's own names, and our manifest of an instance.

use smol_str::SmolStr;

use super::codes;
use crate::apimachinery::field::Path;
use crate::decode::{Decode, Reader, fields};
use crate::source::tree::{Node, Value};

fields! {
    /// A policy as it is asked for.
    pub struct Request {
        "name" => name: Name,
        "groups" => groups: Names,
        "ingress" => ingress: RuleList,
        "egress" => egress: RuleList,
        "forced_policy" => forced_policy: bool,
        "default_policy" => default_policy: bool,
    }

    /// A policy of our manifest, which may leave its rules to a file.
    pub struct Described {
        "name" => name: Name,
        "groups" => groups: Names,
        "rules" => rules: SmolStr,
        "ingress" => ingress: RuleList,
        "egress" => egress: RuleList,
        "forced_policy" => forced_policy: bool,
        "default_policy" => default_policy: bool,
    }

    /// A base policy.
    pub struct Base {
        "name" => name: Name,
        "ingress" => ingress: RuleList,
        "egress" => egress: RuleList,
    }

    /// A rules file.
    pub struct Rules {
        "ingress" => ingress: RuleList,
        "egress" => egress: RuleList,
    }

    /// One rule.
    pub struct Rule {
        "allowed_ips" => allowed_ips: Vec<Item<IpBlock>>,
        "allowed_groups" => allowed_groups: Vec<SmolStr>,
        "allowed_tools" => allowed_tools: Vec<SmolStr>,
        "tools" => tools: Vec<SmolStr>,
        "allowed_local" => allowed_local: bool,
        "allowed_internet" => allowed_internet: bool,
        "allowed_all" => allowed_all: bool,
        "ports" => ports: Vec<Item<Port>>,
        "allowed_custom" => allowed_custom: Vec<Item<Custom>>,
    }

    /// Addresses.
    pub struct IpBlock {
        "cidr" => cidr: SmolStr,
        "except" => except: Vec<SmolStr>,
    }

    /// A port or a range of ports.
    pub struct Port {
        "port" => port: i64,
        "end_port" => end_port: i64,
        "protocol" => protocol: SmolStr,
    }

    /// Pods and namespaces by label.
    pub struct Custom {
        "namespace_labels" => namespace_labels: Vec<Label>,
        "pod_labels" => pod_labels: Vec<Label>,
    }

    /// A label.
    pub struct Label {
        "key" => key: SmolStr,
        "value" => value: SmolStr,
    }

    /// Our manifest: what else there is in an instance.
    pub struct Manifest {
        "name" => name: SmolStr,
        "thoriumNamespace" => thorium_namespace: SmolStr,
        "groups" => groups: Names,
        // Read item by item: one that is broken must not take the others with it.
        skip "policies" "images" "kind" "apiVersion" "description"
    }

    /// A tool.
    pub struct Image {
        "group" => group: Name,
        "tool" => tool: Name,
        "scaler" => scaler: SmolStr,
        "network_policies" => network_policies: Vec<SmolStr>,
        skip "description"
    }
}

/// A name. One that YAML takes for a number or a truth value is reported and read as it is written: who is meant is
/// clear, and a policy without its name would be missed by the images that have it.
#[derive(Debug, Clone, Default)]
pub struct Name(pub SmolStr);

/// A list of names, `None` for what is none; a single one without the list is reported, and read.
#[derive(Debug, Clone, Default)]
pub struct Names(pub Vec<Option<SmolStr>>);

/// The rules of a direction.
#[derive(Debug, Clone, Default)]
pub struct RuleList {
    /// In the order written.
    pub rules: Vec<Rule>,
    /// Whether it was one rule without a list around it.
    pub single: bool,
}

/// An item of a list. One that is no mapping is reported, and cannot be read; the others are looked at nevertheless.
#[derive(Debug, Clone, Default)]
pub struct Item<T>(T);

impl<T> std::ops::Deref for Item<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

macro_rules! items {
    ($($type:ident)*) => {$(
        impl Decode for Item<$type> {
            fn decode(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<Self> {
                let unreadable = || $type { unreadable: Some(format!("{path} cannot be read")), ..$type::default() };
                Some(Item($type::decode(node, path, reader).unwrap_or_else(unreadable)))
            }
        }
    )*};
}
items! { IpBlock Port Custom }

// === impl Decode ===

impl Decode for Name {
    fn decode(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        SmolStr::decode(node, path, reader);
        reader.scalar(node).map(|text| Name(text.into()))
    }
}

impl Decode for Names {
    fn decode(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        if let Value::String(_) | Value::Bool(_) | Value::Integer(_) | Value::Float(_) = node.value {
            reader.list(node, path);
            return reader.scalar(node).map(|text| Names(vec![Some(text.into())]));
        }
        let items = reader.list(node, path)?;
        let name = |(index, item): (usize, &Node<'_>)| {
            Name::decode(item, &path.index(index), reader).map(|name| name.0)
        };
        Some(Names(items.iter().enumerate().map(name).collect()))
    }
}

impl Names {
    /// Whether every one of them could be read.
    pub fn is_whole(&self) -> bool {
        self.0.iter().all(Option::is_some)
    }

    /// Those that could be read, each with its place in the list.
    pub fn read(&self) -> impl Iterator<Item = (usize, &SmolStr)> {
        self.0.iter().enumerate().filter_map(|(index, name)| Some((index, name.as_ref()?)))
    }
}

impl Decode for RuleList {
    fn decode(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        if let Value::Map(_) = node.value {
            return Rule::decode(node, path, reader).map(|mut rule| {
                nothing_behind(node, path, reader, &mut rule.unreadable);
                RuleList { rules: vec![rule], single: true }
            });
        }
        let mut rules: Vec<Rule> = Vec::decode(node, path, reader)?;
        let Value::List(items) = &node.value else { return None };
        for (index, (rule, item)) in rules.iter_mut().zip(items).enumerate() {
            nothing_behind(item, &path.index(index), reader, &mut rule.unreadable);
        }
        Some(RuleList { rules, single: false })
    }
}

/// Fields that must be there: when nothing is behind them they are missing, which is said elsewhere.
const REQUIRED: [&str; 4] = ["cidr", "port", "key", "value"];

/// Reports every key of a rule that has nothing behind it, here or below. To leave it out would make the rule wider
/// than it looks, and whoever wrote the key wanted something.
fn nothing_behind(
    node: &Node<'_>,
    path: &Path<'_>,
    reader: &mut Reader<'_>,
    unreadable: &mut Option<String>,
) {
    match &node.value {
        Value::Map(entries) => {
            for entry in entries {
                let path = path.child(&entry.key);
                if entry.value.is_null() && !REQUIRED.contains(&&*entry.key) {
                    nothing(&path, reader, "the rule allows nobody");
                    unreadable.get_or_insert_with(|| format!("nothing is behind {}", entry.key));
                }
                nothing_behind(&entry.value, &path, reader, unreadable);
            }
        }
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                nothing_behind(item, &path.index(index), reader, unreadable);
            }
        }
        _ => {}
    }
}

/// Reports a key with nothing behind it.
pub(super) fn nothing(path: &Path<'_>, reader: &mut Reader<'_>, so: &str) {
    reader.report(&codes::NULL_DIRECTION, path, format!("nothing is behind {path}: {so}")).help =
        Some("write a value, or leave the key out".to_owned());
}
