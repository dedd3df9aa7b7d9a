//! Who peers are to a list of rules: addresses by what they may do.
//!
//! Whoever may do the same is in one class, whatever sets that comes from, and a class is a set in the kernel. Lists that tell
//! peers apart in the same way share their classes: a hundred namespaces that let in the same peers keep them once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use palisade_engine::delta::{Content, SetId};
use palisade_engine::view::View;
use palisade_model::address::{Family, next, previous};
use palisade_model::ranges::Ranges;

use super::decide::List;
use super::index::Index;
use super::names::{digest, hashed};
use crate::program::{Key, Name, Value};

/// A class, by its place. The first is whoever is in none of the sets.
pub(crate) type Class = usize;

/// How peers are told apart.
#[derive(Debug)]
pub(crate) struct Classifier {
    name: Name,
    how: How,
    /// The sets that make a difference.
    pub(crate) sets: BTreeSet<SetId>,
    /// Those of them that are ranges of addresses.
    blocks: Vec<(SetId, Arc<Content>)>,
    /// Classes in the order in which somebody was first in them, each with a digest of what it may do and with sets that lead
    /// there.
    pub(crate) classes: Vec<(Name, Vec<SetId>)>,
    known: BTreeMap<Vec<SetId>, Class>,
    /// Addresses of members. They come before ranges, which may hold them, too.
    pub(crate) exact: BTreeMap<IpAddr, Class>,
    /// How many of a family are in each class.
    counts: BTreeMap<(Family, Class), usize>,
    /// Classes that chains have rules for, by family: also those that nobody is in any more, until somebody tidies up.
    pub(crate) shown: BTreeSet<(Family, Class)>,
    /// Ranges of addresses whose class is not the first; they do not overlap.
    pub(crate) ranges: Vec<(IpAddr, IpAddr, Class)>,
}

/// What a class is made by.
#[derive(Debug)]
enum How {
    /// All rules ask the same: whether somebody is in any of the sets.
    Any,
    /// What the list says to somebody. If it is there, everybody is in this set, which is the service they go to.
    List(Arc<List>, Option<SetId>),
}

// === impl Classifier ===

impl Classifier {
    /// The name of the one that a list needs, and the sets if all its rules ask the same; nothing if it tells nobody apart.
    pub(crate) fn name(
        list: &List,
        via: Option<&Name>,
        shapes: &[Name],
        mut set: impl FnMut(SetId) -> Name,
    ) -> Option<(Name, bool)> {
        let mut asked: Option<Vec<SetId>> = None;
        let mut same = via.is_none();
        for rule in &list.rules {
            let destination = list.destination(rule);
            let sets: Vec<SetId> = match (&rule.peers, destination) {
                (None, None) => continue,
                (None, Some(set)) => vec![set],
                (Some(sets), _) => {
                    same &= destination.is_none();
                    let mut sets = sets.to_vec();
                    sets.sort_unstable();
                    sets
                }
            };
            if !sets.is_empty() {
                same &= asked.as_ref().is_none_or(|other| *other == sets);
                asked = Some(sets);
            }
        }
        let asked = asked?;
        if same {
            let mut names: Vec<Name> = asked.into_iter().map(&mut set).collect();
            names.sort();
            return Some((digest(&format!("any {names:?}")), true));
        }
        Some((digest(&format!("{} {via:?} {shapes:?}", list.direction)), false))
    }

    pub(crate) fn new(
        name: Name,
        same: bool,
        list: &Arc<List>,
        via: Option<SetId>,
        view: &View,
        index: &Index,
    ) -> Classifier {
        let sets = list.named();
        let blocks = sets.iter().filter_map(|id| {
            let content = &view.sets().get(id)?.content;
            matches!(**content, Content::Addresses(_)).then(|| (*id, Arc::clone(content)))
        });
        let mut classifier = Classifier {
            name,
            how: if same { How::Any } else { How::List(Arc::clone(list), via) },
            blocks: blocks.collect(),
            sets,
            classes: Vec::new(),
            known: BTreeMap::new(),
            exact: BTreeMap::new(),
            counts: BTreeMap::new(),
            shown: BTreeSet::new(),
            ranges: Vec::new(),
        };
        classifier.class(classifier.signature([].into_iter()));
        let mut ranges = Vec::new();
        for (first, last, own) in cut(&classifier.blocks) {
            let signature = classifier.signature(own.into_iter());
            ranges.push((first, last, classifier.class(signature)));
        }
        ranges.retain(|(.., class)| *class != 0);
        classifier.ranges = joined(ranges);
        let members =
            classifier.sets.iter().filter_map(|id| view.sets().get(id)).flat_map(|set| &set.members);
        let addresses: BTreeSet<IpAddr> = members.flat_map(|member| &member.addresses).copied().collect();
        for address in addresses {
            classifier.place(address, index);
        }
        classifier
    }

    /// Puts an address into the class it belongs to now. Says from where it went where, if it did.
    pub(crate) fn place(&mut self, address: IpAddr, index: &Index) -> Option<(Option<Class>, Option<Class>)> {
        let mut own = index.sets_of(address).filter(|set| self.sets.contains(set)).peekable();
        let is_member = own.peek().is_some();
        let signature = {
            let mut signature: Vec<SetId> = own.collect();
            signature
                .extend(self.blocks.iter().filter(|(_, block)| holds(block, address)).map(|(id, _)| *id));
            self.signature(signature.into_iter())
        };
        // A member must not fall through to a range that holds it, even if it may do what anybody may.
        let now =
            is_member.then(|| self.class(signature)).filter(|class| *class != 0 || !self.ranges.is_empty());
        let before = match now {
            Some(class) => self.exact.insert(address, class),
            None => self.exact.remove(&address),
        };
        if before == now {
            return None;
        }
        let family = Family::of(address);
        if let Some(count) = before.and_then(|class| self.counts.get_mut(&(family, class))) {
            *count -= 1;
        }
        if let Some(class) = now {
            *self.counts.entry((family, class)).or_default() += 1;
        }
        Some((before, now))
    }

    /// Forgets classes that nobody is in. Says whether chains that show them are to be made again.
    pub(crate) fn tidy(&mut self) -> bool {
        self.counts.retain(|_, count| *count > 0);
        let shown: BTreeSet<(Family, Class)> = self.counts.keys().copied().collect();
        let changed = shown != self.shown;
        self.shown = shown;
        changed
    }

    /// The classes that members of a family are in.
    pub(crate) fn shown(&self, family: Family) -> impl Iterator<Item = Class> {
        self.shown.iter().filter(move |(own, _)| *own == family).map(|(_, class)| *class)
    }

    /// The name of the set for a class.
    pub(crate) fn set(&self, family: Family, class: Class) -> Name {
        let class = match self.how {
            How::Any => "in",
            How::List(..) => self.classes.get(class).map_or("", |(name, _)| name.as_str()),
        };
        hashed("s", &format!("{} {family:?} {class}", self.name))
    }

    /// Those of a family in a class.
    pub(crate) fn members(&self, family: Family, class: Class) -> impl Iterator<Item = Key> {
        let own = self.exact.iter();
        let own = own.filter(move |(address, own)| **own == class && Family::of(**address) == family);
        own.map(|(address, _)| address_key(*address))
    }

    /// The ranges of a family, by class.
    pub(crate) fn ranges(&self, family: Family) -> BTreeMap<Class, Vec<Key>> {
        let mut ranges: BTreeMap<Class, Vec<Key>> = BTreeMap::new();
        for (first, last, class) in self.ranges.iter().filter(|(first, ..)| Family::of(*first) == family) {
            ranges.entry(*class).or_default().push(vec![(Value::Address(*first), Value::Address(*last))]);
        }
        ranges
    }

    fn signature(&self, own: impl Iterator<Item = SetId>) -> Vec<SetId> {
        let via = match &self.how {
            How::Any => None,
            How::List(_, via) => *via,
        };
        let mut signature: Vec<SetId> = own.chain(via).collect();
        signature.sort_unstable();
        signature.dedup();
        signature
    }

    fn class(&mut self, signature: Vec<SetId>) -> Class {
        if let Some(class) = self.known.get(&signature) {
            return *class;
        }
        let name = match &self.how {
            How::Any => if signature.is_empty() { "out" } else { "in" }.into(),
            How::List(list, _) => digest(&format!("{:?}", list.behaviour(&signature))),
        };
        let class = self.classes.iter().position(|(own, _)| *own == name).unwrap_or_else(|| {
            self.classes.push((name, signature.clone()));
            self.classes.len() - 1
        });
        self.known.insert(signature, class);
        class
    }
}

fn holds(content: &Content, address: IpAddr) -> bool {
    matches!(content, Content::Addresses(ranges) if ranges.contains(address))
}

pub(crate) fn address_key(address: IpAddr) -> Key {
    vec![(Value::Address(address), Value::Address(address))]
}

/// Ranges cut where one of them begins or ends, with the sets that hold each piece.
fn cut(blocks: &[(SetId, Arc<Content>)]) -> Vec<(IpAddr, IpAddr, Vec<SetId>)> {
    let blocks: Vec<(SetId, &Ranges)> = blocks
        .iter()
        .filter_map(|(id, content)| match &**content {
            Content::Addresses(ranges) => Some((*id, ranges)),
            _ => None,
        })
        .collect();
    let mut pieces = Vec::new();
    for v4 in [true, false] {
        // Where something begins or ends, with what does.
        let mut turns: BTreeMap<IpAddr, (Vec<SetId>, Vec<SetId>)> = BTreeMap::new();
        for (id, ranges) in &blocks {
            for (first, last) in ranges.iter().filter(|(first, _)| first.is_ipv4() == v4) {
                turns.entry(first).or_default().0.push(*id);
                if let Some(after) = next(last) {
                    turns.entry(after).or_default().1.push(*id);
                }
            }
        }
        let ends: Vec<IpAddr> = turns.keys().skip(1).filter_map(|start| previous(*start)).collect();
        let mut now: BTreeSet<SetId> = BTreeSet::new();
        for (at, (first, (begin, end))) in turns.into_iter().enumerate() {
            for id in &end {
                now.remove(id);
            }
            now.extend(begin);
            if !now.is_empty() {
                let last = ends.get(at).copied().unwrap_or_else(|| the_last(v4));
                pieces.push((first, last, now.iter().copied().collect()));
            }
        }
    }
    pieces
}

/// Ranges of one class that touch each other become one.
fn joined(ranges: Vec<(IpAddr, IpAddr, Class)>) -> Vec<(IpAddr, IpAddr, Class)> {
    let mut all: Vec<(IpAddr, IpAddr, Class)> = Vec::with_capacity(ranges.len());
    for (first, last, class) in ranges {
        match all.last_mut() {
            Some((_, end, own)) if *own == class && next(*end) == Some(first) => *end = last,
            _ => all.push((first, last, class)),
        }
    }
    all
}

fn the_last(v4: bool) -> IpAddr {
    if v4 { IpAddr::from([255; 4]) } else { IpAddr::from([255; 16]) }
}
