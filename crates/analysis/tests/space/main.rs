//! What is said about all pods that could exist, held against all of them: on universes that are small enough to be
//! written out, where the model itself says who is in which set.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod descriptions;
mod exact;
mod many;
mod universe;
