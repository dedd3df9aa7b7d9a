//! Verdicts without reasons, for questions by the million: the same answers as the plain evaluator, without scanning.
//!
//! Pods with the same namespace and labels are one class, and for each class the resolved rules whose subject selects it are
//! collected once, in order of evaluation. A verdict runs the pipeline over these alone. `tests/agreement.rs` compares the two
//! on every flow of small worlds.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cluster::Pod;
use crate::evaluate::{evaluate, subject};
use crate::flow::{Flow, Party, Who};
use crate::label::Labels;
use crate::matching::{Context, Endpoint};
use crate::options::Options;
use crate::pipeline::{self, Stages};
use crate::policy::{Direction, Namespaces, Placement, PodSet, Subject, TrafficMatches};
use crate::resolve::{GroupMember, Resolution, ResolvedPeer, ResolvedPeers, ResolvedRule};
use crate::snapshot::{Snapshot, Stage};
use crate::trace::Verdict;
use crate::traffic::Protocol;

/// The rules of every class of pods.
#[derive(Debug)]
pub struct Verdicts<'s> {
    context: Context<'s>,
    resolution: Resolution<'s>,
    /// For each pod its class; `None` if its rules are not kept.
    class_of: Vec<Option<u32>>,
    classes: Vec<[Program; 2]>,
    /// For each node its rules; none at all where no policy applies to nodes.
    nodes: Vec<[Program; 2]>,
    /// For each service the rules for connections from outside; none at all where no policy applies to services.
    services: Vec<Program>,
    /// Whether every class has its rules here. Where that would take too much memory, the plain evaluator answers instead.
    complete: bool,
    /// Steps for an answer of the plain evaluator.
    plain: u64,
}

/// Maximum number of rules kept for all classes together, 4 bytes each.
const MOST_KEPT: usize = 20_000_000;
/// Steps of the plain evaluator for each step here: it keeps reasons.
const PLAIN_FACTOR: u64 = 4;

/// The rules that apply to one class in one direction, as indices into the resolution.
#[derive(Debug, Default)]
struct Program {
    tiers: Vec<u32>,
    isolated: bool,
    allows: Vec<u32>,
    baseline: Vec<u32>,
    /// Steps to evaluate all of them: peers, protocols and ports.
    weight: u64,
}

/// Policies by what their subjects require of a pod, so that only those are asked that can select a class.
#[derive(Default)]
struct Index<'s> {
    /// By the namespace, and a label that the pod must have, if there is one.
    named: HashMap<(&'s str, Option<Label<'s>>), Vec<usize>>,
    /// Those of any namespace, by such a label alone.
    anywhere: HashMap<Option<Label<'s>>, Vec<usize>>,
}

/// Key and value.
type Label<'s> = (&'s str, &'s str);

// === impl Verdicts ===

impl<'s> Verdicts<'s> {
    /// Collects the rules of each class.
    pub fn new(snapshot: &'s Snapshot, options: &Options) -> Self {
        let context = Context { snapshot, options: *options };
        let resolution = Resolution::new(snapshot);
        let union = Index::of_union(snapshot);
        let ranked =
            [Stage::Tiers, Stage::Baseline].map(|stage| Index::of_ranked(&resolution, stage, snapshot));
        let weights: Vec<u64> = resolution.rules().iter().map(|rule| weight(&rule.rule)).collect();
        let builder =
            Builder { context, resolution: &resolution, union: &union, ranked: &ranked, weights: &weights };
        let mut classes: Vec<[Program; 2]> = Vec::new();
        let (mut kept, mut complete) = (0_usize, true);
        let mut by_labels: HashMap<(&str, &Labels, &str, bool, bool), Option<u32>> = HashMap::new();
        let mut class_of = Vec::with_capacity(snapshot.pods().len());
        for (index, pod) in snapshot.pods().iter().enumerate() {
            let outside_policy = pod.host_network || pod.terminated;
            let key: (&str, &Labels, &str, bool, bool) =
                (&pod.namespace, &pod.labels, &pod.account, pod.external, outside_policy);
            let class = *by_labels.entry(key).or_insert_with(|| {
                if kept > MOST_KEPT {
                    complete = false;
                    return None;
                }
                let programs = Direction::BOTH.map(|direction| builder.of_pod(index, direction));
                kept += programs.iter().map(Program::len).sum::<usize>();
                classes.push(programs);
                u32::try_from(classes.len() - 1).ok()
            });
            class_of.push(class);
        }
        // Hardly any policy applies to nodes or services.
        let all = |count: usize| if snapshot.has_rules_beyond_pods() { 0..count } else { 0..0 };
        let node =
            |node| Direction::BOTH.map(|direction| builder.beyond_pods(Endpoint::Node(node), direction));
        let nodes = all(snapshot.nodes().len()).map(node).collect();
        let service = |service| builder.beyond_pods(Endpoint::Service(service), Direction::Ingress);
        let services = all(snapshot.services().len()).map(service).collect();
        let plain = weights.iter().map(|weight| PLAIN_FACTOR * weight).sum();
        Verdicts { context, class_of, classes, nodes, services, complete, plain, resolution }
    }

    /// Returns the steps that a verdict takes: about the number of peers, protocols and ports that are compared.
    pub fn weight(&self, flow: &Flow) -> u64 {
        let of = |party: Party, direction: Direction| match party.who {
            Who::Pod(pod) => {
                self.class(pod).map_or(self.plain, |programs| programs[direction as usize].weight)
            }
            Who::Node(node) => self.nodes.get(node).map_or(0, |programs| programs[direction as usize].weight),
            Who::Outside => 0,
        };
        1 + of(flow.source, Direction::Egress) + of(flow.destination, Direction::Ingress)
    }

    /// Returns the steps that the plain evaluator takes for a connection.
    pub fn plain_weight(&self) -> u64 {
        self.plain
    }

    fn class(&self, pod: usize) -> Option<&[Program; 2]> {
        self.class_of[pod].map(|class| &self.classes[class as usize])
    }

    /// Returns what becomes of a connection.
    pub fn verdict(&self, flow: &Flow) -> Verdict {
        if !self.complete {
            let is_known = |party: Party| match party.who {
                Who::Pod(pod) => self.class_of[pod].is_some(),
                Who::Node(_) | Who::Outside => true,
            };
            if !is_known(flow.source) || !is_known(flow.destination) {
                return evaluate(self.context.snapshot, flow, &self.context.options).verdict;
            }
        }
        match self.side(flow, Direction::Egress) {
            Verdict::Allow => self.side(flow, Direction::Ingress),
            refused => refused,
        }
    }

    fn side(&self, flow: &Flow, direction: Direction) -> Verdict {
        if direction == Direction::Ingress
            && let Some(service) = self.context.entrance(flow)
            && let Some(program) = self.services.get(service)
        {
            let refused = self.decide(program, Endpoint::Service(service), flow.source, flow);
            if refused != Verdict::Allow {
                return refused;
            }
        }
        let Ok(endpoint) = subject(&self.context, flow, direction) else { return Verdict::Allow };
        let (_, peer) = Context::ends(flow, direction);
        let programs = match endpoint {
            Endpoint::Pod(pod) => self.class(pod),
            Endpoint::Node(node) => self.nodes.get(node),
            Endpoint::Service(_) => None,
        };
        match programs {
            Some(programs) => self.decide(&programs[direction as usize], endpoint, peer, flow),
            None => Verdict::Allow,
        }
    }

    fn decide(&self, program: &Program, endpoint: Endpoint, peer: Party, flow: &Flow) -> Verdict {
        let rule = |index: &u32| &self.resolution.rule(*index).rule;
        let ranked = |index: &u32| (rule(index), rule(index).effect);
        let stages = Stages {
            tiers: program.tiers.iter().map(ranked),
            isolated: program.isolated,
            allows: program.allows.iter().map(rule),
            baseline: program.baseline.iter().map(ranked),
        };
        let carried = self.context.carried(flow);
        pipeline::verdict(flow.traffic.protocol == Protocol::Tcp, stages, |rule| {
            // Comparing ports is far cheaper than comparing labels, and rules out most rules.
            carried.is_among(rule.traffic)
                && match &rule.peers {
                    ResolvedPeers::Any => true,
                    ResolvedPeers::Of(peers) => {
                        peers.iter().any(|one| self.context.resolved_peer(*one, peer, endpoint, flow))
                    }
                }
        })
    }
}

/// Collects the rules of endpoints.
struct Builder<'b, 's> {
    context: Context<'s>,
    resolution: &'b Resolution<'s>,
    union: &'b Index<'s>,
    /// The ranked rules of tiers and baseline by their index in the stage.
    ranked: &'b [Index<'s>; 2],
    /// For each rule its steps.
    weights: &'b [u64],
}

// === impl Builder ===

impl Builder<'_, '_> {
    fn of_pod(&self, pod: usize, direction: Direction) -> Program {
        let snapshot = self.context.snapshot;
        let (subject, endpoint) = (&snapshot.pods()[pod], Endpoint::Pod(pod));
        let mut program = Program::default();
        let mut applies = Applies::new(&self.context, endpoint);
        let [tiers, baseline] = self.ranked;
        for (stage, index) in [(Stage::Tiers, tiers), (Stage::Baseline, baseline)] {
            let rules = self.resolution.ranked(stage);
            let candidates = index.candidates(subject).into_iter().map(|at| rules[at]);
            self.collect(candidates, stage, direction, &mut applies, &mut program);
        }
        for policy in self.union.candidates(subject) {
            let isolations = &snapshot.policies()[policy].isolations;
            program.isolated |= isolations.iter().any(|isolation| {
                isolation.direction == direction && self.context.applies(&isolation.subjects, endpoint)
            });
            let rules = self.resolution.of_policy(policy);
            self.collect(rules, Stage::NetworkPolicy, direction, &mut applies, &mut program);
        }
        program
    }

    /// Collects the rules of a node or a service, which NetworkPolicies do not apply to.
    fn beyond_pods(&self, endpoint: Endpoint, direction: Direction) -> Program {
        let mut program = Program::default();
        let mut applies = Applies::new(&self.context, endpoint);
        for stage in [Stage::Tiers, Stage::Baseline] {
            let rules = self.resolution.ranked(stage).iter().copied();
            self.collect(rules, stage, direction, &mut applies, &mut program);
        }
        program
    }

    fn collect(
        &self,
        rules: impl Iterator<Item = u32>,
        stage: Stage,
        direction: Direction,
        applies: &mut Applies<'_, '_>,
        program: &mut Program,
    ) {
        for index in rules {
            let resolved = self.resolution.rule(index);
            let written = &self.context.snapshot.policies()[resolved.at.policy].rules[resolved.at.rule];
            if resolved.direction != direction || !applies.to(&written.subjects) {
                continue;
            }
            program.weight += self.weights[index as usize];
            match stage {
                Stage::Tiers => program.tiers.push(index),
                Stage::NetworkPolicy => program.allows.push(index),
                Stage::Baseline => program.baseline.push(index),
            }
        }
    }
}

// === impl Program ===

impl Program {
    fn len(&self) -> usize {
        self.tiers.len() + self.allows.len() + self.baseline.len()
    }
}

/// Steps to evaluate a rule.
fn weight(rule: &ResolvedRule<'_>) -> u64 {
    let peer = |peer: &ResolvedPeer<'_>| match peer {
        ResolvedPeer::Group(members) => members.len(),
        ResolvedPeer::Addresses(blocks) => blocks.iter().map(|block| 1 + block.except().len()).sum(),
        ResolvedPeer::Names(names) => names.len(),
        ResolvedPeer::Pods(_) | ResolvedPeer::Nodes(_) | ResolvedPeer::Service(_) => 1,
    };
    let peers = match &rule.peers {
        ResolvedPeers::Any => 1,
        ResolvedPeers::Of(peers) => peers.iter().map(peer).sum(),
    };
    let traffic = match rule.traffic {
        TrafficMatches::Any => 1,
        TrafficMatches::Of(all) => all.len(),
    };
    (1 + peers + traffic) as u64
}

/// Whether rules apply to an endpoint. The rules of a policy mostly share their subjects, which are matched once.
struct Applies<'c, 's> {
    context: &'c Context<'s>,
    endpoint: Endpoint,
    last: Option<(*const Subject, bool)>,
}

// === impl Applies ===

impl<'c, 's> Applies<'c, 's> {
    fn new(context: &'c Context<'s>, endpoint: Endpoint) -> Self {
        Applies { context, endpoint, last: None }
    }

    fn to(&mut self, subjects: &Arc<[Subject]>) -> bool {
        let place = Arc::as_ptr(subjects).cast();
        match self.last {
            Some((last, applies)) if last == place => applies,
            _ => {
                let applies = self.context.applies(subjects, self.endpoint);
                self.last = Some((place, applies));
                applies
            }
        }
    }
}

// === impl Index ===

impl<'s> Index<'s> {
    fn of_union(snapshot: &'s Snapshot) -> Self {
        let mut index = Index::default();
        for (at, policy) in snapshot.policies().iter().enumerate() {
            if policy.placement == Placement::Union {
                let isolations = policy.isolations.iter().map(|isolation| &isolation.subjects);
                let rules = policy.rules.iter().map(|rule| &rule.subjects);
                index.add(at, isolations.chain(rules).flat_map(|subjects| subjects.iter()), snapshot);
            }
        }
        index
    }

    /// Indexes the first-match rules of a stage by their index in it.
    fn of_ranked(resolution: &Resolution<'_>, stage: Stage, snapshot: &'s Snapshot) -> Self {
        let mut index = Index::default();
        for (at, ranked) in resolution.ranked(stage).iter().enumerate() {
            let written = resolution.rule(*ranked).at;
            index.add(at, snapshot.policies()[written.policy].rules[written.rule].subjects.iter(), snapshot);
        }
        index
    }

    fn add(&mut self, at: usize, subjects: impl Iterator<Item = &'s Subject>, snapshot: &'s Snapshot) {
        for subject in subjects {
            match subject {
                Subject::Pods(set) => self.add_set(at, set),
                Subject::Group { group, .. } => match snapshot.group(group) {
                    Ok(members) => {
                        for member in members {
                            if let GroupMember::Pods(set) = member {
                                self.add_set(at, set);
                            }
                        }
                    }
                    // It may have meant any endpoint.
                    Err(_) => push(self.anywhere.entry(None).or_default(), at),
                },
                Subject::Nodes(_) | Subject::Service(_) => {}
            }
        }
    }

    fn add_set(&mut self, at: usize, set: &'s PodSet) {
        let label = set.pods.required_label();
        match &set.namespaces {
            Namespaces::Named(name) => push(self.named.entry((name, label)).or_default(), at),
            _ => push(self.anywhere.entry(label).or_default(), at),
        }
    }

    /// Returns those that can select this pod, in order.
    fn candidates(&self, pod: &Pod) -> Vec<usize> {
        let mut all = Vec::new();
        for label in std::iter::once(None).chain(pod.labels.iter().map(Some)) {
            all.extend(self.anywhere.get(&label).into_iter().flatten());
            all.extend(self.named.get(&(pod.namespace.as_str(), label)).into_iter().flatten());
        }
        all.sort_unstable();
        all.dedup();
        all
    }
}

fn push(list: &mut Vec<usize>, at: usize) {
    if list.last() != Some(&at) {
        list.push(at);
    }
}
