//! Colour and width. Colour only ever repeats what a word or a sign says.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};

use super::text::Text;

/// How to print for people.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Whether to colour.
    pub color: bool,
    /// How wide a line may be.
    pub width: usize,
}

impl Look {
    fn paint(self, style: Style, text: impl Display) -> Text {
        if self.color { Text::styled(style, text) } else { text!("{text}") }
    }

    /// Data about what is allowed, or went well.
    pub fn good(self, text: impl Display) -> Text {
        self.paint(AnsiColor::Green.on_default().bold(), text)
    }

    /// Data about what is denied, or went wrong.
    pub fn bad(self, text: impl Display) -> Text {
        self.paint(AnsiColor::Red.on_default().bold(), text)
    }

    /// Data that asks for attention.
    pub fn warning(self, text: impl Display) -> Text {
        self.paint(AnsiColor::Yellow.on_default().bold(), text)
    }

    /// Data that stands out.
    pub fn strong(self, text: impl Display) -> Text {
        self.paint(Style::new().bold(), text)
    }

    /// Data that is of less interest.
    pub fn quiet(self, text: impl Display) -> Text {
        self.paint(Style::new().dimmed(), text)
    }
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
