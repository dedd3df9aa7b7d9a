//! What the index hands on: policies, sets, rules and who needs them, as a delta for each event.
//!
//! The three nouns that every backend shares:
//!
//! - a **set** is a selection of endpoints or addresses, once, whoever names it: as the *subject* of rules (whom they
//!   apply to) or as the *addresses* at their other end;
//! - a **rule** is one row of the pipeline: direction, order, what it does, subject, the other end, traffic. There are no
//!   names of ports in it, no tiers without a number, no groups and nothing relative: what a policy says once becomes
//!   as many rules as that takes;
//! - a **policy** is where rules come from: object, line and column, apart from the rules, so that a file that is
//!   edited above them does not change them.
//!
//! A delta is what one event changed and nothing else. Whoever can, applies it at once. Whoever cannot, applies its changes
//! one by one in their order: sets with their members come first, then rules, those that come first in the pipeline
//! first; then members move, all at once; then rules go, the last ones first, and sets that nothing names any more. So
//! at no moment does either end of a connection allow what it did not before and does not after. (Where a change of a
//! group or a tier moves policies of several stages at once, no order does that: such a delta is for applying at once.)

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use palisade_model::diagnostic::Location;
use palisade_model::pipeline::Effect;
use palisade_model::policy::{Direction, Layer7, Object, TrafficMatches};
use palisade_model::resolve::Rank;
use smallvec::SmallVec;
use smol_str::SmolStr;

pub use crate::id::{PolicyId, RuleId, SetId};
use crate::selection::Selection;

/// What one event changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Delta {
    /// How many events have changed something, this one included if it did.
    pub epoch: u64,
    /// In the order to apply them.
    pub changes: Vec<Change>,
}

/// One change of a view.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A policy was added, or its origin changed.
    PolicyApplied(PolicyId, Arc<Origin>),
    /// A set was added, with these members.
    SetAdded(SetId, Arc<Selection>, Vec<Arc<Member>>),
    /// A rule was added. Its policy and the sets that it names were added before it.
    RuleAdded(RuleId, Arc<CompiledRule>),
    /// A node needs a set from now on.
    NeedAdded(Need),
    /// Members join and leave sets, all of these at once.
    MembersMoved(Vec<Moved>),
    /// A node needs a set no longer.
    NeedRemoved(Need),
    /// A rule was removed.
    RuleRemoved(RuleId),
    /// A set was removed, after the rules that named it.
    SetRemoved(SetId),
    /// A policy was removed, after its rules.
    PolicyRemoved(PolicyId),
}

/// Where rules come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The object.
    pub object: Arc<Object>,
    /// Its rules, in the order written.
    pub rules: Box<[RuleOrigin]>,
}

/// Where one rule comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleOrigin {
    /// Its direction.
    pub direction: Direction,
    /// Its place among those of that direction.
    pub index: u32,
    /// Its name, if it has one.
    pub name: Option<SmolStr>,
    /// Where it is written.
    pub at: Option<Location>,
}

/// A member of a set, as a data plane needs it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// What it is.
    pub kind: MemberKind,
    /// Its namespace; empty where there is none.
    pub namespace: SmolStr,
    /// Its name; empty for an address.
    pub name: SmolStr,
    /// Its addresses; a pod that has not started has none.
    pub addresses: SmallVec<[IpAddr; 1]>,
    /// The node it runs on.
    pub node: Option<SmolStr>,
}

/// What a member is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberKind {
    /// A pod.
    Pod,
    /// The template of a workload of this kind, which stands for its pods.
    Template(SmolStr),
    /// An external entity.
    Entity,
    /// A node.
    Node,
    /// A service.
    Service,
    /// An address.
    Address,
}

/// Members that come and go together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// Who: they are the same to every rule.
    pub members: Members,
    /// The sets they are in now.
    pub joined: SmallVec<[SetId; 4]>,
    /// The sets they are not in any more.
    pub left: SmallVec<[SetId; 4]>,
}

/// Members, mostly one.
pub type Members = SmallVec<[Arc<Member>; 1]>;

/// One row of the pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct CompiledRule {
    /// The policy it comes from.
    pub policy: PolicyId,
    /// Its place among the policy's rules of its direction ([`Origin::rule`]); none for an isolation.
    pub rule: Option<u32>,
    /// Its direction; an isolation may be for both.
    pub directions: Directions,
    /// Its order of evaluation. Rules of equal rank are ordered by the objects of their policies.
    pub rank: Rank,
    /// What it does.
    pub effect: RuleEffect,
    /// Whom it applies to.
    pub subject: SetId,
    /// Who must be at the other end: in any of these; anybody if there is no list.
    pub peers: Option<SmallVec<[SetId; 2]>>,
    /// Where it is there, whoever receives the connection must be in this set as well.
    pub destination: Option<SetId>,
    /// What must be carried. Ports have numbers.
    pub traffic: TrafficMatches,
    /// What must hold inside the connection, on layer 7, for an Allow to hold: see [`palisade_model::policy::Rule`].
    pub layer7: Vec<Layer7>,
    /// Whether what it decides is to be written down, and with which label, which may be empty.
    pub log: Option<SmolStr>,
}

/// The order in which rules are added: by rank, and of equal rank those that allow before those that isolate.
pub(crate) type Turn = (Rank, bool);

/// One direction or both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Directions {
    /// Connections that the subject receives.
    pub ingress: bool,
    /// Connections that the subject opens.
    pub egress: bool,
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleEffect {
    /// Its subject may do only what some rule of the NetworkPolicy stage allows, in these directions.
    Isolate,
    /// Decides about the connections it matches.
    Decide(Effect),
}

/// What a node needs of a set, because some pod of it, or the node itself, is in the subject of a rule that names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Need {
    /// The set.
    pub set: SetId,
    /// What of it.
    pub part: Part,
    /// The node; all of them, if there is none: whoever comes from outside to a service may come in anywhere.
    pub node: Option<SmolStr>,
}

/// What of a set a node needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The rules that apply to it, and those of its members that are on the node.
    Subject,
    /// All of its members.
    Addresses,
}

// === impl Origin ===

impl Origin {
    /// Where a rule comes from; none for an isolation.
    pub fn rule(&self, rule: &CompiledRule) -> Option<&RuleOrigin> {
        let mut own = self.rules.iter().filter(|origin| rule.directions.contains(origin.direction));
        own.nth(rule.rule? as usize)
    }
}

// === impl RuleEffect ===

impl RuleEffect {
    pub(crate) fn turn(self, rank: Rank) -> Turn {
        (rank, self == RuleEffect::Isolate)
    }
}

// === impl Directions ===

impl Directions {
    /// Whether a direction is among them.
    pub fn contains(self, direction: Direction) -> bool {
        match direction {
            Direction::Egress => self.egress,
            Direction::Ingress => self.ingress,
        }
    }

    /// These, and another.
    #[must_use]
    pub fn with(self, direction: Direction) -> Self {
        match direction {
            Direction::Egress => Directions { egress: true, ..self },
            Direction::Ingress => Directions { ingress: true, ..self },
        }
    }
}

impl From<Direction> for Directions {
    fn from(direction: Direction) -> Self {
        Directions::default().with(direction)
    }
}

impl fmt::Display for Directions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.ingress, self.egress) {
            (true, true) => "ingress and egress",
            (true, false) => "ingress",
            (false, true) => "egress",
            (false, false) => "no direction",
        })
    }
}
