//! Runner of PolicyTest and AdmissionTest files, which state the verdicts of flows and the responses to requests.
//!
//! ```text
//!   file ──► tree ──► tests (format) ──┬─► run: verdicts of the evaluator or the engine ──► report
//!                                      └─► packets: verdicts of a data plane ──► PacketReport
//! ```
//!
//! Tests borrow from the tree of their file, because the objects in them are lowered as manifests are. docs/policy-tests.md
//! documents the format.

pub mod format;
pub mod packets;
pub mod report;
pub mod run;
mod thorium;

pub use report::{CaseFailure, CaseResult, SuiteReport};
pub use run::{FileError, RunSettings, TestFiles, run, run_with};
