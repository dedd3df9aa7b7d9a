//! The routes of the Gateway API: `gateway.networking.k8s.io`, in all versions since v1alpha2, which write backends alike.
//!
//! A Service of another namespace counts as reached whether or not a ReferenceGrant there allows the reference: the grant
//! may be missing from the input only. Which Gateway serves a route is not asked, except that a route that belongs to
//! Services alone is for traffic inside of a mesh, and no entrance.

use palisade_model::entrance::{Backend, BackendPort};
use palisade_model::traffic::Protocol;

use super::super::{metadata, string};
use super::{backend, entrance, kind, name, namespace, no_port, number, part, parts, service, written};
use crate::apimachinery::field::Path;
use crate::decode::Reader;
use crate::object::{Header, Kind, Lowered};
use crate::source::tree::Node;

const GROUP: &str = "gateway.networking.k8s.io";
const VERSIONS: &[&str] = &["v1", "v1beta1", "v1alpha3", "v1alpha2"];

/// The kind.
pub const HTTP_ROUTE: Kind = kind(GROUP, VERSIONS, "HTTPRoute", read);
/// The kind.
pub const GRPC_ROUTE: Kind = kind(GROUP, VERSIONS, "GRPCRoute", read);
/// The kind.
pub const TLS_ROUTE: Kind = kind(GROUP, VERSIONS, "TLSRoute", read);
/// The kind.
pub const TCP_ROUTE: Kind = kind(GROUP, VERSIONS, "TCPRoute", read);
/// The kind.
pub const UDP_ROUTE: Kind = kind(GROUP, VERSIONS, "UDPRoute", read);

/// How to write a backend.
const EXAMPLE: &str = "write name: … and port: …";

fn read(header: &Header, node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Lowered> {
    metadata(node, &Path::root(), reader);
    let protocol = if header.kind == "UDPRoute" { Protocol::Udp } else { Protocol::Tcp };
    let mut backends = Vec::new();
    if let Some(spec) = part(node, "spec", &Path::root(), reader) {
        let path = Path::new("spec");
        for (index, rule) in parts(spec, "rules", &path, reader) {
            let path = path.child("rules");
            let path = path.index(index);
            mirrors(header, rule, &path, reader, &mut backends);
            for (index, item) in parts(rule, "backendRefs", &path, reader) {
                let path = path.child("backendRefs");
                let path = path.index(index);
                backends.extend(reference(header, item, &path, reader));
                mirrors(header, item, &path, reader, &mut backends);
            }
        }
        if belongs_to_services(spec, &path, reader) {
            backends.clear();
        }
    }
    Some(entrance(header, protocol, backends))
}

/// Whether all parents are Services.
fn belongs_to_services(spec: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> bool {
    let parents = parts(spec, "parentRefs", path, reader);
    let is_service = |(_, parent): &(usize, &Node<'_>)| {
        let text = |key| written(parent, key).and_then(Node::as_str);
        text("kind") == Some("Service") && text("group").is_none_or(str::is_empty)
    };
    !parents.is_empty() && parents.iter().all(is_service)
}

/// Backends that get a copy of every request: whoever serves the route reaches them, too.
fn mirrors(
    header: &Header,
    node: &Node<'_>,
    path: &Path<'_>,
    reader: &mut Reader<'_>,
    backends: &mut Vec<Backend>,
) {
    for (index, filter) in parts(node, "filters", path, reader) {
        let path = path.child("filters");
        let path = path.index(index);
        let Some(mirror) = part(filter, "requestMirror", &path, reader) else { continue };
        let path = path.child("requestMirror");
        if let Some(item) = part(mirror, "backendRef", &path, reader) {
            backends.extend(reference(header, item, &path.child("backendRef"), reader));
        }
    }
}

/// A backend, if it is a Service.
fn reference(header: &Header, node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<Backend> {
    let group = string(node, "group", path, reader).unwrap_or("");
    let kind = string(node, "kind", path, reader).unwrap_or("Service");
    if (group, kind) != ("", "Service") {
        return None;
    }
    let here = match written(node, "namespace").filter(|field| field.as_str() != Some("")) {
        Some(field) => name(field, &path.child("namespace"), reader)?,
        None => namespace(header),
    };
    let service = service(here, (node, "name"), path, EXAMPLE, reader)?;
    let port_path = path.child("port");
    let port = match written(node, "port") {
        Some(port) => number(port, &port_path, reader),
        None => no_port(&port_path, EXAMPLE, reader),
    };
    let port = port.map_or(BackendPort::All, BackendPort::Number);
    Some(backend((service, &path.child("name")), (port, &port_path), reader))
}
