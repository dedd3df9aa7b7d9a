//! A node: its part of the view in, what the kernel does out.
//!
//! ```text
//!   View, deltas ──► Enforcement ──► Kernel          one transaction per change, retried, repaired
//!                        │    └────► connections     those that a change denies are cut
//!                        ├─► State                   on disk: what is in force, since when, from what
//!                        └─► Figures ──► metrics     for Prometheus
//!   machine, watch, links, lock                      what an enforcer on a machine needs besides
//!   Source                                           whether what is missing in the input can be missing by mistake
//! ```
//!
//! Whatever fails, what was in force stays in force: nothing here takes rules away. [`Enforcement`] knows nothing of files; `palisade
//! enforce` gives it those of a folder, a cluster's agent what a controller sends.

pub mod connections;
pub mod counted;
pub mod enforcement;
pub mod figures;
pub mod links;
pub mod lock;
pub mod machine;
pub mod metrics;
pub mod source;
pub mod state;
pub mod watch;

pub use enforcement::{Done, Enforcement, Remembered, Wrote};
pub use source::Source;
