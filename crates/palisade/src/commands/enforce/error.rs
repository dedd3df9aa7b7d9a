//! Why a command of `palisade enforce` cannot be carried out.

use palisade_agent::lock::LockError;
use palisade_agent::node_view::PlacementError;
use palisade_agent::state::StateError;
use palisade_nftables::kernel::KernelError;
use palisade_report::text::{NL, Text};
use thiserror::Error;

/// A reason to end without doing anything. What is enforced stays. Not retryable, but for [`EnforceError::Lock`] when another process holds
/// it, and [`EnforceError::Kernel`] where the kernel error is.
#[derive(Debug, Error)]
pub enum EnforceError {
    /// Standard input ends, and cannot be watched.
    #[error("standard input cannot be followed: name a file or a folder, or add --once")]
    StandardInput,
    /// The machine lacks something.
    #[error("nothing can be enforced here")]
    Missing(Vec<String>),
    /// Another enforcer is running, or its lock cannot be taken.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// An enforcer is running in this folder, and would undo the command.
    #[error(
        "palisade enforce is running, process {0}, and would put it back: end it first \
         (systemctl stop palisade-enforce, or kill {0})"
    )]
    Running(String),
    /// An enforcer is running in this network, and would undo the command.
    #[error("{0}, and would put it back: end it first")]
    RunningElsewhere(LockError),
    /// The state folder cannot be used.
    #[error(transparent)]
    State(StateError),
    /// The kernel refuses.
    #[error(transparent)]
    Kernel(KernelError),
    /// The kernel's tables may not be read.
    #[error("what the kernel has in force may not be read ({0}): run it with sudo")]
    Unreadable(String),
    /// The machine is not among the objects.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The command needs a confirmation, and there is no terminal.
    #[error("nobody is there to ask: --yes does it without asking")]
    NoTerminal,
    /// The system refuses.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system answered.
        source: std::io::Error,
    },
}

// === impl EnforceError ===

impl EnforceError {
    pub fn system(what: &'static str) -> impl Fn(std::io::Error) -> EnforceError {
        move |source| EnforceError::System { what, source }
    }

    /// Returns the message for a terminal, with what to do about it.
    pub fn text(&self) -> Text {
        match self {
            EnforceError::Missing(lacks) => {
                let lacks: Text = lacks.iter().map(|lack| text!("{NL}  {lack}")).collect();
                text!("{self}:{lacks}")
            }
            EnforceError::State(error) if error.is_forbidden() => text!("{error}: run it with sudo"),
            EnforceError::Kernel(KernelError::Forbidden(what)) => {
                text!("not permitted ({what}): run it with sudo")
            }
            _ => text!("{self}"),
        }
    }
}

impl From<StateError> for EnforceError {
    fn from(error: StateError) -> Self {
        EnforceError::State(error)
    }
}

impl From<KernelError> for EnforceError {
    fn from(error: KernelError) -> Self {
        EnforceError::Kernel(error)
    }
}
