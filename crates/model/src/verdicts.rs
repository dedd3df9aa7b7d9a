//! Verdicts without reasons, for questions by the million: the same answers as the plain evaluator, without scanning.
//!
//! Pods with the same namespace and labels are one class, and for each class the rules whose subject holds it are
//! collected once, in order. A verdict then asks only those. Everything else (peers, ports, the pipeline) is the same
//! code or a plain transcription of it; `tests/agreement.rs` compares the two on every flow of small worlds.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cluster::Pod;
use crate::evaluate::{evaluate, subject};
use crate::flow::{Flow, Party, Who};
use crate::group::Members;
use crate::label::Labels;
use crate::matching::{Context, Endpoint};
use crate::options::Options;
use crate::policy::{
    Action, Direction, Namespaces, Peer, Peers, Placement, PodSet, Rule, Subject, TrafficMatches,
};
use crate::snapshot::{RankedRule, Snapshot, Stage};
use crate::trace::Verdict;

/// The rules of every class of pods.
#[derive(Debug)]
pub struct Verdicts<'s> {
    context: Context<'s>,
    class_of: Vec<usize>,
    classes: Vec<[Program<'s>; 2]>,
    /// For each node what holds for it; none at all where no policy is about nodes.
    nodes: Vec<[Program<'s>; 2]>,
    /// For each service what holds for whoever comes in through it; the same.
    services: Vec<Program<'s>>,
    /// Whether every class has its rules here. Where that would take too much memory, the plain evaluator is asked instead.
    complete: bool,
    /// What it takes to ask that one.
    plain: u64,
}

/// Rules of all classes that are kept, 8 to 16 bytes each.
const MOST_KEPT: usize = 20_000_000;

/// What holds for one class in one direction: the pipeline, reduced to the rules that apply.
#[derive(Debug, Default)]
struct Program<'s> {
    tiers: Vec<Held<'s>>,
    isolated: bool,
    union: Vec<&'s Rule>,
    baseline: Vec<Held<'s>>,
    /// What it takes to ask all of them: peers, protocols and ports.
    weight: u64,
}

/// What is known about a rule before anybody asks.
#[derive(Debug, Clone, Copy)]
struct Facts {
    unknown: bool,
    weight: u64,
}

/// The same of all rules, by policy.
type AllFacts = Vec<Vec<Facts>>;

/// A rule of a tier, with what can be said about it before any connection is known.
#[derive(Debug)]
struct Held<'s> {
    rule: &'s Rule,
    effect: Effect,
}

#[derive(Debug, Clone, Copy)]
enum Effect {
    /// What it matches gets this.
    Act(Action),
    /// It cannot be read, and does not allow: everything is denied.
    DenyAll,
}

/// Policies by what their subjects ask of a pod, so that a class asks only those that can hold it.
#[derive(Default)]
struct Index<'s> {
    /// By the namespace, and a label if there is one that the pod must have.
    named: HashMap<(&'s str, Option<Label<'s>>), Vec<usize>>,
    /// Those of any namespace, by such a label alone.
    anywhere: HashMap<Option<Label<'s>>, Vec<usize>>,
}

/// Key and value.
type Label<'s> = (&'s str, &'s str);

// === impl Verdicts ===

impl<'s> Verdicts<'s> {
    /// Sorts the rules by whom they apply to.
    pub fn new(snapshot: &'s Snapshot, options: &Options) -> Self {
        let context = Context { snapshot, options: *options };
        let union = Index::of_union(snapshot);
        let ranked = [Index::of_ranked(snapshot, Stage::Tiers), Index::of_ranked(snapshot, Stage::Baseline)];
        let facts: AllFacts = snapshot
            .policies()
            .iter()
            .map(|policy| policy.rules.iter().map(|rule| Facts::of(&context, rule)).collect())
            .collect();
        let mut classes: Vec<[Program<'s>; 2]> = Vec::new();
        let (mut kept, mut beyond) = (0_usize, 0);
        let mut by_labels: HashMap<(&str, &Labels, &str, bool, bool), usize> = HashMap::new();
        let mut class_of = Vec::with_capacity(snapshot.pods().len());
        for (index, pod) in snapshot.pods().iter().enumerate() {
            let outside_policy = pod.host_network || pod.terminated;
            let key: (&str, &Labels, &str, bool, bool) =
                (&pod.namespace, &pod.labels, &pod.account, pod.external, outside_policy);
            let class = *by_labels.entry(key).or_insert_with(|| {
                if kept > MOST_KEPT {
                    beyond += 1;
                    return usize::MAX;
                }
                let programs = Direction::BOTH
                    .map(|direction| Program::of_pod(&context, index, direction, &union, &ranked, &facts));
                kept += programs.iter().map(Program::len).sum::<usize>();
                classes.push(programs);
                classes.len() - 1
            });
            class_of.push(class);
        }
        // Hardly any policy is about nodes or services.
        let all = |count: usize| if snapshot.has_rules_beyond_pods() { 0..count } else { 0..0 };
        let node = |node| {
            Direction::BOTH.map(|direction| Program::of(&context, Endpoint::Node(node), direction, &facts))
        };
        let nodes = all(snapshot.nodes().len()).map(node).collect();
        let service = |service| Program::of(&context, Endpoint::Service(service), Direction::Ingress, &facts);
        let services = all(snapshot.services().len()).map(service).collect();
        let plain = facts.iter().flatten().map(|facts| ASKED_PLAINLY * facts.weight).sum();
        Verdicts { context, class_of, classes, nodes, services, complete: beyond == 0, plain }
    }

    /// What it takes to judge a connection: about as many peers, protocols and ports are looked at.
    pub fn weight(&self, flow: &Flow) -> u64 {
        let of = |party: Party, direction: Direction| match party.who {
            Who::Pod(pod) => match self.classes.get(self.class_of[pod]) {
                Some(programs) => programs[direction as usize].weight,
                None => self.plain,
            },
            Who::Node(node) => self.nodes.get(node).map_or(0, |programs| programs[direction as usize].weight),
            Who::Outside => 0,
        };
        1 + of(flow.source, Direction::Egress) + of(flow.destination, Direction::Ingress)
    }

    /// What it takes to have the plain evaluator judge a connection.
    pub fn plain_weight(&self) -> u64 {
        self.plain
    }

    /// What becomes of a connection.
    pub fn verdict(&self, flow: &Flow) -> Verdict {
        if !self.complete {
            let known = |party: Party| match party.who {
                Who::Pod(pod) => self.class_of[pod] < self.classes.len(),
                _ => true,
            };
            if !known(flow.source) || !known(flow.destination) {
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
            let refused = self.entrance(program, service, flow);
            if refused != Verdict::Allow {
                return refused;
            }
        }
        let Ok(endpoint) = subject(&self.context, flow, direction) else { return Verdict::Allow };
        let (_, peer) = Context::ends(flow, direction);
        let programs = match endpoint {
            Endpoint::Pod(pod) => Some(&self.classes[self.class_of[pod]]),
            Endpoint::Node(node) => self.nodes.get(node),
            Endpoint::Service(_) => None,
        };
        let Some(program) = programs.map(|programs| &programs[direction as usize]) else {
            return Verdict::Allow;
        };
        if let Some(verdict) = self.first_match(&program.tiers, endpoint, peer, flow) {
            return verdict;
        }
        if program.isolated {
            let allows = |rule: &&Rule| self.context.readable_rule(rule, endpoint, peer, flow);
            return if program.union.iter().any(allows) { Verdict::Allow } else { Verdict::Deny };
        }
        self.first_match(&program.baseline, endpoint, peer, flow).unwrap_or(Verdict::Allow)
    }

    /// What a service says: its tiers, and if none of them decides or passes, its baseline.
    fn entrance(&self, program: &Program<'_>, service: usize, flow: &Flow) -> Verdict {
        let asked = |rules| self.first_match(rules, Endpoint::Service(service), flow.source, flow);
        asked(&program.tiers).or_else(|| asked(&program.baseline)).unwrap_or(Verdict::Allow)
    }

    fn first_match(
        &self,
        rules: &[Held<'_>],
        endpoint: Endpoint,
        peer: Party,
        flow: &Flow,
    ) -> Option<Verdict> {
        for Held { rule, effect } in rules {
            match effect {
                Effect::DenyAll => return Some(Verdict::Deny),
                Effect::Act(action) if self.context.readable_rule(rule, endpoint, peer, flow) => {
                    return match action {
                        Action::Allow if rule.action_for(flow.traffic) == Action::Deny => Some(Verdict::Deny),
                        Action::Allow => Some(Verdict::Allow),
                        Action::Deny => Some(Verdict::Deny),
                        Action::Reject => Some(Verdict::Reject),
                        Action::Pass => None,
                    };
                }
                Effect::Act(_) => {}
            }
        }
        None
    }
}

// === impl Program ===

impl<'s> Program<'s> {
    fn of_pod(
        context: &Context<'s>,
        pod: usize,
        direction: Direction,
        union: &Index<'_>,
        ranked: &[Index<'_>; 2],
        facts: &AllFacts,
    ) -> Self {
        let snapshot = context.snapshot;
        let (subject, endpoint) = (&snapshot.pods()[pod], Endpoint::Pod(pod));
        let mut program = Program::default();
        let mut applies = Applies::new(context, endpoint);
        let mut in_order = |stage: Stage, index: &Index<'_>, weight: &mut u64| -> Vec<Held<'s>> {
            let rules = snapshot.rules_of(stage);
            let candidates = index.candidates(subject).into_iter();
            candidates.filter_map(|at| held(&mut applies, &rules[at], direction, facts, weight)).collect()
        };
        program.tiers = in_order(Stage::Tiers, &ranked[0], &mut program.weight);
        program.baseline = in_order(Stage::Baseline, &ranked[1], &mut program.weight);
        for index in union.candidates(subject) {
            let (policy, facts) = (&snapshot.policies()[index], &facts[index]);
            let isolates = |isolation: &crate::policy::Isolation| {
                isolation.direction == direction && context.applies(&isolation.subjects, endpoint)
            };
            program.isolated |= policy.isolations.iter().any(isolates);
            // What is unknown allows nobody: it need not be asked.
            for (rule, facts) in policy.rules.iter().zip(facts) {
                if rule.direction == direction && !facts.unknown && applies.to(&rule.subjects) {
                    program.union.push(rule);
                    program.weight += facts.weight;
                }
            }
        }
        program
    }

    /// How many rules it has.
    fn len(&self) -> usize {
        self.tiers.len() + self.union.len() + self.baseline.len()
    }

    /// Of a node or a service, which NetworkPolicies are not about.
    fn of(context: &Context<'s>, endpoint: Endpoint, direction: Direction, facts: &AllFacts) -> Self {
        let mut applies = Applies::new(context, endpoint);
        let mut weight = 0;
        let mut in_order = |stage: Stage| -> Vec<Held<'s>> {
            let rules = context.snapshot.rules_of(stage).iter();
            rules.filter_map(|ranked| held(&mut applies, ranked, direction, facts, &mut weight)).collect()
        };
        let (tiers, baseline) = (in_order(Stage::Tiers), in_order(Stage::Baseline));
        Program { tiers, baseline, weight, ..Program::default() }
    }
}

/// A ranked rule as far as it can matter to an endpoint.
fn held<'s>(
    applies: &mut Applies<'_, 's>,
    ranked: &RankedRule,
    direction: Direction,
    facts: &AllFacts,
    weight: &mut u64,
) -> Option<Held<'s>> {
    let rule = &applies.context.snapshot.policies()[ranked.policy].rules[ranked.rule];
    if rule.direction != direction || !applies.to(&rule.subjects) {
        return None;
    }
    let facts = facts[ranked.policy][ranked.rule];
    *weight += facts.weight;
    let effect = match (facts.unknown, rule.action) {
        (true, Action::Allow) => return None,
        (true, _) => Effect::DenyAll,
        (false, Action::Allow) if ranked.unplaced => return None,
        (false, Action::Pass) if ranked.unplaced => Effect::Act(Action::Deny),
        (false, action) => Effect::Act(action),
    };
    Some(Held { rule, effect })
}

// === impl Facts ===

/// How much more the plain evaluator does for a rule: it keeps reasons.
const ASKED_PLAINLY: u64 = 4;

impl Facts {
    fn of(context: &Context<'_>, rule: &Rule) -> Self {
        let peer = |peer: &Peer| match peer {
            Peer::Group(group) => context.snapshot.group(group).map_or(1, <[Members]>::len),
            Peer::Addresses(block) => 1 + block.except().len(),
            Peer::Names(names) => names.len(),
            _ => 1,
        };
        let peers = match &rule.peers {
            Peers::Any => 1,
            Peers::Of(peers) => peers.iter().map(peer).sum(),
        };
        let traffic = match &rule.traffic {
            TrafficMatches::Any => 1,
            TrafficMatches::Of(all) => all.len(),
        };
        Facts { unknown: context.unknown(rule).is_some(), weight: (1 + peers + traffic) as u64 }
    }
}

/// Whether rules apply to an endpoint. The rules of a policy mostly share their subjects, which are asked once.
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

    fn of_ranked(snapshot: &'s Snapshot, stage: Stage) -> Self {
        let mut index = Index::default();
        for (at, ranked) in snapshot.rules_of(stage).iter().enumerate() {
            index.add(at, snapshot.policies()[ranked.policy].rules[ranked.rule].subjects.iter(), snapshot);
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
                            if let Members::Pods(set) = member {
                                self.add_set(at, set);
                            }
                        }
                    }
                    // It may have meant anybody; or there is nobody to ask.
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

    /// Those that can hold this pod, in order.
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
