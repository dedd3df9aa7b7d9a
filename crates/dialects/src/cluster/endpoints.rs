//! Endpoints and EndpointSlices: which addresses are behind a service, and ready.

use std::net::IpAddr;

use palisade_model::cluster::Endpoints;
use palisade_model::traffic::Protocol;
use smol_str::SmolStr;

use super::{address, dig, items, metadata, no_update, port, protocol, text};
use crate::apimachinery::field::Path;
use crate::decode::Reader;
use crate::object::{Header, Kind, Lowered};
use crate::source::tree::{Node, Value};

/// The kind.
pub const ENDPOINTS: Kind = Kind {
    group: "",
    versions: &["v1"],
    kind: "Endpoints",
    namespaced: true,
    read: read_endpoints,
    update: no_update,
};

/// The kind.
pub const ENDPOINT_SLICE: Kind = Kind {
    group: "discovery.k8s.io",
    versions: &["v1", "v1beta1"],
    kind: "EndpointSlice",
    namespaced: true,
    read: read_slice,
    update: no_update,
};

/// The label by which a slice names its service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

fn read_endpoints(header: &Header, node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Lowered> {
    metadata(node, &Path::root(), reader);
    let path = Path::new("subsets");
    let mut all = Vec::new();
    for (index, subset) in items(node, "subsets", &Path::root(), reader).iter().enumerate() {
        let path = path.index(index);
        let mut ready = Vec::new();
        for (index, item) in items(subset, "addresses", &path, reader).iter().enumerate() {
            let path = path.child("addresses");
            ready.extend(address(text(item, "ip").unwrap_or(""), &path.index(index), reader));
        }
        all.push(endpoints(header, header.name.clone(), subset, &path, ready, reader));
    }
    Some(Lowered::Endpoints(all))
}

fn read_slice(header: &Header, node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Lowered> {
    let meta = metadata(node, &Path::root(), reader);
    let service: SmolStr = meta.labels().get(SERVICE_LABEL)?.into();
    // Names behind a service are for DNS: nothing that a policy of the cluster's own pods is about.
    if text(node, "addressType") == Some("FQDN") {
        return None;
    }
    let path = Path::new("endpoints");
    let mut ready: Vec<IpAddr> = Vec::new();
    for (index, endpoint) in items(node, "endpoints", &Path::root(), reader).iter().enumerate() {
        // Absent means ready: "a nil value should be interpreted as true".
        let not_ready =
            matches!(dig(endpoint, "conditions.ready").map(|n| &n.value), Some(Value::Bool(false)));
        if not_ready {
            continue;
        }
        for text in items(endpoint, "addresses", &path.index(index), reader).iter().filter_map(Node::as_str) {
            ready.extend(address(text, &path.index(index), reader));
        }
    }
    Some(Lowered::Endpoints(vec![endpoints(header, service, node, &Path::root(), ready, reader)]))
}

fn endpoints(
    header: &Header,
    service: SmolStr,
    node: &Node<'_>,
    path: &Path<'_>,
    ready: Vec<IpAddr>,
    reader: &mut Reader<'_>,
) -> Endpoints {
    let mut ports: Vec<(SmolStr, Protocol, u16)> = Vec::new();
    for (index, item) in items(node, "ports", path, reader).iter().enumerate() {
        let path = path.child("ports");
        if let (Some(number), Some(protocol)) =
            (port(item, "port", &path.index(index), reader), protocol(item, &path.index(index), reader))
        {
            ports.push((text(item, "name").unwrap_or("").into(), protocol, number));
        }
    }
    Endpoints { namespace: header.namespace.clone().unwrap_or_default(), service, ports, ready }
}
