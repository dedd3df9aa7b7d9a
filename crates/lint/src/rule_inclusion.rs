//! Inclusion of rules of the NetworkPolicy stage, for all pods that could exist and all addresses.

use palisade_analysis::reach::combinations::traffic_anywhere;
use palisade_analysis::space::{Predicate, SearchResult, Space};
use palisade_model::address::Block;
use palisade_model::policy::{Namespaces, Peer, Peers, PodSet, Rule, Subject, TrafficMatches};
use palisade_model::ranges::Ranges;

use super::rule_decisions::Decisions;

/// Whether `outer` allows everything that `inner` allows. `false` where it does not, or where there is no proof.
pub(super) fn includes(decisions: &mut Decisions<'_>, space: &Space, outer: &Rule, inner: &Rule) -> bool {
    outer.direction == inner.direction
        && subjects(space, &outer.subjects, &inner.subjects)
        && traffic(decisions, outer, inner)
        && peers(space, &outer.peers, &inner.peers)
}

fn subjects(space: &Space, outer: &[Subject], inner: &[Subject]) -> bool {
    let sets = |subjects: &[Subject]| -> Option<Vec<Predicate>> {
        let predicate = |subject: &Subject| match subject {
            Subject::Pods(set) if is_absolute(set) => Some(space.predicate(set, None)),
            _ => None,
        };
        subjects.iter().map(predicate).collect()
    };
    if outer == inner {
        return true;
    }
    let (Some(outer), Some(inner)) = (sets(outer), sets(inner)) else { return false };
    are_covered(space, &outer, &inner)
}

fn traffic(decisions: &mut Decisions<'_>, outer: &Rule, inner: &Rule) -> bool {
    if matches!(outer.traffic, TrafficMatches::Any) || outer.traffic == inner.traffic {
        return true;
    }
    let traffics = &mut decisions.cells.traffics;
    match (traffic_anywhere(outer, traffics), traffic_anywhere(inner, traffics)) {
        (Some(outer), Some(inner)) => traffics.intersection(outer, inner) == inner,
        _ => false,
    }
}

fn peers(space: &Space, outer: &Peers, inner: &Peers) -> bool {
    let (outer, inner) = match (outer, inner) {
        (Peers::Any, _) => return true,
        (outer, inner) if outer == inner => return true,
        (Peers::Of(_), Peers::Any) => return false,
        (Peers::Of(outer), Peers::Of(inner)) => (outer, inner),
    };
    let (Some(outer), Some(inner)) = (pods_and_blocks(space, outer), pods_and_blocks(space, inner)) else {
        return false;
    };
    let (wide, narrow) = (Ranges::of(outer.1.iter().copied()), Ranges::of(inner.1.iter().copied()));
    let covered = narrow.iter().all(|own| wide.iter().any(|range| range.0 <= own.0 && own.1 <= range.1));
    covered && are_covered(space, &outer.0, &inner.0)
}

/// Splits peers into pods and blocks; `None` where there are others among them.
fn pods_and_blocks<'p>(space: &Space, peers: &'p [Peer]) -> Option<(Vec<Predicate>, Vec<&'p Block>)> {
    let (mut pods, mut blocks) = (Vec::new(), Vec::new());
    for peer in peers {
        match peer {
            Peer::Pods(set) if is_absolute(set) => pods.push(space.predicate(set, None)),
            Peer::Addresses(block) => blocks.push(block),
            _ => return None,
        }
    }
    Some((pods, blocks))
}

fn are_covered(space: &Space, outer: &[Predicate], inner: &[Predicate]) -> bool {
    let outer: Vec<&Predicate> = outer.iter().collect();
    inner.iter().all(|own| matches!(space.find(&[own], &outer), SearchResult::Empty))
}

/// Whether a set is the same for every subject, so that the space of pods has a predicate for it.
pub(super) fn is_absolute(set: &PodSet) -> bool {
    !set.external && matches!(set.namespaces, Namespaces::Named(_) | Namespaces::Matching(_))
}
