//! A command of the built binary with a world on standard input, and its JSON held to its schema.

use serde_json::Value;

#[path = "../run/mod.rs"]
mod run;
#[path = "../schema/mod.rs"]
mod schema;

use run::palisade;

/// The exit code, what it says, and what it says besides.
pub fn ask(command: &str, world: &str, arguments: &[&str]) -> (i32, String, String) {
    palisade(&[&[command, "-f", "-"], arguments].concat(), world)
}

/// The same in JSON.
pub fn json_of(command: &str, world: &str, arguments: &[&str]) -> Value {
    let (_, out, err) = ask(command, world, &[arguments, &["--output", "json"]].concat());
    let value: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    schema::holds(command, &value);
    value
}
