//! Entrances: Ingresses, Routes of OpenShift and routes of the Gateway API, as far as they name Services.
//!
//! What happens on layer 7 (hosts, paths, filters, certificates, weights) is passed over. What cannot be read is reported.
//! A backend without a Service that can be read is left out; one whose port cannot be read leads to every port, because
//! whoever asks what is reached from outside must not be told too little.

pub mod gateway;
pub mod ingress;
pub mod route;

use palisade_model::cluster::TargetPort;
use palisade_model::entrance::{Backend, BackendPort, Entrance, Place};
use palisade_model::policy::ServiceName;
use palisade_model::traffic::Protocol;
use smol_str::SmolStr;

use super::no_update;
use crate::apimachinery::field::Path;
use crate::codes;
use crate::decode::{Decode, IntOrString, Reader};
use crate::object::{Header, Kind, Lowered};
use crate::source::tree::Node;

type Read = fn(&Header, &Node<'_>, &mut Reader<'_>) -> Option<Lowered>;

const fn kind(
    group: &'static str,
    versions: &'static [&'static str],
    kind: &'static str,
    read: Read,
) -> Kind {
    Kind { group, versions, kind, namespaced: true, read, update: no_update }
}

/// The object, also if it leads nowhere: it replaces the one that did.
fn entrance(header: &Header, protocol: Protocol, backends: Vec<Backend>) -> Lowered {
    Lowered::Entrance(Entrance {
        kind: header.kind.clone(),
        namespace: namespace(header),
        name: header.name.clone(),
        protocol,
        backends,
        at: Some(header.at.clone()),
    })
}

fn namespace(header: &Header) -> SmolStr {
    header.namespace.clone().unwrap_or_default()
}

/// A backend by the names in it and where they stand.
fn backend(
    (service, service_path): (ServiceName, &Path<'_>),
    (port, port_path): (BackendPort, &Path<'_>),
    reader: &Reader<'_>,
) -> Backend {
    let place = |path: &Path<'_>| Place { field: path.to_string(), at: Some(reader.locate(path)) };
    Backend { service, port, service_place: place(service_path), port_place: place(port_path) }
}

/// The mapping under a key. Anything else that is there is reported.
fn part<'n, 's>(
    node: &'n Node<'s>,
    key: &str,
    path: &Path<'_>,
    reader: &mut Reader<'_>,
) -> Option<&'n Node<'s>> {
    let field = written(node, key)?;
    reader.mapping(field, &path.child(key)).map(|_| field)
}

/// The items of the list under a key, each with its place in it. An item that is no mapping is reported and left out.
fn parts<'n, 's>(
    node: &'n Node<'s>,
    key: &str,
    path: &Path<'_>,
    reader: &mut Reader<'_>,
) -> Vec<(usize, &'n Node<'s>)> {
    let path = path.child(key);
    let items = written(node, key).and_then(|list| reader.list(list, &path)).unwrap_or_default();
    let is_mapping = |(index, item): &(usize, &Node<'_>)| reader.mapping(item, &path.index(*index)).is_some();
    items.iter().enumerate().filter(is_mapping).collect()
}

/// What is written under a key.
fn written<'n, 's>(node: &'n Node<'s>, key: &str) -> Option<&'n Node<'s>> {
    node.get(key).filter(|field| !field.is_null())
}

/// The Service that a field names; `None`, and a finding, if it names none.
fn service(
    namespace: SmolStr,
    (node, key): (&Node<'_>, &str),
    path: &Path<'_>,
    help: &str,
    reader: &mut Reader<'_>,
) -> Option<ServiceName> {
    let Some(field) = written(node, key).filter(|field| field.as_str() != Some("")) else {
        refuse(reader, path, "a backend without a Service is left out", help);
        return None;
    };
    Some(ServiceName { namespace, name: name(field, &path.child(key), reader)? })
}

/// A name. One that YAML takes for a number is reported and read as written: who is meant is clear.
fn name(field: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<SmolStr> {
    SmolStr::decode(field, path, reader);
    reader.scalar(field).map(SmolStr::new)
}

/// Says that a port is missing.
fn no_port<T>(path: &Path<'_>, help: &str, reader: &mut Reader<'_>) -> Option<T> {
    refuse(reader, path, "a backend without a port: every port of the Service counts as named", help);
    None
}

/// A port's number; `None`, and a finding, if it is none.
fn number(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<u16> {
    let number = i64::decode(node, path, reader)?;
    in_range(number, path, reader)
}

/// A port's number or name; `None`, and a finding, if it is neither.
fn number_or_name(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<TargetPort> {
    match IntOrString::decode(node, path, reader)? {
        IntOrString::Int(number) => in_range(number, path, reader).map(TargetPort::Number),
        IntOrString::String(name) if name.is_empty() => {
            no_port(path, "write the port's number or its name", reader)
        }
        IntOrString::String(name) => Some(TargetPort::Name(name)),
    }
}

fn in_range(number: i64, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<u16> {
    let port = u16::try_from(number).ok().filter(|port| *port > 0);
    if port.is_none() {
        let message = format!("{number} is no port: every port of the Service counts as named");
        refuse(reader, path, &message, "ports are numbers from 1 to 65535");
    }
    port
}

fn refuse(reader: &mut Reader<'_>, path: &Path<'_>, message: &str, help: &str) {
    reader.report(&codes::BACKEND, path, message).help = Some(help.to_owned());
}
