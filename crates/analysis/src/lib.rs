//! Questions about a whole set of policies: who reaches whom ([`reach`], [`map`]), what a change does ([`diff`]), what is
//! open to pods that do not exist yet ([`exposure`]), what must hold for all connections ([`query`]); what is probably not
//! meant ([`lint`]), how another dialect says the same ([`convert`]), and whether what must hold does ([`policy_test`]).
//! Some are about pods that could exist, not only those that do ([`space`]).

pub mod caveats;
pub mod convert;
pub mod diff;
pub mod disjoint;
pub mod exposure;
pub mod map;
pub mod policy_test;
pub mod query;
pub mod reach;
pub mod space;
pub mod work;
