//! From the parser's places to ours, and from rough places to exact ones.
//!
//! The parser counts characters and knows where its tokens begin, but a token often ends behind the white space and
//! the comment that follow it, and some begin behind what introduces them. What it cannot tell is found in the text
//! itself, which is at hand.

use super::chunks::Chunk;

/// Turns the character counts of one chunk's parser into byte offsets of the whole text.
#[derive(Debug)]
pub(super) struct Marks<'s> {
    text: &'s str,
    chunk: Chunk,
    /// Characters are bytes, and nothing need be counted.
    ascii: bool,
    /// The place asked for last. The next one is seldom far, and seldom behind.
    characters: usize,
    byte: usize,
}

// === impl Marks ===

impl<'s> Marks<'s> {
    pub(super) fn new(text: &'s str, chunk: Chunk) -> Self {
        let ascii = text.get(chunk.start..chunk.end).is_some_and(str::is_ascii);
        Marks { text, chunk, ascii, characters: 0, byte: chunk.start }
    }

    /// The byte offset of a character.
    #[inline]
    pub(super) fn byte(&mut self, character: usize) -> usize {
        if self.ascii {
            return (self.chunk.start + character).min(self.chunk.end);
        }
        let bytes = self.text.as_bytes();
        let continues = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
        while self.characters < character && self.byte < self.chunk.end {
            self.byte += 1;
            while continues(self.byte) {
                self.byte += 1;
            }
            self.characters += 1;
        }
        while self.characters > character && self.byte > self.chunk.start {
            self.byte -= 1;
            while continues(self.byte) {
                self.byte -= 1;
            }
            self.characters -= 1;
        }
        self.byte
    }

    /// Says that a character count stands for a marker. The parser counts some directives in bytes, so this puts
    /// right what they have shifted; later markers of the same chunk (after a lone `\r`) need nothing of the kind.
    pub(super) fn at_marker(&mut self, character: usize) {
        if let Some(marker) = self.chunk.marker.take() {
            (self.characters, self.byte) = (character, marker);
        }
    }

    /// Where the last line ends that holds anything.
    pub(super) fn end(&self) -> usize {
        self.chunk.start
            + self.text.get(self.chunk.start..self.chunk.end).map_or(0, |chunk| chunk.trim_end().len())
    }
}

/// Behind the anchor and the tag that begin at an offset; at most an end.
pub(super) fn skip_properties(text: &str, from: usize, end: usize) -> usize {
    let bytes = text.as_bytes();
    let skip = |at: usize, wanted: fn(u8) -> bool| {
        let rest = bytes.get(at..end).unwrap_or_default();
        rest.iter().position(|byte| !wanted(*byte)).map_or(end, |length| at + length)
    };
    let mut at = from;
    while at < end {
        at = match bytes.get(at) {
            Some(b'&' | b'!') => skip(at, |byte| !byte.is_ascii_whitespace()),
            Some(b'#') => skip(at, |byte| byte != b'\n' && byte != b'\r'),
            Some(byte) if byte.is_ascii_whitespace() => skip(at, |byte| byte.is_ascii_whitespace()),
            _ => break,
        };
    }
    at
}

/// Where the line of an offset begins, behind its indentation.
pub(super) fn line_content(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let head = bytes.get(..at).unwrap_or_default();
    let line = memchr::memrchr2(b'\n', b'\r', head).map_or(0, |end| end + 1);
    let indent = head.get(line..).unwrap_or_default().iter().position(|byte| *byte != b' ');
    indent.map_or(at, |indent| line + indent)
}

/// Behind the quote that closes the one at an offset.
pub(super) fn quoted_end(text: &str, open: usize, end: usize) -> usize {
    let bytes = text.as_bytes().get(..end).unwrap_or_default();
    let quote = bytes.get(open).copied().unwrap_or(b'"');
    let mut at = open + 1;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr2(quote, b'\\', rest)) {
        at += found + 1;
        if bytes.get(at - 1) != Some(&quote) {
            // In single quotes a backslash is itself.
            at += usize::from(quote == b'"');
        } else if quote == b'\'' && bytes.get(at) == Some(&quote) {
            at += 1;
        } else {
            return at;
        }
    }
    end
}

/// The place of a block scalar's text that the parser gives from its first character to wherever it looked.
///
/// An empty one has no first character: the parser points at what follows, and its header is meant instead.
pub(super) fn block_scalar(text: &str, start: usize, end: usize) -> (usize, usize) {
    let trimmed = |end: usize| text.get(..end).map_or(end, |head| head.trim_end().len());
    let last = trimmed(end);
    if last > start {
        return (start, last);
    }
    let head = text.as_bytes().get(line_content(text, last)..last).unwrap_or_default();
    let header = memchr::memrchr2(b'|', b'>', head).map_or(last, |at| last - head.len() + at);
    (header, last.max(header))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_become_bytes_in_both_directions() {
        let text = "ab: äöü\nc: 你好 x";
        let chunk = Chunk { start: 2, end: text.len(), marker: None };
        let mut marks = Marks::new(text, chunk);
        let offsets: Vec<usize> = text[2..].char_indices().map(|(at, _)| at + 2).collect();
        for order in [[0, 1, 5, 9], [9, 5, 1, 0], [3, 3, 12, 2]] {
            for character in order {
                assert_eq!(marks.byte(character), offsets[character]);
            }
        }
        assert_eq!(marks.byte(900), text.len());
    }

    #[test]
    fn quotes_close_where_they_do() {
        for (text, quoted) in [
            (r#""a" # "b""#, r#""a""#),
            (r#""a\"b\\" : c"#, r#""a\"b\\""#),
            ("'it''s' : c'", "'it''s'"),
            (r"'a\' b", r"'a\'"),
            ("''", "''"),
        ] {
            assert_eq!(&text[..quoted_end(text, 0, text.len())], quoted);
        }
    }

    #[test]
    fn properties_are_skipped() {
        let text = "&a !!str # c\n  value";
        assert_eq!(skip_properties(text, 0, text.len()), text.find("value").unwrap());
        assert_eq!(skip_properties("&a", 0, 2), 2);
    }
}
