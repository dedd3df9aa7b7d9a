//! A node's part of the view, as one table of nftables.
//!
//! ```text
//!   View::part_of(node) ──► compile ──► Program ──┬─► text     what `nft -f` reads: one transaction that replaces the table
//!                                     └► Patch    ├─► walk     packets through it in memory, for comparing with the evaluator
//!                                                 └─► kernel   puts it there, and cuts the connections that it does not allow
//! ```
//!
//! All but `kernel` is pure: programs are made, compared and tried without one.

pub mod compile;
pub mod guard;
pub mod kernel;
pub mod patch;
pub mod program;
pub mod settling;
pub mod text;
pub mod transition;
pub mod walk;
