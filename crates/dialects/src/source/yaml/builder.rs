//! From the parser's events to a tree.
//!
//! Reading does not recurse. Children are gathered on two stacks shared by all levels and moved out when their list or
//! mapping ends: one exact allocation for each instead of growing. Aliases are expanded by copying what their anchor
//! held, because the tree owns its values; what may be copied, and kept to be copied, is counted, in values and in bytes:
//! one value may be a text of a megabyte. A text that is borrowed counts, too, since decoding copies it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use saphyr_parser::{Event, ScalarStyle, ScanError, Tag};

use super::super::limits::Limits;
use super::super::syntax::SyntaxError;
use super::super::tree::{Entry, Node, Span, Value};
use super::chunks::Chunk;
use super::marks::{self, Marks};
use super::scalar;

/// The tree of the document being read.
#[derive(Debug)]
pub(super) struct Builder<'s> {
    text: &'s str,
    limits: &'s Limits,
    marks: Marks<'s>,
    frames: Vec<Frame<'s>>,
    items: Vec<Node<'s>>,
    entries: Vec<Entry<'s>>,
    root: Option<Node<'s>>,
    /// Values so far, those from aliases included.
    nodes: usize,
    /// Values that came from aliases.
    copied: usize,
    /// Bytes of values that came from aliases, in all documents so far.
    copied_bytes: usize,
    /// Values held by `anchors`.
    kept: usize,
    /// Bytes of values held by `anchors`.
    kept_bytes: usize,
    anchors: BTreeMap<usize, Anchor<'s>>,
    /// Where the last thing ended that was written.
    end: usize,
}

/// A list or a mapping that has begun.
#[derive(Debug)]
struct Frame<'s> {
    kind: Kind<'s>,
    start: usize,
    anchor: usize,
    /// How many values there were before it.
    nodes: usize,
    /// How many lists and mappings stand inside each other in it, itself included.
    height: usize,
}

#[derive(Debug)]
enum Kind<'s> {
    /// Where its items begin.
    List(usize),
    Map {
        /// Where its entries begin.
        base: usize,
        key: Option<Key<'s>>,
        /// The values of its `<<`.
        merges: Vec<Node<'s>>,
    },
}

/// A key whose value is still to come.
#[derive(Debug)]
struct Key<'s> {
    text: Cow<'s, str>,
    span: Span,
    merge: bool,
}

/// What an alias may stand for.
#[derive(Debug)]
enum Anchor<'s> {
    /// Still being read: an alias would contain itself.
    Open,
    /// More than aliases may copy.
    TooLarge(Excess),
    Kept {
        node: Node<'s>,
        nodes: usize,
        bytes: usize,
        height: usize,
    },
}

/// What there is too much of behind an alias.
#[derive(Debug, Clone, Copy)]
enum Excess {
    Values,
    Bytes,
}

/// Bytes of a value besides its text: its part of the tree.
const VALUE_BYTES: usize = size_of::<Entry<'static>>();

// === impl Builder ===

impl<'s> Builder<'s> {
    pub(super) fn new(text: &'s str, limits: &'s Limits) -> Self {
        Builder {
            text,
            limits,
            marks: Marks::new(text, Chunk { start: 0, end: 0, marker: None }),
            frames: Vec::new(),
            items: Vec::new(),
            entries: Vec::new(),
            root: None,
            nodes: 0,
            copied: 0,
            copied_bytes: 0,
            kept: 0,
            kept_bytes: 0,
            anchors: BTreeMap::new(),
            end: 0,
        }
    }

    /// Goes on with events from another chunk.
    pub(super) fn begin_chunk(&mut self, chunk: Chunk) {
        self.marks = Marks::new(self.text, chunk);
        self.end = chunk.start;
    }

    /// The tree of the document that has ended; none if it was empty.
    pub(super) fn take(&mut self) -> Option<Node<'s>> {
        self.root.take()
    }

    fn begin_document(&mut self) {
        self.frames.clear();
        self.items.clear();
        self.entries.clear();
        self.root = None;
        self.anchors.clear();
        (self.nodes, self.copied, self.kept, self.kept_bytes) = (0, 0, 0, 0);
    }

    /// Takes the next event.
    pub(super) fn event(&mut self, event: Event<'s>, span: saphyr_parser::Span) -> Result<(), SyntaxError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => self.scalar(text, style, anchor, tag.as_deref(), span),
            Event::MappingStart(anchor, tag) => {
                let kind = Kind::Map { base: self.entries.len(), key: None, merges: Vec::new() };
                self.begin(kind, anchor, tag.is_some(), span)
            }
            Event::SequenceStart(anchor, tag) => {
                self.begin(Kind::List(self.items.len()), anchor, tag.is_some(), span)
            }
            Event::MappingEnd | Event::SequenceEnd => self.finish(span),
            Event::Alias(anchor) => self.alias(anchor, span),
            Event::DocumentStart(explicit) => {
                if explicit {
                    self.marks.at_marker(span.start.index());
                }
                self.begin_document();
                Ok(())
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
        }
    }

    /// Where the key ends whose value comes next; none if a key comes next, or no mapping is open.
    fn key_end(&self) -> Option<usize> {
        match self.frames.last() {
            Some(Frame { kind: Kind::Map { key: Some(key), .. }, .. }) => Some(key.span.end as usize),
            _ => None,
        }
    }

    fn expects_key(&self) -> bool {
        matches!(self.frames.last(), Some(Frame { kind: Kind::Map { key: None, .. }, .. }))
    }

    fn scalar(
        &mut self,
        text: Cow<'s, str>,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        span: saphyr_parser::Span,
    ) -> Result<(), SyntaxError> {
        let bare = anchor == 0 && tag.is_none();
        let is_key = self.expects_key();
        let (mut start, mut end) = (self.marks.byte(span.start.index()), self.marks.byte(span.end.index()));
        if !bare {
            let value = marks::skip_properties(self.text, start, end);
            start = if value < end { value } else { start };
        }
        let text = match style {
            ScalarStyle::Plain if text.is_empty() => {
                if bare && self.frames.is_empty() {
                    // An empty document.
                    return Ok(());
                }
                if bare {
                    // The parser points at the next thing it saw, which may be lines away.
                    let rough =
                        self.text.get(..start).map_or(start, |head| head.trim_end_matches([' ', '\t']).len());
                    start = self.key_end().unwrap_or(rough);
                    end = start;
                }
                Cow::Borrowed("")
            }
            ScalarStyle::Plain => self.borrow(text, start, end),
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => {
                end = marks::quoted_end(self.text, start, end);
                self.borrow(text, start + 1, end.saturating_sub(1))
            }
            ScalarStyle::Literal | ScalarStyle::Folded => {
                (start, end) = marks::block_scalar(self.text, start, end);
                owned(text)
            }
        };
        let span = Span::new(start, end);
        self.end = end;
        if !is_key {
            let value = scalar::resolve(text, style, tag);
            return self.push(Node { value, span }, 1, 0, anchor);
        }
        if anchor != 0 {
            let value = scalar::resolve(text.clone(), style, tag);
            self.keep(anchor, &Node { value, span }, 1, 0);
        }
        self.key(Key { merge: style == ScalarStyle::Plain && text == "<<", text, span });
        Ok(())
    }

    /// The text itself where it is what the parser made of it.
    fn borrow(&self, parsed: Cow<'s, str>, start: usize, end: usize) -> Cow<'s, str> {
        match self.text.get(start..end) {
            Some(written) if *written == *parsed => Cow::Borrowed(written),
            _ => owned(parsed),
        }
    }

    fn key(&mut self, next: Key<'s>) {
        if let Some(Frame { kind: Kind::Map { key, .. }, .. }) = self.frames.last_mut() {
            *key = Some(next);
        }
    }

    fn begin(
        &mut self,
        kind: Kind<'s>,
        anchor: usize,
        tagged: bool,
        span: saphyr_parser::Span,
    ) -> Result<(), SyntaxError> {
        let mut start = self.marks.byte(span.start.index());
        if anchor != 0 || tagged {
            start = marks::skip_properties(self.text, start, self.marks.byte(span.end.index()));
        } else if span.is_empty() && matches!(kind, Kind::List(_)) && self.key_end().is_some() {
            // A list that is not indented below its key begins behind its first dash for the parser.
            let line = marks::line_content(self.text, start);
            start = if self.text.as_bytes().get(line) == Some(&b'-') { line } else { start };
        }
        if self.expects_key() {
            return Err(SyntaxError::syntax("a mapping key must be a scalar", self.character(start)));
        }
        if self.frames.len() >= self.limits.depth {
            return Err(SyntaxError::too_deep(self.limits.depth, self.character(start)));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, Anchor::Open);
        }
        self.end = start;
        self.frames.push(Frame { kind, start, anchor, nodes: self.nodes, height: 1 });
        Ok(())
    }

    fn finish(&mut self, span: saphyr_parser::Span) -> Result<(), SyntaxError> {
        let Some(frame) = self.frames.pop() else { return Ok(()) };
        // Only a closing bracket has a width; a block ends where its last value does.
        if !span.is_empty() {
            let at = self.marks.byte(span.start.index());
            if matches!(self.text.as_bytes().get(at), Some(b']' | b'}')) {
                self.end = at + 1;
            }
        }
        let value = match frame.kind {
            Kind::List(base) => Value::List(self.items.drain(base..).collect()),
            Kind::Map { base, merges, .. } => {
                let mut entries: Vec<Entry<'s>> = self.entries.drain(base..).collect();
                if !merges.is_empty() {
                    merge(&mut entries, merges)?;
                }
                Value::Map(entries)
            }
        };
        let first = self.character(frame.start);
        let node = Node { value, span: Span::new(frame.start, self.end.max(first.end as usize)) };
        let nodes = self.nodes - frame.nodes + 1;
        self.push(node, nodes, frame.height, frame.anchor)
    }

    fn alias(&mut self, anchor: usize, span: saphyr_parser::Span) -> Result<(), SyntaxError> {
        let place = Span::new(self.marks.byte(span.start.index()), self.marks.byte(span.end.index()));
        let (node, nodes, bytes, height) = match self.anchors.get(&anchor) {
            Some(Anchor::Kept { node, nodes, bytes, height }) => (node, *nodes, *bytes, *height),
            Some(Anchor::Open) => {
                return Err(SyntaxError::syntax("this alias stands inside what it refers to", place));
            }
            Some(Anchor::TooLarge(excess)) => return Err(self.too_many_aliases(*excess, place)),
            None => return Err(SyntaxError::syntax("no anchor of this name in the document", place)),
        };
        self.end = place.end as usize;
        let copied_bytes = self.copied_bytes + bytes;
        if copied_bytes > self.limits.alias_bytes {
            return Err(self.too_many_aliases(Excess::Bytes, place));
        }
        if self.expects_key() {
            let text = match &node.value {
                Value::String(text) => text.clone(),
                Value::List(_) | Value::Map(_) => {
                    return Err(SyntaxError::syntax("a mapping key must be a scalar", place));
                }
                // A key is what is written.
                _ => Cow::Borrowed(
                    self.text.get(node.span.start as usize..node.span.end as usize).unwrap_or_default(),
                ),
            };
            self.copied_bytes = copied_bytes;
            self.key(Key { text, span: place, merge: false });
            return Ok(());
        }
        if self.copied + nodes > self.limits.alias_nodes {
            return Err(self.too_many_aliases(Excess::Values, place));
        }
        if self.frames.len() + height > self.limits.depth {
            return Err(SyntaxError::too_deep(self.limits.depth, place));
        }
        // The value is complained about where it is used, what is inside where it is written.
        let node = Node { value: node.value.clone(), span: place };
        self.copied += nodes;
        self.copied_bytes = copied_bytes;
        self.nodes += nodes - 1;
        self.push(node, nodes, height, 0)
    }

    fn too_many_aliases(&self, excess: Excess, place: Span) -> SyntaxError {
        let message = match excess {
            Excess::Values => format!("aliases stand for more than {} values", self.limits.alias_nodes),
            Excess::Bytes => {
                format!("aliases in this file stand for more than {} MiB", self.limits.alias_bytes >> 20)
            }
        };
        SyntaxError::limit(message, place)
    }

    /// Puts a finished value where it belongs.
    fn push(
        &mut self,
        node: Node<'s>,
        nodes: usize,
        height: usize,
        anchor: usize,
    ) -> Result<(), SyntaxError> {
        self.nodes += 1;
        if self.nodes > self.limits.nodes {
            return Err(SyntaxError::too_many_nodes(self.limits.nodes, node.span));
        }
        if anchor != 0 {
            self.keep(anchor, &node, nodes, height);
        }
        let Some(frame) = self.frames.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        frame.height = frame.height.max(height + 1);
        match &mut frame.kind {
            Kind::List(_) => self.items.push(node),
            Kind::Map { key, merges, .. } => match key.take() {
                Some(key) if key.merge => merges.push(node),
                Some(Key { text, span, .. }) => {
                    self.entries.push(Entry { key: text, key_span: span, value: node });
                }
                None => {}
            },
        }
        Ok(())
    }

    /// Keeps a value for the aliases to come.
    fn keep(&mut self, anchor: usize, node: &Node<'s>, nodes: usize, height: usize) {
        // Anchors inside anchors are kept several times over: without a bound a small text could fill the memory.
        let kept = match self.kept + nodes <= self.limits.alias_nodes {
            false => Anchor::TooLarge(Excess::Values),
            true => {
                let bytes = bytes(node);
                if self.kept_bytes + bytes <= self.limits.alias_bytes {
                    self.kept += nodes;
                    self.kept_bytes += bytes;
                    Anchor::Kept { node: node.clone(), nodes, bytes, height }
                } else {
                    Anchor::TooLarge(Excess::Bytes)
                }
            }
        };
        self.anchors.insert(anchor, kept);
    }

    /// The place of the character at an offset.
    fn character(&self, at: usize) -> Span {
        let width = self.text.get(at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        Span::new(at, at + width)
    }

    /// What comes next goes on for too long.
    pub(super) fn too_long(&self) -> SyntaxError {
        let rest = self.text.get(self.end..).unwrap_or_default();
        // Behind white space and whatever introduces a value.
        let start = rest.find(|c: char| !c.is_whitespace() && !"-?:,".contains(c)).unwrap_or(0);
        SyntaxError::too_long(self.limits.stretch, self.character(self.end + start))
    }

    /// What the parser says is wrong, in our words and places.
    pub(super) fn scan_error(&mut self, error: &ScanError) -> SyntaxError {
        let at = self.marks.byte(error.marker().index()).min(self.marks.end());
        let span = self.character(at);
        // The parser's own limit on brackets. It can come first, because the parser reads a flow collection that may
        // be a key up to its end before it gives the first event.
        if error.info() == "recursion limit exceeded" {
            return SyntaxError::too_deep(self.limits.depth, span);
        }
        SyntaxError::syntax(error.info(), span)
    }
}

/// Returns what a copy of a value takes at most. Recursion is bounded by the depth of a tree, as it is for the copy.
fn bytes(node: &Node<'_>) -> usize {
    let inside = match &node.value {
        Value::String(text) => text.len(),
        Value::List(items) => items.iter().map(bytes).sum(),
        Value::Map(entries) => entries.iter().map(|entry| entry.key.len() + bytes(&entry.value)).sum(),
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Float(_) => 0,
    };
    VALUE_BYTES + inside
}

/// A parsed text without the room to grow that the parser left in it.
fn owned(parsed: Cow<'_, str>) -> Cow<'_, str> {
    match parsed {
        Cow::Owned(mut text) => {
            text.shrink_to_fit();
            Cow::Owned(text)
        }
        borrowed => borrowed,
    }
}

/// Adds what `<<` names: keys that are not there yet, those named first before the others.
fn merge<'s>(entries: &mut Vec<Entry<'s>>, merges: Vec<Node<'s>>) -> Result<(), SyntaxError> {
    let mut present: HashSet<Cow<'s, str>> = entries.iter().map(|entry| entry.key.clone()).collect();
    let mut add = |node: Node<'s>| match node.value {
        Value::Map(mut merged) => {
            merged.retain(|entry| !present.contains(&entry.key));
            present.extend(merged.iter().map(|entry| entry.key.clone()));
            entries.append(&mut merged);
            Ok(())
        }
        _ => Err(SyntaxError::syntax("`<<` takes a mapping or a list of mappings", node.span)),
    };
    for node in merges {
        match node.value {
            Value::List(items) => items.into_iter().try_for_each(&mut add)?,
            _ => add(node)?,
        }
    }
    Ok(())
}
