//! Files that change: what was saved is noticed at once, and what is still being written is known to be.
//!
//! A file counts when whoever wrote it closes it, when it is moved into place, or when a link to it is another. Until then it is **being
//! written**, and what it holds is nobody's policy yet. Folders that come and go are watched for from the nearest one that is there.
//! What the kernel does not tell (a file system that does not say, a link far away) is found by looking now and then:
//! [`Survey::stamps`](super::survey::Survey::stamps).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

use super::survey::Matters;

/// Listens to what happens in folders.
#[derive(Debug)]
pub struct Watch {
    inotify: OwnedFd,
    /// Which folder a watch is of, under all of its names, and what in it matters.
    watched: BTreeMap<i32, BTreeMap<PathBuf, Matters>>,
    /// Files that somebody writes to, and when that was last heard of.
    writing: BTreeMap<PathBuf, Instant>,
}

/// Somebody who has not been heard of for so long does not write any more, or not soon.
const WRITES: Duration = Duration::from_secs(10);
/// As much is heard at once; whoever writes without end must not be listened to without end.
const MOST_EVENTS: usize = 10_000;

/// Who comes and goes.
const COMINGS: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// What happens that matters. (Modifications only tell that a file is being written.)
const EVENTS: WatchFlags =
    WatchFlags::CLOSE_WRITE.union(WatchFlags::MODIFY).union(WatchFlags::ATTRIB).union(COMINGS);

// === impl Watch ===

impl Watch {
    /// Watches nothing yet.
    pub fn new() -> io::Result<Watch> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Watch { inotify, watched: BTreeMap::new(), writing: BTreeMap::new() })
    }

    /// Watches these folders from now on, and no others. Says whether one is new: something may have happened in it before.
    pub fn set(&mut self, folders: &BTreeMap<PathBuf, Matters>) -> bool {
        let mut now: BTreeMap<i32, BTreeMap<PathBuf, Matters>> = BTreeMap::new();
        let mut new = false;
        for (folder, matters) in folders {
            // What cannot be watched is found by looking now and then.
            let flags = match matters {
                // The same folder may be watched for more, under another name.
                Matters::Comings(_) => COMINGS.union(WatchFlags::MASK_ADD),
                _ => EVENTS.union(WatchFlags::MASK_ADD),
            };
            let Ok(watch) = inotify::add_watch(&self.inotify, folder, flags) else { continue };
            new |= !self.watched.get(&watch).is_some_and(|known| known.contains_key(folder));
            now.entry(watch).or_default().insert(folder.clone(), matters.clone());
        }
        for watch in self.watched.keys().filter(|watch| !now.contains_key(watch)) {
            let _ = inotify::remove_watch(&self.inotify, *watch);
        }
        self.watched = now;
        new
    }

    /// Whether anything happened since this was last asked that is worth reading files again.
    pub fn changed(&mut self) -> bool {
        let mut changed = false;
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events: Vec<(i32, ReadFlags, Option<OsString>)> = Vec::new();
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        while events.len() < MOST_EVENTS {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).to_owned());
                    events.push((event.wd(), event.events(), name));
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        for (watch, what, name) in events {
            changed |= self.event(watch, what, name.as_deref());
        }
        changed
    }

    fn event(&mut self, watch: i32, what: ReadFlags, name: Option<&OsStr>) -> bool {
        if what.contains(ReadFlags::QUEUE_OVERFLOW) {
            return true;
        }
        if what.contains(ReadFlags::IGNORED) {
            // The folder is gone; where it was may be another one.
            return self.watched.remove(&watch).is_some();
        }
        let Some(known) = self.watched.get(&watch) else { return false };
        let Some(name) = name else { return true };
        let matters = |matters: &Matters| match matters {
            Matters::All => true,
            Matters::Only(names) | Matters::Comings(names) => names.contains(name),
        };
        let paths: Vec<PathBuf> =
            known.iter().filter(|(_, what)| matters(what)).map(|(folder, _)| folder.join(name)).collect();
        let mut changed = false;
        for path in paths {
            let begins = what.contains(ReadFlags::CREATE) && is_empty_file(&path);
            if what.contains(ReadFlags::MODIFY) || begins {
                self.writing.insert(path, Instant::now());
            } else if what.contains(ReadFlags::ATTRIB) && self.writing.contains_key(&path) {
                // Whoever writes it also sets its mode.
            } else {
                self.writing.remove(&path);
                changed = true;
            }
        }
        changed
    }

    /// Whether somebody is writing to a file.
    pub fn is_written(&self, path: &Path) -> bool {
        let is = |path: &Path| self.writing.get(path).is_some_and(|at| at.elapsed() < WRITES);
        !self.writing.is_empty() && (is(path) || fs::canonicalize(path).is_ok_and(|real| is(&real)))
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

/// A file that was just made, which nobody has written to. A link to one that is there is no such file.
fn is_empty_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|file| file.is_file() && file.len() == 0 && file.nlink() == 1)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::super::survey::Survey;
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("palisade-watch-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn all(_: &Path) -> bool {
        true
    }

    fn watch(paths: &[PathBuf]) -> Watch {
        let mut watch = Watch::new().unwrap();
        watch.set(&Survey::of(paths, &all).folders);
        watch.changed();
        watch
    }

    #[test]
    fn a_file_counts_when_it_is_closed() {
        let folder = Folder::new("closed");
        let path = folder.0.join("a.yaml");
        let mut watch = watch(std::slice::from_ref(&folder.0));
        let mut file = fs::File::create(&path).unwrap();
        assert!(!watch.changed());
        assert!(watch.is_written(&path));
        file.write_all(b"half").unwrap();
        assert!(!watch.changed());
        assert!(watch.is_written(&path));
        drop(file);
        assert!(watch.changed());
        assert!(!watch.is_written(&path) && !watch.changed());
        // Truncating is writing, too.
        let file = fs::File::create(&path).unwrap();
        assert!(!watch.changed() && watch.is_written(&path));
        drop(file);
        assert!(watch.changed());
    }

    #[test]
    fn what_others_write_beside_a_folder_is_not_listened_to() {
        let folder = Folder::new("beside");
        fs::create_dir(folder.0.join("etc")).unwrap();
        let mut watch = watch(&[folder.0.join("etc")]);
        let mut log = fs::File::create(folder.0.join("log")).unwrap();
        for _ in 0..100 {
            log.write_all(b"x").unwrap();
        }
        assert!(!watch.changed() && watch.writing.is_empty());
        fs::rename(folder.0.join("etc"), folder.0.join("other")).unwrap();
        assert!(watch.changed());
        fs::rename(folder.0.join("other"), folder.0.join("etc")).unwrap();
        assert!(watch.changed());
    }

    #[test]
    fn what_is_moved_into_place_counts_at_once() {
        let folder = Folder::new("moved");
        let mut watch = watch(std::slice::from_ref(&folder.0));
        fs::write(folder.0.join(".a.tmp"), "x").unwrap();
        watch.changed();
        fs::rename(folder.0.join(".a.tmp"), folder.0.join("a.yaml")).unwrap();
        assert!(watch.changed());
        assert!(!watch.is_written(&folder.0.join("a.yaml")));
        fs::hard_link(folder.0.join("a.yaml"), folder.0.join("b.yaml")).unwrap();
        assert!(watch.changed());
        fs::remove_file(folder.0.join("a.yaml")).unwrap();
        assert!(watch.changed());
    }

    #[test]
    fn links_are_followed_to_where_files_are() {
        let folder = Folder::new("links");
        for version in ["..1", "..2"] {
            fs::create_dir(folder.0.join(version)).unwrap();
            fs::write(folder.0.join(version).join("a.yaml"), version).unwrap();
        }
        symlink("..1", folder.0.join("..data")).unwrap();
        symlink("..data/a.yaml", folder.0.join("a.yaml")).unwrap();
        let asked = [folder.0.join("a.yaml")];
        let before = Survey::of(&asked, &all);
        let mut watch = Watch::new().unwrap();
        watch.set(&before.folders);
        // As Kubernetes swaps the folder of a ConfigMap.
        symlink("..2", folder.0.join("..data_tmp")).unwrap();
        watch.changed();
        fs::rename(folder.0.join("..data_tmp"), folder.0.join("..data")).unwrap();
        assert_ne!(Survey::of(&asked, &all).stamps, before.stamps);
        // And the file at the end of the links is watched as well.
        watch.set(&Survey::of(&asked, &all).folders);
        watch.changed();
        fs::write(folder.0.join("..2/a.yaml"), "new").unwrap();
        assert!(watch.changed());
    }

    #[test]
    fn folders_come_and_go() {
        let folder = Folder::new("come");
        let asked = [folder.0.join("one/two")];
        let mut watch = watch(&asked);
        fs::write(folder.0.join("other"), "x").unwrap();
        assert!(!watch.changed());
        fs::create_dir(folder.0.join("one")).unwrap();
        assert!(watch.changed());
        assert!(watch.set(&Survey::of(&asked, &all).folders));
        fs::create_dir(folder.0.join("one/two")).unwrap();
        assert!(watch.changed());
        assert!(watch.set(&Survey::of(&asked, &all).folders));
        assert!(!watch.set(&Survey::of(&asked, &all).folders));
        fs::write(folder.0.join("one/two/a.yaml"), "x").unwrap();
        assert!(watch.changed());
        fs::remove_dir_all(folder.0.join("one")).unwrap();
        assert!(watch.changed());
    }
}
