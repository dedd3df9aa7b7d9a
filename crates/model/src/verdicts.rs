//! Verdicts without reasons, for questions by the million: the same answers as the plain evaluator, without scanning.
//!
//! Pods with the same namespace and labels are one class, and for each class the rules whose subject holds it are
//! collected once, in order. A verdict then asks only those. Everything else (peers, ports, the pipeline) is the same
//! code or a plain transcription of it; `tests/agreement.rs` compares the two on every flow of small worlds.

use std::collections::HashMap;

use crate::cluster::Pod;
use crate::evaluate::subject;
use crate::flow::{Flow, Party};
use crate::group::Members;
use crate::label::Labels;
use crate::matching::{Context, Endpoint};
use crate::options::Options;
use crate::policy::{Action, Direction, Namespaces, Placement, PodSet, Rule, Subject};
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
}

/// What holds for one class in one direction: the pipeline, reduced to the rules that apply.
#[derive(Debug, Default)]
struct Program<'s> {
    tiers: Vec<Held<'s>>,
    isolated: bool,
    union: Vec<&'s Rule>,
    baseline: Vec<Held<'s>>,
}

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
        let mut classes = Vec::new();
        let mut by_labels: HashMap<(&str, &Labels, &str, bool, bool), usize> = HashMap::new();
        let mut class_of = Vec::with_capacity(snapshot.pods().len());
        for (index, pod) in snapshot.pods().iter().enumerate() {
            let outside_policy = pod.host_network || pod.terminated;
            let key: (&str, &Labels, &str, bool, bool) =
                (&pod.namespace, &pod.labels, &pod.account, pod.external, outside_policy);
            let class = *by_labels.entry(key).or_insert_with(|| {
                classes.push(
                    Direction::BOTH
                        .map(|direction| Program::of_pod(&context, index, direction, &union, &ranked)),
                );
                classes.len() - 1
            });
            class_of.push(class);
        }
        // Hardly any policy is about nodes or services.
        let all = |count: usize| if snapshot.has_rules_beyond_pods() { 0..count } else { 0..0 };
        let node =
            |node| Direction::BOTH.map(|direction| Program::of(&context, Endpoint::Node(node), direction));
        let nodes = all(snapshot.nodes().len()).map(node).collect();
        let service = |service| Program::of(&context, Endpoint::Service(service), Direction::Ingress);
        let services = all(snapshot.services().len()).map(service).collect();
        Verdicts { context, class_of, classes, nodes, services }
    }

    /// What becomes of a connection.
    pub fn verdict(&self, flow: &Flow) -> Verdict {
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
    ) -> Self {
        let snapshot = context.snapshot;
        let (subject, endpoint) = (&snapshot.pods()[pod], Endpoint::Pod(pod));
        let in_order = |stage: Stage, index: &Index<'_>| -> Vec<Held<'s>> {
            let rules = snapshot.rules_of(stage);
            let candidates = index.candidates(subject).into_iter();
            candidates.filter_map(|at| held(context, &rules[at], direction, endpoint)).collect()
        };
        let mut program = Program {
            tiers: in_order(Stage::Tiers, &ranked[0]),
            baseline: in_order(Stage::Baseline, &ranked[1]),
            ..Program::default()
        };
        for policy in union.candidates(subject).into_iter().map(|index| &snapshot.policies()[index]) {
            let isolates = |isolation: &crate::policy::Isolation| {
                isolation.direction == direction && context.applies(&isolation.subjects, endpoint)
            };
            program.isolated |= policy.isolations.iter().any(isolates);
            // What is unknown allows nobody: it need not be asked.
            let holds = |rule: &&Rule| {
                rule.direction == direction
                    && context.unknown(rule).is_none()
                    && context.applies(&rule.subjects, endpoint)
            };
            program.union.extend(policy.rules.iter().filter(holds));
        }
        program
    }

    /// Of a node or a service, which NetworkPolicies are not about.
    fn of(context: &Context<'s>, endpoint: Endpoint, direction: Direction) -> Self {
        let in_order = |stage: Stage| -> Vec<Held<'s>> {
            let rules = context.snapshot.rules_of(stage).iter();
            rules.filter_map(|ranked| held(context, ranked, direction, endpoint)).collect()
        };
        Program { tiers: in_order(Stage::Tiers), baseline: in_order(Stage::Baseline), ..Program::default() }
    }
}

/// A ranked rule as far as it can matter to an endpoint.
fn held<'s>(
    context: &Context<'s>,
    ranked: &RankedRule,
    direction: Direction,
    endpoint: Endpoint,
) -> Option<Held<'s>> {
    let rule = &context.snapshot.policies()[ranked.policy].rules[ranked.rule];
    if rule.direction != direction || !context.applies(&rule.subjects, endpoint) {
        return None;
    }
    let effect = match (context.unknown(rule).is_some(), rule.action) {
        (true, Action::Allow) => return None,
        (true, _) => Effect::DenyAll,
        (false, Action::Allow) if ranked.unplaced => return None,
        (false, Action::Pass) if ranked.unplaced => Effect::Act(Action::Deny),
        (false, action) => Effect::Act(action),
    };
    Some(Held { rule, effect })
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
