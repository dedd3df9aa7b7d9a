//! Thorium's tool policies: base, forced, default and attached, for the tools of groups.
//!
//! ```text
//!   thorium.yml ─┐
//!   requests ────┤  document      assemble    ┌─► lower: the rule language, tools as pods
//!   rules files ─┼──────────► parts ─────► instance ─► compile: Kubernetes NetworkPolicy objects
//!   manifest ────┘  + check                   └─► effective: what holds for one tool, in words
//! ```
//!
//! Unlike other dialects these documents mean nothing alone: a rules file has no name, a policy no tools. So a world
//! keeps them as [`Part`]s and puts them together when it is asked for its objects. Thorium's document is the contract;
//! [`Reading::Program`] is what its program does instead.

mod assemble;
mod check;
pub mod codes;
pub mod compile;
mod default_base;
mod document;
pub mod effective;
pub mod instance;
mod lower;
mod manifest;
mod names;
pub mod policy;
mod program;
mod shape;
mod types;

pub use assemble::assemble;
pub use default_base::NAME as DEFAULT_BASE;
pub use document::{Config, Part, RulesFile, THORIUM_CLUSTER, read, read_base, read_request, read_rules};
pub use lower::{IMAGE_KIND, extend, instance as instance_of, is_related, lower};
pub use policy::Reading;
pub use shape::{INSTANCE_KIND, Shape};

/// Returns whether a diagnostic's or an object's kind is one of ours, or a misspelling of one: documents of Thorium have no
/// API group to know them by.
pub fn is_kind(kind: &str) -> bool {
    kind.starts_with("Thorium")
}
