//! Whom subjects and peers mean, as sets of groups: the model's own matching, asked once a group.
//!
//! Few groups are asked about each set: those of the namespaces meant, and of those the ones with a label that the set
//! wants. Whatever was looked up once is kept, so that rules with the same selector share it.

mod by_values;

use std::rc::Rc;

use palisade_model::address::{Block, Family};
use palisade_model::group::GroupName;
use palisade_model::label::Selector;
use palisade_model::matching::Endpoint;
use palisade_model::policy::{Namespaces, Peer, Peers, PodSet, Subject};
use palisade_model::ranges::Ranges;
use palisade_model::resolve::GroupMember;
use palisade_model::snapshot::Snapshot;

use super::cuts::Cuts;
use super::groups::{Groups, Table, Whose, number};
use by_values::ByValues;

/// Groups, as intervals of their numbers: sorted, none touching another.
pub type Spans = Box<[(u32, u32)]>;

/// The same, for all who look it up.
pub type Shared = Rc<[(u32, u32)]>;

/// Whether it depends on the subject whom peers mean, and on what of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relative {
    /// It does not.
    No,
    /// On labels of its namespace.
    Labels,
    /// On which its namespace is.
    Own,
}

/// Steps to compare an address with a name.
const NAMED: u64 = 100;
/// Steps for a run of groups that is sorted.
const SPAN: u64 = 20;
/// Steps to ask a group whether it is in a set, and for each requirement of the set.
const ASKED: u64 = 20;
const REQUIREMENT: u64 = 15;

/// Looks up sets, each once.
#[derive(Debug)]
pub struct Lookup<'g, 's> {
    groups: &'g Groups<'s>,
    cuts: &'g Cuts,
    /// What sets of pods came to; those of the subject's own namespace by that.
    sets: Table<(&'s PodSet, Option<usize>), Shared>,
    /// What sets came to that want the labels of the subject's namespace.
    by_values: Table<&'s PodSet, ByValues<'s>>,
    /// The namespaces that selectors find.
    namespaces: Table<&'s Selector, Rc<[usize]>>,
    /// Namespaces by a label.
    labelled: Table<(&'s str, &'s str), Vec<usize>>,
    blocks: Table<&'s Block, Shared>,
    hosts: Table<&'s Selector, Shared>,
    /// The members of groups as peers, and the namespace they are relative to, if they are.
    grouped: Table<(&'s GroupName, Option<usize>), Shared>,
    /// Steps that looking took, not accounted for yet.
    pub steps: u64,
    /// For each namespace the first one that has the same labels, of those that anything relative asks for.
    like: Vec<usize>,
}

// === impl Lookup ===

impl<'g, 's> Lookup<'g, 's> {
    /// Nothing is looked up yet.
    pub fn new(groups: &'g Groups<'s>, cuts: &'g Cuts) -> Self {
        let mut labelled: Table<(&str, &str), Vec<usize>> = Table::default();
        for (at, namespace) in groups.context.snapshot.namespaces().iter().enumerate() {
            for label in namespace.labels.iter() {
                labelled.entry(label).or_default().push(at);
            }
        }
        Lookup {
            groups,
            cuts,
            sets: Table::default(),
            by_values: Table::default(),
            namespaces: Table::default(),
            labelled,
            blocks: Table::default(),
            hosts: Table::default(),
            grouped: Table::default(),
            steps: 0,
            like: by_values::like(groups.context.snapshot),
        }
    }

    /// The first namespace that rules about labels do not tell from this one.
    pub fn like(&self, namespace: usize) -> usize {
        self.like[namespace]
    }

    /// The groups that policies with these subjects apply to.
    pub fn subjects(&mut self, subjects: &'s [Subject]) -> Shared {
        let snapshot = self.groups.context.snapshot;
        let mut found = Vec::new();
        for subject in subjects {
            match subject {
                Subject::Pods(set) => found.push(self.applied_to(set)),
                Subject::Nodes(selector) => found.push(self.hosts(selector)),
                // For what comes in through a service; nobody by itself.
                Subject::Service(_) => {}
                Subject::Group { group, within } => match snapshot.group(group) {
                    Ok(members) => self.members(members, within.as_deref(), &mut found),
                    Err(_) => {
                        let whole = std::slice::from_ref(subject);
                        let applies = |at: &u32| {
                            let endpoint = match self.groups.get(*at).whose {
                                Whose::Pods(sample, _) => Some(Endpoint::Pod(sample)),
                                Whose::Host(node) => node.map(Endpoint::Node),
                                Whose::Outside => None,
                            };
                            endpoint.is_some_and(|endpoint| self.groups.context.applies(whole, endpoint))
                        };
                        found.push(in_order((0..self.groups.outside().start).filter(applies)));
                    }
                },
            }
        }
        self.together(&found)
    }

    fn members(&mut self, members: &'s [GroupMember], within: Option<&str>, found: &mut Vec<Shared>) {
        let inside = within.map(|name| match self.namespace_named(name) {
            Some(at) => self.groups.of_namespace(at),
            None => 0..0,
        });
        for member in members {
            match member {
                GroupMember::Pods(set) => {
                    let pods = self.applied_to(set);
                    found.push(match &inside {
                        Some(inside) => clipped(&pods, inside.start, inside.end),
                        None => pods,
                    });
                }
                GroupMember::Nodes(selector) if within.is_none() => found.push(self.hosts(selector)),
                _ => {}
            }
        }
    }

    /// The groups that peers mean, seen from a subject's namespace.
    pub fn peers(&mut self, peers: &'s Peers, relative_to: Option<usize>) -> Shared {
        let Peers::Of(peers) = peers else {
            return Rc::new([(0, number(self.groups.len()).saturating_sub(1))]);
        };
        let snapshot = self.groups.context.snapshot;
        let mut found = Vec::with_capacity(peers.len());
        for peer in peers {
            match peer {
                Peer::Pods(set) => found.push(self.pods(set, relative_to)),
                Peer::Addresses(block) => found.push(self.block(block)),
                Peer::Nodes(selector) => found.push(self.hosts(selector)),
                Peer::Names(names) => {
                    self.steps += NAMED * (snapshot.named_addresses().count() * names.len()) as u64;
                    let named = snapshot.named_addresses().filter(|at| snapshot.is_named(*at, names));
                    for address in named.filter(|at| Family::of(*at) == self.groups.family) {
                        let interval = number(self.cuts.interval_of(address));
                        found.push(Rc::new([self.outside(interval, interval)]));
                        found.push(in_any_order(self.groups.addressed(interval, interval)));
                    }
                }
                Peer::Group(group) => found.push(self.group(group, relative_to)),
                // A service is for who goes through it; what cannot be read is nobody.
                Peer::Service(_) | Peer::Unknown(_) => {}
            }
        }
        self.together(&found)
    }

    /// The members of a group, seen from a namespace.
    fn group(&mut self, group: &'s GroupName, relative_to: Option<usize>) -> Shared {
        if let Some(known) = self.grouped.get(&(group, relative_to)) {
            return Rc::clone(known);
        }
        let mut found = Vec::new();
        for member in self.groups.context.snapshot.group(group).unwrap_or_default() {
            match member {
                GroupMember::Pods(set) => found.push(self.pods(set, relative_to)),
                GroupMember::Nodes(selector) => found.push(self.hosts(selector)),
                GroupMember::Addresses(blocks) => found.extend(blocks.iter().map(|block| self.block(block))),
            }
        }
        let found = self.together(&found);
        self.grouped.insert((group, relative_to), Rc::clone(&found));
        found
    }

    fn block(&mut self, block: &'s Block) -> Shared {
        if let Some(known) = self.blocks.get(block) {
            return Rc::clone(known);
        }
        let mut pieces = Vec::new();
        for (first, last) in self.cuts.intervals(self.groups.family, &Ranges::of([block])) {
            pieces.push(self.outside(first, last));
            pieces.extend(self.groups.in_blocks(first, last).map(|at| (at, at)));
        }
        let found: Shared = spans(pieces).into();
        self.blocks.insert(block, Rc::clone(&found));
        found
    }

    fn outside(&self, first: u32, last: u32) -> (u32, u32) {
        let start = self.groups.outside().start;
        (start + first, start + last)
    }

    fn hosts(&mut self, selector: &'s Selector) -> Shared {
        let groups = self.groups;
        let found = self.hosts.entry(selector).or_insert_with(|| {
            let labelled = |at: &u32| match groups.get(*at).whose {
                Whose::Host(Some(node)) => selector.matches(&groups.context.snapshot.nodes()[node].labels),
                _ => false,
            };
            in_order(groups.hosts().filter(labelled))
        });
        Rc::clone(found)
    }

    /// The groups of pods in a set that a policy applies to: there, whoever it is is relative to itself.
    fn applied_to(&mut self, set: &'s PodSet) -> Shared {
        if depends_on(&set.namespaces) == Relative::No {
            return self.pods(set, None);
        }
        let own = |at: &u32| match self.groups.get(*at).whose {
            Whose::Pods(sample, _) => self.groups.context.holds(set, sample, Endpoint::Pod(sample)),
            _ => false,
        };
        let found = in_order((0..self.groups.hosts().start).filter(own));
        self.steps += ASKED * u64::from(self.groups.hosts().start);
        found
    }

    /// The groups of pods in a set.
    fn pods(&mut self, set: &'s PodSet, relative_to: Option<usize>) -> Shared {
        // Nobody to be relative to: no namespace is the same as none.
        let known = match (&set.namespaces, relative_to) {
            (Namespaces::SameLabels(_) | Namespaces::NotSameLabels(_), Some(namespace)) => {
                return self.of_values(set, namespace);
            }
            (namespaces, None) if depends_on(namespaces) != Relative::No => return Rc::new([]),
            (Namespaces::Own, own) => (set, own),
            _ => (set, None),
        };
        if let Some(known) = self.sets.get(&known) {
            return Rc::clone(known);
        }
        let own = match (&set.namespaces, relative_to) {
            (Namespaces::Own, Some(own)) => Some(own),
            (Namespaces::Named(name), _) => self.namespace_named(name),
            _ => None,
        };
        let found = match &set.namespaces {
            Namespaces::Matching(selector) => {
                let namespaces = self.matching(selector);
                self.held(set, &namespaces, None)
            }
            _ => self.held(set, own.as_slice(), own),
        };
        self.sets.insert(known, Rc::clone(&found));
        found
    }

    /// The groups of these namespaces that are in a set, seen from a namespace.
    fn held(&mut self, set: &'s PodSet, namespaces: &[usize], relative_to: Option<usize>) -> Shared {
        let mut asked = 0_u64;
        let candidates = self.candidates(set, namespaces).inspect(|_| asked += 1);
        let found = in_order(candidates.filter(|at| self.is_in(set, *at, relative_to)));
        self.steps += asked * (ASKED + REQUIREMENT * set.pods.requirements().len() as u64);
        self.steps += ASKED * namespaces.len() as u64;
        found
    }

    /// Whether a group of pods is in a set, seen from a namespace.
    fn is_in(&self, set: &PodSet, at: u32, relative_to: Option<usize>) -> bool {
        let sample = |at: u32| match self.groups.get(at).whose {
            Whose::Pods(sample, _) => Some(sample),
            _ => None,
        };
        // Whoever the subject is, its namespace is all that is asked about it; and where nothing is relative, not even that.
        let subject = relative_to.and_then(|own| self.groups.of_namespace(own).next()).unwrap_or(at);
        match (sample(at), sample(subject)) {
            (Some(pod), Some(subject)) => self.groups.context.holds(set, pod, Endpoint::Pod(subject)),
            _ => false,
        }
    }

    /// The groups of these namespaces, in order: only those with a label that the set wants, where it wants one.
    fn candidates<'l>(&'l self, set: &'s PodSet, namespaces: &'l [usize]) -> impl Iterator<Item = u32> + 'l {
        let labelled = set.pods.required_label().map(|label| self.groups.labelled(label));
        // Where few have the label, it is quicker to ask each whether it is in one of the namespaces.
        let few = labelled.filter(|labelled| labelled.len() < namespaces.len());
        let namespaces = if few.is_some() { &[] } else { namespaces };
        let in_namespaces = namespaces.iter().flat_map(move |at| {
            let own = self.groups.of_namespace(*at);
            let (whole, some) = match labelled {
                Some(labelled) => {
                    let start = labelled.partition_point(|at| *at < own.start);
                    let length = labelled[start..].partition_point(|at| *at < own.end);
                    (0..0, &labelled[start..start + length])
                }
                None => (own, &[][..]),
            };
            whole.chain(some.iter().copied())
        });
        few.unwrap_or_default().iter().copied().chain(in_namespaces)
    }

    /// The namespaces that a selector finds, in order.
    fn matching(&mut self, selector: &'s Selector) -> Rc<[usize]> {
        if let Some(known) = self.namespaces.get(selector) {
            return Rc::clone(known);
        }
        let namespaces = self.groups.context.snapshot.namespaces();
        let matches = |at: &usize| selector.matches(&namespaces[*at].labels);
        let found: Rc<[usize]> = match selector.required_label() {
            Some(label) => self.labelled.get(&label).into_iter().flatten().copied().filter(matches).collect(),
            None => (0..namespaces.len()).filter(matches).collect(),
        };
        self.steps += namespaces.len() as u64 * (ASKED + REQUIREMENT * selector.requirements().len() as u64);
        self.namespaces.insert(selector, Rc::clone(&found));
        found
    }

    /// Everybody who is in any of these.
    fn together(&mut self, sets: &[Shared]) -> Shared {
        match sets {
            [] => Rc::new([]),
            [only] => Rc::clone(only),
            several => {
                self.steps += SPAN * several.iter().map(|set| set.len() as u64).sum::<u64>();
                spans(several.iter().flat_map(|set| set.iter().copied()).collect()).into()
            }
        }
    }

    fn namespace_named(&self, name: &str) -> Option<usize> {
        let namespaces = self.groups.context.snapshot.namespaces();
        namespaces.binary_search_by(|namespace| namespace.name.as_str().cmp(name)).ok()
    }
}

/// What peers depend on.
pub fn relative(snapshot: &Snapshot, peers: &Peers) -> Relative {
    let of = |peer: &Peer| peer_sets(snapshot, peer).map(|set| depends_on(&set.namespaces)).max();
    match peers {
        Peers::Any => Relative::No,
        Peers::Of(peers) => peers.iter().filter_map(of).max().unwrap_or(Relative::No),
    }
}

/// The sets of pods that a peer is made of: its own, or those of its group.
fn peer_sets<'s>(snapshot: &'s Snapshot, peer: &'s Peer) -> impl Iterator<Item = &'s PodSet> {
    let (own, members) = match peer {
        Peer::Pods(set) => (Some(set), &[][..]),
        Peer::Group(group) => (None, snapshot.group(group).unwrap_or_default()),
        Peer::Addresses(_) | Peer::Nodes(_) | Peer::Names(_) | Peer::Service(_) | Peer::Unknown(_) => {
            (None, &[][..])
        }
    };
    own.into_iter().chain(members.iter().filter_map(|member| match member {
        GroupMember::Pods(set) => Some(set),
        _ => None,
    }))
}

fn depends_on(namespaces: &Namespaces) -> Relative {
    match namespaces {
        Namespaces::Named(_) | Namespaces::Matching(_) => Relative::No,
        Namespaces::SameLabels(_) | Namespaces::NotSameLabels(_) => Relative::Labels,
        Namespaces::Own => Relative::Own,
    }
}

/// Groups in their order, put together.
fn in_order(groups: impl Iterator<Item = u32>) -> Shared {
    let mut merged: Vec<(u32, u32)> = Vec::new();
    for at in groups {
        match merged.last_mut() {
            Some(open) if open.1 + 1 == at => open.1 = at,
            _ => merged.push((at, at)),
        }
    }
    merged.into()
}

fn in_any_order(groups: impl Iterator<Item = u32>) -> Shared {
    spans(groups.map(|at| (at, at)).collect()).into()
}

/// The part of some groups from one to before another.
fn clipped(groups: &[(u32, u32)], start: u32, end: u32) -> Shared {
    let inside = groups.iter().filter(|(first, last)| start <= *last && *first < end);
    inside.map(|(first, last)| ((*first).max(start), (*last).min(end - 1))).collect()
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
