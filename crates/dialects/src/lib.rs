//! Every network-policy dialect: read with source positions, validated as its API does, lowered to the model.
//!
//! ```text
//!   text ──► source (YAML, JSON → tree with places) ──► object (which kind?) ──► decode (types as written)
//!                                                                                   │
//!            world (objects by identity) ◄── lower (the rule language) ◄── validate ┘
//! ```
//!
//! One folder a dialect: `kubernetes` (NetworkPolicy v1), `kubernetes_beta` (2016), `admin` (AdminNetworkPolicy and its
//! kin), and `cluster` for the objects that policies are about. In each: the types as written, the validation of its
//! API with that API's texts, and lowering to [`palisade_model::policy`]. A dialect never evaluates, and nothing here
//! does IO: texts come in, a [`world::World`] and diagnostics come out.

pub mod admin;
pub mod admission;
pub mod antrea;
pub mod apimachinery;
pub mod cluster;
pub mod codes;
pub mod decode;
pub mod definition;
pub mod kubernetes;
pub mod kubernetes_beta;
pub mod load;
pub mod meta;
pub mod object;
pub mod source;
pub mod thorium;
pub mod world;
pub mod written;
