//! Proof that a rule is unreachable for all pods that could exist and all addresses.
//!
//! ```text
//!   subjects of the rule and of earlier ones ──► signatures: combinations that some pod could be in
//!     for each: peers of the rule and of earlier ones ──► signatures, and intervals of addresses
//!       for each: traffic of the rule − traffic of the earlier rules that match = nothing?
//! ```
//!
//! A pod at the other end may have any address, so that rules with addresses may match it, too. Inside a stage that only
//! takes more from a later rule; where Pass hands traffic to a later stage, nothing is claimed. Nor is it for peers relative
//! to the subject, nodes, services and DNS names.

use std::collections::{BTreeSet, HashMap};

use palisade_analysis::reach::RuleAt;
use palisade_analysis::reach::combinations::traffic_anywhere;
use palisade_analysis::reach::traffics::{TrafficId, Traffics};
use palisade_analysis::space::{BitSet, Predicate, Space};
use palisade_model::address::{Block, Family};
use palisade_model::policy::{Action, Peer, Peers, PodSet, Rule, Subject};
use palisade_model::ranges::Ranges;
use palisade_model::resolve::GroupMember;
use palisade_model::snapshot::{Snapshot, Stage};
use smol_str::SmolStr;

use super::rule_decisions::Decisions;
use super::rule_inclusion::is_absolute;

/// Prover of unreachability, with a budget for all rules.
pub(super) struct UnreachabilityProver {
    space: Space,
    /// Rules of both first-match stages in evaluation order.
    order: Vec<RuleAt>,
    /// Whether some rule before the baseline passes.
    passes: bool,
    budget: usize,
    /// Whether a limit was reached.
    pub exceeded: bool,
}

/// Maximum number of comparisons of a rule with another, for all rules.
const MAX_COMPARED: usize = 4_000_000;
/// Maximum number of earlier rules that one is compared with.
const MAX_EARLIER: usize = 256;
/// Maximum number of pod sets of one rule and its earlier ones.
const MAX_SETS: usize = 1_000;
/// Maximum number of signatures of subjects, or of peers.
const MAX_SIGNATURES: usize = 256;
/// Maximum number of steps of one query to the solver.
const MAX_STEPS: u64 = 200_000;

/// Subjects or peers of a rule, by kind.
struct SelectedEndpoints<'s> {
    everything: bool,
    pods: Vec<(&'s PodSet, Option<&'s SmolStr>)>,
    blocks: Vec<&'s Block>,
    /// Whether there are others, about which nothing can be proved.
    unsupported: bool,
}

/// A rule in evaluation order, with the traffic it matches on any destination.
struct OrderedRule<'s> {
    at: RuleAt,
    rule: &'s Rule,
    about: TrafficId,
}

// === impl Forever ===

impl UnreachabilityProver {
    pub fn new(decisions: &Decisions<'_>) -> Self {
        let snapshot = decisions.snapshot;
        let ranked = [Stage::Tiers, Stage::Baseline].into_iter().flat_map(|stage| snapshot.rules_of(stage));
        let order: Vec<RuleAt> =
            ranked.map(|ranked| RuleAt { policy: ranked.policy, rule: ranked.rule }).collect();
        let passes = |at: &RuleAt| {
            decisions.rule(*at).1.action == Action::Pass && decisions.stage(*at) != Some(Stage::Baseline)
        };
        UnreachabilityProver {
            space: Space::new(snapshot).bounded(MAX_STEPS),
            passes: order.iter().any(passes),
            order,
            budget: MAX_COMPARED,
            exceeded: false,
        }
    }

    /// Returns the rules that decide all connections of a rule in every cluster; `None` when there are others, or no proof.
    pub fn shadowed_by(&mut self, decisions: &mut Decisions<'_>, at: RuleAt) -> Option<BTreeSet<RuleAt>> {
        let stage = decisions.stage(at)?;
        if self.budget == 0 {
            self.exceeded = true;
            return None;
        }
        if self.passes && stage != Stage::Tiers {
            return None;
        }
        let rule = decisions.rule(at).1;
        let about = traffic_anywhere(rule, &mut decisions.cells.traffics)?;
        let later = OrderedRule { at, rule, about };
        let own = subjects(decisions.snapshot, rule);
        let others = peers(decisions.snapshot, rule);
        if about == Traffics::EMPTY || own.unsupported || others.unsupported || own.pods.is_empty() {
            return None;
        }
        let earlier = self.earlier(decisions, stage, &later)?;
        let mut shadowed_by = BTreeSet::new();
        let applied: Vec<SelectedEndpoints<'_>> =
            earlier.iter().map(|one| subjects(decisions.snapshot, one.rule)).collect();
        let (set_indices, signatures) = self.signatures(&own, &applied)?;
        for members in signatures {
            let is_in = |rule: usize| set_indices[rule].iter().any(|index| members.has(*index));
            if !is_in(0) {
                continue;
            }
            let here: Vec<&OrderedRule<'_>> =
                earlier.iter().enumerate().filter(|(at, _)| is_in(at + 1)).map(|(_, one)| one).collect();
            if !self.is_covered(decisions, &later, &others, &here, &mut shadowed_by)? {
                return None;
            }
        }
        (!shadowed_by.is_empty()).then_some(shadowed_by)
    }

    /// Returns the rules before one that share traffic with it; `None` when there are none, or too many.
    fn earlier<'s>(
        &mut self,
        decisions: &mut Decisions<'s>,
        stage: Stage,
        later: &OrderedRule<'_>,
    ) -> Option<Vec<OrderedRule<'s>>> {
        let mut earlier = Vec::new();
        for at in &self.order {
            let own = decisions.stage(*at);
            if *at == later.at || own.is_some_and(|own| own > stage) {
                break;
            }
            let rule = decisions.rule(*at).1;
            if rule.direction != later.rule.direction || !decisions.is_resolved(*at) {
                continue;
            }
            self.budget = self.budget.saturating_sub(1);
            if self.budget == 0 || earlier.len() == MAX_EARLIER {
                self.exceeded = true;
                return None;
            }
            let Some(about) = traffic_anywhere(rule, &mut decisions.cells.traffics) else { continue };
            if decisions.cells.traffics.intersection(about, later.about) != Traffics::EMPTY {
                earlier.push(OrderedRule { at: *at, rule, about });
            }
        }
        (!earlier.is_empty()).then_some(earlier)
    }

    /// Whether earlier rules match all traffic of a rule, for every peer.
    fn is_covered(
        &mut self,
        decisions: &mut Decisions<'_>,
        later: &OrderedRule<'_>,
        own: &SelectedEndpoints<'_>,
        earlier: &[&OrderedRule<'_>],
        shadowed_by: &mut BTreeSet<RuleAt>,
    ) -> Option<bool> {
        let selected: Vec<SelectedEndpoints<'_>> =
            earlier.iter().map(|one| peers(decisions.snapshot, one.rule)).collect();
        let mut is_decided_earlier = |decisions: &mut Decisions<'_>, names: &dyn Fn(usize) -> bool| {
            let traffics = &mut decisions.cells.traffics;
            let mut budget = later.about;
            let active = earlier.iter().enumerate().filter(|(at, _)| selected[*at].everything || names(*at));
            for (_, one) in active {
                if traffics.intersection(budget, one.about) != Traffics::EMPTY {
                    shadowed_by.insert(one.at);
                    budget = traffics.difference(budget, one.about);
                }
            }
            budget == Traffics::EMPTY
        };
        // Addresses first: they need no solver.
        if own.everything || !own.blocks.is_empty() {
            for family in [Family::V4, Family::V6] {
                let intervals = |selected: &SelectedEndpoints<'_>| {
                    decisions.cuts.intervals(family, &Ranges::of(selected.blocks.iter().copied()))
                };
                let own_intervals = intervals(own);
                let of_earlier: Vec<Vec<(u32, u32)>> = selected.iter().map(intervals).collect();
                for interval in 0..u32::try_from(decisions.cuts.len(family)).unwrap_or(u32::MAX) {
                    let inside = |spans: &[(u32, u32)]| {
                        spans.iter().any(|(first, last)| (*first..=*last).contains(&interval))
                    };
                    if !(own.everything || inside(&own_intervals)) {
                        continue;
                    }
                    self.budget = self.budget.saturating_sub(earlier.len());
                    if self.budget == 0 {
                        self.exceeded = true;
                        return None;
                    }
                    if !is_decided_earlier(decisions, &|at| inside(&of_earlier[at])) {
                        return Some(false);
                    }
                }
            }
        }
        if own.everything || !own.pods.is_empty() {
            let (set_indices, signatures) = self.signatures(own, &selected)?;
            for members in signatures {
                let is_in = |rule: usize| set_indices[rule].iter().any(|index| members.has(*index));
                if (own.everything || is_in(0)) && !is_decided_earlier(decisions, &|at| is_in(at + 1)) {
                    return Some(false);
                }
            }
        }
        Some(true)
    }

    /// Returns the signatures that some pod could have, and for each rule the indices of its sets in them: the later rule
    /// first, then the earlier ones.
    fn signatures<'m>(
        &mut self,
        own: &SelectedEndpoints<'m>,
        others: &[SelectedEndpoints<'m>],
    ) -> Option<(Vec<Vec<usize>>, Vec<BitSet>)> {
        // Building the sets is work too, also where no proof follows.
        let selected = || std::iter::once(own).chain(others);
        self.budget = self.budget.saturating_sub(selected().map(|selected| selected.pods.len()).sum());
        if self.budget == 0 {
            self.exceeded = true;
            return None;
        }
        let mut sets: Vec<(&'m PodSet, Option<&'m SmolStr>)> = Vec::new();
        let mut known: HashMap<(&'m PodSet, Option<&'m SmolStr>), usize> = HashMap::new();
        let mut set_indices: Vec<Vec<usize>> = Vec::new();
        for selected in selected() {
            let index = |set: &(&'m PodSet, Option<&'m SmolStr>)| {
                *known.entry(*set).or_insert_with(|| {
                    sets.push(*set);
                    sets.len() - 1
                })
            };
            set_indices.push(selected.pods.iter().map(index).collect());
        }
        if sets.len() > MAX_SETS {
            self.exceeded = true;
            return None;
        }
        let predicate = |(set, within): &(&PodSet, Option<&SmolStr>)| {
            let predicate = self.space.predicate(set, None);
            match within {
                Some(namespace) => predicate.within(&self.space, namespace),
                None => predicate,
            }
        };
        let predicates: Vec<Predicate> = sets.iter().map(predicate).collect();
        let predicates: Vec<&Predicate> = predicates.iter().collect();
        // Searching signatures costs the same without a result.
        self.budget = self.budget.saturating_sub(MAX_SIGNATURES * set_indices.len());
        let signatures = self.space.signatures(&predicates, MAX_SIGNATURES).ok()?;
        Some((set_indices, signatures.into_iter().map(|signature| signature.members).collect()))
    }
}

/// Returns the subjects of a rule.
fn subjects<'s>(snapshot: &'s Snapshot, rule: &'s Rule) -> SelectedEndpoints<'s> {
    let mut selected =
        SelectedEndpoints { everything: false, pods: Vec::new(), blocks: Vec::new(), unsupported: false };
    for subject in rule.subjects.iter() {
        match subject {
            Subject::Pods(set) if is_absolute(set) => selected.pods.push((set, None)),
            Subject::Group { group, within } => {
                for member in snapshot.group(group).unwrap_or_default() {
                    match member {
                        GroupMember::Pods(set) if is_absolute(set) => {
                            selected.pods.push((set, within.as_ref()));
                        }
                        // Addresses are no subjects.
                        GroupMember::Addresses(_) => {}
                        _ => selected.unsupported = true,
                    }
                }
            }
            _ => selected.unsupported = true,
        }
    }
    selected
}

/// Returns the peers of a rule.
fn peers<'s>(snapshot: &'s Snapshot, rule: &'s Rule) -> SelectedEndpoints<'s> {
    let mut selected =
        SelectedEndpoints { everything: false, pods: Vec::new(), blocks: Vec::new(), unsupported: false };
    let Peers::Of(peers) = &rule.peers else { return SelectedEndpoints { everything: true, ..selected } };
    for peer in peers {
        match peer {
            Peer::Pods(set) if is_absolute(set) => selected.pods.push((set, None)),
            Peer::Addresses(block) => selected.blocks.push(block),
            Peer::Group(group) => {
                for member in snapshot.group(group).unwrap_or_default() {
                    match member {
                        GroupMember::Pods(set) if is_absolute(set) => selected.pods.push((set, None)),
                        GroupMember::Addresses(blocks) => selected.blocks.extend(blocks),
                        _ => selected.unsupported = true,
                    }
                }
            }
            _ => selected.unsupported = true,
        }
    }
    selected
}
