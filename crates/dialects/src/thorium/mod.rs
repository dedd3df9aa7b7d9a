//! Thorium's tool policies.

pub mod codes;
