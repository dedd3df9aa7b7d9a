//! A document as written: values with the place where each of them stands.
//!
//! YAML and JSON both become this tree, so that nothing behind it knows which one it was. Text is borrowed from the
//! source where it can be. Places are byte offsets (eight bytes a value); [`Source`] turns them into line and column
//! when somebody is told about them.

use std::borrow::Cow;
use std::sync::Arc;

use palisade_model::diagnostic::Location;

/// A half-open range of byte offsets in a [`Source`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node<'s> {
    /// What is written there.
    pub value: Value<'s>,
    /// Where it is written.
    pub span: Span,
}

/// What can be written.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'s> {
    /// Nothing, `null` or `~`.
    Null,
    /// A truth value; in YAML also `yes`, `no`, `on`, `off`, `y`, `n`, as kubectl reads them.
    Bool(bool),
    /// A whole number that fits.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// Text.
    String(Cow<'s, str>),
    /// A list.
    List(Vec<Node<'s>>),
    /// A mapping, in the order written. A key that is written twice stands here twice.
    Map(Vec<Entry<'s>>),
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry<'s> {
    /// The key's text.
    pub key: Cow<'s, str>,
    /// Where the key stands.
    pub key_span: Span,
    /// The value.
    pub value: Node<'s>,
}

/// A text with a name: what spans point into.
#[derive(Debug)]
pub struct Source {
    name: Arc<str>,
    text: String,
    line_starts: Vec<u32>,
}

// === impl Span ===

impl Span {
    /// From start up to, not including, end.
    pub fn new(start: usize, end: usize) -> Self {
        let clamp = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Span { start: clamp(start), end: clamp(end) }
    }
}

// === impl Node ===

impl<'s> Node<'s> {
    /// The value of a key of a mapping; the last one where it is written twice.
    pub fn get(&self, key: &str) -> Option<&Node<'s>> {
        match &self.value {
            Value::Map(entries) => {
                entries.iter().rev().find(|entry| entry.key == key).map(|entry| &entry.value)
            }
            _ => None,
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Whether nothing is written here.
    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }
}

// === impl Value ===

impl Value<'_> {
    /// What it is, in a user's words: `a list`, `a string`.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Integer(_) | Value::Float(_) => "a number",
            Value::String(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}

// === impl Source ===

impl Source {
    /// A text under the name that diagnostics shall show.
    pub fn new(name: impl Into<Arc<str>>, text: impl Into<String>) -> Self {
        let text = text.into();
        let mut line_starts = vec![0];
        line_starts
            .extend(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| Span::new(at + 1, at + 1).start));
        Source { name: name.into(), text, line_starts }
    }

    /// The name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The line (from 0) that holds a byte offset.
    fn line_of(&self, offset: u32) -> usize {
        self.line_starts.partition_point(|start| *start <= offset).saturating_sub(1)
    }

    /// Line and column of a span, both from 1.
    pub fn location(&self, span: Span) -> Location {
        let line = self.line_of(span.start);
        let text = self.line(line);
        let line_start = self.line_starts.get(line).copied().unwrap_or(0);
        let characters = |offset: u32| {
            let bytes = (offset.saturating_sub(line_start) as usize).min(text.len());
            text.get(..bytes).map_or(bytes, |head| head.chars().count())
        };
        let (from, to) = (characters(span.start), characters(span.end));
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Location {
            file: Arc::clone(&self.name),
            line: number(line + 1),
            column: number(from + 1),
            width: number(to.saturating_sub(from).max(1)),
        }
    }

    /// The text of a line (from 0), without its end.
    pub fn line(&self, line: usize) -> &str {
        let Some(start) = self.line_starts.get(line) else { return "" };
        let end = self.line_starts.get(line + 1).map_or(self.text.len(), |next| *next as usize);
        self.text.get(*start as usize..end).unwrap_or("").trim_end_matches(['\n', '\r'])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_counts_lines_and_characters_from_one() {
        let source = Source::new("f.yaml", "a: 1\nä: wörld\r\n");
        let start = source.text().find("wörld").unwrap();
        let location = source.location(Span::new(start, start + "wörld".len()));
        assert_eq!((location.line, location.column, location.width), (2, 4, 5));
        assert_eq!(source.line(1), "ä: wörld");
    }

    #[test]
    fn a_span_past_the_end_is_the_end() {
        let source = Source::new("f", "ab");
        let location = source.location(Span::new(900, 901));
        assert_eq!((location.line, location.column, location.width), (1, 3, 1));
    }
}
