//! Colour and width of text. Colour never carries information that the text lacks.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};

use super::text::Text;

/// Capabilities of the terminal that text is printed for.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Whether it shows colours.
    pub color: bool,
    /// Maximum width of a line, in characters.
    pub width: usize,
}

impl Look {
    fn paint(self, style: Style, text: impl Display) -> Text {
        if self.color { Text::styled(style, text) } else { text!("{text}") }
    }

    /// Paints data about something allowed or successful.
    pub fn good(self, text: impl Display) -> Text {
        self.paint(AnsiColor::Green.on_default().bold(), text)
    }

    /// Paints data about something denied or failed.
    pub fn bad(self, text: impl Display) -> Text {
        self.paint(AnsiColor::Red.on_default().bold(), text)
    }

    /// Paints data that needs attention.
    pub fn warning(self, text: impl Display) -> Text {
        self.paint(AnsiColor::Yellow.on_default().bold(), text)
    }

    /// Paints emphasized data.
    pub fn strong(self, text: impl Display) -> Text {
        self.paint(Style::new().bold(), text)
    }

    /// Paints data of less interest.
    pub fn quiet(self, text: impl Display) -> Text {
        self.paint(Style::new().dimmed(), text)
    }
}

/// Wraps a text into lines of at most `width` characters, at blanks; a longer word stays whole.
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
