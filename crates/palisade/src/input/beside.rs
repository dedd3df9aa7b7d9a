//! Files that a test names: `world:` and the like.
//!
//! A test may be somebody else's, too, and what it names is quoted in what is printed. So it names files relative to itself, and
//! only such that lie, links resolved, below a folder that is named on the command line, or in the repository that the test is
//! part of.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use palisade_dialects::source::tree::Source;
use palisade_policytest::{FileError, TestFiles};

use super::{Input, Walk};

/// Files beside tests.
#[derive(Debug)]
pub struct Beside {
    /// The real paths of the folders that are named on the command line, or that hold a file that is.
    named: Vec<PathBuf>,
}

// === impl Beside ===

impl Beside {
    /// For tests that were found in these paths.
    pub fn new(paths: &[String]) -> Self {
        let folder = |path: &String| {
            let path = if path == "-" { Path::new(".") } else { Path::new(path) };
            let folder = if path.is_dir() { path } else { parent(path) };
            folder.canonicalize().ok()
        };
        Beside { named: paths.iter().filter_map(folder).collect() }
    }
}

impl TestFiles for Beside {
    fn open(&self, from: &Source, path: &str) -> Result<Vec<Arc<Source>>, FileError> {
        if Path::new(path).is_absolute() {
            return Err(FileError::Absolute(path.to_owned()));
        }
        let folder = parent(Path::new(&**from.name()));
        let file = folder.join(path);
        let real = file.canonicalize().ok();
        let allowed = || self.named.iter().cloned().chain(repository(folder));
        let root = real.as_ref().and_then(|real| allowed().find(|root| real.starts_with(root)));
        if real.is_some() && root.is_none() {
            return Err(FileError::OutsideRoots(file.display().to_string()));
        }
        let mut input = Input::default();
        input.path(&file, &mut Walk { root, ..Walk::default() }, 0);
        // What is lost could be the policy that the test is about.
        match input.refusal() {
            Some(refusal) => Err(FileError::Unreadable(refusal)),
            None => Ok(input.sources),
        }
    }
}

/// The folder that a file is in.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The top folder of the git repository that a folder is in.
fn repository(folder: &Path) -> Option<PathBuf> {
    let real = folder.canonicalize().ok()?;
    real.ancestors().find(|above| above.join(".git").exists()).map(Path::to_owned)
}
