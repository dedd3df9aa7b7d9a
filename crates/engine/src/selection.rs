//! Set selections: what the members of a set have in common, opaque to backends.
//!
//! Backends identify, describe and compare selections through [`Selection`] and never see the selectors behind them, so a
//! dialect can gain a new kind of selector without any backend changing. The facts that data planes need (which set
//! contains which, how broad a set is) are methods here because only the engine knows what they follow from.
//!
//! A selection is identified by its [`SetDigest`], the SHA-256 of its canonical encoding (`encoding.rs`). The encoding is
//! specified in `docs/dev/set-digest.md`; it also is what travels in the wire form.

mod encoding;
mod relations;
#[cfg(test)]
pub(crate) mod tests;
mod text;

use std::cmp::Ordering;
use std::fmt;
use std::net::IpAddr;
use std::sync::OnceLock;

use palisade_model::label::Selector;
use palisade_model::policy::{DomainName, PodSet, ServiceName};
use palisade_model::ranges::Ranges;
use palisade_model::traffic::Protocol;
use sha2::{Digest, Sha256};
use smol_str::SmolStr;

/// What a set selects.
///
/// Equality, order and digest are those of the selection; two sets of one engine never have equal selections.
pub struct Selection {
    pub(crate) content: Content,
    /// Computed when it is first queried: an engine whose sets no backend names never hashes. Boxed, because most sets of a
    /// controller are never queried and 16 bytes are less than 40.
    digest: OnceLock<Box<SetDigest>>,
}

/// The identity of a selection: SHA-256 of its canonical encoding.
///
/// All 256 bits, because users choose what is hashed: nobody can write two selectors that share a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetDigest([u8; 32]);

/// The kind of things that a set selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SetKind {
    /// Pods, or external entities.
    Pods,
    /// Nodes.
    Nodes,
    /// Ranges of addresses. Such a set has no members: [`Selection::ranges`] returns the addresses.
    Addresses,
    /// The addresses that DNS names resolve to.
    Names,
    /// A service: as a peer, connections to it; as a subject, connections to it from outside of the cluster.
    Service,
}

/// How much of a cluster a selection may cover, from its selectors alone: a hint for layouts, never for verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Breadth {
    /// Pods of one namespace, pods with a named port, or no pods at all.
    OneNamespace,
    /// Pods with some labels in namespaces with some labels; or nodes.
    SeveralNamespaces,
    /// Pods with some labels in every namespace, or every pod in namespaces with some labels.
    Broad,
    /// Every pod in every namespace.
    Everything,
}

/// The selection itself, with the selectors of the policies that named it first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Content {
    /// Pods or external entities; with a port, only those where the port's name stands for that number. The namespaces are
    /// absolute: relative ones are resolved before a set is made, and would select nothing.
    Pods(PodSet, Option<NamedPort>),
    Nodes(Selector),
    Addresses(Ranges),
    /// Sorted, without duplicates.
    Names(Vec<DomainName>),
    Service(ServiceName),
}

/// A port's name with the protocol and number that it stands for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NamedPort {
    pub(crate) name: SmolStr,
    pub(crate) protocol: Protocol,
    pub(crate) number: u16,
}

/// A [`Content`] by reference, to look a set up without allocating.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Wanted<'a> {
    Pods(&'a PodSet, Option<&'a NamedPort>),
    Nodes(&'a Selector),
    Addresses(&'a Ranges),
    Names(&'a [DomainName]),
    Service(&'a ServiceName),
}

// === impl Selection ===

impl Selection {
    /// Returns the digest, which is equal for equal selections in every process and every release.
    pub fn digest(&self) -> SetDigest {
        **self.digest.get_or_init(|| Box::new(SetDigest(Sha256::digest(self.encode()).into())))
    }

    /// Returns the kind of things that the set selects.
    #[inline]
    pub fn kind(&self) -> SetKind {
        match &self.content {
            Content::Pods(..) => SetKind::Pods,
            Content::Nodes(_) => SetKind::Nodes,
            Content::Addresses(_) => SetKind::Addresses,
            Content::Names(_) => SetKind::Names,
            Content::Service(_) => SetKind::Service,
        }
    }

    /// Returns the addresses of a set of kind [`SetKind::Addresses`]; `None` for every other kind.
    #[inline]
    pub fn ranges(&self) -> Option<&Ranges> {
        match &self.content {
            Content::Addresses(ranges) => Some(ranges),
            _ => None,
        }
    }

    /// Returns whether an address is in a set of kind [`SetKind::Addresses`]; `false` for every other kind.
    pub fn contains_address(&self, address: IpAddr) -> bool {
        self.ranges().is_some_and(|ranges| ranges.contains(address))
    }
}

impl From<Content> for Selection {
    fn from(content: Content) -> Self {
        Selection { content, digest: OnceLock::new() }
    }
}

impl PartialEq for Selection {
    fn eq(&self, other: &Self) -> bool {
        self.content == other.content
    }
}

impl Eq for Selection {}

impl PartialOrd for Selection {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Selection {
    fn cmp(&self, other: &Self) -> Ordering {
        self.content.cmp(&other.content)
    }
}

impl fmt::Debug for Selection {
    /// As text: nothing may be derived from how the engine lays selectors out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Selection({self})")
    }
}

// === impl SetDigest ===

impl SetDigest {
    /// Returns the 32 bytes, most significant first.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for SetDigest {
    /// In lower-case hexadecimal; a precision limits the number of bytes: `{:.12}` prints 24 digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = f.precision().unwrap_or(self.0.len());
        self.0.iter().take(bytes).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

// === impl Content ===

impl Content {
    pub(crate) fn as_wanted(&self) -> Wanted<'_> {
        match self {
            Content::Pods(set, port) => Wanted::Pods(set, port.as_ref()),
            Content::Nodes(selector) => Wanted::Nodes(selector),
            Content::Addresses(ranges) => Wanted::Addresses(ranges),
            Content::Names(names) => Wanted::Names(names),
            Content::Service(name) => Wanted::Service(name),
        }
    }
}

// === impl Wanted ===

impl Wanted<'_> {
    pub(crate) fn to_content(self) -> Content {
        match self {
            Wanted::Pods(set, port) => Content::Pods(set.clone(), port.cloned()),
            Wanted::Nodes(selector) => Content::Nodes(selector.clone()),
            Wanted::Addresses(ranges) => Content::Addresses(ranges.clone()),
            Wanted::Names(names) => Content::Names(names.to_vec()),
            Wanted::Service(name) => Content::Service(name.clone()),
        }
    }
}
