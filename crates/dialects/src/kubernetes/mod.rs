//! `networking.k8s.io/v1` NetworkPolicy: all of it, as the API server validates and defaults it.

mod lower;
mod types;
mod validate;
pub mod write;

use crate::apimachinery::field::Path;
use crate::decode::{Decode, Reader};
use crate::object::{Header, Kind, Lowered};
use crate::source::tree::Node;

pub(crate) use lower::{pods_peer, port};
pub use types::{
    IpBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicyRule, NetworkPolicySpec,
};
pub(crate) use validate::{Checks, metadata, metadata_update};

/// The kind.
pub const NETWORK_POLICY: Kind = Kind {
    group: "networking.k8s.io",
    versions: &["v1"],
    kind: "NetworkPolicy",
    namespaced: true,
    read,
    update,
};

fn read(header: &Header, node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Lowered> {
    let written = NetworkPolicy::decode(node, &Path::root(), reader)?;
    validate::create(&written, reader);
    Some(Lowered::Policy(lower::lower(&written, header, reader)))
}

fn update(old: &Node<'_>, _: &Header, new: &Node<'_>, reader: &mut Reader<'_>) {
    let root = Path::root();
    let old = reader.quietly(|reader| NetworkPolicy::decode(old, &root, reader));
    if let (Some(old), Some(new)) = (old, NetworkPolicy::decode(new, &root, reader)) {
        validate::update(&new, &old, reader);
    }
}
