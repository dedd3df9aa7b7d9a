//! A map as a list for people at a terminal: a line for each pair, and below it why, if that is asked for.

use palisade_model::policy::Action;

use super::fold::{Fold, Folded};
use super::reasons::{Reason, reasons};
use super::{End, Facts, Line, OWN_NODE, Printer, Summary};
use crate::style::{Look, wrap};
use crate::text::Text;

/// A column is not wider than this because of one long name.
const WIDEST: usize = 44;
/// Where less than this is left for the traffic, it goes to a line of its own.
const NARROWEST: usize = 24;

/// Prints rows as lines.
#[derive(Debug)]
pub struct List<'m> {
    look: Look,
    /// How wide a name is.
    width: usize,
    fold: Fold<'m>,
    any: bool,
}

// === impl List ===

impl<'m> List<'m> {
    /// For a terminal.
    pub fn new(look: Look) -> Self {
        List { look, width: 0, fold: Fold::default(), any: false }
    }

    /// A row with all of its addresses.
    pub fn say(&mut self, facts: &Facts<'m>, row: &Folded<'m>, out: &mut Text) {
        self.any = true;
        let Folded { line, ranges } = row;
        let look = self.look;
        let (from, to) = (facts.name(&line.source), facts.name(&line.destination));
        let traffic = match facts.addresses(ranges) {
            Some(addresses) => format!("{}   ({addresses})", line.text()),
            None => line.text(),
        };
        let padding = |name: &str| " ".repeat(self.width.saturating_sub(name.chars().count()));
        let head = from.chars().count().max(self.width) + 3 + to.chars().count().max(self.width) + 3;
        write_text!(out, "{}{} → {}{}", look.strong(&from), padding(&from), look.strong(&to), padding(&to));
        let left = look.width.saturating_sub(head);
        let beside = left >= NARROWEST.min(traffic.chars().count());
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
        if facts.explain {
            self.explain(&reasons(&line.why), out);
        }
    }

    fn explain(&self, reasons: &[Reason], out: &mut Text) {
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

    /// The lines below all rows.
    pub fn close(&self, summary: &Summary, out: &mut Text) {
        if self.any {
            out.end_line();
        } else {
            out.push_own("Nothing is connected.\n");
        }
        foot(&summary.text(), OWN_NODE, self.look, out);
    }
}

/// How much there is, and what goes without saying.
pub fn foot(summary: &str, notes: &str, look: Look, out: &mut Text) {
    for line in wrap(summary, look.width) {
        write_line!(out, "{}", look.strong(&line));
    }
    for line in wrap(notes, look.width) {
        write_line!(out, "{}", look.quiet(&line));
    }
}

impl<'m> Printer<'m> for List<'m> {
    fn begin(&mut self, facts: &Facts<'m>, _out: &mut Text) {
        let shown = (0..facts.workloads.len()).filter(|at| facts.is_shown(*at));
        let widest = shown.map(|at| facts.names[at].chars().count()).max().unwrap_or(0);
        self.width = widest.clamp("outside".len(), WIDEST.min(self.look.width / 3));
    }

    fn row(&mut self, facts: &Facts<'m>, line: Line<'m>, out: &mut Text) {
        let nodes = |end: &End<'_>| matches!(end, End::Nodes(_));
        debug_assert!(!nodes(&line.source) || !nodes(&line.destination), "nodes are one end at most");
        for row in self.fold.push(line) {
            self.say(facts, &row, out);
        }
    }

    fn end(&mut self, facts: &Facts<'m>, summary: &Summary, out: &mut Text) {
        for row in self.fold.end() {
            self.say(facts, &row, out);
        }
        self.close(summary, out);
    }
}
