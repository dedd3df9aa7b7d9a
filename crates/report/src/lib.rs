//! Output formats of all answers, for the command line, the server and the webhook.
//!
//! ```text
//!   answer of analysis, lint, policytest ──► text        a Text, which no data can forge
//!                                        ├─► json        types of their own, held to docs/schemas
//!                                        ├─► sarif, junit
//!                                        └─► map, diff   also Markdown, HTML, SVG, CSV, DOT
//! ```
//!
//! Printers decide nothing: facts in, [`text::Text`] out. Nothing here writes to a stream.

// First: its macros make the texts of all others.
#[macro_use]
pub mod text;

pub mod caveats;
pub mod diagnostics;
pub mod diff;
pub mod explain;
pub mod exposure;
pub mod json;
pub mod junit;
pub mod map;
pub mod peers;
pub mod policy_tests;
pub mod query;
pub mod sarif;
#[cfg(any(test, feature = "schema"))]
pub mod schema;
pub mod style;
pub mod thorium;
