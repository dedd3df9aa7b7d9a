//! What is remembered on disk, and who may enforce.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use palisade_agent::lock::{Lock, LockError};
use palisade_agent::state::{FileState, State, VERSION, digest};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("palisade-state-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
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
    let mode = fs::metadata(folder.0.join("state.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "nothing is left beside it");
    State::forget(&folder.0).unwrap();
    State::forget(&folder.0).unwrap();
    assert_eq!(State::read(&folder.0).unwrap(), None);
}

#[test]
fn what_is_no_state_of_ours_is_none() {
    let folder = Folder::new("other");
    fs::create_dir_all(&folder.0).unwrap();
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
    assert_eq!(Lock::holder(&folder.0), None);
    let lock = Lock::take(&folder.0).unwrap();
    let own = std::process::id().to_string();
    assert_eq!(Lock::holder(&folder.0), Some(own.clone()));
    let error = Lock::take(&folder.0).unwrap_err();
    assert!(matches!(&error, LockError::Held { holder, .. } if *holder == own), "{error}");
    drop(lock);
    assert_eq!(Lock::holder(&folder.0), None);
    Lock::take(&folder.0).unwrap();
}

#[test]
fn digests_are_sha_256() {
    assert_eq!(digest(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
