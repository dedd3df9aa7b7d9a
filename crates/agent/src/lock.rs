//! One enforcer a folder of state, and so one a machine: a second would undo what the first does.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use thiserror::Error;

use crate::state::{StateError, make_folder};

/// Held as long as this is there; the kernel lets go of it when the process ends, however that is.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Why there is no lock. Not retryable but for the first.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another process has it.
    #[error("another palisade enforce is running here, process {holder} (it holds {path})", path = path.display())]
    Held {
        /// Its number, or a question mark.
        holder: String,
        /// The file.
        path: PathBuf,
    },
    /// The folder or file cannot be made.
    #[error(transparent)]
    State(#[from] StateError),
}

/// The name of the file.
const FILE: &str = "lock";

// === impl Lock ===

impl Lock {
    /// Takes the lock of a folder, which is made if it is not there; does not wait.
    pub fn take(folder: &Path) -> Result<Lock, LockError> {
        make_folder(folder)?;
        let path = folder.join(FILE);
        let failed = |source| StateError { path: path.clone(), source };
        let mut file = open(&path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                // Who holds it is for people: whether somebody does, the kernel says.
                let pid = format!("{}\n", std::process::id());
                let _ = file.set_len(0).and_then(|()| file.write_all(pid.as_bytes()));
                Ok(Lock { _file: file })
            }
            Err(rustix::io::Errno::WOULDBLOCK) => Err(LockError::Held { holder: name(&mut file), path }),
            Err(error) => Err(failed(error.into()).into()),
        }
    }

    /// Who holds the lock of a folder, if anybody does.
    pub fn holder(folder: &Path) -> Option<String> {
        let mut file = File::open(folder.join(FILE)).ok()?;
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(rustix::io::Errno::WOULDBLOCK) => Some(name(&mut file)),
            _ => None,
        }
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o644).open(path)
}

/// Who wrote its number into the file.
fn name(file: &mut File) -> String {
    let mut text = String::new();
    let _ = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(32).read_to_string(&mut text));
    let text = text.trim();
    let number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if number { text.to_owned() } else { "?".to_owned() }
}
