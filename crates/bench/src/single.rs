//! Single events on a loaded index, one by one and at many places: what each costs, and how much it changes.
//!
//! Only [`Engine::apply`] is timed. Whatever an event changed is changed back before the next one, so that every event
//! finds the index as it was loaded.

use std::fmt::Write;
use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use palisade_engine::{Change, Delta, Engine};
use palisade_model::cluster::{Namespace, Pod};
use palisade_model::event::{Event, Item};
use palisade_model::label::{Labels, Operator, Requirement, Selector};
use palisade_model::policy::{Namespaces, Object, Peer, Peers, PodSet, Policy, Subject};
use serde::{Deserialize, Serialize};
use smol_str::{SmolStr, format_smolstr};

use crate::live;
use crate::random::Random;
use crate::scenario::{Scale, Scenario};
use crate::units::nanoseconds;

/// A sort of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sort {
    /// A pod like others of its namespace starts, on another node.
    PodAdded,
    /// A pod goes.
    PodRemoved,
    /// A pod gets the labels of another, which other rules select.
    PodRelabelled,
    /// A policy comes whose selectors others have as well.
    PolicyAdded,
    /// A policy comes whose selectors nobody had: the same labels, and one more condition that all of those meet.
    PolicyAddedNewSelectors,
    /// A policy comes whose selectors nobody had: lists of values instead of labels, of which all have the first.
    PolicyAddedNewLists,
    /// A policy goes.
    PolicyRemoved,
    /// A namespace gets the labels of another.
    NamespaceRelabelled,
}

/// What a sort of event costs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cost {
    /// The scenario that was loaded.
    pub scenario: String,
    /// How many times its size.
    pub size: usize,
    /// Of which sort the events were.
    pub event: Sort,
    /// How many there were.
    pub count: usize,
    /// Half of them took no longer.
    pub median_ns: u64,
    /// All but one in a hundred took no longer.
    pub p99_ns: u64,
    /// None took longer.
    pub max_ns: u64,
    /// How many changes the delta of an event has.
    pub changes_median: usize,
    /// At most.
    pub changes_max: usize,
    /// How many members the delta moves, or gives to new sets.
    pub members_median: usize,
    /// At most.
    pub members_max: usize,
}

/// Objects of a scenario, chosen at random: the same in every run.
#[derive(Debug)]
pub struct Places {
    pods: Sample<Pod>,
    policies: Sample<Policy>,
    namespaces: Sample<Namespace>,
}

/// So many of any number, each as likely as any other (reservoir sampling).
#[derive(Debug)]
struct Sample<T> {
    wanted: usize,
    seen: usize,
    kept: Vec<T>,
    random: Random,
}

/// Loads a scenario and measures every sort of event on it.
pub fn run(scenario: Scenario, scale: Scale, count: usize) -> io::Result<Vec<Cost>> {
    let mut engine = live::load(scenario, scale);
    let places = Places::of(scenario, scale, count);
    let loaded = engine.counts();
    let mut costs = Vec::new();
    for sort in Sort::ALL {
        let measured: Vec<Measured> =
            (0..count).filter_map(|at| measure(&mut engine, places.event(sort, at)?)).collect();
        costs.extend(Cost::of(scenario, scale, sort, &measured));
        if engine.counts() != loaded {
            return Err(io::Error::other(format!(
                "after {} the index is another than the loaded one",
                sort.title()
            )));
        }
    }
    Ok(costs)
}

/// The figures as a table.
pub fn table(costs: &[Cost]) -> String {
    let mut out = String::new();
    if let Some(Cost { scenario, size, count, .. }) = costs.first() {
        let _ = writeln!(out, "single events on {scenario}, {size} times its size; {count} of each sort\n");
    }
    let _ = writeln!(
        out,
        "{:<32}{:>10}{:>10}{:>10}{:>12}{:>8}{:>12}{:>8}",
        "event", "median", "p99", "max", "changes", "max", "members", "max"
    );
    for cost in costs {
        let _ = writeln!(
            out,
            "{:<32}{:>10}{:>10}{:>10}{:>12}{:>8}{:>12}{:>8}",
            cost.event.title(),
            nanoseconds(cost.median_ns),
            nanoseconds(cost.p99_ns),
            nanoseconds(cost.max_ns),
            cost.changes_median,
            cost.changes_max,
            cost.members_median,
            cost.members_max
        );
    }
    out
}

/// One event.
struct Measured {
    nanoseconds: u64,
    changes: usize,
    members: usize,
}

fn measure(engine: &mut Engine, (event, undo): (Event, Event)) -> Option<Measured> {
    let start = Instant::now();
    let delta = black_box(engine.apply(event));
    let nanoseconds = u64::try_from(start.elapsed().as_nanos()).ok()?;
    black_box(engine.apply(undo));
    Some(Measured { nanoseconds, changes: delta.changes.len(), members: members(&delta) })
}

/// How many members a delta moves or gives to new sets.
fn members(delta: &Delta) -> usize {
    let of = |change: &Change| match change {
        Change::SetAdded(_, _, members) => members.len(),
        Change::MembersMoved(moved) => moved.iter().map(|moved| moved.members.len()).sum(),
        _ => 0,
    };
    delta.changes.iter().map(of).sum()
}

// === impl Sort ===

impl Sort {
    /// All of them.
    pub const ALL: [Sort; 8] = [
        Sort::PodAdded,
        Sort::PodRemoved,
        Sort::PodRelabelled,
        Sort::PolicyAdded,
        Sort::PolicyAddedNewSelectors,
        Sort::PolicyAddedNewLists,
        Sort::PolicyRemoved,
        Sort::NamespaceRelabelled,
    ];

    /// In words.
    pub fn title(self) -> &'static str {
        match self {
            Sort::PodAdded => "pod added",
            Sort::PodRemoved => "pod removed",
            Sort::PodRelabelled => "pod relabelled",
            Sort::PolicyAdded => "policy added, selectors in use",
            Sort::PolicyAddedNewSelectors => "policy added, new selectors",
            Sort::PolicyAddedNewLists => "policy added, new lists",
            Sort::PolicyRemoved => "policy removed",
            Sort::NamespaceRelabelled => "namespace relabelled",
        }
    }
}

// === impl Cost ===

impl Cost {
    /// Of these events; none if there were none, because the scenario has only one label, say.
    fn of(scenario: Scenario, scale: Scale, event: Sort, measured: &[Measured]) -> Option<Cost> {
        let (median_ns, p99_ns, max_ns) = ranks(measured.iter().map(|one| one.nanoseconds))?;
        let (changes_median, _, changes_max) = ranks(measured.iter().map(|one| one.changes))?;
        let (members_median, _, members_max) = ranks(measured.iter().map(|one| one.members))?;
        Some(Cost {
            scenario: format!("{scenario:?}"),
            size: scale.size,
            event,
            count: measured.len(),
            median_ns,
            p99_ns,
            max_ns,
            changes_median,
            changes_max,
            members_median,
            members_max,
        })
    }
}

/// The median, the 99th of a hundred, the largest.
fn ranks<T: Ord + Copy>(figures: impl Iterator<Item = T>) -> Option<(T, T, T)> {
    let mut sorted: Vec<T> = figures.collect();
    sorted.sort_unstable();
    let at = |percent: usize| {
        sorted.get((sorted.len() * percent / 100).min(sorted.len().checked_sub(1)?)).copied()
    };
    Some((at(50)?, at(99)?, at(100)?))
}

// === impl Places ===

impl Places {
    /// So many of each kind, from a scenario.
    pub fn of(scenario: Scenario, scale: Scale, count: usize) -> Places {
        let mut places =
            Places { pods: Sample::new(count), policies: Sample::new(count), namespaces: Sample::new(count) };
        scenario.events(scale, &mut |chunk| {
            for event in chunk {
                match event {
                    Event::Apply(Item::Pod(pod)) => places.pods.offer(pod),
                    Event::Apply(Item::Policy(policy)) if !policy.rules.is_empty() => {
                        places.policies.offer(policy);
                    }
                    Event::Apply(Item::Namespace(namespace)) => places.namespaces.offer(namespace),
                    _ => {}
                }
            }
        });
        places
    }

    /// The event of a sort at a place, and the one that takes it back.
    pub fn event(&self, sort: Sort, at: usize) -> Option<(Event, Event)> {
        let added = |item: Item| {
            let key = item.key();
            (Event::Apply(item), Event::Delete(key))
        };
        let removed = |item: Item| (Event::Delete(item.key()), Event::Apply(item));
        let changed = |new: Item, old: Item| (Event::Apply(new), Event::Apply(old));
        Some(match sort {
            Sort::PodAdded => {
                let (like, host) = (self.pods.at(at)?, self.pods.at(at + 1)?);
                let name = format_smolstr!("new-{at}");
                let addresses = host.addresses.clone();
                added(Item::Pod(Pod { name, addresses, node: host.node.clone(), ..like.clone() }))
            }
            Sort::PodRemoved => removed(Item::Pod(self.pods.at(at)?.clone())),
            Sort::PodRelabelled => {
                let pod = self.pods.at(at)?;
                let labels = self.pods.other(at, |pod| &pod.labels)?;
                changed(Item::Pod(Pod { labels, ..pod.clone() }), Item::Pod(pod.clone()))
            }
            Sort::PolicyAdded => added(Item::Policy(renamed(self.policies.at(at)?, at))),
            Sort::PolicyAddedNewSelectors => {
                added(Item::Policy(reselected(renamed(self.policies.at(at)?, at), &narrowed)))
            }
            Sort::PolicyAddedNewLists => {
                let listed = |selector: &Selector| listed(selector, &format_smolstr!("new-{at}"));
                added(Item::Policy(reselected(renamed(self.policies.at(at)?, at), &listed)))
            }
            Sort::PolicyRemoved => removed(Item::Policy(self.policies.at(at)?.clone())),
            Sort::NamespaceRelabelled => {
                let namespace = self.namespaces.at(at)?;
                let labels = self.namespaces.other(at, |namespace| &namespace.labels)?;
                let relabelled = Namespace { labels, ..namespace.clone() };
                changed(Item::Namespace(relabelled), Item::Namespace(namespace.clone()))
            }
        })
    }
}

// === impl Sample ===

impl<T> Sample<T> {
    fn new(wanted: usize) -> Self {
        Sample { wanted, seen: 0, kept: Vec::new(), random: Random::new(3) }
    }

    fn offer(&mut self, one: T) {
        self.seen += 1;
        if self.kept.len() < self.wanted {
            self.kept.push(one);
        } else if let Some(place) = self.kept.get_mut(self.random.below(self.seen)) {
            *place = one;
        }
    }

    /// Round and round, if there are fewer than asked for.
    fn at(&self, at: usize) -> Option<&T> {
        self.kept.get(at.checked_rem(self.kept.len())?)
    }

    /// The labels of the next that has others.
    fn other(&self, at: usize, labels: impl Fn(&T) -> &Labels) -> Option<Labels> {
        let own = labels(self.at(at)?);
        let mut next = (1..self.kept.len()).filter_map(|step| self.at(at + step)).map(labels);
        next.find(|labels| *labels != own).cloned()
    }
}

/// The same policy under another name.
fn renamed(policy: &Policy, at: usize) -> Policy {
    let object = Object { name: format_smolstr!("new-{at}"), ..Object::clone(&policy.object) };
    Policy { object: Arc::new(object), ..policy.clone() }
}

/// The same policy with other selectors.
fn reselected(mut policy: Policy, other: &dyn Fn(&Selector) -> Selector) -> Policy {
    let pods = |set: &PodSet| {
        let namespaces = match &set.namespaces {
            Namespaces::Matching(selector) => Namespaces::Matching(other(selector)),
            namespaces => namespaces.clone(),
        };
        PodSet { namespaces, pods: other(&set.pods), ..set.clone() }
    };
    let subjects = |subjects: &[Subject]| -> Arc<[Subject]> {
        let subject = |subject: &Subject| match subject {
            Subject::Pods(set) => Subject::Pods(pods(set)),
            beyond => beyond.clone(),
        };
        subjects.iter().map(subject).collect()
    };
    for isolation in &mut policy.isolations {
        isolation.subjects = subjects(&isolation.subjects);
    }
    for rule in &mut policy.rules {
        rule.subjects = subjects(&rule.subjects);
        if let Peers::Of(peers) = &mut rule.peers {
            for peer in peers {
                if let Peer::Pods(set) = peer {
                    *set = pods(set);
                }
            }
        }
    }
    policy
}

/// With one more condition, which everybody meets.
fn narrowed(selector: &Selector) -> Selector {
    let more = Requirement::new("retired", Operator::DoesNotExist);
    Selector::new(selector.requirements().iter().cloned().chain([more]))
}

/// With one more value, which nobody has, in each list of values.
fn listed(selector: &Selector, value: &SmolStr) -> Selector {
    Selector::new(selector.requirements().iter().map(|requirement| match &requirement.operator {
        Operator::In(values) => {
            let values = values.iter().chain([value]).cloned().collect();
            Requirement::new(requirement.key.clone(), Operator::In(values))
        }
        _ => requirement.clone(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sort_of_event_changes_something_and_is_taken_back() {
        for scenario in [Scenario::S1, Scenario::S6] {
            let costs = run(scenario, Scale::part(50), 100).expect("the index stays as loaded");
            assert_eq!(costs.len(), Sort::ALL.len(), "{costs:?}");
            // In S1 nothing selects by the labels of namespaces.
            let idle = |cost: &Cost| scenario == Scenario::S1 && cost.event == Sort::NamespaceRelabelled;
            assert!(
                costs.iter().all(|cost| cost.count == 100 && (cost.changes_median > 0) != idle(cost)),
                "{costs:?}"
            );
            assert!(table(&costs).contains("pod added"));
        }
    }

    #[test]
    fn of_many_the_middle_and_the_last() {
        assert_eq!(ranks(1..=1000), Some((501, 991, 1000)));
        assert_eq!(ranks([7].into_iter()), Some((7, 7, 7)));
        assert_eq!(ranks(std::iter::empty::<u64>()), None);
    }
}
