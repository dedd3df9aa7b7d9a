//! What is in force, on disk: for `status`, for the next enforcer, and for the day on which the files are broken and it has to be
//! said what was in force before.
//!
//! It is one file, written beside and renamed, so that a reader finds all of an older or all of the newer one. That it
//! cannot be written never stops anything. Only a state that no other user can have written is read (folder.rs).

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use palisade_dialects::load::load;
use palisade_dialects::source::Limits;
use palisade_dialects::source::tree::Source as Text;
use palisade_dialects::thorium::Reading;
use palisade_dialects::world::World;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub(crate) use self::folder::Folder;
pub use self::folder::{Distrust, StateError};
use crate::enforcement::Remembered;
use crate::source::Change;

mod folder;

/// Where it is, unless somebody says otherwise. It does not outlive the machine's next start, and neither do the rules.
pub const FOLDER: &str = "/run/palisade/enforce";

/// The name of the file.
const FILE: &str = "state.json";

/// More than this is none of ours.
const MOST_BYTES: u64 = 1 << 30;

/// What is in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// What of this is meant; another number is another form.
    pub version: u32,
    /// The node.
    pub node: String,
    /// Since when rules are in force, in seconds of Unix time.
    pub since: u64,
    /// Since when these.
    pub changed: u64,
    /// How many events of the index they come from.
    pub epoch: u64,
    /// How many policies have a say.
    pub policies: usize,
    /// The folder in which they were asked for.
    #[serde(default)]
    pub folder: String,
    /// The paths that were asked for.
    pub paths: Vec<String>,
    /// The files that they come from.
    pub files: Vec<FileState>,
    /// The pods of this machine.
    pub pods: Vec<PodState>,
    /// The machine's own addresses.
    pub own: Vec<std::net::IpAddr>,
    /// What of the policies the kernel cannot do.
    pub lacks: Vec<String>,
    /// Why what is in force is not what the files say, if it is not.
    pub trouble: Vec<String>,
    /// The digest of the program, without elements.
    pub program: String,
    /// What the kernel said our table is.
    pub structure: Option<String>,
    /// The digest of what is in its sets.
    pub elements: String,
    /// Who decides, by counter.
    pub counters: std::collections::BTreeMap<String, crate::deciders::Decider>,
}

/// A file that rules come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileState {
    /// Its name, as asked for.
    pub name: String,
    /// SHA-256 of the text that is in force, in hexadecimal digits.
    pub digest: String,
    /// The text. Manifests are small, and without it nobody can say what was in force once the file is another.
    pub text: String,
}

/// A pod of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodState {
    /// As namespace/name.
    pub pod: String,
    /// Its addresses.
    pub addresses: Vec<std::net::IpAddr>,
    /// The interface that leads to it, if that is known.
    pub interface: Option<String>,
}

/// The form of today.
pub const VERSION: u32 = 1;

// === impl FileState ===

impl From<&Arc<Text>> for FileState {
    fn from(text: &Arc<Text>) -> Self {
        FileState {
            name: text.name().to_string(),
            digest: digest(text.text().as_bytes()),
            text: text.text().to_owned(),
        }
    }
}

// === impl State ===

impl State {
    /// Reads the state in a folder; nothing if there is none, or one of another form.
    pub fn read(folder: &Path) -> Result<Option<State>, StateError> {
        let Some(folder) = Folder::open(folder)? else { return Ok(None) };
        let Some(file) = folder.read(FILE)? else { return Ok(None) };
        let mut text = Vec::new();
        let read = file.take(MOST_BYTES).read_to_end(&mut text);
        read.map_err(|source| StateError::System { path: folder.path(FILE), source })?;
        let state: Option<State> = serde_json::from_slice(&text).ok();
        Ok(state.filter(|state| state.version == VERSION))
    }

    /// Writes it into a folder, which is made if it is not there. Only the effective user may read it: it holds manifests.
    pub fn write(&self, folder: &Path) -> Result<(), StateError> {
        let folder = Folder::create(folder)?;
        let text = serde_json::to_vec(self);
        let text =
            text.map_err(|error| StateError::System { path: folder.path(FILE), source: error.into() })?;
        folder.replace(FILE, &text)
    }

    /// Removes it from a folder.
    pub fn forget(folder: &Path) -> Result<(), StateError> {
        Folder::open(folder)?.map_or(Ok(()), |folder| folder.remove(FILE))
    }

    /// Returns the objects of the texts that were enforced.
    pub fn objects(&self, thorium: Reading) -> Vec<Change> {
        let mut world = World::default();
        world.read_thorium_as(thorium);
        for file in &self.files {
            let text = Text::new(file.name.as_str(), file.text.as_str());
            load(&text, &Limits::default(), &mut world, &mut Vec::new());
        }
        world.iter().cloned().map(Change::Apply).collect()
    }

    /// What an enforcer has to know to leave the table as it is.
    pub fn remembered(&self) -> Option<Remembered> {
        let structure = self.structure.clone()?;
        Some(Remembered { program: self.program.clone(), structure })
    }
}

/// SHA-256, in hexadecimal digits.
pub fn digest(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The time, in seconds of Unix time.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
