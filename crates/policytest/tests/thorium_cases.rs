//! The cases of `suites/thorium`: all of them run and hold, and a case that misstates something does not.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;
use std::sync::Arc;

use palisade_dialects::source::tree::Source;
use palisade_policytest::{FileError, SuiteReport, TestFiles, run};

struct NoFiles;

impl TestFiles for NoFiles {
    fn open(&self, _: &Source, path: &str) -> Result<Vec<Arc<Source>>, FileError> {
        Err(FileError::Unreadable(format!("{path}: there are no files here")))
    }
}

fn cases() -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../suites/thorium/cases.yaml");
    std::fs::read_to_string(path).unwrap()
}

fn report(text: &str) -> SuiteReport {
    run(&[Arc::new(Source::new("cases.yaml", text))], &NoFiles)
}

fn failing(text: &str) -> Vec<String> {
    let report = report(text);
    assert!(report.unreadable.is_empty(), "{:?}", report.unreadable);
    report.cases.into_iter().filter(|case| !case.failures.is_empty()).map(|case| case.name).collect()
}

#[test]
fn all_91_hold() {
    let report = report(&cases());
    assert_eq!(report.cases.len(), 91);
    assert_eq!(failing(&cases()), Vec::<String>::new());
}

/// One change each, in what a case expects or gives: exactly the cases that it concerns fail.
#[test]
fn a_case_that_misstates_something_fails() {
    for (from, to, want) in [
        ("reason: except-family, field: \"ingress[0]", "reason: except-outside, field: \"ingress[0]", 2),
        ("field: \"egress[0].ports[0].protocol\"", "field: \"egress[0].ports[0].port\"", 1),
        ("{ipBlock: {cidr: 10.10.10.10/32}}]}]}", "{ipBlock: {cidr: 10.10.10.11/32}}]}]}", 2),
        ("    warning: rule-without-peer\n", "", 2),
        ("shown: {corn/old: [d], corn/new: []}", "shown: {corn/old: [], corn/new: []}", 1),
        ("applied: {corn/old: [\"base:thorium-default\", f]}", "applied: {corn/old: [f]}", 1),
        ("endPort: 1006}\n          - {protocol: UDP", "endPort: 1007}\n          - {protocol: UDP", 1),
        ("result: reject, reason: not-admin", "result: accept, reason: not-admin", 3),
    ] {
        let text = cases();
        assert!(text.contains(from), "{from}");
        assert_eq!(failing(&text.replace(from, to)).len(), want, "{from} -> {to}");
    }
}

#[test]
fn a_document_without_cases_is_said_to_be_none() {
    assert_eq!(report("kind: ThoriumCases\ninstance: {groups: []}\n").unreadable.len(), 1);
}
