//! Ordered rules of a subject as verdicts that do not overlap.
//!
//! Policies are ordered: tiers, priorities, Pass, isolation, defaults. Data planes without an order of that kind (tables that are
//! looked up once, security groups that only allow, rules of equal priority) need the result: what becomes of each connection,
//! each stated once.
//!
//! ```text
//!   rules of a subject, in order ──► RuleList ──flatten──► FlatVerdicts: traffic without overlaps, with the deciding rule
//!                                       │                       │ equal tables
//!   sets, members, blocks ──────────────┴──► PeerClasses ◄──────┘
//!                                            each peer address in one class, each class with one table
//! ```
//!
//! * A [`RuleList`] names **conditions**: membership of the peer in any of some sets. Which conditions a peer meets is all that
//!   the rules know about it.
//! * [`RuleList::flatten`] runs the pipeline of [`palisade_model::pipeline`] for a peer that meets some conditions, over all
//!   traffic at once.
//! * [`PeerClasses`] groups addresses by the table they get.
//!
//! How data planes use it: nftables looks the peer up in a map and its traffic in the table of its class; Neutron, which only
//! allows, takes the pieces with [`Verdict::Allow`](palisade_model::trace::Verdict::Allow) and an address group for each class;
//! OVN writes an ACL for each piece, of any one priority.
//!
//! # Example
//!
//! TCP to ports 80 to 90 is allowed, but for port 85, and everything else is denied:
//!
//! ```
//! use std::num::NonZeroU32;
//! use std::sync::Arc;
//!
//! use palisade_engine::delta::{CompiledRule, Directions, PolicyId, RuleEffect, SetId};
//! use palisade_flatten::{Budget, Layer7Support, RuleList};
//! use palisade_model::pipeline::Effect;
//! use palisade_model::policy::{Direction, Priority, TrafficMatch, TrafficMatches};
//! use palisade_model::resolve::Rank;
//! use palisade_model::snapshot::Stage;
//! use palisade_model::trace::Verdict;
//! use palisade_model::traffic::{PortRange, Protocol};
//!
//! let rule = |index, effect, traffic| {
//!     Arc::new(CompiledRule {
//!         policy: PolicyId::new(NonZeroU32::MIN),
//!         rule: Some(index),
//!         directions: Directions::from(Direction::Ingress),
//!         rank: Rank { stage: Stage::Tiers, placed: true, tier: 10, priority: Priority(1.0), index },
//!         effect: RuleEffect::Decide(effect),
//!         subject: SetId::new(NonZeroU32::MIN),
//!         peers: None,
//!         destination: None,
//!         traffic,
//!         layer7: Vec::new(),
//!         log: None,
//!     })
//! };
//! let tcp = |first, last| {
//!     TrafficMatches::Of(vec![TrafficMatch::Ports(Protocol::Tcp, PortRange { first, last })])
//! };
//! let rules = vec![
//!     rule(0, Effect::Deny, tcp(85, 85)),
//!     rule(1, Effect::Allow, tcp(80, 90)),
//!     rule(2, Effect::Deny, TrafficMatches::Any),
//! ];
//! let list = RuleList::new(rules, Direction::Ingress, Layer7Support::None);
//! let verdicts = list.flatten(&[], &mut Budget::unlimited());
//!
//! let allowed = verdicts.pieces().filter(|piece| piece.decision.verdict == Verdict::Allow);
//! assert_eq!(allowed.map(|piece| piece.places).collect::<Vec<_>>(), [(80, 84), (86, 90)]);
//! assert_eq!(verdicts.rest().verdict, Verdict::Deny);
//! assert_eq!(verdicts.rest().rule, Some(2));
//! ```

mod addresses;
mod budget;
pub mod digest;
mod layout;
mod ledger;
mod peers;
mod rule_list;
mod shared;
mod verdicts;

pub use addresses::{AddressIndex, has_peer_addresses};
pub use budget::{BYTE, Budget, Limit};
pub use digest::{Digest, RuleDigests};
pub use peers::{ClassId, PeerClass, PeerClasses, PeerSets, PlacedRange};
pub use rule_list::{ConditionId, Layer7Support, RuleList};
pub use shared::{SharedCondition, shared_conditions};
pub use verdicts::{
    Column, Decision, FlatVerdicts, IcmpVerdicts, IgmpVerdict, Piece, PortVerdict, Run, Scope,
};
