//! Verdicts without reasons, for questions by the million: the same answers as the plain evaluator, without scanning.
//!
//! Pods with the same namespace and labels are one class, and for each class the rules whose subject holds it are
//! collected once, in order. A verdict then asks only those. Everything else (peers, ports, the pipeline) is the same
//! code or a plain transcription of it; `tests/agreement.rs` compares the two on every flow of small worlds.

use std::collections::HashMap;

use crate::cluster::Pod;
use crate::evaluate::subject;
use crate::flow::{Flow, Party};
use crate::label::Labels;
use crate::matching::Context;
use crate::options::Options;
use crate::policy::{Action, Direction, Namespaces, Placement, PodSet, Rule};
use crate::snapshot::{Snapshot, Stage};
use crate::trace::Verdict;

/// The rules of every class of pods.
#[derive(Debug)]
pub struct Verdicts<'s> {
    context: Context<'s>,
    class_of: Vec<usize>,
    classes: Vec<[Program<'s>; 2]>,
}

/// What holds for one class in one direction: the pipeline, reduced to the rules that apply.
#[derive(Debug, Default)]
struct Program<'s> {
    tiers: Vec<&'s Rule>,
    isolated: bool,
    union: Vec<&'s Rule>,
    baseline: Vec<&'s Rule>,
}

/// Policies by what their subjects ask of a pod, so that a class asks only those that can hold it.
#[derive(Default)]
struct Index<'s> {
    /// By the namespace, and a label if there is one that the pod must have.
    named: HashMap<(&'s str, Option<Label<'s>>), Vec<usize>>,
    anywhere: Vec<usize>,
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
        let mut by_labels: HashMap<(&str, &Labels, bool), usize> = HashMap::new();
        let mut class_of = Vec::with_capacity(snapshot.pods().len());
        for (index, pod) in snapshot.pods().iter().enumerate() {
            let outside_policy = pod.host_network || pod.terminated;
            let class =
                *by_labels.entry((&pod.namespace, &pod.labels, outside_policy)).or_insert_with(|| {
                    classes.push(
                        Direction::BOTH.map(|direction| program(&context, index, direction, &union, &ranked)),
                    );
                    classes.len() - 1
                });
            class_of.push(class);
        }
        Verdicts { context, class_of, classes }
    }

    /// What becomes of a connection.
    pub fn verdict(&self, flow: &Flow) -> Verdict {
        match self.side(flow, Direction::Egress) {
            Verdict::Allow => self.side(flow, Direction::Ingress),
            refused => refused,
        }
    }

    fn side(&self, flow: &Flow, direction: Direction) -> Verdict {
        let Ok(pod) = subject(&self.context, flow, direction) else { return Verdict::Allow };
        let (_, peer) = Context::ends(flow, direction);
        let program = &self.classes[self.class_of[pod]][direction as usize];
        if let Some(verdict) = self.first_match(&program.tiers, pod, peer, flow) {
            return verdict;
        }
        if program.isolated {
            let allows = |rule: &&Rule| self.context.readable_rule(rule, pod, peer, flow);
            return if program.union.iter().any(allows) { Verdict::Allow } else { Verdict::Deny };
        }
        self.first_match(&program.baseline, pod, peer, flow).unwrap_or(Verdict::Allow)
    }

    fn first_match(&self, rules: &[&Rule], pod: usize, peer: Party, flow: &Flow) -> Option<Verdict> {
        for rule in rules {
            // What is unknown and does not allow denies everything.
            if rule.action != Action::Allow && rule.unknown().is_some() {
                return Some(Verdict::Deny);
            }
            if self.context.readable_rule(rule, pod, peer, flow) {
                return match rule.action {
                    Action::Allow => Some(Verdict::Allow),
                    Action::Deny => Some(Verdict::Deny),
                    Action::Reject => Some(Verdict::Reject),
                    Action::Pass => None,
                };
            }
        }
        None
    }
}

fn program<'s>(
    context: &Context<'s>,
    pod: usize,
    direction: Direction,
    union: &Index<'_>,
    ranked: &[Index<'_>; 2],
) -> Program<'s> {
    let snapshot = context.snapshot;
    let subject = &snapshot.pods()[pod];
    // What is unknown and allows matches nothing: it need not be asked.
    let counts = |rule: &Rule| rule.action != Action::Allow || rule.unknown().is_none();
    let holds =
        |rule: &&Rule| rule.direction == direction && counts(rule) && context.applies(&rule.subjects, pod);
    let in_order = |stage: Stage, index: &Index<'_>| -> Vec<&'s Rule> {
        let rules = snapshot.rules_of(stage);
        let rule = |at: usize| &snapshot.policies()[rules[at].policy].rules[rules[at].rule];
        index.candidates(subject).into_iter().map(rule).filter(holds).collect()
    };
    let mut program = Program {
        tiers: in_order(Stage::Tiers, &ranked[0]),
        baseline: in_order(Stage::Baseline, &ranked[1]),
        ..Program::default()
    };
    for policy in union.candidates(subject).into_iter().map(|index| &snapshot.policies()[index]) {
        let isolates = |isolation: &crate::policy::Isolation| {
            isolation.direction == direction && context.applies(&isolation.subjects, pod)
        };
        program.isolated |= policy.isolations.iter().any(isolates);
        program.union.extend(policy.rules.iter().filter(holds));
    }
    program
}

// === impl Index ===

impl<'s> Index<'s> {
    fn of_union(snapshot: &'s Snapshot) -> Self {
        let mut index = Index::default();
        for (at, policy) in snapshot.policies().iter().enumerate() {
            if policy.placement == Placement::Union {
                let isolations = policy.isolations.iter().map(|isolation| &isolation.subjects);
                let rules = policy.rules.iter().map(|rule| &rule.subjects);
                index.add(at, isolations.chain(rules).flat_map(|subjects| subjects.iter()));
            }
        }
        index
    }

    fn of_ranked(snapshot: &'s Snapshot, stage: Stage) -> Self {
        let mut index = Index::default();
        for (at, ranked) in snapshot.rules_of(stage).iter().enumerate() {
            index.add(at, snapshot.policies()[ranked.policy].rules[ranked.rule].subjects.iter());
        }
        index
    }

    fn add(&mut self, at: usize, subjects: impl Iterator<Item = &'s PodSet>) {
        for set in subjects {
            let list = match &set.namespaces {
                Namespaces::Named(name) => self.named.entry((name, set.pods.required_label())).or_default(),
                _ => &mut self.anywhere,
            };
            if list.last() != Some(&at) {
                list.push(at);
            }
        }
    }

    /// Those that can hold this pod, in order.
    fn candidates(&self, pod: &Pod) -> Vec<usize> {
        let mut all = self.anywhere.clone();
        for label in std::iter::once(None).chain(pod.labels.iter().map(Some)) {
            all.extend(self.named.get(&(pod.namespace.as_str(), label)).into_iter().flatten());
        }
        all.sort_unstable();
        all.dedup();
        all
    }
}
