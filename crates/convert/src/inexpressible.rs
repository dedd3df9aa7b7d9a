//! Reasons why a peer or a subject has no counterpart in a target dialect.

use palisade_model::address::Block;
use palisade_model::policy::{DomainName, Peer, PodSet};
use thiserror::Error;

/// A peer or a subject that the target dialect cannot express. Not retryable: the policy has to change.
///
/// The messages are part of diagnostics.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum Inexpressible {
    /// External entities, which Antrea alone selects.
    #[error("{0}: there are no external entities there")]
    ExternalEntities(PodSet),
    /// Pods by service account.
    #[error("{0}: service accounts cannot be selected there")]
    ServiceAccount(PodSet),
    /// Namespaces relative to that of the subject.
    #[error("{0}: namespaces cannot be compared with the subject's there")]
    RelativeNamespaces(PodSet),
    /// Namespaces whose labels differ from those of the subject's namespace.
    #[error("{0}: namespaces can be like the subject's there, and not unlike")]
    DivergentNamespaces(PodSet),
    /// A block of multicast addresses.
    #[error("{0}: multicast cannot stand beside other peers there")]
    Multicast(Block),
    /// A pattern of DNS names that the dialect's syntax does not cover.
    #[error("{0}: not a name, or names, that can be written there")]
    DomainName(DomainName),
    /// A peer other than pods and addresses, in a dialect that has only these.
    #[error("{0}: only pods and addresses can be peers there")]
    NeitherPodsNorAddresses(Peer),
    /// A kind of peer that the dialect does not have.
    #[error("{0}: there are no words for it there")]
    Peer(Peer),
}
