//! What programs are asked about, one combination of rules after the other: for whoever wants to know what each rule is
//! good for, and not only what comes of all of them.
//!
//! Two classes that the same rules of a program are about are told apart by nothing, so that a cluster has few
//! combinations however many pairs of pods. Each knows two who meet it, which is a connection to show. No pod meets itself,
//! or the node it runs on: policies have no say about those.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use palisade_model::address::Family;
use palisade_model::flow::{Party, Who};
use palisade_model::pipeline::Effect;
use palisade_model::policy::{Direction, Rule, TrafficMatch, TrafficMatches};

use super::cells::{CellId, Cells};
use super::cuts::Cuts;
use super::groups::{Destination, DestinationId, number};
use super::programs::{self, Carried, Program};
use super::sample::plain_address;
use super::traffics::{TrafficId, Traffics};
use super::{Decider, Reach, RuleAt};

/// The rules of a program that are about the same classes at the other end.
#[derive(Debug, Clone)]
pub struct Combination {
    /// For which direction.
    pub direction: Direction,
    /// Two who meet it. Nobody does where it is only about a pod and itself, which has a say only through a Service, or a
    /// pod and its node.
    pub meeting: Option<Meeting>,
    /// Somebody outside who does, where there is anybody.
    pub outside: Option<Meeting>,
    program: u32,
    active: Box<[u32]>,
    destination: DestinationId,
    /// The classes at the other end: the first and the last of each run.
    peers: Vec<(u32, u32)>,
}

/// Two ends about whose connections policies have a say.
#[derive(Debug, Clone, Copy)]
pub struct Meeting {
    /// Whom the program is of, and the class.
    pub own: (u32, Party),
    /// Who is at the other end, and the class.
    pub other: (u32, Party),
}

/// Who is in each class, and which classes have a program.
#[derive(Debug)]
pub struct Ends {
    /// By class; of those who share a node's network one.
    members: Vec<Vec<Party>>,
    /// By direction and program.
    classes: [Vec<Vec<u32>>; 2],
    /// The addresses of nodes, as pods know them.
    hosts: HashSet<IpAddr>,
}

/// An address of each family that is nobody's, for people to recognize.
pub fn somewhere(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(203, 0, 113, 7).into(),
        Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7).into(),
    }
}

/// What a rule is about wherever it goes; `None` where that depends on the destination.
pub fn carried_anywhere(rule: &Rule, traffics: &mut Traffics) -> Option<TrafficId> {
    match &rule.traffic {
        TrafficMatches::Of(matches) if matches.iter().any(TrafficMatch::depends_on_receiver) => None,
        _ => Some(programs::carried(&rule.traffic, &Destination::default(), traffics)),
    }
}

/// Pieces of sets of peers that take as long as a rule of a combination.
const PIECES: usize = 2;

/// A combination before it is known who meets it: its rules, the destination, the classes at the other end.
type Met = (Box<[u32]>, DestinationId, Vec<(u32, u32)>);

// === impl Combination ===

impl Combination {
    /// How many rules it is.
    pub fn len(&self) -> usize {
        self.active.len()
    }

    /// Whether no rule is in it.
    pub fn is_empty(&self) -> bool {
        self.active.is_empty()
    }
}

// === impl Reach ===

impl Reach<'_> {
    /// Who is in each class.
    pub fn ends(&self) -> Ends {
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
        Ends { members, classes, hosts: pods.flat_map(|pod| pod.host_addresses.iter().copied()).collect() }
    }

    /// The combinations of a direction. Looking for them takes from a budget; the rules of a program
    /// that takes too much are handed back instead.
    pub fn combinations(
        &self,
        direction: Direction,
        ends: &Ends,
        cuts: &Cuts,
        budget: &mut usize,
        skipped: &mut Vec<RuleAt>,
    ) -> Vec<Combination> {
        let mut found: Vec<Combination> = Vec::new();
        for (program, classes) in (0..).zip(&ends.classes[direction as usize]) {
            let Some(first) = classes.first() else { continue };
            match self.combine(direction, program, ends, cuts, budget) {
                Some(own) => found.extend(own),
                None => skipped.extend(self.rules(direction, *first)),
            }
        }
        found
    }

    /// The combinations of one program; `None` when that is more than the budget, or than a part of it, allows.
    fn combine(
        &self,
        direction: Direction,
        program: u32,
        ends: &Ends,
        cuts: &Cuts,
        budget: &mut usize,
    ) -> Option<Vec<Combination>> {
        let rules = &self.programs[direction as usize][program as usize].rules;
        let by_destination =
            direction == Direction::Egress && rules.iter().any(|held| held.carried == Carried::ByDestination);
        let least = *budget - *budget / 4;
        // Where sets of peers begin and end is sorted, which is much where they are in many pieces.
        let pieces: usize = rules.iter().map(|held| self.peers[held.peers.0 as usize].len()).sum();
        *budget = budget.saturating_sub(pieces / PIECES);
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
        let mut found: Vec<Met> = Vec::new();
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
        let combination = |(active, destination, peers): Met| {
            let own = &ends.classes[direction as usize][program as usize];
            let outside = self.outsider(direction, own, &peers, ends, cuts);
            let inside = self.pairs(direction, own, &peers, ends).next();
            let meeting = inside.or(outside);
            Combination { direction, meeting, outside, program, active, destination, peers }
        };
        Some(found.into_iter().map(combination).collect())
    }

    /// All pairs of classes that meet in a combination, each with two who do. The other end is of the cluster, where
    /// somebody of it is meant, and else outside.
    pub fn meetings<'c>(
        &'c self,
        combination: &'c Combination,
        ends: &'c Ends,
    ) -> impl Iterator<Item = Meeting> + 'c {
        let own = &ends.classes[combination.direction as usize][combination.program as usize];
        self.pairs(combination.direction, own, &combination.peers, ends).chain(combination.outside)
    }

    /// The classes that are at both ends of a combination: whoever is in one may reach itself through a Service.
    pub fn at_both_ends<'c>(
        &self,
        combination: &'c Combination,
        ends: &'c Ends,
    ) -> impl Iterator<Item = u32> + 'c {
        let own = &ends.classes[combination.direction as usize][combination.program as usize];
        let is_peer =
            |class: &u32| combination.peers.iter().any(|(first, last)| first <= class && class <= last);
        own.iter().copied().filter(is_peer)
    }

    /// What the other side says about two who meet.
    pub fn other_side(&self, direction: Direction, meeting: &Meeting) -> CellId {
        let (own, other) = (meeting.own, meeting.other);
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
        ends: &'c Ends,
    ) -> impl Iterator<Item = Meeting> + 'c {
        let inside = move || {
            peers.iter().flat_map(|(first, last)| *first..=*last).take_while(|at| *at < self.outside.start)
        };
        own.iter().flat_map(move |class| {
            // Others are told from itself more easily.
            let others = inside().filter(move |other| other != class);
            let itself = inside().filter(move |other| other == class).take(1);
            others.chain(itself).filter_map(move |other| self.pair(direction, *class, other, ends))
        })
    }

    fn pair(&self, direction: Direction, class: u32, other: u32, ends: &Ends) -> Option<Meeting> {
        let [owns, others] = [class, other].map(|class| &ends.members[class as usize]);
        owns.iter().find_map(|own| {
            let far = |party: &&Party| {
                let own_node = direction == Direction::Ingress && self.is_own_node(party.who, own.who);
                !own_node && !self.is_itself(own.who, party.who)
            };
            let party = others.iter().find(far)?;
            Some(Meeting { own: (class, *own), other: (other, *party) })
        })
    }

    /// Somebody who meets somebody outside: somewhere that people know to be outside, if it is among them.
    fn outsider(
        &self,
        direction: Direction,
        own: &[u32],
        peers: &[(u32, u32)],
        ends: &Ends,
        cuts: &Cuts,
    ) -> Option<Meeting> {
        let known = self.of_address(somewhere(self.family()), cuts);
        let is_known = peers.iter().any(|(first, last)| (*first..=*last).contains(&known));
        let outside = peers.iter().flat_map(|(first, last)| (*first).max(self.outside.start)..last + 1);
        let mut tried = is_known.then_some(known).into_iter().chain(outside);
        tried.find_map(|class| {
            let address = self.free_address(class, ends, cuts)?;
            let party = Party { who: Who::Outside, address: Some(address) };
            // A node that is not declared is outside, and still the node of its pods.
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
            Some(Meeting { own: own.iter().find_map(of_class)?, other: (class, party) })
        })
    }

    /// An address of an outside class that is nobody's; that of a pod's node only if there is no other.
    fn free_address(&self, class: u32, ends: &Ends, cuts: &Cuts) -> Option<IpAddr> {
        let at = class.checked_sub(self.outside.start)? as usize;
        let (first, last) = cuts.interval(self.family(), at);
        let free = |address: &IpAddr| self.snapshot().who_has(*address) == Who::Outside;
        let far = |address: &IpAddr| free(address) && !ends.hosts.contains(address);
        plain_address(first, last, far).or_else(|| plain_address(first, last, free))
    }

    fn program_of(&self, combination: &Combination) -> &Program {
        &self.programs[combination.direction as usize][combination.program as usize]
    }

    /// The rules of a combination and what each is about, in order.
    pub fn meant(&self, combination: &Combination, cells: &mut Cells) -> Vec<(RuleAt, TrafficId)> {
        let program = self.program_of(combination);
        let snapshot = self.snapshot();
        let about = |at: &u32| {
            let held = &program.rules[*at as usize];
            let about = match held.carried {
                Carried::Always(about) => about,
                Carried::ByDestination => {
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
    pub fn is_isolated(&self, combination: &Combination) -> bool {
        self.program_of(combination).isolated
    }

    /// Runs a combination without some of its rules, and tells who decides what. The last of what is told is whether the
    /// rule lets it through on a condition inside the connection.
    pub fn decide(
        &self,
        combination: &Combination,
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
