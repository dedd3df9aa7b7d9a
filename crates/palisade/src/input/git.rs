//! Manifests as a git revision has them, without touching the working tree.
//!
//! The `git` of the machine is asked: it knows the repository's formats, where its objects are and who may read them. Files are
//! chosen as they would be from a folder, and links followed within the repository ([`tree`]), alike in a revision and in the working
//! tree.
//!
//! A repository may be somebody else's, and its configuration names programs that git runs: a monitor of the file system, hooks,
//! filters, a way to fetch. None of them is run ([`command`]). Only commands are used that read objects, references and the
//! index; none shows a difference, checks out, or converts a text. What the user configures (`~/.gitconfig`) holds, and with it
//! `safe.directory`: a repository of another user that is not named there is refused by git, and its reason is printed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::Ordering;

use palisade_dialects::codes;
use palisade_report::text::{NL, Text};

use self::tree::{Entry, Tree, Visit};
use super::{FOLLOW_LINKS, Input, MAX_BYTES, MAX_FILES, Walk, reason};

mod tree;

/// A file of a revision.
struct Blob {
    /// The path on which it was met, as a user would name it.
    shown: String,
    id: String,
}

/// A path that was asked for.
struct Named {
    /// From the top of the repository.
    path: String,
    /// As a user would name it, without `.`; empty for where we are.
    shown: String,
}

/// The longest list of files that is read, in bytes: some million files. Trees that hold each other many times over have more.
const MAX_LIST: u64 = 256 << 20;
/// What is kept of what git complains about, in bytes.
const MAX_COMPLAINT: u64 = 64 << 10;
/// The longest path that Linux takes, in bytes.
const MAX_TARGET: u64 = 4096;

/// Reads every path as it is in a revision, and says which ones are there. One that is not has no manifests there.
pub fn read(revision: &str, paths: &[String], there: &mut [bool]) -> Result<Input, Text> {
    let commit = commit(revision)?;
    let mut input = Input::default();
    let named = paths.iter().map(|path| named(path)).collect::<Result<Vec<Named>, Text>>()?;
    let tree = tree_of(&commit, paths, &named)?;
    let mut blobs = Vec::new();
    for (named, there) in named.iter().zip(there) {
        *there |= tree.has(&named.path);
        let visits = visits(&tree, named, &format!("{revision}:"), &mut input);
        for visit in visits {
            match visit {
                Visit::Manifest { shown, id, .. } => blobs.push(Blob { shown, id: id.to_owned() }),
                other => input.refuse_visit(&other, revision),
            }
        }
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
    let top = top()?;
    for path in paths.iter().filter(|path| Path::new(path).exists()) {
        // What is named is read, wherever it leads.
        let real = Path::new(path).canonicalize().ok();
        let leaves = real.is_some_and(|real| !real.starts_with(&top));
        if !Path::new(path).is_dir() || leaves {
            input.add(std::slice::from_ref(path));
            continue;
        }
        let named = named(path)?;
        let tree = working_tree(&top, path, &named)?;
        let visits = visits(&tree, &named, "", &mut input);
        let files = visits.iter().filter(|visit| matches!(visit, Visit::Manifest { .. })).count();
        if files > MAX_FILES {
            return Err(text!("more than {MAX_FILES} files in {path}"));
        }
        for visit in visits {
            match visit {
                Visit::Manifest { shown, path, .. } => input.add_file(&shown, &top.join(path)),
                Visit::LeadsOut { path, .. } if FOLLOW_LINKS.load(Ordering::Relaxed) => {
                    let outside = top.join(path);
                    input.path(&outside, &mut Walk::default(), 1);
                }
                other => input.refuse_visit(&other, "the working tree"),
            }
        }
    }
    Ok(input)
}

/// Returns what is met below a path, and counts the entries that are looked at on the way.
fn visits<'t>(tree: &'t Tree, named: &Named, before: &str, input: &mut Input) -> Vec<Visit<'t>> {
    let mut visits = Vec::new();
    let mut visit = |mut visit: Visit<'t>| {
        let shown = visit.shown_mut();
        shown.insert_str(0, before);
        visits.push(visit);
    };
    tree.walk(&named.path, &named.shown, &mut visit, &mut |entry, is_linked| {
        input.has_room(Path::new(entry), is_linked)
    });
    visits
}

// === impl Input ===

impl Input {
    /// Reads a file of the working tree that is no link, under the name on which it was met.
    fn add_file(&mut self, shown: &str, path: &Path) {
        let opened = fs::symlink_metadata(path).and_then(|metadata| match metadata.is_file() {
            true => fs::File::open(path),
            false => Err(std::io::Error::other("is no regular file")),
        });
        match opened {
            Ok(file) => self.text(shown, file),
            Err(error) => self.refuse(&codes::UNREADABLE_FILE, Path::new(shown), &reason(&error)),
        }
    }

    /// Reports what a walk met that is no manifest.
    fn refuse_visit(&mut self, visit: &Visit<'_>, of: &str) {
        match visit {
            Visit::LeadsOut { shown, .. } => {
                let why = format!("is a link that leads out of the repository: it is not read with {of}");
                self.refuse(&codes::LINK, Path::new(shown), &why);
            }
            Visit::Dangling { shown } => {
                let why = format!("is a link to a file that is not in {of}, or ignored by git");
                self.refuse(&codes::UNREADABLE_FILE, Path::new(shown), &why);
            }
            Visit::Loop { shown } => {
                let why = "is a link that leads through too many links, or to itself";
                self.refuse(&codes::UNREADABLE_FILE, Path::new(shown), why);
            }
            Visit::ContainsItself { shown } => self.contains_itself(Path::new(shown)),
            Visit::TooDeep { shown } => self.too_deep(Path::new(shown)),
            Visit::Manifest { .. } => {}
        }
    }
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

/// The files of a commit below some paths; all of them where a link may lead elsewhere.
fn tree_of(commit: &str, paths: &[String], named: &[Named]) -> Result<Tree, Text> {
    let mut tree = Tree::default();
    for path in paths {
        list(&["ls-tree", "-r", "-z", "--full-name", commit, "--", path], path, &mut tree)?;
    }
    if tree.has_links() || named.iter().any(|named| !tree.has(&named.path)) {
        list(&["ls-tree", "-r", "-z", "--full-tree", commit], commit, &mut tree)?;
    }
    read_links(&mut tree)?;
    Ok(tree)
}

fn list(arguments: &[&str], what: &str, tree: &mut Tree) -> Result<(), Text> {
    for entry in lines(command(arguments), what)? {
        let Some((meta, name)) = entry.split_once('\t') else { continue };
        let mut meta = meta.split(' ');
        let (mode, kind, id) =
            (meta.next().unwrap_or(""), meta.next().unwrap_or(""), meta.next().unwrap_or(""));
        let entry = match (mode, kind) {
            // Until it is read, its blob is where it leads to.
            ("120000", "blob") => Entry::Link(Some(id.to_owned())),
            (_, "blob") => Entry::File(id.to_owned()),
            // A submodule leads to another repository.
            _ => continue,
        };
        tree.insert(name.to_owned(), entry);
    }
    Ok(())
}

/// Reads where the links of a revision lead to, each blob once. One that is no path leads nowhere.
fn read_links(tree: &mut Tree) -> Result<(), Text> {
    let mut targets: BTreeMap<String, Option<String>> =
        tree.links_mut().filter_map(|(_, id)| Some((id.clone()?, None))).collect();
    // The sizes first: a blob may be of any size, and git writes all of it.
    let ids: Vec<String> = targets.keys().cloned().collect();
    let mut short = Vec::new();
    batch("--batch-check", &ids, |id, head, _| {
        if size(head).is_some_and(|size| size <= MAX_TARGET) {
            short.push(id.to_owned());
        }
        Ok(())
    })?;
    batch("--batch", &short, |id, head, answers| {
        let broken = || text!("git cannot read the link {id}");
        let size = size(head).ok_or_else(broken)?;
        let target = content(size, answers).ok_or_else(broken)?;
        targets.insert(id.to_owned(), String::from_utf8(target).ok().filter(|target| is_path(target)));
        Ok(())
    })?;
    for (_, link) in tree.links_mut() {
        *link = link.take().and_then(|id| targets.get(&id).cloned().flatten());
    }
    Ok(())
}

fn is_path(target: &str) -> bool {
    !target.is_empty() && !target.contains('\0')
}

/// The files of the working tree below a path; all of them where a link may lead elsewhere.
fn working_tree(top: &Path, path: &str, named: &Named) -> Result<Tree, Text> {
    const FILES: [&str; 6] = ["ls-files", "-z", "--full-name", "--cached", "--others", "--exclude-standard"];
    let mut tree = Tree::default();
    let mut whole: BTreeMap<PathBuf, bool> = BTreeMap::new();
    let mut add = |names: Vec<String>, tree: &mut Tree| {
        for name in names {
            let path = top.join(&name);
            // Where a link has taken the place of a folder, git still lists what was in it.
            let above = path.parent().unwrap_or(top).to_owned();
            let is_here = |above: &PathBuf| above.canonicalize().is_ok_and(|real| real == *above);
            let whole = *whole.entry(above).or_insert_with_key(is_here);
            let entry = match fs::symlink_metadata(&path) {
                Ok(metadata) if metadata.is_symlink() => {
                    let target = fs::read_link(&path).ok();
                    Entry::Link(target.and_then(|target| target.to_str().map(ToOwned::to_owned)))
                }
                // A submodule.
                Ok(metadata) if metadata.is_dir() => continue,
                // What is deleted and not yet committed so is still listed.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Ok(_) | Err(_) => Entry::File(String::new()),
            };
            if whole {
                tree.insert(name, entry);
            }
        }
    };
    add(lines(command(&[&FILES[..], &["--", path]].concat()), path)?, &mut tree);
    if tree.has_links() || !tree.has(&named.path) {
        let mut all = command(&FILES);
        all.current_dir(top);
        add(lines(all, "the working tree")?, &mut tree);
    }
    Ok(tree)
}

/// A path from the top of the repository, and as people name it.
fn named(path: &str) -> Result<Named, Text> {
    let shown: PathBuf = Path::new(path).components().filter(|part| *part != Component::CurDir).collect();
    let (prefix, shown) = match shown.is_absolute() {
        true => {
            let top = top()?;
            let below = shown.strip_prefix(&top).map(Path::to_owned);
            let real = || shown.canonicalize().ok()?.strip_prefix(&top).map(Path::to_owned).ok();
            let below = below.ok().or_else(real);
            let below =
                below.ok_or_else(|| text!("{path}: is outside of the repository {}", top.display()))?;
            (String::new(), below)
        }
        false => (line(&git(&["rev-parse", "--show-prefix"])?), shown),
    };
    let mut from_top: Vec<String> = Vec::new();
    for part in Path::new(&prefix).join(&shown).components() {
        match part {
            Component::Normal(name) => from_top.push(name.to_string_lossy().into_owned()),
            Component::ParentDir => drop(from_top.pop()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    Ok(Named { path: from_top.join("/"), shown: shown.to_string_lossy().into_owned() })
}

/// The real path of the top folder of the working tree.
fn top() -> Result<PathBuf, Text> {
    let output = git(&["rev-parse", "--show-toplevel"])?;
    let top = PathBuf::from(line(&output));
    match output.status.success() {
        true => Ok(top.canonicalize().unwrap_or(top)),
        false => Err(text!("cannot find the working tree: {}", said(&output))),
    }
}

fn line(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned()
}

/// What a call of git prints, in lines that end with a zero byte.
fn lines(mut command: Command, what: &str) -> Result<Vec<String>, Text> {
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().map_err(|error| missing(&error))?;
    let stderr = child.stderr.take();
    // Beside the list: a pipe that nobody empties would stop git.
    let complaints = std::thread::spawn(move || {
        let (mut first, mut rest) = (Vec::new(), stderr);
        if let Some(stderr) = &mut rest {
            let _ = stderr.take(MAX_COMPLAINT).read_to_end(&mut first);
            let _ = std::io::copy(stderr, &mut std::io::sink());
        }
        first
    });
    let mut printed = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(MAX_LIST + 1).read_to_end(&mut printed).map_err(|error| missing(&error))?;
    }
    if printed.len() as u64 > MAX_LIST {
        let _ = child.kill();
        let _ = child.wait();
        return Err(text!("cannot list {what}: the names of its files are more than {} MiB", MAX_LIST >> 20));
    }
    let status = child.wait().map_err(|error| missing(&error))?;
    let stderr = complaints.join().unwrap_or_default();
    if !status.success() {
        let output = Output { status, stdout: Vec::new(), stderr };
        return Err(text!("cannot list {what}: {}", said(&output)));
    }
    let lines = printed.split(|byte| *byte == 0).filter(|line| !line.is_empty());
    Ok(lines.map(|line| String::from_utf8_lossy(line).into_owned()).collect())
}

/// Reads the content of all blobs with one process.
fn texts(revision: &str, blobs: &[Blob], input: &mut Input) -> Result<(), Text> {
    let ids: Vec<String> = blobs.iter().map(|blob| blob.id.clone()).collect();
    let mut blobs = blobs.iter();
    batch("--batch", &ids, |_, head, answers| {
        let Some(Blob { shown, .. }) = blobs.next() else { return Ok(()) };
        let broken = || text!("git cannot read {shown}");
        let size = size(head).ok_or_else(broken)?;
        if size > MAX_BYTES {
            std::io::copy(&mut answers.take(size + 1), &mut std::io::sink()).map_err(|_| broken())?;
            let why = format!("larger than {} MiB", MAX_BYTES >> 20);
            input.refuse(&codes::LIMIT, Path::new(shown), &why);
            return Ok(());
        }
        let bytes = content(size, answers).ok_or_else(broken)?;
        input.text(shown, &bytes[..]);
        match input.is_full {
            true => Err(text!("{revision} has more manifests than are read: name fewer paths")),
            false => Ok(()),
        }
    })
}

/// Asks one process about all ids, and has each answer read: the id, the line that begins the answer, and what follows it.
fn batch(
    how: &str,
    ids: &[String],
    mut answer: impl FnMut(&str, &str, &mut dyn BufRead) -> Result<(), Text>,
) -> Result<(), Text> {
    if ids.is_empty() {
        return Ok(());
    }
    let mut child = command(&["cat-file", how])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| missing(&error))?;
    let (Some(mut asks), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("git cat-file: no pipe".into());
    };
    let all: String = ids.iter().map(|id| format!("{id}\n")).collect();
    // Beside the reading: git answers while it is still asked, and neither must wait for the other.
    let asking = std::thread::spawn(move || asks.write_all(all.as_bytes()));
    let mut answers = BufReader::new(answers);
    let result = ids.iter().try_for_each(|id| {
        let mut head = String::new();
        // An answer that ends early is one without a size.
        let _ = answers.read_line(&mut head);
        answer(id, &head, &mut answers)
    });
    drop(answers);
    let _ = asking.join();
    let _ = child.wait();
    result
}

/// The size of a blob, by the line that begins the answer.
fn size(head: &str) -> Option<u64> {
    head.trim_end().rsplit(' ').next()?.parse().ok()
}

/// The content of a blob, which ends with a line of its own.
fn content(size: u64, answers: &mut dyn BufRead) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    answers.take(size + 1).read_to_end(&mut bytes).ok()?;
    bytes.pop();
    Some(bytes)
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
