//! Pods, and the pod that a template describes.

use std::net::IpAddr;

use palisade_model::cluster::{ContainerPort, Pod};

use super::{address, dig, is_true, items, metadata, no_update, port, protocol, string, text};
use crate::apimachinery::field::Path;
use crate::decode::Reader;
use crate::object::{Header, Kind, Lowered};
use crate::source::tree::Node;

/// The kind.
pub const POD: Kind =
    Kind { group: "", versions: &["v1"], kind: "Pod", namespaced: true, read, update: no_update };

fn read(header: &Header, node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Lowered> {
    let mut pod = described(node, &Path::root(), reader);
    pod.namespace = header.namespace.clone().unwrap_or_default();
    pod.name = header.name.clone();
    pod.addresses = addresses(node, reader);
    pod.host_addresses = host_addresses(node, reader);
    pod.terminated = matches!(text(node, "status.phase"), Some("Succeeded" | "Failed"));
    pod.ready = ready(node, reader);
    pod.at = Some(header.at.clone());
    Some(Lowered::Pod(pod))
}

/// The pod that metadata and spec describe, at an object or at a template in it.
pub(super) fn described(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Pod {
    let meta = metadata(node, path, reader);
    let mut ports = Vec::new();
    if let Some(spec) = dig(node, "spec") {
        let path = path.child("spec");
        // Sidecars are init containers that keep running: their ports are served, after those of the others.
        let sidecar = |container: &&Node<'_>| text(container, "restartPolicy") == Some("Always");
        for (index, container) in items(spec, "containers", &path, reader).iter().enumerate() {
            container_ports(container, &path.child("containers").index(index), reader, &mut ports);
        }
        for (index, container) in items(spec, "initContainers", &path, reader).iter().enumerate() {
            if sidecar(&container) {
                container_ports(container, &path.child("initContainers").index(index), reader, &mut ports);
            }
        }
    }
    Pod {
        labels: meta.labels(),
        node: string(node, "spec.nodeName", path, reader).map(Into::into),
        account: ["spec.serviceAccountName", "spec.serviceAccount"]
            .into_iter()
            .find_map(|at| string(node, at, path, reader))
            .unwrap_or("default")
            .into(),
        host_network: is_true(node, "spec.hostNetwork", path, reader),
        ready: true,
        ports,
        owner: meta.owner(),
        ..Pod::default()
    }
}

fn container_ports(
    container: &Node<'_>,
    path: &Path<'_>,
    reader: &mut Reader<'_>,
    ports: &mut Vec<ContainerPort>,
) {
    for (index, item) in items(container, "ports", path, reader).iter().enumerate() {
        let path = path.child("ports");
        let path = path.index(index);
        if let (Some(number), Some(protocol)) =
            (port(item, "containerPort", &path, reader), protocol(item, &path, reader))
        {
            ports.push(ContainerPort {
                name: string(item, "name", &path, reader).map(Into::into),
                protocol,
                number,
            });
        }
    }
}

/// `status.podIPs`, or `status.podIP` alone.
fn addresses(node: &Node<'_>, reader: &mut Reader<'_>) -> Vec<IpAddr> {
    let status = Path::new("status");
    let mut addresses: Vec<IpAddr> = Vec::new();
    let mut add = |text: &str, path: &Path<'_>, reader: &mut Reader<'_>| {
        if let Some(address) = address(text, path, reader)
            && !addresses.contains(&address)
        {
            addresses.push(address);
        }
    };
    if let Some(primary) = string(node, "status.podIP", &Path::root(), reader) {
        add(primary, &status.child("podIP"), reader);
    }
    for (index, item) in items(node, "status.podIPs", &Path::root(), reader).iter().enumerate() {
        let path = status.child("podIPs");
        if let Some(ip) = string(item, "ip", &path.index(index), reader) {
            add(ip, &path.index(index), reader);
        }
    }
    addresses
}

/// `status.hostIP` and `status.hostIPs`.
fn host_addresses(node: &Node<'_>, reader: &mut Reader<'_>) -> Vec<IpAddr> {
    let path = Path::new("status");
    let path = path.child("hostIP");
    let listed =
        items(node, "status.hostIPs", &Path::root(), reader).iter().filter_map(|item| text(item, "ip"));
    let all = text(node, "status.hostIP").into_iter().chain(listed).filter(|ip| !ip.is_empty());
    let mut addresses: Vec<IpAddr> = all.filter_map(|ip| address(ip, &path, reader)).collect();
    addresses.dedup();
    addresses
}

/// The Ready condition; a pod without one (a manifest) is taken for ready.
fn ready(node: &Node<'_>, reader: &mut Reader<'_>) -> bool {
    let condition = items(node, "status.conditions", &Path::root(), reader)
        .iter()
        .find(|item| text(item, "type") == Some("Ready"));
    condition.is_none_or(|condition| text(condition, "status") != Some("False"))
}
