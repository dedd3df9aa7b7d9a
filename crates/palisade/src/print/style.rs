//! Colour and width. Colour only ever repeats what a word or a sign says.

use std::borrow::Cow;
use std::io::IsTerminal;

use anstyle::{AnsiColor, Style};

use crate::cli::ColorChoice;

/// How to print for people.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Whether to colour.
    pub color: bool,
    /// How wide a line may be.
    pub width: usize,
}

/// The width where nobody says otherwise: a file, a pipe, the README.
const PLAIN_WIDTH: usize = 116;

impl Look {
    /// For standard output.
    pub fn stdout(choice: ColorChoice) -> Self {
        let terminal = std::io::stdout().is_terminal();
        Look { color: wanted(choice, terminal), width: width(terminal) }
    }

    /// For standard error.
    pub fn stderr(choice: ColorChoice) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Look { color: wanted(choice, terminal), width: width(terminal) }
    }

    fn paint(self, style: Style, text: &str) -> String {
        if self.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    pub fn good(self, text: &str) -> String {
        self.paint(AnsiColor::Green.on_default().bold(), text)
    }

    pub fn bad(self, text: &str) -> String {
        self.paint(AnsiColor::Red.on_default().bold(), text)
    }

    pub fn warning(self, text: &str) -> String {
        self.paint(AnsiColor::Yellow.on_default().bold(), text)
    }

    pub fn strong(self, text: &str) -> String {
        self.paint(Style::new().bold(), text)
    }

    pub fn quiet(self, text: &str) -> String {
        self.paint(Style::new().dimmed(), text)
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

/// Breaks a text into lines of at most `width` characters, at blanks; a longer word stays whole.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let needed = line.chars().count() + usize::from(!line.is_empty()) + word.chars().count();
        if needed > width && !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

/// A text without what would move a terminal's cursor, ring its bell or change its title: names and values come from
/// files that anybody may have written. Colours stay, and so do lines.
pub fn tame(text: &str) -> Cow<'_, str> {
    let wild = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(wild) {
        return Cow::Borrowed(text);
    }
    let mut tamed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(wild) {
        tamed.push_str(&rest[..at]);
        rest = &rest[at..];
        let colour = rest.strip_prefix("\u{1b}[").and_then(|code| {
            let end = code.find(|c: char| !(c.is_ascii_digit() || c == ';'))?;
            (code.as_bytes()[end] == b'm').then_some(end + 3)
        });
        let length = colour.unwrap_or_else(|| rest.chars().next().map_or(0, char::len_utf8));
        tamed.push_str(if colour.is_some() { &rest[..length] } else { "\u{fffd}" });
        rest = &rest[length..];
    }
    tamed.push_str(rest);
    Cow::Owned(tamed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_wraps_at_blanks_and_loses_nothing() {
        assert_eq!(wrap("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(wrap("aaaaaaaa b", 3), ["aaaaaaaa", "b"]);
        assert_eq!(wrap("", 3), [""]);
    }

    #[test]
    fn a_terminal_is_left_alone() {
        assert_eq!(tame("plain\n\ttext"), "plain\n\ttext");
        assert_eq!(tame("\u{1b}[1;31mred\u{1b}[0m"), "\u{1b}[1;31mred\u{1b}[0m");
        assert_eq!(tame("a\u{1b}[2Jb\u{7}c\u{1b}]0;title"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}]0;title");
        assert_eq!(tame("end\u{1b}["), "end\u{fffd}[");
    }
}
