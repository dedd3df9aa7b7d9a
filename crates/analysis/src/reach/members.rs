//! Groups that subjects and peers select, by the model's own matching, once for each group.
//!
//! Few groups are candidates for a set: those of its namespaces with a label that it requires. Results are cached, so that
//! rules with the same selector share them.

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
use super::groups::{EndpointGroups, FastMap, GroupKind, number};
use by_values::ByValues;

/// Groups as intervals of their indices: sorted, none adjacent to another.
pub type Spans = Box<[(u32, u32)]>;

/// Shared [`Spans`].
pub type SharedSpans = Rc<[(u32, u32)]>;

/// How peers depend on the subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamespaceDependence {
    /// They do not.
    No,
    /// On labels of its namespace.
    Labels,
    /// On its namespace.
    Own,
}

/// Work to compare an address with a DNS name.
const NAME_WORK: u64 = 100;
/// Work to sort a span.
const SPAN_WORK: u64 = 20;
/// Work to match a group with a set.
const MATCH_WORK: u64 = 20;
/// Additional work of each requirement of the set.
const REQUIREMENT_WORK: u64 = 15;

/// Lookup of the groups of sets, with caches.
#[derive(Debug)]
pub struct MembershipLookup<'g, 's> {
    groups: &'g EndpointGroups<'s>,
    cuts: &'g Cuts,
    /// Groups of pod sets, by the subject's namespace where they are relative to it.
    sets: FastMap<(&'s PodSet, Option<usize>), SharedSpans>,
    /// Groups of pod sets that compare labels with the subject's namespace.
    by_values: FastMap<&'s PodSet, ByValues<'s>>,
    /// Namespaces that selectors match.
    namespaces: FastMap<&'s Selector, Rc<[usize]>>,
    /// Namespaces by label.
    labelled: FastMap<(&'s str, &'s str), Vec<usize>>,
    blocks: FastMap<&'s Block, SharedSpans>,
    hosts: FastMap<&'s Selector, SharedSpans>,
    /// Members of groups as peers, by the address of their list and the subject's namespace.
    grouped: FastMap<(*const GroupMember, Option<usize>), SharedSpans>,
    /// Work of lookups that is not charged yet.
    pub steps: u64,
    /// For each namespace the first one with the same values of all labels that relative peers compare.
    representative: Vec<usize>,
}

// === impl MembershipLookup ===

impl<'g, 's> MembershipLookup<'g, 's> {
    /// Creates a lookup with empty caches.
    pub fn new(groups: &'g EndpointGroups<'s>, cuts: &'g Cuts, resolution: &Resolution<'_>) -> Self {
        let mut labelled: FastMap<(&str, &str), Vec<usize>> = FastMap::default();
        for (at, namespace) in groups.context.snapshot.namespaces().iter().enumerate() {
            for label in namespace.labels.iter() {
                labelled.entry(label).or_default().push(at);
            }
        }
        MembershipLookup {
            groups,
            cuts,
            sets: FastMap::default(),
            by_values: FastMap::default(),
            namespaces: FastMap::default(),
            labelled,
            blocks: FastMap::default(),
            hosts: FastMap::default(),
            grouped: FastMap::default(),
            steps: 0,
            representative: by_values::representative(groups.context.snapshot, resolution),
        }
    }

    /// Returns the first namespace that relative peers do not distinguish from this one.
    pub fn representative(&self, namespace: usize) -> usize {
        self.representative[namespace]
    }

    /// Returns the groups that policies with these subjects apply to.
    pub fn subjects(&mut self, subjects: &'s [Subject]) -> SharedSpans {
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
        self.union_of(&found)
    }

    /// Returns the groups that peers select, seen from a subject's namespace.
    pub fn peers(&mut self, peers: &ResolvedPeers<'s>, relative_to: Option<usize>) -> SharedSpans {
        let ResolvedPeers::Of(peers) = peers else {
            return Rc::new([(0, number(self.groups.len()).saturating_sub(1))]);
        };
        let mut found = Vec::with_capacity(peers.len());
        for peer in peers {
            self.peer(*peer, relative_to, &mut found);
        }
        self.union_of(&found)
    }

    fn peer(&mut self, peer: ResolvedPeer<'s>, relative_to: Option<usize>, found: &mut Vec<SharedSpans>) {
        let snapshot = self.groups.context.snapshot;
        match peer {
            ResolvedPeer::Pods(set) => found.push(self.pods(set, relative_to)),
            ResolvedPeer::Addresses(blocks) => found.extend(blocks.iter().map(|block| self.block(block))),
            ResolvedPeer::Nodes(selector) => found.push(self.hosts(selector)),
            ResolvedPeer::Names(names) => {
                self.steps += NAME_WORK * (snapshot.named_addresses().count() * names.len()) as u64;
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
                let own = self.union_of(&own);
                self.grouped.insert(key, Rc::clone(&own));
                found.push(own);
            }
            // For connections through a service; no endpoint by itself.
            ResolvedPeer::Service(_) => {}
        }
    }

    fn block(&mut self, block: &'s Block) -> SharedSpans {
        if let Some(known) = self.blocks.get(block) {
            return Rc::clone(known);
        }
        let mut pieces = Vec::new();
        for (first, last) in self.cuts.intervals(self.groups.family, &Ranges::of([block])) {
            pieces.push(self.outside(first, last));
            pieces.extend(self.groups.in_blocks(first, last).map(|at| (at, at)));
        }
        let found: SharedSpans = spans(pieces).into();
        self.blocks.insert(block, Rc::clone(&found));
        found
    }

    fn outside(&self, first: u32, last: u32) -> (u32, u32) {
        let start = self.groups.outside().start;
        (start + first, start + last)
    }

    fn hosts(&mut self, selector: &'s Selector) -> SharedSpans {
        let groups = self.groups;
        Rc::clone(self.hosts.entry(selector).or_insert_with(|| labelled(groups, selector)))
    }

    /// Returns the groups of pods in a set.
    fn pods(&mut self, set: &'s PodSet, relative_to: Option<usize>) -> SharedSpans {
        // Without a subject's namespace relative peers select nothing.
        let known = match (&set.namespaces, relative_to) {
            (Namespaces::SameLabels(_) | Namespaces::NotSameLabels(_), Some(namespace)) => {
                return self.of_values(set, namespace);
            }
            (namespaces, None) if depends_on(namespaces) != NamespaceDependence::No => return Rc::new([]),
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

    /// Computes the groups of pods in a set, without the cache of sets.
    fn look_up(&mut self, set: &PodSet, relative_to: Option<usize>) -> SharedSpans {
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

    /// Returns the groups of these namespaces that are in a set, for a subject's namespace.
    fn held(&mut self, set: &PodSet, namespaces: &[usize], relative_to: Option<usize>) -> SharedSpans {
        let mut asked = 0_u64;
        let candidates = self.candidates(set, namespaces).inspect(|_| asked += 1);
        let found = in_order(candidates.filter(|at| self.is_in(set, *at, relative_to)));
        self.steps += asked * (MATCH_WORK + REQUIREMENT_WORK * set.pods.requirements().len() as u64);
        self.steps += MATCH_WORK * namespaces.len() as u64;
        found
    }

    /// Whether a group of pods is in a set, for a subject's namespace.
    fn is_in(&self, set: &PodSet, at: u32, relative_to: Option<usize>) -> bool {
        let sample = |at: u32| match self.groups.get(at).kind {
            GroupKind::Pods(sample, _) => Some(sample),
            _ => None,
        };
        // Sets depend on the subject's namespace at most: any pod of it represents the subject.
        let subject = relative_to.and_then(|own| self.groups.of_namespace(own).next()).unwrap_or(at);
        match (sample(at), sample(subject)) {
            (Some(pod), Some(subject)) => self.groups.context.holds(set, pod, Endpoint::Pod(subject)),
            _ => false,
        }
    }

    /// Returns candidate groups of these namespaces, in order: only those with the label that the set requires, if any.
    fn candidates<'l>(&'l self, set: &'l PodSet, namespaces: &'l [usize]) -> impl Iterator<Item = u32> + 'l {
        let labelled = set.pods.required_label().map(|label| self.groups.labelled(label));
        // Where few have the label, matching each is faster than scanning the namespaces.
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

    /// Returns the namespaces that a selector matches, in order.
    fn matching(&mut self, selector: &Selector) -> Rc<[usize]> {
        let namespaces = self.groups.context.snapshot.namespaces();
        let matches = |at: &usize| selector.matches(&namespaces[*at].labels);
        let found: Rc<[usize]> = match selector.required_label() {
            Some(label) => self.labelled.get(&label).into_iter().flatten().copied().filter(matches).collect(),
            None => (0..namespaces.len()).filter(matches).collect(),
        };
        self.steps +=
            namespaces.len() as u64 * (MATCH_WORK + REQUIREMENT_WORK * selector.requirements().len() as u64);
        found
    }

    /// Returns the union of these sets.
    fn union_of(&mut self, sets: &[SharedSpans]) -> SharedSpans {
        match sets {
            [] => Rc::new([]),
            [only] => Rc::clone(only),
            several => {
                self.steps += SPAN_WORK * several.iter().map(|set| set.len() as u64).sum::<u64>();
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
pub fn relative(peers: &ResolvedPeers<'_>) -> NamespaceDependence {
    let mut relative = NamespaceDependence::No;
    peers.for_each(|peer| {
        if let ResolvedPeer::Pods(set) = peer {
            relative = relative.max(depends_on(&set.namespaces));
        }
    });
    relative
}

/// Returns the groups of nodes that a selector matches.
fn labelled(groups: &EndpointGroups<'_>, selector: &Selector) -> SharedSpans {
    let is_labelled = |at: &u32| match groups.get(*at).kind {
        GroupKind::Host(Some(node)) => selector.matches(&groups.context.snapshot.nodes()[node].labels),
        _ => false,
    };
    in_order(groups.hosts().filter(is_labelled))
}

fn depends_on(namespaces: &Namespaces) -> NamespaceDependence {
    match namespaces {
        Namespaces::Named(_) | Namespaces::Matching(_) => NamespaceDependence::No,
        Namespaces::SameLabels(_) | Namespaces::NotSameLabels(_) => NamespaceDependence::Labels,
        Namespaces::Own => NamespaceDependence::Own,
    }
}

/// Merges sorted groups into spans.
fn in_order(groups: impl Iterator<Item = u32>) -> SharedSpans {
    let mut merged: Vec<(u32, u32)> = Vec::new();
    for at in groups {
        match merged.last_mut() {
            Some(open) if open.1 + 1 == at => open.1 = at,
            _ => merged.push((at, at)),
        }
    }
    merged.into()
}

fn in_any_order(groups: impl Iterator<Item = u32>) -> SharedSpans {
    spans(groups.map(|at| (at, at)).collect()).into()
}

/// Sorts and merges intervals into spans.
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
