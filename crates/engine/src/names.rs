//! What DNS names stand for: what somebody resolved, and the pods of headless services, which the cluster's own DNS
//! resolves to.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_model::policy::DomainName;
use smol_str::SmolStr;

use crate::id::SetId;
use crate::pending::Pending;
use crate::table::References;

/// Names and addresses.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// What each name stands for, and how often somebody says so.
    known: BTreeMap<SmolStr, BTreeMap<IpAddr, u32>>,
    sets: BTreeMap<SetId, NameSet>,
    /// The sets that want a name as it is, and those that want names of some form.
    by_name: References<SmolStr, SetId>,
    by_form: BTreeSet<SetId>,
}

#[derive(Debug)]
struct NameSet {
    wanted: Vec<DomainName>,
    /// By how many names.
    addresses: BTreeMap<IpAddr, u32>,
}

// === impl Names ===

impl Names {
    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty() && self.sets.is_empty() && self.by_name.is_empty() && self.by_form.is_empty()
    }

    /// Whether an address is in a set.
    pub(crate) fn holds(&self, set: SetId, address: IpAddr) -> bool {
        self.sets.get(&set).is_some_and(|set| set.addresses.contains_key(&address))
    }

    /// The addresses of a set.
    pub(crate) fn addresses(&self, set: SetId) -> impl Iterator<Item = IpAddr> {
        self.sets.get(&set).into_iter().flat_map(|set| set.addresses.keys().copied())
    }

    /// A new set.
    pub(crate) fn select(&mut self, set: SetId, wanted: &[DomainName]) {
        let mut addresses = BTreeMap::new();
        for (name, known) in &self.known {
            if wanted.iter().any(|wanted| wanted.matches(name)) {
                for address in known.keys() {
                    *addresses.entry(*address).or_insert(0) += 1;
                }
            }
        }
        self.sets.insert(set, NameSet { wanted: wanted.to_vec(), addresses });
        self.list(set, wanted, true);
    }

    fn list(&mut self, set: SetId, wanted: &[DomainName], there: bool) {
        for name in wanted {
            match name {
                DomainName::Exact(name) => self.by_name.note(name.clone(), set, there),
                DomainName::Below(_) | DomainName::Form(_) if there => drop(self.by_form.insert(set)),
                DomainName::Below(_) | DomainName::Form(_) => drop(self.by_form.remove(&set)),
            }
        }
    }

    /// The sets that want a name.
    fn wanting(&self, name: &str) -> Vec<SetId> {
        let plain = DomainName::canonical(name);
        let exact = self.by_name.get(&plain).copied();
        let of_form = self.by_form.iter().copied().filter(|set| self.sets[set].wants(name));
        let mut sets: Vec<SetId> = exact.chain(of_form).collect();
        sets.sort_unstable();
        sets.dedup();
        sets
    }

    /// A set is gone.
    pub(crate) fn unselect(&mut self, set: SetId) {
        if let Some(gone) = self.sets.remove(&set) {
            self.list(set, &gone.wanted, false);
        }
    }

    /// Somebody says that a name stands for an address.
    pub(crate) fn say(&mut self, name: &SmolStr, address: IpAddr, pending: &mut Pending) {
        let said = self.known.entry(name.clone()).or_default().entry(address).or_insert(0);
        *said += 1;
        if *said > 1 {
            return;
        }
        for id in self.wanting(name) {
            let Some(set) = self.sets.get_mut(&id) else { continue };
            let names = set.addresses.entry(address).or_insert(0);
            *names += 1;
            if *names == 1 {
                pending.move_address(id, address, 1);
            }
        }
    }

    /// Somebody does not say so any more.
    pub(crate) fn unsay(&mut self, name: &SmolStr, address: IpAddr, pending: &mut Pending) {
        let Some(known) = self.known.get_mut(name) else { return };
        let Some(said) = known.get_mut(&address) else { return };
        *said -= 1;
        if *said > 0 {
            return;
        }
        known.remove(&address);
        if known.is_empty() {
            self.known.remove(name);
        }
        for id in self.wanting(name) {
            let Some(set) = self.sets.get_mut(&id) else { continue };
            if let Some(names) = set.addresses.get_mut(&address) {
                *names -= 1;
                if *names == 0 {
                    set.addresses.remove(&address);
                    pending.move_address(id, address, -1);
                }
            }
        }
    }
}

// === impl NameSet ===

impl NameSet {
    fn wants(&self, name: &str) -> bool {
        self.wanted.iter().any(|wanted| wanted.matches(name))
    }
}
