//! Programs: the rules of the pipeline that apply to a group of endpoints, in evaluation order.
//!
//! Groups with the same rules share a program. Peers relative to the subject's namespace, and named ports at the
//! destination, are resolved here, so that a program consists of sets and numbers only.

mod collect;

use palisade_model::pipeline::{Effect, Stages};
use palisade_model::policy::{Direction, Subject, TrafficMatch, TrafficMatches};
use palisade_model::resolve::{Resolution, ResolvedRule, RuleAt};
use palisade_model::traffic_set::TrafficSet;

use super::cells::Cells;
use super::groups::{Destination, DestinationId, EndpointGroups, FastMap, number};
use super::members::{MembershipLookup, NamespaceDependence, SharedSpans, Spans, relative};
use super::traffics::{TrafficId, Traffics};

/// Rules that apply to some endpoints in one direction.
#[derive(Debug)]
pub struct RuleProgram {
    /// The rules of all stages, in order: tiers, NetworkPolicy, baseline.
    pub rules: Vec<ProgramRule>,
    /// Number of rules in the tiers before the NetworkPolicy stage.
    pub tiers: usize,
    /// Number of rules before the baseline: in tiers or in the NetworkPolicy stage.
    pub union: usize,
    /// Whether some policy isolates these endpoints.
    pub isolated: bool,
    /// Whether it is complete. Where a limit was reached it has no rules, and its rows are unknown.
    pub known: bool,
}

/// Work to resolve and keep a rule of a program: 40 bytes each, so that memory is the limit.
const RULE_WORK: u64 = 400;
/// Work to assign a run of rules to a group.
const ASSIGNMENT_WORK: u64 = 80;

/// A rule of a program.
#[derive(Debug, Clone, Copy)]
pub struct ProgramRule {
    /// The rule in its policy.
    pub at: RuleAt,
    /// Effect on traffic that it matches.
    pub effect: Effect,
    /// Peers that it matches.
    pub peers: PeerSetId,
    /// Traffic that it matches.
    pub carried: RuleTraffic,
    /// Number of intervals of its traffic, as far as known; at most 65,535.
    pub intervals: u16,
}

/// The traffic of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleTraffic {
    /// Traffic that is the same for every destination.
    Always(TrafficId),
    /// Traffic that depends on the destination.
    ByDestination,
}

/// Index of a set of groups that rules have as peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerSetId(pub u32);

/// All programs, and the program of each group.
#[derive(Debug)]
pub struct Programs {
    /// Distinct programs by direction.
    pub list: [Vec<RuleProgram>; 2],
    /// Program of each group, by direction. Outside addresses have the first, which is empty.
    pub of_group: [Vec<u32>; 2],
    /// Groups of each peer set.
    pub peer_sets: Vec<Spans>,
}

/// Rules of one group and direction, as collected. Equal ones become one program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct GroupRules {
    /// Runs of consecutive rules, first and one behind the last: often a whole policy.
    rules: Vec<(u32, u32)>,
    tiers: usize,
    union: usize,
    isolated: bool,
    /// The subject's namespace, where some peer is relative to it.
    relative_to: Option<usize>,
    /// The destination, where some rule's traffic depends on it.
    destination: Option<DestinationId>,
}

/// What a rule depends on besides itself.
struct RuleDependencies {
    relative: NamespaceDependence,
    by_destination: bool,
}

/// Construction of programs.
struct ProgramBuilder<'b, 'g, 's> {
    groups: &'g EndpointGroups<'s>,
    lookup: MembershipLookup<'g, 's>,
    cells: &'b mut Cells,
    resolution: &'b Resolution<'s>,
    /// Dependencies of each rule of the resolution.
    facts: Vec<RuleDependencies>,
    /// Groups of subjects, by the address of their shared list.
    meant: FastMap<*const Subject, SharedSpans>,
    collected: [Vec<GroupRules>; 2],
    /// Whether the work was used up while rules were assigned: then all programs are unknown.
    out_of_budget: bool,
    peer_ids: FastMap<SharedSpans, PeerSetId>,
    peer_sets: Vec<Spans>,
    /// Peer set of a rule, by the subject's namespace if it is relative to it.
    peers_of: FastMap<(u32, Option<usize>), PeerSetId>,
    /// Traffic of a rule, by the destination if it depends on it.
    carried_of: FastMap<(u32, Option<DestinationId>), TrafficId>,
}

// === impl RuleProgram ===

impl RuleProgram {
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

    /// Creates a program that was not computed because of a limit.
    fn unknown() -> Self {
        RuleProgram { rules: Vec::new(), tiers: 0, union: 0, isolated: false, known: false }
    }
}

// === impl GroupRules ===

impl GroupRules {
    /// Whether no rule applies to the group and no policy isolates it.
    fn is_empty_program(&self) -> bool {
        self.rules.is_empty() && !self.isolated
    }
}

// === impl Programs ===

impl Programs {
    /// Computes the programs of all groups.
    pub fn new<'g, 's>(
        groups: &'g EndpointGroups<'s>,
        lookup: MembershipLookup<'g, 's>,
        resolution: &Resolution<'s>,
        cells: &mut Cells,
    ) -> Self {
        let mut builder = ProgramBuilder::new(groups, lookup, resolution, cells);
        builder.collect();
        builder.finish()
    }
}

// === impl ProgramBuilder ===

impl<'b, 'g, 's> ProgramBuilder<'b, 'g, 's> {
    fn new(
        groups: &'g EndpointGroups<'s>,
        lookup: MembershipLookup<'g, 's>,
        resolution: &'b Resolution<'s>,
        cells: &'b mut Cells,
    ) -> Self {
        ProgramBuilder {
            groups,
            lookup,
            cells,
            resolution,
            facts: resolution.rules().iter().map(|rule| RuleDependencies::of(&rule.rule)).collect(),
            meant: FastMap::default(),
            collected: [(); 2].map(|()| vec![GroupRules::default(); groups.len()]),
            out_of_budget: false,
            peer_ids: FastMap::default(),
            peer_sets: Vec::new(),
            peers_of: FastMap::default(),
            carried_of: FastMap::default(),
        }
    }

    fn finish(mut self) -> Programs {
        let mut list = [Vec::new(), Vec::new()];
        let mut of_group = [Vec::new(), Vec::new()];
        for direction in Direction::BOTH {
            let at = direction as usize;
            let collected = std::mem::take(&mut self.collected[at]);
            let mut known: FastMap<GroupRules, u32> = FastMap::default();
            let mut unknown: Option<u32> = None;
            for (group, mut collected) in (0..).zip(collected) {
                let outside = self.groups.outside().contains(&group);
                if (self.out_of_budget && !outside) || (self.is_spent() && !collected.is_empty_program()) {
                    let id = *unknown.get_or_insert_with(|| {
                        list[at].push(RuleProgram::unknown());
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

    /// Adds the namespace and the destination of the group, if its rules depend on them.
    fn complete(&self, collected: &mut GroupRules, group: u32, direction: Direction) {
        collected.union += collected.tiers;
        let (mut relative, mut by_destination) = (NamespaceDependence::No, false);
        for (first, end) in &collected.rules {
            for facts in &self.facts[*first as usize..*end as usize] {
                relative = relative.max(facts.relative);
                by_destination |= facts.by_destination;
            }
        }
        let namespace = self.groups.namespace(group);
        collected.relative_to = match relative {
            NamespaceDependence::No => None,
            NamespaceDependence::Labels => namespace.map(|namespace| self.lookup.representative(namespace)),
            NamespaceDependence::Own => namespace,
        };
        if by_destination && direction == Direction::Ingress {
            collected.destination = Some(self.groups.get(group).destination);
        }
    }

    fn program(&mut self, collected: &GroupRules) -> RuleProgram {
        let count: u32 = collected.rules.iter().map(|(first, end)| end - first).sum();
        // A larger program may exceed the limit before it is complete.
        let mut rules = Vec::with_capacity(count.min(1024) as usize);
        for rule in collected.rules.iter().flat_map(|(first, end)| *first..*end) {
            if self.is_spent() {
                return RuleProgram::unknown();
            }
            rules.push(self.held(rule, collected));
            self.cells.work().take(RULE_WORK);
        }
        let GroupRules { tiers, union, isolated, .. } = *collected;
        RuleProgram { rules, tiers, union, isolated, known: true }
    }

    /// Charges the steps of lookups, and returns whether the work is used up.
    fn is_spent(&mut self) -> bool {
        let steps = std::mem::take(&mut self.lookup.steps);
        self.cells.work().take(steps);
        self.cells.work().is_spent()
    }

    fn held(&mut self, id: u32, collected: &GroupRules) -> ProgramRule {
        let facts = &self.facts[id as usize];
        let resolved = self.resolution.rule(id);
        let (at, effect) = (resolved.at, resolved.rule.effect);
        let relative_to = collected.relative_to.filter(|_| facts.relative != NamespaceDependence::No);
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
            return ProgramRule { at, effect, peers, carried: RuleTraffic::ByDestination, intervals: 1 };
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
        ProgramRule { at, effect, peers, carried: RuleTraffic::Always(carried), intervals }
    }

    fn peer_set(&mut self, found: SharedSpans) -> PeerSetId {
        let fresh = PeerSetId(number(self.peer_sets.len()));
        *self.peer_ids.entry(found).or_insert_with_key(|found| {
            self.peer_sets.push(Spans::from(&**found));
            fresh
        })
    }
}

// === impl RuleDependencies ===

impl RuleDependencies {
    fn of(rule: &ResolvedRule<'_>) -> Self {
        let by_destination = match rule.traffic {
            TrafficMatches::Any => false,
            TrafficMatches::Of(matches) => matches.iter().any(TrafficMatch::depends_on_receiver),
        };
        RuleDependencies { relative: relative(&rule.peers), by_destination }
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
