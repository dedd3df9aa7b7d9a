//! What programs are asked about, one combination of rules after the other: for whoever wants to know what each rule is
//! good for, and not only what comes of all of them.
//!
//! Two classes that the same rules of a program are about are told apart by nothing, so that a cluster has few
//! combinations however many pairs of pods. Each knows a pair of classes that has it, which is a connection to show.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use palisade_model::address::{Family, next};
use palisade_model::flow::{Party, Who};
use palisade_model::policy::{Direction, Rule, TrafficMatch, TrafficMatches};

use super::cells::{CellId, Cells};
use super::cuts::Cuts;
use super::groups::{Destination, DestinationId, Whose, number};
use super::programs::{self, Carried, Effect, Program};
use super::traffic_set::{TrafficId, Traffics};
use super::{Decider, Reach, RuleAt};

/// The rules of a program that are about the same classes at the other end.
#[derive(Debug, Clone)]
pub struct Combination {
    /// For which direction.
    pub direction: Direction,
    /// A class that the program is of.
    pub subject: u32,
    /// A class at the other end.
    pub peer: u32,
    /// A class of outside addresses at the other end, where there is one.
    pub outside: Option<u32>,
    program: u32,
    active: Box<[u32]>,
    destination: DestinationId,
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
    fn depends(one: &TrafficMatch) -> bool {
        match one {
            TrafficMatch::Named(..) | TrafficMatch::Igmp(_, Some(_)) => true,
            TrafficMatch::From(_, of) => depends(of),
            _ => false,
        }
    }
    match &rule.traffic {
        TrafficMatches::Of(matches) if matches.iter().any(depends) => None,
        _ => Some(programs::carried(rule, &Destination::default(), traffics)),
    }
}

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
    /// The combinations of a direction. Looking for them takes from a budget; the rules of a program that takes too much
    /// are handed back instead.
    pub fn combinations(
        &self,
        direction: Direction,
        cuts: &Cuts,
        budget: &mut usize,
        skipped: &mut Vec<RuleAt>,
    ) -> Vec<Combination> {
        let mut found: Vec<Combination> = Vec::new();
        let mut done = vec![false; self.programs[direction as usize].len()];
        for class in 0..self.outside.start {
            let program = self.classes[class as usize].programs[direction as usize];
            let is_first = !std::mem::replace(&mut done[program as usize], true);
            if !is_first || !self.is_subject(direction, class) {
                continue;
            }
            match self.combine(direction, class, program, cuts, budget) {
                Some(own) => found.extend(own),
                None => skipped.extend(self.rules(direction, class)),
            }
        }
        found
    }

    /// The combinations of one program; `None` when that is more than the budget, or than a part of it, allows.
    fn combine(
        &self,
        direction: Direction,
        subject: u32,
        program: u32,
        cuts: &Cuts,
        budget: &mut usize,
    ) -> Option<Vec<Combination>> {
        let rules = &self.programs[direction as usize][program as usize].rules;
        let by_destination =
            direction == Direction::Egress && rules.iter().any(|held| held.carried == Carried::ByDestination);
        let mut ends: Vec<(u32, u32, bool)> = Vec::new();
        for (rule, held) in (0..).zip(rules) {
            for (first, last) in &*self.peers[held.peers.0 as usize] {
                ends.extend([(*first, rule, true), (last + 1, rule, false)]);
            }
        }
        ends.sort_unstable();
        let preferred = self.of_address(somewhere(self.family()), cuts);
        let mut found: Vec<Combination> = Vec::new();
        let mut known: HashMap<(Box<[u32]>, DestinationId), usize> = HashMap::new();
        let mut active: Vec<u32> = Vec::new();
        let (mut class, mut next) = (0, 0);
        let least = *budget - *budget / 4;
        while class < self.len() {
            while let Some((_, rule, begins)) = ends.get(next).filter(|(at, ..)| *at <= class) {
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
            let mut until = ends.get(next).map_or(self.len(), |(at, ..)| (*at).min(self.len()));
            let mut destination = DestinationId(0);
            if by_destination {
                destination = self.destinations[class as usize];
                let alike = self.destinations[class as usize..until as usize].iter();
                until = class + number(alike.take_while(|other| **other == destination).count());
            }
            let key = (active.clone().into_boxed_slice(), destination);
            let at = *known.entry(key).or_insert_with_key(|(active, destination)| {
                let (active, destination) = (active.clone(), *destination);
                found.push(Combination {
                    direction,
                    subject,
                    peer: class,
                    outside: None,
                    program,
                    active,
                    destination,
                });
                found.len() - 1
            });
            self.samples(&mut found[at], class..until, preferred);
            class = until;
        }
        Some(found)
    }

    /// Better samples of who is at the other end, out of more classes: another than the subject, and somewhere that
    /// people know to be outside.
    fn samples(&self, combination: &mut Combination, classes: Range<u32>, preferred: u32) {
        if combination.peer == combination.subject {
            let other = classes.clone().find(|class| *class != combination.subject);
            combination.peer = other.unwrap_or(combination.peer);
        }
        let outside = classes.start.max(self.outside.start);
        if classes.contains(&preferred) {
            combination.outside = Some(preferred);
        } else if outside < classes.end {
            combination.outside = combination.outside.or(Some(outside));
        }
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
                    programs::carried(rule, destination, &mut cells.traffics)
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

    /// Somebody of a class; another than this one, if there is another.
    pub fn sample(&self, class: u32, but: Option<Party>, cuts: &Cuts) -> Party {
        let snapshot = self.snapshot();
        if self.outside.contains(&class) {
            let at = (class - self.outside.start) as usize;
            let (first, last) = cuts.interval(self.family(), at);
            let known = somewhere(self.family());
            let known = Some(known).filter(|known| first <= *known && *known <= last);
            let tried = [known, next(first).filter(|next| *next <= last), Some(first), Some(last)];
            let free = |address: &IpAddr| snapshot.who_has(*address) == Who::Outside;
            let address = tried.into_iter().flatten().find(free).unwrap_or(first);
            return Party { who: Who::Outside, address: Some(address) };
        }
        let party = |who: Who, addresses: &[IpAddr]| {
            let own = |address: &&IpAddr| Family::of(**address) == self.family();
            Party { who, address: addresses.iter().find(own).copied() }
        };
        let pod = |at: usize| party(Who::Pod(at), &snapshot.pods()[at].addresses);
        let first = match self.groups.get(self.classes[class as usize].group).whose {
            Whose::Pods(sample, _) => Some(pod(sample)),
            Whose::Host(Some(node)) => Some(party(Who::Node(node), &snapshot.nodes()[node].addresses)),
            _ => None,
        };
        // One that is near may be let through whatever policies say.
        let far = |party: &Party| {
            but.is_none_or(|but| {
                but.who != party.who
                    && !self.is_own_node(but.who, party.who)
                    && !self.is_own_node(party.who, but.who)
            })
        };
        if let Some(first) = first.filter(far) {
            return first;
        }
        let others = (0..snapshot.pods().len()).filter(|at| self.of_pod(*at) == Some(class)).map(pod);
        let other = others.clone().find(far).or_else(|| others.clone().find(|party| but != Some(*party)));
        other.or(first).unwrap_or(Party { who: Who::Outside, address: None })
    }
}
