//! What is said while enforcing: on standard output what happens, on standard error what is wrong, each once.

use std::collections::{BTreeMap, BTreeSet};

use palisade_report::style::Look;
use palisade_report::text::{NL, Text};

use crate::cli::ColorChoice;
use crate::print::output::{Stream, StreamLook};
use crate::print::time::clock;

/// What has been said.
#[derive(Debug)]
pub struct Said {
    pub out: Look,
    pub err: Look,
    /// By what they are about.
    notes: BTreeMap<&'static str, BTreeSet<String>>,
    problems: Vec<Text>,
}

// === impl Said ===

impl Said {
    pub fn new(color: ColorChoice) -> Self {
        Said {
            out: Look::stdout(color),
            err: Look::stderr(color),
            notes: BTreeMap::new(),
            problems: Vec::new(),
        }
    }

    /// Something happened.
    pub fn line(&self, text: impl Into<Text>) {
        // A log that nobody takes any more keeps no rule out of force.
        let _ = Stream::Stdout.write(&text!("{}  {}{NL}", clock(), text.into()));
    }

    /// Something does not work.
    pub fn error(&self, text: impl Into<Text>) {
        self.complain(&self.err.bad("error:"), &text.into());
    }

    /// Something is not as it should be.
    pub fn warning(&self, text: impl Into<Text>) {
        self.complain(&self.err.warning("warning:"), &text.into());
    }

    /// What is odd about something now: what was not before is said.
    pub fn notes(&mut self, about: &'static str, notes: impl IntoIterator<Item = String>) {
        let now: BTreeSet<String> = notes.into_iter().collect();
        let before = self.notes.insert(about, now.clone()).unwrap_or_default();
        for note in now.difference(&before) {
            self.warning(note.as_str());
        }
    }

    /// What another part of the program says about the files, in its own lines.
    pub fn reservations(&mut self, text: &Text) {
        let now: BTreeSet<String> = [text.to_string()].into_iter().filter(|text| !text.is_empty()).collect();
        if self.notes.insert("files", now.clone()).unwrap_or_default() != now {
            self.raw(text);
        }
    }

    /// What is wrong with the files now: said if it is not what was wrong before. Says whether it is.
    pub fn problems(&mut self, problems: Vec<Text>) -> bool {
        let new = problems != self.problems;
        if new {
            for problem in &problems {
                match problem.as_str().starts_with("error") || problem.as_str().starts_with("warning") {
                    // A finding, with its line.
                    true => self.raw(&text!("{problem}{NL}")),
                    false => self.error(problem.clone()),
                }
            }
        }
        self.problems = problems;
        new
    }

    fn complain(&self, sign: &Text, text: &Text) {
        self.raw(&text!("{sign} {text}{NL}"));
    }

    fn raw(&self, text: &Text) {
        let _ = Stream::Stderr.write(text);
    }
}
