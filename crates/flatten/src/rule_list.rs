//! The ordered rules of a subject in one direction, and the conditions on peers that they distinguish.

use std::collections::BTreeMap;
use std::sync::Arc;

use palisade_engine::delta::{CompiledRule, RuleEffect, SetId};
use palisade_model::pipeline::{Effect, Stages, decide};
use palisade_model::policy::{Direction, TrafficMatch, TrafficMatches};
use palisade_model::snapshot::Stage;
use palisade_model::traffic::Protocol;
use palisade_model::traffic_set::PROTOCOLS;

use crate::budget::Budget;
use crate::layout::Layout;
use crate::ledger::Painting;
use crate::verdicts::FlatVerdicts;

/// Rules that apply to a subject in one direction, in the order of evaluation.
#[derive(Debug)]
pub struct RuleList {
    direction: Direction,
    rules: Vec<Arc<CompiledRule>>,
    /// The effect of each rule on this data plane.
    effects: Vec<Effect>,
    /// Peer sets of each condition. All conditions are different.
    conditions: Vec<Vec<SetId>>,
    by_set: BTreeMap<SetId, Vec<ConditionId>>,
    /// Rules that match every peer.
    unconditional: Vec<u32>,
    /// For each condition the rules that need it, and the second condition that some of them need.
    by_condition: Vec<Vec<(u32, Option<ConditionId>)>>,
    /// The first isolation.
    isolation: Option<u32>,
    /// Index behind the last rule of the tiers, and of the NetworkPolicy stage.
    stage_ends: [u32; 2],
    pub(crate) names: NamedTraffic,
}

/// Index of a condition on the peer in a [`RuleList`]: membership in any of some sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConditionId(pub(crate) u32);

/// What a data plane makes of rules that allow under conditions on layer 7.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer7Support {
    /// Nothing checks the conditions, so that such a rule denies all that it matches: packet filters.
    None,
    /// A proxy checks the conditions, so that such a rule allows what is carried over TCP.
    Proxy,
}

/// What the traffic of a list's rules names, so that the flattening of each class of peers can skip the rest.
#[derive(Debug, Default)]
pub(crate) struct NamedTraffic {
    /// Protocols with columns of their own; the others get the verdict of the rest.
    pub(crate) protocols: Vec<Protocol>,
    /// Whether some rule names source ports.
    pub(crate) sources: bool,
    /// Whether some rule names a multicast group.
    pub(crate) groups: bool,
}

/// Steps to find a rule that applies to a peer and to evaluate it.
const RULE: u64 = 60;

// === impl ConditionId ===

impl ConditionId {
    fn new(index: usize) -> Self {
        // Conditions come from rules, which have indices of 32 bits.
        ConditionId(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// Returns the index in [`RuleList::conditions`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

// === impl RuleList ===

impl RuleList {
    /// Returns the list of these rules, which are in the order of [`palisade_engine::view::View::compare`].
    pub fn new(mut rules: Vec<Arc<CompiledRule>>, direction: Direction, layer7: Layer7Support) -> RuleList {
        // One isolation is enough: the first is named as the decider.
        let mut isolated = false;
        rules.retain(|rule| rule.effect != RuleEffect::Isolate || !std::mem::replace(&mut isolated, true));
        let stage_ends = [Stage::Tiers, Stage::NetworkPolicy].map(|stage| {
            u32::try_from(rules.partition_point(|rule| rule.rank.stage <= stage)).unwrap_or(u32::MAX)
        });
        let mut list = RuleList {
            direction,
            rules: Vec::new(),
            effects: rules.iter().map(|rule| effect(rule, layer7)).collect(),
            conditions: Vec::new(),
            by_set: BTreeMap::new(),
            unconditional: Vec::new(),
            by_condition: Vec::new(),
            isolation: None,
            stage_ends,
            names: NamedTraffic::of(&rules),
        };
        // A rule that allows only TCP needs a verdict of its own for it.
        let protocols = &mut list.names.protocols;
        if list.effects.contains(&Effect::AllowTcp) && !protocols.contains(&Protocol::Tcp) {
            protocols.insert(0, Protocol::Tcp);
        }
        let mut known: BTreeMap<Vec<SetId>, ConditionId> = BTreeMap::new();
        for (index, rule) in (0u32..).zip(&rules) {
            if rule.effect == RuleEffect::Isolate {
                list.isolation = Some(index);
                continue;
            }
            let destination = rule.destination.filter(|_| direction == Direction::Egress);
            let destination = destination.map(|set| list.condition(vec![set], &mut known));
            match &rule.peers {
                // No peer matches.
                Some(sets) if sets.is_empty() => {}
                Some(sets) => {
                    let mut sets = sets.to_vec();
                    sets.sort_unstable();
                    let condition = list.condition(sets, &mut known);
                    list.by_condition[condition.index()].push((index, destination));
                }
                None => match destination {
                    Some(condition) => list.by_condition[condition.index()].push((index, None)),
                    None => list.unconditional.push(index),
                },
            }
        }
        list.rules = rules;
        list
    }

    fn condition(&mut self, sets: Vec<SetId>, known: &mut BTreeMap<Vec<SetId>, ConditionId>) -> ConditionId {
        if let Some(condition) = known.get(&sets) {
            return *condition;
        }
        let condition = ConditionId::new(self.conditions.len());
        for set in &sets {
            self.by_set.entry(*set).or_default().push(condition);
        }
        known.insert(sets.clone(), condition);
        self.conditions.push(sets);
        self.by_condition.push(Vec::new());
        condition
    }

    /// Returns the direction of the rules, seen from the subject.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Returns the rules, of which a [`Decision`](crate::Decision) names one by its index.
    pub fn rules(&self) -> &[Arc<CompiledRule>] {
        &self.rules
    }

    /// Returns the conditions, each with the sets of which the peer must be in any.
    pub fn conditions(&self) -> impl ExactSizeIterator<Item = (ConditionId, &[SetId])> {
        self.conditions.iter().enumerate().map(|(index, sets)| (ConditionId::new(index), sets.as_slice()))
    }

    /// Returns the sets of a condition.
    pub fn sets_of(&self, condition: ConditionId) -> &[SetId] {
        self.conditions.get(condition.index()).map_or(&[], Vec::as_slice)
    }

    /// Returns the sets that distinguish peers.
    pub fn sets(&self) -> impl Iterator<Item = SetId> {
        self.by_set.keys().copied()
    }

    /// Returns the conditions that a peer in these sets meets, sorted.
    pub fn met(&self, sets: impl Iterator<Item = SetId>) -> Vec<ConditionId> {
        let mut conditions: Vec<ConditionId> =
            sets.filter_map(|set| self.by_set.get(&set)).flatten().copied().collect();
        conditions.sort_unstable();
        conditions.dedup();
        conditions
    }

    /// Returns the verdicts about all traffic between the subject and a peer that meets these conditions, which are sorted. They
    /// deny everything if finding them takes more than the budget.
    pub fn flatten(&self, met: &[ConditionId], budget: &mut Budget) -> FlatVerdicts {
        let rules = self.applicable(met);
        budget.take(RULE * (rules.len() + met.len()) as u64);
        let Some(layout) = Layout::new(self, &rules, budget) else { return FlatVerdicts::closed() };
        let mut ledger = Painting::new(self, &layout);
        let end = |stage: usize| rules.partition_point(|rule| *rule < self.stage_ends[stage]);
        let (tiers, rest) = rules.split_at(end(0));
        let (allows, baseline) = rest.split_at(end(1) - tiers.len());
        let with_effect = |rule: &u32| (*rule, self.effects[*rule as usize]);
        let stages = Stages {
            tiers: tiers.iter().map(with_effect),
            isolated: self.isolation.is_some(),
            allows: allows.iter().copied(),
            baseline: baseline.iter().map(with_effect),
        };
        decide(&mut ledger, stages);
        FlatVerdicts::new(&layout, &ledger.into_decisions())
    }

    /// Returns the index of the isolation, if one applies.
    pub(crate) fn isolation(&self) -> Option<u32> {
        self.isolation
    }

    /// Returns the indices of the rules that match a peer which meets these conditions, in order.
    fn applicable(&self, met: &[ConditionId]) -> Vec<u32> {
        let mut rules = self.unconditional.clone();
        for condition in met {
            let all = self.by_condition.get(condition.index()).into_iter().flatten();
            let also_met =
                |also: &Option<ConditionId>| also.is_none_or(|also| met.binary_search(&also).is_ok());
            rules.extend(all.filter(|(_, also)| also_met(also)).map(|(rule, _)| *rule));
        }
        if !met.is_empty() {
            rules.sort_unstable();
        }
        rules
    }
}

/// Isolations are no rules of a stage: their effect is never used.
fn effect(rule: &CompiledRule, layer7: Layer7Support) -> Effect {
    match (rule.effect, layer7) {
        (RuleEffect::Isolate, _) | (RuleEffect::Decide(Effect::AllowTcp), Layer7Support::None) => {
            Effect::Deny
        }
        (RuleEffect::Decide(effect), _) => effect,
    }
}

// === impl NamedTraffic ===

impl NamedTraffic {
    fn of(rules: &[Arc<CompiledRule>]) -> Self {
        let (mut names, mut named) = (NamedTraffic::default(), [false; PROTOCOLS.len()]);
        for rule in rules {
            let TrafficMatches::Of(all) = &rule.traffic else { continue };
            for one in all {
                names.groups |= one.group().is_some();
                for (protocol, named) in PROTOCOLS.into_iter().zip(&mut named) {
                    *named = *named || one.is_about(protocol);
                }
                names.sources |= matches!(one, TrafficMatch::From(..));
            }
        }
        names.protocols =
            PROTOCOLS.into_iter().zip(named).filter(|(_, named)| *named).map(|(p, _)| p).collect();
        names
    }
}
