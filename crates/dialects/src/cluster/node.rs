//! Nodes: their labels and addresses.

use std::net::IpAddr;

use palisade_model::cluster;

use super::{address, items, metadata, no_update, text};
use crate::apimachinery::field::Path;
use crate::decode::Reader;
use crate::object::{Header, Kind, Lowered};
use crate::source::tree::Node;

/// The kind.
pub const NODE: Kind =
    Kind { group: "", versions: &["v1"], kind: "Node", namespaced: false, read, update: no_update };

fn read(header: &Header, node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Lowered> {
    let meta = metadata(node, &Path::root(), reader);
    let path = Path::new("status");
    let path = path.child("addresses");
    // Internal addresses first: they are what other endpoints see.
    let mut addresses: Vec<(bool, IpAddr)> = Vec::new();
    for (index, item) in items(node, "status.addresses", &Path::root(), reader).iter().enumerate() {
        let kind = text(item, "type").unwrap_or("");
        if (kind == "InternalIP" || kind == "ExternalIP")
            && let Some(address) = address(text(item, "address").unwrap_or(""), &path.index(index), reader)
        {
            addresses.push((kind != "InternalIP", address));
        }
    }
    addresses.sort_by_key(|(external, _)| *external);
    Some(Lowered::Node(cluster::Node {
        name: header.name.clone(),
        labels: meta.labels(),
        addresses: addresses.into_iter().map(|(_, address)| address).collect(),
        at: Some(header.at.clone()),
    }))
}
