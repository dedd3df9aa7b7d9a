//! Map as a Markdown table for a pull request, a line for each pair.

use super::fold::{FoldedRow, RowFolder};
use super::reasons::reasons;
use super::{MapContext, MapRow, MapSummary, OWN_NODE, Printer};
use crate::text::{NL, Text};

/// Printer of rows as a Markdown table.
#[derive(Debug, Default)]
pub struct MarkdownPrinter<'m> {
    fold: RowFolder<'m>,
}

// === impl MarkdownPrinter ===

impl<'m> MarkdownPrinter<'m> {
    fn print_row(context: &MapContext<'m>, FoldedRow { line, ranges }: &FoldedRow<'m>, out: &mut Text) {
        let end = |end| escaped(&context.name(end));
        let addresses = context.addresses(ranges).map(|text| format!(" ({text})")).unwrap_or_default();
        let allowed = escaped(&format!("{}{addresses}", line.text()));
        write_text!(out, "| {} | {} | {allowed} |", end(&line.source), end(&line.destination));
        if context.explain {
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

impl<'m> Printer<'m> for MarkdownPrinter<'m> {
    fn begin(&mut self, context: &MapContext<'m>, out: &mut Text) {
        out.push_own("### Who can talk to whom\n\n");
        out.push_own(match context.explain {
            true => "| from | to | allowed | why |\n| --- | --- | --- | --- |\n",
            false => "| from | to | allowed |\n| --- | --- | --- |\n",
        });
    }

    fn row(&mut self, context: &MapContext<'m>, line: MapRow<'m>, out: &mut Text) {
        for row in self.fold.push(line) {
            Self::print_row(context, &row, out);
        }
    }

    fn end(&mut self, context: &MapContext<'m>, summary: &MapSummary, out: &mut Text) {
        for row in self.fold.end() {
            Self::print_row(context, &row, out);
        }
        write_line!(out, "{NL}{}. {OWN_NODE}", summary.text());
    }
}

/// Escapes a text so that neither Markdown nor the HTML allowed in it interprets it.
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
            // A name must not notify the user of that name.
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
