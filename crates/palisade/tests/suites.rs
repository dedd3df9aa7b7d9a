//! The suites of the repository, through the built binary: what `palisade test suites` prints is what a user gets.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::Command;

fn run(path: &str, how: &[&str]) -> (Option<i32>, String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO_BIN_EXE_palisade"))
        .args(["test", "--output", "json", path])
        .args(how)
        .current_dir(root)
        .output()
        .expect("the binary runs");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// One test a suite: all of it passes, and it is as large as its README says, so that nothing is lost silently.
macro_rules! suite {
    ($($name:ident: $path:literal, $cases:literal cases, $flows:literal flows;)*) => {$(
        #[test]
        fn $name() {
            // From scratch, and from the index that follows a test from step to step.
            for how in [&[][..], &["--engine"]] {
                let (code, out) = run($path, how);
                let report: serde_json::Value = serde_json::from_str(&out).expect("it prints JSON");
                let cases = report["cases"].as_array().expect("cases");
                let failing: Vec<_> =
                    cases.iter().filter(|case| case["ok"] != true).map(|case| &case["case"]).collect();
                assert!(failing.is_empty(), "{how:?} {failing:?}");
                assert_eq!(code, Some(0), "{}", report["unreadable"]);
                let flows: u64 = cases.iter().filter_map(|case| case["flows"].as_u64()).sum();
                assert_eq!((cases.len(), flows), ($cases, $flows));
            }
        }
    )*};
}

suite! {
    k8s_e2e: "suites/k8s-e2e", 75 cases, 5145 flows;
    k8s_validation: "suites/k8s-validation", 129 cases, 382 flows;
    k8s_v1beta1: "suites/k8s-v1beta1", 59 cases, 1310 flows;
    npa_v1alpha1: "suites/npa-v1alpha1", 92 cases, 289 flows;
    npa_v1alpha2: "suites/npa-v1alpha2", 116 cases, 483 flows;
    admin_validation: "suites/admin-validation", 767 cases, 767 flows;
    antrea_validation: "suites/antrea-validation", 775 cases, 775 flows;
    antrea: "suites/antrea", 284 cases, 15539 flows;
    antrea_2020: "suites/antrea-2020", 45 cases, 3933 flows;
    antrea_order: "suites/antrea-order", 96 cases, 1246 flows;
    antrea_decisions: "suites/antrea-decisions", 86 cases, 1679 flows;
    decisions: "suites/decisions", 67 cases, 706 flows;
    thorium: "suites/thorium", 91 cases, 91 flows;
    thorium_document: "suites/thorium-document", 89 cases, 259 flows;
    thorium_example: "examples/thorium", 2 cases, 16 flows;
    example: "examples/shop", 15 cases, 246 flows;
}
