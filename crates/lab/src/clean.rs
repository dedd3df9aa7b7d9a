//! What earlier runs left behind, and which labs there are.
//!
//! The name of a namespace says which process made it (namespace.rs). If that is gone, nobody needs it any more.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::namespace::{FOLDER, Run};
use crate::tool;

/// A lab that stays up, for whoever wants to go into it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The namespace of the outside, by which one tells whose it is.
    pub outside: String,
    /// The paths it was made from.
    pub paths: Vec<String>,
    /// The namespaces of pods, by `namespace/name`.
    pub pods: BTreeMap<String, String>,
    /// The namespaces of nodes, by name.
    pub nodes: BTreeMap<String, String>,
}

// === impl Kept ===

impl Kept {
    /// Writes it down, for others to find.
    pub fn write(&self) -> Result<(), LabError> {
        let path = self.path();
        let failed =
            |error: std::io::Error| LabError::system(format!("cannot write {}", path.display()), error);
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        std::fs::create_dir_all(folder()).map_err(failed)?;
        // All at once: nobody reads half of it.
        let draft = path.with_extension("new");
        std::fs::write(&draft, text).map_err(failed)?;
        std::fs::rename(&draft, &path).map_err(failed)
    }

    /// Takes it away.
    pub fn forget(&self) {
        let _ = std::fs::remove_file(self.path());
        let _ = std::fs::remove_dir(folder());
    }

    /// All labs that are up.
    pub fn all() -> Vec<Kept> {
        let entries = std::fs::read_dir(folder()).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        let read = |path: &PathBuf| -> Option<Kept> {
            serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
        };
        let lives = |kept: &Kept| Run::of(&kept.outside).is_some_and(|run| run.lives());
        paths.iter().filter_map(read).filter(lives).collect()
    }

    fn path(&self) -> PathBuf {
        folder().join(format!("{}.json", self.outside))
    }
}

/// Where labs that are up are written down.
fn folder() -> PathBuf {
    let own = std::env::var_os("XDG_RUNTIME_DIR").filter(|_| !rustix::process::geteuid().is_root());
    own.map_or_else(|| PathBuf::from("/run"), PathBuf::from).join("palisade-lab")
}

/// Takes away what processes left behind that are gone. Says how many namespaces that were.
pub fn leftovers() -> Result<usize, LabError> {
    let dead = || -> Vec<String> {
        namespaces().into_iter().filter(|name| Run::of(name).is_some_and(|run| !run.lives())).collect()
    };
    let found = dead();
    let mut refused = None;
    for name in &found {
        refused = tool::ip(None, &format!("netns delete {name}\n")).err().or(refused);
    }
    // Another run may have taken one away just before us, which is as good.
    if let Some(error) = refused.filter(|_| !dead().is_empty()) {
        return Err(error);
    }
    if let Ok(entries) = std::fs::read_dir(folder()) {
        for path in entries.flatten().map(|entry| entry.path()) {
            let owner = path.file_stem().and_then(|stem| Run::of(&stem.to_string_lossy()));
            if owner.is_some_and(|run| !run.lives()) {
                let _ = std::fs::remove_file(path);
            }
        }
        let _ = std::fs::remove_dir(folder());
    }
    Ok(found.len())
}

/// The namespaces that labs made, of whatever process.
pub fn namespaces() -> Vec<String> {
    let entries = std::fs::read_dir(Path::new(FOLDER)).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| Run::of(name).is_some());
    names.sort();
    names
}
