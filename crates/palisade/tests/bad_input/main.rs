//! Bad input, seen from outside: whatever is thrown at the binary, it says what is wrong and where, loses nothing else,
//! ends in time and never panics.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a panic here is a failing test")]

mod bombs;
mod files;
mod harness;
mod objects;
mod sizes;
mod text;
