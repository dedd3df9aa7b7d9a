//! Answers from the index: the same as the plain evaluator's, from the rules that concern somebody only.

use std::sync::Arc;

use palisade_model::cluster::{Pod, Service};
use palisade_model::evaluate::subject;
use palisade_model::flow::{Flow, Party};
use palisade_model::matching::{Context, Endpoint};
use palisade_model::options::Options;
use palisade_model::policy::{Action, Direction, Object};
use palisade_model::snapshot::Stage;
use palisade_model::trace::Verdict;

use crate::Engine;
use crate::change::{Change, SetId};
use crate::sets::{Held, Set};

impl Engine {
    /// How many changes there have been.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What changed since this was asked last, in order.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// How much there is of everything.
    pub fn counts(&self) -> Counts {
        let sets = || self.sets.sets.iter().map(|(_, set)| set);
        let is_subject = |set: &Set| !(set.rules.is_empty() && set.isolations.is_empty());
        Counts {
            pods: self.endpoints.pod_count(),
            classes: self.endpoints.classes.len(),
            subjects: sets().filter(|set| is_subject(set)).count(),
            peers: sets().filter(|set| set.peer_uses > 0).count(),
            rules: self.policies.policies.iter().map(|(_, entry)| entry.policy.rules.len()).sum(),
        }
    }

    /// The place of a pod, for a flow.
    pub fn pod_at(&self, pod: &Pod) -> Option<usize> {
        self.endpoints.find(&pod.namespace, &pod.name, &pod.stand_in)
    }

    /// The place of a service, for a flow.
    pub fn service_at(&self, service: &Service) -> Option<usize> {
        self.service_by_name.get(&(service.namespace.clone(), service.name.clone())).copied()
    }

    /// The policies that apply to a pod, each set's in turn; a policy may come more than once.
    pub fn policies_of(&self, pod: usize) -> impl Iterator<Item = &Arc<Object>> {
        let sets = self.endpoints.class_of(pod).map(|class| class.sets.as_slice()).unwrap_or_default();
        sets.iter().flat_map(|set| &self.sets.sets[*set].policies).map(|policy| self.object(*policy))
    }

    /// What becomes of a connection.
    pub fn verdict(&self, flow: &Flow, options: &Options) -> Verdict {
        let context = Context { snapshot: self, options: *options };
        match self.side(&context, flow, Direction::Egress) {
            Verdict::Allow => self.side(&context, flow, Direction::Ingress),
            refused => refused,
        }
    }

    fn side(&self, context: &Context<'_, Engine>, flow: &Flow, direction: Direction) -> Verdict {
        if direction == Direction::Ingress
            && let Some(service) = context.entrance(flow)
        {
            let refused = self.beyond_pods(context, flow, direction, Endpoint::Service(service), flow.source);
            if refused != Verdict::Allow {
                return refused;
            }
        }
        let Ok(endpoint) = subject(context, flow, direction) else { return Verdict::Allow };
        let (_, peer) = Context::ends(flow, direction);
        let Endpoint::Pod(pod) = endpoint else {
            return self.beyond_pods(context, flow, direction, endpoint, peer);
        };
        let sets = self.endpoints.class_of(pod).map(|class| class.sets.as_slice()).unwrap_or_default();
        if let Some(verdict) = self.first_match(context, flow, sets, Stage::Tiers, direction, endpoint, peer)
        {
            return verdict;
        }
        let own = || sets.iter().map(|set| &self.sets.sets[*set]);
        if own().any(|set| set.isolations.iter().any(|(isolated, _)| *isolated == direction)) {
            let mut rules = own().flat_map(|set| set.rules_of(direction, Stage::NetworkPolicy));
            let allows = |held: &Held| {
                let rule = self.rule(held);
                context.unknown(rule).is_none() && context.readable_rule(rule, endpoint, peer, flow)
            };
            return if rules.any(allows) { Verdict::Allow } else { Verdict::Deny };
        }
        self.first_match(context, flow, sets, Stage::Baseline, direction, endpoint, peer)
            .unwrap_or(Verdict::Allow)
    }

    /// First match over the rules of all these sets, merged in their order.
    #[allow(clippy::too_many_arguments)]
    fn first_match(
        &self,
        context: &Context<'_, Engine>,
        flow: &Flow,
        sets: &[SetId],
        stage: Stage,
        direction: Direction,
        endpoint: Endpoint,
        peer: Party,
    ) -> Option<Verdict> {
        let mut lists: Vec<&[Held]> = sets
            .iter()
            .map(|set| self.sets.sets[*set].rules_of(direction, stage))
            .filter(|list| !list.is_empty())
            .collect();
        // A pod is in a handful of sets that rules of tiers apply to: the least head of a few lists.
        while let Some(at) = least(&lists) {
            let (held, rest) = lists[at].split_first()?;
            lists[at] = rest;
            match self.decide(context, held, endpoint, peer, flow) {
                Decided::Verdict(verdict) => return Some(verdict),
                Decided::Passed => return None,
                Decided::No => {}
            }
        }
        None
    }

    /// Of a node or a service, which NetworkPolicies are not about.
    fn beyond_pods(
        &self,
        context: &Context<'_, Engine>,
        flow: &Flow,
        direction: Direction,
        endpoint: Endpoint,
        peer: Party,
    ) -> Verdict {
        for stage in [Stage::Tiers, Stage::Baseline] {
            for held in &self.policies.beyond_pods {
                let own = held.direction == direction && held.stage == stage;
                if !own || !context.applies(&self.rule(held).subjects, endpoint) {
                    continue;
                }
                match self.decide(context, held, endpoint, peer, flow) {
                    Decided::Verdict(verdict) => return verdict,
                    Decided::Passed => break,
                    Decided::No => {}
                }
            }
        }
        Verdict::Allow
    }

    fn decide(
        &self,
        context: &Context<'_, Engine>,
        held: &Held,
        endpoint: Endpoint,
        peer: Party,
        flow: &Flow,
    ) -> Decided {
        let rule = self.rule(held);
        let placed = held.rank.placed;
        match (context.unknown(rule).is_some(), rule.action) {
            // What cannot be read fails closed, and so does what stands nowhere.
            (true, Action::Allow) => return Decided::No,
            (true, _) => return Decided::Verdict(Verdict::Deny),
            (false, Action::Allow) if !placed => return Decided::No,
            _ => {}
        }
        if !context.readable_rule(rule, endpoint, peer, flow) {
            return Decided::No;
        }
        match rule.action_for(flow.traffic) {
            Action::Allow => Decided::Verdict(Verdict::Allow),
            Action::Deny => Decided::Verdict(Verdict::Deny),
            Action::Reject => Decided::Verdict(Verdict::Reject),
            Action::Pass if placed => Decided::Passed,
            Action::Pass => Decided::Verdict(Verdict::Deny),
        }
    }
}

/// How much there is of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Pods, and what stands for them.
    pub pods: usize,
    /// Classes of pods.
    pub classes: usize,
    /// Sets of pods that rules apply to.
    pub subjects: usize,
    /// Sets of pods that rules name as peers.
    pub peers: usize,
    /// Rules.
    pub rules: usize,
}

enum Decided {
    Verdict(Verdict),
    Passed,
    No,
}

/// The list with the least head.
fn least(lists: &[&[Held]]) -> Option<usize> {
    let mut best: Option<(usize, &Held)> = None;
    for (at, list) in lists.iter().enumerate() {
        if let Some(head) = list.first()
            && best.is_none_or(|(_, held)| head.cmp(held).is_lt())
        {
            best = Some((at, head));
        }
    }
    best.map(|(at, _)| at)
}
