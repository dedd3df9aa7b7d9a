//! Analysis of the decisions of rules, shared by the lints about them: which rules match the same connections, and which of
//! them decides.
//!
//! Connections through a Service that a rule names, and addresses of unresolved DNS names, are not modelled. Lints skip rules
//! about those ([`Decisions::is_fully_modelled`]).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use palisade_analysis::reach::cells::{CellId, Cells};
use palisade_analysis::reach::combinations::{ClassMembers, EndpointPair, RuleCombination};
use palisade_analysis::reach::cuts::Cuts;
use palisade_analysis::reach::traffics::{TrafficId, Traffics};
use palisade_analysis::reach::{Decider, Reach, RuleAt};
use palisade_model::address::Family;
use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_model::flow::Party;
use palisade_model::matching::Context;
use palisade_model::options::Options;
use palisade_model::policy::{
    Action, Dialect, Direction, Object, Peer, Peers, Placement, Policy, Rule, Subject,
};
use palisade_model::resolve;
use palisade_model::snapshot::{Snapshot, Stage};

use super::about;

/// The analysis reached a limit.
pub static TOO_MUCH: Code = Code {
    id: "L0126",
    severity: Severity::Note,
    title: "too many policies to look at every rule",
    explanation: "Whether a rule is ever decisive, or redundant, takes a look at every combination of rules that some pod meets. That is bounded, so that no input makes `check` slow. This input is beyond the bound: what is reported is true, and there may be more. Check fewer namespaces at a time.",
};

/// Maximum number of rules in all combinations, for a direction over one family.
const MAX_MATCHED: usize = 4_000_000;
/// Maximum number of traffic intervals in all combinations, when each is decided once.
const MAX_INITIAL: usize = 40_000_000;
/// Maximum number of traffic intervals in combinations that lints decide again.
const MAX_RERUN: usize = 80_000_000;
/// Maximum number of pairs of classes that are tried for an example.
const MAX_PAIRS: usize = 256;
/// Maximum number of rules listed in a message; the rest is counted.
const MAX_NAMED: usize = 3;

/// The analysis that lints about decisions share.
pub(super) struct Decisions<'s> {
    pub snapshot: &'s Snapshot,
    pub context: Context<'s>,
    pub cuts: Cuts,
    pub cells: Cells,
    pub reach: [Reach<'s>; 2],
    /// Endpoints of the classes of each.
    pub ends: [ClassMembers; 2],
    /// All combinations of rules that apply to some connection.
    pub combinations: Vec<EvaluatedCombination>,
    /// Rules that match some connection.
    pub rules: BTreeMap<RuleAt, RuleUsage>,
    /// Rules that a lint has reported: later lints skip them.
    pub reported: BTreeSet<RuleAt>,
    /// Rules that never decide.
    pub unreachable: BTreeSet<RuleAt>,
    /// Whether a limit was reached.
    pub exceeded: bool,
    stages: HashMap<RuleAt, Stage>,
    /// Rules that are one of several lowered from one written rule.
    parts: BTreeSet<RuleAt>,
    /// Rules of combinations that were skipped: nothing is known about them.
    skipped: BTreeSet<RuleAt>,
    /// Traffic intervals left of [`MAX_INITIAL`].
    initial_budget: usize,
    /// Traffic intervals left of [`MAX_RERUN`].
    rerun_budget: usize,
}

/// A combination of rules with its verdicts.
pub(super) struct EvaluatedCombination {
    pub family: Family,
    pub combination: RuleCombination,
    pub outcome: CombinationOutcome,
    /// Cost of deciding it, in traffic intervals.
    cost: usize,
}

/// Verdicts for all traffic of a combination of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CombinationOutcome {
    cell: CellId,
    /// Traffic allowed on a layer-7 condition.
    conditional: TrafficId,
}

/// Where a rule matches and decides.
#[derive(Default)]
pub(super) struct RuleUsage {
    /// Indices of the combinations in which it matches some traffic.
    pub combinations: Vec<u32>,
    /// Whether two distinct endpoints have such a combination, not only an endpoint and itself.
    pub has_distinct_ends: bool,
    /// Index of the first combination in which it decides.
    pub deciding: Option<u32>,
}

// === impl Outcome ===

impl CombinationOutcome {
    /// Returns the allowed and the rejected traffic.
    pub fn cell(self) -> CellId {
        self.cell
    }
}

// === impl Decisions ===

impl<'s> Decisions<'s> {
    /// Analyses a snapshot under the default options.
    pub fn new(snapshot: &'s Snapshot) -> Self {
        let options = Options::default();
        let cuts = Cuts::of([snapshot]);
        let mut cells = Cells::new(cuts.space().clone());
        let families = [Family::V4, Family::V6];
        let reach = families.map(|family| Reach::new(snapshot, &options, family, &cuts, &mut cells));
        let mut stages = HashMap::new();
        for stage in [Stage::Tiers, Stage::Baseline] {
            // A policy of a missing tier has no stage.
            for ranked in snapshot.rules_of(stage).iter().filter(|ranked| !ranked.unplaced) {
                stages.insert(RuleAt { policy: ranked.policy, rule: ranked.rule }, stage);
            }
        }
        let mut decisions = Decisions {
            snapshot,
            context: Context { snapshot, options },
            exceeded: cuts.coarse,
            cuts,
            cells,
            ends: [0, 1].map(|at: usize| reach[at].class_members()),
            reach,
            combinations: Vec::new(),
            rules: BTreeMap::new(),
            reported: BTreeSet::new(),
            unreachable: BTreeSet::new(),
            stages,
            parts: parts(snapshot),
            skipped: BTreeSet::new(),
            initial_budget: MAX_INITIAL,
            rerun_budget: MAX_RERUN,
        };
        if !decisions.is_complete() {
            decisions.exceeded = true;
            return decisions;
        }
        for family in families {
            Direction::BOTH.into_iter().for_each(|direction| decisions.evaluate(family, direction));
        }
        decisions
    }

    /// Whether the rules of every endpoint are known. Without them no lint can run.
    pub fn is_complete(&self) -> bool {
        self.reach.iter().all(Reach::is_complete)
    }

    fn evaluate(&mut self, family: Family, direction: Direction) {
        let reach = &self.reach[family as usize];
        let (mut budget, mut skipped) = (MAX_MATCHED, Vec::new());
        let ends = &self.ends[family as usize];
        let combinations = reach.combinations(direction, ends, &self.cuts, &mut budget, &mut skipped);
        self.exceeded |= !skipped.is_empty();
        self.skipped.extend(skipped);
        for combination in combinations {
            let matched = reach.matched_rules(&combination, &mut self.cells);
            let cost = cost(&matched, &self.cells.traffics);
            if cost > self.initial_budget {
                self.exceeded = true;
                self.skipped.extend(matched.into_iter().map(|(rule, _)| rule));
                continue;
            }
            self.initial_budget -= cost;
            let at = u32::try_from(self.combinations.len()).unwrap_or(u32::MAX);
            for (rule, _) in matched.into_iter().filter(|(_, about)| *about != Traffics::EMPTY) {
                let facts = self.rules.entry(rule).or_default();
                facts.combinations.push(at);
                facts.has_distinct_ends |= combination.pair.is_some();
            }
            let mut deciding = Vec::new();
            let mut parts = Vec::new();
            let cell = reach.decide(
                &combination,
                |_| false,
                &mut self.cells,
                |_, rule, about, conditional| {
                    deciding.extend(rule);
                    parts.extend(conditional.then_some(about));
                },
            );
            for rule in deciding {
                let facts = self.rules.entry(rule).or_default();
                facts.deciding = facts.deciding.or(Some(at));
            }
            let conditional = union_of(&parts, &mut self.cells);
            let outcome = CombinationOutcome { cell, conditional };
            self.combinations.push(EvaluatedCombination { family, combination, outcome, cost });
        }
    }

    /// Whether the budget covers deciding a combination again; charges it. A lint that may not has nothing to report.
    pub fn affords(&mut self, at: u32) -> bool {
        self.rerun_budget = self.rerun_budget.saturating_sub(3 * self.combinations[at as usize].cost);
        self.exceeded |= self.rerun_budget == 0;
        self.rerun_budget > 0
    }

    /// Decides a combination without some rules. Returns the decider of each part of the traffic, `None` where no rule decides.
    pub fn decide(
        &mut self,
        at: u32,
        without: impl Fn(RuleAt) -> bool,
    ) -> (CombinationOutcome, Vec<(Decider, Option<RuleAt>, TrafficId)>) {
        let EvaluatedCombination { family, combination, .. } = &self.combinations[at as usize];
        let (mut decided, mut parts) = (Vec::new(), Vec::new());
        let cell = self.reach[*family as usize].decide(
            combination,
            without,
            &mut self.cells,
            |decider, rule, about, conditional| {
                decided.push((decider, rule, about));
                parts.extend(conditional.then_some(about));
            },
        );
        let conditional = union_of(&parts, &mut self.cells);
        (CombinationOutcome { cell, conditional }, decided)
    }

    /// Returns the traffic that a rule matches in a combination.
    pub fn matched_traffic(&mut self, at: u32, rule: RuleAt) -> TrafficId {
        let EvaluatedCombination { family, combination, .. } = &self.combinations[at as usize];
        let matched = self.reach[*family as usize].matched_rules(combination, &mut self.cells);
        matched.into_iter().find(|(own, _)| *own == rule).map_or(Traffics::EMPTY, |(_, about)| about)
    }

    /// Returns a rule with its policy.
    pub fn rule(&self, at: RuleAt) -> (&'s Policy, &'s Rule) {
        let policy = &self.snapshot.policies()[at.policy];
        (policy, &policy.rules[at.rule])
    }

    /// Returns the stage of a rule; `None` when its tier does not exist.
    pub fn stage(&self, at: RuleAt) -> Option<Stage> {
        match self.snapshot.policies()[at.policy].placement {
            Placement::Union => Some(Stage::NetworkPolicy),
            Placement::Tier { .. } => self.stages.get(&at).copied(),
        }
    }

    /// Whether the analysis covers everything that a rule matches.
    pub fn is_fully_modelled(&self, at: RuleAt) -> bool {
        let (policy, rule) = self.rule(at);
        let beyond = |peer: &Peer| matches!(peer, Peer::Service(_) | Peer::Names(_));
        let peers_known = match &rule.peers {
            Peers::Any => true,
            Peers::Of(peers) => !peers.iter().any(beyond),
        };
        self.is_resolved(at)
            && !self.skipped.contains(&at)
            && policy.unreadable.is_none()
            && peers_known
            && !rule.subjects.iter().any(|subject| matches!(subject, Subject::Service(_)))
    }

    /// Whether a rule can be parsed and has a stage, so that it does not fail closed.
    pub fn is_resolved(&self, at: RuleAt) -> bool {
        self.stage(at).is_some() && resolve::unknown(self.rule(at).1, &self.context.snapshot).is_none()
    }

    /// Whether a rule can be removed alone: the written rule was lowered to this one only.
    pub fn is_standalone(&self, at: RuleAt) -> bool {
        // A Thorium policy is lowered once for every group that has it.
        !self.parts.contains(&at) && self.rule(at).0.object.dialect != Dialect::Thorium
    }

    /// Describes an example connection of a combination with some of this traffic, from or to outside if so requested.
    pub fn flow(&self, at: u32, about: TrafficId, outside: bool) -> Option<String> {
        let combination = &self.combinations[at as usize].combination;
        let pair = if outside { combination.outside? } else { combination.pair? };
        self.flow_of(combination.direction, &pair, about)
    }

    /// Describes the connection between two endpoints with some of this traffic.
    pub fn flow_of(&self, direction: Direction, pair: &EndpointPair, about: TrafficId) -> Option<String> {
        let traffic = self.cells.traffics.space().sample(self.cells.traffics.set(about))?;
        let (source, destination) = match direction {
            Direction::Egress => (pair.own.1, pair.other.1),
            Direction::Ingress => (pair.other.1, pair.own.1),
        };
        // Names stand for the first addresses of a family that both have; other addresses are printed themselves.
        let [from, to] = [source, destination].map(|end| (end.who, None));
        let usual = self.snapshot.flow(from, to, traffic);
        let name = |meant: Party, usual: Party| match (meant.address, usual.address) {
            (Some(meant), Some(usual)) if meant != usual => meant.to_string(),
            // In the syntax of flow patterns, so that it can be passed to `explain`.
            _ => self.snapshot.describe(meant).replacen("node ", "node:", 1),
        };
        let (source, destination) = (name(source, usual.source), name(destination, usual.destination));
        Some(format!("{source} -> {destination} {traffic}"))
    }

    /// Describes an example connection of a combination with some of this traffic that the other side allows too.
    pub fn open_flow(&mut self, at: u32, about: TrafficId) -> Option<String> {
        let EvaluatedCombination { family, combination, .. } = &self.combinations[at as usize];
        let (reach, direction) = (&self.reach[*family as usize], combination.direction);
        let endpoint_pairs = reach.endpoint_pairs(combination, &self.ends[*family as usize]).take(MAX_PAIRS);
        let open = endpoint_pairs.into_iter().find_map(|pair| {
            let cell = reach.other_side(direction, &pair);
            let through = self.cells.get(cell).allow;
            let open = self.cells.traffics.intersection(through, about);
            (open != Traffics::EMPTY).then_some((pair, open))
        });
        let (pair, open) = open?;
        self.flow_of(direction, &pair, open)
    }

    /// Returns the name of a rule for messages: `ingress rule 0 (no-ssh) of AdminNetworkPolicy base`.
    pub fn name(&self, at: RuleAt) -> String {
        let (policy, rule) = self.rule(at);
        let name = rule.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        format!("{} rule {}{name} of {}", rule.direction, rule.index, policy.object)
    }

    /// Returns the names of policies, and their locations.
    pub fn names_of_policies(&self, policies: &[usize]) -> (String, String) {
        let all = policies.iter().map(|at| &self.snapshot.policies()[*at].object);
        let location =
            |object: &Object| object.at.as_ref().map_or("not in the input".into(), ToString::to_string);
        let more = if policies.len() > MAX_NAMED { ", …" } else { "" };
        let join = |texts: Vec<String>| format!("{}{more}", texts.join(", "));
        let named = all.clone().take(MAX_NAMED);
        (
            join(named.clone().map(|object| object.to_string()).collect()),
            join(named.map(|object| location(object)).collect()),
        )
    }

    /// Returns the names of rules, and their locations.
    pub fn names(&self, rules: &BTreeSet<RuleAt>) -> (String, String) {
        let listed = |texts: Vec<String>| match rules.len().saturating_sub(MAX_NAMED) {
            0 => match texts.split_last() {
                Some((last, [])) => last.clone(),
                Some((last, others)) => format!("{} and {last}", others.join(", ")),
                None => String::new(),
            },
            more => format!("{} and {more} more", texts.join(", ")),
        };
        let names = rules.iter().take(MAX_NAMED).map(|at| self.name(*at)).collect();
        let location = |at: &RuleAt| {
            let (policy, rule) = self.rule(*at);
            rule.at
                .as_ref()
                .or(policy.object.at.as_ref())
                .map_or("not in the input".into(), ToString::to_string)
        };
        (listed(names), listed(rules.iter().take(MAX_NAMED).map(location).collect()))
    }
}

fn parts(snapshot: &Snapshot) -> BTreeSet<RuleAt> {
    let mut parts = BTreeSet::new();
    for (policy, written) in snapshot.policies().iter().enumerate() {
        let mut first: BTreeMap<(Direction, u32), usize> = BTreeMap::new();
        for (rule, own) in written.rules.iter().enumerate() {
            let known = *first.entry((own.direction, own.index)).or_insert(rule);
            if known != rule {
                parts.extend([known, rule].map(|rule| RuleAt { policy, rule }));
            }
        }
    }
    parts
}

/// Returns the cost of deciding rules, in intervals: every distinct traffic set adds its intervals to the undecided and the
/// allowed traffic that later rules work on.
fn cost(rules: &[(RuleAt, TrafficId)], traffics: &Traffics) -> usize {
    let (mut pieces, mut seen) = (0, HashSet::new());
    let each = rules.iter().map(|(_, about)| {
        if !seen.insert(*about) {
            return 1;
        }
        pieces += traffics.set(*about).intervals().len();
        1 + pieces
    });
    1 + each.sum::<usize>()
}

fn union_of(parts: &[TrafficId], cells: &mut Cells) -> TrafficId {
    parts.iter().fold(Traffics::EMPTY, |all, part| cells.traffics.union(all, *part))
}

/// Whether one action allows and the other refuses.
pub(super) fn are_opposite(one: Action, other: Action) -> bool {
    let refuses = |action| matches!(action, Action::Deny | Action::Reject);
    one == Action::Allow && refuses(other) || refuses(one) && other == Action::Allow
}

/// Reports that a limit was reached. Runs last, because every lint can reach one.
pub(super) fn check(decisions: &mut Decisions<'_>, found: &mut Vec<Diagnostic>) {
    let written = |policy: &&Policy| policy.object.at.is_some();
    if let Some(policy) = decisions.snapshot.policies().iter().find(written).filter(|_| decisions.exceeded) {
        let message = "there are more combinations of rules than are looked at: dead and redundant rules may be missing"
            .to_owned();
        found.push(about(&TOO_MUCH, &policy.object, message).help("check fewer namespaces at a time"));
    }
}
