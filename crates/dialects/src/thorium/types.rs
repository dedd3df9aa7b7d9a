//! Thorium's documents as written, in Thorium's own names, and our manifest of an instance.

use smol_str::SmolStr;

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
        "allowed_ips" => allowed_ips: Vec<IpBlock>,
        "allowed_groups" => allowed_groups: Vec<SmolStr>,
        "allowed_tools" => allowed_tools: Vec<SmolStr>,
        "tools" => tools: Vec<SmolStr>,
        "allowed_local" => allowed_local: bool,
        "allowed_internet" => allowed_internet: bool,
        "allowed_all" => allowed_all: bool,
        "ports" => ports: Vec<Port>,
        "allowed_custom" => allowed_custom: Vec<Custom>,
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
        "policies" => policies: Vec<Described>,
        "images" => images: Vec<Image>,
        skip "kind" "apiVersion" "description"
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

/// A list of names; a single one without the list is reported, and read.
#[derive(Debug, Clone, Default)]
pub struct Names(pub Vec<SmolStr>);

/// The rules of a direction.
#[derive(Debug, Clone, Default)]
pub struct RuleList {
    /// In the order written.
    pub rules: Vec<Rule>,
    /// Whether it was one rule without a list around it.
    pub single: bool,
}

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
            return reader.scalar(node).map(|text| Names(vec![text.into()]));
        }
        let items = reader.list(node, path)?;
        let names: Vec<Option<Name>> = items
            .iter()
            .enumerate()
            .map(|(index, item)| Name::decode(item, &path.index(index), reader))
            .collect();
        names.into_iter().map(|name| name.map(|name| name.0)).collect::<Option<Vec<_>>>().map(Names)
    }
}

impl Decode for RuleList {
    fn decode(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        if let Value::Map(_) = node.value {
            return Rule::decode(node, path, reader).map(|rule| RuleList { rules: vec![rule], single: true });
        }
        Vec::decode(node, path, reader).map(|rules| RuleList { rules, single: false })
    }
}
