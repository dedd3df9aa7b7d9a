//! Why a command of `palisade lab` cannot be carried out.

use palisade_lab::LabError;
use palisade_policytest::packets::PacketError;
use palisade_report::text::{NL, Text};
use thiserror::Error;

/// A reason to end without an answer. Retryable where its [`LabError`] is.
#[derive(Debug, Error)]
pub enum LabCommandError {
    /// The lab.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A manifest was left out, and could have changed the answer. Not retryable before it can be read.
    #[error("{0}")]
    LeftOut(String),
    /// A test cannot be run with packets.
    #[error(transparent)]
    Test(#[from] PacketError),
    /// There is no lab to enter.
    #[error("no lab is up on this machine: start one with  palisade lab PATH --keep")]
    NoLab,
    /// There is no such pod in a lab.
    #[error("no pod {pod} in a lab that is up")]
    NoPod {
        /// The pod that was asked for.
        pod: String,
        /// Pods of similar names.
        near: Vec<String>,
    },
    /// No command was given.
    #[error("no command")]
    NoCommand,
    /// The system refuses.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the system answered.
        source: std::io::Error,
    },
}

// === impl LabCommandError ===

impl LabCommandError {
    pub fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> LabCommandError {
        let what = what.into();
        move |source| LabCommandError::System { what, source }
    }

    /// Returns the message for a terminal.
    pub fn text(&self) -> Text {
        match self {
            LabCommandError::NoPod { near, .. } if !near.is_empty() => {
                text!("{self}{NL}  did you mean {}?", near.join(", "))
            }
            _ => text!("{self}"),
        }
    }
}
