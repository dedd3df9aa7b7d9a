//! Printers: facts in, text out. Nothing here decides anything.

// First: its macros make the texts of all others.
#[macro_use]
pub mod text;

pub mod caveats;
pub mod diagnostics;
pub mod diff;
pub mod enforce;
pub mod explain;
pub mod exposure;
pub mod json;
pub mod junit;
pub mod lab;
pub mod map;
pub mod peers;
pub mod progress;
pub mod query;
pub mod sarif;
pub mod style;
pub mod tests;
pub mod thorium;
pub mod time;
