//! Services: the ports clients use, and where they lead.

use std::net::IpAddr;

use palisade_model::cluster::{Service, ServiceKind, ServicePort, TargetPort};
use palisade_model::label::{Requirement, Selector};

use super::{address, dig, is_true, items, metadata, no_update, port, protocol, text};
use crate::apimachinery::field::Path;
use crate::decode::{Decode, Reader, StringMap};
use crate::object::{Header, Kind, Lowered};
use crate::source::tree::{Node, Value};

/// The kind.
pub const SERVICE: Kind =
    Kind { group: "", versions: &["v1"], kind: "Service", namespaced: true, read, update: no_update };

fn read(header: &Header, node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Lowered> {
    metadata(node, &Path::root(), reader);
    let spec = Path::new("spec");
    let mut addresses = Vec::new();
    let mut headless = false;
    let listed = items(node, "spec.clusterIPs", &Path::root(), reader).iter().filter_map(Node::as_str);
    for text in text(node, "spec.clusterIP").into_iter().chain(listed) {
        match text {
            "None" => headless = true,
            // The API server chooses one.
            "" => {}
            text => addresses.extend(address(text, &spec.child("clusterIP"), reader)),
        }
    }
    addresses.dedup();
    let mut external_addresses = external_addresses(node, reader);
    let selector = dig(node, "spec.selector")
        .and_then(|selector| StringMap::decode(selector, &spec.child("selector"), reader))
        .filter(|labels| !labels.is_empty())
        .map(|labels| Selector::new(labels.iter().map(|(key, value)| Requirement::equals(key, value))));
    let ports = items(node, "spec.ports", &Path::root(), reader).iter().enumerate();
    let ports = ports.filter_map(|(index, item)| {
        let path = spec.child("ports");
        service_port(item, &path.index(index), reader)
    });
    // The type comes first: the API server ignores selector and addresses of an ExternalName Service, whatever they are.
    let kind = match text(node, "spec.type") {
        Some("ExternalName") => {
            ServiceKind::ExternalName(text(node, "spec.externalName").unwrap_or_default().into())
        }
        _ if headless => ServiceKind::Headless { selector },
        _ => ServiceKind::ClusterAddress { selector },
    };
    if !matches!(kind, ServiceKind::ClusterAddress { .. }) {
        addresses.clear();
        external_addresses.clear();
    }
    Some(Lowered::Service(Service {
        namespace: header.namespace.clone().unwrap_or_default(),
        name: header.name.clone(),
        ports: ports.collect(),
        kind,
        addresses,
        external_addresses,
        publish_not_ready: is_true(node, "spec.publishNotReadyAddresses", &Path::root(), reader),
        at: Some(header.at.clone()),
    }))
}

fn service_port(item: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<ServicePort> {
    let number = port(item, "port", path, reader)?;
    let target = match dig(item, "targetPort").map(|node| &node.value) {
        Some(Value::String(name)) => TargetPort::Name(name.as_ref().into()),
        _ => TargetPort::Number(port(item, "targetPort", path, reader).unwrap_or(number)),
    };
    let name = text(item, "name").unwrap_or("").into();
    let node_port = port(item, "nodePort", path, reader);
    Some(ServicePort { name, protocol: protocol(item, path, reader)?, port: number, node_port, target })
}

/// `spec.externalIPs`, and what a load balancer has put into the status.
fn external_addresses(node: &Node<'_>, reader: &mut Reader<'_>) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    let path = Path::new("spec");
    let path = path.child("externalIPs");
    for (index, item) in items(node, "spec.externalIPs", &Path::root(), reader).iter().enumerate() {
        addresses.extend(item.as_str().and_then(|text| address(text, &path.index(index), reader)));
    }
    let path = Path::new("status");
    let path = path.child("loadBalancer");
    for item in items(node, "status.loadBalancer.ingress", &Path::root(), reader) {
        addresses.extend(text(item, "ip").and_then(|ip| address(ip, &path, reader)));
    }
    addresses
}
