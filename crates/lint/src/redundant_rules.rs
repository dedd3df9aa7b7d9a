//! Lint for redundant rules and policies: without them every verdict is the same.
//!
//! Rules are removed one after the other, the last first, so that of two equivalent ones one is reported, and all reported
//! ones can be removed together. A rule is covered only by rules of its own stage with the same action: an admin's Deny is
//! not redundant because some NetworkPolicy denies today, too.

use std::collections::{BTreeMap, BTreeSet};

use palisade_analysis::reach::traffics::Traffics;
use palisade_analysis::reach::{Decider, RuleAt};
use palisade_analysis::space::{Predicate, SearchResult, Space};
use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_model::matching::Endpoint;
use palisade_model::policy::{
    Action, Direction, Isolation, Namespaces, Peer, Peers, Placement, PodSet, Subject,
};
use palisade_model::snapshot::Stage;

use super::rule_decisions::Decisions;
use super::rule_inclusion::{includes, is_absolute};
use super::{about, about_rule, pods_of_subject};

/// A rule that other rules cover.
pub static REDUNDANT_RULE: Code = Code {
    id: "L0120",
    severity: Severity::Note,
    title: "a rule that others make superfluous",
    explanation: "The rule decides about connections, and without it every one of them would get the same answer from other rules of the same stage, which are named: a NetworkPolicy allows what another allows already, a rule of a tier is followed by one that does the same. Taking it out changes nothing for the pods there are; so does taking out all that are reported at once. Or no other rule is needed: a baseline rule allows what no later one refuses, and would be allowed at the end anyway; a rule of the tiers passes what no later one of them is about, and what no rule matches is passed on, too. It may still be there for pods to come.\n\nRules that log, or that have conditions on layer 7, are not reported: they do more than decide.",
};

/// A policy that other policies cover.
pub static REDUNDANT_POLICY: Code = Code {
    id: "L0121",
    severity: Severity::Warning,
    title: "a policy that others make superfluous",
    explanation: "Whatever the policy allows, others allow already for the pods there are, and every pod it isolates, now or later, whatever its labels, is isolated by another policy. Without it nothing changes: it is a copy, or others have grown over it. The message says for whom: whatever pods there are, where each of its rules is included in another, or only for the pods there are (a pod with other labels may need it). What covers it is named. A default deny is not reported because other policies isolate its pods, too: only another default deny makes it superfluous.",
};

/// Maximum number of checks whether a policy isolates a pod, in all.
const MAX_POD_CHECKS: usize = 2_000_000;
/// Maximum number of steps of one query to the solver.
const MAX_STEPS: u64 = 200_000;
/// Maximum number of other policies that may isolate the same pods; more are not compared.
const MAX_OTHERS: usize = 128;

/// What makes a rule redundant.
#[derive(Default)]
struct Coverage {
    rules: BTreeSet<RuleAt>,
    /// Whether the default verdict of the stage covers some of its traffic.
    by_default: bool,
}

/// State of the search: what was removed so far.
struct RedundancySearch {
    removed: BTreeSet<RuleAt>,
    /// Policies that were removed as a whole.
    removed_policies: BTreeSet<usize>,
    budget: usize,
    space: Option<Space>,
    /// Directions in which some rule matches connections through a service.
    services: BTreeSet<Direction>,
    /// Union policies that isolate, by direction and namespace; `None` for those of several namespaces.
    isolating: BTreeMap<(Direction, Option<String>), Vec<usize>>,
}

pub(super) fn check(decisions: &mut Decisions<'_>, found: &mut Vec<Diagnostic>) {
    let mut search = RedundancySearch::new(decisions);
    let snapshot = decisions.snapshot;
    for stage in [Stage::Tiers, Stage::Baseline] {
        for ranked in snapshot.rules_of(stage).iter().rev() {
            let at = RuleAt { policy: ranked.policy, rule: ranked.rule };
            if let Some(covers) = search.remove(decisions, at) {
                found.push(redundant_rule(decisions, at, &covers));
            }
        }
    }
    for (policy, written) in snapshot.policies().iter().enumerate().rev() {
        if written.placement != Placement::Union {
            continue;
        }
        let mut taken: Vec<(RuleAt, Coverage)> = Vec::new();
        for rule in (0..written.rules.len()).rev() {
            let at = RuleAt { policy, rule };
            taken.extend(search.remove(decisions, at).map(|covers| (at, covers)));
        }
        // A rule that matches no connection now may match one later: its policy is not redundant.
        let whole = (0..written.rules.len()).all(|rule| search.removed.contains(&RuleAt { policy, rule }))
            && written.unreadable.is_none()
            && !written.isolations.is_empty()
            && written.object.kind == "NetworkPolicy";
        match search.isolated_by_others(decisions, policy, whole) {
            Some(others) => {
                search.removed_policies.insert(policy);
                let mut covers: BTreeSet<usize> = others;
                covers.extend(taken.iter().flat_map(|(_, by)| by.rules.iter().map(|at| at.policy)));
                let in_space = search.is_included(decisions, policy, &taken);
                found.push(redundant_policy(decisions, policy, &covers, in_space));
            }
            None => found.extend(taken.iter().map(|(at, covers)| redundant_rule(decisions, *at, covers))),
        }
    }
    decisions.exceeded |= search.budget == 0;
}

fn redundant_rule(decisions: &Decisions<'_>, at: RuleAt, covers: &Coverage) -> Diagnostic {
    let (policy, rule) = decisions.rule(at);
    let (names, places) = decisions.names(&covers.rules);
    let by_rules =
        (!covers.rules.is_empty()).then(|| format!("{} the same ({names})", says(covers.rules.len())));
    let by_default = covers.by_default.then_some(match rule.action {
        Action::Pass => {
            "no later rule of the tiers is about what it passes, and what no rule matches is passed on, too"
        }
        _ => "no later rule refuses what it allows, and what nobody refuses is allowed at the end",
    });
    let why: Vec<String> = by_rules.into_iter().chain(by_default.map(str::to_owned)).collect();
    let message = format!("the rule changes nothing for the pods there are: {}", why.join("; "));
    let help = match covers.rules.is_empty() {
        true => "remove the rule unless it is there for pods to come".to_owned(),
        false => format!("the same is said at {places}; remove the rule unless it is there for pods to come"),
    };
    about_rule(&REDUNDANT_RULE, policy, rule, "", message).help(help)
}

fn says(count: usize) -> &'static str {
    if count == 1 { "another does" } else { "others do" }
}

fn redundant_policy(
    decisions: &Decisions<'_>,
    policy: usize,
    covers: &BTreeSet<usize>,
    in_space: bool,
) -> Diagnostic {
    let all: Vec<usize> = covers.iter().copied().collect();
    let (names, places) = decisions.names_of_policies(&all);
    let (scope, but) = match in_space {
        true => ("whatever pods there are", ""),
        false => ("for the pods there are", " unless it is there for pods to come"),
    };
    let message = format!("the policy changes nothing, {scope}: {} the same ({names})", says(covers.len()));
    let help = format!("the same is said at {places}; remove the policy{but}");
    let object = &decisions.snapshot.policies()[policy].object;
    about(&REDUNDANT_POLICY, object, message).field("spec").help(help)
}

// === impl Search ===

impl RedundancySearch {
    fn new(decisions: &Decisions<'_>) -> Self {
        let mut isolating: BTreeMap<(Direction, Option<String>), Vec<usize>> = BTreeMap::new();
        for (at, policy) in decisions.snapshot.policies().iter().enumerate() {
            for isolation in policy.isolations.iter().filter(|_| policy.placement == Placement::Union) {
                let known = isolating.entry((isolation.direction, namespace_of(isolation))).or_default();
                if known.last() != Some(&at) {
                    known.push(at);
                }
            }
        }
        let rules = decisions.snapshot.policies().iter().flat_map(|policy| &policy.rules);
        let about_services = rules.filter(|rule| match &rule.peers {
            Peers::Of(peers) => peers.iter().any(|peer| matches!(peer, Peer::Service(_))),
            Peers::Any => false,
        });
        RedundancySearch {
            services: about_services.map(|rule| rule.direction).collect(),
            // Unreachable rules are reported already, and are removed first.
            removed: decisions.unreachable.clone(),
            removed_policies: BTreeSet::new(),
            budget: MAX_POD_CHECKS,
            space: None,
            isolating,
        }
    }

    /// Removes a rule if that changes no verdict, and returns what covers it.
    fn remove(&mut self, decisions: &mut Decisions<'_>, at: RuleAt) -> Option<Coverage> {
        let (_, rule) = decisions.rule(at);
        let facts = decisions.rules.get(&at)?;
        if facts.deciding.is_none()
            || !facts.has_distinct_ends
            || decisions.reported.contains(&at)
            || rule.log.is_some()
            || !rule.layer7.is_empty()
            || !decisions.is_fully_modelled(at)
            || !decisions.is_standalone(at)
        {
            return None;
        }
        // A rule for a service, between the two, may decide connections through it differently.
        if decisions.stage(at) != Some(Stage::NetworkPolicy) && self.services.contains(&rule.direction) {
            return None;
        }
        let mut covers = Coverage::default();
        for combination in facts.combinations.clone() {
            if !decisions.affords(combination) || !self.is_covered(decisions, combination, at, &mut covers) {
                return None;
            }
        }
        // Without coverage it decides nothing that removed rules have left.
        if covers.rules.is_empty() && !covers.by_default {
            return None;
        }
        self.removed.insert(at);
        Some(covers)
    }

    fn is_covered(
        &self,
        decisions: &mut Decisions<'_>,
        combination: u32,
        at: RuleAt,
        covers: &mut Coverage,
    ) -> bool {
        let (_, before) = decisions.decide(combination, |rule| self.removed.contains(&rule));
        let own = before.iter().find(|(_, rule, _)| *rule == Some(at));
        let Some((Decider::Rule(_, action), _, own)) = own.copied() else { return true };
        let (outcome, after) =
            decisions.decide(combination, |rule| rule == at || self.removed.contains(&rule));
        if outcome != decisions.combinations[combination as usize].outcome {
            return false;
        }
        // Removed alone, too: an unreachable rule behind this one would become reachable.
        let (alone, _) = decisions.decide(combination, |rule| rule == at);
        if alone != decisions.combinations[combination as usize].outcome {
            return false;
        }
        let stage = decisions.stage(at);
        let (mut covered, mut otherwise) = (Traffics::EMPTY, false);
        for (decider, rule, part) in after {
            let part = decisions.cells.traffics.intersection(part, own);
            if part == Traffics::EMPTY {
                continue;
            }
            let same = matches!(decider, Decider::Rule(_, does) if does == action);
            let Some(rule) = rule.filter(|rule| decisions.stage(*rule) == stage) else { continue };
            if same {
                covers.rules.insert(rule);
                covered = decisions.cells.traffics.union(covered, part);
            }
            otherwise |= !same;
        }
        // Defaults: unmatched traffic of the tiers is passed on, that of the baseline is allowed.
        let default_same = match (stage, action) {
            (Some(Stage::Tiers), Action::Pass) | (Some(Stage::Baseline), Action::Allow) => !otherwise,
            _ => false,
        };
        covers.by_default |= default_same && covered != own;
        default_same || covered == own
    }

    /// Whether each rule of a policy is included in one that stays, in every cluster.
    fn is_included(
        &mut self,
        decisions: &mut Decisions<'_>,
        policy: usize,
        taken: &[(RuleAt, Coverage)],
    ) -> bool {
        let snapshot = decisions.snapshot;
        let space = self.space.get_or_insert_with(|| Space::new(snapshot).bounded(MAX_STEPS));
        (0..snapshot.policies()[policy].rules.len()).all(|rule| {
            let at = RuleAt { policy, rule };
            let covers = taken.iter().find(|(own, _)| *own == at).map(|(_, covers)| &covers.rules);
            let inner = decisions.rule(at).1;
            covers.into_iter().flatten().take(MAX_OTHERS).any(|other| {
                let outer = decisions.rule(*other).1;
                includes(decisions, space, outer, inner)
            })
        })
    }

    /// Returns the other policies that isolate all pods that a policy isolates, existing and possible ones; `None` when they
    /// do not.
    fn isolated_by_others(
        &mut self,
        decisions: &Decisions<'_>,
        policy: usize,
        whole: bool,
    ) -> Option<BTreeSet<usize>> {
        if !whole {
            return None;
        }
        let mut by = BTreeSet::new();
        for isolation in &decisions.snapshot.policies()[policy].isolations {
            by.extend(self.isolate(decisions, policy, isolation)?);
        }
        Some(by)
    }

    fn isolate(
        &mut self,
        decisions: &Decisions<'_>,
        policy: usize,
        isolation: &Isolation,
    ) -> Option<BTreeSet<usize>> {
        let (context, snapshot) = (&decisions.context, decisions.snapshot);
        let near = |namespace_of: Option<String>| {
            self.isolating.get(&(isolation.direction, namespace_of)).into_iter().flatten()
        };
        let namespace_of = namespace_of(isolation);
        let near: BTreeSet<usize> = near(None).chain(near(namespace_of)).copied().collect();
        // A default deny is written on purpose, also where every policy that allows something isolates, too: only another
        // default deny makes it redundant.
        let only_denies = |policy: usize| {
            snapshot.policies()[policy].rules.iter().all(|rule| rule.direction != isolation.direction)
        };
        let counts = |other: &usize| !only_denies(policy) || only_denies(*other);
        let others: Vec<(usize, &Isolation)> = near
            .into_iter()
            .filter(|other| *other != policy && !self.removed_policies.contains(other) && counts(other))
            .flat_map(|other| snapshot.policies()[other].isolations.iter().map(move |one| (other, one)))
            .filter(|(_, one)| one.direction == isolation.direction)
            .collect();
        if others.is_empty() || others.len() > MAX_OTHERS {
            return None;
        }
        let mut by = BTreeSet::new();
        for pod in isolation.subjects.iter().flat_map(|subject| pods_of_subject(context, subject)) {
            let mut isolators = others.iter().filter(|(_, one)| {
                self.budget = self.budget.saturating_sub(1);
                context.applies(&one.subjects, Endpoint::Pod(pod))
            });
            by.insert(isolators.next()?.0);
        }
        let space = self.space.get_or_insert_with(|| Space::new(snapshot).bounded(MAX_STEPS));
        let predicates = |isolation: &Isolation| -> Option<Vec<Predicate>> {
            let predicate = |subject: &Subject| match subject {
                Subject::Pods(set) if is_absolute(set) => Some(space.predicate(set, None)),
                _ => None,
            };
            isolation.subjects.iter().map(predicate).collect()
        };
        let against: Vec<Predicate> =
            others.iter().filter_map(|(_, one)| predicates(one)).flatten().collect();
        let against: Vec<&Predicate> = against.iter().collect();
        let covered = |own: &Predicate| matches!(space.find(&[own], &against), SearchResult::Empty);
        // Subjects other than pods have no predicate: their policies are not reported.
        if self.budget == 0 || !predicates(isolation)?.iter().all(covered) {
            return None;
        }
        // Without existing pods: the policies that cover possible ones.
        if by.is_empty() {
            by.extend(others.iter().map(|(other, _)| *other));
        }
        Some(by)
    }
}

/// Returns the only namespace of an isolation's subjects; `None` when there may be several.
fn namespace_of(isolation: &Isolation) -> Option<String> {
    match &*isolation.subjects {
        [Subject::Pods(PodSet { namespaces: Namespaces::Named(name), .. })] => Some(name.to_string()),
        _ => None,
    }
}
