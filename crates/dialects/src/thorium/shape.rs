//! Which of Thorium's documents this is. They have neither `apiVersion` nor `kind`, so their shape must tell, and it
//! must never take other people's YAML for Thorium's: a values file of Helm has `ingress:`, too.

use crate::source::tree::{Node, Value};

/// What a document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// `thorium.yml`: `thorium` with or without `base_network_policies`.
    Config,
    /// A policy request.
    Request,
    /// A rules file: `ingress`, `egress` and nothing else.
    Rules,
    /// It could be a rules file, and nothing in it says so: it is one if a policy names it.
    MaybeRules,
    /// Our manifest.
    Instance,
}

/// The kind of our manifest.
pub const INSTANCE_KIND: &str = "ThoriumInstance";

const DIRECTIONS: [&str; 2] = ["ingress", "egress"];
const CONFIG: &str = "thorium";

impl Shape {
    /// What a document is; `None` when it is none of Thorium's.
    pub fn of(node: &Node<'_>) -> Option<Shape> {
        let keys: Vec<&str> = match &node.value {
            Value::List(items) => {
                let config = |item: &Node<'_>| item.get(CONFIG).is_some_and(is_collection);
                return (!items.is_empty() && items.iter().any(config)).then_some(Shape::Config);
            }
            Value::Map(entries) => entries.iter().map(|entry| &*entry.key).collect(),
            _ => return None,
        };
        let has = |key: &str| keys.contains(&key);
        if node.get("kind").and_then(Node::as_str) == Some(INSTANCE_KIND) {
            let ours = |version: &str| version.is_empty() || version.starts_with("palisade");
            let version = node.get("apiVersion").and_then(Node::as_str).unwrap_or("");
            return ours(version).then_some(Shape::Instance);
        }
        if has("kind") || has("apiVersion") {
            return None;
        }
        if node.get(CONFIG).is_some_and(is_collection) {
            return Some(Shape::Config);
        }
        let sides: Vec<&Node<'_>> = DIRECTIONS.iter().filter_map(|key| node.get(key)).collect();
        let rules = sides.iter().any(|side| has_rules(side));
        let plausible = sides.iter().all(|side| is_plausible(side));
        let named = node.get("name").is_some_and(is_scalar);
        let grouped = node.get("groups").is_some_and(is_names);
        if has("forced_policy") || has("default_policy") {
            return Some(Shape::Request);
        }
        match (named, grouped) {
            // Nothing but a name and groups: a policy that says nothing.
            (true, true) if keys.len() == 2 => Some(Shape::Request),
            (_, true) if !sides.is_empty() && plausible => Some(Shape::Request),
            _ if rules && (has("name") || has("groups")) => Some(Shape::Request),
            _ if rules => Some(Shape::Rules),
            _ if plausible && keys.iter().all(|key| DIRECTIONS.contains(key)) => Some(Shape::MaybeRules),
            _ => None,
        }
    }

    /// In words, for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Shape::Config => "base policies",
            Shape::Request => "a policy request",
            Shape::Rules | Shape::MaybeRules => "a rules file",
            Shape::Instance => "an instance manifest",
        }
    }
}

fn is_collection(node: &Node<'_>) -> bool {
    matches!(node.value, Value::Map(_) | Value::List(_))
}

fn is_scalar(node: &Node<'_>) -> bool {
    matches!(node.value, Value::String(_) | Value::Bool(_) | Value::Integer(_) | Value::Float(_))
}

fn is_names(node: &Node<'_>) -> bool {
    match &node.value {
        Value::List(items) => items.iter().all(is_scalar),
        _ => false,
    }
}

/// Whether a direction holds a rule that only Thorium has.
fn has_rules(node: &Node<'_>) -> bool {
    match &node.value {
        Value::List(items) => items.iter().any(is_rule),
        _ => is_rule(node),
    }
}

fn is_rule(node: &Node<'_>) -> bool {
    match &node.value {
        Value::Map(entries) => entries.iter().any(|entry| entry.key.starts_with("allowed_")),
        _ => false,
    }
}

/// Whether a direction could be one of Thorium's: nothing, a list of mappings, or a rule.
fn is_plausible(node: &Node<'_>) -> bool {
    match &node.value {
        Value::Null => true,
        Value::List(items) => items.iter().all(|item| matches!(item.value, Value::Map(_) | Value::Null)),
        Value::Map(_) => is_rule(node),
        _ => false,
    }
}
