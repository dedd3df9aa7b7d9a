//! Colour and width. Colour only ever repeats what a word or a sign says.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};

use super::text::Text;
use super::text::output::Stream;
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
        let terminal = Stream::Stdout.is_terminal();
        Look { color: wanted(choice, terminal), width: width(terminal) }
    }

    /// For standard error.
    pub fn stderr(choice: ColorChoice) -> Self {
        let terminal = Stream::Stderr.is_terminal();
        Look { color: wanted(choice, terminal), width: width(terminal) }
    }

    fn paint(self, style: Style, text: impl Display) -> Text {
        if self.color { Text::styled(style, text) } else { text!("{text}") }
    }

    pub fn good(self, text: impl Display) -> Text {
        self.paint(AnsiColor::Green.on_default().bold(), text)
    }

    pub fn bad(self, text: impl Display) -> Text {
        self.paint(AnsiColor::Red.on_default().bold(), text)
    }

    pub fn warning(self, text: impl Display) -> Text {
        self.paint(AnsiColor::Yellow.on_default().bold(), text)
    }

    pub fn strong(self, text: impl Display) -> Text {
        self.paint(Style::new().bold(), text)
    }

    pub fn quiet(self, text: impl Display) -> Text {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_wraps_at_blanks_and_loses_nothing() {
        assert_eq!(wrap("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(wrap("aaaaaaaa b", 3), ["aaaaaaaa", "b"]);
        assert_eq!(wrap("", 3), [""]);
    }
}
