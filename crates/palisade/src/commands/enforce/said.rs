//! What is said while enforcing: on standard output what happens, on standard error what is wrong, each once.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use crate::cli::ColorChoice;
use crate::print::style::{Look, tame};
use crate::print::time::clock;

/// What has been said.
#[derive(Debug)]
pub struct Said {
    pub out: Look,
    pub err: Look,
    /// By what they are about.
    notes: BTreeMap<&'static str, BTreeSet<String>>,
    problems: Vec<String>,
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
    pub fn line(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        let line = format!("{}  {text}\n", clock());
        let _ = out.write_all(tame(&line).as_bytes()).and_then(|()| out.flush());
    }

    /// Something does not work.
    pub fn error(&self, text: &str) {
        self.complain(&self.err.bad("error:"), text);
    }

    /// Something is not as it should be.
    pub fn warning(&self, text: &str) {
        self.complain(&self.err.warning("warning:"), text);
    }

    /// What is odd about something now: what was not before is said.
    pub fn notes(&mut self, about: &'static str, notes: impl IntoIterator<Item = String>) {
        let now: BTreeSet<String> = notes.into_iter().collect();
        let before = self.notes.insert(about, now.clone()).unwrap_or_default();
        for note in now.difference(&before) {
            self.warning(note);
        }
    }

    /// What another part of the program says about the files, in its own lines.
    pub fn reservations(&mut self, text: &str) {
        let now: BTreeSet<String> = [text.to_owned()].into_iter().filter(|text| !text.is_empty()).collect();
        if self.notes.insert("files", now.clone()).unwrap_or_default() != now {
            self.raw(text);
        }
    }

    /// What is wrong with the files now: said if it is not what was wrong before. Says whether it is.
    pub fn problems(&mut self, problems: Vec<String>) -> bool {
        let new = problems != self.problems;
        if new {
            for problem in &problems {
                match problem.starts_with("error") || problem.starts_with("warning") {
                    // A finding, with its line.
                    true => self.raw(&format!("{problem}\n")),
                    false => self.error(problem),
                }
            }
        }
        self.problems = problems;
        new
    }

    fn complain(&self, sign: &str, text: &str) {
        self.raw(&format!("{sign} {text}\n"));
    }

    fn raw(&self, text: &str) {
        let _ = std::io::stderr().lock().write_all(tame(text).as_bytes());
    }
}
