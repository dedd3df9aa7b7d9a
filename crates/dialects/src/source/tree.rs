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
    /// How many characters begin before each block of [`BLOCK`] bytes; empty where every byte is a character. Without
    /// it every place in a file of one long line would cost a walk along that line.
    characters: Vec<u32>,
}

/// Bytes between two counts of characters.
const BLOCK: usize = 4096;

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
        let mut characters = Vec::new();
        if !text.is_ascii() {
            let mut before = 0;
            for block in text.as_bytes().chunks(BLOCK) {
                characters.push(before);
                before += count_characters(block);
            }
            // For the end of the text, where a block may begin that holds nothing.
            characters.push(before);
        }
        Source { name: name.into(), text, line_starts, characters }
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
        let line_end = line_start.saturating_add(Span::new(text.len(), 0).start);
        let before = self.characters_before(line_start);
        let characters = |offset: u32| self.characters_before(offset.clamp(line_start, line_end)) - before;
        let (from, to) = (characters(span.start), characters(span.end));
        Location {
            file: Arc::clone(&self.name),
            line: u32::try_from(line + 1).unwrap_or(u32::MAX),
            column: from.saturating_add(1),
            width: to.saturating_sub(from).max(1),
        }
    }

    /// How many characters begin before a byte offset.
    fn characters_before(&self, offset: u32) -> u32 {
        let (block, bytes) = (offset as usize / BLOCK, self.text.as_bytes());
        match self.characters.get(block) {
            None => offset,
            Some(before) => {
                before + count_characters(bytes.get(block * BLOCK..offset as usize).unwrap_or_default())
            }
        }
    }

    /// The text of a line (from 0), without its end.
    pub fn line(&self, line: usize) -> &str {
        let Some(start) = self.line_starts.get(line) else { return "" };
        let end = self.line_starts.get(line + 1).map_or(self.text.len(), |next| *next as usize);
        self.text.get(*start as usize..end).unwrap_or("").trim_end_matches(['\n', '\r'])
    }

    /// The text of a line, or of a long one so many characters around a column, and where in it that column is. Line
    /// and column count from 0.
    pub fn excerpt(&self, line: usize, column: usize, most: usize) -> (&str, usize) {
        let text = self.line(line);
        if text.len() <= most {
            return (text, column);
        }
        let line_start = self.line_starts.get(line).copied().unwrap_or(0);
        let from = column.saturating_sub(most / 2);
        let wanted = self.characters_before(line_start).saturating_add(Span::new(from, 0).start);
        let start = self.byte_of(wanted).saturating_sub(line_start as usize).min(text.len());
        let rest = text.get(start..).unwrap_or("");
        let end = rest.char_indices().nth(most).map_or(rest.len(), |(end, _)| end);
        (rest.get(..end).unwrap_or(""), column - from)
    }

    /// The byte offset of a character; the end when there are fewer.
    fn byte_of(&self, character: u32) -> usize {
        if self.characters.is_empty() {
            return (character as usize).min(self.text.len());
        }
        let block = self.characters.partition_point(|before| *before <= character).saturating_sub(1);
        let left = character - self.characters.get(block).copied().unwrap_or(0);
        let bytes = self.text.as_bytes().get(block * BLOCK..).unwrap_or_default();
        let mut begins = bytes.iter().enumerate().filter(|(_, byte)| **byte & 0xC0 != 0x80);
        block * BLOCK + begins.nth(left as usize).map_or(bytes.len(), |(at, _)| at)
    }
}

/// How many characters begin in these bytes of a text.
fn count_characters(bytes: &[u8]) -> u32 {
    let begins = |byte: &&u8| **byte & 0xC0 != 0x80;
    u32::try_from(bytes.iter().filter(begins).count()).unwrap_or(u32::MAX)
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
    fn a_location_in_a_long_line_counts_characters() {
        for unit in ["a", "ä", "ab日", "😀"] {
            let line = unit.repeat(10_000);
            let source = Source::new("f", format!("x\n{line}\n{line}"));
            for (characters, (offset, _)) in line.char_indices().enumerate().step_by(997) {
                let start = 2 + line.len() + 1 + offset;
                let location = source.location(Span::new(start, source.text().len()));
                assert_eq!((location.line, location.column as usize), (3, characters + 1));
                assert_eq!(location.width as usize, line.chars().count() - characters);
                let (excerpt, at) = source.excerpt(2, characters, 100);
                assert!(excerpt.chars().count() <= 100 && excerpt.len() < line.len());
                let here = line.chars().skip(characters - at).take(100);
                assert!(excerpt.chars().eq(here) && at <= 50);
            }
        }
    }

    #[test]
    fn a_span_past_the_end_is_the_end() {
        let source = Source::new("f", "ab");
        let location = source.location(Span::new(900, 901));
        assert_eq!((location.line, location.column, location.width), (1, 3, 1));
    }
}
