//! Generated pages are what the program says now. `make docs` writes them anew.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;
use std::process::Command;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn palisade(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_palisade"))
        .args(arguments)
        .current_dir(root())
        .output()
        .expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_page_of_diagnostics_is_the_programs() {
    let page = std::fs::read_to_string(root().join("docs/diagnostics.md")).expect("docs/diagnostics.md");
    let (_, now, _) = palisade(&["check", "--explain", "all"]);
    assert!(page == now, "docs/diagnostics.md is stale: run `make docs`");
}

#[test]
fn one_code_is_explained_whatever_its_case_and_a_wrong_one_gets_the_nearest() {
    let (code, out, _) = palisade(&["check", "--explain", "k0203"]);
    assert_eq!(code, Some(0));
    assert!(out.starts_with("K0203: "), "{out}");
    let (code, _, err) = palisade(&["check", "--explain", "K020"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("did you mean"), "{err}");
}

#[test]
fn the_manual_pages_are_the_programs() {
    for (name, arguments) in [
        ("palisade", &["man"][..]),
        ("palisade-explain", &["man", "explain"]),
        ("palisade-check", &["man", "check"]),
        ("palisade-test", &["man", "test"]),
        ("palisade-map", &["man", "map"]),
        ("palisade-compile", &["man", "compile"]),
        ("palisade-convert", &["man", "convert"]),
        ("palisade-enforce", &["man", "enforce"]),
        ("palisade-enforce-status", &["man", "enforce", "status"]),
        ("palisade-enforce-stop", &["man", "enforce", "stop"]),
        ("palisade-lab", &["man", "lab"]),
        ("palisade-lab-test", &["man", "lab", "test"]),
        ("palisade-lab-exec", &["man", "lab", "exec"]),
        ("palisade-lab-clean", &["man", "lab", "clean"]),
        ("palisade-thorium", &["man", "thorium"]),
        ("palisade-thorium-effective", &["man", "thorium", "effective"]),
        ("palisade-thorium-verify", &["man", "thorium", "verify"]),
    ] {
        let page = std::fs::read_to_string(root().join(format!("docs/man/{name}.1"))).expect(name);
        assert!(page == palisade(arguments).1, "{name} is stale: run `make docs`");
    }
}

#[test]
fn there_are_completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, out, _) = palisade(&["completions", shell]);
        assert_eq!(code, Some(0));
        assert!(out.contains("explain") && out.contains("output"), "{shell}");
    }
}
