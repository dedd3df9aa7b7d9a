//! A text with any number of documents, lists of objects among them, into a world.

use palisade_model::diagnostic::{Diagnostic, Subject};
use smol_str::SmolStr;

use crate::codes;
use crate::object::{self, Key, Loaded};
use crate::source::tree::{Entry, Node, Source, Value};
use crate::source::{Limits, SyntaxError, SyntaxErrorKind, documents};
use crate::world::World;

/// Reads every object of a text into the world. What is wrong with one of them never hides the others.
pub fn load(source: &Source, limits: &Limits, world: &mut World, found: &mut Vec<Diagnostic>) {
    for document in documents(source, limits) {
        match document {
            Ok(node) => load_object(source, &node, world, found),
            Err(error) => found.push(unparsed(source, &error)),
        }
    }
}

/// What to say about a document that is no YAML or JSON.
pub fn unparsed(source: &Source, error: &SyntaxError) -> Diagnostic {
    let code = match error.kind {
        SyntaxErrorKind::Syntax => &codes::SYNTAX,
        SyntaxErrorKind::Limit => &codes::LIMIT,
    };
    let at = source.location(error.span);
    // Only the lines around: a text may have any number of errors.
    let line = at.line as usize;
    let template = (line.saturating_sub(2)..=line).any(|line| source.line(line).contains("{{"));
    let help = match error.kind {
        SyntaxErrorKind::Limit => None,
        _ if template => Some("it looks like a Helm template: run `helm template` and read what that prints"),
        _ => error.message.contains("anchor").then_some("a text that begins with * or & must be in quotes"),
    };
    let diagnostic = Diagnostic::new(code, error.message.clone()).at(Some(at));
    Diagnostic { help: help.map(ToOwned::to_owned), ..diagnostic }
}

/// Reads one object, or those of a list, into the world.
pub fn load_object(source: &Source, node: &Node<'_>, world: &mut World, found: &mut Vec<Diagnostic>) {
    let wrong = each(source, node, &mut |item| load_one(source, item, world, found));
    found.extend(wrong);
}

/// Calls `with` for an object, or for each of a list; what is wrong with the list itself is handed back.
pub fn each(source: &Source, node: &Node<'_>, with: &mut dyn FnMut(&Node<'_>)) -> Vec<Diagnostic> {
    let Some(kind) = list_of(node) else {
        with(node);
        return Vec::new();
    };
    let items = match node.get("items").map(|items| (&items.value, items.span)) {
        None | Some((Value::Null, _)) => return Vec::new(),
        Some((Value::List(items), _)) => items,
        Some((other, span)) => {
            let message = format!("expected a list, found {}: nothing of it is read", other.kind());
            let wrong = Diagnostic::new(&codes::WRONG_TYPE, message).field("items");
            return vec![wrong.at(Some(source.location(span)))];
        }
    };
    let mut wrong = Vec::new();
    for item in items {
        match &kind {
            // Never a list itself: copying lists inside lists would multiply a text by its depth.
            Some((api_version, kind)) if item.get("kind").is_none() => {
                with(&with_kind(item, api_version, kind));
            }
            _ => wrong.extend(each(source, item, with)),
        }
    }
    wrong
}

fn load_one(source: &Source, node: &Node<'_>, world: &mut World, found: &mut Vec<Diagnostic>) {
    if let Some(loaded) = object::read(source, node, found) {
        add(loaded, world, found);
    }
}

/// Adds an object that was read to the world. Says so if it takes the place of another.
pub fn add(loaded: Loaded, world: &mut World, found: &mut Vec<Diagnostic>) {
    found.extend(world.replaced_by(&loaded).map(|earlier| duplicate(&loaded, earlier)));
    world.add(loaded);
}

/// What to report about an object that replaces one of the same identity.
pub fn duplicate(loaded: &Loaded, earlier: &Loaded) -> Diagnostic {
    let Key { kind, namespace, name, .. } = loaded.key.clone();
    let message = format!("{kind} is written twice: the later one counts");
    let diagnostic = Diagnostic::new(&codes::DUPLICATE_OBJECT, message);
    let diagnostic = diagnostic.about(Subject { kind, namespace, name }).at(Some(loaded.at.clone()));
    diagnostic.help(format!("the other one is at {}", earlier.at))
}

/// Whether the object is a list of objects, and the kind they have when they do not say so themselves (as in what the
/// API returns). Other kinds that happen to end in `List` are not.
fn list_of(node: &Node<'_>) -> Option<Option<(SmolStr, SmolStr)>> {
    let kind = node.get("kind")?.as_str()?.strip_suffix("List")?;
    let api_version = node.get("apiVersion").and_then(Node::as_str).unwrap_or("");
    match kind {
        "" => Some(None),
        _ if object::KINDS.iter().any(|known| known.kind == kind) => {
            Some(Some((api_version.into(), kind.into())))
        }
        _ => None,
    }
}

fn with_kind<'s>(item: &Node<'s>, api_version: &str, kind: &str) -> Node<'s> {
    let mut item = item.clone();
    if let Value::Map(entries) = &mut item.value {
        let entry = |key: &'static str, text: &str| Entry {
            key: key.into(),
            key_span: item.span,
            value: Node { value: Value::String(text.to_owned().into()), span: item.span },
        };
        entries.push(entry("apiVersion", api_version));
        entries.push(entry("kind", kind));
    }
    item
}
