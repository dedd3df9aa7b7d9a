//! From a rule as it was meant to a rule with nothing left to look up.
//!
//! ```text
//!   Rule ─────┐
//!   groups ───┼──► ResolvedRule: rank, effect, peers and traffic are final
//!   tiers ────┘    none where the rule can have no effect
//! ```
//!
//! Everything that fails closed does so here: a rule with an unknown part, with a group that cannot be read, or of a policy
//! whose tier does not exist. Fast verdicts, the engine and `analysis` start from resolved rules; `evaluate` reads rules as
//! they are written and judges what is made of them.

mod all;
mod groups;
mod subjects;

use smallvec::SmallVec;
use smol_str::SmolStr;

use crate::address::Block;
use crate::group::GroupName;
use crate::label::Selector;
use crate::pipeline::Effect;
use crate::policy::{
    Action, DomainName, Peer, Peers, Placement, PodSet, Policy, Priority, Rule, ServiceName, Subject, Tier,
    TrafficMatch, TrafficMatches,
};
use crate::snapshot::Stage;

pub use all::{Resolution, ResolvedRuleAt, RuleAt};
pub use groups::{Expansion, GroupMember, expand, expand_all, sibling};
pub use subjects::{ResolvedSubject, subjects};

/// The objects that policies refer to by name.
pub trait References<'r> {
    /// Returns the priority of a tier; `None` if it does not exist.
    fn tier(&self, name: &SmolStr) -> Option<u8>;

    /// Returns the members of a group; `None` if it does not exist.
    fn group(&self, name: &GroupName) -> Option<&'r Expansion>;
}

/// The order of a rule among those of its direction: lower comes first. Rules of equal rank are ordered by the kind, namespace
/// and name of their policies. In the NetworkPolicy stage order has no meaning, and all ranks are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// The stage of the pipeline.
    pub stage: Stage,
    /// Whether the policy's tier exists. A policy without a tier comes before all others.
    pub placed: bool,
    /// The tier's priority.
    pub tier: u8,
    /// The policy's priority in its tier.
    pub priority: Priority,
    /// The rule's index in its direction.
    pub index: u32,
}

/// A rule with nothing left to look up.
#[derive(Debug, Clone)]
pub struct ResolvedRule<'r> {
    /// Its order.
    pub rank: Rank,
    /// What becomes of the traffic it matches.
    pub effect: Effect,
    /// The other end of the connections it matches.
    pub peers: ResolvedPeers<'r>,
    /// The traffic it matches. It holds nothing unknown.
    pub traffic: &'r TrafficMatches,
}

/// The other end of a resolved rule.
#[derive(Debug, Clone)]
pub enum ResolvedPeers<'r> {
    /// Every endpoint and address.
    Any,
    /// Any of these; none when there is none.
    Of(SmallVec<[ResolvedPeer<'r>; 2]>),
}

/// One alternative for the other end of a resolved rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResolvedPeer<'r> {
    /// Pods, possibly relative to the subject's namespace.
    Pods(&'r PodSet),
    /// Addresses in any of these blocks.
    Addresses(&'r [Block]),
    /// Nodes, by their labels.
    Nodes(&'r Selector),
    /// Addresses that these DNS names resolve to.
    Names(&'r [DomainName]),
    /// Connections to a service, by the address before translation.
    Service(&'r ServiceName),
    /// The members of a group, shared by all rules that name it.
    Group(&'r [GroupMember]),
}

/// The traffic of a rule that fails closed.
static ANY_TRAFFIC: TrafficMatches = TrafficMatches::Any;

/// Returns the rank of a policy's rules, with index 0.
pub fn rank<'r>(policy: &Policy, references: &impl References<'r>) -> Rank {
    let (tier, priority) = match &policy.placement {
        Placement::Union => {
            let stage = Stage::NetworkPolicy;
            return Rank { stage, placed: true, tier: 0, priority: Priority(0.0), index: 0 };
        }
        Placement::Tier { tier: Tier::Fixed(number, _), priority } => (Some(*number), *priority),
        Placement::Tier { tier: Tier::Named(name), priority } => (references.tier(name), *priority),
    };
    let stage = match tier {
        Some(tier) if tier > Stage::LAST_TIER => Stage::Baseline,
        _ => Stage::Tiers,
    };
    Rank { stage, placed: tier.is_some(), tier: tier.unwrap_or(0), priority, index: 0 }
}

/// Returns a rule of a policy with this rank; `None` if it has no effect.
pub fn rule<'r>(rule: &'r Rule, policy: Rank, references: &impl References<'r>) -> Option<ResolvedRule<'r>> {
    let peers = peers(&rule.peers, references);
    let unknown = peers.is_err() || beside_peers(rule, references).is_some();
    let rank = match policy.stage {
        Stage::NetworkPolicy => policy,
        Stage::Tiers | Stage::Baseline => Rank { index: rule.index, ..policy },
    };
    let effect = effect(rule, rank, unknown)?;
    Some(match peers {
        Ok(peers) if !unknown => ResolvedRule { rank, effect, peers, traffic: &rule.traffic },
        _ => ResolvedRule { rank, effect, peers: ResolvedPeers::Any, traffic: &ANY_TRAFFIC },
    })
}

/// Returns what in a rule cannot be read: something as it is written, or a group that it names.
pub fn unknown<'r>(rule: &'r Rule, references: &impl References<'r>) -> Option<&'r str> {
    peers(&rule.peers, references).err().or_else(|| beside_peers(rule, references))
}

/// What cannot be read in the traffic or the subjects of a rule.
fn beside_peers<'r>(rule: &'r Rule, references: &impl References<'r>) -> Option<&'r str> {
    let traffic = match &rule.traffic {
        TrafficMatches::Any => None,
        TrafficMatches::Of(all) => all.iter().find_map(|one| match one {
            TrafficMatch::Unknown(what) => Some(what.as_str()),
            _ => None,
        }),
    };
    traffic.or_else(|| {
        rule.subjects.iter().find_map(|subject| match subject {
            Subject::Group { group, .. } => references.group(group)?.as_ref().err().map(String::as_str),
            Subject::Pods(_) | Subject::Nodes(_) | Subject::Service(_) => None,
        })
    })
}

/// Resolves the peers of a rule, or returns what in them cannot be read.
fn peers<'r>(peers: &'r Peers, references: &impl References<'r>) -> Result<ResolvedPeers<'r>, &'r str> {
    let Peers::Of(peers) = peers else { return Ok(ResolvedPeers::Any) };
    let mut resolved = SmallVec::with_capacity(peers.len());
    for one in peers {
        resolved.extend(peer(one, references)?);
    }
    Ok(ResolvedPeers::Of(resolved))
}

/// What cannot be read fails closed, and so does a rule whose tier does not exist: it neither allows nor passes. In the
/// NetworkPolicy stage rules only allow.
fn effect(rule: &Rule, rank: Rank, unknown: bool) -> Option<Effect> {
    match (rule.action, unknown, rank.placed) {
        (_, true, _) if rank.stage == Stage::NetworkPolicy => None,
        (_, false, _) if rank.stage == Stage::NetworkPolicy => Some(Effect::Allow),
        (Action::Allow, true, _) | (Action::Allow, _, false) => None,
        (_, true, _) | (Action::Pass, _, false) => Some(Effect::Deny),
        _ => Some(Effect::of(rule)),
    }
}

/// Resolves a peer; `None` if no endpoint can be it. Fails with what in it cannot be read.
pub fn peer<'r>(
    peer: &'r Peer,
    references: &impl References<'r>,
) -> Result<Option<ResolvedPeer<'r>>, &'r str> {
    Ok(Some(match peer {
        Peer::Pods(set) => ResolvedPeer::Pods(set),
        Peer::Addresses(block) => ResolvedPeer::Addresses(std::slice::from_ref(block)),
        Peer::Nodes(selector) => ResolvedPeer::Nodes(selector),
        Peer::Names(names) => ResolvedPeer::Names(names),
        Peer::Service(name) => ResolvedPeer::Service(name),
        Peer::Group(group) => match references.group(group) {
            Some(Ok(members)) => ResolvedPeer::Group(members),
            Some(Err(what)) => return Err(what),
            // A group that does not exist has no members.
            None => return Ok(None),
        },
        Peer::Unknown(what) => return Err(what),
    }))
}

// === impl ResolvedPeers ===

impl<'r> ResolvedPeers<'r> {
    /// Emits each alternative, with the members of groups in place of the groups; nothing for [`ResolvedPeers::Any`].
    pub fn for_each(&self, mut emit: impl FnMut(ResolvedPeer<'r>)) {
        let ResolvedPeers::Of(peers) = self else { return };
        for peer in peers {
            match peer {
                ResolvedPeer::Group(members) => members.iter().for_each(|member| emit(member.into())),
                peer => emit(*peer),
            }
        }
    }
}
