//! Thorium's documents, read: thorium.yml and the operator's custom resource, policy requests, rules files, and our
//! manifest of an instance.

use std::sync::Arc;

use palisade_model::diagnostic::{Diagnostic, Location, Subject};
use smol_str::SmolStr;

use super::check::{Checks, Head};
use super::codes;
use super::manifest::{self, Manifest};
use super::policy::{Null, Policy, Side, Sort};
use super::program;
use super::shape::{BASE, CONFIG, INSTANCE_KIND, Shape};
use super::types;
use crate::apimachinery::field::Path;
use crate::apimachinery::names;
use crate::decode::{Decode, Reader};
use crate::object::{Header, Key, Kind, Loaded, Lowered};
use crate::source::tree::{Node, Source, Value};

use self::nearly::{DEEP, misplaced, misspelled, nearly};

mod nearly;

/// What one document adds to an instance.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// A configuration.
    Config(Config),
    /// A policy.
    Policy(Policy),
    /// A name and groups: a policy if somebody knows it, with what is to be said then.
    Maybe(Policy, Vec<Diagnostic>),
    /// Rules for a policy to name.
    Rules(RulesFile),
    /// Groups, policies and images.
    Manifest(Manifest),
}

/// A configuration: thorium.yml, or the custom resource of the operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The base policies; `None` when the key is not there.
    pub base: Option<Vec<Policy>>,
    /// What may be meant for base policies and is not: each isolates, and the program does not see it.
    pub doubtful: Vec<Policy>,
    /// Where Thorium itself runs, as far as this tells.
    pub namespace: Option<SmolStr>,
    /// Where it is written.
    pub at: Location,
}

/// A rules file.
#[derive(Debug, Clone, PartialEq)]
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

/// Reads a document of a known shape.
pub fn read(shape: Shape, source: &Source, node: &Node<'_>, found: &mut Vec<Diagnostic>) -> Option<Loaded> {
    let at = source.location(node.span);
    let mut kept = Vec::new();
    let certain = shape.is_certain();
    let mut reader = reader(source, node, if certain { found } else { &mut kept });
    let root = Path::root();
    nearly(node, &mut reader);
    let (kind, namespace, name, part) = match shape {
        Shape::MisplacedConfig => {
            reader.subject.kind = "ThoriumConfig".into();
            let mut config = Config { base: None, doubtful: Vec::new(), namespace: None, at: at.clone() };
            if let Value::List(_) = node.value {
                let message = "base policies alone, without the configuration around them";
                reader.report(&codes::NEARLY, &root, message).help =
                    Some(format!("put them below {CONFIG}: {BASE}:"));
                let mut policy = unreadable("base policies", at.clone());
                policy.unreadable = Some("Thorium does not look for it there".to_owned());
                config.doubtful.push(policy);
            } else {
                misplaced(node, &root, &mut reader, &mut config, DEEP);
            }
            ("ThoriumConfig", None, SmolStr::new_static("thorium"), Part::Config(config))
        }
        Shape::Config => {
            reader.subject.kind = "ThoriumConfig".into();
            let config = read_config(node, &root, &["thorium"], &mut reader, &at);
            ("ThoriumConfig", None, SmolStr::new_static("thorium"), Part::Config(config))
        }
        Shape::Request | Shape::MaybeRequest => {
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
    let part = match part {
        Part::Rules(rules) => Part::Rules(RulesFile { found: kept, ..rules }),
        Part::Policy(policy) if !certain => Part::Maybe(policy, kept),
        part => part,
    };
    let key = Key { group: SmolStr::default(), kind: kind.into(), namespace, name };
    Some(Loaded { key, lowered: Lowered::Thorium(Arc::new(part)), at, places: Vec::new() })
}

fn read_cluster(header: &Header, node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Lowered> {
    reader.unknown_field = &codes::UNKNOWN_FIELD;
    let root = Path::root();
    if node.get("spec").and_then(|spec| spec.get("config")).is_none_or(Node::is_null) {
        let message = "without spec.config nobody can say which base policies there are";
        reader.report(&codes::MISSING_FIELD, &root.child("spec").child("config"), message);
    }
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
    let mut config = Config { base: None, doubtful: Vec::new(), namespace: None, at: at.clone() };
    let (mut twice_written, mut said) = (Vec::new(), false);
    below(node, path, keys, false, &mut |node, path, step| {
        // Of two nobody can say which one counts.
        let key = match step {
            Step::Through(key) => key,
            Step::There { .. } => BASE,
        };
        if twice(node, key) {
            // The operator's resource has been looked at already.
            if keys.first() != Some(&"spec") {
                reader.duplicates(node, path, false);
            }
            let mut policy = unreadable(&path.child(key).to_string(), reader.locate(path));
            policy.unreadable = Some(format!("{key} is written twice"));
            policy.read_as_the_document();
            twice_written.push(policy);
        }
        if let Step::There { nested } = step {
            if let Some(list) = node.get(BASE) {
                base_policies(list, &path.child(BASE), reader, &mut config);
            }
            misspelled(node, path, reader, &mut config);
            if nested && !said {
                let message = "Thorium's program does not read its configuration from items of lists";
                let path = if node.get(BASE).is_some() { &path.child(BASE) } else { path };
                reader.report(&codes::DIFFERS_NESTING, path, message).help =
                    Some("write thorium: {base_network_policies: […]} without the dashes".to_owned());
                said = true;
            }
        }
    });
    if !twice_written.is_empty() {
        config.base = Some(twice_written);
    }
    config
}

/// Whether a mapping has a key twice.
fn twice(node: &Node<'_>, key: &str) -> bool {
    match &node.value {
        Value::Map(entries) => entries.iter().filter(|entry| entry.key == key).count() > 1,
        _ => false,
    }
}

/// A mapping on the way to the base policies.
#[derive(Clone, Copy)]
enum Step<'k> {
    /// This key leads on.
    Through(&'k str),
    /// The base policies are here; `nested` says whether a list stood around it.
    There { nested: bool },
}

/// What a read does with a mapping at its path.
type Found<'f> = dyn FnMut(&Node<'_>, &Path<'_>, Step<'_>) + 'f;

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
            found(node, path, Step::Through(key));
            if let Some(child) = node.get(key) {
                below(child, &path.child(key), rest, nested, found);
            }
        }
        (Value::Map(_), []) => found(node, path, Step::There { nested }),
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
    let config = |item: &Node<'_>| item.get(CONFIG).is_some() || item.get(BASE).is_some();
    let list = matches!(&node.value, Value::List(items) if !items.iter().any(config));
    if list {
        let mut config = Config { base: None, doubtful: Vec::new(), namespace: None, at };
        base_policies(node, &Path::root(), &mut reader, &mut config);
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
fn base_policies(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>, config: &mut Config) {
    if node.is_null() {
        return;
    }
    let subject = reader.subject.clone();
    let base = config.base.get_or_insert_default();
    match reader.list(node, path) {
        None => {
            let mut policy = unreadable(&path.to_string(), reader.location(node.span));
            policy.read_as_the_document();
            base.push(policy);
        }
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
        }
    }
    reader.subject = subject;
}

fn base_policy(node: &Node<'_>, path: &Path<'_>, earlier: &[Policy], reader: &mut Reader<'_>) -> Policy {
    reader.subject =
        Subject { kind: "ThoriumBasePolicy".into(), namespace: None, name: name_of(node, reader) };
    let mut checks = Checks::new(reader, Sort::Base, Null::Missing);
    checks.reader.duplicates(node, path, true);
    let Some(written) = types::Base::decode(node, path, checks.reader) else {
        let mut policy = unreadable(&path.to_string(), checks.reader.location(node.span));
        policy.read_as_the_document();
        return policy;
    };
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
    let does_not_start = checks.does_not_start();
    checks.finish(&mut policy);
    if does_not_start {
        policy.read_as_the_document();
    }
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
        perhaps_forced: false,
        everywhere: false,
        default: false,
        unreadable: Some(format!("{name} cannot be read")),
        lost: false,
        refused: Some("it cannot be read".to_owned()),
        at: Some(at),
    }
}

/// Stands for something that nobody can read and that may be about any tool: it isolates all of them.
pub(super) fn closes_everything(name: &str, why: String, at: Location) -> Policy {
    Policy {
        sort: Sort::Regular,
        forced: true,
        everywhere: true,
        unreadable: Some(why),
        lost: true,
        refused: None,
        ..unreadable(name, at)
    }
}

/// Reads a policy request.
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
    checks.flags(&mut policy, written.forced_policy, written.default_policy, node, &path);
    checks.finish(&mut policy);
    Some(policy)
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
