//! One enforcer a folder of state, and one a network: a second would undo what the first does.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, fchmod, flock};
use rustix::net::sockopt::socket_peercred;
use thiserror::Error;

use crate::state::{Folder, StateError};

/// Held as long as this is there; the kernel lets go of it when the process ends, however that is.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Held as long as this is there: nobody else enforces in this network namespace. Such names belong to it.
#[derive(Debug)]
pub struct Alone {
    _listener: Option<UnixListener>,
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
    /// Another process enforces in this network, with another folder of state.
    #[error("another palisade enforce is running in this network, process {holder}, with another --state")]
    Network {
        /// Its number, or a question mark.
        holder: String,
    },
    /// The folder or file cannot be made, or is not trusted.
    #[error(transparent)]
    State(#[from] StateError),
}

/// The name of the file.
const FILE: &str = "lock";
/// The name in the network namespace.
const NAME: &str = "palisade-enforce";

// === impl Lock ===

impl Lock {
    /// Takes the lock of a folder, which is made if it is not there; does not wait.
    pub fn take(folder: &Path) -> Result<Lock, LockError> {
        let folder = Folder::create(folder)?;
        let mut file = folder.update(FILE)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                // A user who may read it may lock it, and keep the next enforcer out.
                let _ = fchmod(&file, Mode::RUSR | Mode::WUSR);
                // The number is for people: whether it is held, the kernel says.
                let pid = format!("{}\n", std::process::id());
                let _ = file.set_len(0).and_then(|()| file.write_all(pid.as_bytes()));
                Ok(Lock { _file: file })
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                Err(LockError::Held { holder: name(&mut file), path: folder.path(FILE) })
            }
            Err(error) => Err(StateError::System { path: folder.path(FILE), source: error.into() }.into()),
        }
    }

    /// The number of the process that holds the lock of a folder, if one does.
    pub fn holder(folder: &Path) -> Result<Option<String>, StateError> {
        let Some(folder) = Folder::open(folder)? else { return Ok(None) };
        let Some(mut file) = folder.read(FILE)? else { return Ok(None) };
        Ok(match flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(rustix::io::Errno::WOULDBLOCK) => Some(name(&mut file)),
            _ => None,
        })
    }
}

// === impl Alone ===

impl Alone {
    /// Says that we enforce here; does not wait. Anybody may take such a name, so only who is as privileged as we are is believed.
    pub fn here() -> Result<Alone, LockError> {
        Alone::by(NAME)
    }

    /// Returns the number of the process that enforces in this network namespace, with whatever folder of state, if one does.
    pub fn holder() -> Option<String> {
        SocketAddr::from_abstract_name(NAME).ok().as_ref().and_then(holder)
    }

    fn by(name: &str) -> Result<Alone, LockError> {
        let Ok(address) = SocketAddr::from_abstract_name(name) else { return Ok(Alone { _listener: None }) };
        match UnixListener::bind_addr(&address) {
            Ok(listener) => Ok(Alone { _listener: Some(listener) }),
            Err(_) => match holder(&address) {
                Some(holder) => Err(LockError::Network { holder }),
                None => Ok(Alone { _listener: None }),
            },
        }
    }
}

/// The process that listens under a name, if its user is ours.
fn holder(address: &SocketAddr) -> Option<String> {
    let other = UnixStream::connect_addr(address).ok()?;
    let other = socket_peercred(&other).ok()?;
    (other.uid == rustix::process::geteuid()).then(|| other.pid.as_raw_nonzero().to_string())
}

/// Who wrote its number into the file.
fn name(file: &mut File) -> String {
    let mut text = String::new();
    let _ = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(32).read_to_string(&mut text));
    let text = text.trim();
    let number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if number { text.to_owned() } else { "?".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_a_network() {
        let name = format!("palisade-test-{}", std::process::id());
        let first = Alone::by(&name).unwrap();
        let error = Alone::by(&name).unwrap_err();
        assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
        drop(first);
        Alone::by(&name).unwrap();
    }
}
