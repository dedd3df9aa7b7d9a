//! Runs the binary as a user would, and looks at everything it says.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// However bad the input is, an answer comes within this, even from a debug build.
const LONGEST: Duration = Duration::from_secs(20);

/// Two pods, and a policy that denies what the first asks of the second: losing any of them changes the answer.
pub const PODS: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db}}
";
pub const POLICY: &str = "\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed, namespace: shop}
spec: {podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress]}
";
pub const FLOW: &str = "shop/web -> shop/db tcp/5432";

/// A folder that is gone when the test is.
pub struct Folder(PathBuf);

/// How a run ended.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// What `check` found.
#[derive(Debug)]
pub struct Check {
    pub code: i32,
    pub objects: u64,
    /// Code, line and column of each diagnostic.
    pub found: Vec<(String, u64, u64)>,
    pub diagnostics: Vec<Value>,
}

impl Folder {
    pub fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name =
            format!("palisade-bad-input-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new(""))).unwrap();
        fs::write(&path, text).unwrap();
        self.path(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a command with an input, which must end in time, by itself and without a panic.
pub fn run(command: &mut Command, input: &[u8]) -> Run {
    run_within(command, input, LONGEST)
}

/// The same in another time.
pub fn run_within(command: &mut Command, input: &[u8], longest: Duration) -> Run {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.env("NO_COLOR", "1").spawn().unwrap();
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
    // Whoever does not read its input closes it.
    thread::spawn(move || drop(stdin.write_all(&input)));
    let (out, err) = (reader(child.stdout.take().unwrap()), reader(child.stderr.take().unwrap()));
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > longest {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("no answer after {longest:?}");
        }
        thread::sleep(Duration::from_millis(5));
    };
    let (out, err) = (out.join().unwrap(), err.join().unwrap());
    assert!(!out.contains("panicked") && !err.contains("panicked"), "{err}");
    Run { code: status.code().unwrap_or_else(|| panic!("{status}: {err}")), out, err }
}

fn reader(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        String::from_utf8(bytes).expect("only UTF-8 is printed")
    })
}

/// Runs the binary.
pub fn palisade(arguments: &[&str], input: &[u8]) -> Run {
    run(Command::new(env!("CARGO_BIN_EXE_palisade")).args(arguments), input)
}

/// `command FIRST… -f PATH -f PATH…`
fn with_files<'a>(first: &[&'a str], paths: &[&'a str]) -> Vec<&'a str> {
    first.iter().copied().chain(paths.iter().flat_map(|path| ["-f", *path])).collect()
}

/// Checks some paths. Every diagnostic must have its place.
pub fn check(paths: &[&str], input: &[u8]) -> Check {
    let run = palisade(&with_files(&["check", "--output", "json"], paths), input);
    let json: Value = serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {run:?}"));
    let mut diagnostics = json["diagnostics"].as_array().unwrap().clone();
    // The clusters of these tests protect hardly anybody, which is not what they are about.
    diagnostics.retain(|diagnostic| diagnostic["code"] != "L0122");
    let found = diagnostics.iter().map(|diagnostic| {
        let (line, column) = (diagnostic["line"].as_u64(), diagnostic["column"].as_u64());
        assert!(diagnostic["file"].as_str().is_some_and(|file| !file.is_empty()), "{diagnostic}");
        assert!(line >= Some(1) && column >= Some(1), "{diagnostic}");
        (diagnostic["code"].as_str().unwrap().to_owned(), line.unwrap(), column.unwrap())
    });
    let found = found.collect();
    // People must be able to see it, too.
    let text = palisade(&with_files(&["check"], paths), input);
    assert_eq!(text.code, run.code, "{text:?}");
    Check { code: run.code, objects: json["summary"]["objects"].as_u64().unwrap(), found, diagnostics }
}

/// What `explain` answers about [`FLOW`]: 1 if the pods and the policy are all there.
pub fn explain(paths: &[&str], input: &[u8]) -> i32 {
    palisade(&with_files(&["explain", FLOW], paths), input).code
}

/// Puts something bad between the pods and the policy, which must both survive it. Gives the exit code of `check` and
/// what it found, lines counted from the bad part's first.
pub fn between(bad: &str) -> (i32, Vec<(String, u64, u64)>) {
    let folder = Folder::new();
    let path = folder.write("all.yaml", format!("{PODS}---\n{bad}\n---\n{POLICY}"));
    assert_eq!(explain(&[&path], b""), 1, "something is lost");
    let mut check = check(&[&path], b"");
    let before = PODS.lines().count() as u64 + 1;
    for (_, line, _) in &mut check.found {
        *line -= before;
    }
    (check.code, check.found)
}

/// A finding.
pub fn at(code: &str, line: u64, column: u64) -> (String, u64, u64) {
    (code.to_owned(), line, column)
}
