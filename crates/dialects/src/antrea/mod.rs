//! Antrea's tiers, policies and groups: `crd.antrea.io/v1beta1`, and the API of 2020.

pub mod carried;
pub mod codes;
pub mod ends;
pub mod entity;
pub mod policy;
pub mod selector;
pub mod types;
