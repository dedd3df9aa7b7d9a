//! A lab that stays up: follows its manifests, and says what a change opens and closes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use palisade_lab::Lab;
use palisade_lab::clean::Kept;
use palisade_lab::matrix::Matrix;
use palisade_lab::place::Placed;
use palisade_report::style::Look;
use palisade_report::text::{NL, Text};

use super::super::changes::{Changes, between};
use super::{print_now, words, world};
use crate::cli::LabArgs;
use crate::input;
use crate::print::time::{clock, seconds};

/// How often to look at the manifests.
const LOOK: Duration = Duration::from_millis(300);

/// What a file looked like: when it was changed, and how long it is.
type Stamp = (SystemTime, u64);

/// Stays until somebody ends it.
pub fn stay(
    arguments: &LabArgs,
    lab: &mut Lab,
    placed: Placed,
    stop: &AtomicBool,
    look: Look,
) -> Result<(), Text> {
    let kept = lab.kept(&placed, &arguments.paths);
    kept.write().map_err(words)?;
    let pod = kept.pods.keys().next().map_or("NAMESPACE/POD", String::as_str).to_owned();
    let forget = Forget(kept);
    print_now(&text!(
        "{NL}Up. Try:  palisade lab exec {pod} -- ip address     (Ctrl-C removes everything){NL}watching {} …{NL}",
        input::describe(&arguments.paths)
    ));
    let mut before = placed;
    let mut seen = stamps(&arguments.paths);
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
        let now = stamps(&arguments.paths);
        if now == seen {
            continue;
        }
        let changed = differences(&seen, &now);
        seen = now;
        let line = match follow(arguments, lab, &mut before) {
            Ok((changes, took)) => text!(", enforced in {}: {}", seconds(took), changes.words(look)),
            Err(error) => text!(": {} {error}; what was in force stays in force", look.bad("error:")),
        };
        print_now(&text!("{}  {changed} changed{line}{NL}", clock()));
    }
    drop(forget);
    Ok(())
}

/// Makes the lab what the manifests say now. Returns what that opened and closed, and how long it took to enforce.
fn follow(arguments: &LabArgs, lab: &mut Lab, before: &mut Placed) -> Result<(Changes, Duration), Text> {
    let begun = Instant::now();
    let (placed, found) = world(&arguments.paths, arguments.thorium)?;
    // A file that is being written, or with a mistake in it, takes nothing out of force.
    if let Some(error) = found.iter().find(|finding| finding.is_error()) {
        let at = error.location.as_ref().map(|at| format!("{at}: ")).unwrap_or_default();
        return Err(text!("{at}{}", error.message));
    }
    let matrix = Matrix::of(&placed, arguments.most_flows.max(1));
    lab.update(&placed, &matrix.outside).map_err(words)?;
    let took = begun.elapsed();
    lab.kept(&placed, &arguments.paths).write().map_err(words)?;
    let changes = between(before.objects.clone(), placed.objects.clone());
    *before = placed;
    Ok((changes, took))
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
