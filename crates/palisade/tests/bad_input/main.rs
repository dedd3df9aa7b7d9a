//! Bad input, seen from outside: whatever is thrown at the binary, it says what is wrong and where, loses nothing else,
//! ends in time and never panics.

mod files;
mod harness;
mod objects;
mod sizes;
mod text;
