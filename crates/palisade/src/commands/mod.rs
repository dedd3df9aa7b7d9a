//! One file a command: arguments → one call into a crate → a printer. What several say alike is in reading.rs, reservations.rs
//! and changes.rs.

pub mod changes;
pub mod check;
pub mod compile;
pub mod convert;
pub mod diff;
pub mod enforce;
pub mod explain;
pub mod exposure;
pub mod lab;
pub mod map;
pub mod query;
mod reading;
mod reservations;
pub mod shell;
pub mod test;
pub mod thorium;

/// Exit codes: the answer is yes, the answer is no, there is no answer.
pub const YES: u8 = 0;
pub const NO: u8 = 1;
pub const UNANSWERED: u8 = 2;
