//! Which of Thorium's documents this is. They have neither `apiVersion` nor `kind`, so their shape must tell. It must
//! never take other people's YAML for Thorium's: a values file of Helm has `ingress:`, too. And a small mistake must not
//! make a document vanish: what is nearly one of Thorium's is read as it, and said to be wrong.

use crate::source::tree::{Entry, Node, Value};

/// What a document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// `thorium.yml`: `thorium` with or without `base_network_policies`.
    Config,
    /// Base policies where Thorium does not look for them.
    MisplacedConfig,
    /// A policy request.
    Request,
    /// A name and groups: a policy that says nothing, if anybody knows it.
    MaybeRequest,
    /// A rules file: `ingress`, `egress` and nothing else.
    Rules,
    /// It could be a rules file, and nothing in it says so: it is one if a policy names it.
    MaybeRules,
    /// Our manifest.
    Instance,
}

/// The kind of our manifest.
pub const INSTANCE_KIND: &str = "ThoriumInstance";
/// The key of the base policies.
pub(super) const BASE: &str = "base_network_policies";
/// The key of Thorium's own part of a configuration.
pub(super) const CONFIG: &str = "thorium";

const DIRECTIONS: [&str; 2] = ["ingress", "egress"];
const FLAGS: [&str; 2] = ["forced_policy", "default_policy"];
const MANIFEST: [&str; 6] = ["name", "thoriumNamespace", "groups", "policies", "images", "description"];
/// The fields of a rule that nobody else has.
const RULE: [&str; 7] = [
    "allowed_ips",
    "allowed_groups",
    "allowed_tools",
    "allowed_local",
    "allowed_internet",
    "allowed_all",
    "allowed_custom",
];
/// Those that others may have, too.
const RULE_TOO: [&str; 2] = ["tools", "ports"];
/// As deep base policies are looked for.
const DEEP: usize = 4;

impl Shape {
    /// What a document is; `None` when it is none of Thorium's.
    pub fn of(node: &Node<'_>) -> Option<Shape> {
        let entries = match &node.value {
            Value::List(items) => {
                let config = |item: &Node<'_>| item.get(CONFIG).is_some_and(is_collection);
                if items.iter().any(config) {
                    return Some(Shape::Config);
                }
                let base = |item: &Node<'_>| {
                    let sides = DIRECTIONS.iter().filter_map(|direction| item.get(direction));
                    item.get("name").is_some() && sides.into_iter().any(has_rules)
                };
                return (!items.is_empty() && items.iter().all(base)).then_some(Shape::MisplacedConfig);
            }
            Value::Map(entries) => entries.as_slice(),
            _ => return None,
        };
        if let Some(kind) = node.get("kind").and_then(Node::as_str) {
            return of_kind(kind, node);
        }
        if is_manifest(node, entries) {
            return Some(Shape::Instance);
        }
        if node.get("kind").is_some() || node.get("apiVersion").is_some() {
            return None;
        }
        if node.get(CONFIG).is_some_and(is_collection) {
            return Some(Shape::Config);
        }
        if has_base(node, DEEP) {
            return Some(Shape::MisplacedConfig);
        }
        let about = About::new(node, entries);
        about.request().or_else(|| about.rules())
    }

    /// In words, for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Shape::Config | Shape::MisplacedConfig => "base policies",
            Shape::Request | Shape::MaybeRequest => "a policy request",
            Shape::Rules | Shape::MaybeRules => "a rules file",
            Shape::Instance => "an instance manifest",
        }
    }

    /// Whether the shape alone tells that it is one of Thorium's.
    pub fn is_certain(self) -> bool {
        !matches!(self, Shape::MaybeRules | Shape::MaybeRequest)
    }
}

/// What begins with Thorium's name is meant for Thorium: our manifest, or a policy. Its own resource has its own reader.
fn of_kind(kind: &str, node: &Node<'_>) -> Option<Shape> {
    if kind == INSTANCE_KIND {
        return Some(Shape::Instance);
    }
    let lower = kind.to_ascii_lowercase();
    let group = node.get("apiVersion").and_then(Node::as_str).unwrap_or("");
    let near = |wanted: &str| is_near(kind, wanted, 2);
    if near(INSTANCE_KIND) {
        return Some(Shape::Instance);
    }
    // Kinds that others read, and what is nearly one of them.
    let others = near("ThoriumCluster") || near("ThoriumCases") || lower == "thoriumclusterlist";
    (lower.starts_with(CONFIG) && !others && !group.starts_with("sandia.gov")).then_some(Shape::Request)
}

/// Whether it is our manifest without its kind.
fn is_manifest(node: &Node<'_>, entries: &[Entry<'_>]) -> bool {
    let items = |key: &str| match node.get(key).map(|list| &list.value) {
        Some(Value::List(items)) => items.as_slice(),
        _ => &[],
    };
    let has = |item: &Node<'_>, keys: &[&str]| keys.iter().all(|key| item.get(key).is_some());
    let policy = |item: &Node<'_>| {
        has(item, &["name", "groups"])
            && (["rules", "ingress", "egress"].iter().chain(&FLAGS)).any(|key| item.get(key).is_some())
    };
    let ours = |key: &str| MANIFEST.contains(&key) || is_near(key, "kind", 1);
    entries.iter().all(|entry| ours(&entry.key))
        && (items("images").iter().any(|item| has(item, &["group", "tool"]))
            || items("policies").iter().any(policy))
}

/// Whether base policies stand somewhere in it.
fn has_base(node: &Node<'_>, deep: usize) -> bool {
    match &node.value {
        Value::Map(entries) => {
            entries.iter().any(|entry| is_base(&entry.key) || deep > 0 && has_base(&entry.value, deep - 1))
        }
        Value::List(items) => deep > 0 && items.iter().any(|item| has_base(item, deep - 1)),
        _ => false,
    }
}

/// Whether it is the key of the base policies, or nearly.
pub(super) fn is_base(key: &str) -> bool {
    is_near(key, BASE, 3)
}

/// The same below `thorium`, where little else can be meant.
pub(super) fn may_be_base(key: &str) -> bool {
    let lower = key.to_ascii_lowercase();
    is_base(key) || lower.contains("polic") && (lower.contains("base") || lower.contains("network"))
}

/// What the keys of a mapping tell.
struct About<'n, 's> {
    node: &'n Node<'s>,
    /// How many keys there are.
    keys: usize,
    /// What stands behind a direction, or what is nearly one.
    sides: Vec<&'n Node<'s>>,
    named: bool,
    /// Whether groups are named, or nearly.
    grouped: bool,
    flagged: bool,
    /// Whether there are keys that are no direction, and nothing else of a request.
    foreign: bool,
}

impl<'n, 's> About<'n, 's> {
    fn new(node: &'n Node<'s>, entries: &'n [Entry<'s>]) -> Self {
        let named = node.get("name").is_some_and(is_scalar);
        let (mut sides, mut grouped, mut flagged, mut foreign) = (Vec::new(), false, false, false);
        for entry in entries {
            let key = &*entry.key;
            let truth = matches!(entry.value.value, Value::Bool(_) | Value::Null);
            if DIRECTIONS.iter().any(|direction| is_near(key, direction, 1)) {
                sides.push(&entry.value);
            } else if is_near(key, "groups", 1) {
                grouped = true;
            } else if FLAGS.iter().any(|flag| is_near(key, flag, 2)) {
                flagged |= truth;
                foreign |= !truth && !FLAGS.contains(&key);
            } else if ["forced", "default"].contains(&key) && truth {
                // Others have these words, too.
                flagged |= key == "forced" && named && node.get("groups").is_some_and(is_names);
            } else {
                let rules = key == "rules" && entry.value.as_str().is_some_and(is_file);
                foreign |= key != "name" && !rules;
            }
        }
        About { node, keys: entries.len(), sides, named, grouped, flagged, foreign }
    }

    fn request(&self) -> Option<Shape> {
        let sure = self.sides.iter().any(|side| has_rules(side));
        let alien = self.sides.iter().any(|side| is_alien(side));
        let names = self.node.get("groups").is_some_and(is_names);
        let known = self.node.get("name").is_some() || self.grouped;
        let lists = self.sides.iter().all(|side| matches!(side.value, Value::List(_)));
        let flat = self.sides.iter().all(|side| matches!(side.value, Value::List(_) | Value::Null));
        let file = self.node.get("rules").and_then(Node::as_str).is_some_and(is_file);
        let request = if sure {
            known && !(self.foreign && alien)
        } else if alien || self.foreign && !(self.flagged && self.named && names) {
            false
        } else {
            known && (self.flagged || file)
                || self.named && self.grouped && !self.sides.is_empty()
                || names && flat && !self.sides.is_empty()
                || self.named && lists && !self.sides.is_empty()
        };
        if request {
            return Some(Shape::Request);
        }
        (self.named && names && self.keys == 2).then_some(Shape::MaybeRequest)
    }

    fn rules(&self) -> Option<Shape> {
        // Its rules may stand one level too deep.
        let inside = match self.node.get("rules").map(|rules| (rules, &rules.value)) {
            Some((rules, Value::Map(entries))) if self.keys == 1 => Some(About::new(rules, entries)),
            _ => None,
        };
        if let Some(inside) = inside {
            return inside.rules().filter(|shape| shape.is_certain());
        }
        let all = self.keys == self.sides.len();
        if all && self.sides.iter().any(|side| has_rules(side)) {
            return Some(Shape::Rules);
        }
        (!self.sides.is_empty()).then_some(Shape::MaybeRules)
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

fn is_file(text: &str) -> bool {
    [".yaml", ".yml", ".json"].iter().any(|end| text.ends_with(end))
}

/// The rules of a direction.
fn rules_of<'n, 's>(side: &'n Node<'s>) -> &'n [Node<'s>] {
    match &side.value {
        Value::List(items) => items,
        _ => std::slice::from_ref(side),
    }
}

/// Whether a direction holds a rule that only Thorium has, or nearly.
fn has_rules(side: &Node<'_>) -> bool {
    rules_of(side).iter().any(|rule| keys(rule).any(|key| RULE.iter().any(|known| is_near(key, known, 2))))
}

/// Whether a direction holds something that is nobody's rule: other fields.
fn is_alien(side: &Node<'_>) -> bool {
    let known = |key: &str| RULE.iter().any(|known| is_near(key, known, 2)) || RULE_TOO.contains(&key);
    let alien = |rule: &Node<'_>| keys(rule).any(|key| !known(key));
    rules_of(side).iter().any(alien)
}

fn keys<'n>(node: &'n Node<'_>) -> impl Iterator<Item = &'n str> {
    let entries = match &node.value {
        Value::Map(entries) => entries.as_slice(),
        _ => &[],
    };
    entries.iter().map(|entry| &*entry.key)
}

/// Whether a word is another, or so near to it that a slip explains the difference: capitals, `-` for `_`, and as many
/// letters in one place. Other people's words are further away.
fn is_near(word: &str, known: &str, letters: usize) -> bool {
    let plain = |text: &str| -> Vec<char> {
        text.chars().filter(|c| !matches!(c, '_' | '-')).map(|c| c.to_ascii_lowercase()).collect()
    };
    if word == known {
        return true;
    }
    if word.len().abs_diff(known.len()) > letters + 3 {
        return false;
    }
    let (a, b) = (plain(word), plain(known));
    // The same first letters and the same last ones, and few between.
    let head = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let rest = a.len().min(b.len()) - head;
    let tail = a.iter().rev().zip(b.iter().rev()).take(rest).take_while(|(x, y)| x == y).count();
    let between = a.len().max(b.len()) - head - tail;
    let swapped = || a.len() == b.len() && a[head] == b[head + 1] && a[head + 1] == b[head];
    between <= letters || between == 2 && swapped()
}
