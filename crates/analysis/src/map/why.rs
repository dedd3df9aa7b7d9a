//! Why a row says what it says: on each side, who decided about which part of the traffic, and where that is written.
//!
//! A row stands for many pairs of pods and many addresses; here they are taken apart into pairs of classes, each is asked
//! for its reasons, and reasons that are the same are put together again. The facts are those of the snapshot, by
//! reference: how they are said is the printers' business.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use palisade_model::address::Family;
use palisade_model::flow::Who;
use palisade_model::policy::{Action, Direction, Policy, Rule};

use super::kinds::{Pair, Profile, pairs};
use super::{INGRESS_CONTROLLER, Map, Peer, connections, workloads};
use crate::reach::cells::Cells;
use crate::reach::connections::Connections;
use crate::reach::cuts::Cuts;
use crate::reach::traffics::{TrafficId, Traffics};
use crate::reach::{Decider, Reach, RuleAt};

/// Who decided about a part of the traffic between two ends, on one side.
#[derive(Debug, Clone)]
pub struct Why<'s> {
    /// Over which family, where the two families get different answers.
    pub family: Option<Family>,
    /// Whose side: egress of the source, or ingress of the destination.
    pub direction: Direction,
    /// About what.
    pub part: Connections,
    /// Who.
    pub decided: Decided<'s>,
}

/// Who decided.
#[derive(Debug, Clone)]
pub enum Decided<'s> {
    /// A rule. Not always as it is written: what cannot be read fails closed.
    Rule {
        /// Whose rule.
        policy: &'s Policy,
        /// The rule.
        rule: &'s Rule,
        /// What it does with it.
        action: Action,
    },
    /// Nobody allowed it, and these isolate the endpoint.
    Isolated {
        /// The policies that do.
        by: Vec<&'s Policy>,
    },
    /// Policies apply to the endpoint, or could, and none of them says anything: it is let through.
    Nobody,
    /// The end lies outside of the cluster: nobody speaks for it.
    Outside,
    /// The end is a node, or a pod in its node's network, that no policy is about.
    Host,
    /// The two ends are one.
    Itself,
    /// The source is the node that the destination runs on.
    OwnNode,
}

/// What makes two reasons the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Rule(RuleAt, Action),
    Isolated(Vec<usize>),
    Nobody,
    Outside,
    Host,
    Itself,
    OwnNode,
}

/// Reasons so far, in the order in which they came.
#[derive(Debug, Default)]
struct Found {
    list: Vec<(Option<Family>, Direction, Key, TrafficId)>,
    at: HashMap<(Option<Family>, Direction, Key), usize>,
}

// === impl Why ===

impl Why<'_> {
    /// What becomes of the part.
    pub fn action(&self) -> Action {
        match &self.decided {
            Decided::Rule { action, .. } => *action,
            Decided::Isolated { .. } => Action::Deny,
            _ => Action::Allow,
        }
    }
}

// === impl Map ===

impl<'s> Map<'s> {
    /// Why one end may send the other what it may: egress first, each side in the order in which it decides. Only what is
    /// said about some of the traffic is told; [`Traffics::ALL`] asks for everything.
    pub fn why(
        &self,
        source: Peer,
        destination: Peer,
        about: TrafficId,
        cuts: &Cuts,
        cells: &mut Cells,
    ) -> Vec<Why<'s>> {
        let mut found = Found::default();
        if matches!(source, Peer::Workload(at) if source == destination && self.is_itself(at)) {
            for direction in Direction::BOTH {
                found.add(None, direction, Key::Itself, about, cells);
            }
            return self.told(found, cells);
        }
        let pairs = self.pairs(source, destination, cuts);
        self.reasons(&pairs, about, &mut found, cells);
        if let (Peer::Workload(from), Peer::Workload(to)) = (source, destination)
            && !self.near(from, to).is_empty()
        {
            found.add(None, Direction::Ingress, Key::OwnNode, about, cells);
        }
        self.told(found, cells)
    }

    /// The same for pairs of classes, whoever they are.
    pub fn why_between(&self, pairs: &[Pair], about: TrafficId, cells: &mut Cells) -> Vec<Why<'s>> {
        let mut found = Found::default();
        self.reasons(pairs, about, &mut found, cells);
        self.told(found, cells)
    }

    /// Whether what a workload sends itself stays on one address, so that nobody can cut it off.
    pub fn is_itself(&self, workload: usize) -> bool {
        let workload = &self.workloads[workload];
        let own = Who::Pod(workload.pods[0]);
        workloads::is_one(self.snapshot, workload) && self.reach[0].is_itself(own, own)
    }

    /// The pairs of classes that a row stands for.
    fn pairs(&self, source: Peer, destination: Peer, cuts: &Cuts) -> Vec<Pair> {
        let workload = |peer: Peer| match peer {
            Peer::Workload(at) => Some(at),
            Peer::IngressController => {
                self.workloads.iter().position(|workload| workload.name.kind == INGRESS_CONTROLLER)
            }
            Peer::Range(..) => None,
        };
        let of = |own: Peer| workload(own).map(|own| self.kinds().profiles(own)).unwrap_or_default();
        match (source, destination) {
            (Peer::Range(first, last), own) => {
                self.with_outside(of(own), Direction::Ingress, (first, last), cuts)
            }
            (own, Peer::Range(first, last)) => {
                self.with_outside(of(own), Direction::Egress, (first, last), cuts)
            }
            (from, to) => pairs(of(from), of(to)),
        }
    }

    /// Each class of some pods with each interval of a range, seen from the pods.
    pub(crate) fn with_outside(
        &self,
        pods: &[Profile],
        direction: Direction,
        (first, last): (IpAddr, IpAddr),
        cuts: &Cuts,
    ) -> Vec<Pair> {
        let family = Family::of(first);
        let reach = &self.reach[family as usize];
        let intervals = reach.of_address(first, cuts)..=reach.of_address(last, cuts);
        let classes: BTreeSet<u32> = pods.iter().filter_map(|pod| pod.classes[family as usize]).collect();
        let pair = |class: u32, address: u32| {
            let (source, destination) = match direction {
                Direction::Egress => (class, address),
                Direction::Ingress => (address, class),
            };
            Pair { family, preferred: true, source, destination }
        };
        let with = |class: u32| intervals.clone().map(move |address| pair(class, address));
        classes.into_iter().flat_map(with).collect()
    }

    fn reasons(&self, pairs: &[Pair], about: TrafficId, found: &mut Found, cells: &mut Cells) {
        let mut own = Found::default();
        // A range is many pairs with one and the same class: who isolates it is looked up once.
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
                            cells.work().take(ISOLATES * self.snapshot.policies().len() as u64);
                            reach.isolated_by(direction, class)
                        });
                        cells.work().take(ISOLATES * by.len() as u64);
                        by.clone()
                    };
                    let key = match (reason.decider, reason.rule) {
                        (Decider::Rule(_, action), Some(at)) => Key::Rule(at, action),
                        (Decider::Isolation, _) => Key::Isolated(isolation()),
                        _ => let_through(reach, direction, class),
                    };
                    if part != Traffics::EMPTY {
                        own.add(Some(pair.family), direction, key, part, cells);
                    }
                }
            }
        }
        // A family is of interest only where it gets another answer.
        let of = |family: Family| {
            let of = own.list.iter().filter(move |one| one.0 == Some(family));
            of.map(|(_, direction, key, part)| (*direction, key.clone(), *part)).collect::<Vec<_>>()
        };
        let (four, six) = (of(Family::V4), of(Family::V6));
        let alike = four.is_empty() || six.is_empty() || four == six;
        for (family, direction, key, part) in own.list {
            let skipped = alike && family == Some(Family::V6) && !four.is_empty();
            if !skipped {
                found.add(family.filter(|_| !alike), direction, key, part, cells);
            }
        }
    }

    fn told(&self, mut found: Found, cells: &Cells) -> Vec<Why<'s>> {
        found.list.sort_by_key(|(family, direction, ..)| (*family, *direction));
        let policies = self.snapshot.policies();
        let decided = |key: Key| match key {
            Key::Rule(at, action) => {
                let policy = &policies[at.policy];
                Decided::Rule { policy, rule: &policy.rules[at.rule], action }
            }
            Key::Isolated(by) => Decided::Isolated { by: by.into_iter().map(|at| &policies[at]).collect() },
            Key::Nobody => Decided::Nobody,
            Key::Outside => Decided::Outside,
            Key::Host => Decided::Host,
            Key::Itself => Decided::Itself,
            Key::OwnNode => Decided::OwnNode,
        };
        let told = found.list.into_iter().map(|(family, direction, key, part)| Why {
            family,
            direction,
            part: connections(part, cells),
            decided: decided(key),
        });
        // What is only about port 0 or the like is about nothing that anybody sends.
        told.filter(|why| !why.part.is_empty()).collect()
    }
}

/// Steps to ask whether a policy isolates somebody, and to name it.
const ISOLATES: u64 = 200;

/// Why a side has nothing to say about a class.
fn let_through(reach: &Reach<'_>, direction: Direction, class: u32) -> Key {
    match () {
        () if reach.outside().contains(&class) => Key::Outside,
        () if !reach.is_pods(class) && !reach.is_subject(direction, class) => Key::Host,
        () => Key::Nobody,
    }
}

// === impl Found ===

impl Found {
    fn add(
        &mut self,
        family: Option<Family>,
        direction: Direction,
        key: Key,
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
