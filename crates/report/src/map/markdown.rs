//! A map for a pull request: one table, a line for each pair.

use super::fold::{Fold, Folded};
use super::reasons::reasons;
use super::{Facts, Line, OWN_NODE, Printer, Summary};
use crate::text::{NL, Text};

/// Prints rows as a table in Markdown.
#[derive(Debug, Default)]
pub struct Markdown<'m> {
    fold: Fold<'m>,
}

// === impl Markdown ===

impl<'m> Markdown<'m> {
    fn say(facts: &Facts<'m>, Folded { line, ranges }: &Folded<'m>, out: &mut Text) {
        let end = |end| escaped(&facts.name(end));
        let addresses = facts.addresses(ranges).map(|text| format!(" ({text})")).unwrap_or_default();
        let allowed = escaped(&format!("{}{addresses}", line.text()));
        write_text!(out, "| {} | {} | {allowed} |", end(&line.source), end(&line.destination));
        if facts.explain {
            let lines: Vec<String> = reasons(&line.why)
                .iter()
                .map(|reason| {
                    let at = reason.at.as_ref().map(|at| format!(" ({at})")).unwrap_or_default();
                    escaped(&format!("{} {}: {}{at}", reason.side, reason.part, reason.text))
                })
                .collect();
            write_text!(out, " {} |", lines.join("<br>"));
        }
        out.end_line();
    }
}

impl<'m> Printer<'m> for Markdown<'m> {
    fn begin(&mut self, facts: &Facts<'m>, out: &mut Text) {
        out.push_own("### Who can talk to whom\n\n");
        out.push_own(match facts.explain {
            true => "| from | to | allowed | why |\n| --- | --- | --- | --- |\n",
            false => "| from | to | allowed |\n| --- | --- | --- |\n",
        });
    }

    fn row(&mut self, facts: &Facts<'m>, line: Line<'m>, out: &mut Text) {
        for row in self.fold.push(line) {
            Self::say(facts, &row, out);
        }
    }

    fn end(&mut self, facts: &Facts<'m>, summary: &Summary, out: &mut Text) {
        for row in self.fold.end() {
            Self::say(facts, &row, out);
        }
        write_line!(out, "{NL}{}. {OWN_NODE}", summary.text());
    }
}

/// A text that Markdown, and the HTML that is allowed in it, take for nothing else.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\n' | '\r' => out.push(' '),
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '~' | '#' | '!' => {
                out.push('\\');
                out.push(c);
            }
            // Nobody is to be told of a map by being named in it.
            '@' => out.push_str("&#64;"),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_a_name() {
        assert_eq!(escaped("a|b"), "a\\|b");
        assert_eq!(escaped("<img src=x>"), "&lt;img src=x&gt;");
        assert_eq!(escaped("[x](y) @all"), "\\[x\\](y) &#64;all");
    }
}
