//! What a change of objects opens and closes, as `palisade diff` computes it, in the few words of a log line.
//!
//! The work is bounded, and so is the time that a command waits for it ([`within`]).

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use palisade_analysis::diff::grouped;
use palisade_analysis::map::{Level, connections};
use palisade_analysis::reach::cells::Cells;
use palisade_analysis::work::Work;
use palisade_model::options::Options;
use palisade_model::snapshot::Objects;
use palisade_report::diff::{DiffContext, beyond, ends};
use palisade_report::style::Look;
use palisade_report::text::Text;

use super::comparison::{Comparison, Sides};
use super::reading::{left_out, many_source_ports, stopped, unproven};
use crate::cli::Families;

/// Connections that open and close, each with the workloads that they concern alike: `shop/web, shop/job → shop/db tcp/5432`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Changes {
    pub opens: Vec<String>,
    pub closes: Vec<String>,
    /// What is true besides, or not known: pods that could come, names without addresses, more pairs than were looked at.
    pub notes: Vec<String>,
}

/// How many items of a change are listed in a line.
const LISTED: usize = 6;
/// How long a command that prints a change waits for the comparison.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Compares two sets of objects.
pub fn between(before: Objects, after: Objects) -> Changes {
    limited(before, after, Work::default())
}

/// Compares two sets of objects as far as the work allows.
fn limited(before: Objects, after: Objects, work: Work) -> Changes {
    let sides = Sides::new(before, after);
    let mut cells = Cells::limited(sides.cuts.space().clone(), work);
    let how = Comparison {
        options: Options::default(),
        level: Level::Workloads,
        family: Families::Auto,
        ignore_self: false,
    };
    let (diff, select, findings) = sides.findings(&how, &mut cells);
    let mut changes = Changes::default();
    for finding in &findings.list {
        let traffic = connections(finding.part, &cells);
        let list = if finding.opens { &mut changes.opens } else { &mut changes.closes };
        for (sources, destinations) in grouped(&finding.pairs) {
            let (from, to) = (ends(&sources, &diff), ends(&destinations, &diff));
            list.push(format!("{from} → {to} {traffic}"));
        }
    }
    let facts = DiffContext {
        diff: &diff,
        findings: &findings,
        beyond: &sides.beyond(&findings),
        problems: &[],
        select: &select,
        cuts: &sides.cuts,
        names: Default::default(),
        most: None,
    };
    // Where no workloads are on either side, nothing is compared but policies.
    if !(facts.beyond.proof.is_some() && diff.has_no_workloads()) {
        changes.notes.extend(beyond(&facts));
    }
    changes.notes.extend(many_source_ports(&sides.cuts).map(|limit| limit.message));
    let limits = [left_out(&diff.left_out), stopped(findings.unseen), facts.beyond.proof.and_then(unproven)];
    changes.notes.extend(limits.into_iter().flatten().map(|limit| limit.message));
    changes
}

/// Compares two sets of objects, for a person who waits; nothing if it takes longer than [`PATIENCE`].
pub fn within(before: Objects, after: Objects) -> Option<Changes> {
    let (send, receive) = sync_channel(1);
    let task = move || drop(send.send(between(before, after)));
    std::thread::Builder::new().name("comparison".to_owned()).spawn(task).ok()?;
    receive.recv_timeout(PATIENCE).ok()
}

// === impl Changes ===

impl Changes {
    /// In a line.
    pub fn words(&self, look: Look) -> Text {
        let opens = self.opens.iter().map(|item| ("opens", item));
        let closes = self.closes.iter().map(|item| ("closes", item));
        // Some of each, where there are many.
        let half = LISTED / 2;
        let room = |other: usize| LISTED - other.min(half);
        let listed = opens.take(room(self.closes.len())).chain(closes.take(room(self.opens.len())));
        let mut parts: Vec<Text> = listed.map(|(word, item)| text!("{} {item}", look.strong(word))).collect();
        let more = (self.opens.len() + self.closes.len()).saturating_sub(parts.len());
        parts.extend((more > 0).then(|| text!("and {more} more")));
        if parts.is_empty() {
            parts.push(Text::own("no connection opens or closes"));
        }
        parts.extend(self.notes.iter().map(|note| text!("{note}")));
        let mut words = Text::new();
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                words.push_own("; ");
            }
            words.push(part);
        }
        words
    }
}

#[cfg(test)]
mod tests;
