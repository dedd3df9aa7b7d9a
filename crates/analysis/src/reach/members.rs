//! Whom subjects and peers mean, as sets of groups: the model's own matching, asked once a group.
//!
//! Few groups are asked about each set: those of the namespaces meant, and of those the ones with a label that the set
//! wants. Whatever was looked up once is kept, so that rules with the same selector share it.

mod by_values;

use std::borrow::Cow;
use std::rc::Rc;

use palisade_model::address::{Block, Family};
use palisade_model::label::Selector;
use palisade_model::matching::Endpoint;
use palisade_model::policy::{Namespaces, PodSet, Subject};
use palisade_model::ranges::Ranges;
use palisade_model::resolve::{self, GroupMember, Resolution, ResolvedPeer, ResolvedPeers, ResolvedSubject};

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
    /// The members of groups as peers, by where they are kept, and the namespace they are relative to.
    grouped: Table<(*const GroupMember, Option<usize>), Shared>,
    /// Steps that looking took, not accounted for yet.
    pub steps: u64,
    /// For each namespace the first one that has the same labels, of those that anything relative asks for.
    like: Vec<usize>,
}

// === impl Lookup ===

impl<'g, 's> Lookup<'g, 's> {
    /// Nothing is looked up yet.
    pub fn new(groups: &'g Groups<'s>, cuts: &'g Cuts, resolution: &Resolution<'_>) -> Self {
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
            like: by_values::like(groups.context.snapshot, resolution),
        }
    }

    /// The first namespace that rules about labels do not tell from this one.
    pub fn like(&self, namespace: usize) -> usize {
        self.like[namespace]
    }

    /// Returns the groups that policies with these subjects apply to.
    pub fn subjects(&mut self, subjects: &'s [Subject]) -> Shared {
        let mut found = Vec::new();
        for subject in resolve::subjects(subjects, &self.groups.context.snapshot) {
            match subject {
                ResolvedSubject::Pods(Cow::Borrowed(set)) => found.push(self.pods(set, None)),
                ResolvedSubject::Pods(Cow::Owned(set)) => found.push(self.look_up(&set, None)),
                ResolvedSubject::Nodes(Cow::Borrowed(selector)) => found.push(self.hosts(selector)),
                ResolvedSubject::Nodes(Cow::Owned(selector)) => found.push(labelled(self.groups, &selector)),
                // For connections through a service; no endpoint by itself.
                ResolvedSubject::Service(_) => {}
            }
        }
        self.together(&found)
    }

    /// Returns the groups that peers select, seen from a subject's namespace.
    pub fn peers(&mut self, peers: &ResolvedPeers<'s>, relative_to: Option<usize>) -> Shared {
        let ResolvedPeers::Of(peers) = peers else {
            return Rc::new([(0, number(self.groups.len()).saturating_sub(1))]);
        };
        let mut found = Vec::with_capacity(peers.len());
        for peer in peers {
            self.peer(*peer, relative_to, &mut found);
        }
        self.together(&found)
    }

    fn peer(&mut self, peer: ResolvedPeer<'s>, relative_to: Option<usize>, found: &mut Vec<Shared>) {
        let snapshot = self.groups.context.snapshot;
        match peer {
            ResolvedPeer::Pods(set) => found.push(self.pods(set, relative_to)),
            ResolvedPeer::Addresses(blocks) => found.extend(blocks.iter().map(|block| self.block(block))),
            ResolvedPeer::Nodes(selector) => found.push(self.hosts(selector)),
            ResolvedPeer::Names(names) => {
                self.steps += NAMED * (snapshot.named_addresses().count() * names.len()) as u64;
                let named = snapshot.named_addresses().filter(|at| snapshot.is_named(*at, names));
                for address in named.filter(|at| Family::of(*at) == self.groups.family) {
                    let interval = number(self.cuts.interval_of(address));
                    found.push(Rc::new([self.outside(interval, interval)]));
                    found.push(in_any_order(self.groups.addressed(interval, interval)));
                }
            }
            ResolvedPeer::Group(members) => {
                let key = (members.as_ptr(), relative_to);
                if let Some(known) = self.grouped.get(&key) {
                    found.push(Rc::clone(known));
                    return;
                }
                let mut own = Vec::new();
                for member in members {
                    self.peer(member.into(), relative_to, &mut own);
                }
                let own = self.together(&own);
                self.grouped.insert(key, Rc::clone(&own));
                found.push(own);
            }
            // For connections through a service; no endpoint by itself.
            ResolvedPeer::Service(_) => {}
        }
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
        Rc::clone(self.hosts.entry(selector).or_insert_with(|| labelled(groups, selector)))
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
        if let Namespaces::Matching(selector) = &set.namespaces
            && !self.namespaces.contains_key(selector)
        {
            let found = self.matching(selector);
            self.namespaces.insert(selector, found);
        }
        let found = self.look_up(set, relative_to);
        self.sets.insert(known, Rc::clone(&found));
        found
    }

    /// Looks up the groups of pods in a set. Only namespaces that are known are not looked up again.
    fn look_up(&mut self, set: &PodSet, relative_to: Option<usize>) -> Shared {
        let own = match (&set.namespaces, relative_to) {
            (Namespaces::Own, Some(own)) => Some(own),
            (Namespaces::Named(name), _) => self.namespace_named(name),
            _ => None,
        };
        match &set.namespaces {
            Namespaces::Matching(selector) => {
                let namespaces = match self.namespaces.get(selector) {
                    Some(known) => Rc::clone(known),
                    None => self.matching(selector),
                };
                self.held(set, &namespaces, None)
            }
            _ => self.held(set, own.as_slice(), own),
        }
    }

    /// The groups of these namespaces that are in a set, seen from a namespace.
    fn held(&mut self, set: &PodSet, namespaces: &[usize], relative_to: Option<usize>) -> Shared {
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
    fn candidates<'l>(&'l self, set: &'l PodSet, namespaces: &'l [usize]) -> impl Iterator<Item = u32> + 'l {
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
    fn matching(&mut self, selector: &Selector) -> Rc<[usize]> {
        let namespaces = self.groups.context.snapshot.namespaces();
        let matches = |at: &usize| selector.matches(&namespaces[*at].labels);
        let found: Rc<[usize]> = match selector.required_label() {
            Some(label) => self.labelled.get(&label).into_iter().flatten().copied().filter(matches).collect(),
            None => (0..namespaces.len()).filter(matches).collect(),
        };
        self.steps += namespaces.len() as u64 * (ASKED + REQUIREMENT * selector.requirements().len() as u64);
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

/// Returns what of the subject the peers of a rule depend on.
pub fn relative(peers: &ResolvedPeers<'_>) -> Relative {
    let mut relative = Relative::No;
    peers.for_each(|peer| {
        if let ResolvedPeer::Pods(set) = peer {
            relative = relative.max(depends_on(&set.namespaces));
        }
    });
    relative
}

/// The groups of nodes with these labels.
fn labelled(groups: &Groups<'_>, selector: &Selector) -> Shared {
    let is_labelled = |at: &u32| match groups.get(*at).whose {
        Whose::Host(Some(node)) => selector.matches(&groups.context.snapshot.nodes()[node].labels),
        _ => false,
    };
    in_order(groups.hosts().filter(is_labelled))
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
