//! The pipeline of each group of endpoints, reduced to the rules that apply to it: what [`palisade_model::evaluate`]
//! does for one connection, laid out for all of them.
//!
//! Groups with the same rules share a program. Where a rule speaks of the subject's own namespace, or of a port by the
//! name it has at the destination, what it comes to is looked up here, so that a program is about sets and numbers only.

use std::collections::HashMap;
use std::sync::Arc;

use palisade_model::matching::Context;
use palisade_model::policy::{Action, Direction, Placement, Rule, Subject, TrafficMatch, TrafficMatches};
use palisade_model::snapshot::{RankedRule, Stage};
use palisade_model::traffic::{PortRange, Protocol};

use super::cells::Cells;
use super::groups::{Destination, DestinationId, Groups, number};
use super::members::{Lookup, Spans, are_relative};
use super::traffic_set::{Line, TrafficId, TrafficSet, Traffics};

/// Where a rule stands: its policy and its place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleAt {
    /// The policy's place in the snapshot.
    pub policy: usize,
    /// The rule's place in the policy.
    pub rule: usize,
}

/// What holds for some endpoints in one direction.
#[derive(Debug)]
pub struct Program {
    /// The rules of all stages, in order: tiers, NetworkPolicy, baseline.
    pub rules: Vec<Held>,
    /// How many of them stand in tiers before the NetworkPolicy stage.
    pub tiers: usize,
    /// How many stand in tiers or in the NetworkPolicy stage.
    pub union: usize,
    /// Whether some policy isolates these endpoints.
    pub isolated: bool,
}

/// A rule of a program.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    /// Which rule.
    pub at: RuleAt,
    /// What it does with what it matches.
    pub effect: Effect,
    /// Whom it means at the other end.
    pub peers: PeerSetId,
    /// What it is about.
    pub carried: Carried,
}

/// What becomes of what a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// As the rule says.
    Act(Action),
    /// Let through if it is TCP, else dropped: the rule has conditions on layer 7.
    AllowTcp,
}

/// The traffic of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    /// The same wherever it goes.
    Always(TrafficId),
    /// It depends on the destination.
    ByDestination,
}

/// A set of groups that rules name as peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerSetId(pub u32);

impl PeerSetId {
    /// Everybody: the first set there is.
    pub const ANYBODY: PeerSetId = PeerSetId(0);
}

/// All programs, and which groups have which.
#[derive(Debug)]
pub struct Programs {
    /// Each once, by direction.
    pub list: [Vec<Program>; 2],
    /// For each direction and group its program. Outside addresses have the first, which says nothing.
    pub of_group: [Vec<u32>; 2],
    /// What peers come to.
    pub peer_sets: Vec<Spans>,
}

/// The rules of one group and direction, as they are collected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Collected {
    rules: Vec<u32>,
    tiers: usize,
    union: usize,
    isolated: bool,
    /// The namespace, where some rule is relative to it.
    relative_to: Option<usize>,
    /// The destination, where some rule depends on it.
    destination: Option<DestinationId>,
}

/// What is known about each rule before anybody asks.
struct Facts {
    at: RuleAt,
    effect: Option<Effect>,
    /// It cannot be read, and does not allow: everything is denied.
    denies_all: bool,
    relative: bool,
    by_destination: bool,
}

/// Where programs are put together.
struct Builder<'b, 'g, 's> {
    groups: &'g Groups<'s>,
    lookup: Lookup<'g, 's>,
    cells: &'b mut Cells,
    facts: Vec<Facts>,
    /// Whom subjects mean, by where they are kept.
    meant: HashMap<*const Subject, Arc<[u32]>>,
    collected: [Vec<Collected>; 2],
    peer_ids: HashMap<Spans, PeerSetId>,
    peer_sets: Vec<Spans>,
    /// What a rule's peers came to, by the namespace if they are relative to it.
    peers_of: HashMap<(u32, Option<usize>), PeerSetId>,
}

/// The rules of all policies, numbered through.
pub fn rule_numbers(context: &Context<'_>) -> Vec<u32> {
    let mut first = 0;
    let mut numbers = Vec::with_capacity(context.snapshot.policies().len());
    for policy in context.snapshot.policies() {
        numbers.push(first);
        first += number(policy.rules.len());
    }
    numbers
}

// === impl Programs ===

impl Programs {
    /// Of every group of endpoints.
    pub fn new<'g>(groups: &'g Groups<'_>, lookup: Lookup<'g, '_>, cells: &mut Cells) -> Self {
        let mut builder = Builder::new(groups, lookup, cells);
        builder.collect();
        builder.finish()
    }
}

// === impl Builder ===

impl<'b, 'g, 's> Builder<'b, 'g, 's> {
    fn new(groups: &'g Groups<'s>, mut lookup: Lookup<'g, 's>, cells: &'b mut Cells) -> Self {
        let everybody = lookup.peers(&palisade_model::policy::Peers::Any, None);
        let mut builder = Builder {
            groups,
            lookup,
            cells,
            facts: Vec::new(),
            meant: HashMap::new(),
            collected: [(); 2].map(|()| vec![Collected::default(); groups.len()]),
            peer_ids: HashMap::new(),
            peer_sets: Vec::new(),
            peers_of: HashMap::new(),
        };
        builder.peer_set(everybody);
        let context = groups.context;
        for (policy, written) in context.snapshot.policies().iter().enumerate() {
            for (rule, written) in written.rules.iter().enumerate() {
                builder.facts.push(facts(&context, RuleAt { policy, rule }, written));
            }
        }
        builder
    }

    /// Sorts the rules by whom they apply to, stage after stage.
    fn collect(&mut self) {
        let snapshot = self.groups.context.snapshot;
        let numbers = rule_numbers(&self.groups.context);
        let id = |ranked: &RankedRule| numbers[ranked.policy] + number(ranked.rule);
        for ranked in snapshot.rules_of(Stage::Tiers) {
            self.tier(ranked, id(ranked), |collected| collected.tiers += 1);
        }
        // NetworkPolicies select pods: hosts, which are numbered after them, have no such stage.
        let pods = ..self.groups.hosts().start;
        let placed = snapshot.policies().iter().zip(&numbers);
        for (policy, first) in placed.filter(|(policy, _)| policy.placement == Placement::Union) {
            for isolation in &policy.isolations {
                for group in self.subjects(&isolation.subjects).iter().filter(|at| pods.contains(*at)) {
                    self.collected[isolation.direction as usize][*group as usize].isolated = true;
                }
            }
            for (rule, id) in policy.rules.iter().zip(*first..) {
                let facts = &self.facts[id as usize];
                // Only what surely matches allows.
                if !facts.denies_all && facts.effect.is_some() {
                    for group in self.subjects(&rule.subjects).iter().filter(|at| pods.contains(*at)) {
                        let collected = &mut self.collected[rule.direction as usize][*group as usize];
                        collected.rules.push(id);
                        collected.union += 1;
                    }
                }
            }
        }
        for ranked in snapshot.rules_of(Stage::Baseline) {
            self.tier(ranked, id(ranked), |_| {});
        }
    }

    fn tier(&mut self, ranked: &RankedRule, id: u32, count: fn(&mut Collected)) {
        let facts = &mut self.facts[id as usize];
        // Where a policy comes that names no tier there is, nobody can say: it does not allow, and it does not pass.
        if ranked.unplaced && !facts.denies_all {
            facts.effect = match facts.effect {
                Some(Effect::Act(Action::Allow) | Effect::AllowTcp) => None,
                Some(Effect::Act(Action::Pass)) => Some(Effect::Act(Action::Deny)),
                other => other,
            };
        }
        if facts.effect.is_none() {
            return;
        }
        let rule = &self.groups.context.snapshot.policies()[ranked.policy].rules[ranked.rule];
        for group in &*self.subjects(&rule.subjects) {
            let collected = &mut self.collected[rule.direction as usize][*group as usize];
            collected.rules.push(id);
            count(collected);
        }
    }

    /// Whom subjects mean. The rules of a policy share theirs.
    fn subjects(&mut self, subjects: &'s Arc<[Subject]>) -> Arc<[u32]> {
        let found = self.meant.entry(Arc::as_ptr(subjects).cast());
        Arc::clone(found.or_insert_with(|| self.lookup.subjects(subjects).into()))
    }

    fn finish(mut self) -> Programs {
        let mut list = [Vec::new(), Vec::new()];
        let mut of_group = [Vec::new(), Vec::new()];
        for direction in Direction::BOTH {
            let at = direction as usize;
            let collected = std::mem::take(&mut self.collected[at]);
            let mut known: HashMap<Collected, u32> = HashMap::new();
            for (group, mut collected) in (0..).zip(collected) {
                collected.union += collected.tiers;
                let facts = || collected.rules.iter().map(|rule| &self.facts[*rule as usize]);
                let relative = facts().any(|facts| facts.relative);
                let by_destination =
                    direction == Direction::Ingress && facts().any(|facts| facts.by_destination);
                collected.relative_to = if relative { self.groups.namespace(group) } else { None };
                collected.destination = by_destination.then(|| self.groups.get(group).destination);
                let fresh = number(list[at].len());
                let id = match known.get(&collected) {
                    Some(id) => *id,
                    None => {
                        let program = self.program(&collected);
                        list[at].push(program);
                        known.insert(collected, fresh);
                        fresh
                    }
                };
                of_group[at].push(id);
            }
        }
        Programs { list, of_group, peer_sets: self.peer_sets }
    }

    fn program(&mut self, collected: &Collected) -> Program {
        let rules = collected.rules.iter().map(|rule| self.held(*rule, collected)).collect();
        Program { rules, tiers: collected.tiers, union: collected.union, isolated: collected.isolated }
    }

    fn held(&mut self, id: u32, collected: &Collected) -> Held {
        let facts = &self.facts[id as usize];
        let (at, denies_all, relative) = (facts.at, facts.denies_all, facts.relative);
        // A rule without effect is in no program.
        let effect = facts.effect.unwrap_or(Effect::Act(Action::Deny));
        if denies_all {
            return Held { at, effect, peers: PeerSetId::ANYBODY, carried: Carried::Always(Traffics::ALL) };
        }
        let rule = &self.groups.context.snapshot.policies()[at.policy].rules[at.rule];
        let key = (id, collected.relative_to.filter(|_| relative));
        let peers = match self.peers_of.get(&key) {
            Some(known) => *known,
            None => {
                let spans = self.lookup.peers(&rule.peers, key.1);
                let set = self.peer_set(spans);
                self.peers_of.insert(key, set);
                set
            }
        };
        let destination = collected.destination.map(|id| self.groups.destination(id).clone());
        let carried = match (self.facts[id as usize].by_destination, destination) {
            (true, None) => Carried::ByDestination,
            (_, destination) => {
                Carried::Always(carried(rule, &destination.unwrap_or_default(), &mut self.cells.traffics))
            }
        };
        Held { at, effect, peers, carried }
    }

    fn peer_set(&mut self, spans: Spans) -> PeerSetId {
        if let Some(known) = self.peer_ids.get(&spans) {
            return *known;
        }
        let id = PeerSetId(number(self.peer_sets.len()));
        self.peer_sets.push(spans.clone());
        self.peer_ids.insert(spans, id);
        id
    }
}

fn facts(context: &Context<'_>, at: RuleAt, rule: &Rule) -> Facts {
    let unknown = context.unknown(rule).is_some();
    let effect = match (unknown, rule.action) {
        (true, Action::Allow) => None,
        (true, _) => Some(Effect::Act(Action::Deny)),
        (false, Action::Allow) if !rule.layer7.is_empty() => Some(Effect::AllowTcp),
        (false, action) => Some(Effect::Act(action)),
    };
    let by_destination = !unknown
        && match &rule.traffic {
            TrafficMatches::Any => false,
            TrafficMatches::Of(matches) => matches.iter().any(depends_on_destination),
        };
    Facts { at, effect, denies_all: unknown, relative: !unknown && are_relative(&rule.peers), by_destination }
}

fn depends_on_destination(one: &TrafficMatch) -> bool {
    match one {
        TrafficMatch::Named(..) | TrafficMatch::Igmp(_, Some(_)) => true,
        TrafficMatch::From(_, of) => depends_on_destination(of),
        _ => false,
    }
}

/// What a rule is about, for connections to a destination.
pub fn carried(rule: &Rule, destination: &Destination, traffics: &mut Traffics) -> TrafficId {
    match &rule.traffic {
        TrafficMatches::Any => Traffics::ALL,
        TrafficMatches::Of(matches) => {
            let mut pieces = Vec::new();
            for one in matches {
                of_match(one, PortRange::ALL, destination, traffics.line(), &mut pieces);
            }
            traffics.intern(TrafficSet::of(pieces))
        }
    }
}

fn of_match(
    one: &TrafficMatch,
    from: PortRange,
    destination: &Destination,
    line: &Line,
    pieces: &mut Vec<(u32, u32)>,
) {
    let mut add = |set: TrafficSet| pieces.extend_from_slice(set.pieces());
    match one {
        TrafficMatch::Ports(protocol, range) if protocol.has_ports() => {
            add(line.places(*protocol, range.first..=range.last, from));
        }
        TrafficMatch::Ports(..) | TrafficMatch::Unknown(_) => {}
        TrafficMatch::Named(wanted, name) => {
            for (own, protocol, port) in &destination.ports {
                if own == name && wanted.is_none_or(|wanted| wanted == *protocol) && protocol.has_ports() {
                    add(line.places(*protocol, *port..=*port, from));
                }
            }
        }
        TrafficMatch::From(range, of) => {
            let both = PortRange { first: range.first.max(from.first), last: range.last.min(from.last) };
            if both.first <= both.last {
                of_match(of, both, destination, line, pieces);
            }
        }
        TrafficMatch::Icmp(kind, code) => {
            let kinds = kind.map_or(0..=255, |kind| kind..=kind);
            for kind in kinds {
                let (first, last) = code.map_or((0, u8::MAX), |code| (code, code));
                let place = |code: u8| u16::from_be_bytes([kind, code]);
                add(line.places(Protocol::Icmp, place(first)..=place(last), from));
            }
        }
        TrafficMatch::Igmp(kind, group) => {
            let meant = match (group, destination.multicast) {
                (Some(group), Some(asked)) => asked == Some(*group),
                _ => true,
            };
            if meant {
                let places = kind.map_or(0..=u16::MAX, |kind| u16::from(kind)..=u16::from(kind));
                add(line.places(Protocol::Igmp, places, from));
            }
        }
    }
}
