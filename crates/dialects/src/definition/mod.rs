//! Custom resources: what their definitions ask for as data, and the checks that an API server makes of it.
//!
//! Everything an API server refuses in a custom resource it refuses in the same few sentences. So a dialect whose kinds
//! are custom resources writes each definition as a table of [`schema`], states its types with those of [`typed`], and
//! names its codes in [`findings::Codes`]; the rest is here.

pub mod check;
pub mod findings;
pub mod object;
pub mod schema;
pub mod selector;
pub mod typed;
