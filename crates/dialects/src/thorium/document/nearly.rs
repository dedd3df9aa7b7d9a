//! Documents that are nearly Thorium's: what nobody would look at is most likely a mistake, and without a word it would isolate nobody.

use palisade_model::nearest::nearest;

use super::super::codes;
use super::super::shape::{BASE, CONFIG, INSTANCE_KIND, is_base, may_be_base};
use super::{Config, THORIUM_CLUSTER, unreadable};
use crate::apimachinery::field::Path;
use crate::decode::Reader;
use crate::source::tree::{Node, Value};

/// Says what is wrong with a document that has a kind which Thorium's documents do not have, or lacks the one of ours.
pub(super) fn nearly(node: &Node<'_>, reader: &mut Reader<'_>) {
    let kind = node.get("kind").and_then(Node::as_str);
    let version = node.get("apiVersion").and_then(Node::as_str).unwrap_or("");
    let path = Path::new("kind");
    match kind {
        None if node.get("images").is_some() || node.get("policies").is_some() => {
            let message = "a manifest of an instance without its kind";
            reader.report(&codes::NEARLY, &Path::root(), message).help =
                Some(format!("write kind: {INSTANCE_KIND}"));
        }
        Some(INSTANCE_KIND) if !version.is_empty() && !version.starts_with("palisade") => {
            let message = format!("{INSTANCE_KIND} is no kind of {version}");
            reader.report(&codes::NEARLY, &Path::new("apiVersion"), message).help =
                Some("leave apiVersion out: the manifest is Palisade's".to_owned());
        }
        None | Some(INSTANCE_KIND) => {}
        Some(kind) => {
            let near = nearest(kind, [INSTANCE_KIND, THORIUM_CLUSTER.kind]);
            let help = match near.first() {
                Some(near) => format!("did you mean {near}?"),
                None => "a policy request has no kind: name, groups, ingress, egress".to_owned(),
            };
            reader.report(&codes::NEARLY, &path, format!("Thorium has no kind {kind}")).help = Some(help);
        }
    }
}

/// As deep base policies are looked for.
pub(super) const DEEP: usize = 4;

/// Reports base policies that stand where Thorium does not look for them. What was meant is clear enough: tools are to
/// be isolated.
pub(super) fn misplaced(
    node: &Node<'_>,
    path: &Path<'_>,
    reader: &mut Reader<'_>,
    config: &mut Config,
    deep: usize,
) {
    match &node.value {
        Value::Map(entries) => {
            for entry in entries {
                let path = path.child(&entry.key);
                if is_base(&entry.key) {
                    let at = reader.location(entry.key_span);
                    let message = format!("{path} is not where Thorium looks for base policies");
                    reader.report_at(&codes::NEARLY, &path, at.clone(), message).help =
                        Some(format!("put it below {CONFIG}: {BASE}:"));
                    let mut policy = unreadable(&path.to_string(), at);
                    policy.unreadable = Some("Thorium does not look for it there".to_owned());
                    config.doubtful.push(policy);
                } else if deep > 0 {
                    misplaced(&entry.value, &path, reader, config, deep - 1);
                }
            }
        }
        Value::List(items) if deep > 0 => {
            for (index, item) in items.iter().enumerate() {
                misplaced(item, &path.index(index), reader, config, deep - 1);
            }
        }
        _ => {}
    }
}

/// Reports what is nearly the key of the base policies: the rest of thorium.yml is of no concern, but this is.
pub(super) fn misspelled(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>, config: &mut Config) {
    let Value::Map(entries) = &node.value else { return };
    for entry in entries.iter().filter(|entry| entry.key != BASE) {
        if may_be_base(&entry.key) {
            reader.unknown(entry, path, &[BASE], None, &mut None);
            // In the program it is not there, and so the default base policy applies.
            let mut policy = unreadable(&path.child(&entry.key).to_string(), reader.location(entry.key_span));
            policy.unreadable = Some(format!("unknown field {}", entry.key));
            config.doubtful.push(policy);
        }
    }
}
