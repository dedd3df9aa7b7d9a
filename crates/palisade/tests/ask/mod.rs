//! A command of the built binary with a world on standard input, and its JSON held to its schema.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

#[path = "../schema/mod.rs"]
mod schema;

/// The exit code, what it says, and what it says besides.
pub fn ask(command: &str, world: &str, arguments: &[&str]) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_palisade"))
        .args([command, "-f", "-"])
        .args(arguments)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .env_remove("COLUMNS")
        .env_remove("NO_COLOR")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program may refuse its arguments and never read.
    let _ = child.stdin.take().unwrap().write_all(world.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The same in JSON.
pub fn json_of(command: &str, world: &str, arguments: &[&str]) -> Value {
    let (_, out, err) = ask(command, world, &[arguments, &["--output", "json"]].concat());
    let value: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    schema::holds(command, &value);
    value
}
