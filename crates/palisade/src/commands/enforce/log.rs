//! Prints what an enforcer reports: on standard output what happens, on standard error what is wrong, each once.

use std::collections::{BTreeMap, BTreeSet};

use palisade_agent::comparison::{Batch, MAX_NAMES, Outcome};
use palisade_agent::enforcer::notice::{Begun, Notice, Observer, Topic};
use palisade_agent::source::Problem;
use palisade_model::snapshot::Objects;
use palisade_report::diagnostics::{plural, render, sources_by_name};
use palisade_report::style::Look;
use palisade_report::text::{NL, Text};

use super::super::changes::{Changes, between};
use super::super::reservations::reservations;
use crate::cli::ColorChoice;
use crate::print::output::{Stream, StreamLook};
use crate::print::time::{clock, clock_at, seconds};

/// The log of an enforcer.
#[derive(Debug)]
pub struct Log {
    out: Look,
    err: Look,
    /// Warnings that hold, by topic.
    warnings: BTreeMap<Topic, BTreeSet<String>>,
    /// The last text about findings in the files.
    findings: String,
}

/// How a finding is printed where its width and colour do not depend on a terminal.
const PLAIN: Look = Look { color: false, width: 116 };

// === impl Log ===

impl Log {
    pub fn new(color: ColorChoice) -> Self {
        Log {
            out: Look::stdout(color),
            err: Look::stderr(color),
            warnings: BTreeMap::new(),
            findings: String::new(),
        }
    }

    /// Prints an event, with its time.
    pub fn line(&self, text: impl Into<Text>) {
        // A log that cannot be written keeps no rule from being enforced.
        let _ = Stream::Stdout.write(&text!("{}  {}{NL}", clock(), text.into()));
    }

    pub fn error(&self, text: impl Into<Text>) {
        self.raw(&text!("{} {}{NL}", self.err.bad("error:"), text.into()));
    }

    pub fn warning(&self, text: impl Into<Text>) {
        self.raw(&text!("{} {}{NL}", self.err.warning("warning:"), text.into()));
    }

    fn warnings(&mut self, topic: Topic, warnings: Vec<String>) {
        let now: BTreeSet<String> = warnings.into_iter().collect();
        let before = self.warnings.insert(topic, now.clone()).unwrap_or_default();
        for warning in now.difference(&before) {
            self.warning(warning.as_str());
        }
    }

    fn problem(&self, problem: &Problem) {
        match problem {
            // It says itself whether it is an error.
            Problem::Finding(_) => self.raw(&text!("{}{NL}", problem_text(problem))),
            _ => self.error(problem_text(problem)),
        }
    }

    fn begun(&self, begun: &Begun<'_>) {
        let policies = match begun.policies {
            1 => "1 policy".to_owned(),
            count => format!("{count} policies"),
        };
        let (pods, node, cut) = (plural(begun.pods, "pod"), begun.node, cut_words(begun.cut));
        let how = match begun.was_enforced {
            true => "was in force already, so nothing is written",
            false => "in force",
        };
        self.line(text!("{policies} for {pods} on node {node}: {how}{cut} ({})", seconds(begun.took)));
    }

    fn change(&self, outcome: Outcome<Changes>) {
        self.line(match outcome {
            Outcome::Joined(batch) => text!("{}", batch_words(&batch)),
            Outcome::Pending(batch) => {
                text!("{}; what opens and closes is being computed", batch_words(&batch))
            }
            Outcome::Unknown(batch) => text!("{}; what opens and closes is not known", batch_words(&batch)),
            Outcome::Compared(batch, changes) => match batch.announced {
                Some(time) => {
                    let (names, words) = (batch_names(&batch), changes.words(self.out));
                    text!("{names}, logged at {}: {words}", clock_at(time))
                }
                None => text!("{}: {}", batch_words(&batch), changes.words(self.out)),
            },
        });
    }

    fn raw(&self, text: &Text) {
        let _ = Stream::Stderr.write(text);
    }
}

impl Observer for Log {
    type Changes = Changes;

    fn compare(before: Objects, after: Objects) -> Changes {
        between(before, after)
    }

    fn notice(&mut self, notice: Notice<'_, Changes>) {
        match notice {
            Notice::Problems(problems) => problems.iter().for_each(|problem| self.problem(problem)),
            Notice::Findings(findings) => {
                let text = reservations(findings, self.err);
                if text.as_str() != self.findings {
                    self.findings = text.as_str().to_owned();
                    self.raw(&text);
                }
            }
            Notice::Warnings(topic, warnings) => self.warnings(topic, warnings),
            Notice::NothingNew => self.line("read again: nothing is new"),
            Notice::Unchanged => self.warning("what was in force stays in force"),
            Notice::Begun(begun) => self.begun(&begun),
            Notice::Change(outcome) => self.change(outcome),
            Notice::Repaired { why, cut, took } => {
                let (cut, took) = (cut_words(cut), seconds(took));
                self.line(text!("somebody changed our table ({why}): repaired{cut}, in force after {took}"));
            }
            Notice::Recovered { cut, took } => {
                self.line(text!("works again{}, in force after {}", cut_words(cut), seconds(took)));
            }
            Notice::Cut(count) => self.line(text!("{} cut", plural(count, "connection"))),
        }
    }

    fn describe(&self, problem: &Problem) -> String {
        problem_text(problem).to_string()
    }
}

/// Returns the text of a problem; of a finding with the line that it is in.
pub fn problem_text(problem: &Problem) -> Text {
    match problem {
        Problem::Finding(finding) => {
            let sources: Vec<_> = finding.text.iter().cloned().collect();
            render(&finding.diagnostic, &sources_by_name(&sources), PLAIN)
        }
        _ => text!("{problem}"),
    }
}

/// `, 1 connection cut`; nothing if none was.
fn cut_words(cut: usize) -> String {
    match cut {
        0 => String::new(),
        count => format!(", {} cut", plural(count, "connection")),
    }
}

/// `db.yaml`, or `5 changes (db.yaml, web.yaml, job.yaml, …)`.
fn batch_names(batch: &Batch) -> String {
    let names = batch.names.join(", ");
    let more = if batch.names.len() == MAX_NAMES && batch.count > MAX_NAMES { ", …" } else { "" };
    match batch.count {
        1 => names,
        count => format!("{} ({names}{more})", plural(count, "change")),
    }
}

/// `db.yaml changed, enforced in 38 ms, 1 connection cut`.
fn batch_words(batch: &Batch) -> String {
    let (names, cut, took) = (batch_names(batch), cut_words(batch.cut), seconds(batch.took));
    match batch.count {
        1 => format!("{names} changed, enforced in {took}{cut}"),
        _ => format!("{names} enforced, the last in {took}{cut}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_batch_is_a_line() {
        let mut batch = Batch::default();
        batch.add("db.yaml", Duration::from_millis(38), 1);
        assert_eq!(batch_words(&batch), "db.yaml changed, enforced in 38 ms, 1 connection cut");
        batch.add("web.yaml", Duration::from_millis(5), 2);
        assert_eq!(
            batch_words(&batch),
            "2 changes (db.yaml, web.yaml) enforced, the last in 5 ms, 3 connections cut"
        );
        for name in ["db.yaml", "job.yaml", "all.yaml"] {
            batch.add(name, Duration::from_millis(5), 0);
        }
        assert_eq!(
            batch_words(&batch),
            "5 changes (db.yaml, web.yaml, job.yaml, …) enforced, the last in 5 ms, 3 connections cut"
        );
    }
}
