//! JSON form of the results of tests.

#![allow(missing_docs, reason = "comments on fields are descriptions in docs/schemas")]

use serde::Serialize;

use super::{DiagnosticJson, ExplanationJson};

/// What `test --output json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct TestReport {
    pub passed: usize,
    pub failed: usize,
    pub cases: Vec<TestCase>,
    /// Files and tests that could not be read.
    pub unreadable: Vec<DiagnosticJson>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct TestCase {
    pub test: String,
    pub case: String,
    pub file: String,
    pub line: u32,
    pub ok: bool,
    /// How many flows were evaluated.
    pub flows: usize,
    pub failures: Vec<TestFailure>,
    /// What was wrong with the objects it used.
    pub notes: Vec<DiagnosticJson>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct TestFailure {
    pub subject: String,
    pub expected: String,
    pub got: String,
    pub file: String,
    pub line: u32,
    /// For a flow: the whole reasoning.
    pub explanation: Option<ExplanationJson>,
    /// For a request: what was said to it.
    pub diagnostics: Vec<DiagnosticJson>,
}

// === from the model ===

impl From<&palisade_policytest::SuiteReport> for TestReport {
    fn from(report: &palisade_policytest::SuiteReport) -> Self {
        TestReport {
            passed: report.passed(),
            failed: report.failed(),
            cases: report.cases.iter().map(TestCase::from).collect(),
            unreadable: report.unreadable.iter().map(DiagnosticJson::from).collect(),
        }
    }
}

impl From<&palisade_policytest::CaseResult> for TestCase {
    fn from(case: &palisade_policytest::CaseResult) -> Self {
        TestCase {
            test: case.test.clone(),
            case: case.name.clone(),
            file: case.at.file.to_string(),
            line: case.at.line,
            ok: case.failures.is_empty(),
            flows: case.flows,
            failures: case.failures.iter().map(TestFailure::from).collect(),
            notes: case.notes.iter().map(DiagnosticJson::from).collect(),
        }
    }
}

impl From<&palisade_policytest::CaseFailure> for TestFailure {
    fn from(failure: &palisade_policytest::CaseFailure) -> Self {
        let explanation = failure.evaluation.as_ref();
        TestFailure {
            subject: failure.subject.clone(),
            expected: failure.expected.clone(),
            got: failure.got.clone(),
            file: failure.at.file.to_string(),
            line: failure.at.line,
            explanation: explanation.map(|(snapshot, evaluation)| ExplanationJson::new(snapshot, evaluation)),
            diagnostics: failure.diagnostics.iter().map(DiagnosticJson::from).collect(),
        }
    }
}
