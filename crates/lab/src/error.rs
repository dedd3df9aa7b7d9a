//! What can go wrong in a lab.

use palisade_agent::namespace::NamespaceError;
use palisade_nftables::kernel::KernelError;
use thiserror::Error;

/// Why there is no lab, or no longer one.
#[derive(Debug, Error)]
pub enum LabError {
    /// Something that a lab needs is not there. Not retryable: somebody must install it, or be root.
    #[error("{0}")]
    Missing(String),
    /// A tool refused. Not retryable: the same input is refused again.
    #[error("{tool} refused: {said}")]
    Refused {
        /// Which tool.
        tool: &'static str,
        /// What it said.
        said: String,
    },
    /// The system refused. Retryable where it was short of something (memory, files).
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// A network namespace cannot be entered. Not retryable: it is gone, or rights are missing.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// A node's kernel did not take its program. Retryable or not as the reason is.
    #[error("node {node}: {error}")]
    Kernel {
        /// Which node.
        node: String,
        /// Why.
        #[source]
        error: KernelError,
    },
    /// A world that is too large for one machine. Not retryable: the world must be smaller.
    #[error("{0}")]
    TooLarge(String),
    /// Somebody pressed Ctrl-C. Not retryable: they meant it.
    #[error("interrupted")]
    Interrupted,
}

// === impl LabError ===

impl LabError {
    /// The system's answer to something that was tried.
    pub fn system(what: impl Into<String>, error: impl Into<std::io::Error>) -> Self {
        LabError::System { what: what.into(), error: error.into() }
    }
}
