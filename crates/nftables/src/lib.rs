//! A node's part of the view, as one table of nftables.
//!
//! ```text
//!   View::part_of(node) ──► compile ──► Program ──► text   what `nft -f` reads: one transaction that replaces the table
//!                                          └──────► walk   packets through it in memory, for comparing with the evaluator
//! ```
//!
//! Everything here is pure: nothing talks to a kernel. Who puts a program there does so with its text.

pub mod compile;
pub mod program;
pub mod text;
pub mod walk;
