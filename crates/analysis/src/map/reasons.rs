//! Reasons of a row: on each side, what decided which part of the traffic.
//!
//! A row covers many pairs of pods and addresses. It is split into pairs of classes, and equal reasons of these are merged.
//! Reasons refer to objects of the snapshot; printers describe them.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use palisade_model::address::Family;
use palisade_model::flow::Who;
use palisade_model::policy::{Action, Direction, Policy, Rule};

use super::kinds::{ClassPair, PodProfile, pairs};
use super::{INGRESS_CONTROLLER, Map, MapPeer, connections, workloads};
use crate::reach::cells::Cells;
use crate::reach::connections::Connections;
use crate::reach::cuts::Cuts;
use crate::reach::traffics::{TrafficId, Traffics};
use crate::reach::{Decider, Reach, RuleAt};

/// What decided a part of the traffic between two ends, on one side.
#[derive(Debug, Clone)]
pub struct TrafficReason<'s> {
    /// Address family, where the two families have different reasons.
    pub family: Option<Family>,
    /// Side: egress of the source, or ingress of the destination.
    pub direction: Direction,
    /// Traffic that was decided.
    pub part: Connections,
    /// What decided it.
    pub decided: DecidedBy<'s>,
}

/// What decided traffic on one side.
#[derive(Debug, Clone)]
pub enum DecidedBy<'s> {
    /// A rule; an unparsable one fails closed.
    Rule {
        /// Policy of the rule.
        policy: &'s Policy,
        /// The deciding rule.
        rule: &'s Rule,
        /// Effective action.
        action: Action,
    },
    /// No rule allowed it, and policies isolate the endpoint.
    Isolated {
        /// Policies that isolate the endpoint.
        by: Vec<&'s Policy>,
    },
    /// No rule matched it, and no policy isolates the endpoint: allowed by default.
    Nobody,
    /// The end is outside of the cluster, where no policy applies.
    Outside,
    /// The end is a node, or a pod in its node's network, to which no policy applies.
    Host,
    /// The two ends are one endpoint.
    Itself,
    /// The source is the node that the destination runs on.
    OwnNode,
}

/// Identity of a reason; equal ones are merged.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum ReasonKey {
    Rule(RuleAt, Action),
    Isolated(Vec<usize>),
    Nobody,
    Outside,
    Host,
    Itself,
    OwnNode,
}

/// Reasons merged by identity, in order of their first occurrence.
#[derive(Debug, Default)]
struct ReasonList {
    list: Vec<(Option<Family>, Direction, ReasonKey, TrafficId)>,
    at: HashMap<(Option<Family>, Direction, ReasonKey), usize>,
}

// === impl TrafficReason ===

impl TrafficReason<'_> {
    /// Returns the action on the traffic.
    pub fn action(&self) -> Action {
        match &self.decided {
            DecidedBy::Rule { action, .. } => *action,
            DecidedBy::Isolated { .. } => Action::Deny,
            _ => Action::Allow,
        }
    }
}

// === impl Map ===

impl<'s> Map<'s> {
    /// Returns the reasons for the traffic `about` between two ends: egress first, each side in evaluation order.
    pub fn why(
        &self,
        source: MapPeer,
        destination: MapPeer,
        about: TrafficId,
        cuts: &Cuts,
        cells: &mut Cells,
    ) -> Vec<TrafficReason<'s>> {
        let mut found = ReasonList::default();
        if matches!(source, MapPeer::Workload(at) if source == destination && self.is_itself(at)) {
            for direction in Direction::BOTH {
                found.add(None, direction, ReasonKey::Itself, about, cells);
            }
            return self.resolve_reasons(found, cells);
        }
        let pairs = self.pairs(source, destination, cuts);
        self.reasons(&pairs, about, &mut found, cells);
        if let (MapPeer::Workload(from), MapPeer::Workload(to)) = (source, destination)
            && !self.same_node_pairs(from, to).is_empty()
        {
            found.add(None, Direction::Ingress, ReasonKey::OwnNode, about, cells);
        }
        self.resolve_reasons(found, cells)
    }

    /// Returns the reasons for the traffic `about` between pairs of classes.
    pub fn why_between(
        &self,
        pairs: &[ClassPair],
        about: TrafficId,
        cells: &mut Cells,
    ) -> Vec<TrafficReason<'s>> {
        let mut found = ReasonList::default();
        self.reasons(pairs, about, &mut found, cells);
        self.resolve_reasons(found, cells)
    }

    /// Whether the traffic of a workload to itself stays on one address, so that policies do not apply.
    pub fn is_itself(&self, workload: usize) -> bool {
        let workload = &self.workloads[workload];
        let own = Who::Pod(workload.pods[0]);
        workloads::is_single_endpoint(self.snapshot, workload) && self.reach[0].is_itself(own, own)
    }

    /// Returns the pairs of classes that a row covers.
    fn pairs(&self, source: MapPeer, destination: MapPeer, cuts: &Cuts) -> Vec<ClassPair> {
        let workload = |peer: MapPeer| match peer {
            MapPeer::Workload(at) => Some(at),
            MapPeer::IngressController => {
                self.workloads.iter().position(|workload| workload.name.kind == INGRESS_CONTROLLER)
            }
            MapPeer::Range(..) => None,
        };
        let of = |own: MapPeer| workload(own).map(|own| self.kinds().profiles(own)).unwrap_or_default();
        match (source, destination) {
            (MapPeer::Range(first, last), own) => {
                self.with_outside(of(own), Direction::Ingress, (first, last), cuts)
            }
            (own, MapPeer::Range(first, last)) => {
                self.with_outside(of(own), Direction::Egress, (first, last), cuts)
            }
            (from, to) => pairs(of(from), of(to)),
        }
    }

    /// Pairs each class of some pods with each interval of a range, in a direction seen from the pods.
    pub(crate) fn with_outside(
        &self,
        pods: &[PodProfile],
        direction: Direction,
        (first, last): (IpAddr, IpAddr),
        cuts: &Cuts,
    ) -> Vec<ClassPair> {
        let family = Family::of(first);
        let reach = &self.reach[family as usize];
        let intervals = reach.of_address(first, cuts)..=reach.of_address(last, cuts);
        let classes: BTreeSet<u32> = pods.iter().filter_map(|pod| pod.classes[family as usize]).collect();
        let pair = |class: u32, address: u32| {
            let (source, destination) = match direction {
                Direction::Egress => (class, address),
                Direction::Ingress => (address, class),
            };
            ClassPair { family, preferred: true, source, destination }
        };
        let with = |class: u32| intervals.clone().map(move |address| pair(class, address));
        classes.into_iter().flat_map(with).collect()
    }

    fn reasons(&self, pairs: &[ClassPair], about: TrafficId, found: &mut ReasonList, cells: &mut Cells) {
        let mut own = ReasonList::default();
        // A range has many pairs with the same class: policies that isolate it are looked up once.
        let mut isolated: HashMap<(Family, Direction, u32), Vec<usize>> = HashMap::new();
        for pair in pairs {
            let reach = &self.reach[pair.family as usize];
            let sides = [
                (Direction::Egress, pair.source, pair.destination),
                (Direction::Ingress, pair.destination, pair.source),
            ];
            for (direction, class, peer) in sides {
                for reason in reach.reasons(direction, class, peer, cells) {
                    let part = cells.traffics.intersection(reason.about, about);
                    let mut isolation = || {
                        let by = isolated.entry((pair.family, direction, class)).or_insert_with(|| {
                            cells.work().take(ISOLATION_WORK * self.snapshot.policies().len() as u64);
                            reach.isolated_by(direction, class)
                        });
                        cells.work().take(ISOLATION_WORK * by.len() as u64);
                        by.clone()
                    };
                    let key = match (reason.decider, reason.rule) {
                        (Decider::Rule(_, action), Some(at)) => ReasonKey::Rule(at, action),
                        (Decider::Isolation, _) => ReasonKey::Isolated(isolation()),
                        _ => default_reason(reach, direction, class),
                    };
                    if part != Traffics::EMPTY {
                        own.add(Some(pair.family), direction, key, part, cells);
                    }
                }
            }
        }
        // Families are distinguished only where their reasons differ.
        let of = |family: Family| {
            let of = own.list.iter().filter(move |one| one.0 == Some(family));
            of.map(|(_, direction, key, part)| (*direction, key.clone(), *part)).collect::<Vec<_>>()
        };
        let (four, six) = (of(Family::V4), of(Family::V6));
        let same = four.is_empty() || six.is_empty() || four == six;
        for (family, direction, key, part) in own.list {
            let skipped = same && family == Some(Family::V6) && !four.is_empty();
            if !skipped {
                found.add(family.filter(|_| !same), direction, key, part, cells);
            }
        }
    }

    fn resolve_reasons(&self, mut found: ReasonList, cells: &Cells) -> Vec<TrafficReason<'s>> {
        found.list.sort_by_key(|(family, direction, ..)| (*family, *direction));
        let policies = self.snapshot.policies();
        let decided = |key: ReasonKey| match key {
            ReasonKey::Rule(at, action) => {
                let policy = &policies[at.policy];
                DecidedBy::Rule { policy, rule: &policy.rules[at.rule], action }
            }
            ReasonKey::Isolated(by) => {
                DecidedBy::Isolated { by: by.into_iter().map(|at| &policies[at]).collect() }
            }
            ReasonKey::Nobody => DecidedBy::Nobody,
            ReasonKey::Outside => DecidedBy::Outside,
            ReasonKey::Host => DecidedBy::Host,
            ReasonKey::Itself => DecidedBy::Itself,
            ReasonKey::OwnNode => DecidedBy::OwnNode,
        };
        let reasons = found.list.into_iter().map(|(family, direction, key, part)| TrafficReason {
            family,
            direction,
            part: connections(part, cells),
            decided: decided(key),
        });
        // Reasons for port 0 alone are dropped: no connection uses it.
        reasons.filter(|why| !why.part.is_empty()).collect()
    }
}

/// Work to check whether a policy isolates an endpoint, and to list it.
const ISOLATION_WORK: u64 = 200;

/// Returns why traffic of a class is allowed by default.
fn default_reason(reach: &Reach<'_>, direction: Direction, class: u32) -> ReasonKey {
    match () {
        () if reach.outside().contains(&class) => ReasonKey::Outside,
        () if !reach.is_pods(class) && !reach.is_subject(direction, class) => ReasonKey::Host,
        () => ReasonKey::Nobody,
    }
}

// === impl ReasonList ===

impl ReasonList {
    fn add(
        &mut self,
        family: Option<Family>,
        direction: Direction,
        key: ReasonKey,
        part: TrafficId,
        cells: &mut Cells,
    ) {
        let at = *self.at.entry((family, direction, key.clone())).or_insert(self.list.len());
        match self.list.get_mut(at) {
            Some((.., known)) => *known = cells.traffics.union(*known, part),
            None => self.list.push((family, direction, key, part)),
        }
    }
}
