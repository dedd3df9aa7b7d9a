//! A node's part of the view, as one table of nftables.

pub mod compile;
pub mod program;
pub mod text;
pub mod walk;
