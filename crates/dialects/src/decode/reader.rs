//! What reading an object needs beside its tree: where its text is, which fields there are, and where findings go.
//!
//! Everything that can be wrong with a field whatever its type is said here, once: that nobody knows it, that it is written twice, that
//! it is of another type.

use std::collections::HashSet;

use palisade_model::diagnostic::{Code, Diagnostic, Location, Subject};
use palisade_model::nearest::nearest;

use super::Decode;
use crate::apimachinery::field::{Path, Segment};
use crate::codes;
use crate::definition::schema::{Fields, Schema};
use crate::source::tree::{Entry, Node, Source, Span, Value};

/// What reading one object needs: where its text is, which object it is, and where findings go.
#[derive(Debug)]
pub struct Reader<'a> {
    source: &'a Source,
    root: &'a Node<'a>,
    /// The object, as far as it is known.
    pub subject: Subject,
    found: &'a mut Vec<Diagnostic>,
    /// Where findings go that are too many to keep.
    dropped: Option<Box<Diagnostic>>,
    /// What says which fields exist where, if that depends on more than the type.
    definition: Option<&'static Schema>,
    /// What an unknown field is called: the API server drops it, others do worse.
    pub unknown_field: &'static Code,
}

/// As many findings are kept; a text that gives more is not helped by another.
const MOST_FINDINGS: usize = 100_000;

/// What people write from another API or another level, what stands where they wrote it, and what would be right.
static HINTS: &[(&str, &str, &str)] = &[
    ("port", "portNumber", "write portNumber: {protocol: TCP, port: …}"),
    ("to", "from", "an ingress rule has from: whom it applies to is the destination"),
    ("from", "toServices", "an egress rule has to: whom it applies to is the source"),
    ("fqdn", "scope", "names are for egress: a connection that comes in has an address"),
    ("except", "cidr", "this API has no exceptions: write a rule before it that drops them"),
    ("endPort", "port", "this API has no ranges of ports: write each port"),
    ("sourcePort", "port", "this API has no source ports"),
    ("protocol", "portNumber", "write portNumber: {protocol: TCP, port: …}"),
    ("endPort", "portRange", "write portRange: {protocol: TCP, start: …, end: …}"),
    ("ports", "protocols", "here it is protocols: [{tcp: {destinationPort: {number: …}}}]"),
    ("protocols", "ports", "here it is ports"),
    (
        "matchLabels",
        "podSelector",
        "matchLabels goes below podSelector or namespaceSelector: indent it by two more",
    ),
    (
        "matchExpressions",
        "podSelector",
        "matchExpressions goes below podSelector or namespaceSelector: indent it by two more",
    ),
    (
        "ports",
        "ipBlock",
        "ports stands beside from or to, not in it: indent it by two less, without the dash",
    ),
    ("ipBlock", "networks", "here it is networks: [10.0.0.0/8]"),
    ("namespaceSelector", "namespaces", "here it is namespaces: {matchLabels: …}"),
    ("podSelector", "namespaces", "here it is pods: {podSelector: …}"),
];

/// The keys of a mapping so far. Mappings are small, and comparing a few keys is cheaper than hashing them; a large one is
/// hashed, so that nobody can make it expensive.
pub(super) struct Seen<'e>(Option<HashSet<&'e str>>);

// === impl Reader ===

impl<'a> Reader<'a> {
    /// A reader for the object at `root`.
    pub fn new(source: &'a Source, root: &'a Node<'a>, found: &'a mut Vec<Diagnostic>) -> Self {
        Reader {
            source,
            root,
            subject: Subject::default(),
            found,
            dropped: None,
            definition: None,
            unknown_field: &codes::UNKNOWN_FIELD,
        }
    }

    /// What has been found so far.
    pub fn found(&self) -> &[Diagnostic] {
        self.found
    }

    /// Reads something whose findings nobody wants, e.g. an object that is already stored.
    pub fn quietly<T>(&self, read: impl FnOnce(&mut Reader<'_>) -> T) -> T {
        let mut nobody = Vec::new();
        let mut reader = Reader::new(self.source, self.root, &mut nobody);
        reader.subject = self.subject.clone();
        reader.definition = self.definition;
        read(&mut reader)
    }

    /// Holds what is read to a definition: a field that it does not have in a position is unknown there, even if the
    /// type has it for another one.
    pub fn hold_to(&mut self, definition: &'static Schema) {
        self.definition = Some(definition);
    }

    /// The fields that exist in a position, if there is a definition and it is about them. It is not about the object
    /// itself, whose `kind` and `metadata` no definition mentions.
    pub fn fields_at(&self, path: &Path<'_>) -> Option<Fields> {
        let definition = self.definition?;
        let schema = path.follow(Some(definition), &mut |schema, step| match step {
            Segment::Root => schema,
            step => schema.and_then(|schema: &Schema| schema.below(step)),
        })?;
        schema.fields().filter(|_| !std::ptr::eq(schema, definition))
    }

    /// Where a field stands; the nearest thing around it when it is not written.
    pub fn locate(&self, path: &Path<'_>) -> Location {
        let mut found = true;
        let node = path.follow(self.root, &mut |node, step| {
            let child = match (&node.value, step) {
                (_, Segment::Root) => Some(node),
                (Value::List(items), Segment::Index(index)) => items.get(index),
                (_, Segment::Field(key) | Segment::Key(key)) => node.get(key),
                (_, Segment::Index(_)) => None,
            };
            // From the first step that leads nowhere on, the last place stands.
            found &= child.is_some();
            child.filter(|_| found).unwrap_or(node)
        });
        self.location(node.span)
    }

    /// Where a span stands.
    pub fn location(&self, span: Span) -> Location {
        self.source.location(span)
    }

    /// Reports something about a field.
    pub fn report(
        &mut self,
        code: &'static Code,
        path: &Path<'_>,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        let at = self.locate(path);
        self.report_at(code, path, at, message)
    }

    /// Reports something about a field, with a place that is not the field's own.
    pub fn report_at(
        &mut self,
        code: &'static Code,
        path: &Path<'_>,
        at: Location,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        let field = path.to_string();
        let finding =
            Diagnostic::new(code, message).about(self.subject.clone()).field(field).at(Some(at.clone()));
        if self.found.len() > MOST_FINDINGS {
            return self.dropped.insert(Box::new(finding));
        }
        if self.found.len() == MOST_FINDINGS {
            let message = format!("more than {MOST_FINDINGS} findings: the rest are not kept");
            self.found.push(Diagnostic::new(&codes::LIMIT, message).at(Some(at)));
            return self.dropped.insert(Box::new(finding));
        }
        self.found.push(finding);
        let last = self.found.len() - 1;
        &mut self.found[last]
    }

    /// Who takes what a check of apimachinery finds, under one code.
    pub fn sink(&mut self, code: &'static Code) -> impl FnMut(&Path<'_>, String) {
        move |path, body| {
            self.report(code, path, body);
        }
    }

    /// The entries of a mapping; nothing written is an empty one.
    pub fn mapping<'n, 's>(&mut self, node: &'n Node<'s>, path: &Path<'_>) -> Option<&'n [Entry<'s>]> {
        match &node.value {
            Value::Map(entries) => Some(entries),
            Value::Null => Some(&[]),
            other => self.wrong_type(path, "a mapping", other, node),
        }
    }

    /// The items of a list.
    pub fn list<'n, 's>(&mut self, node: &'n Node<'s>, path: &Path<'_>) -> Option<&'n [Node<'s>]> {
        match &node.value {
            Value::List(items) => Some(items),
            other => self.wrong_type(path, "a list", other, node),
        }
    }

    pub(super) fn wrong_type<T>(
        &mut self,
        path: &Path<'_>,
        expected: &str,
        found: &Value<'_>,
        node: &Node<'_>,
    ) -> Option<T> {
        let written = self.written(node);
        let quote =
            expected == "a string" && matches!(found, Value::Bool(_) | Value::Integer(_) | Value::Float(_));
        let at = self.location(node.span);
        let message = format!("expected {expected}, found {}", found.kind());
        let diagnostic = self.report_at(&codes::WRONG_TYPE, path, at, message);
        if quote {
            diagnostic.help =
                Some(format!("YAML reads {written} as {}: write it in quotes, \"{written}\"", found.kind()));
        }
        None
    }

    /// A value as it stands in the text.
    pub fn written(&self, node: &Node<'_>) -> &'a str {
        self.source.text().get(node.span.start as usize..node.span.end as usize).unwrap_or("").trim()
    }

    /// A scalar's text; for a number or a boolean, what is written there.
    pub fn scalar<'n>(&self, node: &'n Node<'_>) -> Option<&'n str>
    where
        'a: 'n,
    {
        match &node.value {
            Value::String(text) => Some(text),
            Value::Bool(_) | Value::Integer(_) | Value::Float(_) => Some(self.written(node)),
            _ => None,
        }
    }

    /// Reads one field of an object, and notes in `unreadable` if that cannot be done.
    pub fn field<T: Decode>(
        &mut self,
        slot: &mut Option<T>,
        entry: &Entry<'_>,
        path: &Path<'_>,
        unreadable: &mut Option<String>,
    ) {
        *slot = None;
        if !entry.value.is_null() {
            *slot = T::decode(&entry.value, &path.child(&entry.key), self);
            if slot.is_none() {
                unreadable.get_or_insert_with(|| format!("{} cannot be read", entry.key));
            }
        }
    }

    /// Reports every key that is written twice in a mapping, here or below: readers differ in what they make of it, and
    /// one of the two is lost.
    pub fn duplicates(&mut self, node: &Node<'_>, path: &Path<'_>, deep: bool) {
        match &node.value {
            Value::Map(entries) => {
                let mut seen = Seen::new(entries.len());
                for (index, entry) in entries.iter().enumerate() {
                    let path = path.child(&entry.key);
                    if seen.twice(entries, index) {
                        let at = self.location(entry.key_span);
                        let message = format!("{} is written twice", entry.key);
                        let diagnostic = self.report_at(&codes::DUPLICATE_KEY, &path, at, message);
                        diagnostic.help = Some(match &*entry.key {
                            "apiVersion" | "kind" => {
                                "is a line `---` missing between two objects?".to_owned()
                            }
                            _ => "only the last one would count; put both into one".to_owned(),
                        });
                    }
                    if deep {
                        self.duplicates(&entry.value, &path, deep);
                    }
                }
            }
            Value::List(items) if deep => {
                for (index, item) in items.iter().enumerate() {
                    self.duplicates(item, &path.index(index), deep);
                }
            }
            _ => {}
        }
    }

    /// Reports a field that the API does not have: those that it has are `known`, or `here` if there is a definition.
    pub fn unknown(
        &mut self,
        entry: &Entry<'_>,
        path: &Path<'_>,
        known: &[&str],
        here: Option<Fields>,
        unreadable: &mut Option<String>,
    ) {
        let here: Option<Vec<&str>> = here.map(|fields| fields.iter().map(|(name, _)| *name).collect());
        let known = here.as_deref().unwrap_or(known);
        let at = self.location(entry.key_span);
        let hint = HINTS.iter().find(|(key, beside, _)| *key == entry.key && known.contains(beside));
        let near = nearest(&entry.key, known.iter().copied());
        let path = path.child(&entry.key);
        let message = format!("unknown field \"{path}\"");
        let diagnostic = self.report_at(self.unknown_field, &path, at, message);
        diagnostic.help = match (hint, near.first()) {
            (Some((_, _, hint)), _) => Some((*hint).to_owned()),
            (None, Some(near)) => Some(format!("did you mean {near}?")),
            (None, None) if known.contains(&"matchLabels") && !entry.key.ends_with("Selector") => {
                Some(format!("labels go below matchLabels: {{{}: …}}", entry.key))
            }
            (None, None) => None,
        };
        unreadable.get_or_insert_with(|| format!("unknown field {}", entry.key));
    }
}

// === impl Seen ===

impl<'e> Seen<'e> {
    const FEW: usize = 16;

    pub(super) fn new(size: usize) -> Self {
        Seen((size > Self::FEW).then(|| HashSet::with_capacity(size)))
    }

    /// Whether the key of this entry stands before it, too. To be asked for each in turn.
    pub(super) fn twice(&mut self, entries: &'e [Entry<'_>], index: usize) -> bool {
        let key: &str = &entries[index].key;
        match &mut self.0 {
            Some(seen) => !seen.insert(key),
            None => entries[..index].iter().any(|entry| entry.key == key),
        }
    }
}
