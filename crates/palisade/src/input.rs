//! Files, folders and standard input: the only place that reads them.
//!
//! What cannot be read is a diagnostic like any other, and never keeps the rest from being read.
//!
//! Manifests may be somebody else's: what is named on the command line is read, wherever a link leads, and so is what lies in a
//! folder that is named; a link in it that leads out of that folder is reported and not followed, unless `--follow-links` says so.

mod beside;
pub mod git;

pub use self::beside::Beside;

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use palisade_dialects::codes;
use palisade_dialects::load::load;
use palisade_dialects::source::Limits;
use palisade_dialects::source::tree::{Source, Span};
use palisade_dialects::thorium::Reading;
use palisade_dialects::world::World;
use palisade_model::diagnostic::{Code, Diagnostic, Location};

/// The largest text that is read.
const MAX_BYTES: u64 = 512 << 20;
/// The most files that one run reads.
const MAX_FILES: usize = 100_000;
/// How deep folders may nest.
const MAX_DEPTH: usize = 64;
/// What counts as a manifest in a folder.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];
/// The name of standard input in diagnostics.
const STDIN: &str = "<stdin>";

/// Whether links are followed out of the folder that they are in. Set once, before anything is read.
static FOLLOW_LINKS: AtomicBool = AtomicBool::new(false);

/// Where a search is: how to notice that it goes round in a circle, or leaves where it began.
#[derive(Debug, Default)]
struct Walk {
    /// The real path of what was asked for, which links do not leave. Nothing before that is known.
    root: Option<PathBuf>,
    /// The real paths of the folders above.
    above: BTreeSet<PathBuf>,
}

/// Texts, and what could not be read.
#[derive(Debug, Default)]
pub struct Input {
    /// The texts, in the order asked for, those of a folder by name.
    pub sources: Vec<Arc<Source>>,
    /// What could not be read.
    pub found: Vec<Diagnostic>,
    /// Whether a path was asked for that could not be read.
    pub unreadable: bool,
}

/// Lets links lead out of the folder that they are in, from now on.
pub fn follow_links() {
    FOLLOW_LINKS.store(true, Ordering::Relaxed);
}

/// Reads every path: a file, a folder, or `-`.
pub fn read(paths: &[String]) -> Input {
    let mut input = Input::default();
    input.add(paths);
    input
}

/// Puts the objects of all texts together.
pub fn world(input: &mut Input, thorium: impl Into<Reading>) -> World {
    let mut world = World::default();
    world.thorium = thorium.into();
    let limits = Limits::default();
    for source in &input.sources {
        load(source, &limits, &mut world, &mut input.found);
    }
    input.found.extend(world.review());
    world
}

/// A number of files, in words: `cluster/`, `cluster/ and 2 more`.
pub fn describe(paths: &[String]) -> String {
    match paths {
        [] => String::new(),
        [only] => only.clone(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    }
}

/// Whether something in a folder is read: a manifest or a folder, and not hidden.
pub fn is_read(entry: &Path) -> bool {
    let hidden = entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    !hidden && (is_manifest(entry) || entry.is_dir())
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| EXTENSIONS.iter().any(|e| extension.eq_ignore_ascii_case(e)))
}

impl Input {
    /// Reads more.
    pub fn add(&mut self, paths: &[String]) {
        for path in paths {
            if path == "-" {
                self.stdin();
            } else {
                self.path(Path::new(path), &mut Walk::default(), 0, true);
            }
        }
    }

    /// Reads files that were found in a folder: what cannot be read of them is said, and the rest is.
    pub fn add_found(&mut self, folder: &str, files: &[String]) {
        let root = Path::new(folder).canonicalize().ok();
        for file in files {
            self.path(Path::new(file), &mut Walk { root: root.clone(), ..Walk::default() }, 1, false);
        }
    }

    /// Why there can be no answer: the first path that was asked for and could not be read.
    pub fn refusal(&self) -> Option<String> {
        let first = self.found.iter().find(|_| self.unreadable)?;
        let file = first.location.as_ref().map(|at| at.file.to_string()).unwrap_or_default();
        let named = first.message.starts_with(&file);
        Some(if named { first.message.clone() } else { format!("{file}: {}", first.message) })
    }

    fn path(&mut self, path: &Path, walk: &mut Walk, depth: usize, asked: bool) {
        if depth > 0 && walk.leaves(path) {
            let why = "is a link that leads out of its folder: it is not read (--follow-links reads it)";
            return self.refuse(&codes::LINK, path, why, false);
        }
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) => return self.refuse(&codes::UNREADABLE_FILE, path, &reason(&error), asked),
        };
        if metadata.is_dir() {
            return self.folder(path, walk, depth, asked);
        }
        // Whoever names a pipe means it; one that lies in a folder would be waited for without end.
        if depth > 0 && !metadata.is_file() {
            let why = "is no regular file: nothing else is read in folders";
            return self.refuse(&codes::UNREADABLE_FILE, path, why, asked);
        }
        // A pipe has no length to check before reading; both are bounded while reading.
        match fs::File::open(path) {
            Ok(file) => self.text(&name(path), file, asked),
            Err(error) => self.refuse(&codes::UNREADABLE_FILE, path, &reason(&error), asked),
        }
    }

    fn folder(&mut self, path: &Path, walk: &mut Walk, depth: usize, asked: bool) {
        let real = match path.canonicalize() {
            Ok(real) => real,
            Err(error) => return self.refuse(&codes::UNREADABLE_FILE, path, &reason(&error), asked),
        };
        if depth > MAX_DEPTH {
            return self.refuse(&codes::LIMIT, path, &format!("folders nest deeper than {MAX_DEPTH}"), asked);
        }
        walk.root.get_or_insert_with(|| real.clone());
        if !walk.above.insert(real.clone()) {
            let why = "this folder contains itself through a symbolic link: it is read once";
            return self.refuse(&codes::UNREADABLE_FILE, path, why, false);
        }
        let mut entries: Vec<PathBuf> = match fs::read_dir(path) {
            Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
            Err(error) => return self.refuse(&codes::UNREADABLE_FILE, path, &reason(&error), asked),
        };
        entries.sort();
        for entry in entries {
            if is_read(&entry) {
                self.path(&entry, walk, depth + 1, is_manifest(&entry));
            }
        }
        walk.above.remove(&real);
    }

    fn stdin(&mut self) {
        if self.sources.iter().any(|source| &**source.name() == STDIN) {
            return self.refuse(
                &codes::UNREADABLE_FILE,
                Path::new(STDIN),
                "standard input can be read once",
                true,
            );
        }
        self.text(STDIN, std::io::stdin().lock(), true);
    }

    fn text(&mut self, name: &str, from: impl Read, asked: bool) {
        if self.sources.len() >= MAX_FILES {
            return self.refuse(
                &codes::LIMIT,
                Path::new(name),
                &format!("more than {MAX_FILES} files"),
                asked,
            );
        }
        let mut bytes = Vec::new();
        if let Err(error) = from.take(MAX_BYTES + 1).read_to_end(&mut bytes) {
            return self.refuse(&codes::UNREADABLE_FILE, Path::new(name), &reason(&error), asked);
        }
        if bytes.len() as u64 > MAX_BYTES {
            return self.refuse(
                &codes::LIMIT,
                Path::new(name),
                &format!("larger than {} MiB", MAX_BYTES >> 20),
                asked,
            );
        }
        match String::from_utf8(bytes) {
            Ok(text) => self.sources.push(Arc::new(Source::new(name, text))),
            Err(error) => {
                let good = error.utf8_error().valid_up_to();
                let head =
                    String::from_utf8_lossy(error.as_bytes().get(..good).unwrap_or_default()).into_owned();
                let source = Source::new(name, head);
                let at = source.location(Span::new(good, good));
                self.found.push(
                    Diagnostic::new(&codes::NOT_UTF8, "not UTF-8 from here on: the file is left out")
                        .at(Some(at)),
                );
                self.unreadable |= asked;
            }
        }
    }

    fn refuse(&mut self, code: &'static Code, path: &Path, why: &str, asked: bool) {
        let at = Location { file: name(path).into(), line: 1, column: 1, width: 1 };
        self.found.push(Diagnostic::new(code, format!("{}: {why}", path.display())).at(Some(at)));
        self.unreadable |= asked;
    }
}

// === impl Walk ===

impl Walk {
    /// Whether a path is a link to something that is not below what was asked for. One to nowhere is no such link: it cannot be
    /// read, whatever is asked for.
    fn leaves(&self, path: &Path) -> bool {
        let Some(root) = self.root.as_ref().filter(|_| !FOLLOW_LINKS.load(Ordering::Relaxed)) else {
            return false;
        };
        let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
        is_link && path.canonicalize().is_ok_and(|real| !real.starts_with(root))
    }
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or folder".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}
