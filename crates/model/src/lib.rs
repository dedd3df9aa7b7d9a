//! The nouns of network policy.

pub mod diagnostic;
