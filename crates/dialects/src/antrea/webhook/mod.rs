//! What Antrea's webhook asks of one object beyond its definition, and what it should ask.
//!
//! The texts are Antrea's own wherever it has one: people search for them. Unlike there, everything is said at once, each
//! with its field, and nothing of one rule counts against another. Checks run on the tree and look at every field of
//! the API, also where the definition does not have it: what the API server would drop was written nevertheless, and
//! usually not for nothing.

mod applied_to;
mod group;
mod peers;
mod policy;
mod traffic;

pub use group::group;
pub use policy::{policy, policy_2020};

use super::codes;
use crate::apimachinery::field::Path;
use crate::apimachinery::{cidr, names};
use crate::definition::findings::Findings;
use crate::definition::schema::{go_refusal, is_cidr, items, written};
use crate::source::tree::{Node, Value};

/// The selectors of peers, subjects and groups.
const SELECTORS: [&str; 4] = ["podSelector", "namespaceSelector", "externalEntitySelector", "nodeSelector"];

/// Whether a field has a value. For Antrea an empty text is none, while an empty list or object is one.
fn is_set(node: &Node<'_>, key: &str) -> bool {
    text(node, key) != Some("") && written(node, key).is_some()
}

/// The text of a field.
fn text<'n>(node: &'n Node<'_>, key: &str) -> Option<&'n str> {
    node.get(key).and_then(Node::as_str)
}

/// How many of these fields have a value.
fn count(node: &Node<'_>, fields: &[&str]) -> usize {
    fields.iter().filter(|field| is_set(node, field)).count()
}

/// Warns of an entry that says nothing, which is more than it looks like.
fn empty(path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    findings.say(&codes::EMPTY_ENTRY, path, "an entry without a selector is every pod").help =
        Some("write podSelector: {} if that is meant".to_owned());
}

/// Checks the labels of all selectors in an entry.
fn labels(entry: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    for name in SELECTORS {
        let labels = entry.get(name).and_then(|selector| selector.get("matchLabels"));
        let Some(Value::Map(labels)) = labels.map(|labels| &labels.value) else { continue };
        let path = path.child(name);
        let path = path.child("matchLabels");
        for label in labels {
            let wrong = names::qualified_name(&label.key);
            if !wrong.is_empty() {
                let message = format!("Invalid label key: {}: {}", label.key, wrong.join("; "));
                findings.say(&codes::LABEL, &path, message);
            }
            let Some(value) = label.value.as_str() else { continue };
            let wrong = names::label_value(value);
            if !wrong.is_empty() {
                let message = format!("Invalid label value: {value}: {}", wrong.join("; "));
                findings.say(&codes::LABEL, &path, message);
            }
        }
    }
}

/// Checks an address block. What is no CIDR at all, the definition has said; Go is stricter.
fn ip_block(block: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    if !matches!(block.value, Value::Map(_)) {
        return;
    }
    if !is_set(block, "cidr") {
        findings.say(&codes::IP_BLOCK, &path.child("cidr"), "field 'cidr' is required in an ipBlock");
    }
    strict_cidr(block, path, findings);
    let cidr = text(block, "cidr").filter(|cidr| is_cidr(cidr));
    let path = path.child("except");
    for (index, except) in items(block, "except").iter().enumerate() {
        let (Some(except), path) = (except.as_str(), path.index(index)) else { continue };
        if !is_cidr(except) {
            let message = format!("invalid except CIDR value: {}", go_refusal(except));
            findings.say(&codes::IP_BLOCK, &path, message);
        } else if let Some(cidr) = cidr.filter(|cidr| !is_strict_subset(except, cidr)) {
            let message = format!("except CIDR {except} is not a strict subset of CIDR {cidr}");
            findings.say(&codes::IP_BLOCK, &path, message);
        }
    }
}

/// Checks that an address block is one for Go, where it is one for the API server.
fn strict_cidr(block: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    if let Some(text) = text(block, "cidr").filter(|text| cidr::network(text).is_some() && !is_cidr(text)) {
        findings.say(&codes::IP_BLOCK, &path.child("cidr"), go_refusal(text));
    }
}

fn is_strict_subset(inner: &str, outer: &str) -> bool {
    cidr::is_strict_subset(inner, outer).unwrap_or(false)
}

/// Whether the address of a block is one of multicast; `None` if it is no block.
fn is_multicast(cidr: &str) -> Option<bool> {
    let (address, _) = cidr.split_once('/').filter(|_| is_cidr(cidr))?;
    address.parse::<std::net::IpAddr>().ok().map(|address| address.to_canonical().is_multicast())
}
