//! Whether a rule can ever decide anything, for pods that could exist and all addresses.
//!
//! The question is taken apart. Whom the rule applies to: all combinations of the subjects of it and of earlier rules
//! that some pod could be in. For each, who is at the other end: again all combinations, of peers now, and all intervals
//! of addresses. If earlier rules are about all that the rule is about in every one of them, it never decides.
//!
//! A pod at the other end may have any address, so that rules about addresses may be about it, too. Inside a stage that
//! only takes more away from a later rule; where Pass gives something back to a later stage, nothing is claimed. Nor is
//! it where rules are relative to the subject, or about nodes, services, names.

use std::collections::{BTreeSet, HashMap};

use palisade_analysis::reach::RuleAt;
use palisade_analysis::reach::decisions::carried_anywhere;
use palisade_analysis::reach::traffics::{TrafficId, Traffics};
use palisade_analysis::space::{Bits, Predicate, Space};
use palisade_model::address::{Block, Family};
use palisade_model::policy::{Action, Namespaces, Peer, Peers, PodSet, Rule, Subject};
use palisade_model::ranges::Ranges;
use palisade_model::resolve::GroupMember;
use palisade_model::snapshot::{Snapshot, Stage};
use smol_str::SmolStr;

use super::decisions::Decisions;

/// Asks about one rule after the other.
pub(super) struct Forever {
    space: Space,
    /// Rules of the stages in order, the readable ones of tiers.
    order: Vec<RuleAt>,
    /// Whether some rule of a tier passes.
    passes: bool,
    left: usize,
    /// Whether some rule was not asked about, because there were too many.
    pub exceeded: bool,
}

/// What is looked at, in all: rules compared with rules.
const MOST_COMPARED: usize = 4_000_000;
/// Earlier rules that one is compared with.
const MOST_EARLIER: usize = 256;
/// Sets of pods that one rule and earlier ones name.
const MOST_SETS: usize = 1_000;
/// Combinations of subjects, or of peers, that are told apart.
const MOST_SIGNATURES: usize = 256;
/// As many steps may one question to the solver take.
const MOST_STEPS: u64 = 200_000;

/// Whom a rule means at one end; `None` in a place where that is more than can be asked about.
struct Meant<'s> {
    anybody: bool,
    pods: Vec<(&'s PodSet, Option<&'s SmolStr>)>,
    blocks: Vec<&'s Block>,
    /// Whether there is more to it.
    beyond: bool,
}

/// An earlier rule, or the one asked about.
struct Asked<'s> {
    at: RuleAt,
    rule: &'s Rule,
    about: TrafficId,
}

// === impl Forever ===

impl Forever {
    /// Nothing has been asked yet.
    pub fn new(decisions: &Decisions<'_>) -> Self {
        let snapshot = decisions.snapshot;
        let ranked = [Stage::Tiers, Stage::Baseline].into_iter().flat_map(|stage| snapshot.rules_of(stage));
        let order: Vec<RuleAt> =
            ranked.map(|ranked| RuleAt { policy: ranked.policy, rule: ranked.rule }).collect();
        let passes = |at: &RuleAt| {
            decisions.rule(*at).1.action == Action::Pass && decisions.stage(*at) != Some(Stage::Baseline)
        };
        Forever {
            space: Space::new(snapshot).bounded(MOST_STEPS),
            passes: order.iter().any(passes),
            order,
            left: MOST_COMPARED,
            exceeded: false,
        }
    }

    /// The rules that take everything from a rule, whatever pods there are; `None` when that is not so, or not known.
    pub fn takers(&mut self, decisions: &mut Decisions<'_>, at: RuleAt) -> Option<BTreeSet<RuleAt>> {
        let stage = decisions.stage(at)?;
        if self.left == 0 {
            self.exceeded = true;
            return None;
        }
        if self.passes && stage != Stage::Tiers {
            return None;
        }
        let rule = decisions.rule(at).1;
        let about = carried_anywhere(rule, &mut decisions.cells.traffics)?;
        let asked = Asked { at, rule, about };
        let own = subjects(decisions.snapshot, rule);
        let others = peers(decisions.snapshot, rule);
        if about == Traffics::EMPTY || own.beyond || others.beyond || own.pods.is_empty() {
            return None;
        }
        let earlier = self.earlier(decisions, stage, &asked)?;
        let mut takers = BTreeSet::new();
        let applied: Vec<Meant<'_>> =
            earlier.iter().map(|one| subjects(decisions.snapshot, one.rule)).collect();
        let (named, signatures) = self.signatures(&own, &applied)?;
        for members in signatures {
            let is_in = |rule: usize| named[rule].iter().any(|place| members.has(*place));
            if !is_in(0) {
                continue;
            }
            let here: Vec<&Asked<'_>> =
                earlier.iter().enumerate().filter(|(at, _)| is_in(at + 1)).map(|(_, one)| one).collect();
            if !self.is_covered(decisions, &asked, &others, &here, &mut takers)? {
                return None;
            }
        }
        (!takers.is_empty()).then_some(takers)
    }

    /// The rules that come before one and are about some of the same traffic; `None` when there are too many.
    fn earlier<'s>(
        &mut self,
        decisions: &mut Decisions<'s>,
        stage: Stage,
        asked: &Asked<'_>,
    ) -> Option<Vec<Asked<'s>>> {
        let mut earlier = Vec::new();
        for at in &self.order {
            let own = decisions.stage(*at);
            if *at == asked.at || own.is_some_and(|own| own > stage) {
                break;
            }
            let rule = decisions.rule(*at).1;
            if rule.direction != asked.rule.direction || !decisions.is_read(*at) {
                continue;
            }
            self.left = self.left.saturating_sub(1);
            if self.left == 0 || earlier.len() == MOST_EARLIER {
                self.exceeded = true;
                return None;
            }
            let Some(about) = carried_anywhere(rule, &mut decisions.cells.traffics) else { continue };
            if decisions.cells.traffics.intersection(about, asked.about) != Traffics::EMPTY {
                earlier.push(Asked { at: *at, rule, about });
            }
        }
        (!earlier.is_empty()).then_some(earlier)
    }

    /// Whether earlier rules are about all that a rule is about, whoever is at the other end.
    fn is_covered(
        &mut self,
        decisions: &mut Decisions<'_>,
        asked: &Asked<'_>,
        own: &Meant<'_>,
        earlier: &[&Asked<'_>],
        takers: &mut BTreeSet<RuleAt>,
    ) -> Option<bool> {
        let meant: Vec<Meant<'_>> = earlier.iter().map(|one| peers(decisions.snapshot, one.rule)).collect();
        let mut is_taken = |decisions: &mut Decisions<'_>, names: &dyn Fn(usize) -> bool| {
            let traffics = &mut decisions.cells.traffics;
            let mut left = asked.about;
            let active = earlier.iter().enumerate().filter(|(at, _)| meant[*at].anybody || names(*at));
            for (_, one) in active {
                if traffics.intersection(left, one.about) != Traffics::EMPTY {
                    takers.insert(one.at);
                    left = traffics.difference(left, one.about);
                }
            }
            left == Traffics::EMPTY
        };
        // Addresses first: they need no solver.
        if own.anybody || !own.blocks.is_empty() {
            for family in [Family::V4, Family::V6] {
                let intervals = |meant: &Meant<'_>| {
                    decisions.cuts.intervals(family, &Ranges::of(meant.blocks.iter().copied()))
                };
                let own_intervals = intervals(own);
                let of_earlier: Vec<Vec<(u32, u32)>> = meant.iter().map(intervals).collect();
                for interval in 0..u32::try_from(decisions.cuts.len(family)).unwrap_or(u32::MAX) {
                    let inside = |spans: &[(u32, u32)]| {
                        spans.iter().any(|(first, last)| (*first..=*last).contains(&interval))
                    };
                    if !(own.anybody || inside(&own_intervals)) {
                        continue;
                    }
                    self.left = self.left.saturating_sub(earlier.len());
                    if self.left == 0 {
                        self.exceeded = true;
                        return None;
                    }
                    if !is_taken(decisions, &|at| inside(&of_earlier[at])) {
                        return Some(false);
                    }
                }
            }
        }
        if own.anybody || !own.pods.is_empty() {
            let (named, signatures) = self.signatures(own, &meant)?;
            for members in signatures {
                let is_in = |rule: usize| named[rule].iter().any(|place| members.has(*place));
                if (own.anybody || is_in(0)) && !is_taken(decisions, &|at| is_in(at + 1)) {
                    return Some(false);
                }
            }
        }
        Some(true)
    }

    /// The combinations of what rules mean that some pod could be in, and for each rule its places in them: the one asked
    /// about first, then the earlier ones.
    fn signatures<'m>(
        &mut self,
        own: &Meant<'m>,
        others: &[Meant<'m>],
    ) -> Option<(Vec<Vec<usize>>, Vec<Bits>)> {
        // What is compared is also who is in which set, whatever comes of it.
        let meant = || std::iter::once(own).chain(others);
        self.left = self.left.saturating_sub(meant().map(|meant| meant.pods.len()).sum());
        if self.left == 0 {
            self.exceeded = true;
            return None;
        }
        let mut sets: Vec<(&'m PodSet, Option<&'m SmolStr>)> = Vec::new();
        let mut known: HashMap<(&'m PodSet, Option<&'m SmolStr>), usize> = HashMap::new();
        let mut named: Vec<Vec<usize>> = Vec::new();
        for meant in meant() {
            let place = |set: &(&'m PodSet, Option<&'m SmolStr>)| {
                *known.entry(*set).or_insert_with(|| {
                    sets.push(*set);
                    sets.len() - 1
                })
            };
            named.push(meant.pods.iter().map(place).collect());
        }
        if sets.len() > MOST_SETS {
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
        // Also what comes to nothing takes its time.
        self.left = self.left.saturating_sub(MOST_SIGNATURES * named.len());
        let signatures = self.space.signatures(&predicates, MOST_SIGNATURES).ok()?;
        Some((named, signatures.into_iter().map(|signature| signature.members).collect()))
    }
}

/// Whether a set can be asked about in the space of pods: it is the same seen from everybody.
fn is_absolute(set: &PodSet) -> bool {
    !set.external && matches!(set.namespaces, Namespaces::Named(_) | Namespaces::Matching(_))
}

/// Whom a rule applies to.
fn subjects<'s>(snapshot: &'s Snapshot, rule: &'s Rule) -> Meant<'s> {
    let mut meant = Meant { anybody: false, pods: Vec::new(), blocks: Vec::new(), beyond: false };
    for subject in rule.subjects.iter() {
        match subject {
            Subject::Pods(set) if is_absolute(set) => meant.pods.push((set, None)),
            Subject::Group { group, within } => {
                for member in snapshot.group(group).unwrap_or_default() {
                    match member {
                        GroupMember::Pods(set) if is_absolute(set) => meant.pods.push((set, within.as_ref())),
                        // Addresses are never whom a policy applies to.
                        GroupMember::Addresses(_) => {}
                        _ => meant.beyond = true,
                    }
                }
            }
            _ => meant.beyond = true,
        }
    }
    meant
}

/// Whom a rule means at the other end.
fn peers<'s>(snapshot: &'s Snapshot, rule: &'s Rule) -> Meant<'s> {
    let mut meant = Meant { anybody: false, pods: Vec::new(), blocks: Vec::new(), beyond: false };
    let Peers::Of(peers) = &rule.peers else { return Meant { anybody: true, ..meant } };
    for peer in peers {
        match peer {
            Peer::Pods(set) if is_absolute(set) => meant.pods.push((set, None)),
            Peer::Addresses(block) => meant.blocks.push(block),
            Peer::Group(group) => {
                for member in snapshot.group(group).unwrap_or_default() {
                    match member {
                        GroupMember::Pods(set) if is_absolute(set) => meant.pods.push((set, None)),
                        GroupMember::Addresses(blocks) => meant.blocks.extend(blocks),
                        _ => meant.beyond = true,
                    }
                }
            }
            _ => meant.beyond = true,
        }
    }
    meant
}
