//! Network namespaces: their names, and how to be in one for a moment.

use std::sync::atomic::{AtomicU32, Ordering};

pub use palisade_agent::namespace::NAMESPACES as FOLDER;

use crate::error::LabError;
use crate::tool;

/// How the name of every namespace of ours begins.
pub const PREFIX: &str = "pal-";

/// Who makes namespaces: a process, by its number and when it started, which no other process has again; and which of its
/// labs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    process: u32,
    started: u64,
    lab: u32,
}

// === impl Run ===

impl Run {
    /// A lab of this process.
    pub fn own(lab: u32) -> Result<Run, LabError> {
        let process = std::process::id();
        let started = started(process)
            .ok_or_else(|| LabError::Missing("/proc, which tells one process from another".to_owned()))?;
        Ok(Run { process, started, lab })
    }

    /// The name of a namespace: `pal-PROCESS-STARTED-LAB-WHAT`.
    pub fn name(&self, what: &str) -> String {
        format!("{PREFIX}{:x}-{:x}-{:x}-{what}", self.process, self.started, self.lab)
    }

    /// Whose namespace this is, from its name.
    pub fn of(name: &str) -> Option<Run> {
        let mut parts = name.strip_prefix(PREFIX)?.splitn(4, '-');
        let process = u32::from_str_radix(parts.next()?, 16).ok()?;
        let started = u64::from_str_radix(parts.next()?, 16).ok()?;
        let lab = u32::from_str_radix(parts.next()?, 16).ok()?;
        parts.next()?;
        Some(Run { process, started, lab })
    }

    /// Whether the process is still there.
    pub fn lives(&self) -> bool {
        started(self.process) == Some(self.started)
    }

    /// The number of the process.
    pub fn process(&self) -> u32 {
        self.process
    }
}

/// When a process started, in the kernel's ticks; nothing when there is none, or it is over and only not yet buried.
fn started(process: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let rest = stat.rsplit_once(')')?.1;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}

/// Whether this process may make namespaces at all: makes one.
pub fn works() -> Result<(), LabError> {
    static TRIES: AtomicU32 = AtomicU32::new(0);
    let name = Run::own(TRIES.fetch_add(1, Ordering::Relaxed))?.name("try");
    tool::ip(None, &format!("netns add {name}\n"))?;
    let entered = inside(&name, || ());
    tool::ip(None, &format!("netns delete {name}\n"))?;
    entered
}

/// Runs a task in a namespace, on a thread that enters it and ends with the task.
pub fn inside<T: Send>(name: &str, task: impl FnOnce() -> T + Send) -> Result<T, LabError> {
    palisade_agent::namespace::enter(name, task).map_err(LabError::from)
}

/// Sets what the kernel lets a namespace choose; what this kernel does not have is left out.
pub fn set(name: &str, settings: &[(&str, &str)]) -> Result<(), LabError> {
    inside(name, || {
        for (setting, value) in settings {
            let path = format!("/proc/sys/net/{setting}");
            match std::fs::write(&path, value) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(LabError::system(format!("cannot set {path}"), error));
                }
                _ => {}
            }
        }
        Ok(())
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_whose_it_is() {
        let own = Run::own(3).unwrap();
        let name = own.name("p12");
        assert!(name.len() < 60, "{name}");
        assert_eq!(Run::of(&name), Some(own.clone()));
        assert!(own.lives());
        assert!(!Run { started: own.started + 1, ..own }.lives());
        for other in ["pal-", "pal-x-1-1-p", "pal-1-1-1", "other"] {
            assert_eq!(Run::of(other), None, "{other}");
        }
    }
}
