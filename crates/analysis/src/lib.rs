//! Questions about all traffic of a cluster at once.
//!
//! [`reach`] decides it symbolically: the pipeline of `palisade-model` on sets of traffic, for classes of endpoints. On it
//! stand the [`map`] of workloads, the [`diff`] of two sets of policies, assertions ([`query`]) and what is open to pods
//! that do not exist yet ([`exposure`]). [`space`] answers about all pods that could exist; [`disjoint`] is its quick,
//! incomplete form. [`caveats`] are what such answers leave undecided, [`work`] limits the steps they take.

pub mod caveats;
pub mod diff;
pub mod disjoint;
pub mod exposure;
pub mod map;
pub mod query;
pub mod reach;
pub mod space;
pub mod work;
