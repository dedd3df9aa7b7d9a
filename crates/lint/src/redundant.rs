//! Rules and policies that change nothing, because others say the same.
//!
//! Taken out one after the other, the last first, so that of two that say the same only one is reported, and all that is
//! reported can be taken out at once. A rule counts as covered only by rules of its own stage that do the same: an admin's
//! Deny is not superfluous because some NetworkPolicy denies today, too.

use std::collections::{BTreeMap, BTreeSet};

use palisade_analysis::reach::traffics::Traffics;
use palisade_analysis::reach::{Decider, RuleAt};
use palisade_analysis::space::{Answer, Predicate, Space};
use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_model::matching::Endpoint;
use palisade_model::policy::{
    Action, Direction, Isolation, Namespaces, Peer, Peers, Placement, PodSet, Subject,
};
use palisade_model::snapshot::Stage;

use super::decisions::Decisions;
use super::includes::{includes, is_absolute};
use super::{about, about_rule, pods_under};

/// A rule.
pub static REDUNDANT_RULE: Code = Code {
    id: "L0120",
    severity: Severity::Note,
    title: "a rule that others make superfluous",
    explanation: "The rule decides about connections, and without it every one of them would get the same answer from other rules of the same stage, which are named: a NetworkPolicy allows what another allows already, a rule of a tier is followed by one that does the same. Taking it out changes nothing for the pods there are; so does taking out all that are reported at once. Or no other rule is needed: a baseline rule allows what no later one refuses, and would be allowed at the end anyway; a rule of the tiers passes what no later one of them is about, and what no rule matches is passed on, too. It may still be there for pods to come.\n\nRules that log, or that have conditions on layer 7, are not reported: they do more than decide.",
};

/// A policy.
pub static REDUNDANT_POLICY: Code = Code {
    id: "L0121",
    severity: Severity::Warning,
    title: "a policy that others make superfluous",
    explanation: "Whatever the policy allows, others allow already for the pods there are, and every pod it isolates, now or later, whatever its labels, is isolated by another policy. Without it nothing changes: it is a copy, or others have grown over it. The message says for whom: whatever pods there are, where each of its rules is included in another, or only for the pods there are (a pod with other labels may need it). What covers it is named. A default deny is not reported because other policies isolate its pods, too: only another default deny makes it superfluous.",
};

/// As many pods are asked about their isolation, in all.
const MOST_ASKED: usize = 2_000_000;
/// As many steps may one question to the solver take.
const MOST_STEPS: u64 = 200_000;
/// Other policies that may isolate the same pods; more are not compared.
const MOST_OTHERS: usize = 128;

/// What makes a rule superfluous.
#[derive(Default)]
struct Covers {
    rules: BTreeSet<RuleAt>,
    /// Whether for some of it no rule is needed: where nobody decides, the same happens.
    by_the_end: bool,
}

/// What was taken out so far.
struct Search {
    removed: BTreeSet<RuleAt>,
    /// Policies that were taken out as a whole.
    gone: BTreeSet<usize>,
    asked: usize,
    space: Option<Space>,
    /// The directions in which some rule is about what goes through a service.
    services: BTreeSet<Direction>,
    /// The union policies of a namespace that isolate, by direction; those of none are about more than one.
    homes: BTreeMap<(Direction, Option<String>), Vec<usize>>,
}

pub(super) fn check(decisions: &mut Decisions<'_>, found: &mut Vec<Diagnostic>) {
    let mut search = Search::new(decisions);
    let snapshot = decisions.snapshot;
    for stage in [Stage::Tiers, Stage::Baseline] {
        for ranked in snapshot.rules_of(stage).iter().rev() {
            let at = RuleAt { policy: ranked.policy, rule: ranked.rule };
            if let Some(covers) = search.take_out(decisions, at) {
                found.push(superfluous(decisions, at, &covers));
            }
        }
    }
    for (policy, written) in snapshot.policies().iter().enumerate().rev() {
        if written.placement != Placement::Union {
            continue;
        }
        let mut taken: Vec<(RuleAt, Covers)> = Vec::new();
        for rule in (0..written.rules.len()).rev() {
            let at = RuleAt { policy, rule };
            taken.extend(search.take_out(decisions, at).map(|covers| (at, covers)));
        }
        // A rule that nobody meets may be met one day: a policy with such a rule is not superfluous.
        let whole = (0..written.rules.len()).all(|rule| search.removed.contains(&RuleAt { policy, rule }))
            && written.unreadable.is_none()
            && !written.isolations.is_empty()
            && written.object.kind == "NetworkPolicy";
        match search.isolated_by_others(decisions, policy, whole) {
            Some(others) => {
                search.gone.insert(policy);
                let mut covers: BTreeSet<usize> = others;
                covers.extend(taken.iter().flat_map(|(_, by)| by.rules.iter().map(|at| at.policy)));
                let ever = search.is_included(decisions, policy, &taken);
                found.push(whole_policy(decisions, policy, &covers, ever));
            }
            None => found.extend(taken.iter().map(|(at, covers)| superfluous(decisions, *at, covers))),
        }
    }
    decisions.exceeded |= search.asked == 0;
}

fn superfluous(decisions: &Decisions<'_>, at: RuleAt, covers: &Covers) -> Diagnostic {
    let (policy, rule) = decisions.rule(at);
    let (names, places) = decisions.names(&covers.rules);
    let by_rules =
        (!covers.rules.is_empty()).then(|| format!("{} the same ({names})", says(covers.rules.len())));
    let by_the_end = covers.by_the_end.then_some(match rule.action {
        Action::Pass => {
            "no later rule of the tiers is about what it passes, and what no rule matches is passed on, too"
        }
        _ => "no later rule refuses what it allows, and what nobody refuses is allowed at the end",
    });
    let why: Vec<String> = by_rules.into_iter().chain(by_the_end.map(str::to_owned)).collect();
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

fn whole_policy(
    decisions: &Decisions<'_>,
    policy: usize,
    covers: &BTreeSet<usize>,
    ever: bool,
) -> Diagnostic {
    let all: Vec<usize> = covers.iter().copied().collect();
    let (names, places) = decisions.names_of_policies(&all);
    let (scope, but) = match ever {
        true => ("whatever pods there are", ""),
        false => ("for the pods there are", " unless it is there for pods to come"),
    };
    let message = format!("the policy changes nothing, {scope}: {} the same ({names})", says(covers.len()));
    let help = format!("the same is said at {places}; remove the policy{but}");
    let object = &decisions.snapshot.policies()[policy].object;
    about(&REDUNDANT_POLICY, object, message).field("spec").help(help)
}

// === impl Search ===

impl Search {
    fn new(decisions: &Decisions<'_>) -> Self {
        let mut homes: BTreeMap<(Direction, Option<String>), Vec<usize>> = BTreeMap::new();
        for (at, policy) in decisions.snapshot.policies().iter().enumerate() {
            for isolation in policy.isolations.iter().filter(|_| policy.placement == Placement::Union) {
                let known = homes.entry((isolation.direction, home(isolation))).or_default();
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
        Search {
            services: about_services.map(|rule| rule.direction).collect(),
            // What never decides is reported already, and is taken out first.
            removed: decisions.idle.clone(),
            gone: BTreeSet::new(),
            asked: MOST_ASKED,
            space: None,
            homes,
        }
    }

    /// Takes a rule out if that changes nothing, and says what covers it.
    fn take_out(&mut self, decisions: &mut Decisions<'_>, at: RuleAt) -> Option<Covers> {
        let (_, rule) = decisions.rule(at);
        let facts = decisions.rules.get(&at)?;
        if facts.decisive.is_none()
            || !facts.is_met
            || decisions.reported.contains(&at)
            || rule.log.is_some()
            || !rule.layer7.is_empty()
            || !decisions.is_plain(at)
            || !decisions.is_by_itself(at)
        {
            return None;
        }
        // A rule for a service, in between, may decide otherwise about what goes through one.
        if decisions.stage(at) != Some(Stage::NetworkPolicy) && self.services.contains(&rule.direction) {
            return None;
        }
        let mut covers = Covers::default();
        for place in facts.met.clone() {
            if !decisions.affords(place) || !self.is_covered(decisions, place, at, &mut covers) {
                return None;
            }
        }
        // Without anything that covers it, it decided nothing that is left.
        if covers.rules.is_empty() && !covers.by_the_end {
            return None;
        }
        self.removed.insert(at);
        Some(covers)
    }

    fn is_covered(&self, decisions: &mut Decisions<'_>, place: u32, at: RuleAt, covers: &mut Covers) -> bool {
        let (_, before) = decisions.decide(place, |rule| self.removed.contains(&rule));
        let own = before.iter().find(|(_, rule, _)| *rule == Some(at));
        let Some((Decider::Rule(_, action), _, own)) = own.copied() else { return true };
        let (outcome, after) = decisions.decide(place, |rule| rule == at || self.removed.contains(&rule));
        if outcome != decisions.met[place as usize].outcome {
            return false;
        }
        // By itself, too: a rule that is dead behind this one would come to life.
        let (alone, _) = decisions.decide(place, |rule| rule == at);
        if alone != decisions.met[place as usize].outcome {
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
        // What nobody passes is passed on, and what no baseline rule is about is allowed.
        let at_the_end = match (stage, action) {
            (Some(Stage::Tiers), Action::Pass) | (Some(Stage::Baseline), Action::Allow) => !otherwise,
            _ => false,
        };
        covers.by_the_end |= at_the_end && covered != own;
        at_the_end || covered == own
    }

    /// Whether each rule of a policy is included in one that stays, whatever pods there are.
    fn is_included(
        &mut self,
        decisions: &mut Decisions<'_>,
        policy: usize,
        taken: &[(RuleAt, Covers)],
    ) -> bool {
        let snapshot = decisions.snapshot;
        let space = self.space.get_or_insert_with(|| Space::new(snapshot).bounded(MOST_STEPS));
        (0..snapshot.policies()[policy].rules.len()).all(|rule| {
            let at = RuleAt { policy, rule };
            let covers = taken.iter().find(|(own, _)| *own == at).map(|(_, covers)| &covers.rules);
            let inner = decisions.rule(at).1;
            covers.into_iter().flatten().take(MOST_OTHERS).any(|other| {
                let outer = decisions.rule(*other).1;
                includes(decisions, space, outer, inner)
            })
        })
    }

    /// The policies that isolate whom a policy isolates, pods of today and all there could be; `None` when they do not.
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
        let near = |home: Option<String>| self.homes.get(&(isolation.direction, home)).into_iter().flatten();
        let home = home(isolation);
        let near: BTreeSet<usize> = near(None).chain(near(home)).copied().collect();
        // A default deny is said on purpose, also where every policy that opens something isolates, too: only another one
        // makes it superfluous.
        let only_denies = |policy: usize| {
            snapshot.policies()[policy].rules.iter().all(|rule| rule.direction != isolation.direction)
        };
        let counts = |other: &usize| !only_denies(policy) || only_denies(*other);
        let others: Vec<(usize, &Isolation)> = near
            .into_iter()
            .filter(|other| *other != policy && !self.gone.contains(other) && counts(other))
            .flat_map(|other| snapshot.policies()[other].isolations.iter().map(move |one| (other, one)))
            .filter(|(_, one)| one.direction == isolation.direction)
            .collect();
        if others.is_empty() || others.len() > MOST_OTHERS {
            return None;
        }
        let mut by = BTreeSet::new();
        for pod in isolation.subjects.iter().flat_map(|subject| pods_under(context, subject)) {
            let mut isolators = others.iter().filter(|(_, one)| {
                self.asked = self.asked.saturating_sub(1);
                context.applies(&one.subjects, Endpoint::Pod(pod))
            });
            by.insert(isolators.next()?.0);
        }
        let space = self.space.get_or_insert_with(|| Space::new(snapshot).bounded(MOST_STEPS));
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
        let covered = |own: &Predicate| matches!(space.find(&[own], &against), Answer::Nobody);
        // Only pods can be asked about: whoever isolates others is left alone.
        if self.asked == 0 || !predicates(isolation)?.iter().all(covered) {
            return None;
        }
        // Without a pod of today: whoever covers the pods to come.
        if by.is_empty() {
            by.extend(others.iter().map(|(other, _)| *other));
        }
        Some(by)
    }
}

/// The one namespace that an isolation is about; `None` when it may be about others.
fn home(isolation: &Isolation) -> Option<String> {
    match &*isolation.subjects {
        [Subject::Pods(PodSet { namespaces: Namespaces::Named(name), .. })] => Some(name.to_string()),
        _ => None,
    }
}
