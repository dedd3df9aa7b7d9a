//! The nouns of network policy, and the one place that says what they mean.
//!
//! ```text
//!   dialects ──► Policy (policy.rs) ─┐
//!                                    ├─► Snapshot (snapshot.rs) ──► evaluate (evaluate.rs) ──► verdict and Trace
//!   manifests ─► Pod, Node, … ───────┘          │
//!         (cluster.rs, entrance.rs)             └──► Verdicts (verdicts.rs), the same answer without the trace
//! ```
//!
//! Nothing here does IO, waits, reads a clock or knows an API: a dialect lowers its objects to [`policy::Policy`], and
//! from there on a NetworkPolicy and an AdminNetworkPolicy differ only in where they stand in the pipeline.
//!
//! [`evaluate::evaluate`] is the judge: it is written to be read beside the semantics, and everything clever (the
//! subject lists of [`verdicts`], later the engine and the compiled programs) is tested against it.

pub mod address;
pub mod cluster;
pub mod diagnostic;
pub mod entrance;
pub mod evaluate;
pub mod event;
pub mod flow;
pub mod group;
pub mod label;
pub mod matching;
pub mod names;
pub mod nearest;
pub mod options;
pub mod pipeline;
pub mod policy;
pub mod ranges;
pub mod resolve;
pub mod snapshot;
pub mod trace;
pub mod traffic;
pub mod traffic_set;
pub mod verdicts;
