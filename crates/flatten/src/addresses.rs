//! The sets that an address is in.

use std::collections::HashMap;
use std::net::IpAddr;

use palisade_engine::delta::{Member, SetId};
use palisade_engine::selection::{Selection, SetKind};
use smallvec::SmallVec;

/// For each address the sets with members that have it: the members of sets, inverted.
#[derive(Debug, Default)]
pub struct AddressIndex {
    /// With the number of members of the set that have the address.
    sets: HashMap<IpAddr, SmallVec<[(SetId, u32); 4]>>,
}

/// Returns whether the members of a set are peers by their addresses. Blocks have no members, and connections to a service are
/// recognised by the address before translation.
pub fn has_peer_addresses(selection: &Selection) -> bool {
    match selection.kind() {
        SetKind::Pods | SetKind::Nodes | SetKind::Names => true,
        SetKind::Addresses | SetKind::Service => false,
    }
}

// === impl AddressIndex ===

impl AddressIndex {
    /// Adds a member of a set.
    pub fn join(&mut self, set: SetId, member: &Member) {
        for address in &member.addresses {
            let sets = self.sets.entry(*address).or_default();
            match sets.iter_mut().find(|(own, _)| *own == set) {
                Some((_, count)) => *count += 1,
                None => sets.push((set, 1)),
            }
        }
    }

    /// Removes a member of a set.
    pub fn leave(&mut self, set: SetId, member: &Member) {
        for address in &member.addresses {
            let Some(sets) = self.sets.get_mut(address) else { continue };
            if let Some(index) = sets.iter().position(|(own, _)| *own == set) {
                sets[index].1 -= 1;
                if sets[index].1 == 0 {
                    sets.swap_remove(index);
                }
            }
            if sets.is_empty() {
                self.sets.remove(address);
            }
        }
    }

    /// Returns the number of addresses that are in some set.
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Returns whether no address is in any set.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Returns the sets with members that have this address.
    pub fn sets_of(&self, address: IpAddr) -> impl Iterator<Item = SetId> {
        self.sets.get(&address).into_iter().flatten().map(|(set, _)| *set)
    }
}
