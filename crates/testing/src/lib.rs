//! Generators for tests: every form that a rule can have, over one small cluster, and the connections that distinguish them.
//!
//! ```text
//!   forms ──► cases    one rule of every form, in every stage       ┐
//!         └─► random   policies of several such rules               ├─► evaluator = verdicts, engine, nftables, reach
//!   universe           the cluster, and the flows that are asked    ┘
//!   shape              which variants and fields a rule is made of: nothing compiles until a new one is listed there
//! ```
//!
//! A test that compares two ways to a verdict takes its rules from here, so that a form which is added to the rule language is
//! generated for all of them, or for none, and then `tests/coverage.rs` fails.

// clippy.toml lets tests unwrap, and does not know that all of this crate is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod cases;
pub mod dice;
pub mod forms;
pub mod random;
pub mod shape;
pub mod universe;
