//! How fast Palisade is: a generated world, and the measurements over it.
//!
//! ```text
//!   generate (objects, as the API server has them) ──► text (YAML, JSON, as kubectl prints them)
//!                                                        │
//!   measure (one table: every step from text to verdict) ◄┘   benches/core.rs (the same steps under divan)
//! ```
//!
//! Nothing here knows how Palisade represents anything: what is measured starts from texts, as users do.

pub mod generate;
pub mod live;
pub mod measure;
pub mod random;
pub mod scenario;
pub mod text;
