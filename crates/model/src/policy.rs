//! The rule language that every dialect is lowered to: what was meant, relative to nothing but the object itself.
//!
//! No pod is looked up, no selector expanded and no tier resolved while lowering, so that lowering one object never
//! depends on another. A [`Policy`] is one object: where it stands in the pipeline, what it isolates, and its rules.
//! Everything carries its origin, through to the last line of a trace.

use std::fmt;
use std::sync::Arc;

use smol_str::SmolStr;

use crate::address::Block;
use crate::cluster::NAMESPACE_NAME_LABEL;
use crate::diagnostic::Location;
use crate::label::{Operator, Requirement, Selector};
use crate::traffic::{PortRange, Protocol};

/// One policy object, lowered.
#[derive(Debug, Clone)]
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
#[derive(Debug, Clone)]
pub struct Isolation {
    /// Whom.
    pub subjects: Arc<[PodSet]>,
    /// In which direction.
    pub direction: Direction,
}

/// One rule.
#[derive(Debug, Clone)]
pub struct Rule {
    /// For which direction.
    pub direction: Direction,
    /// Its place in the policy's list for that direction.
    pub index: u32,
    /// Its name, if it has one.
    pub name: Option<SmolStr>,
    /// Whom it applies to: any of these.
    pub subjects: Arc<[PodSet]>,
    /// What it does.
    pub action: Action,
    /// The other end: any of these.
    pub peers: Peers,
    /// The traffic: any of these.
    pub traffic: TrafficMatches,
    /// Where it is written.
    pub at: Option<Location>,
}

/// Pods, by namespace and labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodSet {
    /// In these namespaces.
    pub namespaces: Namespaces,
    /// With these labels.
    pub pods: Selector,
}

/// A set of namespaces.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Namespaces {
    /// The one of this name.
    Named(SmolStr),
    /// Those with these labels.
    Matching(Selector),
    /// The subject's own.
    Own,
    /// Those that have all of these labels with the subject's own values.
    SameLabels(Vec<SmolStr>),
    /// Those that have all of these labels, at least one of them with another value than the subject's.
    NotSameLabels(Vec<SmolStr>),
}

/// The other end of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peers {
    /// Anybody.
    Any,
    /// Any of these; nobody when there is none.
    Of(Vec<Peer>),
}

/// One alternative for the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// Pods.
    Pods(PodSet),
    /// Addresses.
    Addresses(Block),
    /// Nodes, by their labels.
    Nodes(Selector),
    /// Whatever these DNS names stand for.
    Names(Vec<DomainName>),
    /// Something we cannot read, in the words for a trace. The whole rule fails closed: see [`Rule::unknown`].
    Unknown(String),
}

/// A DNS name, or `*.` and a name, which stands for one or more labels before it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainName {
    /// Whether it began with `*.`.
    pub wildcard: bool,
    /// The name behind the wildcard, lower case, without a final dot.
    pub name: SmolStr,
}

/// The traffic of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrafficMatches {
    /// Any.
    Any,
    /// Any of these; none when there is none.
    Of(Vec<TrafficMatch>),
}

/// One alternative for the traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrafficMatch {
    /// A protocol and a range of destination ports.
    Ports(Protocol, PortRange),
    /// The destination pod's port of this name; with no protocol given, whatever protocol that port has.
    Named(Option<Protocol>, SmolStr),
    /// Something we cannot read, in the words for a trace. The whole rule fails closed: see [`Rule::unknown`].
    Unknown(String),
}

// === impl Object ===

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

impl Object {
    /// `namespace/name`, or the name alone for cluster-scoped objects.
    pub fn full_name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.to_string(),
        }
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
    /// What in the rule cannot be read, if anything. Such a rule fails closed as a whole: an Allow rule matches nothing,
    /// any other denies everything, as the API's text has it for unknown peers.
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

// === impl PodSet ===

impl PodSet {
    /// Every pod of a namespace.
    pub fn all_of(namespace: &str) -> Self {
        PodSet { namespaces: Namespaces::Named(namespace.into()), pods: Selector::everything() }
    }

    /// Every pod of every namespace.
    pub fn everything() -> Self {
        PodSet { namespaces: Namespaces::Matching(Selector::everything()), pods: Selector::everything() }
    }
}

impl fmt::Display for PodSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.namespaces, self.pods.is_everything()) {
            (Namespaces::Matching(selector), true) if selector.is_everything() => f.write_str("any pod"),
            (Namespaces::Matching(selector), false) if selector.is_everything() => {
                write!(f, "pods with {} anywhere", self.pods)
            }
            (namespaces, true) => write!(f, "pods of {namespaces}"),
            (namespaces, false) => write!(f, "pods with {} of {namespaces}", self.pods),
        }
    }
}

// === impl Namespaces ===

impl fmt::Display for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Namespaces::Named(name) => write!(f, "namespace {name}"),
            Namespaces::Matching(selector) if selector.is_everything() => f.write_str("any namespace"),
            // The label that every namespace carries is just a way to name it.
            Namespaces::Matching(selector) if let Some(names) = named(selector) => {
                let plural = if names.len() == 1 { "" } else { "s" };
                write!(f, "namespace{plural} {}", names.join(", "))
            }
            Namespaces::Matching(selector) => write!(f, "namespaces with {selector}"),
            Namespaces::Own => f.write_str("the same namespace"),
            Namespaces::SameLabels(keys) => write!(f, "namespaces with the same {}", keys.join(", ")),
            Namespaces::NotSameLabels(keys) => write!(f, "namespaces with another {}", keys.join(" or ")),
        }
    }
}

/// The names, where a selector does nothing but name namespaces.
fn named(selector: &Selector) -> Option<&[SmolStr]> {
    match selector.requirements() {
        [Requirement { key, operator: Operator::In(names) }] if key == NAMESPACE_NAME_LABEL => Some(names),
        _ => None,
    }
}

// === impl Peer ===

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Pods(pods) => pods.fmt(f),
            Peer::Addresses(block) => block.fmt(f),
            Peer::Nodes(selector) if selector.is_everything() => f.write_str("any node"),
            Peer::Nodes(selector) => write!(f, "nodes with {selector}"),
            Peer::Names(names) => {
                let names: Vec<String> = names.iter().map(ToString::to_string).collect();
                f.write_str(&names.join(", "))
            }
            Peer::Unknown(what) => write!(f, "an unknown peer ({what})"),
        }
    }
}

// === impl DomainName ===

impl DomainName {
    /// From the text of a policy, in any case, with or without the final dot.
    pub fn new(text: &str) -> Self {
        let text = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        match text.strip_prefix("*.") {
            Some(name) => DomainName { wildcard: true, name: name.into() },
            None => DomainName { wildcard: false, name: text.into() },
        }
    }

    /// Whether a concrete name is meant by it.
    pub fn matches(&self, name: &str) -> bool {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        if self.wildcard {
            name.strip_suffix(self.name.as_str())
                .and_then(|head| head.strip_suffix('.'))
                .is_some_and(|head| !head.is_empty())
        } else {
            self.name == name
        }
    }
}

impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.wildcard { "*." } else { "" }, self.name)
    }
}

// === impl TrafficMatch ===

impl fmt::Display for TrafficMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrafficMatch::Ports(protocol, PortRange::ALL) => write!(f, "any {protocol} port"),
            TrafficMatch::Ports(protocol, range) => write!(f, "{protocol}/{range}"),
            TrafficMatch::Named(Some(protocol), name) => write!(f, "{protocol}/{name}"),
            TrafficMatch::Named(None, name) => write!(f, "port {name}"),
            TrafficMatch::Unknown(what) => write!(f, "unknown traffic ({what})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_is_one_or_more_labels() {
        let name = DomainName::new("*.Example.com.");
        assert!(name.matches("a.example.com"));
        assert!(name.matches("a.b.example.com."));
        assert!(!name.matches("example.com"));
        assert!(!name.matches(".example.com"));
        assert!(!name.matches("badexample.com"));
        assert!(DomainName::new("example.com").matches("EXAMPLE.com."));
    }

    #[test]
    fn pod_sets_read_as_sentences() {
        let pods =
            |namespaces, selector: &Selector| PodSet { namespaces, pods: selector.clone() }.to_string();
        let web = Selector::label("app", "web");
        assert_eq!(pods(Namespaces::Named("shop".into()), &web), "pods with app=web of namespace shop");
        assert_eq!(pods(Namespaces::Matching(Selector::everything()), &web), "pods with app=web anywhere");
        assert_eq!(PodSet::everything().to_string(), "any pod");
        assert_eq!(PodSet::all_of("shop").to_string(), "pods of namespace shop");
        assert_eq!(
            pods(Namespaces::SameLabels(vec!["tenant".into()]), &Selector::everything()),
            "pods of namespaces with the same tenant"
        );
    }
}
