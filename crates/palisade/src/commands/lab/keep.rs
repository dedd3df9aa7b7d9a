//! A lab that stays up: follows its manifests, and says what a change opens and closes.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use palisade_lab::Lab;
use palisade_lab::clean::Kept;
use palisade_lab::matrix::Matrix;
use palisade_lab::place::Placed;
use palisade_model::trace::Verdict;

use super::{predict, print_now, seconds, words, world};
use crate::cli::LabArgs;
use crate::input;
use crate::print::diagnostics::plural;
use crate::print::lab::flow_text;
use crate::print::style::Look;

/// How often to look at the manifests.
const LOOK: Duration = Duration::from_millis(300);
/// How many flows of a change are listed.
const LISTED: usize = 10;

/// What a file looked like: when it was changed, and how long it is.
type Stamp = (SystemTime, u64);

/// Stays until somebody ends it.
pub fn stay(
    arguments: &LabArgs,
    lab: &mut Lab,
    placed: Placed,
    matrix: &Matrix,
    stop: &AtomicBool,
    look: Look,
) -> Result<(), String> {
    let kept = lab.kept(&placed, &arguments.paths);
    kept.write().map_err(words)?;
    let pod = kept.pods.keys().next().map_or("NAMESPACE/POD", String::as_str).to_owned();
    let forget = Forget(kept);
    print_now(&format!(
        "\nUp. Try:  palisade lab exec {pod} -- ip address     (Ctrl-C removes everything)\nwatching {} …\n",
        input::describe(&arguments.paths)
    ));
    let mut before = verdicts(&placed, matrix);
    drop(placed);
    let mut seen = stamps(&arguments.paths);
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
        let now = stamps(&arguments.paths);
        if now == seen {
            continue;
        }
        let changed = differences(&seen, &now);
        seen = now;
        let begun = Instant::now();
        let line = match follow(arguments, lab, &mut before) {
            Ok((opened, closed)) => change(&opened, &closed, begun.elapsed(), look),
            Err(error) => format!("{} {error}; what was in force stays in force\n", look.bad("error:")),
        };
        print_now(&format!("{}  {changed} changed: {line}", clock()));
    }
    drop(forget);
    Ok(())
}

/// The flows that are asked about, in words, and what is predicted.
fn verdicts(placed: &Placed, matrix: &Matrix) -> BTreeMap<String, Verdict> {
    let texts = matrix.flows.iter().map(|flow| flow_text(&placed.snapshot, &placed.flow(flow)));
    texts.zip(predict(placed, matrix)).collect()
}

type Flows = Vec<String>;

/// Makes the lab what the manifests say now. Says which flows that opened and closed.
fn follow(
    arguments: &LabArgs,
    lab: &mut Lab,
    before: &mut BTreeMap<String, Verdict>,
) -> Result<(Flows, Flows), String> {
    let (placed, found) = world(&arguments.paths, arguments.thorium)?;
    // A file that is being written, or with a mistake in it, takes nothing out of force.
    if let Some(error) = found.iter().find(|finding| finding.is_error()) {
        let at = error.location.as_ref().map(|at| format!("{at}: ")).unwrap_or_default();
        return Err(format!("{at}{}", error.message));
    }
    let matrix = Matrix::of(&placed, arguments.most_flows.max(1));
    lab.update(&placed, &matrix.outside).map_err(words)?;
    lab.kept(&placed, &arguments.paths).write().map_err(words)?;
    let now = verdicts(&placed, &matrix);
    let (mut opened, mut closed) = (Vec::new(), Vec::new());
    for (flow, verdict) in &now {
        match (before.get(flow), verdict) {
            (Some(Verdict::Allow), Verdict::Allow) | (None, _) => {}
            (Some(Verdict::Allow), _) => closed.push(flow.clone()),
            (Some(_), Verdict::Allow) => opened.push(flow.clone()),
            _ => {}
        }
    }
    *before = now;
    Ok((opened, closed))
}

fn change(opened: &[String], closed: &[String], time: Duration, look: Look) -> String {
    let mut out = String::new();
    let listed = |flows: &[String]| {
        let more = flows.len().saturating_sub(LISTED);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        format!("{}{more}", flows.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", "))
    };
    let parts = [(opened, "opens", "open"), (closed, "closes", "close")];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(flows, ..)| !flows.is_empty())
        .map(|(flows, one, many)| {
            let word = if flows.len() == 1 { one } else { many };
            format!("{} {} ({})", plural(flows.len(), "connection"), look.strong(word), listed(flows))
        })
        .collect();
    let what = if parts.is_empty() { "no connection opens or closes".to_owned() } else { parts.join("; ") };
    let _ = writeln!(out, "{what}, in force after {}", seconds(time));
    out
}

/// Whoever goes, however that is, is not found any more.
struct Forget(Kept);

impl Drop for Forget {
    fn drop(&mut self) {
        self.0.forget();
    }
}

fn stamps(paths: &[String]) -> BTreeMap<PathBuf, Stamp> {
    let mut all = BTreeMap::new();
    for path in paths {
        stamp(Path::new(path), &mut all, 0);
    }
    all
}

/// Every file below a path. Folders that nest deeper than any that is read are left alone.
fn stamp(path: &Path, all: &mut BTreeMap<PathBuf, Stamp>, depth: usize) {
    let Ok(metadata) = std::fs::metadata(path) else { return };
    if metadata.is_dir() && depth < 64 {
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            if input::is_read(&entry.path()) {
                stamp(&entry.path(), all, depth + 1);
            }
        }
    } else if metadata.is_file() {
        all.insert(path.to_owned(), (metadata.modified().unwrap_or(UNIX_EPOCH), metadata.len()));
    }
}

/// The names of files that are not as they were.
fn differences(before: &BTreeMap<PathBuf, Stamp>, now: &BTreeMap<PathBuf, Stamp>) -> String {
    let differs = |path: &&PathBuf| before.get(*path) != now.get(*path);
    let mut paths: Vec<&PathBuf> = before.keys().chain(now.keys()).filter(differs).collect();
    paths.sort();
    paths.dedup();
    let name = |path: &&PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    match paths.as_slice() {
        [] => "nothing".to_owned(),
        [only] => name(only).unwrap_or_default(),
        [first, rest @ ..] => format!("{} and {} more", name(first).unwrap_or_default(), rest.len()),
    }
}

/// The time of day. In UTC: what the machine's zone is, no safe call says.
fn clock() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    format!("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}
