//! Route of OpenShift: `route.openshift.io/v1`.
//!
//! A Route goes past the Service to its endpoints: `targetPort` is the name that the Service gives a port, or the number
//! that the port has on the pods. Without one every port is served.

use palisade_model::cluster::TargetPort;
use palisade_model::entrance::{Backend, BackendPort};
use palisade_model::traffic::Protocol;

use super::super::{metadata, string};
use super::{
    backend, entrance, kind, namespace, no_port, number_or_name, part, parts, refuse, service, written,
};
use crate::apimachinery::field::Path;
use crate::decode::Reader;
use crate::object::{Header, Kind, Lowered};
use crate::source::tree::Node;

/// The kind.
pub const ROUTE: Kind = kind("route.openshift.io", &["v1"], "Route", read);

/// How to write a backend.
const EXAMPLE: &str = "write to: {kind: Service, name: …}";

fn read(header: &Header, node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Lowered> {
    metadata(node, &Path::root(), reader);
    let mut backends = Vec::new();
    if let Some(spec) = part(node, "spec", &Path::root(), reader) {
        let path = Path::new("spec");
        let port = port(spec, &path, reader);
        match written(spec, "to") {
            Some(_) => {
                let to = part(spec, "to", &path, reader);
                backends
                    .extend(to.and_then(|to| target(header, to, &path.child("to"), port.as_ref(), reader)));
            }
            None => refuse(reader, &path, "a Route without `to` leads nowhere", EXAMPLE),
        }
        for (index, item) in parts(spec, "alternateBackends", &path, reader) {
            let path = path.child("alternateBackends");
            backends.extend(target(header, item, &path.index(index), port.as_ref(), reader));
        }
    }
    Some(entrance(header, Protocol::Tcp, backends))
}

/// The port of all backends; `None` where none is written.
fn port(spec: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<BackendPort> {
    let port = part(spec, "port", path, reader)?;
    let path = path.child("port");
    let path = path.child("targetPort");
    let port = match written(port, "targetPort") {
        Some(port) => number_or_name(port, &path, reader),
        None => no_port(&path, "write targetPort: …, or leave port out", reader),
    };
    Some(match port {
        // The router compares texts, so that a number in quotes is one.
        Some(TargetPort::Name(name)) => BackendPort::Target(match name.parse::<u16>() {
            Ok(number) if number > 0 => TargetPort::Number(number),
            _ => TargetPort::Name(name),
        }),
        Some(number) => BackendPort::Target(number),
        None => BackendPort::All,
    })
}

fn target(
    header: &Header,
    node: &Node<'_>,
    path: &Path<'_>,
    port: Option<&BackendPort>,
    reader: &mut Reader<'_>,
) -> Option<Backend> {
    let kind = string(node, "kind", path, reader).unwrap_or("Service");
    if kind != "Service" {
        let message = format!("a Route leads to Services, not to a {kind}: the backend is left out");
        refuse(reader, &path.child("kind"), &message, EXAMPLE);
        return None;
    }
    let service = service(namespace(header), (node, "name"), path, EXAMPLE, reader)?;
    let name_path = path.child("name");
    let spec = Path::new("spec");
    let port_path = spec.child("port");
    let port_path = port_path.child("targetPort");
    Some(match port {
        Some(port) => backend((service, &name_path), (port.clone(), &port_path), reader),
        None => backend((service, &name_path), (BackendPort::All, &name_path), reader),
    })
}
