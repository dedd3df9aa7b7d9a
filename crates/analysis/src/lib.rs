//! Questions about a whole set of policies: what is probably not meant ([`lint`]), and whether what must hold does
//! ([`policy_test`]). [`space`] is for those about pods that do not exist yet.

pub mod lint;
pub mod policy_test;
pub mod space;
