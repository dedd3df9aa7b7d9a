//! The plain evaluator: one connection against a snapshot, with every reason.
//!
//! This file is the meaning of Palisade. It is written to be read beside the semantics, from top to bottom, by
//! somebody who knows the APIs; it scans every policy and remembers everything it saw. Whatever is faster is tested
//! against it.
//!
//! ```text
//!   a connection is allowed iff egress of its source and ingress of its destination both allow it; where it comes
//!   from outside through a service, that must allow it, too
//!
//!   one direction of one pod (of a node: the tiers only, where some rule applies to nodes):
//!     1  tiers 0..251      first match    Allow, Deny, Reject decide; Pass goes to 2
//!     2  NetworkPolicy     union          an isolated pod: any allow allows, else denied; final either way
//!     3  tiers 253..       first match    as 1, where Pass goes to 4
//!     4  the end                          allowed
//! ```

pub(crate) mod matching;

use std::sync::Arc;

use crate::flow::{Flow, Party, Who};
use crate::matching::{Context, Endpoint, Parties};
use crate::options::{Options, SelfTraffic};
use crate::policy::{Action, Direction, Namespaces, PodSet, Policy, Rule, Subject};
use crate::snapshot::{RankedRule, Snapshot, Stage};
use crate::trace::{
    Because, Bystander, Decision, Evaluation, Exemption, RuleRef, Side, StageName, StageOutcome, StageTrace,
    Step, StepResult, Verdict,
};
use crate::traffic::{Protocol, Traffic};
use matching::{Judge, Match};

/// What becomes of a connection, and why.
pub fn evaluate(snapshot: &Snapshot, flow: &Flow, options: &Options) -> Evaluation {
    let context = Context { snapshot, options: *options };
    let egress = side(&context, flow, Direction::Egress);
    let ingress = side(&context, flow, Direction::Ingress);
    Evaluation { flow: *flow, verdict: Verdict::of_both(egress.verdict, ingress.verdict), egress, ingress }
}

/// Whether policies have a say about this end of a connection at all: whom they apply to, or why not.
pub fn subject<C: Parties>(
    context: &Context<'_, C>,
    flow: &Flow,
    direction: Direction,
) -> Result<Endpoint, Exemption> {
    let (own, other) = Context::ends(flow, direction);
    let endpoint = match own.who {
        Who::Outside => return Err(Exemption::Outside),
        Who::Pod(pod) if !context.snapshot.pod(pod).host_network => Endpoint::Pod(pod),
        // A pod in its node's network is its node.
        _ => context.node_of(own).map(Endpoint::Node).ok_or(Exemption::HostNetwork)?,
    };
    // Nobody can be cut off from itself; through a service a pod can. A template stands for many pods, not for one.
    let itself = match endpoint {
        Endpoint::Pod(pod) => own.who == other.who && !context.snapshot.pod(pod).stand_in,
        Endpoint::Node(node) => context.node_of(other) == Some(node),
        Endpoint::Service(_) => false,
    };
    if itself && flow.via.is_none() && context.options.self_traffic == SelfTraffic::Allow {
        return Err(Exemption::OwnAddress);
    }
    // Without neighbour discovery no address of IPv6 is ever found: no policy is about it.
    let six = own.address.or(other.address).is_some_and(|address| address.is_ipv6());
    if six && matches!(flow.traffic, Traffic { protocol: Protocol::Icmp, icmp: Some((133..=137, _)), .. }) {
        return Err(Exemption::NeighbourDiscovery);
    }
    // Its node must reach it: the kubelet probes it from there.
    if let Endpoint::Pod(pod) = endpoint
        && direction == Direction::Ingress
        && context.is_own_node(other, pod)
    {
        return Err(Exemption::OwnNode);
    }
    Ok(endpoint)
}

fn side(context: &Context<'_>, flow: &Flow, direction: Direction) -> Side {
    match entrance(context, flow, direction) {
        None => own_side(context, flow, direction),
        Some(refusal) if refusal.verdict != Verdict::Allow => refusal,
        // What the service lets in, the pod behind it may still refuse. If that has nothing to say, the service decided.
        Some(admission) => {
            let mut side = own_side(context, flow, direction);
            side.stages.splice(0..0, admission.stages);
            if matches!(side.because, Because::Default | Because::Exempt(_)) {
                side.because = admission.because;
            }
            side
        }
    }
}

/// What a service says to a connection that comes in through it from outside; `None` when no rule is about it.
fn entrance(context: &Context<'_>, flow: &Flow, direction: Direction) -> Option<Side> {
    let service = context.entrance(flow).filter(|_| direction == Direction::Ingress)?;
    let asked = Asked { context, flow, direction, endpoint: Endpoint::Service(service), peer: flow.source };
    if !asked.anybody_is_concerned() {
        return None;
    }
    let mut stages = Vec::new();
    for stage in [Stage::Tiers, Stage::Baseline] {
        if let Some((verdict, because)) = asked.first_match(context.snapshot.rules_of(stage), &mut stages) {
            return Some(Side { direction, verdict, because, stages });
        }
    }
    Some(Side { direction, verdict: Verdict::Allow, because: Because::Default, stages })
}

fn own_side(context: &Context<'_>, flow: &Flow, direction: Direction) -> Side {
    let (own, peer) = Context::ends(flow, direction);
    let endpoint = match subject(context, flow, direction) {
        Ok(endpoint) => endpoint,
        Err(exemption) => return exempt(direction, exemption),
    };
    let asked = Asked { context, flow, direction, endpoint, peer };
    // Hardly any policy is about nodes: where none is, that is the whole answer.
    if let Endpoint::Node(_) = endpoint
        && !asked.anybody_is_concerned()
    {
        let pod = matches!(own.who, Who::Pod(_));
        return exempt(direction, if pod { Exemption::HostNetwork } else { Exemption::Node });
    }
    let mut stages = Vec::new();
    for stage in Stage::PIPELINE {
        let decided = match (stage, endpoint) {
            (Stage::Tiers | Stage::Baseline, _) => {
                asked.first_match(context.snapshot.rules_of(stage), &mut stages)
            }
            (Stage::NetworkPolicy, Endpoint::Pod(_)) => asked.union(&mut stages),
            // NetworkPolicies select pods.
            (Stage::NetworkPolicy, Endpoint::Node(_) | Endpoint::Service(_)) => None,
        };
        if let Some((verdict, because)) = decided {
            return Side { direction, verdict, because, stages };
        }
    }
    Side { direction, verdict: Verdict::Allow, because: Because::Default, stages }
}

fn exempt(direction: Direction, exemption: Exemption) -> Side {
    let because = Because::Exempt(exemption);
    Side { direction, verdict: Verdict::Allow, because, stages: Vec::new() }
}

/// What is asked of every stage: this connection, seen from this pod or node.
struct Asked<'a> {
    context: &'a Context<'a>,
    flow: &'a Flow,
    direction: Direction,
    endpoint: Endpoint,
    peer: Party,
}

impl<'a> Asked<'a> {
    fn judge(&self) -> Judge<'a> {
        Judge { context: *self.context }
    }

    fn anybody_is_concerned(&self) -> bool {
        let snapshot = self.context.snapshot;
        snapshot.ranked().iter().map(|ranked| &snapshot.policies()[ranked.policy].rules[ranked.rule]).any(
            |rule| rule.direction == self.direction && self.judge().applies(&rule.subjects, self.endpoint),
        )
    }

    /// First match: rules in the order of their rank; the first one that applies and matches decides.
    fn first_match(&self, rules: &[RankedRule], stages: &mut Vec<StageTrace>) -> Option<(Verdict, Because)> {
        for ranked in rules {
            let policy = &self.context.snapshot.policies()[ranked.policy];
            let rule = &policy.rules[ranked.rule];
            if rule.direction != self.direction {
                continue;
            }
            let name = match ranked.unplaced {
                false => StageName::Tier(ranked.tier, ranked.tier_name.clone()),
                true => StageName::NoTier(ranked.tier_name.clone()),
            };
            let stage = stage(stages, name.clone());
            if !self.judge().applies(&rule.subjects, self.endpoint) {
                self.stands_by(policy, &rule.subjects, stage);
                continue;
            }
            let matched = self.judge().rule(rule, self.endpoint, self.peer, self.flow);
            let mut result = self.judge().reason(rule, self.endpoint, self.peer, self.flow);
            // Where a policy comes that names no tier there is, nobody can say: it does not allow, and it does not pass.
            let nowhere = ranked.unplaced && matched == Match::Yes;
            if nowhere && matches!(rule.action, Action::Allow | Action::Pass) {
                let why = format!("there is no tier {}", ranked.tier_name);
                result = StepResult::FailedClosed { why };
            }
            let failed_closed = match &result {
                StepResult::FailedClosed { why } => Some(why.clone()),
                _ => None,
            };
            stage.steps.push(step(policy, rule, result));
            let action = match (matched, rule.action) {
                (Match::Yes, Action::Allow) if nowhere => continue,
                (Match::Yes, Action::Pass) if nowhere => Action::Deny,
                (Match::Yes, _) => rule.action_for(self.flow.traffic),
                // Fail closed: an Allow that cannot be read lets nobody through, anything else stops everybody.
                (Match::Unknown, Action::Allow) | (Match::No, _) => continue,
                (Match::Unknown, _) => Action::Deny,
            };
            let verdict = match action {
                Action::Allow => Verdict::Allow,
                Action::Deny => Verdict::Deny,
                Action::Reject => Verdict::Reject,
                Action::Pass => {
                    stage.outcome = StageOutcome::Passed;
                    return None;
                }
            };
            stage.outcome = StageOutcome::Decided(verdict);
            let decision = Decision {
                object: Arc::clone(&policy.object),
                rule: RuleRef::from(rule),
                action,
                failed_closed,
                conditions: if action == Action::Allow { rule.layer7.clone() } else { Vec::new() },
                also: Vec::new(),
                stage: name,
            };
            return Some((verdict, Because::Rule(decision)));
        }
        None
    }

    /// Union: whoever is isolated may do what any rule of any policy allows, and nothing else.
    fn union(&self, stages: &mut Vec<StageTrace>) -> Option<(Verdict, Because)> {
        let mut isolated_by = Vec::new();
        let mut allowed_by: Vec<(&Policy, &Rule)> = Vec::new();
        for index in self.context.snapshot.union_policies(self.direction) {
            let policy = &self.context.snapshot.policies()[index];
            let stage = stage(stages, StageName::NetworkPolicy);
            let isolations =
                || policy.isolations.iter().filter(|isolation| isolation.direction == self.direction);
            let isolates =
                isolations().any(|isolation| self.judge().applies(&isolation.subjects, self.endpoint));
            if isolates {
                isolated_by.push(Arc::clone(&policy.object));
                let unreadable =
                    policy.unreadable.iter().map(|what| (Arc::clone(&policy.object), what.clone()));
                stage.unreadable.extend(unreadable);
            }
            let mut applies = isolates;
            for rule in policy.rules.iter().filter(|rule| rule.direction == self.direction) {
                if !self.judge().applies(&rule.subjects, self.endpoint) {
                    continue;
                }
                applies = true;
                // What cannot be read allows nobody: only a sure match counts.
                if self.judge().rule(rule, self.endpoint, self.peer, self.flow) == Match::Yes {
                    allowed_by.push((policy, rule));
                }
                stage.steps.push(step(
                    policy,
                    rule,
                    self.judge().reason(rule, self.endpoint, self.peer, self.flow),
                ));
            }
            if !applies {
                let subjects = isolations().map(|isolation| &isolation.subjects);
                let mut subjects = subjects.chain(policy.rules.iter().map(|rule| &rule.subjects));
                if let Some(subjects) = subjects.next() {
                    self.stands_by(policy, subjects, stage);
                }
            }
        }
        let stage = stages.last_mut().filter(|stage| stage.stage == StageName::NetworkPolicy)?;
        if isolated_by.is_empty() {
            // Rules without isolation (the 2016 API has them) open nothing, because nothing is closed.
            stage.outcome = StageOutcome::NotIsolated;
            return None;
        }
        stage.isolated_by.clone_from(&isolated_by);
        match allowed_by.split_first() {
            Some(((policy, rule), others)) => {
                stage.outcome = StageOutcome::Decided(Verdict::Allow);
                let mut also: Vec<_> = others.iter().map(|(policy, _)| Arc::clone(&policy.object)).collect();
                also.dedup();
                also.retain(|object| *object != policy.object);
                let decision = Decision {
                    object: Arc::clone(&policy.object),
                    rule: RuleRef::from(*rule),
                    action: Action::Allow,
                    failed_closed: None,
                    conditions: rule.layer7.clone(),
                    also,
                    stage: StageName::NetworkPolicy,
                };
                Some((Verdict::Allow, Because::Rule(decision)))
            }
            None => {
                stage.outcome = StageOutcome::Decided(Verdict::Deny);
                Some((Verdict::Deny, Because::Isolation { by: isolated_by }))
            }
        }
    }

    fn in_words(&self, subject: &Subject) -> String {
        match subject {
            Subject::Group { group, .. } if !self.context.snapshot.has_group(group) => {
                format!("{subject}, which does not exist")
            }
            other => other.to_string(),
        }
    }

    /// Notes a policy that does not apply, unless it is one that nobody would expect to: of another namespace, or about
    /// nodes and services where a pod is asked for.
    fn stands_by(&self, policy: &Policy, subjects: &[Subject], stage: &mut StageTrace) {
        let expected = |subject: &Subject| match (subject, self.endpoint) {
            (Subject::Pods(PodSet { namespaces: Namespaces::Named(name), .. }), Endpoint::Pod(pod)) => {
                self.context.snapshot.namespace_of(pod).name == *name
            }
            (Subject::Pods(_), Endpoint::Pod(_)) | (Subject::Nodes(_), Endpoint::Node(_)) => true,
            (Subject::Group { .. }, _) => true,
            _ => false,
        };
        // Policies of equal priority take turns: a few back is far enough.
        let noted =
            stage.bystanders.iter().rev().take(16).any(|other| Arc::ptr_eq(&other.object, &policy.object));
        if subjects.iter().any(expected) && !noted {
            let words: Vec<String> = subjects.iter().map(|subject| self.in_words(subject)).collect();
            stage
                .bystanders
                .push(Bystander { object: Arc::clone(&policy.object), applies_to: words.join(", or ") });
        }
    }
}

/// The trace of the stage of that name, which is the last one or a new one.
fn stage(stages: &mut Vec<StageTrace>, name: StageName) -> &mut StageTrace {
    if stages.last().is_none_or(|last| last.stage != name) {
        stages.push(StageTrace {
            stage: name,
            outcome: StageOutcome::NoMatch,
            isolated_by: Vec::new(),
            unreadable: Vec::new(),
            steps: Vec::new(),
            bystanders: Vec::new(),
        });
    }
    let last = stages.len() - 1;
    &mut stages[last]
}

fn step(policy: &Policy, rule: &Rule, result: StepResult) -> Step {
    Step { object: Arc::clone(&policy.object), rule: RuleRef::from(rule), action: rule.action, result }
}
