//! PolicyTest and AdmissionTest: files that state what policies must do, and the runner that checks it.
//!
//! The format is a product of its own (docs/policy-tests.md). A file is read ([`format`]) into tests that borrow from
//! its tree, because the objects in them go through the same reading as manifests; [`run`] runs them side by side.

pub mod format;
pub mod packets;
pub mod report;
pub mod run;
mod thorium;

pub use report::{Case, Failure, Report};
pub use run::{Files, Settings, run, run_as};
