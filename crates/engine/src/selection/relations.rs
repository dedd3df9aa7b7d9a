//! How selections relate to each other, whatever objects a cluster has.
//!
//! Sound and not complete: `true` is a proof from the selectors, `false` only means that they do not prove it.

use palisade_model::policy::{DomainName, Namespaces, PodSet};
use palisade_model::ranges::Ranges;

use super::{Breadth, Content, NamedPort, Selection};

// === impl Selection ===

impl Selection {
    /// Returns how much of a cluster the selection may cover.
    pub fn breadth(&self) -> Breadth {
        match &self.content {
            Content::Pods(PodSet { namespaces: Namespaces::Matching(namespaces), pods, .. }, None) => {
                match (namespaces.is_everything(), pods.is_everything()) {
                    (true, true) => Breadth::Everything,
                    (true, false) | (false, true) => Breadth::Broad,
                    (false, false) => Breadth::SeveralNamespaces,
                }
            }
            Content::Nodes(_) => Breadth::SeveralNamespaces,
            Content::Pods(..) | Content::Addresses(_) | Content::Names(_) | Content::Service(_) => {
                Breadth::OneNamespace
            }
        }
    }

    /// Returns whether every member of this set certainly is a member of the other.
    pub fn is_subset_of(&self, other: &Selection) -> bool {
        match (&self.content, &other.content) {
            (Content::Pods(own, port), Content::Pods(other, other_port)) => {
                are_part_of(own, other) && (other_port.is_none() || other_port == port)
            }
            (Content::Nodes(own), Content::Nodes(other)) => own.implies(other),
            (Content::Addresses(own), Content::Addresses(other)) => is_covered(own, other),
            (Content::Names(own), Content::Names(other)) => own.iter().all(|name| is_listed(name, other)),
            (own, other) => own == other,
        }
    }

    /// Returns whether certainly no pod, node, name or address is in both sets.
    ///
    /// This compares what is selected. Distinct endpoints can have equal addresses (two pods, or a pod and a range), so a data
    /// plane that matches addresses must not infer more from it than that no endpoint is in both.
    pub fn is_disjoint_from(&self, other: &Selection) -> bool {
        match (&self.content, &other.content) {
            (Content::Pods(own, port), Content::Pods(other, other_port)) => {
                are_disjoint(own, other) || ports_differ(port.as_ref(), other_port.as_ref())
            }
            (Content::Nodes(own), Content::Nodes(other)) => own.is_disjoint(other),
            (Content::Addresses(own), Content::Addresses(other)) => !do_overlap(own, other),
            (Content::Service(own), Content::Service(other)) => own != other,
            // DNS names are decided by what they resolve to. Addresses may be anybody's.
            (Content::Names(_) | Content::Addresses(_), _)
            | (_, Content::Names(_) | Content::Addresses(_)) => false,
            (Content::Pods(..) | Content::Nodes(_) | Content::Service(_), _) => self.kind() != other.kind(),
        }
    }
}

fn are_part_of(own: &PodSet, other: &PodSet) -> bool {
    let namespaces = match (&own.namespaces, &other.namespaces) {
        (Namespaces::Matching(own), Namespaces::Matching(other)) => own.implies(other),
        (_, Namespaces::Matching(other)) => other.is_everything(),
        (own, other) => own == other,
    };
    namespaces
        && own.pods.implies(&other.pods)
        && own.external == other.external
        && (other.account.is_none() || other.account == own.account)
}

fn are_disjoint(own: &PodSet, other: &PodSet) -> bool {
    let namespaces = match (&own.namespaces, &other.namespaces) {
        (Namespaces::Named(own), Namespaces::Named(other)) => own != other,
        (Namespaces::Matching(own), Namespaces::Matching(other)) => own.is_disjoint(other),
        _ => false,
    };
    let accounts = own.account.as_ref().zip(other.account.as_ref());
    namespaces
        || own.pods.is_disjoint(&other.pods)
        || own.external != other.external
        || accounts.is_some_and(|(own, other)| own != other)
}

/// Whether no pod can have both: a name stands for one number per protocol.
fn ports_differ(own: Option<&NamedPort>, other: Option<&NamedPort>) -> bool {
    own.zip(other).is_some_and(|(own, other)| {
        (&own.name, own.protocol) == (&other.name, other.protocol) && own.number != other.number
    })
}

/// Ranges are sorted and do not touch, so that a range is covered by one range or not at all. IPv4 sorts before IPv6, and
/// both ends of a range are of one family.
fn is_covered(own: &Ranges, other: &Ranges) -> bool {
    let mut others = other.iter().peekable();
    own.iter().all(|(first, last)| {
        while others.next_if(|(_, end)| *end < first).is_some() {}
        others.peek().is_some_and(|(start, end)| *start <= first && last <= *end)
    })
}

fn do_overlap(own: &Ranges, other: &Ranges) -> bool {
    let mut others = other.iter().peekable();
    own.iter().any(|(first, last)| {
        while others.next_if(|(_, end)| *end < first).is_some() {}
        others.peek().is_some_and(|(start, _)| *start <= last)
    })
}

fn is_listed(name: &DomainName, names: &[DomainName]) -> bool {
    names.contains(name)
        || matches!(name, DomainName::Exact(exact) if names.iter().any(|other| other.matches(exact)))
}
