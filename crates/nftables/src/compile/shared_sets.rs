//! Sets of the peers of one condition, which all lists with that condition share.

use std::collections::BTreeSet;

use palisade_engine::delta::SetId;
use palisade_engine::view::View;
use palisade_flatten::has_peer_addresses;
use palisade_model::address::Family;

use super::index::address_key;
use crate::program::{Elements, Name};

/// The peers in any of some sets of the view.
#[derive(Debug)]
pub(crate) struct SharedSet {
    pub(crate) sets: Vec<SetId>,
    /// Families that chains have a rule for.
    pub(crate) shown: BTreeSet<Family>,
    /// Lists with the condition.
    pub(crate) lists: BTreeSet<Name>,
}

// === impl SharedSet ===

impl SharedSet {
    /// Returns the comment of the set in the kernel: what its sets select.
    pub(crate) fn comment(&self, view: &View) -> String {
        let sets = self.sets.iter().filter_map(|set| view.sets().get(set));
        let mut selections: Vec<String> = sets
            .filter(|set| has_peer_addresses(&set.selection))
            .map(|set| set.selection.to_string())
            .collect();
        selections.sort();
        selections.join(", or ")
    }

    /// Returns the addresses of the peers.
    pub(crate) fn elements(&self, view: &View, family: Family) -> Elements {
        let sets = self.sets.iter().filter_map(|set| view.sets().get(set));
        let sets = sets.filter(|set| has_peer_addresses(&set.selection));
        let addresses = sets.flat_map(|set| &set.members).flat_map(|member| &member.addresses);
        let own = addresses.filter(|address| Family::of(**address) == family);
        own.map(|address| (address_key(*address), None)).collect()
    }
}
