//! Texts and the trees read from them.

pub mod tree;
