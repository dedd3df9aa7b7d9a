//! The objects that policies are about: namespaces, pods and what makes them, nodes, services and their endpoints; and
//! the entrances that lead to services.
//!
//! Only what policies can see is read. These objects come from a running cluster as often as from a repository, so
//! whatever else they hold is passed over, and a part that cannot be read is reported and left out.

pub mod endpoints;
pub mod entrance;
pub mod machine;
pub mod names;
pub mod namespace;
pub mod node;
pub mod pod;
pub mod service;
pub mod workload;

use std::net::IpAddr;

use smol_str::SmolStr;

use crate::apimachinery::field::Path;
use crate::codes;
use crate::decode::{Decode, Reader};
use crate::meta::ObjectMeta;
use crate::object::Header;
use crate::source::tree::Node;

/// Validates nothing: an update of an object that is no policy is the API server's business.
fn no_update(_: &Node<'_>, _: &Header, _: &Node<'_>, _: &mut Reader<'_>) {}

/// `metadata`, or an empty one.
fn metadata(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> ObjectMeta {
    let meta = node.get("metadata").filter(|meta| !meta.is_null());
    meta.and_then(|meta| ObjectMeta::decode(meta, &path.child("metadata"), reader)).unwrap_or_default()
}

/// The field at a dotted path below a node.
fn dig<'n, 's>(node: &'n Node<'s>, path: &str) -> Option<&'n Node<'s>> {
    path.split('.').try_fold(node, |node, key| node.get(key)).filter(|node| !node.is_null())
}

/// A field of text.
fn text<'n>(node: &'n Node<'_>, path: &str) -> Option<&'n str> {
    dig(node, path)?.as_str()
}

/// A field of text on which a pod's place in the cluster hangs; anything else that is there is reported.
fn string<'n>(node: &'n Node<'_>, at: &str, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<&'n str> {
    let field = dig(node, at)?;
    if field.as_str().is_none() {
        below(at, path, reader, |path, reader| SmolStr::decode(field, path, reader));
    }
    field.as_str().filter(|text| !text.is_empty())
}

/// The items of a field that is a list. Anything else that is there is reported, and nothing is read of it.
fn items<'n, 's>(node: &'n Node<'s>, at: &str, path: &Path<'_>, reader: &mut Reader<'_>) -> &'n [Node<'s>] {
    let field = dig(node, at);
    field
        .and_then(|field| below(at, path, reader, |path, reader| reader.list(field, path)))
        .unwrap_or_default()
}

/// A field that is `true`.
fn is_true(node: &Node<'_>, at: &str, path: &Path<'_>, reader: &mut Reader<'_>) -> bool {
    let field = dig(node, at);
    field
        .and_then(|field| below(at, path, reader, |path, reader| bool::decode(field, path, reader)))
        .unwrap_or(false)
}

/// A port number.
fn port(node: &Node<'_>, at: &str, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<u16> {
    let field = dig(node, at)?;
    let number = below(at, path, reader, |path, reader| i64::decode(field, path, reader))?;
    u16::try_from(number).ok().filter(|port| *port > 0)
}

/// Does something with the path of a field that is a dotted way below another.
fn below<T>(
    at: &str,
    path: &Path<'_>,
    reader: &mut Reader<'_>,
    read: impl FnOnce(&Path<'_>, &mut Reader<'_>) -> T,
) -> T {
    match at.split_once('.') {
        Some((first, rest)) => below(rest, &path.child(first), reader, read),
        None => read(&path.child(at), reader),
    }
}

/// An IP address; one that is none is reported.
fn address(text: &str, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<IpAddr> {
    match text.parse::<IpAddr>() {
        Ok(address) => Some(address.to_canonical()),
        Err(_) => {
            reader.report(&codes::WRONG_TYPE, path, format!("{text:?} is not an IP address: it is left out"));
            None
        }
    }
}

/// A protocol; TCP where none is written, reported where it is none.
fn protocol(
    node: &Node<'_>,
    path: &Path<'_>,
    reader: &mut Reader<'_>,
) -> Option<palisade_model::traffic::Protocol> {
    let name = text(node, "protocol").unwrap_or("TCP");
    let protocol = palisade_model::traffic::Protocol::from_kubernetes(name);
    if protocol.is_none() {
        let message = format!("protocol {name:?} is not TCP, UDP or SCTP: the port is left out");
        reader.report(&codes::WRONG_TYPE, &path.child("protocol"), message);
    }
    protocol
}
