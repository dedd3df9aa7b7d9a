//! How fast Palisade is: a generated world, the peers' scenarios, and the measurements over them.
//!
//! ```text
//!   generate (objects, as the API server has them) ──► text (YAML, JSON, as kubectl prints them)
//!                                                        │
//!   measure (one table: every step from text to verdict) ◄┘   benches/core.rs (the same steps under divan)
//!
//!   scenario (S1–S8, as events) ──► live (a load, timed) ──► compare (all of them, next to the peer's figures)
//!                                     │
//!                                     └──► single (one event on a loaded index) ──► growth (on larger and larger ones)
//!
//!   map (a cluster with the policies of a real one, and hard ones: from the snapshot to every pair and every row)
//!
//!   packets (rules in the kernel: what they cost a packet, and how long they take to load)
//!
//!   count (a small fixed set of all of it, for counting instructions: scripts/instructions)
//!   bombs (small inputs that ask for much, with what an answer may take at most: the same script)
//! ```
//!
//! Nothing here knows how Palisade represents anything: what is measured starts from texts, as users do, from events, as
//! a cluster does, or from the objects of the rule language.

pub mod bombs;
pub mod compare;
pub mod count;
pub mod generate;
pub mod growth;
pub mod live;
pub mod map;
pub mod measure;
pub mod node;
pub mod packets;
pub mod process;
pub mod random;
pub mod scenario;
pub mod single;
pub mod text;
pub mod units;
