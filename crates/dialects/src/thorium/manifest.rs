//! Our manifest of an instance: groups, images, and policies whose rules may stand in files.

use palisade_model::diagnostic::{Location, Subject};
use palisade_model::nearest::nearest;
use smol_str::SmolStr;

use super::check::{Checks, Head};
use super::codes;
use super::document::{closes_everything, name_of};
use super::policy::{Null, Policy, Sort, Spot};
use super::shape::INSTANCE_KIND;
use super::types;
use crate::apimachinery::field::Path;
use crate::apimachinery::names;
use crate::decode::{Decode, Reader};
use crate::source::tree::{Node, Value};

/// Our manifest, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Where Thorium itself runs.
    pub namespace: Option<SmolStr>,
    /// The groups that exist; `None` when it does not list them.
    pub groups: Option<Vec<Spot>>,
    /// Whether something of it cannot be read that may have been a group.
    pub doubtful: bool,
    /// Policies, each with the rules file it names.
    pub policies: Vec<(Policy, Option<Spot>)>,
    /// The tools.
    pub images: Vec<Image>,
    /// Where it starts.
    pub at: Location,
}

/// A tool as the manifest has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    /// Its group.
    pub group: Spot,
    /// Its name.
    pub tool: Spot,
    /// Whether Kubernetes runs it.
    pub kubernetes: bool,
    /// The policies it was created with; `None` when it brought none.
    pub policies: Option<Vec<Spot>>,
    /// What of it cannot be read, if anything.
    pub unreadable: Option<String>,
    /// Where it is written.
    pub at: Location,
}

/// The scalers that Thorium has; only the first one is Kubernetes.
const SCALERS: [&str; 5] = ["K8s", "BareMetal", "Windows", "Kvm", "External"];

/// Reads the manifest.
pub(super) fn read(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Manifest> {
    let root = Path::root();
    reader.subject = Subject { kind: INSTANCE_KIND.into(), namespace: None, name: name_of(node, reader) };
    reader.duplicates(node, &root, true);
    let subject = reader.subject.clone();
    let written = types::Manifest::decode(node, &root, reader)?;
    if let Some(namespace) = &written.thorium_namespace {
        group(namespace, &root.child("thoriumNamespace"), reader);
    }
    let path = root.child("groups");
    let groups: Option<Vec<Spot>> = written
        .groups
        .as_ref()
        .map(|groups| groups.read().map(|(index, name)| group(name, &path.index(index), reader)).collect());
    let null = node.get("groups").is_some_and(Node::is_null);
    if null {
        types::nothing(&path, reader, "nobody knows which groups there are");
    }
    let at = reader.location(node.span);
    // A field that nobody knows may have been any other.
    let lost = written.unreadable.clone().map(|what| closes_everything(INSTANCE_KIND, what, at.clone()));
    // Also one that is no name: which group was meant nobody can say.
    let list = match node.get("groups").map(|groups| &groups.value) {
        Some(Value::List(items)) => {
            items.iter().all(|item| item.as_str().is_some_and(|name| names::dns1123_label(name).is_empty()))
        }
        _ => false,
    };
    let doubtful = lost.is_some() || node.get("groups").is_some() && !list;
    let mut policies: Vec<(Policy, Option<Spot>)> = lost.into_iter().map(|policy| (policy, None)).collect();
    let path = root.child("policies");
    for (index, item) in items(node, &path, reader, &mut policies).iter().enumerate() {
        policies.push(described(item, &path.index(index), reader));
    }
    reader.subject = subject;
    let path = root.child("images");
    let mut images = Vec::new();
    for (index, item) in items(node, &path, reader, &mut policies).iter().enumerate() {
        match image(item, &path.index(index), reader) {
            Ok(image) => images.push(image),
            Err(closes) => policies.push((*closes, None)),
        }
    }
    Some(Manifest {
        namespace: written.thorium_namespace.clone(),
        groups,
        doubtful,
        policies,
        images,
        at: reader.location(node.span),
    })
}

/// The items of a list. What is no list may have been anything, and closes everything.
fn items<'n, 's>(
    node: &'n Node<'s>,
    path: &Path<'_>,
    reader: &mut Reader<'_>,
    policies: &mut Vec<(Policy, Option<Spot>)>,
) -> &'n [Node<'s>] {
    let Some(list) = node.get(&path.to_string()).filter(|list| !list.is_null()) else { return &[] };
    reader.list(list, path).unwrap_or_else(|| {
        policies.push((unread(list, path, reader), None));
        &[]
    })
}

/// Stands for something that cannot be read.
fn unread(node: &Node<'_>, path: &Path<'_>, reader: &Reader<'_>) -> Policy {
    closes_everything(&path.to_string(), format!("{path} cannot be read"), reader.location(node.span))
}

fn group(name: &SmolStr, path: &Path<'_>, reader: &mut Reader<'_>) -> Spot {
    if let Some(why) = names::dns1123_label(name).pop() {
        reader.report(&codes::GROUP_NAME, path, format!("{name:?} cannot be a namespace: {why}"));
    }
    Spot { name: name.clone(), field: path.to_string(), at: reader.locate(path) }
}

/// A policy of the manifest, with the rules file it names.
fn described(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> (Policy, Option<Spot>) {
    reader.subject = Subject { kind: "ThoriumPolicy".into(), namespace: None, name: name_of(node, reader) };
    let mut checks = Checks::new(reader, Sort::Regular, Null::Missing);
    let Some(written) = types::Described::decode(node, path, checks.reader) else {
        return (unread(node, path, checks.reader), None);
    };
    let head = Head {
        name: written.name.as_ref(),
        groups: written.groups.as_ref(),
        unreadable: written.unreadable.as_ref(),
    };
    let mut policy = checks.head(&head, node, path);
    if node.get("rules").is_some_and(Node::is_null) {
        types::nothing(&path.child("rules"), checks.reader, "the policy allows nobody");
        policy.unreadable.get_or_insert("nothing is behind rules".to_owned());
    }
    checks.flags(&mut policy, written.forced_policy, written.default_policy, node, path);
    let rules = written.rules.as_ref().map(|file| checks.spot(file, &path.child("rules")));
    let inline = ["ingress", "egress"].into_iter().find(|key| node.get(key).is_some());
    match (&rules, inline) {
        (Some(_), Some(key)) => {
            let message = format!("a policy has a rules file or {key} of its own, not both");
            checks.reader.report(&codes::UNKNOWN_FIELD, &path.child(key), message);
            policy.unreadable.get_or_insert(format!("a rules file beside {key}"));
            checks.finish(&mut policy);
        }
        (Some(_), None) => checks.finish_head(&mut policy),
        (None, _) => {
            policy.ingress = checks.side(written.ingress.as_ref(), "ingress", node, path);
            policy.egress = checks.side(written.egress.as_ref(), "egress", node, path);
            checks.finish(&mut policy);
        }
    }
    (policy, rules)
}

/// An image; what closes everything it could have been about when nobody can say which it is.
fn image(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Result<Image, Box<Policy>> {
    let closes = |reader: &Reader<'_>| Box::new(unread(node, path, reader));
    let Some(written) = types::Image::decode(node, path, reader) else { return Err(closes(reader)) };
    let mut unreadable = written.unreadable.clone();
    let need = |name: &Option<types::Name>, key: &str, reader: &mut Reader<'_>| {
        let path = path.child(key);
        match name {
            Some(name) => {
                Some(Spot { name: name.0.clone(), field: path.to_string(), at: reader.locate(&path) })
            }
            None => {
                reader.report(&codes::MISSING_FIELD, &path, format!("an image needs its {key}"));
                None
            }
        }
    };
    let (group, tool) = (need(&written.group, "group", reader), need(&written.tool, "tool", reader));
    let (Some(group), Some(tool)) = (group, tool) else { return Err(closes(reader)) };
    if let Some(why) = names::dns1123_label(&tool.name).pop() {
        reader.report(
            &codes::LABEL,
            &path.child("tool"),
            format!("{:?} is no name of a tool: {why}", tool.name),
        );
        return Err(Box::new(Policy { everywhere: false, groups: vec![group], ..*closes(reader) }));
    }
    for key in ["scaler", "network_policies"] {
        if node.get(key).is_some_and(Node::is_null) {
            types::nothing(&path.child(key), reader, "the tool is isolated");
            unreadable.get_or_insert(format!("nothing is behind {key}"));
        }
    }
    let scaler = written.scaler.as_deref().unwrap_or(SCALERS[0]);
    if !SCALERS.contains(&scaler) {
        let near = nearest(scaler, SCALERS).into_iter().next();
        let message = format!("there is no scaler {scaler:?}");
        reader.report(&codes::SCALER, &path.child("scaler"), message).help = Some(match near {
            Some(near) => format!("did you mean {near}?"),
            None => format!("the scalers are {}", SCALERS.join(", ")),
        });
        unreadable.get_or_insert("scaler cannot be read".to_owned());
    }
    let list = path.child("network_policies");
    let policies = written.network_policies.as_ref().map(|names| {
        let spot = |(index, name): (usize, &SmolStr)| {
            let path = list.index(index);
            Spot { name: name.clone(), field: path.to_string(), at: reader.locate(&path) }
        };
        names.iter().enumerate().map(spot).collect()
    });
    // What it is when nobody can say: a tool like the others.
    let kubernetes = scaler == SCALERS[0] || !SCALERS.contains(&scaler);
    Ok(Image { group, tool, kubernetes, policies, unreadable, at: reader.location(node.span) })
}
