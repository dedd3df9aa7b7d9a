//! Results of a run of tests.

use std::sync::Arc;

use palisade_model::diagnostic::{Diagnostic, Location};
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::Evaluation;

/// Results of a run, in the order of files and tests.
#[derive(Debug, Default)]
pub struct SuiteReport {
    /// Results of all cases.
    pub cases: Vec<CaseResult>,
    /// Unparsable files and tests, and tests that were not run.
    pub unreadable: Vec<Diagnostic>,
}

/// Result of a step of a PolicyTest, or of a case of an AdmissionTest.
#[derive(Debug)]
pub struct CaseResult {
    /// Name of the test.
    pub test: String,
    /// Name of the step or the case.
    pub name: String,
    /// Location in the test file.
    pub at: Location,
    /// Number of flows evaluated; 1 for a request.
    pub flows: usize,
    /// Unmet expectations; the case passed when there are none.
    pub failures: Vec<CaseFailure>,
    /// Errors in the objects it used, and verdicts that differ over the other address family.
    pub notes: Vec<Diagnostic>,
}

/// An unmet expectation.
#[derive(Debug)]
pub struct CaseFailure {
    /// Flow or request that it is about.
    pub subject: String,
    /// Expected verdict or response.
    pub expected: String,
    /// Actual verdict or response.
    pub got: String,
    /// Location of the expectation.
    pub at: Location,
    /// Trace of the verdict, for a flow.
    pub evaluation: Option<(Arc<Snapshot>, Box<Evaluation>)>,
    /// Diagnostics of the API server's checks, for a request.
    pub diagnostics: Vec<Diagnostic>,
}

impl SuiteReport {
    /// Number of cases without unmet expectations.
    pub fn passed(&self) -> usize {
        self.cases.iter().filter(|case| case.failures.is_empty()).count()
    }

    /// Number of cases with unmet expectations.
    pub fn failed(&self) -> usize {
        self.cases.len() - self.passed()
    }
}
