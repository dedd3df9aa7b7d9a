//! Manifests as a git revision has them, without touching the working tree.
//!
//! The `git` of the machine is asked: it knows the repository's formats, where its objects are and who may read them. Files are
//! chosen as they would be from a folder.
//!
//! A repository may be somebody else's, and its configuration names programs that git runs: a monitor of the file system, hooks,
//! filters, a way to fetch. None of them is run ([`command`]). Only commands are used that read objects, references and the
//! index; none shows a difference, checks out, or converts a text. What the user configures (`~/.gitconfig`) holds, and with it
//! `safe.directory`: a repository of another user that is not named there is refused by git, and its reason is printed.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Component, Path};
use std::process::{Command, Output, Stdio};

use palisade_dialects::codes;

use crate::print::text::{NL, Text};

use super::{Input, MAX_BYTES, MAX_FILES, is_manifest};

/// A file of a revision.
struct Blob {
    path: String,
    id: String,
}

/// Reads every path as it is in a revision, and says which ones are there. One that is not has no manifests there.
pub fn read(revision: &str, paths: &[String], there: &mut [bool]) -> Result<Input, Text> {
    let commit = commit(revision)?;
    let mut input = Input::default();
    let (mut blobs, mut links) = (Vec::new(), Vec::new());
    for (path, there) in paths.iter().zip(there) {
        *there |= list(&commit, path, &mut blobs, &mut links)?;
    }
    for link in links {
        let why = "is a link: those of a revision are not followed";
        input.refuse(&codes::LINK, Path::new(&format!("{revision}:{link}")), why, false);
    }
    if blobs.len() > MAX_FILES {
        return Err(text!("more than {MAX_FILES} files in {revision}"));
    }
    texts(revision, &blobs, &mut input)?;
    Ok(input)
}

/// Reads every path as it is in the working tree, without the files that git is told to ignore.
pub fn read_working_tree(paths: &[String]) -> Result<Input, Text> {
    let mut input = Input::default();
    for path in paths.iter().filter(|path| Path::new(path).exists()) {
        if !Path::new(path).is_dir() {
            input.add(std::slice::from_ref(path));
            continue;
        }
        let output = git(&["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", path])?;
        if !output.status.success() {
            return Err(text!("cannot list {path}: {}", said(&output)));
        }
        let names: BTreeSet<String> = output
            .stdout
            .split(|byte| *byte == 0)
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .filter(|name| is_manifest(Path::new(name)) && !is_hidden(name, path))
            // What is deleted and not yet committed so is still listed.
            .filter(|name| Path::new(name).is_file())
            .collect();
        let names: Vec<String> = names.into_iter().collect();
        if names.len() > MAX_FILES {
            return Err(text!("more than {MAX_FILES} files in {path}"));
        }
        input.add_found(path, &names);
    }
    Ok(input)
}

/// The last commit that two revisions have in common.
pub fn merge_base(one: &str, other: &str) -> Result<String, Text> {
    let (from, to) = (commit(one)?, commit(other)?);
    let output = git(&["merge-base", &from, &to])?;
    let base = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match output.status.success() && !base.is_empty() {
        // As short as people write them.
        true => Ok(base.chars().take(12).collect()),
        false => Err(text!(
            "{one} and {other} have no commit in common{}",
            if is_shallow() {
                ": the clone is shallow, fetch more of it (git fetch --unshallow)"
            } else {
                ""
            }
        )),
    }
}

/// Whether only a part of the history is here.
fn is_shallow() -> bool {
    git(&["rev-parse", "--is-shallow-repository"])
        .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == "true")
}

/// The commit that a revision means.
fn commit(revision: &str) -> Result<String, Text> {
    // Whatever begins so would be an option to git.
    if revision.starts_with('-') || revision.is_empty() {
        return Err(text!("{revision:?} is no git revision"));
    }
    let wanted = format!("{revision}^{{commit}}");
    let output = git(&["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted])?;
    let commit = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() && !commit.is_empty() {
        return Ok(commit);
    }
    let inside = git(&["rev-parse", "--is-inside-work-tree"])?;
    if !inside.status.success() {
        return Err(text!("{}: --git compares with a revision of the repository here", said(&inside)));
    }
    let names =
        git(&["for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags", "refs/remotes"])?;
    let names = String::from_utf8_lossy(&names.stdout).into_owned();
    let near = palisade_model::nearest::nearest(revision, names.lines()).join(", ");
    let help = match near.is_empty() {
        _ if is_shallow() => Text::own(
            "\n  the clone is shallow: fetch that revision first (git fetch origin NAME, or fetch-depth: 0)",
        ),
        true => Text::new(),
        false => text!("{NL}  did you mean {near}?"),
    };
    Err(text!("no git revision {revision}{help}"))
}

/// The files below a path that would be read from a folder. Says whether anything is there.
fn list(commit: &str, path: &str, blobs: &mut Vec<Blob>, links: &mut Vec<String>) -> Result<bool, Text> {
    let output = git(&["ls-tree", "-r", "-z", commit, "--", path])?;
    if !output.status.success() {
        return Err(text!("cannot list {path}: {}", said(&output)));
    }
    let asked = Path::new(path);
    for entry in output.stdout.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
        let entry = String::from_utf8_lossy(entry);
        let Some((meta, name)) = entry.split_once('\t') else { continue };
        let mut meta = meta.split(' ');
        let (mode, kind, id) =
            (meta.next().unwrap_or(""), meta.next().unwrap_or(""), meta.next().unwrap_or(""));
        // A submodule leads to another repository.
        if kind != "blob" {
            continue;
        }
        let named = Path::new(name) == asked.strip_prefix(".").unwrap_or(asked);
        if named || (is_manifest(Path::new(name)) && !is_hidden(name, path)) {
            match mode {
                // It leads out of the revision.
                "120000" => links.push(name.to_owned()),
                _ => blobs.push(Blob { path: name.to_owned(), id: id.to_owned() }),
            }
        }
    }
    // The whole of a repository is there even where it is empty.
    Ok(!output.stdout.is_empty() || path == ".")
}

/// Whether a part of the name below the path that was asked for begins with a dot.
fn is_hidden(name: &str, asked: &str) -> bool {
    let below = Path::new(name).strip_prefix(asked).unwrap_or(Path::new(name));
    let hidden = |part: Component<'_>| match part {
        Component::Normal(part) => part.to_string_lossy().starts_with('.'),
        _ => false,
    };
    below.components().any(hidden)
}

/// Reads the content of all blobs with one process.
fn texts(revision: &str, blobs: &[Blob], input: &mut Input) -> Result<(), Text> {
    if blobs.is_empty() {
        return Ok(());
    }
    let mut child = command(&["cat-file", "--batch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| missing(&error))?;
    let (Some(mut asks), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("git cat-file: no pipe".into());
    };
    let ids: String = blobs.iter().map(|blob| format!("{}\n", blob.id)).collect();
    // Beside the reading: git answers while it is still asked, and neither must wait for the other.
    let asking = std::thread::spawn(move || asks.write_all(ids.as_bytes()));
    let mut answers = BufReader::new(answers);
    let result = blobs.iter().try_for_each(|blob| text(revision, blob, &mut answers, input));
    drop(answers);
    let _ = asking.join();
    let _ = child.wait();
    result
}

fn text(revision: &str, blob: &Blob, answers: &mut impl BufRead, input: &mut Input) -> Result<(), Text> {
    let broken = || text!("git cannot read {revision}:{}", blob.path);
    let mut head = String::new();
    answers.read_line(&mut head).map_err(|_| broken())?;
    let size: u64 =
        head.trim_end().rsplit(' ').next().and_then(|size| size.parse().ok()).ok_or_else(broken)?;
    let name = format!("{revision}:{}", blob.path);
    if size > MAX_BYTES {
        std::io::copy(&mut answers.take(size + 1), &mut std::io::sink()).map_err(|_| broken())?;
        let why = format!("larger than {} MiB", MAX_BYTES >> 20);
        input.refuse(&codes::LIMIT, Path::new(&name), &why, true);
        return Ok(());
    }
    let mut bytes = Vec::new();
    // The content ends with a line of its own.
    answers.take(size + 1).read_to_end(&mut bytes).map_err(|_| broken())?;
    bytes.pop();
    input.text(&name, &bytes[..], true);
    Ok(())
}

/// Settings that take precedence over the repository's own: each of them could name a program to run, or a file to read.
const SETTINGS: [&str; 12] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.untrackedCache=false",
    "core.pager=cat",
    "core.editor=false",
    "core.askPass=false",
    "core.sshCommand=false",
    "core.gitProxy=false",
    "credential.helper=",
    "diff.external=",
    "protocol.allow=never",
];

/// A call of git that runs no other program, asks nobody, fetches nothing and writes nothing.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    for setting in SETTINGS {
        command.args(["-c", setting]);
    }
    // A path is a path, whatever it begins with; an object is what its commit says.
    command.args(["--no-pager", "--no-replace-objects", "--literal-pathspecs"]).args(arguments);
    command
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0")
        // What a partial clone lacks is missing. Git knows the first since 2.44; the second holds for all of its transports.
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_ALLOW_PROTOCOL", "")
        .env("LC_ALL", "C");
    for inherited in
        ["GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_ASKPASS", "SSH_ASKPASS", "GIT_SSH", "GIT_SSH_COMMAND"]
    {
        command.env_remove(inherited);
    }
    command
}

fn git(arguments: &[&str]) -> Result<Output, Text> {
    command(arguments).stdin(Stdio::null()).output().map_err(|error| missing(&error))
}

fn missing(error: &std::io::Error) -> Text {
    match error.kind() {
        std::io::ErrorKind::NotFound => "git is not installed: --git needs it".into(),
        _ => text!("cannot run git: {error}"),
    }
}

/// What git had to say, in one line.
fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("git said nothing");
    line.trim().trim_start_matches("fatal: ").to_owned()
}
