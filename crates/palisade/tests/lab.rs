//! `palisade lab` through the built binary, with real packets. Needs root, `ip` and `nft` (`scripts/setup test` installs them):
//! without them these tests fail and say so.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn palisade(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_palisade"));
    command.args(arguments).current_dir(root());
    command
}

fn output(arguments: &[&str]) -> Output {
    palisade(arguments).output().expect("the binary runs")
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// The namespaces that a process's labs made.
fn namespaces(process: u32) -> Vec<String> {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(&format!("pal-{process:x}-"))).collect()
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what} takes too long");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn a_world_does_as_predicted() {
    let output = output(&["lab", "examples/shop", "--most-flows", "600", "--output", "json"]);
    let report = json(&output);
    assert_eq!(report["measured"], true, "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(report["mismatches"], Value::Array(Vec::new()));
    assert_eq!(report["asked"], 600);
    for verdict in ["allowed", "denied", "rejected"] {
        assert!(report[verdict]["asPredicted"].as_u64() > Some(5), "{report}");
    }
    assert_eq!(output.status.code(), Some(0));
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn without_what_it_needs_it_says_so_and_predicts() {
    let output = palisade(&["lab", "examples/shop"]).env("PATH", "/nowhere").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("nothing was measured") && err.contains("apt-get install nftables"), "{err}");
    assert!(out.contains("predicted (nothing was measured)"), "{out}");
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn what_is_wrong_with_the_manifests_is_said() {
    let output = output(&["lab", "examples/broken", "--most-flows", "1"]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("except.yaml:16: "), "{err}");
}

/// Every packet does as the suite says; so many are sent, so that none is lost silently, and so many not.
fn suite(path: &str, sent: u64, not: u64) {
    let output = output(&["lab", "test", path, "--output", "json"]);
    let report = json(&output);
    let cases = report["cases"].as_array().unwrap();
    let failing = cases.iter().filter(|case| case["failures"] != Value::Array(Vec::new()));
    let failing: Vec<&Value> = failing.collect();
    assert!(failing.is_empty(), "{failing:#?}");
    assert_eq!(output.status.code(), Some(0));
    let left: u64 = report["notSent"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!((report["sent"].as_u64(), left), (Some(sent), not), "{}", report["notSent"]);
}

macro_rules! suites {
    ($($name:ident: $path:literal, $sent:literal sent, $not:literal not;)*) => {$(
        #[test]
        #[ignore = "needs root, nft and ip: make kernel"]
        fn $name() {
            suite($path, $sent, $not);
        }
    )*};
}

suites! {
    kubernetes: "suites/k8s-e2e", 5128 sent, 17 not;
    kubernetes_beta: "suites/k8s-v1beta1", 1304 sent, 0 not;
    decisions: "suites/decisions", 699 sent, 0 not;
    admin_v1alpha1: "suites/npa-v1alpha1", 289 sent, 0 not;
    admin_v1alpha2: "suites/npa-v1alpha2", 483 sent, 0 not;
    antrea: "suites/antrea", 15492 sent, 47 not;
    antrea_2020: "suites/antrea-2020", 3933 sent, 0 not;
    antrea_decisions: "suites/antrea-decisions", 1665 sent, 14 not;
    antrea_order: "suites/antrea-order", 1246 sent, 0 not;
    thorium: "suites/thorium-document", 246 sent, 0 not;
}

/// Which labs are up is the same for everybody on a machine.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A lab that stays up, on a folder of its own.
struct Kept {
    child: Child,
    folder: PathBuf,
}

impl Kept {
    fn new(name: &str) -> Kept {
        let folder = std::env::temp_dir().join(format!("palisade-lab-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::copy(root().join("crates/lab/tests/world.yaml"), folder.join("world.yaml")).unwrap();
        let out = std::fs::File::create(folder.join("out")).unwrap();
        let child =
            palisade(&["lab", folder.to_str().unwrap(), "--keep"]).stdout(out).stdin(Stdio::null()).spawn();
        let kept = Kept { child: child.unwrap(), folder };
        until("a lab", || kept.out().contains("Up. Try:"));
        kept
    }

    fn out(&self) -> String {
        std::fs::read_to_string(self.folder.join("out")).unwrap()
    }

    fn signal(&mut self, signal: &str) {
        let process = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &process]).status().unwrap().success());
        self.child.wait().unwrap();
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn a_lab_that_stays_up_can_be_entered_follows_its_files_and_leaves_nothing() {
    let _alone = ONE_AT_A_TIME.lock();
    let mut kept = Kept::new("up");
    let process = kept.child.id();
    assert_eq!(namespaces(process).len(), 1 + 2 + 5);
    let inside = output(&["lab", "exec", "shop/web", "--", "ip", "-brief", "address"]);
    assert!(String::from_utf8_lossy(&inside.stdout).contains("10.1.0.1/32"), "{inside:?}");
    let code = output(&["lab", "exec", "shop/web", "--", "sh", "-c", "exit 7"]).status.code();
    assert_eq!(code, Some(7));
    let wrong = output(&["lab", "exec", "shop/wep", "--", "true"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("did you mean shop/web"), "{wrong:?}");
    std::fs::copy(root().join("crates/lab/tests/policies.yaml"), kept.folder.join("policies.yaml")).unwrap();
    until("a change", || kept.out().contains("policies.yaml changed, enforced in "));
    assert!(kept.out().contains(": closes ") || kept.out().contains("; closes "), "{}", kept.out());
    let unreadable = kept.folder.join("half.yaml");
    std::fs::write(
        &unreadable,
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: [\n",
    )
    .unwrap();
    until("a refusal", || kept.out().contains("half.yaml changed: error: "));
    assert!(kept.out().contains("half.yaml:3:"), "{}", kept.out());
    assert!(kept.out().contains("what was in force stays in force"), "{}", kept.out());
    kept.signal("-INT");
    assert_eq!(namespaces(process), Vec::<String>::new());
    let code = output(&["lab", "exec", "shop/web", "--", "true"]).status.code();
    assert_eq!(code, Some(2), "there is no lab any more");
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn what_a_killed_lab_left_is_taken_away_by_the_next() {
    let _alone = ONE_AT_A_TIME.lock();
    let mut kept = Kept::new("killed");
    let process = kept.child.id();
    assert_eq!(namespaces(process).len(), 1 + 2 + 5);
    kept.signal("-KILL");
    assert_eq!(output(&["lab", "clean"]).status.code(), Some(0));
    assert_eq!(namespaces(process), Vec::<String>::new());
}
