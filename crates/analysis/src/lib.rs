//! Whole-cluster analyses of policies: reachability, maps, diffs, queries, exposure.
//!
//! ```text
//!   snapshot ──► reach: verdicts for all traffic between classes of endpoints ──┬─► map, exposure, query
//!                                                                               └─► diff (two snapshots)
//!   selectors ──► space: pods that could exist ──► exposure, diff::proof, lints, conversion
//! ```
//!
//! [`reach`] runs the pipeline of `palisade-model` on sets of traffic. [`disjoint`] is the quick, incomplete form of
//! [`space`]. [`caveats`] are what an answer leaves undecided, [`work`] limits its cost.

pub mod caveats;
pub mod diff;
pub mod disjoint;
pub mod exposure;
pub mod map;
pub mod query;
pub mod reach;
pub mod space;
pub mod work;
