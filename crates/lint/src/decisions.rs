//! What every rule is good for, worked out once for all lints that ask: which rules meet about whom, and which of them
//! decides.
//!
//! It is the cluster's side only: connections through a Service that a rule names, and addresses of DNS names that
//! nobody resolved, are beyond it. Rules about those are left alone ([`Decisions::is_plain`]).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use palisade_analysis::reach::cells::{CellId, Cells};
use palisade_analysis::reach::cuts::Cuts;
use palisade_analysis::reach::decisions::{Combination, Ends, Meeting};
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

/// Not everything was looked at.
pub static TOO_MUCH: Code = Code {
    id: "L0126",
    severity: Severity::Note,
    title: "too many policies to look at every rule",
    explanation: "Whether a rule is ever decisive, or redundant, takes a look at every combination of rules that some pod meets. That is bounded, so that no input makes `check` slow. This input is beyond the bound: what is reported is true, and there may be more. Check fewer namespaces at a time.",
};

/// Rules in all combinations that are looked at, in a direction over one family.
const MOST_MEANT: usize = 4_000_000;
/// Pieces of traffic in all combinations that are run once.
const MOST_LOOKED: usize = 40_000_000;
/// Pieces of traffic in all combinations that are run again, by all lints.
const MOST_RUN: usize = 80_000_000;
/// Pairs of classes that are tried for a connection to show.
const MOST_TRIED: usize = 256;
/// Rules named in a message; the rest is counted.
const MOST_NAMED: usize = 3;

/// The analysis that lints about decisions share.
pub(super) struct Decisions<'s> {
    pub snapshot: &'s Snapshot,
    pub context: Context<'s>,
    pub cuts: Cuts,
    pub cells: Cells,
    pub reach: [Reach<'s>; 2],
    /// Who is in the classes of each.
    pub ends: [Ends; 2],
    /// All combinations of rules that somebody meets.
    pub met: Vec<Met>,
    /// The rules that somebody meets, and what is known about each.
    pub rules: BTreeMap<RuleAt, Facts>,
    /// The rules that were reported already, so that nobody says less about them.
    pub reported: BTreeSet<RuleAt>,
    /// The rules that never decide.
    pub idle: BTreeSet<RuleAt>,
    /// Whether there was too much to look at.
    pub exceeded: bool,
    stages: HashMap<RuleAt, Stage>,
    /// The rules that are one of several parts of what is written as one.
    parts: BTreeSet<RuleAt>,
    /// The rules of programs that were too much to look at: nothing is known about them.
    skipped: BTreeSet<RuleAt>,
    /// Pieces of traffic that may still be looked at, and in runs again.
    unseen: usize,
    left: usize,
}

/// A combination of rules, and what comes of it.
pub(super) struct Met {
    pub family: Family,
    pub combination: Combination,
    pub outcome: Outcome,
    /// What running it costs, in pieces of traffic.
    cost: usize,
}

/// What comes of a combination of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outcome {
    cell: CellId,
    /// What is let through on a condition that nobody sees from outside.
    conditional: TrafficId,
}

/// What is known about a rule.
#[derive(Default)]
pub(super) struct Facts {
    /// Where it is about something.
    pub met: Vec<u32>,
    /// Whether there are two for whom it is, and not only somebody and itself.
    pub is_met: bool,
    /// Where it decided first.
    pub decisive: Option<u32>,
}

// === impl Outcome ===

impl Outcome {
    /// What is let through and what is refused.
    pub fn cell(self) -> CellId {
        self.cell
    }
}

// === impl Decisions ===

impl<'s> Decisions<'s> {
    /// Works it out, under the options that are the default.
    pub fn new(snapshot: &'s Snapshot) -> Self {
        let options = Options::default();
        let cuts = Cuts::of([snapshot]);
        let mut cells = Cells::new(cuts.space().clone());
        let families = [Family::V4, Family::V6];
        let reach = families.map(|family| Reach::new(snapshot, &options, family, &cuts, &mut cells));
        let mut stages = HashMap::new();
        for stage in [Stage::Tiers, Stage::Baseline] {
            // Where a policy of a tier that does not exist comes, nobody can say.
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
            ends: [0, 1].map(|at: usize| reach[at].ends()),
            reach,
            met: Vec::new(),
            rules: BTreeMap::new(),
            reported: BTreeSet::new(),
            idle: BTreeSet::new(),
            stages,
            parts: parts(snapshot),
            skipped: BTreeSet::new(),
            unseen: MOST_LOOKED,
            left: MOST_RUN,
        };
        if !decisions.is_complete() {
            decisions.exceeded = true;
            return decisions;
        }
        for family in families {
            Direction::BOTH.into_iter().for_each(|direction| decisions.look(family, direction));
        }
        decisions
    }

    /// Whether it is known what applies to everybody. Where working that out is too much, nothing can be asked.
    pub fn is_complete(&self) -> bool {
        self.reach.iter().all(Reach::is_complete)
    }

    fn look(&mut self, family: Family, direction: Direction) {
        let reach = &self.reach[family as usize];
        let (mut budget, mut skipped) = (MOST_MEANT, Vec::new());
        let ends = &self.ends[family as usize];
        let combinations = reach.combinations(direction, ends, &self.cuts, &mut budget, &mut skipped);
        self.exceeded |= !skipped.is_empty();
        self.skipped.extend(skipped);
        for combination in combinations {
            let meant = reach.meant(&combination, &mut self.cells);
            let cost = cost(&meant, &self.cells.traffics);
            if cost > self.unseen {
                self.exceeded = true;
                self.skipped.extend(meant.into_iter().map(|(rule, _)| rule));
                continue;
            }
            self.unseen -= cost;
            let at = u32::try_from(self.met.len()).unwrap_or(u32::MAX);
            for (rule, _) in meant.into_iter().filter(|(_, about)| *about != Traffics::EMPTY) {
                let facts = self.rules.entry(rule).or_default();
                facts.met.push(at);
                facts.is_met |= combination.meeting.is_some();
            }
            let mut decisive = Vec::new();
            let mut parts = Vec::new();
            let cell = reach.decide(
                &combination,
                |_| false,
                &mut self.cells,
                |_, rule, about, conditional| {
                    decisive.extend(rule);
                    parts.extend(conditional.then_some(about));
                },
            );
            for rule in decisive {
                let facts = self.rules.entry(rule).or_default();
                facts.decisive = facts.decisive.or(Some(at));
            }
            let conditional = all_of(&parts, &mut self.cells);
            let outcome = Outcome { cell, conditional };
            self.met.push(Met { family, combination, outcome, cost });
        }
    }

    /// Whether a combination may be run again. Who hears that it may not has nothing to report.
    pub fn affords(&mut self, at: u32) -> bool {
        self.left = self.left.saturating_sub(3 * self.met[at as usize].cost);
        self.exceeded |= self.left == 0;
        self.left > 0
    }

    /// Runs a combination without some rules. Tells which rule decides what; `None` where no rule does.
    pub fn decide(
        &mut self,
        at: u32,
        without: impl Fn(RuleAt) -> bool,
    ) -> (Outcome, Vec<(Decider, Option<RuleAt>, TrafficId)>) {
        let Met { family, combination, .. } = &self.met[at as usize];
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
        let conditional = all_of(&parts, &mut self.cells);
        (Outcome { cell, conditional }, decided)
    }

    /// What a rule is about in a combination.
    pub fn about(&mut self, at: u32, rule: RuleAt) -> TrafficId {
        let Met { family, combination, .. } = &self.met[at as usize];
        let meant = self.reach[*family as usize].meant(combination, &mut self.cells);
        meant.into_iter().find(|(own, _)| *own == rule).map_or(Traffics::EMPTY, |(_, about)| about)
    }

    /// A rule's policy, and the rule.
    pub fn rule(&self, at: RuleAt) -> (&'s Policy, &'s Rule) {
        let policy = &self.snapshot.policies()[at.policy];
        (policy, &policy.rules[at.rule])
    }

    /// Where a rule stands in the pipeline; `None` when nobody can say.
    pub fn stage(&self, at: RuleAt) -> Option<Stage> {
        match self.snapshot.policies()[at.policy].placement {
            Placement::Union => Some(Stage::NetworkPolicy),
            Placement::Tier { .. } => self.stages.get(&at).copied(),
        }
    }

    /// Whether a rule does what it says, and all that it is about is known here.
    pub fn is_plain(&self, at: RuleAt) -> bool {
        let (policy, rule) = self.rule(at);
        let beyond = |peer: &Peer| matches!(peer, Peer::Service(_) | Peer::Names(_));
        let peers_known = match &rule.peers {
            Peers::Any => true,
            Peers::Of(peers) => !peers.iter().any(beyond),
        };
        self.is_read(at)
            && !self.skipped.contains(&at)
            && policy.unreadable.is_none()
            && peers_known
            && !rule.subjects.iter().any(|subject| matches!(subject, Subject::Service(_)))
    }

    /// Whether a rule does what it says: it can be read, and has its place.
    pub fn is_read(&self, at: RuleAt) -> bool {
        self.stage(at).is_some() && resolve::unknown(self.rule(at).1, &self.context.snapshot).is_none()
    }

    /// Whether a rule can be taken out by whoever wrote it: it is the only one of its place in a policy of its own.
    pub fn is_by_itself(&self, at: RuleAt) -> bool {
        // What Thorium's policies say is said in every group that has them.
        !self.parts.contains(&at) && self.rule(at).0.object.dialect != Dialect::Thorium
    }

    /// A connection of a combination that carries some of this traffic, in words; from or to outside, if asked for.
    pub fn flow(&self, at: u32, about: TrafficId, outside: bool) -> Option<String> {
        let combination = &self.met[at as usize].combination;
        let meeting = if outside { combination.outside? } else { combination.meeting? };
        self.flow_of(combination.direction, &meeting, about)
    }

    /// The connection of two who meet that carries some of this traffic, in words.
    pub fn flow_of(&self, direction: Direction, meeting: &Meeting, about: TrafficId) -> Option<String> {
        let traffic = self.cells.traffics.space().sample(self.cells.traffics.set(about))?;
        let (source, destination) = match direction {
            Direction::Egress => (meeting.own.1, meeting.other.1),
            Direction::Ingress => (meeting.other.1, meeting.own.1),
        };
        // Names stand for the first addresses of a family that both have: where others are meant, only these say so.
        let [from, to] = [source, destination].map(|end| (end.who, None));
        let usual = self.snapshot.flow(from, to, traffic);
        let name = |meant: Party, usual: Party| match (meant.address, usual.address) {
            (Some(meant), Some(usual)) if meant != usual => meant.to_string(),
            // As it is written in a question, so that it can be asked.
            _ => self.snapshot.describe(meant).replacen("node ", "node:", 1),
        };
        let (source, destination) = (name(source, usual.source), name(destination, usual.destination));
        Some(format!("{source} -> {destination} {traffic}"))
    }

    /// A connection of a combination that carries some of this traffic and that the other side lets through, in words.
    pub fn open_flow(&mut self, at: u32, about: TrafficId) -> Option<String> {
        let Met { family, combination, .. } = &self.met[at as usize];
        let (reach, direction) = (&self.reach[*family as usize], combination.direction);
        let meetings = reach.meetings(combination, &self.ends[*family as usize]).take(MOST_TRIED);
        let open = meetings.into_iter().find_map(|meeting| {
            let cell = reach.other_side(direction, &meeting);
            let through = self.cells.get(cell).allow;
            let open = self.cells.traffics.intersection(through, about);
            (open != Traffics::EMPTY).then_some((meeting, open))
        });
        let (meeting, open) = open?;
        self.flow_of(direction, &meeting, open)
    }

    /// `ingress rule 0 (no-ssh) of AdminNetworkPolicy base`.
    pub fn name(&self, at: RuleAt) -> String {
        let (policy, rule) = self.rule(at);
        let name = rule.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        format!("{} rule {}{name} of {}", rule.direction, rule.index, policy.object)
    }

    /// Several policies by name, and where they are written.
    pub fn names_of_policies(&self, policies: &[usize]) -> (String, String) {
        let all = policies.iter().map(|at| &self.snapshot.policies()[*at].object);
        let place =
            |object: &Object| object.at.as_ref().map_or("not in the input".into(), ToString::to_string);
        let more = if policies.len() > MOST_NAMED { ", …" } else { "" };
        let join = |texts: Vec<String>| format!("{}{more}", texts.join(", "));
        let named = all.clone().take(MOST_NAMED);
        (
            join(named.clone().map(|object| object.to_string()).collect()),
            join(named.map(|object| place(object)).collect()),
        )
    }

    /// Several rules by name, and where they are written.
    pub fn names(&self, rules: &BTreeSet<RuleAt>) -> (String, String) {
        let listed = |texts: Vec<String>| match rules.len().saturating_sub(MOST_NAMED) {
            0 => match texts.split_last() {
                Some((last, [])) => last.clone(),
                Some((last, others)) => format!("{} and {last}", others.join(", ")),
                None => String::new(),
            },
            more => format!("{} and {more} more", texts.join(", ")),
        };
        let names = rules.iter().take(MOST_NAMED).map(|at| self.name(*at)).collect();
        let place = |at: &RuleAt| {
            let (policy, rule) = self.rule(*at);
            rule.at
                .as_ref()
                .or(policy.object.at.as_ref())
                .map_or("not in the input".into(), ToString::to_string)
        };
        (listed(names), listed(rules.iter().take(MOST_NAMED).map(place).collect()))
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

/// What running rules costs: what is left undecided, and what is allowed, has a piece more for each piece of each that is
/// different from those before.
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

fn all_of(parts: &[TrafficId], cells: &mut Cells) -> TrafficId {
    parts.iter().fold(Traffics::EMPTY, |all, part| cells.traffics.union(all, *part))
}

/// Whether the two would do opposite things.
pub(super) fn are_opposite(one: Action, other: Action) -> bool {
    let refuses = |action| matches!(action, Action::Deny | Action::Reject);
    one == Action::Allow && refuses(other) || refuses(one) && other == Action::Allow
}

/// Says that not everything was looked at. The last of the lints: it is about them.
pub(super) fn check(decisions: &mut Decisions<'_>, found: &mut Vec<Diagnostic>) {
    let written = |policy: &&Policy| policy.object.at.is_some();
    if let Some(policy) = decisions.snapshot.policies().iter().find(written).filter(|_| decisions.exceeded) {
        let message = "there are more combinations of rules than are looked at: dead and redundant rules may be missing"
            .to_owned();
        found.push(about(&TOO_MUCH, &policy.object, message).help("check fewer namespaces at a time"));
    }
}
