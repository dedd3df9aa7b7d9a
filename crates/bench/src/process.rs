//! This program again, for one measurement: the memory that one has taken must not be there when the next begins.

use std::io;
use std::process::Command;

use serde::de::DeserializeOwned;

use crate::scenario::{Scale, Scenario};

/// What it prints as JSON, one value on each line.
pub fn ask<T: DeserializeOwned>(
    command: &str,
    scenario: Scenario,
    scale: Scale,
    more: &[&str],
) -> io::Result<Vec<T>> {
    let (name, size, fraction) =
        (format!("{scenario:?}"), scale.size.to_string(), scale.fraction.to_string());
    let arguments = [command, &name, "--size", &size, "--fraction", &fraction, "--output", "json"];
    lines(&[&arguments, more].concat())
}

/// The same, with any arguments.
pub fn lines<T: DeserializeOwned>(arguments: &[impl AsRef<str>]) -> io::Result<Vec<T>> {
    let arguments: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
    let output = Command::new(std::env::current_exe()?).args(&arguments).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("{}: {}: {said}", arguments.join(" "), output.status)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}
