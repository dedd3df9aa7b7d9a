//! Whom subjects and peers mean, as sets of groups: the model's own matching, asked once a group.

use std::collections::HashMap;

use palisade_model::address::{Block, Family};
use palisade_model::group::Members;
use palisade_model::label::Selector;
use palisade_model::matching::Endpoint;
use palisade_model::policy::{Namespaces, Peer, Peers, PodSet, Subject};
use palisade_model::ranges::Ranges;
use palisade_model::snapshot::NoGroup;

use super::cuts::Cuts;
use super::groups::{Groups, Whose, number};

/// Groups, as intervals of their numbers: sorted, none touching another.
pub type Spans = Box<[(u32, u32)]>;

/// Looks up sets, each once.
#[derive(Debug)]
pub struct Lookup<'g, 's> {
    groups: &'g Groups<'s>,
    cuts: &'g Cuts,
    /// What sets of pods came to; relative ones by the namespace that they are relative to.
    sets: HashMap<(&'s PodSet, Option<usize>), Vec<u32>>,
    /// The namespaces that selectors find.
    namespaces: HashMap<&'s Selector, Vec<usize>>,
}

// === impl Lookup ===

impl<'g, 's> Lookup<'g, 's> {
    /// Nothing is looked up yet.
    pub fn new(groups: &'g Groups<'s>, cuts: &'g Cuts) -> Self {
        Lookup { groups, cuts, sets: HashMap::new(), namespaces: HashMap::new() }
    }

    /// The groups that policies with these subjects apply to, in order.
    pub fn subjects(&mut self, subjects: &'s [Subject]) -> Vec<u32> {
        let snapshot = self.groups.context.snapshot;
        let mut found = Vec::new();
        for subject in subjects {
            match subject {
                Subject::Pods(set) => found.extend(self.applied_to(set)),
                Subject::Nodes(selector) => found.extend(self.hosts(selector)),
                // For what comes in through a service; nobody by itself.
                Subject::Service(_) => {}
                Subject::Group { group, within } => match snapshot.group(group) {
                    Ok(members) => self.members(members, within.as_deref(), &mut found),
                    Err(NoGroup::Missing) => {}
                    Err(NoGroup::Unreadable(_)) => {
                        let whole = std::slice::from_ref(subject);
                        found.extend((0..self.groups.outside().start).filter(|at| {
                            let endpoint = match self.groups.get(*at).whose {
                                Whose::Pods(sample, _) => Some(Endpoint::Pod(sample)),
                                Whose::Host(node) => node.map(Endpoint::Node),
                                Whose::Outside => None,
                            };
                            endpoint.is_some_and(|endpoint| self.groups.context.applies(whole, endpoint))
                        }));
                    }
                },
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    fn members(&mut self, members: &'s [Members], within: Option<&str>, found: &mut Vec<u32>) {
        let snapshot = self.groups.context.snapshot;
        for member in members {
            match member {
                Members::Pods(set) => {
                    let pods = self.applied_to(set);
                    let inside = |at: &u32| {
                        within.is_none_or(|name| {
                            let namespace = self.groups.namespace(*at);
                            namespace.is_some_and(|namespace| snapshot.namespaces()[namespace].name == name)
                        })
                    };
                    found.extend(pods.into_iter().filter(inside));
                }
                Members::Nodes(selector) if within.is_none() => found.extend(self.hosts(selector)),
                _ => {}
            }
        }
    }

    /// The groups that peers mean, seen from a subject's namespace.
    pub fn peers(&mut self, peers: &'s Peers, relative_to: Option<usize>) -> Spans {
        let Peers::Of(peers) = peers else {
            return Box::new([(0, number(self.groups.len()).saturating_sub(1))]);
        };
        let snapshot = self.groups.context.snapshot;
        let mut found: Vec<(u32, u32)> = Vec::new();
        for peer in peers {
            match peer {
                Peer::Pods(set) => found.extend(alone(self.pods(set, relative_to))),
                Peer::Addresses(block) => self.blocks(std::slice::from_ref(block), &mut found),
                Peer::Nodes(selector) => found.extend(alone(self.hosts(selector))),
                Peer::Names(names) => {
                    let named = snapshot.named_addresses().filter(|at| snapshot.is_named(*at, names));
                    for address in named.filter(|at| Family::of(*at) == self.groups.family) {
                        let interval = number(self.cuts.interval_of(address));
                        found.push(self.outside(interval, interval));
                        found.extend(alone(self.groups.addressed(interval, interval)));
                    }
                }
                Peer::Group(group) => {
                    for member in snapshot.group(group).unwrap_or_default() {
                        match member {
                            Members::Pods(set) => found.extend(alone(self.pods(set, relative_to))),
                            Members::Nodes(selector) => found.extend(alone(self.hosts(selector))),
                            Members::Addresses(blocks) => self.blocks(blocks, &mut found),
                            _ => {}
                        }
                    }
                }
                // A service is for who goes through it; what cannot be read is nobody.
                Peer::Service(_) | Peer::Unknown(_) => {}
            }
        }
        spans(found)
    }

    fn blocks(&self, blocks: &[Block], found: &mut Vec<(u32, u32)>) {
        let options = self.groups.context.options;
        for (first, last) in self.cuts.intervals(self.groups.family, &Ranges::of(blocks)) {
            found.push(self.outside(first, last));
            let is_pod = |at: &u32| {
                matches!(self.groups.get(*at).whose, Whose::Pods(..)) && !self.groups.is_external(*at)
            };
            let meant = |at: &u32| options.ip_block_matches_pods || !is_pod(at);
            found.extend(alone(self.groups.addressed(first, last).filter(meant)));
        }
    }

    fn outside(&self, first: u32, last: u32) -> (u32, u32) {
        let start = self.groups.outside().start;
        (start + first, start + last)
    }

    fn hosts(&self, selector: &Selector) -> impl Iterator<Item = u32> + use<'g, 's> {
        let (groups, selector) = (self.groups, selector.clone());
        let labelled = move |at: &u32| match groups.get(*at).whose {
            Whose::Host(Some(node)) => selector.matches(&groups.context.snapshot.nodes()[node].labels),
            _ => false,
        };
        groups.hosts().filter(labelled)
    }

    /// The groups of pods in a set that a policy applies to: there, whoever it is is relative to itself.
    fn applied_to(&mut self, set: &'s PodSet) -> Vec<u32> {
        if !is_relative(&set.namespaces) {
            return self.pods(set, None);
        }
        let own = |at: &u32| match self.groups.get(*at).whose {
            Whose::Pods(sample, _) => self.groups.context.holds(set, sample, Endpoint::Pod(sample)),
            _ => false,
        };
        (0..self.groups.hosts().start).filter(own).collect()
    }

    /// The groups of pods in a set, in order.
    fn pods(&mut self, set: &'s PodSet, relative_to: Option<usize>) -> Vec<u32> {
        let relative = is_relative(&set.namespaces);
        let key = (set, relative_to.filter(|_| relative));
        if let Some(known) = self.sets.get(&key) {
            return known.clone();
        }
        let snapshot = self.groups.context.snapshot;
        let context = self.groups.context;
        let subject = match relative_to {
            // Whoever it is, its namespace is all that is asked about it.
            Some(namespace) => self.groups.of_namespace(namespace).next(),
            None => None,
        };
        let subject = subject.and_then(|group| match self.groups.get(group).whose {
            Whose::Pods(sample, _) => Some(Endpoint::Pod(sample)),
            _ => None,
        });
        let holds = |at: &u32| match self.groups.get(*at).whose {
            // Where nothing is relative, it does not matter whom it is relative to.
            Whose::Pods(sample, _) => context.holds(set, sample, subject.unwrap_or(Endpoint::Pod(sample))),
            _ => false,
        };
        let everywhere = || 0..self.groups.hosts().start;
        let label = set.pods.required_label();
        let found: Vec<u32> = match &set.namespaces {
            Namespaces::Named(name) => {
                let namespaces = snapshot.namespaces();
                match namespaces.binary_search_by(|namespace| namespace.name.cmp(name)) {
                    Ok(at) => self.groups.of_namespace(at).filter(holds).collect(),
                    Err(_) => Vec::new(),
                }
            }
            // Nobody to be relative to: no namespace is the same as none.
            _ if relative && subject.is_none() => Vec::new(),
            Namespaces::Own => {
                let own = relative_to.map(|namespace| self.groups.of_namespace(namespace));
                own.into_iter().flatten().filter(holds).collect()
            }
            _ if label.is_some() => {
                let labelled = label.map(|label| self.groups.labelled(label)).unwrap_or_default();
                labelled.iter().copied().filter(holds).collect()
            }
            Namespaces::Matching(selector) => {
                let matching = |at: &usize| selector.matches(&snapshot.namespaces()[*at].labels);
                let found = self
                    .namespaces
                    .entry(selector)
                    .or_insert_with(|| (0..snapshot.namespaces().len()).filter(matching).collect());
                found.iter().flat_map(|at| self.groups.of_namespace(*at)).filter(holds).collect()
            }
            Namespaces::SameLabels(_) | Namespaces::NotSameLabels(_) => everywhere().filter(holds).collect(),
        };
        self.sets.insert(key, found.clone());
        found
    }
}

/// Whether it depends on the subject who is meant.
pub fn is_relative(namespaces: &Namespaces) -> bool {
    matches!(namespaces, Namespaces::Own | Namespaces::SameLabels(_) | Namespaces::NotSameLabels(_))
}

/// Whether the same for anything among peers. A group's members never are.
pub fn are_relative(peers: &Peers) -> bool {
    match peers {
        Peers::Any => false,
        Peers::Of(peers) => {
            peers.iter().any(|peer| matches!(peer, Peer::Pods(set) if is_relative(&set.namespaces)))
        }
    }
}

fn alone(groups: impl IntoIterator<Item = u32>) -> impl Iterator<Item = (u32, u32)> {
    groups.into_iter().map(|at| (at, at))
}

/// Intervals in any order, put together.
pub fn spans(mut pieces: Vec<(u32, u32)>) -> Spans {
    pieces.sort_unstable();
    let mut merged: Vec<(u32, u32)> = Vec::with_capacity(pieces.len());
    for (first, last) in pieces {
        match merged.last_mut() {
            Some(open) if first <= open.1.saturating_add(1) => open.1 = open.1.max(last),
            _ => merged.push((first, last)),
        }
    }
    merged.into()
}
