//! Peers in the shape of v0.1.1 and before: recognised, and shown how they are written today.
//!
//! An API server with a newer definition drops `namespaceSelector`, `sameLabels` and `notSameLabels` below
//! `namespaces` and keeps `namespaces: {}`, which is every namespace. Whoever reads only the new shape turns "tenant1
//! may not" into "nobody may", and "tenant1 may" into "everybody may".

use crate::apimachinery::field::{Path, quoted};
use crate::codes;
use crate::definition::check;
use crate::definition::findings::Findings;
use crate::definition::schema::written;
use crate::source::tree::{Node, Value};

/// The keys that only the old shape has.
const OLD: [&str; 3] = ["namespaceSelector", "sameLabels", "notSameLabels"];

/// Checks `namespaces` of a peer, in either shape.
pub fn namespaces(node: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    check::selector(node, path, findings);
    if old(node).next().is_some() {
        findings.say(&codes::ADMIN_LEGACY, path, message("namespaces", node)).help =
            Some(match written(node, "namespaceSelector") {
                Some(selector) => format!("write namespaces: {}", flow(selector)),
                None => REMOVED.to_owned(),
            });
        one_shape(node, path, findings);
    }
}

/// Checks `namespaces` of a subject. Subjects never had the old shape, but it is written there by analogy.
pub fn subject_namespaces(node: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    namespaces(node, path, findings);
    nothing_relative(node, path, findings);
}

/// Checks `pods` of a peer, in either shape.
pub fn pods(node: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    let Some(namespaces) = written(node, "namespaces") else {
        if written(node, "namespaceSelector").is_none() {
            findings.required(&path.child("namespaceSelector"));
        }
        return;
    };
    let old_path = path.child("namespaces");
    let pods = written(node, "podSelector").map_or_else(|| "{}".to_owned(), flow);
    findings.say(&codes::ADMIN_LEGACY, path, message("pods.namespaces", namespaces)).help =
        Some(match written(namespaces, "namespaceSelector") {
            Some(selector) => {
                format!("write pods: {{namespaceSelector: {}, podSelector: {pods}}}", flow(selector))
            }
            None => REMOVED.to_owned(),
        });
    if written(node, "namespaceSelector").is_some() {
        findings
            .say(&codes::ADMIN_ONE_OF, path, "namespaceSelector and namespaces say the same thing twice")
            .help = Some("leave out namespaces".to_owned());
    }
    if old(namespaces).next().is_none() {
        let message = format!("expected one of {} here", OLD.join(", "));
        findings.say(&codes::ADMIN_ONE_OF, &old_path, message).help =
            Some("write the selector as namespaceSelector, beside podSelector".to_owned());
    }
    one_shape(namespaces, &old_path, findings);
}

/// Checks `pods` of a subject.
pub fn subject_pods(node: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    pods(node, path, findings);
    if let Some(namespaces) = written(node, "namespaces") {
        nothing_relative(namespaces, &path.child("namespaces"), findings);
    }
}

const REMOVED: &str = "sameLabels and notSameLabels are gone without a successor: write one policy for each value, with \
                       that value in its subject and in its peers";

fn old(node: &Node<'_>) -> impl Iterator<Item = &'static str> {
    OLD.into_iter().filter(|key| written(node, key).is_some())
}

fn message(what: &str, node: &Node<'_>) -> String {
    match old(node).next() {
        Some(key) => format!("{key} below {what} is no longer in the API: a newer server drops it"),
        None => format!("{what} is no longer in the API: a newer server drops it"),
    }
}

/// The alternatives exclude each other, and the other shape.
fn one_shape(node: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    let new = ["matchLabels", "matchExpressions"].into_iter().filter(|key| written(node, key).is_some());
    let keys: Vec<&str> = old(node).chain(new).collect();
    if let [_, _, ..] = keys.as_slice() {
        findings.say(&codes::ADMIN_ONE_OF, path, format!("{} exclude each other", keys.join(", ")));
    }
}

/// Labels that are the same as the subject's say nothing about whom the subject is.
fn nothing_relative(node: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    for key in old(node).filter(|key| *key != "namespaceSelector") {
        findings.say(&codes::ADMIN_ONE_OF, &path.child(key), format!("{key} means nothing in a subject"));
    }
}

/// A value on one line, as YAML writes it.
fn flow(node: &Node<'_>) -> String {
    let plain = |text: &str| {
        let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        let word = text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(fine);
        let read_otherwise = ["true", "false", "yes", "no", "on", "off", "y", "n", "null"];
        let text_only = !read_otherwise.contains(&text.to_ascii_lowercase().as_str());
        if word && text_only { text.to_owned() } else { quoted(text) }
    };
    match &node.value {
        Value::Null => "null".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::String(text) => plain(text),
        Value::List(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Map(entries) => {
            let entry = |entry: &crate::source::tree::Entry<'_>| {
                format!("{}: {}", plain(&entry.key), flow(&entry.value))
            };
            format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
    }
}
