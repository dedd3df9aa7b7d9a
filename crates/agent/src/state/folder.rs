//! The state folder, and which of it is trusted.
//!
//! What is in the folder comes into force at the next start, so only the effective user may have written it. Folder and files are
//! opened without following a symbolic link, and what was opened is checked (`fstat`), never a path: nothing can be exchanged between
//! check and use. Files are named relative to the opened folder.
//!
//! | refused | because otherwise another user could |
//! | --- | --- |
//! | another owner, or writable by group or others | write policies that come into force |
//! | a symbolic link, a file with a second name | choose which file is read, and which is overwritten by the lock |
//! | a directory above that another user owns, or that others may write, without sticky bit | exchange the folder, e.g. for an older one |
//! | a path through another user's symbolic link | choose which folder it is |
//!
//! All directories above count, up to the root (descent.rs): whoever may rename one of them exchanges all that is below.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;
use thiserror::Error;

mod descent;

/// The state folder, opened and trusted.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

/// Why a state was not written or read. What is in force does not depend on it.
#[derive(Debug, Error)]
pub enum StateError {
    /// The system refuses. May work the next time.
    #[error("{path}: {source}", path = path.display())]
    System {
        /// The file or folder.
        path: PathBuf,
        /// What the system answered.
        #[source]
        source: io::Error,
    },
    /// Other users may have written it. Not retryable: an administrator has to look at it.
    #[error(
        "{path} is not trusted: {why}. Nothing is changed, and what is in force stays in force. {fix}",
        path = path.display(),
        fix = why.fix(folder)
    )]
    Untrusted {
        /// The file or folder.
        path: PathBuf,
        /// The state folder.
        folder: PathBuf,
        /// What is wrong with it.
        why: Distrust,
    },
}

/// Why a file or folder is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Distrust {
    /// It is a symbolic link.
    #[error("it is a symbolic link")]
    Link,
    /// It is no regular file, or no directory.
    #[error("it is no {0}")]
    Kind(&'static str),
    /// Another user owns it.
    #[error("it is owned by user {owner}, and this runs as user {user}")]
    Owner {
        /// The number of the user who owns it.
        owner: u32,
        /// The effective user.
        user: u32,
    },
    /// Group or others may write it.
    #[error("other users may write it (mode {0:04o})")]
    Writable(RawMode),
    /// It can be written by another name.
    #[error("it has another name (hard link)")]
    Names,
    /// Other users may exchange it, because they may write a directory above.
    #[error(
        "other users may exchange it: they may write {directory} (mode {mode:04o}, no sticky bit)",
        directory = directory.display()
    )]
    WritableAbove {
        /// The directory above.
        directory: PathBuf,
        /// Its mode.
        mode: RawMode,
    },
    /// Another user may exchange it, because a directory or symbolic link on its path is that user's.
    #[error("user {owner} may exchange it: {above} is owned by that user", above = above.display())]
    OwnerAbove {
        /// The directory or link.
        above: PathBuf,
        /// The number of the user who owns it.
        owner: u32,
    },
}

/// The effective user alone.
const FOLDER_MODE: RawMode = 0o700;
const FILE_MODE: RawMode = 0o600;

// === impl StateError ===

impl StateError {
    /// Whether the system says that this needs more rights.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, StateError::System { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }

    /// Whether other users may have written the state.
    pub fn is_untrusted(&self) -> bool {
        matches!(self, StateError::Untrusted { .. })
    }
}

// === impl Distrust ===

impl Distrust {
    /// What to do about it, for the message.
    fn fix(&self, folder: &Path) -> String {
        match self {
            Distrust::WritableAbove { directory, .. } => format!(
                "Let nobody else write that directory (chmod go-w {0}), set its sticky bit (chmod +t {0}), or name another folder \
                 with --state",
                directory.display()
            ),
            Distrust::OwnerAbove { above, .. } => {
                format!(
                    "Give it to root (chown -h root {}), or name another folder with --state",
                    above.display()
                )
            }
            _ => format!(
                "Find out who made it, then remove the folder (rm -r {}): the next palisade enforce makes a new one",
                folder.display()
            ),
        }
    }
}

// === impl Folder ===

impl Folder {
    /// Opens the folder; nothing if it is not there.
    pub fn open(path: &Path) -> Result<Option<Folder>, StateError> {
        // A trailing slash would have a link followed.
        let path = path.components().as_path().to_owned();
        let opened = descent::open(&path).and_then(|fd| {
            if let Some(fd) = &fd {
                check(&rustix::fs::fstat(fd)?, FileType::Directory)?;
            }
            Ok(fd)
        });
        match opened {
            Ok(fd) => Ok(fd.map(|fd| Folder { fd, path })),
            Err(refusal) => Err(refusal.about(path.clone(), path)),
        }
    }

    /// Opens the folder, which is made if it is not there, with those above it.
    pub fn create(path: &Path) -> Result<Folder, StateError> {
        if let Some(folder) = Folder::open(path)? {
            return Ok(folder);
        }
        let made = DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path);
        made.map_err(|source| StateError::System { path: path.to_owned(), source })?;
        Folder::open(path)?.ok_or_else(|| system(path.to_owned(), Errno::NOENT))
    }

    /// Opens a file of the folder for reading; nothing if it is not there.
    pub fn read(&self, name: &str) -> Result<Option<File>, StateError> {
        self.file(name, OFlags::RDONLY)
    }

    /// Opens a file of the folder for reading and writing, as it is; it is made if it is not there.
    pub fn update(&self, name: &str) -> Result<File, StateError> {
        let file = self.file(name, OFlags::RDWR | OFlags::CREATE)?;
        file.ok_or_else(|| system(self.path(name), Errno::NOENT))
    }

    /// Puts a file in the place of the one there is, whatever that is: a reader finds all of the old one or all of the new one.
    pub fn replace(&self, name: &str, text: &[u8]) -> Result<(), StateError> {
        let new = format!("{name}.new");
        let written = (|| {
            let _ = rustix::fs::unlinkat(&self.fd, &*new, AtFlags::empty());
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut file = File::from(rustix::fs::openat(&self.fd, &*new, flags, mode(FILE_MODE))?);
            io::Write::write_all(&mut file, text)?;
            file.sync_all()?;
            rustix::fs::renameat(&self.fd, &*new, &self.fd, name)?;
            rustix::fs::fsync(&self.fd)?;
            Ok(())
        })();
        written.map_err(|source| {
            let _ = rustix::fs::unlinkat(&self.fd, &*new, AtFlags::empty());
            StateError::System { path: self.path(name), source }
        })
    }

    /// Removes a file, if it is there.
    pub fn remove(&self, name: &str) -> Result<(), StateError> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(system(self.path(name), error)),
        }
    }

    /// The path of a file, for messages.
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn file(&self, name: &str, flags: OFlags) -> Result<Option<File>, StateError> {
        // A pipe would be waited for.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = match rustix::fs::openat(&self.fd, name, flags, mode(FILE_MODE)) {
            Ok(fd) => Ok(fd),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => Err(Refusal::Distrust(Distrust::Link)),
            Err(Errno::ISDIR | Errno::NXIO) => Err(Refusal::Distrust(Distrust::Kind("regular file"))),
            Err(error) => Err(error.into()),
        };
        let checked = opened.and_then(|fd| {
            check(&rustix::fs::fstat(&fd)?, FileType::RegularFile)?;
            Ok(fd)
        });
        match checked {
            Ok(fd) => Ok(Some(File::from(fd))),
            Err(refusal) => Err(refusal.about(self.path(name), self.path.clone())),
        }
    }
}

/// Why something is not opened, before it is said what.
enum Refusal {
    System(Errno),
    Distrust(Distrust),
}

// === impl Refusal ===

impl Refusal {
    fn about(self, path: PathBuf, folder: PathBuf) -> StateError {
        match self {
            Refusal::System(error) => system(path, error),
            Refusal::Distrust(why) => StateError::Untrusted { path, folder, why },
        }
    }
}

impl From<Errno> for Refusal {
    fn from(error: Errno) -> Self {
        Refusal::System(error)
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Refusal::System(Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

impl From<Distrust> for Refusal {
    fn from(why: Distrust) -> Self {
        Refusal::Distrust(why)
    }
}

/// Refuses what other users may have written.
fn check(stat: &Stat, kind: FileType) -> Result<(), Distrust> {
    let is = FileType::from_raw_mode(stat.st_mode);
    let user = rustix::process::geteuid().as_raw();
    if is != kind {
        return Err(Distrust::Kind(if kind == FileType::Directory { "directory" } else { "regular file" }));
    }
    if stat.st_uid != user {
        return Err(Distrust::Owner { owner: stat.st_uid, user });
    }
    // An access control list that lets another user write shows in the bits of the group.
    if stat.st_mode & 0o022 != 0 {
        return Err(Distrust::Writable(stat.st_mode & 0o7777));
    }
    // A directory has a name in each of its directories.
    if kind == FileType::RegularFile && stat.st_nlink > 1 {
        return Err(Distrust::Names);
    }
    Ok(())
}

fn mode(bits: RawMode) -> Mode {
    Mode::from_raw_mode(bits)
}

fn system(path: PathBuf, error: Errno) -> StateError {
    StateError::System { path, source: error.into() }
}
