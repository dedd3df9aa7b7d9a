//! Antrea's tiers, policies and groups: `crd.antrea.io/v1beta1`, and the API of 2020.

pub mod codes;
pub mod types;
