//! Who is at the ends of a rule: its subjects, and its peers.

use std::fmt;

use smol_str::SmolStr;

use crate::address::Block;
use crate::cluster::NAMESPACE_NAME_LABEL;
use crate::group::GroupName;
use crate::label::{Operator, Requirement, Selector};

/// Whom a rule applies to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// Pods.
    Pods(PodSet),
    /// Nodes themselves, by their labels.
    Nodes(Selector),
    /// A service, for what comes to it from outside the cluster; its backends are not meant by themselves.
    Service(ServiceName),
    /// The members of a group.
    Group {
        /// Which group; nobody when there is none.
        group: GroupName,
        /// Only those of this namespace: a namespaced policy does not reach beyond its own.
        within: Option<SmolStr>,
    },
}

/// Pods, or external entities, by namespace and labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodSet {
    /// In these namespaces.
    pub namespaces: Namespaces,
    /// With these labels.
    pub pods: Selector,
    /// Only those that run under this service account.
    pub account: Option<SmolStr>,
    /// External entities instead of pods.
    pub external: bool,
}

/// A service, by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceName {
    /// Its namespace.
    pub namespace: SmolStr,
    /// Its name.
    pub name: SmolStr,
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
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Peer {
    /// Pods.
    Pods(PodSet),
    /// Addresses.
    Addresses(Block),
    /// Nodes, by their labels.
    Nodes(Selector),
    /// Whatever these DNS names stand for.
    Names(Vec<DomainName>),
    /// What goes to a service, judged by the address before translation.
    Service(ServiceName),
    /// The members of a group. One that is missing or cannot be read makes the whole rule fail closed.
    Group(GroupName),
    /// Something we cannot read, in the words for a trace. The whole rule fails closed: see [`super::Rule::unknown`].
    Unknown(String),
}

/// A DNS name or many, lower case, without a final dot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DomainName {
    /// This one.
    Exact(SmolStr),
    /// Every name with one or more labels before this one: written `*.example.com`.
    Below(SmolStr),
    /// Every name of this form, where each `*` stands for any text, also for none and for dots.
    Form(SmolStr),
}

// === impl Subject ===

impl From<PodSet> for Subject {
    fn from(set: PodSet) -> Self {
        Subject::Pods(set)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Pods(set) => set.fmt(f),
            Subject::Nodes(selector) if selector.is_everything() => f.write_str("any node"),
            Subject::Nodes(selector) => write!(f, "nodes with {selector}"),
            Subject::Service(service) => write!(f, "service {service} from outside"),
            Subject::Group { group, within: None } => write!(f, "group {group}"),
            Subject::Group { group, within: Some(namespace) } => {
                write!(f, "group {group}, in namespace {namespace}")
            }
        }
    }
}

// === impl ServiceName ===

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

// === impl PodSet ===

impl PodSet {
    /// The pods of these namespaces with these labels.
    pub fn new(namespaces: Namespaces, pods: Selector) -> Self {
        PodSet { namespaces, pods, account: None, external: false }
    }

    /// Every pod of a namespace.
    pub fn all_of(namespace: &str) -> Self {
        PodSet::new(Namespaces::Named(namespace.into()), Selector::everything())
    }

    /// Every pod of every namespace.
    pub fn everything() -> Self {
        PodSet::new(Namespaces::Matching(Selector::everything()), Selector::everything())
    }
}

impl fmt::Display for PodSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let many = if self.external { "external entities" } else { "pods" };
        let mut with: Vec<String> = Vec::new();
        with.extend(self.account.as_ref().map(|account| format!("service account {account}")));
        with.extend((!self.pods.is_everything()).then(|| self.pods.to_string()));
        let with = if with.is_empty() { String::new() } else { format!(" with {}", with.join(" and ")) };
        match &self.namespaces {
            Namespaces::Matching(selector) if selector.is_everything() => match with.as_str() {
                "" if self.external => f.write_str("any external entity"),
                "" => f.write_str("any pod"),
                with => write!(f, "{many}{with} anywhere"),
            },
            namespaces => write!(f, "{many}{with} of {namespaces}"),
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
            Peer::Service(service) => write!(f, "service {service}"),
            Peer::Group(group) => write!(f, "group {group}"),
            Peer::Unknown(what) => write!(f, "an unknown peer ({what})"),
        }
    }
}

// === impl DomainName ===

impl DomainName {
    /// From the text of an admin policy, in any case, with or without the final dot: a `*.` in front stands for one or
    /// more labels.
    pub fn new(text: &str) -> Self {
        let text = canonical(text);
        match text.strip_prefix("*.") {
            Some(name) => DomainName::Below(name.into()),
            None => DomainName::Exact(text.into()),
        }
    }

    /// From the text of an Antrea policy, where a `*` may stand anywhere and for anything.
    pub fn form(text: &str) -> Self {
        let text = canonical(text);
        if text.contains('*') { DomainName::Form(text.into()) } else { DomainName::Exact(text.into()) }
    }

    /// A concrete name as names are compared: in lower case, without a final dot.
    pub fn canonical(name: &str) -> SmolStr {
        canonical(name).into()
    }

    /// Whether a concrete name is meant by it.
    pub fn matches(&self, name: &str) -> bool {
        let name = canonical(name);
        match self {
            DomainName::Exact(exact) => *exact == name,
            DomainName::Below(parent) => name
                .strip_suffix(parent.as_str())
                .and_then(|head| head.strip_suffix('.'))
                .is_some_and(|head| !head.is_empty()),
            DomainName::Form(form) => has_form(&name, form),
        }
    }
}

fn canonical(text: &str) -> String {
    text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase()
}

/// Whether a name has a form with stars: its pieces are found from left to right, the first at the start, the last at
/// the end. Taking the first place for each piece between loses nothing.
fn has_form(name: &str, form: &str) -> bool {
    let mut pieces = form.split('*');
    let Some(mut rest) = name.strip_prefix(pieces.next().unwrap_or("")) else { return false };
    let last = pieces.next_back().unwrap_or("");
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DomainName::Exact(name) | DomainName::Form(name) => f.write_str(name),
            DomainName::Below(name) => write!(f, "*.{name}"),
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
    fn stars_stand_for_anything() {
        let matches = |form: &str, name: &str| DomainName::form(form).matches(name);
        for name in ["foo.com", "a.b.foo.com", "xfoo.com"] {
            assert!(matches("*foo.com", name), "{name}");
        }
        assert!(!matches("*.foo.com", "foo.com"));
        assert!(matches("api-*.example.*", "API-1.example.org."));
        assert!(matches("*", "anything"));
        assert!(!matches("a*b*c", "acb"));
        assert!(!matches("a*a", "a"));
        assert!(matches("foo.com", "FOO.com"));
    }

    #[test]
    fn pod_sets_read_as_sentences() {
        let pods = |namespaces, selector: &Selector| PodSet::new(namespaces, selector.clone()).to_string();
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
