//! Files, folders and standard input: the only place that reads them.
//!
//! What cannot be read is a diagnostic like any other, and never keeps the rest from being read. Whatever the reason, a command
//! that claims something about a cluster ends with [`Input::refusal`] then: the file left out may be the policy that decides.
//!
//! Manifests may be somebody else's: what is named on the command line is read, wherever a link leads, and so is what lies in a
//! folder that is named; a link in it that leads out of that folder is reported and not followed, unless `--follow-links` says so.
//! Links multiply what is below a folder, so that what they lead to is counted as often as it is reached.

mod beside;
pub mod git;

pub use self::beside::Beside;

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use palisade_agent::manifests::{ReadFiles, Texts};
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
/// The most bytes that one run reads: four files of the largest size. Links may lead to one large file many times.
const MAX_TOTAL_BYTES: u64 = 4 * MAX_BYTES;
/// The most entries of folders that one run looks at behind links to folders. Two links in each of 64 folders to the next one are
/// 2^64 paths; without links, there are as many entries as the disk holds.
const MAX_LINKED: usize = 100_000;
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
    /// How many of the folders above were reached by a link.
    links: usize,
}

/// Texts, and what could not be read.
#[derive(Debug, Default)]
pub struct Input {
    /// The texts, in the order asked for, those of a folder by name.
    pub sources: Vec<Arc<Source>>,
    /// What could not be read.
    pub found: Vec<Diagnostic>,
    /// Messages about the files and folders that were left out.
    left_out: Vec<String>,
    /// Entries of folders behind links that were looked at.
    linked: usize,
    /// Bytes of all texts.
    bytes: u64,
    /// Whether a limit on all that is read was reached. It is reported once, and nothing is read from then on.
    is_full: bool,
}

/// Reads manifests for an enforcer, which reads them again and again.
#[derive(Debug, Clone, Copy)]
pub struct Files;

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
    world.read_thorium_as(thorium.into());
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

/// Whether something in a folder is read: a manifest or a folder, and not hidden. What may not be looked at may be a folder.
pub fn is_read(entry: &Path) -> bool {
    let hidden = entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let is_folder = || match fs::metadata(entry) {
        Ok(metadata) => metadata.is_dir(),
        Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
    };
    !hidden && (is_manifest(entry) || is_folder())
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
                self.path(Path::new(path), &mut Walk::default(), 0);
            }
        }
    }

    /// Whether a file or folder that was asked for, or that is in a folder that was, is left out.
    pub fn is_incomplete(&self) -> bool {
        !self.left_out.is_empty()
    }

    /// Why there can be no answer: what was left out, which could have changed it.
    pub fn refusal(&self) -> Option<String> {
        let [first, rest @ ..] = &self.left_out[..] else { return None };
        Some(match rest.len() {
            0 => first.clone(),
            more => format!("{first} (and {more} more left out: `palisade check` shows all of it)"),
        })
    }

    fn path(&mut self, path: &Path, walk: &mut Walk, depth: usize) {
        let is_link = depth > 0 && fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
        if is_link && walk.leaves(path) {
            let why = "is a link that leads out of its folder: it is not read (--follow-links reads it)";
            return self.refuse(&codes::LINK, path, why);
        }
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) => return self.refuse(&codes::UNREADABLE_FILE, path, &reason(&error)),
        };
        if metadata.is_dir() {
            walk.links += usize::from(is_link);
            self.folder(path, walk, depth);
            walk.links -= usize::from(is_link);
            return;
        }
        // Whoever names a pipe means it; one that lies in a folder would be waited for without end.
        if depth > 0 && !metadata.is_file() {
            let why = "is no regular file: nothing else is read in folders";
            return self.refuse(&codes::UNREADABLE_FILE, path, why);
        }
        // A pipe has no length to check before reading; both are bounded while reading.
        match fs::File::open(path) {
            Ok(file) => self.text(&name(path), file),
            Err(error) => self.refuse(&codes::UNREADABLE_FILE, path, &reason(&error)),
        }
    }

    fn folder(&mut self, path: &Path, walk: &mut Walk, depth: usize) {
        let real = match path.canonicalize() {
            Ok(real) => real,
            Err(error) => return self.refuse(&codes::UNREADABLE_FILE, path, &reason(&error)),
        };
        if depth > MAX_DEPTH {
            return self.too_deep(path);
        }
        walk.root.get_or_insert_with(|| real.clone());
        if !walk.above.insert(real.clone()) {
            return self.contains_itself(path);
        }
        let listed = fs::read_dir(path).and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<PathBuf>, _>>()
        });
        let mut entries = match listed {
            Ok(entries) => entries,
            Err(error) => {
                walk.above.remove(&real);
                return self.refuse(&codes::UNREADABLE_FILE, path, &reason(&error));
            }
        };
        entries.sort();
        for entry in entries {
            if !self.has_room(&entry, walk.links > 0) {
                break;
            }
            if is_read(&entry) {
                self.path(&entry, walk, depth + 1);
            }
        }
        walk.above.remove(&real);
    }

    fn stdin(&mut self) {
        if self.sources.iter().any(|source| &**source.name() == STDIN) {
            let why = "standard input can be read once";
            return self.refuse(&codes::UNREADABLE_FILE, Path::new(STDIN), why);
        }
        self.text(STDIN, std::io::stdin().lock());
    }

    fn text(&mut self, name: &str, from: impl Read) {
        if self.sources.len() >= MAX_FILES {
            return self.full(Path::new(name), &format!("more than {MAX_FILES} files"));
        }
        let mut bytes = Vec::new();
        if let Err(error) = from.take(MAX_BYTES + 1).read_to_end(&mut bytes) {
            return self.refuse(&codes::UNREADABLE_FILE, Path::new(name), &reason(&error));
        }
        if bytes.len() as u64 > MAX_BYTES {
            let why = format!("larger than {} MiB", MAX_BYTES >> 20);
            return self.refuse(&codes::LIMIT, Path::new(name), &why);
        }
        self.bytes += bytes.len() as u64;
        if self.bytes > MAX_TOTAL_BYTES {
            let why = format!("all files together are larger than {} MiB", MAX_TOTAL_BYTES >> 20);
            return self.full(Path::new(name), &why);
        }
        match String::from_utf8(bytes) {
            Ok(text) => self.sources.push(Arc::new(Source::new(name, text))),
            Err(error) => {
                let good = error.utf8_error().valid_up_to();
                let head =
                    String::from_utf8_lossy(error.as_bytes().get(..good).unwrap_or_default()).into_owned();
                let source = Source::new(name, head);
                let at = source.location(Span::new(good, good));
                let why = "not UTF-8 from here on: the file is left out";
                self.found.push(Diagnostic::new(&codes::NOT_UTF8, why).at(Some(at)));
                self.left_out.push(format!("{name}: {why}"));
            }
        }
    }

    /// Counts an entry of a folder; says whether it is to be looked at.
    fn has_room(&mut self, entry: &Path, is_linked: bool) -> bool {
        self.linked += usize::from(is_linked);
        if self.linked > MAX_LINKED {
            let why = format!("links to folders lead to more than {MAX_LINKED} files and folders");
            self.full(entry, &why);
        }
        !self.is_full
    }

    /// Reads nothing more.
    fn full(&mut self, path: &Path, why: &str) {
        if !self.is_full {
            self.is_full = true;
            self.refuse(&codes::LIMIT, path, why);
        }
    }

    fn too_deep(&mut self, path: &Path) {
        self.refuse(&codes::LIMIT, path, &format!("folders nest deeper than {MAX_DEPTH}"));
    }

    /// Nothing is left out: all of the folder is read where it was met first.
    fn contains_itself(&mut self, path: &Path) {
        let why = "this folder contains itself through a symbolic link: it is read once";
        self.report(&codes::UNREADABLE_FILE, path, why);
    }

    /// Reports a file or folder, and leaves it out.
    fn refuse(&mut self, code: &'static Code, path: &Path, why: &str) {
        self.left_out.push(format!("{}: {why}", path.display()));
        self.report(code, path, why);
    }

    fn report(&mut self, code: &'static Code, path: &Path, why: &str) {
        let at = Location { file: name(path).into(), line: 1, column: 1, width: 1 };
        self.found.push(Diagnostic::new(code, format!("{}: {why}", path.display())).at(Some(at)));
    }
}

// === impl Files ===

impl ReadFiles for Files {
    fn read(&self, paths: &[String]) -> Texts {
        let input = read(paths);
        Texts { texts: input.sources, unread: input.found }
    }

    fn is_read(&self, entry: &Path) -> bool {
        is_read(entry)
    }
}

// === impl Walk ===

impl Walk {
    /// Whether a link leads to something that is not below what was asked for. One to nowhere does not: it cannot be read,
    /// whatever is asked for.
    fn leaves(&self, path: &Path) -> bool {
        let Some(root) = self.root.as_ref().filter(|_| !FOLLOW_LINKS.load(Ordering::Relaxed)) else {
            return false;
        };
        path.canonicalize().is_ok_and(|real| !real.starts_with(root))
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
