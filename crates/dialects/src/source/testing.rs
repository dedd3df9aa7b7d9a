//! What the tests of both readers share.

use super::tree::{Node, Source, Span, Value};

/// A tree without places: flow style, strings in single quotes.
pub(super) fn plain(node: &Node<'_>) -> String {
    match &node.value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Integer(value) => value.to_string(),
        Value::Float(value) => format!("{value:?}"),
        Value::String(value) => format!("'{value}'"),
        Value::List(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(", ")),
        Value::Map(entries) => {
            let entries: Vec<_> =
                entries.iter().map(|entry| format!("{}: {}", entry.key, plain(&entry.value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

/// The places in a tree, keys before values: line, column and the text there.
pub(super) fn at(node: &Node<'_>, source: &Source, found: &mut Vec<(u32, u32, String)>) {
    let mut note = |span: Span| {
        let location = source.location(span);
        let text = &source.text()[span.start as usize..span.end as usize];
        found.push((location.line, location.column, text.to_owned()));
    };
    note(node.span);
    match &node.value {
        Value::List(items) => items.iter().for_each(|item| at(item, source, found)),
        Value::Map(entries) => {
            for entry in entries {
                let location = source.location(entry.key_span);
                let text = &source.text()[entry.key_span.start as usize..entry.key_span.end as usize];
                found.push((location.line, location.column, text.to_owned()));
                at(&entry.value, source, found);
            }
        }
        _ => {}
    }
}

/// Whether a tree holds what a JSON value does.
pub(super) fn same(node: &Node<'_>, value: &serde_json::Value) -> bool {
    use serde_json::Value as Json;
    match (&node.value, value) {
        (Value::Null, Json::Null) => true,
        (Value::Bool(ours), Json::Bool(theirs)) => ours == theirs,
        (Value::Integer(ours), Json::Number(theirs)) => Some(*ours) == theirs.as_i64(),
        (Value::Float(ours), Json::Number(theirs)) => {
            theirs.as_i64().is_none() && Some(*ours) == theirs.as_f64()
        }
        (Value::String(ours), Json::String(theirs)) => ours == theirs,
        (Value::List(ours), Json::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| same(ours, theirs))
        }
        (Value::Map(ours), Json::Object(theirs)) => {
            ours.len() == theirs.len()
                && ours
                    .iter()
                    .zip(theirs)
                    .all(|(ours, (key, theirs))| ours.key == *key && same(&ours.value, theirs))
        }
        _ => false,
    }
}
