//! What is remembered on disk, and who may enforce.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use palisade_agent::lock::{Lock, LockError};
use palisade_agent::state::{FileState, State, StateError, VERSION, digest};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let above = std::env::temp_dir().join(format!("palisade-state-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&above);
        // Whatever the modes of the machine's own folder are.
        fs::create_dir_all(&above).unwrap();
        chmod(&above, 0o700);
        Folder(above.join("state"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.0.parent().unwrap());
    }
}

fn state(node: &str) -> State {
    let text = "kind: Secret".to_owned();
    let file = FileState { name: "a.yaml".to_owned(), digest: digest(text.as_bytes()), text };
    State { version: VERSION, node: node.to_owned(), files: vec![file], ..State::default() }
}

#[test]
fn a_state_is_what_was_written_last_and_for_nobody_else() {
    let folder = Folder::new("written");
    assert_eq!(State::read(&folder.0).unwrap(), None);
    for node in ["n1", "n2"] {
        state(node).write(&folder.0).unwrap();
        assert_eq!(State::read(&folder.0).unwrap(), Some(state(node)));
    }
    let _lock = Lock::take(&folder.0).unwrap();
    for (name, wanted) in [("", 0o700), ("state.json", 0o600), ("lock", 0o600)] {
        let mode = fs::metadata(folder.0.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, wanted, "{name}: {mode:o}");
    }
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2, "nothing is left beside it");
    State::forget(&folder.0).unwrap();
    State::forget(&folder.0).unwrap();
    assert_eq!(State::read(&folder.0).unwrap(), None);
}

#[test]
fn what_is_no_state_of_ours_is_none() {
    let folder = Folder::new("other");
    state("n").write(&folder.0).unwrap();
    for text in ["", "{", "[]", "{\"version\": 999, \"node\": \"x\"}"] {
        fs::write(folder.0.join("state.json"), text).unwrap();
        assert_eq!(State::read(&folder.0).unwrap(), None, "{text}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error_that_says_which() {
    let folder = Folder::new("file");
    fs::write(&folder.0, "no folder").unwrap();
    let error = state("n").write(&folder.0).unwrap_err();
    assert!(error.to_string().contains("palisade-state"), "{error}");
    fs::remove_file(&folder.0).unwrap();
}

/// As with a full disk: the file beside it cannot be made.
#[test]
fn a_state_that_cannot_be_written_leaves_the_one_of_before() {
    let folder = Folder::new("full");
    state("before").write(&folder.0).unwrap();
    // Nobody, not even root, makes a file in the place of a folder.
    fs::create_dir(folder.0.join("state.json.new")).unwrap();
    assert!(state("after").write(&folder.0).is_err());
    assert_eq!(State::read(&folder.0).unwrap().unwrap().node, "before");
}

#[test]
fn there_is_one_enforcer_a_folder_and_the_second_is_told_who() {
    let folder = Folder::new("lock");
    assert_eq!(Lock::holder(&folder.0).unwrap(), None);
    let lock = Lock::take(&folder.0).unwrap();
    let own = std::process::id().to_string();
    assert_eq!(Lock::holder(&folder.0).unwrap(), Some(own.clone()));
    let error = Lock::take(&folder.0).unwrap_err();
    assert!(matches!(&error, LockError::Held { holder, .. } if *holder == own), "{error}");
    drop(lock);
    assert_eq!(Lock::holder(&folder.0).unwrap(), None);
    Lock::take(&folder.0).unwrap();
}

#[test]
fn digests_are_sha_256() {
    assert_eq!(digest(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

/// A way in which another user could have a hand in the state, and what the message has to say about it.
type Tampering = (&'static str, fn(&Path), &'static str);

/// What another user could do before an administrator narrows the folder again, or with one that is wide open.
const TAMPERING: [Tampering; 12] = [
    ("folder for all", |folder| chmod(folder, 0o777), "other users may write it (mode 0777)"),
    ("folder for a group", |folder| chmod(folder, 0o770), "other users may write it (mode 0770)"),
    ("sticky folder", |folder| chmod(folder, 0o1777), "other users may write it (mode 1777)"),
    ("folder of another", |folder| chown(folder), "it is owned by user 4242, and this runs as user 0"),
    ("folder is a link", |folder| linked(folder), "it is a symbolic link"),
    ("state for all", |folder| chmod(&folder.join("state.json"), 0o666), "other users may write it"),
    ("state of another", |folder| chown(&folder.join("state.json")), "it is owned by user 4242"),
    ("state is a link", |folder| linked(&folder.join("state.json")), "it is a symbolic link"),
    ("state has two names", |folder| named_twice(&folder.join("state.json")), "it has another name"),
    ("state is a pipe", |folder| pipe(&folder.join("state.json")), "it is no regular file"),
    (
        "folder can be exchanged",
        |folder| chmod(folder.parent().unwrap(), 0o777),
        "(mode 0777, no sticky bit)",
    ),
    ("state is a folder", |folder| folder_instead(&folder.join("state.json")), "it is no regular file"),
];

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn chown(path: &Path) {
    std::os::unix::fs::chown(path, Some(4242), None).unwrap();
}

/// Moves it away, and leaves a link that leads there.
fn linked(path: &Path) {
    let moved = path.with_extension("moved");
    fs::rename(path, &moved).unwrap();
    std::os::unix::fs::symlink(moved, path).unwrap();
}

fn named_twice(path: &Path) {
    fs::hard_link(path, path.with_extension("other")).unwrap();
}

fn pipe(path: &Path) {
    fs::remove_file(path).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn folder_instead(path: &Path) {
    fs::remove_file(path).unwrap();
    fs::create_dir(path).unwrap();
}

#[test]
fn a_state_that_others_may_have_written_is_refused_and_left_as_it_is() {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    for (what, tamper, wanted) in TAMPERING {
        // Only root gives a file away.
        if what.ends_with("of another") && !is_root {
            continue;
        }
        let above = Folder::new("tampered");
        let folder = above.0.join("state");
        state("n").write(&folder).unwrap();
        drop(Lock::take(&folder).unwrap());
        tamper(&folder);
        let error = State::read(&folder).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, StateError::Untrusted { .. }), "{what}: {text}");
        assert!(text.contains(wanted), "{what}: {text}");
        assert!(text.contains("what is in force stays in force"), "{what}: {text}");
        if !what.starts_with("state") {
            // A folder that is not trusted is not written to.
            assert!(
                matches!(Lock::take(&folder), Err(LockError::State(error)) if error.is_untrusted()),
                "{what}"
            );
            assert!(Lock::holder(&folder).unwrap_err().is_untrusted(), "{what}");
            assert!(state("other").write(&folder).unwrap_err().is_untrusted(), "{what}");
            assert!(State::forget(&folder).unwrap_err().is_untrusted(), "{what}");
            assert!(folder.join("state.json").exists(), "{what}");
        } else if what != "state is a folder" {
            // In a folder of ours, the next state takes its place, without a look at what it was.
            state("other").write(&folder).unwrap();
            assert_eq!(State::read(&folder).unwrap(), Some(state("other")), "{what}");
        }
    }
}

/// `above/below/state`, for what is wrong two directories up. Tampering begins with `above`.
const EXCHANGING: [Tampering; 5] = [
    ("directory for all", |above| chmod(above, 0o777), "other users may exchange it: they may write "),
    ("directory for a group", |above| for_group(above, 4242), "(mode 0770, no sticky bit)"),
    ("directory of another", |above| chown(above), "user 4242 may exchange it: "),
    ("sticky directory of another", |above| sticky_of_another(above), "user 4242 may exchange it: "),
    ("link of another", |above| linked_by_another(&above.join("below")), "below is owned by that user"),
];

fn for_group(path: &Path, group: u32) {
    std::os::unix::fs::chown(path, None, Some(group)).unwrap();
    chmod(path, 0o770);
}

fn sticky_of_another(path: &Path) {
    chmod(path, 0o1777);
    chown(path);
}

/// Leaves a link of another user in a directory in which only owners replace what is theirs.
fn linked_by_another(path: &Path) {
    linked(path);
    chmod(path.parent().unwrap(), 0o1777);
    std::os::unix::fs::lchown(path, Some(4242), None).unwrap();
}

#[test]
fn a_folder_that_others_may_exchange_is_refused_however_far_up() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    for (what, tamper, wanted) in EXCHANGING {
        let above = Folder::new("exchanged");
        let folder = above.0.join("below/state");
        state("n").write(&folder).unwrap();
        tamper(&above.0);
        for error in [State::read(&folder).unwrap_err(), state("other").write(&folder).unwrap_err()] {
            let text = error.to_string();
            assert!(error.is_untrusted() && text.contains(wanted), "{what}: {text}");
            assert!(text.contains("or name another folder with --state"), "{what}: {text}");
        }
        // Where there is no folder yet, none is made.
        let missing = above.0.join("below/new/state");
        assert!(state("n").write(&missing).unwrap_err().is_untrusted(), "{what}");
        assert!(!missing.parent().unwrap().exists(), "{what}");
    }
}

#[test]
fn a_folder_that_only_administrators_may_exchange_is_trusted() {
    let ways: [fn(&Path); 4] = [
        // As /tmp.
        |above| chmod(above, 0o1777),
        |above| chmod(above, 0o755),
        |above| linked(&above.join("below")),
        // The group of root; another user's test has the user's own.
        |above| {
            if fs::metadata(above).unwrap().gid() == 0 {
                chmod(above, 0o775);
            }
        },
    ];
    for tamper in ways {
        let above = Folder::new("trusted");
        let folder = above.0.join("below/state");
        state("n").write(&folder).unwrap();
        tamper(&above.0);
        assert_eq!(State::read(&folder).unwrap(), Some(state("n")));
        assert_eq!(State::read(&above.0.join("below/../below/./state/")).unwrap(), Some(state("n")));
    }
    // Links without end are no folder.
    let above = Folder::new("circle");
    fs::create_dir_all(&above.0).unwrap();
    std::os::unix::fs::symlink("circle", above.0.join("circle")).unwrap();
    assert!(State::read(&above.0.join("circle/state")).is_err());
}

/// A way to have the lock lead to a file, and what the message has to say about it.
type Linking = (fn(&Path, &Path), &'static str);

#[test]
fn a_lock_is_not_written_to_where_a_link_leads() {
    let ways: [Linking; 3] = [
        (|victim, lock| std::os::unix::fs::symlink(victim, lock).unwrap(), "it is a symbolic link"),
        (|victim, lock| std::os::unix::fs::symlink(victim.with_extension("new"), lock).unwrap(), "symbolic"),
        (|victim, lock| fs::hard_link(victim, lock).unwrap(), "it has another name"),
    ];
    for (way, wanted) in ways {
        let above = Folder::new("victim");
        let folder = above.0.join("state");
        state("n").write(&folder).unwrap();
        let victim = above.0.join("victim");
        fs::write(&victim, "what nobody may lose").unwrap();
        way(&victim, &folder.join("lock"));
        for error in
            [Lock::take(&folder).unwrap_err().to_string(), Lock::holder(&folder).unwrap_err().to_string()]
        {
            assert!(error.contains(wanted), "{error}");
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "what nobody may lose");
        assert!(!victim.with_extension("new").exists());
    }
}

#[test]
fn a_state_of_an_older_version_is_trusted_and_its_lock_closed() {
    let folder = Folder::new("older");
    state("n").write(&folder.0).unwrap();
    fs::write(folder.0.join("lock"), "1\n").unwrap();
    chmod(&folder.0, 0o755);
    chmod(&folder.0.join("lock"), 0o644);
    assert_eq!(State::read(&folder.0).unwrap(), Some(state("n")));
    let _lock = Lock::take(&folder.0).unwrap();
    let mode = fs::metadata(folder.0.join("lock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
