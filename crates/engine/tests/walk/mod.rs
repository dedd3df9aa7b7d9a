//! A view, asked about connections: nothing but its sets and rules, as a data plane would have them. What says who is exempt is
//! the model's.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_engine::delta::{CompiledRule, MemberKind, RuleEffect, SetId};
use palisade_engine::selection::SetKind;
use palisade_engine::view::View;
use palisade_model::cluster::Pod;
use palisade_model::evaluate::subject;
use palisade_model::flow::{Flow, Party, Who};
use palisade_model::matching::{Context, Endpoint};
use palisade_model::options::Options;
use palisade_model::pipeline::Effect;
use palisade_model::policy::Direction;
use palisade_model::snapshot::{Snapshot, Stage};
use palisade_model::trace::Verdict;
use palisade_model::traffic::Protocol;

/// A view, with who is in which sets.
pub struct Walk<'v> {
    view: &'v View,
    members: BTreeMap<Who2, BTreeSet<SetId>>,
}

/// Somebody, whatever its addresses.
type Who2 = (MemberKind, String, String, Option<IpAddr>);

impl<'v> Walk<'v> {
    pub fn new(view: &'v View) -> Self {
        let mut members: BTreeMap<Who2, BTreeSet<SetId>> = BTreeMap::new();
        for (id, set) in view.sets() {
            for member in &set.members {
                let address = (member.kind == MemberKind::Address).then(|| member.addresses[0]);
                let who =
                    (member.kind.clone(), member.namespace.to_string(), member.name.to_string(), address);
                members.entry(who).or_default().insert(*id);
            }
        }
        Walk { view, members }
    }

    pub fn verdict(&self, snapshot: &Snapshot, flow: &Flow, options: &Options) -> Verdict {
        match self.side(snapshot, flow, options, Direction::Egress) {
            Verdict::Allow => self.side(snapshot, flow, options, Direction::Ingress),
            refused => refused,
        }
    }

    pub fn side(&self, snapshot: &Snapshot, flow: &Flow, options: &Options, direction: Direction) -> Verdict {
        let context = Context { snapshot, options: *options };
        let (_, peer) = Context::ends(flow, direction);
        let asked = Asked { walk: self, context, flow, direction, peer };
        if direction == Direction::Ingress
            && let Some(service) = context.entrance(flow)
        {
            let refused = asked.beyond_pods(&self.sets(&service_key(snapshot, service)));
            if refused != Verdict::Allow {
                return refused;
            }
        }
        match subject(&context, flow, direction) {
            Err(_) => Verdict::Allow,
            Ok(Endpoint::Pod(pod)) => asked.pod(&self.sets(&pod_key(&snapshot.pods()[pod]))),
            Ok(Endpoint::Node(node)) => asked.beyond_pods(&self.sets(&node_key(snapshot, node))),
            Ok(Endpoint::Service(service)) => asked.beyond_pods(&self.sets(&service_key(snapshot, service))),
        }
    }

    fn sets(&self, who: &Who2) -> BTreeSet<SetId> {
        self.members.get(who).cloned().unwrap_or_default()
    }
}

fn pod_key(pod: &Pod) -> Who2 {
    let kind = match &pod.stand_in {
        Some(kind) => MemberKind::Template(kind.clone()),
        None if pod.external => MemberKind::Entity,
        None => MemberKind::Pod,
    };
    (kind, pod.namespace.to_string(), pod.name.to_string(), None)
}

fn node_key(snapshot: &Snapshot, node: usize) -> Who2 {
    (MemberKind::Node, String::new(), snapshot.nodes()[node].name.to_string(), None)
}

fn service_key(snapshot: &Snapshot, service: usize) -> Who2 {
    let service = &snapshot.services()[service];
    (MemberKind::Service, service.namespace.to_string(), service.name.to_string(), None)
}

struct Asked<'a> {
    walk: &'a Walk<'a>,
    context: Context<'a>,
    flow: &'a Flow,
    direction: Direction,
    peer: Party,
}

impl Asked<'_> {
    fn pod(&self, sets: &BTreeSet<SetId>) -> Verdict {
        if let Some(verdict) = self.first_match(sets, Stage::Tiers) {
            return verdict;
        }
        let union = self.rules(sets, Stage::NetworkPolicy);
        if union.iter().any(|rule| rule.effect == RuleEffect::Isolate) {
            let allows =
                |rule: &&CompiledRule| rule.effect == RuleEffect::Decide(Effect::Allow) && self.matches(rule);
            return if union.iter().any(allows) { Verdict::Allow } else { Verdict::Deny };
        }
        self.first_match(sets, Stage::Baseline).unwrap_or(Verdict::Allow)
    }

    fn beyond_pods(&self, sets: &BTreeSet<SetId>) -> Verdict {
        let decided = self.first_match(sets, Stage::Tiers);
        decided.or_else(|| self.first_match(sets, Stage::Baseline)).unwrap_or(Verdict::Allow)
    }

    /// The rules of a stage that apply to these sets, in their order.
    fn rules(&self, sets: &BTreeSet<SetId>, stage: Stage) -> Vec<&CompiledRule> {
        let view = self.walk.view;
        let rules = sets.iter().flat_map(|set| view.rules_of(*set));
        let mut rules: Vec<&CompiledRule> = rules
            .filter(|rule| rule.directions.contains(self.direction) && rule.rank.stage == stage)
            .collect();
        rules.sort_by(|one, other| view.compare(one, other));
        rules
    }

    fn first_match(&self, sets: &BTreeSet<SetId>, stage: Stage) -> Option<Verdict> {
        let rules = self.rules(sets, stage);
        let rule = rules.iter().find(|rule| self.matches(rule))?;
        let tcp = self.flow.traffic.protocol == Protocol::Tcp;
        match rule.effect {
            RuleEffect::Decide(Effect::AllowTcp) if !tcp => Some(Verdict::Deny),
            RuleEffect::Decide(Effect::Allow | Effect::AllowTcp) => Some(Verdict::Allow),
            RuleEffect::Decide(Effect::Deny) => Some(Verdict::Deny),
            RuleEffect::Decide(Effect::Reject) => Some(Verdict::Reject),
            RuleEffect::Decide(Effect::Pass) => None,
            RuleEffect::Isolate => panic!("an isolation in {stage:?}"),
        }
    }

    fn matches(&self, rule: &CompiledRule) -> bool {
        let peers = match &rule.peers {
            None => true,
            Some(sets) => sets.iter().any(|set| self.is_in(*set, self.peer)),
        };
        let destination = rule.destination.is_none_or(|set| self.is_in(set, self.flow.destination));
        peers && destination && self.context.carries(&rule.traffic, self.flow)
    }

    fn is_in(&self, set: SetId, party: Party) -> bool {
        let holds = |who: Who2| self.walk.members.get(&who).is_some_and(|sets| sets.contains(&set));
        let snapshot = self.context.snapshot;
        let selection = &self.walk.view.sets()[&set].selection;
        match selection.kind() {
            SetKind::Pods => match party.who {
                Who::Pod(pod) => holds(pod_key(&snapshot.pods()[pod])),
                _ => false,
            },
            SetKind::Nodes => self.context.node_of(party).is_some_and(|node| holds(node_key(snapshot, node))),
            SetKind::Addresses => {
                let covered = self.context.options.ip_block_matches_pods || !self.context.is_pod(party);
                covered && party.address.is_some_and(|address| selection.contains_address(address))
            }
            SetKind::Names => party.address.is_some_and(|address| {
                holds((MemberKind::Address, String::new(), String::new(), Some(address)))
            }),
            SetKind::Service => self.flow.via.is_some_and(|via| holds(service_key(snapshot, via))),
        }
    }
}
