//! Which folders to watch for some paths, and how the files there look now.
//!
//! A path can come to stand for other files in more ways than by being written to: a folder above it is moved away, a link on the way
//! leads elsewhere. So the folders beside it and beside every link on the way are watched as well, for no more than matters there.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What to watch, and how it looks now.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Survey {
    /// Folders, and what in them matters.
    pub folders: BTreeMap<PathBuf, Matters>,
    /// Every file, and how to tell that it is another.
    pub stamps: BTreeMap<PathBuf, Stamp>,
}

/// What matters in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Matters {
    /// Whatever happens there.
    All,
    /// What happens to these files, and who comes and goes.
    Only(BTreeSet<OsString>),
    /// Whether these, which are folders or links, come and go: what others write beside them is not even told.
    Comings(BTreeSet<OsString>),
}

/// How a file looks from outside: device, inode, size, and when it was changed.
pub type Stamp = (u64, u64, u64, i64, i64);

/// How deep folders may nest, and links lead on.
const DEEPEST: usize = 64;

// === impl Matters ===

impl Matters {
    /// Both.
    fn and(self, other: Matters) -> Matters {
        match (self, other) {
            (Matters::All, _) | (_, Matters::All) => Matters::All,
            (Matters::Comings(mut one), Matters::Comings(other)) => {
                one.extend(other);
                Matters::Comings(one)
            }
            (
                Matters::Only(mut one) | Matters::Comings(mut one),
                Matters::Only(other) | Matters::Comings(other),
            ) => {
                one.extend(other);
                Matters::Only(one)
            }
        }
    }
}

// === impl Survey ===

impl Survey {
    /// Looks at these files, and at everything below these folders that is read.
    pub fn of(paths: &[PathBuf], is_read: &dyn Fn(&Path) -> bool) -> Survey {
        let mut survey = Survey::default();
        for path in paths {
            survey.beside(path);
            survey.path(path, is_read, 0);
        }
        survey
    }

    /// Whether a file was changed less than so long ago.
    pub fn is_newer_than(&self, age: Duration) -> bool {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since = since.saturating_sub(age);
        let limit = (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), i64::from(since.subsec_nanos()));
        self.stamps.values().any(|(.., seconds, nanoseconds)| (*seconds, *nanoseconds) > limit)
    }

    fn path(&mut self, path: &Path, is_read: &dyn Fn(&Path) -> bool, depth: usize) {
        if fs::symlink_metadata(path).is_ok_and(|file| file.is_symlink()) {
            self.links(path);
        }
        let Ok(metadata) = fs::metadata(path) else { return };
        if metadata.is_dir() && depth < DEEPEST {
            self.folders.insert(path.to_owned(), Matters::All);
            for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                if is_read(&entry.path()) {
                    self.path(&entry.path(), is_read, depth + 1);
                }
            }
        } else if metadata.is_file() {
            let changed = (metadata.ctime(), metadata.ctime_nsec());
            let stamp = (metadata.dev(), metadata.ino(), metadata.len(), changed.0, changed.1);
            self.stamps.insert(path.to_owned(), stamp);
        }
    }

    /// The folder in which a path is, or would be: the nearest one above it that is there.
    fn beside(&mut self, path: &Path) {
        let mut at = path;
        while let (Some(above), Some(name)) = (at.parent(), at.file_name()) {
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            if above.is_dir() {
                let lasting = fs::symlink_metadata(at).is_ok_and(|at| at.is_dir() || at.is_symlink());
                let names = BTreeSet::from([name.to_owned()]);
                let new = if lasting { Matters::Comings(names) } else { Matters::Only(names) };
                let both = match self.folders.remove(above) {
                    Some(before) => before.and(new),
                    None => new,
                };
                self.folders.insert(above.to_owned(), both);
                return;
            }
            at = above;
        }
    }

    /// The folders in which a link's next links and its end are.
    fn links(&mut self, path: &Path) {
        let mut at = path.to_owned();
        for _ in 0..DEEPEST {
            let Ok(to) = fs::read_link(&at) else { break };
            at = at.parent().unwrap_or(Path::new("")).join(to);
            self.beside(&at);
        }
        if let Ok(real) = fs::canonicalize(path) {
            self.beside(&real);
        }
    }
}
