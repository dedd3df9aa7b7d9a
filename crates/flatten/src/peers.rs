//! Peers of a list by the verdicts they get.
//!
//! Peers with equal verdicts are one class, whichever conditions that comes from, and a data plane keeps one set of addresses for
//! it. Peers that get what all peers of a [`SharedCondition`] get are found there and are in no class.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use palisade_engine::delta::SetId;
use palisade_engine::selection::Selection;
use palisade_engine::view::View;
use palisade_model::address::Family;

use crate::addresses::{AddressIndex, has_peer_addresses};
use crate::budget::{BYTE, Budget};
use crate::digest::Digest;
use crate::rule_list::{ConditionId, RuleList};
use crate::shared::SharedCondition;

mod ranges;

/// The sets by which a list distinguishes peers.
#[derive(Debug)]
pub struct PeerSets {
    /// The list.
    pub list: Arc<RuleList>,
    /// Conditions that are looked up by themselves.
    pub shared: Vec<SharedCondition>,
    /// Those of the list's sets that are blocks of addresses.
    pub blocks: Blocks,
    /// Those of the list's sets whose members are peers by address, and change.
    pub members: Vec<SetId>,
}

/// Sets that are blocks of addresses.
pub type Blocks = Arc<[(SetId, Arc<Selection>)]>;

/// Index of a class of peers. [`ClassId::OTHERS`] holds the addresses that meet no condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(u32);

/// Peers with equal verdicts.
#[derive(Debug)]
pub struct PeerClass {
    /// Digest of the verdicts.
    pub digest: Digest,
    /// Conditions of some peer in the class: flattening the list for them gives the verdicts.
    pub met: Vec<ConditionId>,
}

/// Addresses of one class that no member of a set has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedRange {
    /// The first address.
    pub first: IpAddr,
    /// The last address, of the same family.
    pub last: IpAddr,
    /// The class.
    pub class: ClassId,
}

/// Every peer address of a list in one class.
#[derive(Debug)]
pub struct PeerClasses {
    list: Arc<RuleList>,
    /// A set that every peer is in: the service to which the connections go.
    via: Option<SetId>,
    /// Conditions that are looked up by themselves, with the class of their peers in each family.
    shared: Vec<(ConditionId, [ClassId; 2])>,
    blocks: Blocks,
    /// In the order in which a peer was first in them.
    classes: Vec<PeerClass>,
    by_digest: BTreeMap<Digest, ClassId>,
    by_conditions: BTreeMap<Vec<ConditionId>, ClassId>,
    /// Members that no shared condition finds. A data plane looks here before it looks at ranges, which may hold them too.
    members: BTreeMap<IpAddr, ClassId>,
    /// Number of members of a family in each class.
    counts: BTreeMap<(Family, ClassId), usize>,
    ranges: Vec<PlacedRange>,
    /// Number of entries of the verdicts of all classes.
    len: usize,
    /// Whether the budget was not enough; the classes are incomplete then.
    spent: bool,
}

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// Steps for a set that a peer is in, or a condition that it meets.
const CONDITION: u64 = 30;
/// Steps to look up the conditions of a peer.
const LOOKUP: u64 = 200;
/// Steps to digest an entry of the verdicts of a new class.
const ENTRY: u64 = 1_500;
/// Steps to keep the class of an address.
const ADDRESS: u64 = 100 * BYTE;
/// Steps to check whether a block holds an address.
const BLOCK: u64 = 20;
/// Steps to sort a range of a block.
const RANGE: u64 = 300;

/// Maximum number of entries of the verdicts of all classes of a list. A list that needs more denies everything.
const MOST_ENTRIES: usize = 200_000;

// === impl PeerSets ===

impl PeerSets {
    /// Returns the sets of a list.
    pub fn new(list: Arc<RuleList>, shared: Vec<SharedCondition>, view: &View) -> Self {
        let selection = |id: SetId| Some((id, Arc::clone(&view.sets().get(&id)?.selection)));
        let sets = || list.sets().filter_map(selection);
        let blocks = sets().filter(|(_, selection)| selection.ranges().is_some()).collect();
        let members = sets().filter(|(_, one)| has_peer_addresses(one)).map(|(id, _)| id).collect();
        PeerSets { list, shared, blocks, members }
    }
}

// === impl ClassId ===

impl ClassId {
    /// The class of addresses that meet no condition.
    pub const OTHERS: ClassId = ClassId(0);
}

// === impl PeerClasses ===

impl PeerClasses {
    /// Returns the classes of all peers, as far as the budget lasts: check [`is_spent`](Self::is_spent). `via` is the service to
    /// which all connections go, if the classes are for one.
    pub fn new(
        PeerSets { list, shared, blocks, members }: &PeerSets,
        via: Option<SetId>,
        view: &View,
        index: &AddressIndex,
        budget: &mut Budget,
    ) -> PeerClasses {
        let mut classes = PeerClasses {
            list: Arc::clone(list),
            via,
            shared: Vec::new(),
            blocks: Arc::clone(blocks),
            classes: Vec::new(),
            by_digest: BTreeMap::new(),
            by_conditions: BTreeMap::new(),
            members: BTreeMap::new(),
            counts: BTreeMap::new(),
            ranges: Vec::new(),
            len: 0,
            spent: false,
        };
        budget.take(CONDITION * members.len() as u64);
        classes.class_of([].into_iter(), budget);
        classes.place_ranges(blocks, budget);
        if !classes.is_closed() {
            classes.find_shared(shared, budget);
            classes.place_members(members, view, index, budget);
        }
        if classes.spent {
            classes.release();
        }
        classes
    }

    fn place_ranges(&mut self, blocks: &[(SetId, Arc<Selection>)], budget: &mut Budget) {
        let ends: usize = blocks.iter().map(|(_, block)| ranges::count(block)).sum();
        budget.take(RANGE * ends as u64);
        let mut placed = Vec::new();
        ranges::cut(blocks, &mut |first, last, sets| {
            placed.push(PlacedRange { first, last, class: self.class_of(sets.iter().copied(), budget) });
            !self.is_closed()
        });
        placed.retain(|range| range.class != ClassId::OTHERS);
        self.ranges = ranges::joined(placed);
    }

    fn find_shared(&mut self, shared: &[SharedCondition], budget: &mut Budget) {
        for one in shared {
            let classes = FAMILIES.map(|family| {
                let whole = self.blocks.iter().filter(|(_, block)| ranges::is_whole(block, family));
                let whole: Vec<SetId> = whole.map(|(set, _)| *set).chain(self.via).collect();
                let mut met = self.list.met(whole.into_iter());
                met.extend(&one.implied);
                met.sort_unstable();
                met.dedup();
                self.class(met, budget)
            });
            self.shared.push((one.condition, classes));
        }
    }

    fn place_members(&mut self, sets: &[SetId], view: &View, index: &AddressIndex, budget: &mut Budget) {
        let found = self.found_by_shared(view, budget);
        let sets = sets.iter().filter(|set| Some(**set) != found).filter_map(|id| view.sets().get(id));
        let members = sets.flat_map(|set| &set.members);
        let addresses: BTreeSet<IpAddr> = members.flat_map(|member| &member.addresses).copied().collect();
        for address in addresses {
            budget.take(ADDRESS + BLOCK * self.blocks.len() as u64);
            self.place_within(address, index, budget);
            if self.is_closed() {
                break;
            }
        }
    }

    /// Releases the memory of classes that are incomplete and never used.
    fn release(&mut self) {
        self.shared.clear();
        self.blocks = Arc::new([]);
        self.classes.clear();
        self.by_digest.clear();
        self.by_conditions.clear();
        self.members.clear();
        self.counts.clear();
        self.ranges.clear();
    }

    /// Returns whether the budget was not enough for all peers.
    pub fn is_spent(&self) -> bool {
        self.spent
    }

    /// Returns whether all peers are to be denied everything: the budget was not enough, or the classes have too many entries.
    pub fn is_closed(&self) -> bool {
        self.spent || self.len > MOST_ENTRIES
    }

    /// Returns the largest set whose members need not be placed: shared conditions find those that are in no other set.
    fn found_by_shared(&mut self, view: &View, budget: &mut Budget) -> Option<SetId> {
        let is_partial = |block: &Selection| FAMILIES.iter().any(|family| !ranges::is_whole(block, *family));
        if self.shared.is_empty() || self.blocks.iter().any(|(_, block)| is_partial(block)) {
            return None;
        }
        let blocks: Vec<SetId> = self.blocks.iter().map(|(id, _)| *id).collect();
        let list = Arc::clone(&self.list);
        let found = list.sets().filter(|set| {
            budget.take(LOOKUP);
            let met = list.met([*set].into_iter());
            let Some(classes) = self.shared_class(&met) else { return false };
            classes == [self.class_of(blocks.iter().copied().chain([*set]), budget); 2]
        });
        found.max_by_key(|set| view.sets().get(set).map_or(0, |set| set.members.len()))
    }

    /// Moves an address to the class it belongs to now. Returns its classes before and now, if they differ.
    pub fn place(
        &mut self,
        address: IpAddr,
        index: &AddressIndex,
    ) -> Option<(Option<ClassId>, Option<ClassId>)> {
        self.place_within(address, index, &mut Budget::unlimited())
    }

    fn place_within(
        &mut self,
        address: IpAddr,
        index: &AddressIndex,
        budget: &mut Budget,
    ) -> Option<(Option<ClassId>, Option<ClassId>)> {
        let met = self.list.met(index.sets_of(address));
        let now = if met.is_empty() { None } else { self.member_class(address, &met, index, budget) };
        let before = match now {
            Some(class) => self.members.insert(address, class),
            None => self.members.remove(&address),
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

    /// Returns the class of a member, unless a shared condition finds it.
    fn member_class(
        &mut self,
        address: IpAddr,
        met: &[ConditionId],
        index: &AddressIndex,
        budget: &mut Budget,
    ) -> Option<ClassId> {
        let blocks =
            self.blocks.iter().filter(|(_, block)| block.contains_address(address)).map(|(id, _)| *id);
        let sets: Vec<SetId> = index.sets_of(address).chain(blocks).collect();
        budget.take(CONDITION * sets.len() as u64);
        let class = self.class_of(sets.into_iter(), budget);
        match self.shared_class(met) {
            Some(classes) => (classes[family_index(Family::of(address))] != class).then_some(class),
            // Without a class of its own a member would be found by a range that holds it.
            None => (class != ClassId::OTHERS || !self.ranges.is_empty()).then_some(class),
        }
    }

    /// Returns the classes, by family, of the first shared condition that is met.
    fn shared_class(&self, met: &[ConditionId]) -> Option<[ClassId; 2]> {
        let shared = self.shared.iter().find(|(condition, _)| met.binary_search(condition).is_ok());
        shared.map(|(_, classes)| *classes)
    }

    /// Removes empty classes from the counts. Returns the classes that have members, by family.
    pub fn occupied(&mut self) -> BTreeSet<(Family, ClassId)> {
        self.counts.retain(|_, count| *count > 0);
        self.counts.keys().copied().collect()
    }

    /// Returns a class.
    pub fn get(&self, class: ClassId) -> Option<&PeerClass> {
        self.classes.get(class.0 as usize)
    }

    /// Returns the class of an address, found in the order in which a data plane looks it up: members, shared conditions, ranges.
    pub fn class_at(&self, address: IpAddr, index: &AddressIndex) -> ClassId {
        let family = Family::of(address);
        let shared =
            || Some(self.shared_class(&self.list.met(index.sets_of(address)))?[family_index(family)]);
        let range = || {
            let after = self.ranges.partition_point(|range| range.first <= address);
            let range = self.ranges.get(after.checked_sub(1)?)?;
            (address <= range.last).then_some(range.class)
        };
        let member = self.members.get(&address).copied();
        member.or_else(shared).or_else(range).unwrap_or(ClassId::OTHERS)
    }

    /// Returns the class of the peers of a shared condition.
    pub fn of_shared(&self, condition: ConditionId, family: Family) -> Option<ClassId> {
        let (_, classes) = self.shared.iter().find(|(own, _)| *own == condition)?;
        Some(classes[family_index(family)])
    }

    /// Returns the members that no shared condition finds, with their classes.
    pub fn members(&self) -> &BTreeMap<IpAddr, ClassId> {
        &self.members
    }

    /// Returns the ranges of addresses that are in another class than [`ClassId::OTHERS`]. They do not overlap; members in them
    /// are looked up before.
    pub fn ranges(&self) -> &[PlacedRange] {
        &self.ranges
    }

    /// Returns the class of a peer in these sets.
    fn class_of(&mut self, sets: impl Iterator<Item = SetId>, budget: &mut Budget) -> ClassId {
        let met = self.list.met(sets.chain(self.via));
        self.class(met, budget)
    }

    fn class(&mut self, met: Vec<ConditionId>, budget: &mut Budget) -> ClassId {
        budget.take(LOOKUP + CONDITION * met.len() as u64);
        if let Some(class) = self.by_conditions.get(&met) {
            return *class;
        }
        if self.is_closed() {
            return ClassId::OTHERS;
        }
        budget.take(BYTE * size_of_val(met.as_slice()) as u64);
        let verdicts = self.list.flatten(&met, budget);
        budget.take(ENTRY * verdicts.len() as u64);
        // What the verdicts would be with a larger budget is unknown: they must not become a class.
        if budget.is_spent() {
            self.spent = true;
            return ClassId::OTHERS;
        }
        let digest = verdicts.digest();
        let next = ClassId(u32::try_from(self.classes.len()).unwrap_or(u32::MAX));
        let class = *self.by_digest.entry(digest).or_insert(next);
        if class == next {
            self.len += verdicts.len();
            self.classes.push(PeerClass { digest, met: met.clone() });
        }
        self.by_conditions.insert(met, class);
        class
    }
}

fn family_index(family: Family) -> usize {
    usize::from(family == Family::V6)
}
