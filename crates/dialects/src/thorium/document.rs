//! Thorium's documents, read: thorium.yml and the operator's custom resource, policy requests, rules files, and our
//! manifest of an instance.

use std::sync::Arc;

use palisade_model::diagnostic::{Diagnostic, Location, Subject};
use palisade_model::nearest::nearest;
use smol_str::SmolStr;

use super::check::{Checks, Head};
use super::codes;
use super::manifest::{self, Manifest};
use super::policy::{Null, Policy, Side, Sort};
use super::program;
use super::shape::{INSTANCE_KIND, Shape};
use super::types;
use crate::apimachinery::field::Path;
use crate::apimachinery::names;
use crate::decode::{Decode, Reader};
use crate::object::{Header, Key, Kind, Loaded, Lowered};
use crate::source::tree::{Node, Source, Value};

/// What one document adds to an instance.
#[derive(Debug, Clone)]
pub enum Part {
    /// A configuration.
    Config(Config),
    /// A policy.
    Policy(Policy),
    /// Rules for a policy to name.
    Rules(RulesFile),
    /// Groups, policies and images.
    Manifest(Manifest),
}

/// A configuration: thorium.yml, or the custom resource of the operator.
#[derive(Debug, Clone)]
pub struct Config {
    /// The base policies; `None` when the key is not there.
    pub base: Option<Vec<Policy>>,
    /// Where Thorium itself runs, as far as this tells.
    pub namespace: Option<SmolStr>,
    /// Where it is written.
    pub at: Location,
}

/// A rules file.
#[derive(Debug, Clone)]
pub struct RulesFile {
    /// The policy that the rules would be, without name and groups.
    pub body: Policy,
    /// What is wrong with it, to be said when a policy names it; empty when it has been said.
    pub found: Vec<Diagnostic>,
    /// Whether its shape alone tells that it is one.
    pub certain: bool,
    /// Where it starts.
    pub at: Location,
}

/// The operator's custom resource.
pub const THORIUM_CLUSTER: Kind = Kind {
    group: "sandia.gov",
    versions: &["v1"],
    kind: "ThoriumCluster",
    namespaced: true,
    read: read_cluster,
    update: |_, _, _, _| {},
};

/// The key of the base policies.
const BASE: &str = "base_network_policies";

/// Reads a document of a known shape.
pub fn read(shape: Shape, source: &Source, node: &Node<'_>, found: &mut Vec<Diagnostic>) -> Option<Loaded> {
    let at = source.location(node.span);
    let mut kept = Vec::new();
    let certain = shape != Shape::MaybeRules;
    let mut reader = reader(source, node, if certain { found } else { &mut kept });
    let root = Path::root();
    let (kind, namespace, name, part) = match shape {
        Shape::Config => {
            reader.subject.kind = "ThoriumConfig".into();
            reader.duplicates(node, &root, false);
            let config = read_config(node, &root, &["thorium"], &mut reader, &at);
            ("ThoriumConfig", None, SmolStr::new_static("thorium"), Part::Config(config))
        }
        Shape::Request => {
            let policy = request(node, &mut reader)?;
            let mut groups: Vec<&str> = policy.groups.iter().map(|spot| spot.name.as_str()).collect();
            groups.sort_unstable();
            ("ThoriumPolicy", Some(groups.join(",").into()), policy.name.clone(), Part::Policy(policy))
        }
        Shape::Rules | Shape::MaybeRules => {
            let body = rules_file(node, &mut reader)?;
            let name: SmolStr = (&**source.name()).into();
            let rules = RulesFile { body, found: Vec::new(), certain, at: at.clone() };
            ("ThoriumRules", None, name, Part::Rules(rules))
        }
        Shape::Instance => {
            let manifest = manifest::read(node, &mut reader)?;
            let name = node.get("name").and_then(Node::as_str).unwrap_or(source.name());
            (INSTANCE_KIND, None, name.into(), Part::Manifest(manifest))
        }
    };
    let mut part = part;
    if let Part::Rules(rules) = &mut part {
        rules.found = kept;
    }
    let key = Key { group: SmolStr::default(), kind: kind.into(), namespace, name };
    Some(Loaded { key, lowered: Lowered::Thorium(Arc::new(part)), at, places: Vec::new() })
}

fn read_cluster(header: &Header, node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Lowered> {
    reader.unknown_field = &codes::UNKNOWN_FIELD;
    let root = Path::root();
    let mut config = read_config(node, &root, &["spec", "config", "thorium"], reader, &header.at);
    config.namespace.clone_from(&header.namespace);
    Some(Lowered::Thorium(Arc::new(Part::Config(config))))
}

/// A configuration below these keys, each of which may stand in items of a list.
fn read_config(
    node: &Node<'_>,
    path: &Path<'_>,
    keys: &[&str],
    reader: &mut Reader<'_>,
    at: &Location,
) -> Config {
    let mut config = Config { base: None, namespace: None, at: at.clone() };
    below(node, path, keys, false, &mut |node, path, nested| {
        reader.duplicates(node, path, false);
        if let Some(list) = node.get(BASE) {
            base_policies(list, &path.child(BASE), nested, reader, &mut config);
        }
        misspelled(node, path, reader);
    });
    config
}

/// Reports what is nearly the key of the base policies: the rest of thorium.yml is of no concern, but this is.
fn misspelled(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) {
    let Value::Map(entries) = &node.value else { return };
    for entry in entries.iter().filter(|entry| entry.key != BASE) {
        if !nearest(&entry.key, [BASE]).is_empty() {
            reader.unknown(entry, path, &[BASE], None, &mut None);
        }
    }
}

/// What a read does with a mapping at its path; the last argument says whether a list stood around it.
type Found<'f> = dyn FnMut(&Node<'_>, &Path<'_>, bool) + 'f;

fn below(node: &Node<'_>, path: &Path<'_>, keys: &[&str], nested: bool, found: &mut Found<'_>) {
    match (&node.value, keys) {
        (Value::List(items), _) => {
            for (index, item) in items.iter().enumerate() {
                // One level of list each, as printed; a list in a list is somebody else's.
                if matches!(item.value, Value::Map(_)) {
                    below(item, &path.index(index), keys, true, found);
                }
            }
        }
        (Value::Map(_), [key, rest @ ..]) => {
            if let Some(child) = node.get(key) {
                below(child, &path.child(key), rest, nested, found);
            }
        }
        (Value::Map(_), []) => found(node, path, nested),
        _ => {}
    }
}

/// Reads a policy request that stands somewhere in a text.
pub fn read_request(source: &Source, node: &Node<'_>, found: &mut Vec<Diagnostic>) -> Option<Policy> {
    request(node, &mut reader(source, node, found))
}

/// Reads a rules file, or rules that stand somewhere in a text: the policy has neither name nor groups.
pub fn read_rules(source: &Source, node: &Node<'_>, found: &mut Vec<Diagnostic>) -> Option<Policy> {
    rules_file(node, &mut reader(source, node, found))
}

/// Reads the part of a configuration that holds `base_network_policies`, or a list of base policies alone.
pub fn read_base(source: &Source, node: &Node<'_>, found: &mut Vec<Diagnostic>) -> Config {
    let mut reader = reader(source, node, found);
    let at = source.location(node.span);
    let list =
        matches!(&node.value, Value::List(items) if items.iter().all(|item| item.get("name").is_some()));
    if list {
        let mut config = Config { base: None, namespace: None, at };
        base_policies(node, &Path::root(), false, &mut reader, &mut config);
        return config;
    }
    let keys: &[&str] = match &node.value {
        Value::Map(_) if node.get(BASE).is_some() || node.get("thorium").is_none() => &[],
        _ => &["thorium"],
    };
    read_config(node, &Path::root(), keys, &mut reader, &at)
}

fn reader<'a>(source: &'a Source, node: &'a Node<'a>, found: &'a mut Vec<Diagnostic>) -> Reader<'a> {
    let mut reader = Reader::new(source, node, found);
    reader.unknown_field = &codes::UNKNOWN_FIELD;
    reader
}

/// Reads `base_network_policies`.
fn base_policies(
    node: &Node<'_>,
    path: &Path<'_>,
    nested: bool,
    reader: &mut Reader<'_>,
    config: &mut Config,
) {
    reader.duplicates(node, path, true);
    if node.is_null() {
        return;
    }
    let subject = reader.subject.clone();
    let base = config.base.get_or_insert_default();
    match reader.list(node, path) {
        None => base.push(unreadable(&path.to_string(), reader.location(node.span))),
        Some([]) => {
            let message =
                "no base policy is given, so the default one applies; in Thorium's program none does";
            reader.report(&codes::DIFFERS_EMPTY_BASE, path, message);
        }
        Some(items) => {
            for (index, item) in items.iter().enumerate() {
                let policy = base_policy(item, &path.index(index), base, reader);
                base.push(policy);
            }
            if nested {
                let message = "Thorium's program does not read base policies in items of lists";
                reader.report(&codes::DIFFERS_NESTING, path, message).help =
                    Some("write thorium: {base_network_policies: […]} without the dashes".to_owned());
            }
        }
    }
    reader.subject = subject;
}

fn base_policy(node: &Node<'_>, path: &Path<'_>, earlier: &[Policy], reader: &mut Reader<'_>) -> Policy {
    reader.subject =
        Subject { kind: "ThoriumBasePolicy".into(), namespace: None, name: name_of(node, reader) };
    let Some(written) = types::Base::decode(node, path, reader) else {
        return unreadable(&path.to_string(), reader.location(node.span));
    };
    let mut checks = Checks::new(reader, Sort::Base, Null::Missing);
    let head = Head { name: written.name.as_ref(), groups: None, unreadable: written.unreadable.as_ref() };
    let mut policy = checks.head(&head, node, path);
    policy.ingress = checks.side(written.ingress.as_ref(), "ingress", node, path);
    policy.egress = checks.side(written.egress.as_ref(), "egress", node, path);
    let name = path.child("name");
    if policy.name.is_empty() {
        policy.name = path.to_string().into();
        policy.unreadable.get_or_insert("it has no name".to_owned());
    } else if let Some(other) = earlier.iter().find(|other| other.name == policy.name) {
        let message = format!("another base policy is called {}", policy.name);
        let other = other.at.as_ref().map(|at| format!("the other one is at {at}"));
        checks.reader.report(&codes::DUPLICATE_BASE, &name, message).help = other;
        policy.unreadable.get_or_insert("another base policy has its name".to_owned());
    } else if program::RESERVED.contains(&policy.name.as_str()) {
        let message = format!("in Thorium's program the name {} takes the place of a label", policy.name);
        checks.differs(&codes::DIFFERS_RESERVED, &name, &message);
    } else if !names::dns1123_subdomain(&policy.name).is_empty() {
        let message = format!("Kubernetes refuses the name {:?}, and with it the policy", policy.name);
        checks.differs(&codes::DIFFERS_BASE_NAME, &name, &message);
        policy.refused = Some(format!("its name {:?}", policy.name));
    }
    checks.finish(&mut policy);
    policy
}

/// A base policy that nobody can read: it isolates, and allows nobody.
fn unreadable(name: &str, at: Location) -> Policy {
    Policy {
        name: name.into(),
        sort: Sort::Base,
        groups: Vec::new(),
        ingress: Side::default(),
        egress: Side::default(),
        forced: false,
        default: false,
        unreadable: Some(format!("{name} cannot be read")),
        lost: false,
        refused: Some("it cannot be read".to_owned()),
        at: Some(at),
    }
}

/// Reads a policy request. `None` when nobody could tell which policy it is or where.
fn request(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Policy> {
    let path = Path::root();
    reader.subject = Subject { kind: "ThoriumPolicy".into(), namespace: None, name: name_of(node, reader) };
    reader.duplicates(node, &path, true);
    let mut checks = Checks::new(reader, Sort::Regular, Null::Missing);
    let written = types::Request::decode(node, &path, checks.reader)?;
    let head = Head {
        name: written.name.as_ref(),
        groups: written.groups.as_ref(),
        unreadable: written.unreadable.as_ref(),
    };
    let mut policy = checks.head(&head, node, &path);
    policy.ingress = checks.side(written.ingress.as_ref(), "ingress", node, &path);
    policy.egress = checks.side(written.egress.as_ref(), "egress", node, &path);
    // What cannot be read may have said that it is forced.
    policy.forced = written.forced_policy == Some(true) || policy.unreadable.is_some();
    policy.default = written.default_policy == Some(true);
    checks.finish(&mut policy);
    (!policy.name.is_empty() && !policy.groups.is_empty()).then_some(policy)
}

/// Reads a rules file.
fn rules_file(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Policy> {
    let path = Path::root();
    reader.subject.kind = "ThoriumRules".into();
    reader.duplicates(node, &path, true);
    let mut checks = Checks::new(reader, Sort::Regular, Null::Empty);
    let written = types::Rules::decode(node, &path, checks.reader)?;
    let mut body = Policy {
        sort: Sort::Regular,
        unreadable: written.unreadable.clone(),
        refused: None,
        ..unreadable("", checks.reader.location(node.span))
    };
    body.ingress = checks.side(written.ingress.as_ref(), "ingress", node, &path);
    body.egress = checks.side(written.egress.as_ref(), "egress", node, &path);
    let subject = checks.reader.subject.clone();
    checks.finish(&mut body);
    reader.subject = subject;
    Some(body)
}

pub(super) fn name_of(node: &Node<'_>, reader: &Reader<'_>) -> SmolStr {
    node.get("name").and_then(|name| reader.scalar(name)).unwrap_or_default().into()
}
