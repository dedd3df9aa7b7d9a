//! JSON as RFC 8259 has it, with the place of every value.
//!
//! This reader is our own because the published ones either give no places or bring big-number and bit-vector crates
//! along with them, for a grammar of one page. It is strict where the RFC is and reads documents that follow each other
//! (JSON lines, `jq -c`); after an error it goes on at the next line that begins with an object or a list.
//!
//! Children are gathered on two stacks shared by all levels and moved out when their list or mapping ends: one exact
//! allocation for each instead of growing. It recurses, at most [`Limits::depth`] deep.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::limits::Limits;
use super::syntax::{SyntaxError, SyntaxErrorKind};
use super::tree::{Entry, Node, Source, Span, Value};

/// The documents of a JSON text; see [`documents`].
#[derive(Debug)]
pub struct Documents<'s> {
    text: &'s str,
    bytes: &'s [u8],
    at: usize,
    limits: &'s Limits,
    /// Values of the document being read.
    nodes: usize,
    documents: usize,
    items: Vec<Node<'s>>,
    entries: Vec<Entry<'s>>,
}

/// The documents of a JSON text, one after the other. After an error the next line that
/// begins with an object or a list is the next document.
pub fn documents<'s>(source: &'s Source, limits: &'s Limits) -> Documents<'s> {
    let text = source.text();
    Documents {
        text,
        bytes: text.as_bytes(),
        at: if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 },
        limits,
        nodes: 0,
        documents: 0,
        items: Vec::new(),
        entries: Vec::new(),
    }
}

/// Bytes that a string does not simply contain: its end, an escape, a control character.
const SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = true;
        byte += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table
};

// === impl Documents ===

impl<'s> Documents<'s> {
    /// The next byte that is not blank.
    pub(super) fn peek(&mut self) -> Option<u8> {
        const BLANKS: [u8; 8] = [b' '; 8];
        loop {
            match self.bytes.get(self.at) {
                // Most blanks are indentation, which comes in runs.
                Some(b' ') => {
                    while self.bytes.get(self.at..self.at + 8).is_some_and(|run| *run == BLANKS) {
                        self.at += 8;
                    }
                    while self.bytes.get(self.at) == Some(&b' ') {
                        self.at += 1;
                    }
                }
                Some(b'\n' | b'\r' | b'\t') => self.at += 1,
                other => return other.copied(),
            }
        }
    }

    /// What is wrong at the next byte.
    fn wrong(&self, expected: &str) -> SyntaxError {
        let rest = self.text.get(self.at..).unwrap_or_default();
        match rest.chars().next() {
            Some(found) => SyntaxError::syntax(
                format!("expected {expected}, found `{}`", found.escape_debug()),
                Span::new(self.at, self.at + found.len_utf8()),
            ),
            None => SyntaxError::syntax(
                format!("expected {expected}, found the end of the text"),
                // The last line that holds anything says more than the empty one behind it.
                Span::new(self.text.trim_end().len(), self.text.trim_end().len()),
            ),
        }
    }

    fn document(&mut self) -> Result<Node<'s>, SyntaxError> {
        self.nodes = 0;
        self.items.clear();
        self.entries.clear();
        if self.documents == self.limits.documents {
            let here = Span::new(self.at, self.at + 1);
            return Err(SyntaxError::too_many_documents(self.limits.documents, here));
        }
        self.documents += 1;
        let node = self.value(0)?;
        // Without this `nullnull` and `1e5x` would be two documents, or one and an error in the next.
        let open_ended =
            matches!(node.value, Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Float(_));
        let next = self.bytes.get(self.at).copied();
        if open_ended && next.is_some_and(|byte| !matches!(byte, b' ' | b'\n' | b'\r' | b'\t')) {
            return Err(self.wrong("white space after the value"));
        }
        Ok(node)
    }

    fn value(&mut self, depth: usize) -> Result<Node<'s>, SyntaxError> {
        let first = self.peek();
        let start = self.at;
        self.nodes += 1;
        if self.nodes > self.limits.nodes {
            return Err(SyntaxError::too_many_nodes(self.limits.nodes, Span::new(start, start + 1)));
        }
        let value = match first {
            Some(b'"') => Value::String(self.string()?),
            Some(b'{' | b'[') if depth >= self.limits.depth => {
                return Err(SyntaxError::too_deep(self.limits.depth, Span::new(start, start + 1)));
            }
            Some(b'{') => Value::Map(self.map(depth + 1)?),
            Some(b'[') => Value::List(self.list(depth + 1)?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.word("true", Value::Bool(true))?,
            Some(b'f') => self.word("false", Value::Bool(false))?,
            Some(b'n') => self.word("null", Value::Null)?,
            _ => return Err(self.wrong("a value")),
        };
        Ok(Node { value, span: Span::new(start, self.at) })
    }

    fn word(&mut self, word: &str, value: Value<'s>) -> Result<Value<'s>, SyntaxError> {
        if self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes())) {
            self.at += word.len();
            return Ok(value);
        }
        Err(self.wrong("a value"))
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node<'s>>, SyntaxError> {
        self.at += 1;
        let base = self.items.len();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Vec::new());
        }
        loop {
            let item = self.value(depth)?;
            self.items.push(item);
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(self.wrong("`,` or `]`")),
            }
        }
        self.at += 1;
        Ok(self.items.drain(base..).collect())
    }

    fn map(&mut self, depth: usize) -> Result<Vec<Entry<'s>>, SyntaxError> {
        self.at += 1;
        let base = self.entries.len();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Vec::new());
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.wrong("a key in double quotes"));
            }
            let start = self.at;
            let key = self.string()?;
            let key_span = Span::new(start, self.at);
            if self.peek() != Some(b':') {
                return Err(self.wrong("`:`"));
            }
            self.at += 1;
            let value = self.value(depth)?;
            self.entries.push(Entry { key, key_span, value });
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err(self.wrong("`,` or `}`")),
            }
        }
        self.at += 1;
        Ok(self.entries.drain(base..).collect())
    }

    /// Moves on to the next special byte.
    fn skip_ordinary(&mut self) -> Option<u8> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let ordinary = rest.iter().position(|byte| SPECIAL[usize::from(*byte)]).unwrap_or(rest.len());
        self.at += ordinary;
        rest.get(ordinary).copied()
    }

    fn string(&mut self) -> Result<Cow<'s, str>, SyntaxError> {
        let open = self.at;
        self.at += 1;
        let mut owned = String::new();
        let mut from = self.at;
        loop {
            let special = self.skip_ordinary();
            let ordinary = self.text.get(from..self.at).unwrap_or_default();
            match special {
                Some(b'"') => {
                    self.at += 1;
                    if owned.is_empty() {
                        // Every escape stands for a character, so there was none.
                        return Ok(Cow::Borrowed(ordinary));
                    }
                    owned.push_str(ordinary);
                    owned.shrink_to_fit();
                    return Ok(Cow::Owned(owned));
                }
                Some(b'\\') => {
                    owned.push_str(ordinary);
                    let escaped = self.escape()?;
                    owned.push(escaped);
                    from = self.at;
                }
                Some(_) => return Err(self.wrong("a control character to be escaped")),
                None => {
                    return Err(SyntaxError::syntax("this string does not end", Span::new(open, open + 1)));
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, SyntaxError> {
        self.at += 1;
        let escaped = match self.bytes.get(self.at) {
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(plain @ (b'"' | b'\\' | b'/')) => char::from(*plain),
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err(self.wrong("one of `\"\\/bfnrtu` after a backslash")),
        };
        self.at += 1;
        Ok(escaped)
    }

    /// The character behind `\u`. Half of a surrogate pair is U+FFFD, as Go reads it.
    fn unicode(&mut self) -> Result<char, SyntaxError> {
        let high = self.hex()?;
        if !(0xD800..0xDC00).contains(&high) {
            return Ok(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let after = self.at;
        if self.bytes.get(after..after + 2) == Some(b"\\u") {
            self.at += 2;
            let low = self.hex()?;
            if (0xDC00..0xE000).contains(&low) {
                let code = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            // The second escape stands for itself.
            self.at = after;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex(&mut self) -> Result<u32, SyntaxError> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.bytes.get(self.at).and_then(|byte| char::from(*byte).to_digit(16));
            let Some(digit) = digit else { return Err(self.wrong("four hexadecimal digits after `\\u`")) };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }

    fn digits(&mut self) -> Result<(), SyntaxError> {
        let from = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == from { Err(self.wrong("a digit")) } else { Ok(()) }
    }

    fn number(&mut self) -> Result<Value<'s>, SyntaxError> {
        let start = self.at;
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        let zero = self.bytes.get(self.at) == Some(&b'0');
        let whole = self.at;
        self.digits()?;
        if zero && self.at > whole + 1 {
            return Err(SyntaxError::syntax(
                "a number must not begin with a zero",
                Span::new(start, self.at),
            ));
        }
        let mut integer = true;
        if self.bytes.get(self.at) == Some(&b'.') {
            integer = false;
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            integer = false;
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        if integer && let Ok(number) = text.parse() {
            return Ok(Value::Integer(number));
        }
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Value::Float(number)),
            _ => Err(SyntaxError::syntax("this number is too large", Span::new(start, self.at))),
        }
    }
}

impl Documents<'_> {
    /// Where to go on after an error: at the next line that begins with an object or a list, as JSON lines do. Inside an
    /// indented document no line does.
    fn next_document(&self, error: &SyntaxError) -> usize {
        let end = self.bytes.len();
        if error.kind == SyntaxErrorKind::Limit {
            return end;
        }
        let mut from = error.span.start as usize;
        while let Some(line) = self.bytes.get(from..).and_then(|rest| memchr::memchr(b'\n', rest)) {
            from += line + 1;
            if matches!(self.bytes.get(from), Some(b'{' | b'[')) {
                return from;
            }
        }
        end
    }
}

impl<'s> Iterator for Documents<'s> {
    type Item = Result<Node<'s>, SyntaxError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.peek()?;
        let result = self.document();
        if let Err(error) = &result {
            self.at = self.next_document(error);
        }
        Some(result)
    }
}
