//! Who is where: the sets of each address, and the sets and addresses of each of the node's own.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use palisade_engine::delta::{Member, MemberKind, SetId};
use palisade_engine::selection::{Selection, SetKind};
use smallvec::SmallVec;

/// Members of sets, the other way round.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// For each address, the sets with members that have it, and how many.
    addresses: HashMap<IpAddr, SmallVec<[(SetId, u32); 4]>>,
    /// The node's pods and the node itself, with their sets.
    pub(crate) own: BTreeMap<Arc<Member>, BTreeSet<SetId>>,
    /// The node's pods by address. Two may claim the same one.
    pub(crate) claims: BTreeMap<IpAddr, BTreeSet<Arc<Member>>>,
}

// === impl Index ===

impl Index {
    pub(crate) fn join(&mut self, set: SetId, selection: &Selection, member: &Arc<Member>, node: &str) {
        if tells_peers(selection) {
            for address in &member.addresses {
                let sets = self.addresses.entry(*address).or_default();
                match sets.iter_mut().find(|(own, _)| *own == set) {
                    Some((_, count)) => *count += 1,
                    None => sets.push((set, 1)),
                }
            }
        }
        if is_own(member, node) {
            self.own.entry(Arc::clone(member)).or_default().insert(set);
            for address in &member.addresses {
                self.claims.entry(*address).or_default().insert(Arc::clone(member));
            }
        }
    }

    pub(crate) fn leave(&mut self, set: SetId, selection: &Selection, member: &Arc<Member>, node: &str) {
        if tells_peers(selection) {
            for address in &member.addresses {
                let Some(sets) = self.addresses.get_mut(address) else { continue };
                if let Some(at) = sets.iter().position(|(own, _)| *own == set) {
                    sets[at].1 -= 1;
                    if sets[at].1 == 0 {
                        sets.swap_remove(at);
                    }
                }
                if sets.is_empty() {
                    self.addresses.remove(address);
                }
            }
        }
        if !is_own(member, node) {
            return;
        }
        let Some(sets) = self.own.get_mut(member) else { return };
        sets.remove(&set);
        if sets.is_empty() {
            self.own.remove(member);
            for address in &member.addresses {
                let Some(claims) = self.claims.get_mut(address) else { continue };
                claims.remove(member);
                if claims.is_empty() {
                    self.claims.remove(address);
                }
            }
        }
    }

    /// The number of addresses that are a member's of some set.
    pub(crate) fn peers(&self) -> usize {
        self.addresses.len()
    }

    /// The sets with members that have this address.
    pub(crate) fn sets_of(&self, address: IpAddr) -> impl Iterator<Item = SetId> {
        self.addresses.get(&address).into_iter().flatten().map(|(set, _)| *set)
    }
}

/// Whether a set's members are peers by their addresses. What goes to a service is told by the address before translation.
pub(crate) fn tells_peers(selection: &Selection) -> bool {
    matches!(selection.kind(), SetKind::Pods | SetKind::Nodes | SetKind::Names)
}

/// Whether somebody is a pod of this node, or the node.
pub(crate) fn is_own(member: &Member, node: &str) -> bool {
    match member.kind {
        MemberKind::Pod => member.is_on(node),
        MemberKind::Node => member.name == node,
        _ => false,
    }
}
