//! Standard output and standard error: the one place that writes to them.
//!
//! A [`Text`] has no control characters that came from data. What is left is a line that a CI runner would take for a command,
//! which printable characters suffice for: `::error::…` at the beginning of a line (GitHub Actions), `##[…]`, `##vso[…]` and
//! `##teamcity[…]` anywhere in it (GitHub Actions, Azure Pipelines, TeamCity). Whole lines exist only here, so here their
//! first character is escaped.

#![expect(clippy::disallowed_methods, reason = "everything else goes through this module")]

use std::borrow::Cow;
use std::io::{BufWriter, IsTerminal, StdoutLock, Write};

use palisade_report::style::Look;
use palisade_report::text::Text;

use crate::cli::ColorChoice;

/// The width where nobody says otherwise: a file, a pipe, the README.
const PLAIN_WIDTH: usize = 116;

/// One of the two streams of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// How to print for people on the streams of this process.
pub trait StreamLook {
    /// For standard output.
    fn stdout(choice: ColorChoice) -> Self;
    /// For standard error.
    fn stderr(choice: ColorChoice) -> Self;
}

/// Standard output for an answer that is written in pieces, each of which ends with a line or within no name.
pub struct Buffered(BufWriter<StdoutLock<'static>>);

/// What moves the cursor of a terminal, for progress that is drawn over itself.
#[derive(Debug, Clone, Copy)]
pub enum Cursor {
    LineStart,
    ClearLine,
    Stay,
}

// === impl Look ===

impl StreamLook for Look {
    fn stdout(choice: ColorChoice) -> Self {
        let terminal = Stream::Stdout.is_terminal();
        Look { color: wanted(choice, terminal), width: width(terminal) }
    }

    fn stderr(choice: ColorChoice) -> Self {
        let terminal = Stream::Stderr.is_terminal();
        Look { color: wanted(choice, terminal), width: width(terminal) }
    }
}

// === impl Stream ===

impl Stream {
    pub fn is_terminal(self) -> bool {
        match self {
            Stream::Stdout => std::io::stdout().is_terminal(),
            Stream::Stderr => std::io::stderr().is_terminal(),
        }
    }

    /// Writes all of it at once. Fails as the stream fails; whether that matters is the caller's decision.
    pub fn write(self, text: &Text) -> std::io::Result<()> {
        let text = without_commands(text.as_str());
        match self {
            Stream::Stdout => write(&mut std::io::stdout().lock(), &text),
            Stream::Stderr => write(&mut std::io::stderr().lock(), &text),
        }
    }

    /// Moves the cursor, then writes.
    pub fn draw(self, cursor: Cursor, text: &Text) {
        let cursor = match cursor {
            Cursor::LineStart => "\r",
            Cursor::ClearLine => "\r\u{1b}[2K",
            Cursor::Stay => "",
        };
        let text = format!("{cursor}{}", without_commands(text.as_str()));
        // Nobody is left to see it.
        let _ = match self {
            Stream::Stdout => write(&mut std::io::stdout().lock(), &text),
            Stream::Stderr => write(&mut std::io::stderr().lock(), &text),
        };
    }
}

fn write(stream: &mut impl Write, text: &str) -> std::io::Result<()> {
    stream.write_all(text.as_bytes())?;
    stream.flush()
}

// === impl Buffered ===

impl Buffered {
    pub fn stdout(capacity: usize) -> Self {
        Buffered(BufWriter::with_capacity(capacity, std::io::stdout().lock()))
    }

    pub fn write(&mut self, text: &Text) -> std::io::Result<()> {
        self.0.write_all(without_commands(text.as_str()).as_bytes())
    }

    pub fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

fn wanted(choice: ColorChoice, terminal: bool) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
            terminal && !refused && !dumb
        }
    }
}

fn width(terminal: bool) -> usize {
    let given = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let own = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    let width = if terminal { own().or(given) } else { given };
    width.unwrap_or(PLAIN_WIDTH).clamp(40, 200)
}

/// The text with every line that is a command to a CI runner made harmless.
fn without_commands(text: &str) -> Cow<'_, str> {
    if !text.contains("::") && !text.contains("##") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for line in text.split_inclusive('\n') {
        let start = command_start(line);
        let mut rest = line;
        if let Some(at) = start {
            out.push_str(&line[..at]);
            out.push_str("\\x3a");
            rest = &line[at + 1..];
        }
        while let Some(at) = rest.find("##") {
            let (before, after) = rest.split_at(at);
            out.push_str(before);
            let name = after.trim_start_matches('#').trim_start_matches(|c: char| c.is_ascii_alphanumeric());
            out.push_str(if name.starts_with('[') { "\\x23" } else { "#" });
            rest = &after[1..];
        }
        out.push_str(rest);
    }
    Cow::Owned(out)
}

/// Where in a line the `::` of a command to GitHub Actions stands. An IPv6 address is none.
fn command_start(line: &str) -> Option<usize> {
    let mut rest = line;
    // Blanks before it do not count, and colours are none of its name.
    loop {
        rest = rest.trim_start();
        let Some(colour) = rest.strip_prefix("\u{1b}[") else { break };
        rest = colour.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        rest = rest.strip_prefix('m').unwrap_or(rest);
    }
    let name = rest.strip_prefix("::")?;
    let name = &name
        [..name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')).unwrap_or(name.len())];
    let command =
        name.starts_with(|c: char| c.is_ascii_alphabetic()) && !name.bytes().all(|b| b.is_ascii_hexdigit());
    command.then_some(line.len() - rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_a_command_to_a_runner() {
        for (line, want) in [
            ("::error::forged\n", "\\x3a:error::forged\n"),
            ("a\n  ::set-output name=x::y", "a\n  \\x3a:set-output name=x::y"),
            ("\u{1b}[1m::add-mask::x\u{1b}[0m", "\u{1b}[1m\\x3a:add-mask::x\u{1b}[0m"),
            ("a ##[error]b", "a \\x23#[error]b"),
            ("a ###[error]b", "a \\x23\\x23#[error]b"),
            ("x ##vso[task.setvariable variable=a]b", "x \\x23#vso[task.setvariable variable=a]b"),
            ("##teamcity[x]", "\\x23#teamcity[x]"),
        ] {
            assert_eq!(without_commands(line), want);
        }
    }

    #[test]
    fn addresses_and_headings_stay() {
        for line in ["::1 → ::2\n", "::ffff:192.0.2.1", "  ::/0", "## K0001: a title\n", "a::b", "### x\n"]
        {
            assert_eq!(without_commands(line), line);
        }
    }
}
