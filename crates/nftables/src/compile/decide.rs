//! The pipeline, run ahead of time: what a list of rules comes to, for a peer, and for each piece of traffic.
//!
//! Rules cut traffic into pieces that none of them splits ([`pieces`]). For each piece the first rule in the pipeline's order decides.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use palisade_engine::delta::{CompiledRule as Rule, RuleEffect, SetId};
use palisade_model::pipeline::Effect;
use palisade_model::policy::{Direction, IcmpMatch, TrafficMatch, TrafficMatches};
use palisade_model::snapshot::Stage;
use palisade_model::traffic::{PortRange, Protocol};

use self::pieces::{PROTOCOLS, Piece, contains, merge_sources, names};
use super::budget::Budget;

mod pieces;
mod within;

/// What becomes of a connection in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Final {
    Allow,
    Deny,
    Reject,
}

/// What, and by which rule of the list; by none if no policy has anything to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Outcome {
    pub(crate) verdict: Final,
    pub(crate) by: Option<u32>,
}

/// Protocol, source ports and destination ports, and what becomes of that.
pub(crate) type PortOutcome = (Protocol, PortRange, PortRange, Outcome);

/// What a peer may do. Whoever may do the same has the same one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Behaviour {
    /// Ports that do not come to what the rest does, disjoint.
    pub(crate) ports: Vec<PortOutcome>,
    /// ICMP messages whose outcome differs from `other_icmp`; the first match counts. Messages of a type come before those of a
    /// code of any type, and none matches every message: that is `other_icmp`.
    pub(crate) icmp: Vec<(IcmpMatch, Outcome)>,
    /// ICMP messages that nothing in `icmp` matches.
    pub(crate) other_icmp: Outcome,
    /// Of IGMP, the type, and to whom; the first that fits counts.
    pub(crate) igmp: Vec<(Option<u8>, To, Outcome)>,
    pub(crate) other_igmp: Outcome,
    /// Whatever else there is.
    pub(crate) rest: Outcome,
    /// Whether it is too much to be told apart: then all of it is denied.
    pub(crate) closed: bool,
}

/// To whom a message of IGMP goes, as far as rules tell groups apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum To {
    /// A group that some rule names.
    Group(Ipv4Addr),
    /// Any other.
    OtherGroup,
    /// Somebody: that may be about any group.
    Host,
}

/// What a rule asks of its other end, by its place among those of a list.
pub(crate) type Condition = usize;

/// Rules that apply to somebody in one direction, in their order.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) direction: Direction,
    pub(crate) rules: Vec<Arc<Rule>>,
    /// What rules ask of the other end: to be in any of these sets. All are different.
    pub(crate) conditions: Vec<Vec<SetId>>,
    /// The conditions that a set fulfils.
    by_set: BTreeMap<SetId, Vec<Condition>>,
    /// Rules about anybody, and those for which a condition must hold; some ask for a second one, too.
    about_all: Vec<u32>,
    about: Vec<Vec<(u32, Option<Condition>)>>,
    /// The first that isolates.
    isolation: Option<u32>,
    /// For each stage the number behind its last rule.
    ends: [u32; 3],
    /// Those of [`PROTOCOLS`] that some rule names: ports of the others get what the rest does.
    protocols: Vec<Protocol>,
}

/// Rules of a list that can decide about other traffic than ports, in order: each with its matches, or none if it is about
/// all traffic.
struct Asked<'l>(Vec<(u32, Option<&'l [TrafficMatch]>)>);

/// More pieces of traffic than this are not told apart for one peer.
const MOST_PIECES: usize = 20_000;

/// Steps to find a rule that is about a peer, and to ask it about traffic.
const ABOUT: u64 = 60;
/// Steps to ask whether a match of a rule contains a piece.
const ASKED: u64 = 4;

// === impl Behaviour ===

impl Behaviour {
    /// Nothing is allowed.
    pub(crate) fn closed() -> Self {
        let no = Outcome { verdict: Final::Deny, by: None };
        Behaviour {
            ports: Vec::new(),
            icmp: Vec::new(),
            other_icmp: no,
            igmp: Vec::new(),
            other_igmp: no,
            rest: no,
            closed: true,
        }
    }

    /// How many pieces of traffic it tells apart.
    pub(crate) fn pieces(&self) -> usize {
        1 + self.ports.len() + self.icmp.len() + self.igmp.len()
    }
}

// === impl List ===

impl List {
    /// Of rules in the pipeline's order.
    pub(crate) fn new(mut rules: Vec<Arc<Rule>>, direction: Direction) -> List {
        // Who is isolated is, however often: the first says so.
        let mut isolated = false;
        rules.retain(|rule| rule.effect != RuleEffect::Isolate || !std::mem::replace(&mut isolated, true));
        let mut list = List {
            direction,
            rules: Vec::new(),
            conditions: Vec::new(),
            by_set: BTreeMap::new(),
            about_all: Vec::new(),
            about: Vec::new(),
            isolation: None,
            ends: [0; 3],
            protocols: Vec::new(),
        };
        let mut known: BTreeMap<Vec<SetId>, Condition> = BTreeMap::new();
        for (at, rule) in (0u32..).zip(&rules) {
            if rule.effect == RuleEffect::Isolate {
                list.isolation = Some(at);
            }
            let destination = rule.destination.filter(|_| direction == Direction::Egress);
            let destination = destination.map(|set| list.condition(vec![set], &mut known));
            match &rule.peers {
                // Nobody is meant.
                Some(sets) if sets.is_empty() => {}
                Some(sets) => {
                    let mut sets = sets.to_vec();
                    sets.sort_unstable();
                    let condition = list.condition(sets, &mut known);
                    list.about[condition].push((at, destination));
                }
                None => match destination {
                    Some(condition) => list.about[condition].push((at, None)),
                    None => list.about_all.push(at),
                },
            }
        }
        list.ends = [Stage::Tiers, Stage::NetworkPolicy, Stage::Baseline].map(|stage| {
            u32::try_from(rules.partition_point(|rule| rule.rank.stage <= stage)).unwrap_or(u32::MAX)
        });
        let is_named = |protocol: &Protocol| rules.iter().any(|rule| names(&rule.traffic, *protocol));
        list.protocols = PROTOCOLS.into_iter().filter(is_named).collect();
        list.rules = rules;
        list
    }

    fn condition(&mut self, sets: Vec<SetId>, known: &mut BTreeMap<Vec<SetId>, Condition>) -> Condition {
        if let Some(condition) = known.get(&sets) {
            return *condition;
        }
        let condition = self.conditions.len();
        for set in &sets {
            self.by_set.entry(*set).or_default().push(condition);
        }
        known.insert(sets.clone(), condition);
        self.conditions.push(sets);
        self.about.push(Vec::new());
        condition
    }

    /// The sets that tell peers apart.
    pub(crate) fn named(&self) -> impl Iterator<Item = SetId> {
        self.by_set.keys().copied()
    }

    /// The conditions that somebody in these sets fulfils, sorted.
    pub(crate) fn fulfilled(&self, sets: impl Iterator<Item = SetId>) -> Vec<Condition> {
        let mut conditions: Vec<Condition> =
            sets.filter_map(|set| self.by_set.get(&set)).flatten().copied().collect();
        conditions.sort_unstable();
        conditions.dedup();
        conditions
    }

    /// What the rules say to a peer for whom these conditions hold, sorted: nothing is allowed if that takes more work than
    /// there is left.
    pub(crate) fn behaviour(&self, fulfilled: &[Condition], budget: &mut Budget) -> Behaviour {
        let rules = self.about(fulfilled);
        budget.take(ABOUT * (rules.len() + fulfilled.len()) as u64);
        let plain =
            Asked::of(self, &rules, |one| matches!(one, TrafficMatch::Icmp(_) | TrafficMatch::Igmp(..)));
        let rest = self.decide(&plain, Piece::Rest, budget);
        let mut ports = Vec::new();
        for protocol in self.protocols.iter().copied() {
            for source in self.sources(&rules, protocol) {
                self.sweep(&rules, protocol, source, &mut ports, budget);
                if ports.len() > MOST_PIECES || budget.is_spent() {
                    return Behaviour::closed();
                }
            }
        }
        merge_sources(&mut ports);
        ports.retain(|(.., outcome)| *outcome != rest);
        let mut behaviour = Behaviour {
            ports,
            icmp: Vec::new(),
            other_icmp: self.decide(&plain, Piece::Icmp { kind: None, code: None }, budget),
            igmp: Vec::new(),
            other_igmp: self.decide(&plain, Piece::Igmp(None, To::OtherGroup), budget),
            rest,
            closed: false,
        };
        self.icmp(&plain, &mut behaviour, budget);
        self.igmp(&plain, &mut behaviour, budget);
        let too_many = behaviour.closed || budget.is_spent();
        if too_many { Behaviour::closed() } else { behaviour }
    }

    /// The rules about a peer for whom these conditions hold.
    fn about(&self, fulfilled: &[Condition]) -> BTreeSet<u32> {
        let about = fulfilled.iter().filter_map(|condition| self.about.get(*condition)).flatten();
        let about = about.filter(|(_, also)| also.is_none_or(|also| fulfilled.binary_search(&also).is_ok()));
        self.about_all.iter().copied().chain(about.map(|(at, _)| *at)).collect()
    }

    fn decide(&self, rules: &Asked<'_>, piece: Piece, budget: &mut Budget) -> Outcome {
        let mut asked = 0;
        let outcome = self.first(|from| {
            let start = rules.0.partition_point(|(at, _)| *at < from);
            let mut rest = rules.0[start..].iter();
            let found = rest.find(|(_, matches)| {
                asked += 1 + matches.map_or(0, <[_]>::len);
                matches.is_none_or(|all| all.iter().any(|one| contains(one, piece)))
            });
            found.map(|(at, _)| *at)
        });
        budget.take(ASKED * asked as u64);
        outcome
    }

    /// The pipeline, over rules that are about the peer and the traffic: `next` returns the first of them from a number on.
    /// Stages that are passed, or do not count, are skipped as a whole.
    fn first(&self, mut next: impl FnMut(u32) -> Option<u32>) -> Outcome {
        let mut from = 0;
        while let Some(at) = next(from) {
            let rule = &self.rules[at as usize];
            let stage = rule.rank.stage;
            let counts = match stage {
                Stage::Tiers => true,
                Stage::NetworkPolicy => self.isolation.is_some(),
                Stage::Baseline => self.isolation.is_none(),
            };
            if !counts {
                from = self.end_of(stage);
                continue;
            }
            let verdict = match rule.effect {
                // Whether conditions on layer 7 hold the kernel cannot tell.
                RuleEffect::Decide(Effect::Deny | Effect::AllowTcp) => Final::Deny,
                RuleEffect::Decide(Effect::Allow) => Final::Allow,
                RuleEffect::Decide(Effect::Reject) => Final::Reject,
                RuleEffect::Decide(Effect::Pass) => {
                    from = self.end_of(stage);
                    continue;
                }
                RuleEffect::Isolate => {
                    from = at + 1;
                    continue;
                }
            };
            return Outcome { verdict, by: Some(at) };
        }
        match self.isolation {
            Some(by) => Outcome { verdict: Final::Deny, by: Some(by) },
            None => Outcome { verdict: Final::Allow, by: None },
        }
    }

    /// The number behind the last rule of a stage: rules are in the order of stages.
    fn end_of(&self, stage: Stage) -> u32 {
        self.ends[stage as usize]
    }
}

// === impl Asked ===

impl<'l> Asked<'l> {
    fn of(list: &'l List, rules: &BTreeSet<u32>, wanted: impl Fn(&TrafficMatch) -> bool) -> Self {
        let asked = rules.iter().filter_map(|at| match &list.rules[*at as usize].traffic {
            TrafficMatches::Any => Some((*at, None)),
            TrafficMatches::Of(all) if all.iter().any(&wanted) => Some((*at, Some(&all[..]))),
            TrafficMatches::Of(_) => None,
        });
        Asked(asked.collect())
    }
}
