//! A policy with its meaning: what the document says, and beside it what Thorium's program makes of the same text.
//!
//! Both are worked out while a policy is checked, so that whatever comes after (verdicts, Kubernetes objects, words)
//! is written once and asks for one [`Reading`] or the other.

use std::fmt;

use palisade_model::address::Block;
use palisade_model::cluster::NAMESPACE_NAME_LABEL;
use palisade_model::diagnostic::{Location, Subject};
use palisade_model::label::{Requirement, Selector};
use palisade_model::policy::{Direction, Namespaces, PodSet};
use palisade_model::traffic::{PortRange, Protocol};
use smol_str::SmolStr;

/// Who is right where Thorium's document and its program differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reading {
    /// The document.
    #[default]
    Document,
    /// The program, as far as it can be told from the files.
    Program,
}

/// A network policy or a base network policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Its name, any text.
    pub name: SmolStr,
    /// Which of the two.
    pub sort: Sort,
    /// The groups it is in; none for a base policy, which is in all of them.
    pub groups: Vec<Spot>,
    /// Connections into tools.
    pub ingress: Side,
    /// Connections out of tools.
    pub egress: Side,
    /// Whether it applies to all tools of its groups.
    pub forced: bool,
    /// Whether it may, because something of it cannot be read.
    pub perhaps_forced: bool,
    /// Whether it may be in any group, because nobody can say in which it is.
    pub everywhere: bool,
    /// Whether new images get it that bring no policy.
    pub default: bool,
    /// What of it cannot be read, if anything: it isolates in both directions then, and allows nobody.
    pub unreadable: Option<String>,
    /// Whether that holds for the program, too: what it would have read is not there.
    pub lost: bool,
    /// Why Thorium's program, or Kubernetes after it, does not have the policy in force.
    pub refused: Option<String>,
    /// Where it is written; nowhere for the default base policy.
    pub at: Option<Location>,
}

/// What sort of policy it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    /// Applies to every tool of every group.
    Base,
    /// Applies to the tools that have it, or to all of its groups.
    Regular,
}

/// A name, and where it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Spot {
    /// The name.
    pub name: SmolStr,
    /// The field's path.
    pub field: String,
    /// The place.
    pub at: Location,
}

/// What a policy says about one direction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Side {
    /// Its rules; without a list it says nothing.
    pub rules: Option<Vec<Rule>>,
    /// What the program takes a direction for that has nothing behind it.
    pub null: Option<Null>,
}

/// What nothing behind `ingress:` is to Thorium's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Null {
    /// Nothing said: requests and thorium.yml.
    Missing,
    /// An empty list: rules files.
    Empty,
}

/// One rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// What the document says.
    pub document: Meaning,
    /// What the program does.
    pub program: Meaning,
    /// What of it cannot be read, if anything: it allows nobody then, whatever the program does.
    pub unreadable: Option<String>,
    /// Whether that holds for the program, too.
    pub lost: bool,
    /// The groups it names, whatever else it says.
    pub groups: Vec<Spot>,
    /// Where it is written; nowhere in the default base policy.
    pub at: Option<Location>,
}

/// Whom a rule allows, and on what.
#[derive(Debug, Clone, PartialEq)]
pub struct Meaning {
    /// The other end.
    pub who: Who,
    /// The ports; without any, all traffic.
    pub ports: Vec<Ports>,
}

/// The other end of a rule.
#[derive(Debug, Clone, PartialEq)]
pub enum Who {
    /// Anybody.
    Everybody,
    /// Any of these; nobody when there is none.
    Of(Vec<Peer>),
}

/// One alternative for the other end.
#[derive(Debug, Clone, PartialEq)]
pub enum Peer {
    /// All pods of a group's namespace.
    Group(Spot),
    /// The pods of a tool in the group that the policy is in.
    Tool(SmolStr),
    /// Addresses.
    Addresses(Block),
    /// Pods by labels.
    Labels {
        /// In these namespaces.
        namespaces: Home,
        /// With these labels.
        pods: Vec<(SmolStr, SmolStr)>,
    },
}

/// The namespaces of a peer with labels.
#[derive(Debug, Clone, PartialEq)]
pub enum Home {
    /// Any.
    Any,
    /// The one of the group that the policy is in.
    Own,
    /// Those with these labels.
    Labels(Vec<(SmolStr, SmolStr)>),
}

/// A protocol and its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ports {
    /// The protocol.
    pub protocol: Protocol,
    /// The ports.
    pub range: PortRange,
}

/// The label that Thorium puts on every pod of a tool.
pub const TOOL_LABEL: (&str, &str) = ("thorium", "true");
/// The label with the tool's name.
pub const STAGE_LABEL: &str = "stage";

// === impl Policy ===

impl Policy {
    /// The rules of a direction; `None` when nothing is said about it.
    pub fn rules(&self, direction: Direction, reading: Reading) -> Option<&[Rule]> {
        let (side, other) = match direction {
            Direction::Ingress => (&self.ingress, &self.egress),
            Direction::Egress => (&self.egress, &self.ingress),
        };
        // Something that nobody understands may have been about either direction.
        if self.unreadable(reading).is_some() {
            return Some(side.rules.as_deref().unwrap_or_default());
        }
        match (reading, side.null, side.rules.as_deref()) {
            (Reading::Document, Some(_), _) | (Reading::Program, Some(Null::Empty), _) => Some(&[]),
            (_, None, Some(rules)) => Some(rules),
            // Kubernetes takes an object that names no direction for one about ingress.
            (Reading::Program, ..) if direction == Direction::Ingress && other.is_missing() => Some(&[]),
            _ => None,
        }
    }

    /// What of the whole policy cannot be read, in that reading: the program goes over fields that it does not know.
    pub fn unreadable(&self, reading: Reading) -> Option<&str> {
        self.unreadable.as_deref().filter(|_| reading == Reading::Document || self.lost)
    }

    /// Whether it is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.sort == Sort::Base || self.everywhere || self.groups.iter().any(|spot| spot.name == group)
    }

    /// Whether it applies to all tools of its groups, or may.
    pub fn is_forced(&self, reading: Reading) -> bool {
        self.forced || self.perhaps_forced && (reading == Reading::Document || self.lost)
    }

    /// Makes the program's reading the document's: the program does not start with such a text.
    pub(super) fn read_as_the_document(&mut self) {
        self.lost = true;
        self.refused = None;
        for side in [&mut self.ingress, &mut self.egress] {
            side.null = side.null.map(|_| Null::Empty);
            for rule in side.rules.iter_mut().flatten() {
                rule.program = rule.document.clone();
                rule.lost = true;
            }
        }
    }

    /// Whether it is in force at all.
    pub fn in_force(&self, reading: Reading) -> bool {
        reading == Reading::Document || self.refused.is_none()
    }

    /// The kind under which it appears in answers.
    pub fn kind(&self) -> &'static str {
        match self.sort {
            Sort::Base => "ThoriumBasePolicy",
            Sort::Regular => "ThoriumPolicy",
        }
    }

    /// The policy, for a diagnostic.
    pub fn subject(&self) -> Subject {
        Subject { kind: self.kind().into(), namespace: None, name: self.name.clone() }
    }

    /// All rules, ingress first, whatever they are worth.
    pub fn all_rules(&self) -> impl Iterator<Item = &Rule> {
        [&self.ingress, &self.egress].into_iter().flat_map(|side| side.rules.iter().flatten())
    }

    /// The same, to be changed.
    pub(super) fn all_rules_mut(&mut self) -> impl Iterator<Item = &mut Rule> {
        [&mut self.ingress, &mut self.egress].into_iter().flat_map(|side| side.rules.iter_mut().flatten())
    }
}

// === impl Side ===

impl Side {
    /// Whether nothing is said about the direction, as the program sees it.
    pub(super) fn is_missing(&self) -> bool {
        match self.null {
            None => self.rules.is_none(),
            Some(null) => null == Null::Missing,
        }
    }
}

// === impl Rule ===

impl Rule {
    /// What it allows.
    pub fn meaning(&self, reading: Reading) -> &Meaning {
        match reading {
            Reading::Document => &self.document,
            Reading::Program => &self.program,
        }
    }

    /// What of it cannot be read, in that reading: the program goes over unknown fields, and refuses the rest with the
    /// whole policy.
    pub fn unreadable(&self, reading: Reading) -> Option<&str> {
        self.unreadable.as_deref().filter(|_| reading == Reading::Document || self.lost)
    }
}

// === impl Peer ===

impl Peer {
    /// The pods it stands for, seen from a policy in a group; `None` for addresses.
    pub fn pods(&self, group: &str) -> Option<PodSet> {
        let named = |name: &str| Namespaces::Matching(Selector::label(NAMESPACE_NAME_LABEL, name));
        Some(match self {
            Peer::Addresses(_) => return None,
            Peer::Group(spot) => PodSet::new(named(&spot.name), Selector::everything()),
            Peer::Tool(tool) => {
                PodSet::new(Namespaces::Named(group.into()), Selector::label(STAGE_LABEL, tool))
            }
            Peer::Labels { namespaces, pods } => PodSet::new(
                match namespaces {
                    Home::Any => Namespaces::Matching(Selector::everything()),
                    Home::Own => Namespaces::Named(group.into()),
                    Home::Labels(labels) => Namespaces::Matching(selector(labels)),
                },
                selector(pods),
            ),
        })
    }
}

fn selector(labels: &[(SmolStr, SmolStr)]) -> Selector {
    Selector::new(labels.iter().map(|(key, value)| Requirement::equals(key, value)))
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Group(spot) => write!(f, "group {}", spot.name),
            Peer::Tool(tool) => write!(f, "tool {tool} of the same group"),
            Peer::Addresses(block) => block.fmt(f),
            Peer::Labels { .. } => match self.pods("") {
                Some(PodSet { namespaces: Namespaces::Named(_), pods, .. }) => {
                    write!(f, "pods with {pods} of the same group")
                }
                Some(pods) => pods.fmt(f),
                None => Ok(()),
            },
        }
    }
}

// === impl Ports ===

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.protocol, self.range)
    }
}
