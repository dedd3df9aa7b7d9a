//! Our manifest of an instance: groups, images, and policies whose rules may stand in files.

use palisade_model::diagnostic::{Location, Subject};
use palisade_model::nearest::nearest;
use smol_str::SmolStr;

use super::check::{Checks, Head};
use super::codes;
use super::document::name_of;
use super::policy::{Null, Policy, Sort, Spot};
use super::shape::INSTANCE_KIND;
use super::types;
use crate::apimachinery::field::Path;
use crate::apimachinery::names;
use crate::decode::{Decode, Reader};
use crate::source::tree::{Node, Value};

/// Our manifest, read.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// Where Thorium itself runs.
    pub namespace: Option<SmolStr>,
    /// The groups that exist.
    pub groups: Vec<Spot>,
    /// Policies, each with the rules file it names.
    pub policies: Vec<(Policy, Option<Spot>)>,
    /// The tools.
    pub images: Vec<Image>,
    /// Where it starts.
    pub at: Location,
}

/// A tool as the manifest has it.
#[derive(Debug, Clone)]
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
    let groups = written.groups.iter().flat_map(|groups| &groups.0);
    let groups: Vec<Spot> =
        groups.enumerate().map(|(index, name)| group(name, &path.index(index), reader)).collect();
    let path = root.child("policies");
    let nodes = |key: &str| match node.get(key).map(|list| &list.value) {
        Some(Value::List(items)) => items.as_slice(),
        _ => &[],
    };
    let mut policies = Vec::new();
    for (index, (written, node)) in written.policies.iter().flatten().zip(nodes("policies")).enumerate() {
        policies.extend(described(written, node, &path.index(index), reader));
    }
    reader.subject = subject;
    let path = root.child("images");
    let mut images = Vec::new();
    for (index, (written, node)) in written.images.iter().flatten().zip(nodes("images")).enumerate() {
        images.extend(image(written, node, &path.index(index), reader));
    }
    Some(Manifest {
        namespace: written.thorium_namespace.clone(),
        groups,
        policies,
        images,
        at: reader.location(node.span),
    })
}

fn group(name: &SmolStr, path: &Path<'_>, reader: &mut Reader<'_>) -> Spot {
    if let Some(why) = names::dns1123_label(name).pop() {
        reader.report(&codes::GROUP_NAME, path, format!("{name:?} cannot be a namespace: {why}"));
    }
    Spot { name: name.clone(), field: path.to_string(), at: reader.locate(path) }
}

/// A policy of the manifest, with the rules file it names.
fn described(
    written: &types::Described,
    node: &Node<'_>,
    path: &Path<'_>,
    reader: &mut Reader<'_>,
) -> Option<(Policy, Option<Spot>)> {
    reader.subject = Subject { kind: "ThoriumPolicy".into(), namespace: None, name: name_of(node, reader) };
    let mut checks = Checks::new(reader, Sort::Regular, Null::Missing);
    let head = Head {
        name: written.name.as_ref(),
        groups: written.groups.as_ref(),
        unreadable: written.unreadable.as_ref(),
    };
    let mut policy = checks.head(&head, node, path);
    policy.forced = written.forced_policy == Some(true) || policy.unreadable.is_some();
    policy.default = written.default_policy == Some(true);
    let rules = written.rules.as_ref().map(|file| checks.spot(file, &path.child("rules")));
    let inline = ["ingress", "egress"].into_iter().find(|key| node.get(key).is_some());
    match (&rules, inline) {
        (Some(_), Some(key)) => {
            let message = format!("a policy has a rules file or {key} of its own, not both");
            checks.reader.report(&codes::UNKNOWN_FIELD, &path.child(key), message);
            policy.unreadable.get_or_insert(format!("a rules file beside {key}"));
        }
        (Some(_), None) => {}
        (None, _) => {
            policy.ingress = checks.side(written.ingress.as_ref(), "ingress", node, path);
            policy.egress = checks.side(written.egress.as_ref(), "egress", node, path);
            checks.finish(&mut policy);
        }
    }
    (!policy.name.is_empty() && !policy.groups.is_empty()).then_some((policy, rules))
}

fn image(written: &types::Image, node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<Image> {
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
    let (group, tool) = (group?, tool?);
    if let Some(why) = names::dns1123_label(&tool.name).pop() {
        reader.report(
            &codes::LABEL,
            &path.child("tool"),
            format!("{:?} is no name of a tool: {why}", tool.name),
        );
        return None;
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
    Some(Image { group, tool, kubernetes, policies, unreadable, at: reader.location(node.span) })
}
