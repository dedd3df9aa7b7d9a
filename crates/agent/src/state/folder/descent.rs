//! The way from the root directory down to the state folder, opened one directory at a time.
//!
//! Whoever may rename a directory on the way, or a symbolic link that the path leads through, decides which folder the path
//! names. Each of them is opened (never named again) and checked before the next one is looked up in it, so that all of the path
//! is known to be ours or root's:
//!
//! ```text
//!   /  ──►  var/  ──►  run ⇢ /run      ──►  palisade/  ──►  enforce/
//!  owner and mode     owner of the link    owner and mode   checked by the caller
//! ```

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{Distrust, Refusal};

/// Symbolic links on one path that the kernel itself follows at most.
const MOST_LINKS: usize = 40;
const ROOT: u32 = 0;

/// A directory on the way, and what is still to go.
struct Descent {
    directory: OwnedFd,
    /// Where `directory` is, for messages.
    path: PathBuf,
    rest: VecDeque<OsString>,
    links: usize,
}

/// Opens a directory by a path that only the effective user and root can have chosen; nothing if it is not there. The directory
/// itself must not be a symbolic link; its owner and mode are the caller's to check.
pub(super) fn open(path: &Path) -> Result<Option<OwnedFd>, Refusal> {
    let path = match path.is_absolute() {
        true => path.to_owned(),
        false => std::env::current_dir()?.join(path),
    };
    let mut descent = Descent::new(parts(&path))?;
    while let Some(next) = descent.rest.pop_front() {
        let opened = match descent.rest.is_empty() {
            false => descent.enter(&next).map(|()| None),
            true => descent.open(&next).map(Some),
        };
        match opened {
            Ok(None) => {}
            Ok(Some(folder)) => return Ok(Some(folder)),
            Err(Refusal::System(Errno::NOENT)) => return Ok(None),
            Err(refusal) => return Err(refusal),
        }
    }
    descent.open(OsStr::new(".")).map(Some)
}

// === impl Descent ===

impl Descent {
    fn new(rest: VecDeque<OsString>) -> Result<Descent, Refusal> {
        let (directory, path) = root()?;
        Ok(Descent { directory, path, rest, links: 0 })
    }

    /// Opens the last directory.
    fn open(&self, name: &OsStr) -> Result<OwnedFd, Refusal> {
        if name != "." && name != ".." && FileType::from_raw_mode(self.stat(name)?.st_mode).is_symlink() {
            return Err(Distrust::Link.into());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.directory, name, flags, Mode::empty())?)
    }

    /// Goes on to the next directory, or to where a link leads.
    fn enter(&mut self, name: &OsStr) -> Result<(), Refusal> {
        if name != ".." {
            let stat = self.stat(name)?;
            if FileType::from_raw_mode(stat.st_mode).is_symlink() {
                return self.follow(name, &stat);
            }
            self.path.push(name);
        } else {
            self.path.pop();
        }
        self.directory = rustix::fs::openat(&self.directory, name, passing(), Mode::empty())?;
        check(&rustix::fs::fstat(&self.directory)?, &self.path)
    }

    fn follow(&mut self, name: &OsStr, link: &Stat) -> Result<(), Refusal> {
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(Errno::LOOP.into());
        }
        let path = self.path.join(name);
        // In a directory with the sticky bit, the owner of a link may replace it.
        check_owner(link.st_uid, &path)?;
        let target = rustix::fs::readlinkat(&self.directory, name, Vec::new())?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            (self.directory, self.path) = root()?;
        }
        for part in parts(&target).into_iter().rev() {
            self.rest.push_front(part);
        }
        Ok(())
    }

    fn stat(&self, name: &OsStr) -> Result<Stat, Refusal> {
        Ok(rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

fn root() -> Result<(OwnedFd, PathBuf), Refusal> {
    let (directory, path) = (rustix::fs::open("/", passing(), Mode::empty())?, PathBuf::from("/"));
    check(&rustix::fs::fstat(&directory)?, &path)?;
    Ok((directory, path))
}

/// How a directory is opened that is only on the way: whoever may not list it may still pass.
fn passing() -> OFlags {
    OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let part = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(part).collect()
}

/// Refuses a directory in which another user may rename what is ours.
fn check(stat: &Stat, path: &Path) -> Result<(), Refusal> {
    check_owner(stat.st_uid, path)?;
    let (is_sticky, mode) = (stat.st_mode & 0o1000 != 0, stat.st_mode & 0o7777);
    // Members of root's group are administrators; of another group nobody knows who they are, or will be.
    let others = if stat.st_gid == ROOT { 0o002 } else { 0o022 };
    match mode & others != 0 && !is_sticky {
        true => Err(Distrust::WritableAbove { directory: path.to_owned(), mode }.into()),
        false => Ok(()),
    }
}

fn check_owner(owner: u32, path: &Path) -> Result<(), Refusal> {
    let user = rustix::process::geteuid().as_raw();
    match owner == user || owner == ROOT || unmapped() == Some(owner) {
        true => Ok(()),
        false => Err(Distrust::OwnerAbove { above: path.to_owned(), owner }.into()),
    }
}

/// Returns the number that stands for every user outside of this user namespace, root included. None outside of one: there it
/// is a user like others.
fn unmapped() -> Option<u32> {
    let map = std::fs::read_to_string("/proc/self/uid_map").ok()?;
    if map.split_whitespace().eq(["0", "0", "4294967295"]) {
        return None;
    }
    std::fs::read_to_string("/proc/sys/kernel/overflowuid").ok()?.trim().parse().ok()
}
