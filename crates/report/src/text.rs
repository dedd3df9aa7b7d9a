//! Text for a terminal or a log that no data can forge: the only type that the streams of the command line accept.
//!
//! Names, messages and excerpts come from untrusted files. A [`Text`] holds none of their control
//! characters: whatever is formatted into it is escaped, line breaks included, so that data can neither begin a line, nor
//! move the cursor, nor reorder what a reader sees. Line breaks and colours are values of their own ([`NL`],
//! [`Text::styled`]) that no data can stand for:
//!
//! ```text
//! text!("{} {name}{NL}", look.bad("error:"))      name = "web\nALLOWED"
//!        │     │    ╰── Newline: written as it is
//!        │     ╰─────── String: written as web\nALLOWED, in one line
//!        ╰───────────── Text: written as it is
//! ```
//!
//! Documents with quoting rules of their own (JSON, YAML) are made in [`documents`], from values, never from
//! a string; [`finding`] makes the excerpts of files.

pub mod documents;
pub mod finding;

use std::cell::Cell;
use std::fmt::{self, Display, Write};

use anstyle::Style;

/// Text without control characters, bidirectional overrides or invisible characters, except line breaks and colours that a
/// printer put there.
#[derive(Debug, Default, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text(String);

/// A line break that a printer makes: `text!("one{NL}two")`.
#[derive(Debug, Clone, Copy)]
pub struct Newline;

/// A line break.
pub const NL: Newline = Newline;

/// Formats into a new [`Text`]. Arguments are those of [`format!`].
#[macro_export]
macro_rules! text {
    ($($arguments:tt)*) => {{
        let mut text = $crate::text::Text::new();
        text.put(format_args!($($arguments)*));
        text
    }};
}

/// Appends to a [`Text`]. Arguments are those of [`write!`].
#[macro_export]
macro_rules! write_text {
    ($out:expr, $($arguments:tt)*) => {
        $out.put(format_args!($($arguments)*))
    };
}

/// Appends a line to a [`Text`]. Arguments are those of [`writeln!`].
#[macro_export]
macro_rules! write_line {
    ($out:expr, $($arguments:tt)*) => {{
        $out.put(format_args!($($arguments)*));
        $out.end_line();
    }};
}

thread_local! {
    /// Whether the piece that is being formatted is a `Text` or a `Newline`, and therefore written as it is.
    static TRUSTED: Cell<bool> = const { Cell::new(false) };
}

/// Writer that escapes everything that does not come from a `Text`.
struct Escaping<'o>(&'o mut String);

// === impl Text ===

impl Text {
    /// Returns an empty text.
    pub const fn new() -> Self {
        Text(String::new())
    }

    /// Creates a text from a literal of the program, line breaks included.
    pub fn own(text: &'static str) -> Self {
        Text(text.to_owned())
    }

    /// Takes a text as it is: from a writer that has escaped all data in it, and that made its line breaks. clippy.toml names the
    /// modules that may.
    pub fn trusted(text: String) -> Self {
        Text(text)
    }

    /// Creates a text from data in colour.
    pub fn styled(style: Style, text: impl Display) -> Self {
        let mut out = Text(style.render().to_string());
        out.put(format_args!("{text}"));
        // Writing to a string does not fail.
        let _ = write!(out.0, "{}", style.render_reset());
        out
    }

    /// Appends formatted arguments; see [`write_text!`].
    pub fn put(&mut self, arguments: fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = Escaping(&mut self.0).write_fmt(arguments);
    }

    /// Appends a literal of the program, line breaks included.
    pub fn push_own(&mut self, text: &'static str) {
        self.0.push_str(text);
    }

    /// Appends data, escaped.
    pub fn push_str(&mut self, text: &str) {
        escape_into(text, &mut self.0);
    }

    /// Appends another text as it is.
    pub fn push(&mut self, text: &Text) {
        self.0.push_str(&text.0);
    }

    /// Appends a line break.
    pub fn end_line(&mut self) {
        self.0.push('\n');
    }

    /// Returns the text as it is written to a terminal.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes all content, and keeps the capacity.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the lines, without their line breaks.
    pub fn lines(&self) -> impl Iterator<Item = Text> {
        self.0.lines().map(|line| Text(line.to_owned()))
    }

    /// Returns the text without blanks and line breaks at the end.
    pub fn trim_end(&self) -> Text {
        Text(self.0.trim_end().to_owned())
    }
}

impl Display for Text {
    /// Written as it is into another `Text`. A width is ignored: colours have none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        trusted(|| f.write_str(&self.0))
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        let mut out = Text::new();
        out.push_str(text);
        out
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Text::from(text.as_str())
    }
}

impl FromIterator<Text> for Text {
    fn from_iter<I: IntoIterator<Item = Text>>(texts: I) -> Self {
        let mut out = Text::new();
        out.extend(texts);
        out
    }
}

impl Extend<Text> for Text {
    fn extend<I: IntoIterator<Item = Text>>(&mut self, texts: I) {
        for text in texts {
            self.push(&text);
        }
    }
}

// === impl Newline ===

impl Display for Newline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        trusted(|| f.write_str("\n"))
    }
}

// === impl Escaping ===

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        match TRUSTED.get() {
            true => self.0.push_str(text),
            false => escape_into(text, self.0),
        }
        Ok(())
    }
}

/// Lets one `write_str` pass an [`Escaping`] writer. Into any other writer the text goes as into any other, and is data from
/// then on.
fn trusted(write: impl FnOnce() -> fmt::Result) -> fmt::Result {
    TRUSTED.set(true);
    let result = write();
    TRUSTED.set(false);
    result
}

/// Data with everything escaped that is not visible where it stands.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    escape_into(text, &mut out);
    out
}

fn escape_into(text: &str, out: &mut String) {
    // Nearly every name is plain ASCII.
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return out.push_str(text);
    }
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Writing to a string does not fail.
            c if c.is_ascii_control() => _ = write!(out, "\\x{:02x}", u32::from(c)),
            c if is_unseen(c) => _ = write!(out, "\\u{{{:x}}}", u32::from(c)),
            c => out.push(c),
        }
    }
}

/// Whether a character acts on others or on the terminal instead of being seen: controls (C0, DEL, C1), bidirectional
/// formatting, line and paragraph separators, and what Unicode calls default ignorable (zero-width, fillers, tags, variation
/// selectors).
pub fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_cannot_begin_a_line_or_act_on_a_terminal() {
        let name = "web\nALLOWED\u{1b}[8m\u{202e}\u{9b}\u{7f}\r\t";
        let want = "web\\nALLOWED\\x1b[8m\\u{202e}\\u{9b}\\x7f\\r\\t";
        assert_eq!(text!("{name}").as_str(), want);
        assert_eq!(Text::from(name).as_str(), want);
        assert_eq!(Text::styled(Style::new(), name).as_str(), want);
        let mut out = Text::new();
        out.push_str(name);
        write_line!(out, "{name}");
        assert_eq!(out.as_str(), format!("{want}{want}\n"));
        // Also not by way of something that a printer made and turned into a string.
        assert_eq!(text!("{}", text!("{name}{NL}").to_string()).as_str(), format!("{want}\\n"));
    }

    #[test]
    fn line_breaks_and_colours_of_a_printer_stay() {
        let red = Text::styled(Style::new().bold(), "error:");
        let inner = text!("{red} a{NL}");
        assert_eq!(text!("{inner}b").as_str(), "\u{1b}[1merror:\u{1b}[0m a\nb");
        assert_eq!(inner.lines().count(), 1);
    }

    #[test]
    fn what_readers_see_is_not_escaped() {
        let plain = "shop/web → 10.0.0.1 \"ä\" 你好 \\n ╰─ … §";
        assert_eq!(escape(plain), plain);
    }
}
