//! Who peers are to a list of rules: addresses by what they may do.
//!
//! Whoever may do the same is in one class, whatever conditions that comes from, and a class is a set in the kernel. Those who
//! may do what everybody may of the layer they are in ([`super::layers`]) are found there, and not kept here again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use palisade_engine::delta::SetId;
use palisade_engine::selection::Selection;
use palisade_engine::view::View;
use palisade_model::address::{Family, next, previous};
use palisade_model::ranges::Ranges;

use super::FAMILIES;
use super::budget::{BYTE, Budget};
use super::decide::{Condition, List};
use super::index::{Index, tells_peers};
use super::layers::Layer;
use super::names::{digest, hashed};
use crate::program::{Key, Name, Value};

/// A class, by its place. The first is whoever fulfils no condition.
pub(crate) type Class = usize;

/// A list with what is known of it before any peer is looked at; shared with the lists of the same rules for what goes to
/// services.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) list: Arc<List>,
    /// The conditions that are looked up by themselves.
    pub(crate) layers: Vec<Layer>,
    /// A digest of what its rules say to peers.
    pub(crate) shapes: Name,
    /// Those of the list's sets that are ranges of addresses.
    pub(crate) blocks: Blocks,
    /// Those of the list's sets that have members by address, who come and go.
    pub(crate) peers: Vec<SetId>,
}

/// Sets that are ranges of addresses.
pub(crate) type Blocks = Arc<[(SetId, Arc<Selection>)]>;

/// How peers are told apart.
#[derive(Debug)]
pub(crate) struct Classifier {
    name: Name,
    list: Arc<List>,
    /// If it is there, everybody is in this set: it is the service they go to.
    via: Option<SetId>,
    /// Whom to find elsewhere: the condition, and the class of everybody there, by family.
    layers: Vec<(Condition, [Class; 2])>,
    /// Those of the list's sets that are ranges of addresses.
    blocks: Blocks,
    /// Classes in the order in which somebody was first in them, each with a digest of what it may do and with conditions that
    /// lead there.
    pub(crate) classes: Vec<(Name, Vec<Condition>)>,
    by_name: BTreeMap<Name, Class>,
    known: BTreeMap<Vec<Condition>, Class>,
    /// Addresses of members that no layer finds. They come before ranges, which may hold them, too.
    pub(crate) exact: BTreeMap<IpAddr, Class>,
    /// How many of a family are in each class.
    counts: BTreeMap<(Family, Class), usize>,
    /// Classes that chains have rules for, by family: also those that nobody is in any more, until somebody tidies up.
    pub(crate) shown: BTreeSet<(Family, Class)>,
    /// Ranges of addresses whose class is not the first; they do not overlap.
    pub(crate) ranges: Vec<(IpAddr, IpAddr, Class)>,
    /// How much the classes tell apart, all together. If that is too much, nobody is told apart and all are denied.
    pieces: usize,
    /// Whether it could not be made within its budget: it is not complete then, and all are denied.
    spent: bool,
}

/// Steps for a set that a peer is in, or a condition that it fulfils.
const CONDITION: u64 = 30;
/// Steps to look up the conditions of a peer.
const LOOKUP: u64 = 200;
/// Steps to digest a piece of traffic that a new class tells apart.
const PIECE: u64 = 1_500;
/// Steps to keep the class of an address.
const ADDRESS: u64 = 100 * BYTE;
/// Steps to ask whether a block holds an address, and to sort a range of a block.
const BLOCK: u64 = 20;
const RANGE: u64 = 300;

/// More pieces of traffic than this are not told apart for all peers of a list.
const MOST_PIECES: usize = 200_000;

// === impl Parts ===

impl Parts {
    pub(crate) fn new(list: Arc<List>, layers: Vec<Layer>, shapes: Name, view: &View) -> Self {
        let selection = |id: SetId| Some((id, Arc::clone(&view.sets().get(&id)?.selection)));
        let sets = || list.named().filter_map(selection);
        let blocks = sets().filter(|(_, selection)| selection.ranges().is_some()).collect();
        let peers = sets().filter(|(_, selection)| tells_peers(selection)).map(|(id, _)| id).collect();
        Parts { list, layers, shapes, blocks, peers }
    }
}

// === impl Classifier ===

impl Classifier {
    pub(crate) fn new(
        name: Name,
        Parts { list, layers, blocks, peers, .. }: &Parts,
        via: Option<SetId>,
        view: &View,
        index: &Index,
        budget: &mut Budget,
    ) -> Classifier {
        let mut classifier = Classifier {
            name,
            list: Arc::clone(list),
            via,
            layers: Vec::new(),
            blocks: Arc::clone(blocks),
            classes: Vec::new(),
            by_name: BTreeMap::new(),
            known: BTreeMap::new(),
            exact: BTreeMap::new(),
            counts: BTreeMap::new(),
            shown: BTreeSet::new(),
            ranges: Vec::new(),
            pieces: 0,
            spent: false,
        };
        budget.take(CONDITION * peers.len() as u64);
        classifier.class_of([].into_iter(), budget);
        let ends: usize = classifier.blocks.iter().map(|(_, block)| count(block)).sum();
        budget.take(RANGE * ends as u64);
        let mut ranges = Vec::new();
        cut(blocks, &mut |first, last, own| {
            ranges.push((first, last, classifier.class_of(own.iter().copied(), budget)));
            !classifier.is_too_much()
        });
        if classifier.is_too_much() {
            if classifier.spent {
                classifier.forget();
            }
            return classifier;
        }
        ranges.retain(|(.., class)| *class != 0);
        classifier.ranges = joined(ranges);
        for layer in layers {
            let classes = FAMILIES.map(|family| {
                let whole = classifier.blocks.iter().filter(|(_, block)| is_whole(block, family));
                let whole = whole.map(|(set, _)| *set).chain(via).collect::<Vec<_>>();
                let mut fulfilled = list.fulfilled(whole.into_iter());
                fulfilled.extend(&layer.fulfilled);
                fulfilled.sort_unstable();
                fulfilled.dedup();
                classifier.class(fulfilled, budget)
            });
            classifier.layers.push((layer.condition, classes));
        }
        let but_for = classifier.found_by_layers(view, budget);
        let sets = peers.iter().filter(|set| Some(**set) != but_for).filter_map(|id| view.sets().get(id));
        let members = sets.flat_map(|set| &set.members);
        let addresses: BTreeSet<IpAddr> = members.flat_map(|member| &member.addresses).copied().collect();
        for address in addresses {
            budget.take(ADDRESS + BLOCK * classifier.blocks.len() as u64);
            classifier.place_within(address, index, budget);
            if classifier.is_too_much() {
                break;
            }
        }
        if classifier.spent {
            classifier.forget();
        }
        classifier
    }

    /// Gives back the memory of a classifier that is not finished, which nobody asks.
    fn forget(&mut self) {
        self.layers.clear();
        self.blocks = Arc::new([]);
        self.classes.clear();
        self.by_name.clear();
        self.known.clear();
        self.exact.clear();
        self.counts.clear();
        self.ranges.clear();
    }

    /// Whether it could not be made within its budget.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent
    }

    /// The largest set of which all members are found by layers if they are in no other set, so that only the others need to be
    /// looked at.
    fn found_by_layers(&mut self, view: &View, budget: &mut Budget) -> Option<SetId> {
        let is_partial = |block: &Selection| FAMILIES.iter().any(|family| !is_whole(block, *family));
        if self.blocks.iter().any(|(_, block)| is_partial(block)) {
            return None;
        }
        if self.layers.is_empty() {
            return None;
        }
        let blocks: Vec<SetId> = self.blocks.iter().map(|(id, _)| *id).collect();
        let list = Arc::clone(&self.list);
        let found = list.named().filter(|set| {
            budget.take(LOOKUP);
            let own = list.fulfilled([*set].into_iter());
            let layer = self.layers.iter().find(|(condition, _)| own.binary_search(condition).is_ok());
            let Some((_, classes)) = layer.copied() else { return false };
            classes == [self.class_of(blocks.iter().copied().chain([*set]), budget); 2]
        });
        found.max_by_key(|set| view.sets().get(set).map_or(0, |set| set.members.len()))
    }

    /// Whether peers are too many kinds to be told apart.
    pub(crate) fn is_too_much(&self) -> bool {
        self.spent || self.pieces > MOST_PIECES
    }

    /// Puts an address into the class it belongs to now. Says from where it went where, if it did.
    pub(crate) fn place(&mut self, address: IpAddr, index: &Index) -> Option<(Option<Class>, Option<Class>)> {
        self.place_within(address, index, &mut Budget::unlimited())
    }

    fn place_within(
        &mut self,
        address: IpAddr,
        index: &Index,
        budget: &mut Budget,
    ) -> Option<(Option<Class>, Option<Class>)> {
        let own = self.list.fulfilled(index.sets_of(address));
        let now = if own.is_empty() { None } else { self.found(address, &own, index, budget) };
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

    /// The class of a member, unless it is found without.
    fn found(
        &mut self,
        address: IpAddr,
        own: &[Condition],
        index: &Index,
        budget: &mut Budget,
    ) -> Option<Class> {
        let blocks =
            self.blocks.iter().filter(|(_, block)| block.contains_address(address)).map(|(id, _)| *id);
        let sets: Vec<SetId> = index.sets_of(address).chain(blocks).collect();
        budget.take(CONDITION * sets.len() as u64);
        let class = self.class_of(sets.into_iter(), budget);
        let family = usize::from(Family::of(address) == Family::V6);
        let layer = self.layers.iter().find(|(condition, _)| own.binary_search(condition).is_ok());
        match layer {
            Some((_, classes)) => (classes[family] != class).then_some(class),
            // A member must not fall through to a range that holds it, even if it may do what anybody may.
            None => (class != 0 || !self.ranges.is_empty()).then_some(class),
        }
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

    /// The class of everybody whom a layer means.
    pub(crate) fn layer(&self, condition: Condition, family: Family) -> Option<Class> {
        let layer = self.layers.iter().find(|(own, _)| *own == condition)?;
        Some(layer.1[usize::from(family == Family::V6)])
    }

    /// The name of the set for a class.
    pub(crate) fn set(&self, family: Family, class: Class) -> Name {
        let class = self.classes.get(class).map_or("", |(name, _)| name.as_str());
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

    /// The class of somebody in these sets.
    fn class_of(&mut self, sets: impl Iterator<Item = SetId>, budget: &mut Budget) -> Class {
        let fulfilled = self.list.fulfilled(sets.chain(self.via));
        self.class(fulfilled, budget)
    }

    fn class(&mut self, fulfilled: Vec<Condition>, budget: &mut Budget) -> Class {
        budget.take(LOOKUP + CONDITION * fulfilled.len() as u64);
        if let Some(class) = self.known.get(&fulfilled) {
            return *class;
        }
        if self.is_too_much() {
            return 0;
        }
        budget.take(BYTE * size_of_val(fulfilled.as_slice()) as u64);
        let behaviour = self.list.behaviour(&fulfilled, budget);
        budget.take(PIECE * behaviour.pieces() as u64);
        // What a behaviour would be with more work is not known, and must not be taken for a class.
        if budget.is_spent() {
            self.spent = true;
            return 0;
        }
        let name = digest(&format!("{behaviour:?}"));
        if !self.by_name.contains_key(&name) {
            self.pieces += behaviour.pieces();
        }
        let class = *self.by_name.entry(name).or_insert_with_key(|name| {
            self.classes.push((name.clone(), fulfilled.clone()));
            self.classes.len() - 1
        });
        self.known.insert(fulfilled, class);
        class
    }
}

/// Whether it holds every address of a family.
fn is_whole(block: &Selection, family: Family) -> bool {
    let first = if family == Family::V4 { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
    let ends = (first, the_last(family == Family::V4));
    block.ranges().is_some_and(|ranges| ranges.iter().any(|range| range == ends))
}

fn count(block: &Selection) -> usize {
    block.ranges().map_or(0, Ranges::len)
}

pub(crate) fn address_key(address: IpAddr) -> Key {
    vec![(Value::Address(address), Value::Address(address))]
}

/// Ranges cut where one of them begins or ends, with the sets that hold each piece, for as long as somebody wants more.
fn cut(blocks: &[(SetId, Arc<Selection>)], piece: &mut dyn FnMut(IpAddr, IpAddr, &BTreeSet<SetId>) -> bool) {
    let blocks: Vec<(SetId, &Ranges)> =
        blocks.iter().filter_map(|(id, block)| Some((*id, block.ranges()?))).collect();
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
                if !piece(first, last, &now) {
                    return;
                }
            }
        }
    }
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
