//! Answers from the index: the same as the plain evaluator's, from the rows that apply to an endpoint only.

use std::cmp::Ordering;
use std::sync::Arc;

use palisade_model::cluster::{Pod, Service};
use palisade_model::evaluate::subject;
use palisade_model::flow::{Flow, Party, Who};
use palisade_model::matching::{CarriedTraffic, Context, Endpoint};
use palisade_model::options::Options;
use palisade_model::pipeline::{self, Effect, Stages};
use palisade_model::policy::{Direction, Object, ServiceName};
use palisade_model::snapshot::Stage;
use palisade_model::trace::Verdict;
use palisade_model::traffic::Protocol;
use smallvec::SmallVec;

use crate::Engine;
use crate::delta::RuleEffect;
use crate::id::{ArenaIndex, Id, RuleId, SetId};
use crate::rows::{PeerSets, Row};
use crate::selection::Content;

/// How much there is of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Pods, and what stands for them.
    pub pods: usize,
    /// Classes of pods.
    pub classes: usize,
    /// Policies.
    pub policies: usize,
    /// Sets that rules apply to.
    pub subjects: usize,
    /// Sets that rules name at their other end.
    pub address_sets: usize,
    /// Rules, as they are handed on; isolations are not counted.
    pub rules: usize,
    /// Isolations.
    pub isolations: usize,
    /// Sets that are split by what a port's name stands for.
    pub splits: usize,
}

/// One side of a connection, as rows are asked about it.
struct Asked<'a> {
    engine: &'a Engine,
    context: Context<'a, Engine>,
    flow: &'a Flow,
    direction: Direction,
    peer: Party,
}

impl Engine {
    /// How many events have changed something.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How much there is of everything.
    pub fn counts(&self) -> Counts {
        let sets = || self.sets.sets.iter().map(|(_, set)| set);
        let isolations =
            self.rows.iter().filter(|(_, entry)| entry.row.effect == RuleEffect::Isolate).count();
        Counts {
            pods: self.endpoints.pods.len(),
            classes: self.endpoints.classes.len(),
            policies: self.policies.len(),
            subjects: sets().filter(|set| set.applied > 0).count(),
            address_sets: sets().filter(|set| set.seen > set.applied).count(),
            rules: self.rows.len() - isolations,
            isolations,
            splits: self.splits.len() as usize,
        }
    }

    /// The place of a pod, for a flow.
    pub fn pod_at(&self, pod: &Pod) -> Option<usize> {
        self.endpoints.find(&pod.namespace, &pod.name, pod.variant().as_deref()).map(ArenaIndex::position)
    }

    /// The place of a service, for a flow.
    pub fn service_at(&self, service: &Service) -> Option<usize> {
        let name = ServiceName { namespace: service.namespace.clone(), name: service.name.clone() };
        self.services.find(&name).map(ArenaIndex::position)
    }

    /// The policies that apply to a pod, each set's in turn and in no order; a policy may come more than once. None if there
    /// is no such pod.
    pub fn policies_of(&self, pod: usize) -> impl Iterator<Item = &Arc<Object>> {
        let class = Id::at(pod).and_then(|pod| self.endpoints.class_at(pod));
        let sets = class.map(|class| class.sets.as_slice()).unwrap_or_default();
        let policies = sets.iter().flat_map(|(set, _)| &self.sets.sets[*set].policies);
        policies.map(|policy| self.policies.object(*policy))
    }

    /// The policies that name a pod at the other end of one of their rules, each once and in order. Rules that are about
    /// anybody, or about addresses, do not name it. This looks at every rule: it is for people who ask.
    pub fn policies_naming(&self, pod: usize) -> Vec<&Arc<Object>> {
        let class = Id::at(pod).and_then(|pod| self.endpoints.class_at(pod));
        let Some(class) = class else { return Vec::new() };
        let rows = self.rows.iter().map(|(_, entry)| &entry.row);
        let naming = rows.filter(|row| row.peers.as_slice().iter().any(|set| class.is_in(*set)));
        let mut objects: Vec<&Arc<Object>> = naming.map(|row| self.policies.object(row.policy)).collect();
        objects.sort();
        objects.dedup();
        objects
    }

    /// What becomes of a connection between places of this index ([`Engine::flow`], [`Engine::pod_at`]); nothing if somebody
    /// in it is not there. Places are good until the next event.
    pub fn verdict(&self, flow: &Flow, options: &Options) -> Option<Verdict> {
        let is_here = |party: Party| match party.who {
            Who::Pod(pod) => Id::at(pod).is_some_and(|pod| self.endpoints.pods.get(pod).is_some()),
            Who::Node(node) => Id::at(node).is_some_and(|node| self.hosts.node(node).is_some()),
            Who::Outside => true,
        };
        let is_served =
            flow.via.is_none_or(|via| Id::at(via).is_some_and(|via| self.services.member(via).is_some()));
        if !(is_here(flow.source) && is_here(flow.destination) && is_served) {
            return None;
        }
        Some(match self.side(flow, options, Direction::Egress) {
            Verdict::Allow => self.side(flow, options, Direction::Ingress),
            refused => refused,
        })
    }

    fn side(&self, flow: &Flow, options: &Options, direction: Direction) -> Verdict {
        let context = Context { snapshot: self, options: *options };
        let (_, peer) = Context::ends(flow, direction);
        let asked = Asked { engine: self, context, flow, direction, peer };
        if direction == Direction::Ingress
            && let Some(service) = context.entrance(flow)
        {
            let refused = asked.beyond_pods(self.sets_of_service(service));
            if refused != Verdict::Allow {
                return refused;
            }
        }
        match subject(&context, flow, direction) {
            Err(_) => Verdict::Allow,
            Ok(Endpoint::Pod(pod)) => {
                let class = Id::at(pod).and_then(|pod| self.endpoints.class_at(pod));
                asked.pod(class.map(|class| class.sets.as_slice()).unwrap_or_default())
            }
            Ok(Endpoint::Node(node)) => asked.beyond_pods(self.sets_of_node(node)),
            Ok(Endpoint::Service(service)) => asked.beyond_pods(self.sets_of_service(service)),
        }
    }

    fn sets_of_node(&self, node: usize) -> &[SetId] {
        Id::at(node).map(|node| self.hosts.sets(node)).unwrap_or_default()
    }

    fn sets_of_service(&self, service: usize) -> &[SetId] {
        Id::at(service).map(|service| self.services.sets(service)).unwrap_or_default()
    }

    /// Whether a connection is with somebody in a set.
    fn is_in(&self, set: SetId, party: Party, flow: &Flow, context: &Context<'_, Engine>) -> bool {
        match &self.sets.sets[set].selection.content {
            Content::Pods(..) => match party.who {
                Who::Pod(pod) => {
                    let class = Id::at(pod).and_then(|pod| self.endpoints.class_at(pod));
                    class.is_some_and(|class| class.is_in(set))
                }
                _ => false,
            },
            Content::Nodes(_) => {
                context.node_of(party).is_some_and(|node| self.sets_of_node(node).binary_search(&set).is_ok())
            }
            Content::Addresses(ranges) => {
                let covered = context.options.ip_block_matches_pods || !context.is_pod(party);
                covered && party.address.is_some_and(|address| ranges.contains(address))
            }
            Content::Names(_) => party.address.is_some_and(|address| self.names.holds(set, address)),
            Content::Service(_) => flow.via.is_some_and(|via| self.sets_of_service(via).contains(&set)),
        }
    }
}

// === impl Asked ===

impl<'a> Asked<'a> {
    /// Decides for a pod in these sets.
    fn pod(&self, sets: &[(SetId, u32)]) -> Verdict {
        let ids = || sets.iter().map(|(set, _)| *set);
        let own = || ids().map(|set| &self.engine.sets.sets[set]);
        let isolated = own().any(|set| set.isolated[self.direction as usize] > 0);
        let rows = own().flat_map(|set| &set.allows).map(|row| &self.engine.rows[*row].row);
        let allows = rows.filter(|row| row.directions.contains(self.direction));
        self.decide(&ids(), isolated, allows)
    }

    /// Decides for a node or a service, which NetworkPolicies do not apply to.
    fn beyond_pods(&self, sets: &[SetId]) -> Verdict {
        self.decide(&sets.iter().copied(), false, std::iter::empty())
    }

    fn decide(
        &self,
        sets: &(impl Iterator<Item = SetId> + Clone),
        isolated: bool,
        allows: impl Iterator<Item = &'a Row>,
    ) -> Verdict {
        // By reference: a list of lists is too large to be moved around for every connection.
        let mut tiers = Ranked::new(self, sets.clone(), Stage::Tiers);
        let mut baseline = None;
        let stages = Stages {
            tiers: &mut tiers,
            isolated,
            allows,
            // Most connections are decided before.
            baseline: std::iter::from_fn(|| {
                baseline.get_or_insert_with(|| Ranked::new(self, sets.clone(), Stage::Baseline)).next()
            }),
        };
        let is_tcp = self.flow.traffic.protocol == Protocol::Tcp;
        let carried = self.context.carried(self.flow);
        pipeline::verdict(is_tcp, stages, |row| self.matches(row, &carried))
    }

    fn matches(&self, row: &Row, carried: &CarriedTraffic<'_, Engine>) -> bool {
        self.carries(row, carried)
            && match &row.peers {
                PeerSets::Any => true,
                sets => sets.as_slice().iter().any(|set| self.is_in(*set, self.peer)),
            }
            && row.destination.is_none_or(|set| self.is_in(set, self.flow.destination))
    }

    fn carries(&self, row: &Row, carried: &CarriedTraffic<'_, Engine>) -> bool {
        let traffic = self.flow.traffic;
        // An isolation decides what nothing allows; it matches nothing.
        let Some(wanted) = self.engine.policies.carried(row) else { return false };
        match row.port {
            None => carried.is_among(wanted.traffic()),
            Some((named, protocol, port)) => {
                traffic.protocol == protocol
                    && traffic.port == port
                    && wanted.named[named as usize].may_come_from(traffic)
            }
        }
    }

    fn is_in(&self, set: SetId, party: Party) -> bool {
        self.engine.is_in(set, party, self.flow, &self.context)
    }
}

/// The first-match rows of several sets in order of evaluation: a merge of their lists, as far as it is asked for.
struct Ranked<'a> {
    engine: &'a Engine,
    lists: SmallVec<[&'a [RuleId]; 8]>,
}

// === impl Ranked ===

impl<'a> Ranked<'a> {
    fn new(asked: &Asked<'a>, sets: impl Iterator<Item = SetId>, stage: Stage) -> Self {
        let engine = asked.engine;
        let lists = sets
            .map(|set| &engine.sets.sets[set])
            .filter(|set| !set.ranked.is_empty())
            .map(|set| set.ranked_of(&engine.rows, asked.direction, stage))
            .filter(|list| !list.is_empty())
            .collect();
        Ranked { engine, lists }
    }

    /// The list with the least head. A pod is in a handful of sets that rules of tiers apply to.
    fn least(&self) -> Option<usize> {
        let mut best: Option<(usize, RuleId)> = None;
        for (at, list) in self.lists.iter().enumerate() {
            if let Some(head) = list.first()
                && best.is_none_or(|(_, row)| self.engine.compare_rows(*head, row) == Ordering::Less)
            {
                best = Some((at, *head));
            }
        }
        best.map(|(at, _)| at)
    }
}

impl<'a> Iterator for Ranked<'a> {
    type Item = (&'a Row, Effect);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let at = self.least()?;
            let (row, rest) = self.lists[at].split_first()?;
            self.lists[at] = rest;
            let row = &self.engine.rows[*row].row;
            // Isolations are no first-match rows.
            if let RuleEffect::Decide(effect) = row.effect {
                return Some((row, effect));
            }
        }
    }
}
