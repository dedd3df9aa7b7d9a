//! Questions about a whole set of policies: what is probably not meant ([`lint`]), and whether what must hold does
//! ([`policy_test`]).

pub mod diff;
pub mod lint;
pub mod map;
pub mod policy_test;
pub mod reach;
