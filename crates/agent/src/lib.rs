//! A node: what a source yields, kept active in a kernel.
//!
//! ```text
//!   Source ──► Enforcer ──► Enforcement ──► Kernel       one transaction per change, retried, repaired
//!                 │             └─────────► connections  those that a change denies are cut
//!                 ├─► Comparisons                        what a change opened and closed, off the hot path
//!                 ├─► State                              on disk: what is enforced, since when, from what
//!                 └─► Figures ──► metrics                for Prometheus
//! ```
//!
//! - **Sources** (source.rs): the trait, and the sources there are: manifests in files ([`manifests`]) through an engine in this process
//!   ([`engine_source`], [`node_view`]).
//! - **The machine** ([`machine`], [`namespace`], [`link_events`]): which pods are here, and by which interfaces.
//! - **The loop** ([`enforcer`]): one thread, one poll loop, which never blocks on anything else.
//!
//! Whatever fails, what was enforced stays enforced: nothing here removes rules. [`Enforcement`] knows nothing of sources; the lab uses it
//! by itself.

pub mod comparison;
pub mod connections;
pub mod deciders;
pub mod enforcement;
pub mod enforcer;
pub mod engine_source;
pub mod figures;
pub mod link_events;
pub mod lock;
pub mod machine;
pub mod manifests;
pub mod metrics;
pub mod namespace;
pub mod node_view;
pub mod source;
pub mod state;

pub use enforcement::{Done, Enforcement, Remembered, Wrote};
pub use enforcer::Enforcer;

use std::time::Duration;

use rustix::event::Timespec;

/// Returns a duration as `poll` takes it.
pub(crate) fn timeout(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: time.subsec_nanos().into() }
}
