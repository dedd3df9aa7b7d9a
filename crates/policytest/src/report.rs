//! What came of running tests.

use std::sync::Arc;

use palisade_model::diagnostic::{Diagnostic, Location};
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::Evaluation;

/// The results of a run, in the order of files and tests.
#[derive(Debug, Default)]
pub struct Report {
    /// Every case.
    pub cases: Vec<Case>,
    /// Files and tests that could not be read.
    pub unreadable: Vec<Diagnostic>,
}

/// One step of a PolicyTest, or one case of an AdmissionTest.
#[derive(Debug)]
pub struct Case {
    /// The test's name.
    pub test: String,
    /// The step's or the case's name.
    pub name: String,
    /// Where it is written.
    pub at: Location,
    /// How many flows were evaluated; 1 for a request.
    pub flows: usize,
    /// What did not hold; the case passed when there is nothing.
    pub failures: Vec<Failure>,
    /// What was wrong with the objects it used.
    pub notes: Vec<Diagnostic>,
}

/// Something that did not hold.
#[derive(Debug)]
pub struct Failure {
    /// The flow, or the request.
    pub subject: String,
    /// What was expected.
    pub expected: String,
    /// What came.
    pub got: String,
    /// Where the expectation is written.
    pub at: Location,
    /// The reasoning, for a flow.
    pub evaluation: Option<(Arc<Snapshot>, Box<Evaluation>)>,
    /// What the API server's checks said, for a request.
    pub diagnostics: Vec<Diagnostic>,
}

impl Report {
    /// How many cases passed.
    pub fn passed(&self) -> usize {
        self.cases.iter().filter(|case| case.failures.is_empty()).count()
    }

    /// How many cases failed.
    pub fn failed(&self) -> usize {
        self.cases.len() - self.passed()
    }
}
