//! The sets of each peer address, and the sets and addresses of the node's own endpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use palisade_engine::delta::{Member, MemberKind, SetId};
use palisade_engine::selection::Selection;
use palisade_flatten::{AddressIndex, has_peer_addresses};

use crate::program::{Key, Value};

/// Members of the view's sets, inverted.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// The sets of each peer address.
    pub(crate) peers: AddressIndex,
    /// The node's pods and the node itself, with their sets.
    pub(crate) own: BTreeMap<Arc<Member>, BTreeSet<SetId>>,
    /// The node's pods by address. Two may claim the same one.
    pub(crate) claims: BTreeMap<IpAddr, BTreeSet<Arc<Member>>>,
}

// === impl Index ===

impl Index {
    /// Adds a member of a set.
    pub(crate) fn join(&mut self, set: SetId, selection: &Selection, member: &Arc<Member>, node: &str) {
        if has_peer_addresses(selection) {
            self.peers.join(set, member);
        }
        if is_own(member, node) {
            self.own.entry(Arc::clone(member)).or_default().insert(set);
            for address in &member.addresses {
                self.claims.entry(*address).or_default().insert(Arc::clone(member));
            }
        }
    }

    /// Removes a member of a set.
    pub(crate) fn leave(&mut self, set: SetId, selection: &Selection, member: &Arc<Member>, node: &str) {
        if has_peer_addresses(selection) {
            self.peers.leave(set, member);
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
}

/// Returns whether a member is a pod of this node, or the node.
pub(crate) fn is_own(member: &Member, node: &str) -> bool {
    match member.kind {
        MemberKind::Pod => member.is_on(node),
        MemberKind::Node => member.name == node,
        _ => false,
    }
}

/// Returns the key of an element that is a single address.
pub(crate) fn address_key(address: IpAddr) -> Key {
    vec![(Value::Address(address), Value::Address(address))]
}
