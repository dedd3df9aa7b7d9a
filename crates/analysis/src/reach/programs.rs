//! The pipeline of each group of endpoints, reduced to the rules that apply to it: what [`palisade_model::evaluate`]
//! does for one connection, laid out for all of them.
//!
//! Groups with the same rules share a program. Where a rule speaks of the subject's own namespace, or of a port by the
//! name it has at the destination, what it comes to is looked up here, so that a program is about sets and numbers only.

mod collect;

use palisade_model::pipeline::{Effect, Stages};
use palisade_model::policy::{Direction, Subject, TrafficMatch, TrafficMatches};
use palisade_model::resolve::{Resolution, ResolvedRule, RuleAt};
use palisade_model::traffic_set::TrafficSet;

use super::cells::Cells;
use super::groups::{Destination, DestinationId, Groups, Table, number};
use super::members::{Lookup, Relative, Shared, Spans, relative};
use super::traffics::{TrafficId, Traffics};

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
    /// Whether it is complete. One that would have been too much work has no rules, and nothing is known about what it
    /// says.
    pub known: bool,
}

/// Steps to look up a rule of a program and to keep it: 40 bytes each, so that it is memory that runs out first.
const HELD: u64 = 400;
/// Steps to hand a rule to a group.
const HANDED: u64 = 80;

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
    /// The number of intervals of that, as far as it is known; at most 65,535 are counted.
    pub intervals: u16,
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
    /// Rules that follow each other, first and behind the last: a policy's are often all of them.
    rules: Vec<(u32, u32)>,
    tiers: usize,
    union: usize,
    isolated: bool,
    /// The namespace, where some rule is relative to it.
    relative_to: Option<usize>,
    /// The destination, where some rule depends on it.
    destination: Option<DestinationId>,
}

/// What a rule depends on beside the rule itself.
struct Facts {
    relative: Relative,
    by_destination: bool,
}

/// Where programs are put together.
struct Builder<'b, 'g, 's> {
    groups: &'g Groups<'s>,
    lookup: Lookup<'g, 's>,
    cells: &'b mut Cells,
    resolution: &'b Resolution<'s>,
    /// Of each rule of the resolution.
    facts: Vec<Facts>,
    /// Whom subjects mean, by where they are kept.
    meant: Table<*const Subject, Shared>,
    collected: [Vec<Collected>; 2],
    /// Whether sorting rules by whom they apply to was too much work: then nothing is known about anybody.
    unsorted: bool,
    peer_ids: Table<Shared, PeerSetId>,
    peer_sets: Vec<Spans>,
    /// What a rule's peers came to, by the namespace if they are relative to it.
    peers_of: Table<(u32, Option<usize>), PeerSetId>,
    /// What a rule is about, by the destination if it depends on that.
    carried_of: Table<(u32, Option<DestinationId>), TrafficId>,
}

// === impl Program ===

impl Program {
    /// Returns the rules among these, which are sorted, by stage.
    pub fn stages(
        &self,
        active: &[u32],
    ) -> Stages<
        impl Iterator<Item = (u32, Effect)>,
        impl Iterator<Item = u32>,
        impl Iterator<Item = (u32, Effect)>,
    > {
        let behind = |end: usize| active.partition_point(|rule| (*rule as usize) < end);
        let (tiers, union) = (behind(self.tiers), behind(self.union));
        let ranked = |rule: &u32| (*rule, self.rules[*rule as usize].effect);
        Stages {
            tiers: active[..tiers].iter().map(ranked),
            isolated: self.isolated,
            allows: active[tiers..union].iter().copied(),
            baseline: active[union..].iter().map(ranked),
        }
    }

    /// A program that would have been too much work.
    fn unknown() -> Self {
        Program { rules: Vec::new(), tiers: 0, union: 0, isolated: false, known: false }
    }
}

// === impl Collected ===

impl Collected {
    /// Whether no rule is about the group and no policy isolates it.
    fn says_nothing(&self) -> bool {
        self.rules.is_empty() && !self.isolated
    }
}

// === impl Programs ===

impl Programs {
    /// Of every group of endpoints.
    pub fn new<'g, 's>(
        groups: &'g Groups<'s>,
        lookup: Lookup<'g, 's>,
        resolution: &Resolution<'s>,
        cells: &mut Cells,
    ) -> Self {
        let mut builder = Builder::new(groups, lookup, resolution, cells);
        builder.collect();
        builder.finish()
    }
}

// === impl Builder ===

impl<'b, 'g, 's> Builder<'b, 'g, 's> {
    fn new(
        groups: &'g Groups<'s>,
        lookup: Lookup<'g, 's>,
        resolution: &'b Resolution<'s>,
        cells: &'b mut Cells,
    ) -> Self {
        Builder {
            groups,
            lookup,
            cells,
            resolution,
            facts: resolution.rules().iter().map(|rule| Facts::of(&rule.rule)).collect(),
            meant: Table::default(),
            collected: [(); 2].map(|()| vec![Collected::default(); groups.len()]),
            unsorted: false,
            peer_ids: Table::default(),
            peer_sets: Vec::new(),
            peers_of: Table::default(),
            carried_of: Table::default(),
        }
    }

    fn finish(mut self) -> Programs {
        let mut list = [Vec::new(), Vec::new()];
        let mut of_group = [Vec::new(), Vec::new()];
        for direction in Direction::BOTH {
            let at = direction as usize;
            let collected = std::mem::take(&mut self.collected[at]);
            let mut known: Table<Collected, u32> = Table::default();
            let mut unknown: Option<u32> = None;
            for (group, mut collected) in (0..).zip(collected) {
                let outside = self.groups.outside().contains(&group);
                if (self.unsorted && !outside) || (self.is_spent() && !collected.says_nothing()) {
                    let id = *unknown.get_or_insert_with(|| {
                        list[at].push(Program::unknown());
                        number(list[at].len()) - 1
                    });
                    of_group[at].push(id);
                    continue;
                }
                self.complete(&mut collected, group, direction);
                let id = match known.get(&collected) {
                    Some(id) => *id,
                    None => {
                        let fresh = number(list[at].len());
                        list[at].push(self.program(&collected));
                        known.insert(collected, fresh);
                        fresh
                    }
                };
                of_group[at].push(id);
            }
        }
        Programs { list, of_group, peer_sets: self.peer_sets }
    }

    /// Adds what the rules want to know about the group.
    fn complete(&self, collected: &mut Collected, group: u32, direction: Direction) {
        collected.union += collected.tiers;
        let (mut relative, mut by_destination) = (Relative::No, false);
        for (first, end) in &collected.rules {
            for facts in &self.facts[*first as usize..*end as usize] {
                relative = relative.max(facts.relative);
                by_destination |= facts.by_destination;
            }
        }
        let namespace = self.groups.namespace(group);
        collected.relative_to = match relative {
            Relative::No => None,
            Relative::Labels => namespace.map(|namespace| self.lookup.like(namespace)),
            Relative::Own => namespace,
        };
        if by_destination && direction == Direction::Ingress {
            collected.destination = Some(self.groups.get(group).destination);
        }
    }

    fn program(&mut self, collected: &Collected) -> Program {
        let count: u32 = collected.rules.iter().map(|(first, end)| end - first).sum();
        // A larger program may be too much work before it is complete.
        let mut rules = Vec::with_capacity(count.min(1024) as usize);
        for rule in collected.rules.iter().flat_map(|(first, end)| *first..*end) {
            if self.is_spent() {
                return Program::unknown();
            }
            rules.push(self.held(rule, collected));
            self.cells.work().take(HELD);
        }
        let Collected { tiers, union, isolated, .. } = *collected;
        Program { rules, tiers, union, isolated, known: true }
    }

    /// Whether there is no more work to be done, with all that looking up took.
    fn is_spent(&mut self) -> bool {
        let steps = std::mem::take(&mut self.lookup.steps);
        self.cells.work().take(steps);
        self.cells.work().is_spent()
    }

    fn held(&mut self, id: u32, collected: &Collected) -> Held {
        let facts = &self.facts[id as usize];
        let resolved = self.resolution.rule(id);
        let (at, effect) = (resolved.at, resolved.rule.effect);
        let relative_to = collected.relative_to.filter(|_| facts.relative != Relative::No);
        let destination = collected.destination.filter(|_| facts.by_destination);
        let by_destination = facts.by_destination;
        let peers = match self.peers_of.get(&(id, relative_to)) {
            Some(known) => *known,
            None => {
                let found = self.lookup.peers(&resolved.rule.peers, relative_to);
                let set = self.peer_set(found);
                self.peers_of.insert((id, relative_to), set);
                set
            }
        };
        if by_destination && destination.is_none() {
            return Held { at, effect, peers, carried: Carried::ByDestination, intervals: 1 };
        }
        let carried = match self.carried_of.get(&(id, destination)) {
            Some(known) => *known,
            None => {
                let meant = destination.map(|id| self.groups.destination(id));
                let none = Destination::default();
                let traffic =
                    carried(resolved.rule.traffic, meant.unwrap_or(&none), &mut self.cells.traffics);
                self.carried_of.insert((id, destination), traffic);
                traffic
            }
        };
        let intervals = self.cells.traffics.set(carried).intervals().len();
        let intervals = u16::try_from(intervals).unwrap_or(u16::MAX);
        Held { at, effect, peers, carried: Carried::Always(carried), intervals }
    }

    fn peer_set(&mut self, found: Shared) -> PeerSetId {
        let fresh = PeerSetId(number(self.peer_sets.len()));
        *self.peer_ids.entry(found).or_insert_with_key(|found| {
            self.peer_sets.push(Spans::from(&**found));
            fresh
        })
    }
}

// === impl Facts ===

impl Facts {
    fn of(rule: &ResolvedRule<'_>) -> Self {
        let by_destination = match rule.traffic {
            TrafficMatches::Any => false,
            TrafficMatches::Of(matches) => matches.iter().any(TrafficMatch::depends_on_receiver),
        };
        Facts { relative: relative(&rule.peers), by_destination }
    }
}

/// Returns the traffic that a rule matches to a destination.
pub fn carried(matches: &TrafficMatches, destination: &Destination, traffics: &mut Traffics) -> TrafficId {
    match matches {
        TrafficMatches::Any => Traffics::ALL,
        TrafficMatches::Of(matches) => {
            let mut intervals = Vec::new();
            for one in matches {
                one.regions(destination, |region| traffics.space().add(region, &mut intervals));
            }
            traffics.intern(TrafficSet::from_intervals(intervals))
        }
    }
}
