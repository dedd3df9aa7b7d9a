//! A folder with files, and the built binary in it.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

#[path = "../schema/mod.rs"]
mod schema;

/// A folder of its own that goes away.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("palisade-diff-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn palisade(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_palisade"))
            .args(arguments)
            .current_dir(&self.0)
            .output()
            .expect("the binary runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        let (_, out, err) = self.palisade(arguments);
        let value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
        if !arguments.contains(&"sarif") {
            schema::holds(arguments[0], &value);
        }
        value
    }

    pub fn git(&self, arguments: &[&str]) {
        let author = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"];
        let output = Command::new("git").args(author).args(arguments).current_dir(&self.0).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
