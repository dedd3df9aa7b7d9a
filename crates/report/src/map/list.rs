//! Map as a list for a terminal: a line for each pair, with reasons below if requested.

use palisade_model::policy::Action;

use super::fold::{FoldedRow, RowFolder};
use super::reasons::{RowReason, reasons};
use super::{MapContext, MapEnd, MapRow, MapSummary, OWN_NODE, Printer};
use crate::style::{Look, wrap};
use crate::text::Text;

/// Maximum width of a column of names, so that one long name does not widen all.
const MAX_NAME_WIDTH: usize = 44;
/// Minimum width for traffic beside the names; with less it gets a line of its own.
const MIN_TRAFFIC_WIDTH: usize = 24;

/// Printer of rows as lines.
#[derive(Debug)]
pub struct ListPrinter<'m> {
    look: Look,
    /// Width of the columns of names.
    width: usize,
    fold: RowFolder<'m>,
    any: bool,
}

// === impl ListPrinter ===

impl<'m> ListPrinter<'m> {
    /// Creates a printer for a terminal.
    pub fn new(look: Look) -> Self {
        ListPrinter { look, width: 0, fold: RowFolder::default(), any: false }
    }

    /// Prints a row with all of its addresses.
    pub fn print_row(&mut self, context: &MapContext<'m>, row: &FoldedRow<'m>, out: &mut Text) {
        self.any = true;
        let FoldedRow { line, ranges } = row;
        let look = self.look;
        let (from, to) = (context.name(&line.source), context.name(&line.destination));
        let traffic = match context.addresses(ranges) {
            Some(addresses) => format!("{}   ({addresses})", line.text()),
            None => line.text(),
        };
        let padding = |name: &str| " ".repeat(self.width.saturating_sub(name.chars().count()));
        let head = from.chars().count().max(self.width) + 3 + to.chars().count().max(self.width) + 3;
        write_text!(out, "{}{} → {}{}", look.strong(&from), padding(&from), look.strong(&to), padding(&to));
        let left = look.width.saturating_sub(head);
        let beside = left >= MIN_TRAFFIC_WIDTH.min(traffic.chars().count());
        let indent = if beside { head } else { 4 };
        for (index, text) in wrap(&traffic, look.width.saturating_sub(indent)).iter().enumerate() {
            match (index, beside) {
                (0, true) => out.push_own("   "),
                _ => {
                    out.end_line();
                    write_text!(out, "{:indent$}", "");
                }
            }
            out.push_str(text);
        }
        out.end_line();
        if context.explain {
            self.explain(&reasons(&line.why), out);
        }
    }

    fn explain(&self, reasons: &[RowReason], out: &mut Text) {
        let look = self.look;
        let side = reasons.iter().map(|reason| reason.side.chars().count()).max().unwrap_or(0);
        let part = reasons.iter().map(|reason| reason.part.chars().count()).max().unwrap_or(0).min(28);
        let mut before = "";
        for reason in reasons {
            let name = if reason.side == before { "" } else { &reason.side };
            before = &reason.side;
            let sign = match reason.action {
                Action::Allow => look.good("+"),
                Action::Pass => look.quiet("»"),
                Action::Deny | Action::Reject => look.bad("-"),
            };
            write_text!(out, "    {name:<side$}  {sign} {:<part$}", reason.part);
            let at = reason.at.as_ref().map(|at| format!("   {at}")).unwrap_or_default();
            let indent = 4 + side + 4;
            let head = indent + part.max(reason.part.chars().count()) + 2;
            let beside = look.width.saturating_sub(head) >= 40;
            let column = if beside { head } else { indent + 2 };
            let lines = wrap(&reason.text, look.width.saturating_sub(column));
            for (index, text) in lines.iter().enumerate() {
                match (index, beside) {
                    (0, true) => out.push_own("  "),
                    _ => {
                        out.end_line();
                        write_text!(out, "{:column$}", "");
                    }
                }
                out.push_str(text);
            }
            write_line!(out, "{}", look.quiet(&at));
        }
        out.end_line();
    }

    /// Prints the lines below all rows.
    pub fn close(&self, summary: &MapSummary, out: &mut Text) {
        if self.any {
            out.end_line();
        } else {
            out.push_own("Nothing is connected.\n");
        }
        foot(&summary.text(), OWN_NODE, self.look, out);
    }
}

/// Prints the counts and the footnotes.
pub fn foot(summary: &str, notes: &str, look: Look, out: &mut Text) {
    for line in wrap(summary, look.width) {
        write_line!(out, "{}", look.strong(&line));
    }
    for line in wrap(notes, look.width) {
        write_line!(out, "{}", look.quiet(&line));
    }
}

impl<'m> Printer<'m> for ListPrinter<'m> {
    fn begin(&mut self, context: &MapContext<'m>, _out: &mut Text) {
        let shown = (0..context.workloads.len()).filter(|at| context.is_shown(*at));
        let widest = shown.map(|at| context.names[at].chars().count()).max().unwrap_or(0);
        self.width = widest.clamp("outside".len(), MAX_NAME_WIDTH.min(self.look.width / 3));
    }

    fn row(&mut self, context: &MapContext<'m>, line: MapRow<'m>, out: &mut Text) {
        let nodes = |end: &MapEnd<'_>| matches!(end, MapEnd::Nodes(_));
        debug_assert!(!nodes(&line.source) || !nodes(&line.destination), "nodes are one end at most");
        for row in self.fold.push(line) {
            self.print_row(context, &row, out);
        }
    }

    fn end(&mut self, context: &MapContext<'m>, summary: &MapSummary, out: &mut Text) {
        for row in self.fold.end() {
            self.print_row(context, &row, out);
        }
        self.close(summary, out);
    }
}
