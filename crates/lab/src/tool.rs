//! `ip` and `nft`, which are all that a lab needs on a machine.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::error::LabError;
use crate::namespace;

/// What `ip` does with these lines, in the namespace or in this process's own.
pub fn ip(inside: Option<&str>, lines: &str) -> Result<(), LabError> {
    if lines.is_empty() {
        return Ok(());
    }
    let mut command = Command::new("ip");
    if let Some(name) = inside {
        command.args(["-netns", name]);
    }
    command.args(["-batch", "-"]);
    feed("ip", command, lines)
}

/// What `nft` does with this transaction, in the namespace.
pub fn nft(inside: &str, text: &str) -> Result<(), LabError> {
    let mut command = Command::new("nft");
    command.args(["-f", "-"]);
    namespace::inside(inside, || feed("nft", command, text))?
}

/// What is missing for a lab, in words; nothing if all is there.
pub fn missing() -> Vec<String> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push("root (network namespaces and nftables are for root): run it with sudo".to_owned());
    }
    for (tool, package) in [("ip", "iproute2"), ("nft", "nftables")] {
        let asked = Command::new(tool).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if asked.is_err() {
            missing.push(format!("the command {tool} (on Debian or Ubuntu: apt-get install {package})"));
        }
    }
    if missing.is_empty()
        && let Err(error) = namespace::works()
    {
        missing.push(format!("network namespaces: {error}"));
    }
    missing
}

fn feed(tool: &'static str, mut command: Command, text: &str) -> Result<(), LabError> {
    // In a group of its own, so that Ctrl-C ends us, who clean up, and not half of a change.
    let mut child = command
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| LabError::system(format!("cannot run {tool}"), error))?;
    // Whoever stops reading early says why on standard error.
    let written = child.stdin.take().map(|mut stdin| stdin.write_all(text.as_bytes()));
    let output =
        child.wait_with_output().map_err(|error| LabError::system(format!("cannot run {tool}"), error))?;
    match (output.status.success(), written) {
        (true, Some(Err(error))) => Err(LabError::system(format!("cannot write to {tool}"), error)),
        (true, _) => Ok(()),
        (false, _) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let said: Vec<&str> = said.lines().take(6).collect();
            Err(LabError::Refused { tool, said: said.join("\n") })
        }
    }
}
