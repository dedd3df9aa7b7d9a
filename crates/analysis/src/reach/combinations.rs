//! Combinations of rules that match the same peers, for analyses of single rules (lints).
//!
//! Peers that the same rules of a program match are equivalent, so that a cluster has few combinations, however many pairs of
//! pods. Each has an example of two endpoints. A pod with itself, or with its own node, is no example: policies do not apply
//! to those.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use palisade_model::address::Family;
use palisade_model::flow::{Party, Who};
use palisade_model::pipeline::Effect;
use palisade_model::policy::{Direction, Rule, TrafficMatch, TrafficMatches};

use super::cells::{CellId, Cells};
use super::cuts::Cuts;
use super::groups::{Destination, DestinationId, number};
use super::programs::{self, RuleProgram, RuleTraffic};
use super::sample::example_address;
use super::traffics::{TrafficId, Traffics};
use super::{Decider, Reach, RuleAt};

/// Rules of a program that match the same classes at the other end.
#[derive(Debug, Clone)]
pub struct RuleCombination {
    /// Direction of the program.
    pub direction: Direction,
    /// Example of two endpoints. `None` where the combination matches only a pod and itself, which is evaluated only through
    /// a Service, or a pod and its node.
    pub pair: Option<EndpointPair>,
    /// Example with an outside address, where there is one.
    pub outside: Option<EndpointPair>,
    program: u32,
    active: Box<[u32]>,
    destination: DestinationId,
    /// Classes at the other end: first and last of each run.
    peers: Vec<(u32, u32)>,
}

/// Two endpoints to whose connections policies apply.
#[derive(Debug, Clone, Copy)]
pub struct EndpointPair {
    /// Class and endpoint that the program is of.
    pub own: (u32, Party),
    /// Class and endpoint at the other end.
    pub other: (u32, Party),
}

/// Endpoints of each class, and classes of each program.
#[derive(Debug)]
pub struct ClassMembers {
    /// Endpoints by class; one of those that share a node's network.
    members: Vec<Vec<Party>>,
    /// Classes by direction and program.
    classes: [Vec<Vec<u32>>; 2],
    /// Addresses of nodes according to their pods.
    hosts: HashSet<IpAddr>,
}

/// Returns an outside address of a family that readers recognize: one for documentation.
pub fn example_outside_address(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(203, 0, 113, 7).into(),
        Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7).into(),
    }
}

/// Returns the traffic that a rule matches to every destination; `None` where it depends on the destination.
pub fn traffic_anywhere(rule: &Rule, traffics: &mut Traffics) -> Option<TrafficId> {
    match &rule.traffic {
        TrafficMatches::Of(matches) if matches.iter().any(TrafficMatch::depends_on_receiver) => None,
        _ => Some(programs::carried(&rule.traffic, &Destination::default(), traffics)),
    }
}

/// Number of spans of peer sets that cost as much as a rule of a combination.
const SPANS_PER_RULE: usize = 2;

/// A combination without examples: its rules, the destination, the classes at the other end.
type UnpairedCombination = (Box<[u32]>, DestinationId, Vec<(u32, u32)>);

// === impl RuleCombination ===

impl RuleCombination {
    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.active.len()
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.active.is_empty()
    }
}

// === impl Reach ===

impl Reach<'_> {
    /// Returns the endpoints of each class.
    pub fn class_members(&self) -> ClassMembers {
        let snapshot = self.snapshot();
        let mut members: Vec<Vec<Party>> = vec![Vec::new(); self.outside.start as usize];
        let nodes = (0..snapshot.nodes().len()).map(Who::Node);
        let pods = (0..snapshot.pods().len()).map(Who::Pod);
        let mut hosts: HashSet<(u32, usize)> = HashSet::new();
        for who in pods.chain(nodes) {
            for (class, address) in self.classes_of(who) {
                let party = Party { who, address };
                let node = self.groups.context.node_of(party);
                if node.is_none_or(|node| hosts.insert((class, node))) {
                    members[class as usize].push(party);
                }
            }
        }
        let mut classes = [0, 1].map(|at: usize| vec![Vec::new(); self.programs[at].len()]);
        for class in 0..self.outside.start {
            for direction in Direction::BOTH.into_iter().filter(|one| self.is_subject(*one, class)) {
                let program = self.classes[class as usize].programs[direction as usize];
                classes[direction as usize][program as usize].push(class);
            }
        }
        let pods = snapshot.pods().iter();
        ClassMembers {
            members,
            classes,
            hosts: pods.flat_map(|pod| pod.host_addresses.iter().copied()).collect(),
        }
    }

    /// Returns the combinations of a direction, and charges `budget`. Rules of a program that exceeds it are added to
    /// `skipped` instead.
    pub fn combinations(
        &self,
        direction: Direction,
        ends: &ClassMembers,
        cuts: &Cuts,
        budget: &mut usize,
        skipped: &mut Vec<RuleAt>,
    ) -> Vec<RuleCombination> {
        let mut found: Vec<RuleCombination> = Vec::new();
        for (program, classes) in (0..).zip(&ends.classes[direction as usize]) {
            let Some(first) = classes.first() else { continue };
            match self.combine(direction, program, ends, cuts, budget) {
                Some(own) => found.extend(own),
                None => skipped.extend(self.rules(direction, *first)),
            }
        }
        found
    }

    /// Returns the combinations of one program; `None` when it exceeds the budget, or a quarter of it.
    fn combine(
        &self,
        direction: Direction,
        program: u32,
        ends: &ClassMembers,
        cuts: &Cuts,
        budget: &mut usize,
    ) -> Option<Vec<RuleCombination>> {
        let rules = &self.programs[direction as usize][program as usize].rules;
        let by_destination = direction == Direction::Egress
            && rules.iter().any(|held| held.carried == RuleTraffic::ByDestination);
        let least = *budget - *budget / 4;
        // Sorting the boundaries of peer sets is expensive where they have many spans.
        let pieces: usize = rules.iter().map(|held| self.peers[held.peers.0 as usize].len()).sum();
        *budget = budget.saturating_sub(pieces / SPANS_PER_RULE);
        if *budget <= least {
            return None;
        }
        let mut bounds: Vec<(u32, u32, bool)> = Vec::new();
        for (rule, held) in (0..).zip(rules) {
            for (first, last) in &*self.peers[held.peers.0 as usize] {
                bounds.extend([(*first, rule, true), (last + 1, rule, false)]);
            }
        }
        bounds.sort_unstable();
        let mut found: Vec<UnpairedCombination> = Vec::new();
        let mut known: HashMap<(Box<[u32]>, DestinationId), usize> = HashMap::new();
        let mut active: Vec<u32> = Vec::new();
        let (mut class, mut next) = (0, 0);
        while class < self.len() {
            while let Some((_, rule, begins)) = bounds.get(next).filter(|(at, ..)| *at <= class) {
                match (active.binary_search(rule), begins) {
                    (Err(at), true) => active.insert(at, *rule),
                    (Ok(at), false) => drop(active.remove(at)),
                    _ => {}
                }
                next += 1;
            }
            *budget = budget.saturating_sub(active.len() + 1);
            if *budget <= least {
                return None;
            }
            let mut until = bounds.get(next).map_or(self.len(), |(at, ..)| (*at).min(self.len()));
            let mut destination = DestinationId(0);
            if by_destination {
                destination = self.destinations[class as usize];
                let alike = self.destinations[class as usize..until as usize].iter();
                until = class + number(alike.take_while(|other| **other == destination).count());
            }
            let key = (active.clone().into_boxed_slice(), destination);
            let at = *known.entry(key).or_insert_with_key(|(active, destination)| {
                found.push((active.clone(), *destination, Vec::new()));
                found.len() - 1
            });
            found[at].2.push((class, until - 1));
            class = until;
        }
        let combination = |(active, destination, peers): UnpairedCombination| {
            let own = &ends.classes[direction as usize][program as usize];
            let outside = self.outside_pair(direction, own, &peers, ends, cuts);
            let inside = self.pairs(direction, own, &peers, ends).next();
            let pair = inside.or(outside);
            RuleCombination { direction, pair, outside, program, active, destination, peers }
        };
        Some(found.into_iter().map(combination).collect())
    }

    /// Returns an example for each pair of classes of a combination: inside of the cluster, then outside.
    pub fn endpoint_pairs<'c>(
        &'c self,
        combination: &'c RuleCombination,
        ends: &'c ClassMembers,
    ) -> impl Iterator<Item = EndpointPair> + 'c {
        let own = &ends.classes[combination.direction as usize][combination.program as usize];
        self.pairs(combination.direction, own, &combination.peers, ends).chain(combination.outside)
    }

    /// Returns the classes at both ends of a combination: an endpoint can reach itself through a Service.
    pub fn at_both_ends<'c>(
        &self,
        combination: &'c RuleCombination,
        ends: &'c ClassMembers,
    ) -> impl Iterator<Item = u32> + 'c {
        let own = &ends.classes[combination.direction as usize][combination.program as usize];
        let is_peer =
            |class: &u32| combination.peers.iter().any(|(first, last)| first <= class && class <= last);
        own.iter().copied().filter(is_peer)
    }

    /// Returns the cell of the other side for two endpoints.
    pub fn other_side(&self, direction: Direction, pair: &EndpointPair) -> CellId {
        let (own, other) = (pair.own, pair.other);
        match direction {
            Direction::Egress if self.is_own_node(own.1.who, other.1.who) => CellId::ALL,
            Direction::Egress => self.side(Direction::Ingress, other.0, own.0),
            Direction::Ingress => self.side(Direction::Egress, other.0, own.0),
        }
    }

    fn pairs<'c>(
        &'c self,
        direction: Direction,
        own: &'c [u32],
        peers: &'c [(u32, u32)],
        ends: &'c ClassMembers,
    ) -> impl Iterator<Item = EndpointPair> + 'c {
        let inside = move || {
            peers.iter().flat_map(|(first, last)| *first..=*last).take_while(|at| *at < self.outside.start)
        };
        own.iter().flat_map(move |class| {
            // Pairs of distinct classes make better examples.
            let others = inside().filter(move |other| other != class);
            let itself = inside().filter(move |other| other == class).take(1);
            others.chain(itself).filter_map(move |other| self.pair(direction, *class, other, ends))
        })
    }

    fn pair(
        &self,
        direction: Direction,
        class: u32,
        other: u32,
        ends: &ClassMembers,
    ) -> Option<EndpointPair> {
        let [owns, others] = [class, other].map(|class| &ends.members[class as usize]);
        owns.iter().find_map(|own| {
            let far = |party: &&Party| {
                let own_node = direction == Direction::Ingress && self.is_own_node(party.who, own.who);
                !own_node && !self.is_itself(own.who, party.who)
            };
            let party = others.iter().find(far)?;
            Some(EndpointPair { own: (class, *own), other: (other, *party) })
        })
    }

    /// Returns an example with an outside address: the documentation address if it is among the peers.
    fn outside_pair(
        &self,
        direction: Direction,
        own: &[u32],
        peers: &[(u32, u32)],
        ends: &ClassMembers,
        cuts: &Cuts,
    ) -> Option<EndpointPair> {
        let known = self.of_address(example_outside_address(self.family()), cuts);
        let is_known = peers.iter().any(|(first, last)| (*first..=*last).contains(&known));
        let outside = peers.iter().flat_map(|(first, last)| (*first).max(self.outside.start)..last + 1);
        let mut tried = is_known.then_some(known).into_iter().chain(outside);
        tried.find_map(|class| {
            let address = self.free_address(class, ends, cuts)?;
            let party = Party { who: Who::Outside, address: Some(address) };
            // A node without a Node object is outside, and still the own node of its pods.
            let is_far = |own: &Party| match own.who {
                Who::Pod(pod) if direction == Direction::Ingress && ends.hosts.contains(&address) => {
                    !self.groups.context.is_own_node(party, pod)
                }
                _ => true,
            };
            let of_class = |class: &u32| {
                let own = ends.members[*class as usize].iter().find(|own| is_far(own))?;
                Some((*class, *own))
            };
            Some(EndpointPair { own: own.iter().find_map(of_class)?, other: (class, party) })
        })
    }

    /// Returns a free address of an outside class; that of a pod's node only if there is no other.
    fn free_address(&self, class: u32, ends: &ClassMembers, cuts: &Cuts) -> Option<IpAddr> {
        let at = class.checked_sub(self.outside.start)? as usize;
        let (first, last) = cuts.interval(self.family(), at);
        let free = |address: &IpAddr| self.snapshot().who_has(*address) == Who::Outside;
        let far = |address: &IpAddr| free(address) && !ends.hosts.contains(address);
        example_address(first, last, far).or_else(|| example_address(first, last, free))
    }

    fn program_of(&self, combination: &RuleCombination) -> &RuleProgram {
        &self.programs[combination.direction as usize][combination.program as usize]
    }

    /// Returns the rules of a combination with the traffic each matches, in order.
    pub fn matched_rules(
        &self,
        combination: &RuleCombination,
        cells: &mut Cells,
    ) -> Vec<(RuleAt, TrafficId)> {
        let program = self.program_of(combination);
        let snapshot = self.snapshot();
        let about = |at: &u32| {
            let held = &program.rules[*at as usize];
            let about = match held.carried {
                RuleTraffic::Always(about) => about,
                RuleTraffic::ByDestination => {
                    let rule = &snapshot.policies()[held.at.policy].rules[held.at.rule];
                    let destination = self.groups.destination(combination.destination);
                    programs::carried(&rule.traffic, destination, &mut cells.traffics)
                }
            };
            (held.at, about)
        };
        combination.active.iter().map(about).collect()
    }

    /// Whether some policy isolates the subject.
    pub fn is_isolated(&self, combination: &RuleCombination) -> bool {
        self.program_of(combination).isolated
    }

    /// Decides a combination without some of its rules, and reports each decision. The last argument of `decided` is whether
    /// the rule allows on a layer-7 condition.
    pub fn decide(
        &self,
        combination: &RuleCombination,
        without: impl Fn(RuleAt) -> bool,
        cells: &mut Cells,
        mut decided: impl FnMut(Decider, Option<RuleAt>, TrafficId, bool),
    ) -> CellId {
        let program = self.program_of(combination);
        let stays = |at: &u32| !without(program.rules[*at as usize].at);
        let active: Vec<u32> = combination.active.iter().copied().filter(stays).collect();
        self.with_runner(cells, |runner, _| {
            runner.run(program, &active, combination.destination, |decider, about| match decider {
                Decider::Rule(at, _) => {
                    let held = &program.rules[at];
                    decided(decider, Some(held.at), about, held.effect == Effect::AllowTcp);
                }
                _ => decided(decider, None, about, false),
            })
        })
    }
}
