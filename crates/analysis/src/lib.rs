//! Questions about a whole set of policies: who reaches whom ([`reach`], [`map`]), what a change does ([`diff`]), what is
//! open to pods that do not exist yet ([`exposure`]), what must hold for all connections ([`query`]); how another dialect says the
//! same ([`convert`]). Some are about pods that could exist, not only those that do ([`space`]).

pub mod caveats;
pub mod convert;
pub mod diff;
pub mod disjoint;
pub mod exposure;
pub mod map;
pub mod query;
pub mod reach;
pub mod space;
pub mod work;
