//! The rule language that every dialect is lowered to: what was meant, relative to nothing but the object itself.
//!
//! No pod is looked up, no selector expanded and no tier resolved while lowering, so that lowering one object never
//! depends on another. A [`Policy`] is one object: where it stands in the pipeline, what it isolates, and its rules.
//! Everything carries its origin, through to the last line of a trace.

use std::fmt;
use std::sync::Arc;

use smol_str::SmolStr;

use crate::diagnostic::Location;
use crate::traffic::{Protocol, Traffic};

mod carried;
mod endpoints;

pub use carried::{IcmpMatch, Layer7, PortMatch, TrafficMatch, TrafficMatches};
pub use endpoints::{DomainName, Namespaces, Peer, Peers, PodSet, ServiceName, Subject};

/// One policy object, lowered.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Which object it is.
    pub object: Arc<Object>,
    /// Where it stands in the pipeline.
    pub placement: Placement,
    /// Whom it isolates, in union stages.
    pub isolations: Vec<Isolation>,
    /// Its rules, in the order written, ingress and egress numbered separately.
    pub rules: Vec<Rule>,
    /// What of the object as a whole cannot be read, if anything. Isolations and rules have been made to fail closed for
    /// it; this is for telling people why.
    pub unreadable: Option<String>,
}

/// The identity and the place of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Object {
    /// The kind, e.g. `NetworkPolicy`.
    pub kind: SmolStr,
    /// The namespace; `None` for cluster-scoped objects.
    pub namespace: Option<SmolStr>,
    /// The name.
    pub name: SmolStr,
    /// The API group, empty for the core.
    pub group: SmolStr,
    /// The API's version of the group, e.g. `v1`.
    pub version: SmolStr,
    /// `metadata.generation`, 0 where nobody counted.
    pub generation: i64,
    /// Where it is written.
    pub at: Option<Location>,
    /// The dialect it is written in. The kind alone does not tell: two have a NetworkPolicy, and two a ClusterNetworkPolicy.
    pub dialect: Dialect,
}

/// The API, or format of documents, that a policy is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// `networking.k8s.io/v1`.
    NetworkPolicy,
    /// `extensions/v1beta1`, and the namespace's annotation.
    NetworkPolicy2016,
    /// `policy.networking.k8s.io/v1alpha1`.
    AdminNetworkPolicy,
    /// `policy.networking.k8s.io/v1alpha2`.
    ClusterNetworkPolicy,
    /// `crd.antrea.io/v1beta1`.
    Antrea,
    /// `security.antrea.tanzu.vmware.com/v1alpha1`.
    Antrea2020,
    /// Thorium's documents.
    Thorium,
}

/// Where a policy stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// In a tier: the first rule that matches decides. Tiers up to 251 come before the NetworkPolicy stage, the ones
    /// from 253 after it.
    Tier {
        /// Which tier.
        tier: Tier,
        /// The policy's place inside the tier; lower comes first.
        priority: Priority,
    },
    /// In the NetworkPolicy stage: any allow allows; else an isolated endpoint denies.
    Union,
}

/// A tier, by its number or by a name that the world resolves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// A fixed place, with the name it goes by.
    Fixed(u8, &'static str),
    /// An object of that name. If there is none, that is a fact of the world: the policy has no place.
    Named(SmolStr),
}

/// A policy's priority: a finite number, lower is earlier. (Antrea's are fractions.)
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Priority(pub f64);

/// Ingress or egress, seen from the endpoint a policy applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Connections that the subject opens.
    Egress,
    /// Connections that the subject receives.
    Ingress,
}

/// What a rule does with the connections it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Let it through; final for this direction.
    Allow,
    /// Drop it silently; final.
    Deny,
    /// Refuse it with an answer; final.
    Reject,
    /// Leave the tiers for the stage behind them.
    Pass,
}

/// Endpoints that may do only what some rule allows, in one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Isolation {
    /// Whom.
    pub subjects: Arc<[Subject]>,
    /// In which direction.
    pub direction: Direction,
}

/// One rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// For which direction.
    pub direction: Direction,
    /// Its place in the policy's list for that direction.
    pub index: u32,
    /// Its name, if it has one.
    pub name: Option<SmolStr>,
    /// Whom it applies to: any of these.
    pub subjects: Arc<[Subject]>,
    /// What it does.
    pub action: Action,
    /// The other end: any of these.
    pub peers: Peers,
    /// The traffic: any of these.
    pub traffic: TrafficMatches,
    /// What must hold inside the connection, on layer 7: any of these, or anything when there is none. It cannot be
    /// decided from a flow, so it is carried and shown: the rule matches, and what it allows is allowed on condition.
    pub layer7: Vec<Layer7>,
    /// Whether what it decides is to be written down by whoever enforces it, and with which label, which may be empty.
    pub log: Option<SmolStr>,
    /// Where it is written.
    pub at: Option<Location>,
}

// === impl Object ===

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.full_kind(), self.name),
            None => write!(f, "{} {}", self.full_kind(), self.name),
        }
    }
}

impl Object {
    /// Returns the kind, with the dialect where another dialect has a kind of this name.
    pub fn full_kind(&self) -> SmolStr {
        match self.dialect.prefix() {
            Some(prefix) => format!("{prefix} {}", self.kind).into(),
            None => self.kind.clone(),
        }
    }

    /// `namespace/name`, or the name alone for cluster-scoped objects.
    pub fn full_name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.to_string(),
        }
    }
}

// === impl Dialect ===

impl Dialect {
    /// Returns what is put before a kind of this dialect to distinguish it from the same kind of another.
    pub fn prefix(self) -> Option<&'static str> {
        self.is_antrea().then_some("Antrea")
    }

    /// Returns whether this is one of Antrea's two API groups.
    pub fn is_antrea(self) -> bool {
        matches!(self, Dialect::Antrea | Dialect::Antrea2020)
    }
}

// === impl Priority ===

impl Eq for Priority {}

impl PartialOrd for Priority {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Priority {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl Direction ===

impl Direction {
    /// Both, in the order a packet meets them.
    pub const BOTH: [Direction; 2] = [Direction::Egress, Direction::Ingress];

    /// `egress` or `ingress`.
    pub fn as_str(self) -> &'static str {
        match self {
            Direction::Egress => "egress",
            Direction::Ingress => "ingress",
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Action ===

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Action::Allow => "Allow",
            Action::Deny => "Deny",
            Action::Reject => "Reject",
            Action::Pass => "Pass",
        })
    }
}

// === impl Rule ===

impl Rule {
    /// A rule of a policy that only allows, and whose rules have no names.
    pub fn allow(
        direction: Direction,
        index: usize,
        subjects: &Arc<[Subject]>,
        (peers, traffic): (Peers, TrafficMatches),
        at: Option<Location>,
    ) -> Self {
        Rule {
            direction,
            index: u32::try_from(index).unwrap_or(u32::MAX),
            name: None,
            subjects: Arc::clone(subjects),
            action: Action::Allow,
            peers,
            traffic,
            layer7: Vec::new(),
            log: None,
            at,
        }
    }

    /// What it does with a connection that it matches. HTTP and TLS are inside of TCP: what its conditions cannot hold
    /// for, it drops, as it drops everything that does not fulfil them.
    pub fn action_for(&self, traffic: Traffic) -> Action {
        match self.action {
            Action::Allow if !self.layer7.is_empty() && traffic.protocol != Protocol::Tcp => Action::Deny,
            action => action,
        }
    }

    /// What in the rule cannot be read, if anything. Such a rule fails closed as a whole: an Allow rule matches nothing,
    /// any other denies everything, as the API's text has it for unknown peers. A group that is missing does the same,
    /// which only the snapshot knows: [`crate::matching::Context::unknown`].
    pub fn unknown(&self) -> Option<&str> {
        let peer = match &self.peers {
            Peers::Any => None,
            Peers::Of(peers) => peers.iter().find_map(|peer| match peer {
                Peer::Unknown(what) => Some(what.as_str()),
                _ => None,
            }),
        };
        peer.or_else(|| match &self.traffic {
            TrafficMatches::Any => None,
            TrafficMatches::Of(matches) => matches.iter().find_map(|one| match one {
                TrafficMatch::Unknown(what) => Some(what.as_str()),
                _ => None,
            }),
        })
    }
}
