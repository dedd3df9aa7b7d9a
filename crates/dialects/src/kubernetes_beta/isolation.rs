//! What a namespace says: its pods are isolated for ingress, by the annotation or by `spec.networkPolicy`.

use std::sync::Arc;

use palisade_model::policy::{Dialect, Direction, Isolation, Placement, PodSet, Policy};
use smol_str::SmolStr;

use super::types::{NamespaceNetworkPolicy, NamespaceSpec};
use crate::apimachinery::field::Path;
use crate::codes;
use crate::decode::{Decode, Reader};
use crate::meta::ObjectMeta;
use crate::object::Header;
use crate::source::Limits;
use crate::source::json;
use crate::source::tree::Source;

/// The annotation of 2016.
const ANNOTATION: &str = "net.beta.kubernetes.io/network-policy";

/// The text of the annotation, if the namespace has it.
pub(crate) fn isolation_annotation(meta: &ObjectMeta) -> Option<&SmolStr> {
    meta.annotation(ANNOTATION)
}

/// The policy that a namespace makes for its pods, if it isolates them.
pub(crate) fn isolation(
    header: &Header,
    annotation: Option<&str>,
    spec: Option<&NamespaceSpec>,
    reader: &mut Reader<'_>,
) -> Option<Policy> {
    let path = Path::new("metadata");
    let path = path.child("annotations");
    let by_annotation = annotation.is_some_and(|text| annotated(text, &path.key(ANNOTATION), reader));
    let path = Path::new("spec");
    let path = path.child("networkPolicy");
    let by_spec = spec.is_some_and(|spec| {
        let written = spec.network_policy.as_ref();
        spec.unreadable.is_some() || written.is_some_and(|written| isolates(written, &path, reader))
    });
    (by_annotation || by_spec).then(|| Policy {
        object: header.origin(Dialect::NetworkPolicy2016),
        placement: Placement::Union,
        isolations: vec![Isolation {
            subjects: Arc::new([PodSet::all_of(&header.name).into()]),
            direction: Direction::Ingress,
        }],
        rules: Vec::new(),
        unreadable: None,
    })
}

/// Whether the annotation isolates. What cannot be read isolates, and says so.
fn annotated(text: &str, path: &Path<'_>, reader: &mut Reader<'_>) -> bool {
    let inner = Source::new("annotation", text);
    let limits = Limits::default();
    let mut documents = json::documents(&inner, &limits);
    let (document, more) = (documents.next(), documents.next());
    let mut found = Vec::new();
    let written = match &document {
        Some(Ok(node)) if more.is_none() => {
            let mut inside = Reader::new(&inner, node, &mut found);
            inside.duplicates(node, &Path::root(), true);
            NamespaceNetworkPolicy::decode(node, &Path::root(), &mut inside)
        }
        Some(Ok(_)) => {
            let message = "there is more behind the annotation's JSON: the namespace counts as isolated";
            reader.report(&codes::BETA_ANNOTATION, path, message);
            return true;
        }
        Some(Err(error)) => {
            let message =
                format!("the annotation is not JSON ({}): the namespace counts as isolated", error.message);
            reader.report(&codes::BETA_ANNOTATION, path, message);
            return true;
        }
        None => {
            reader.report(
                &codes::BETA_ANNOTATION,
                path,
                "the annotation is empty: the namespace counts as isolated",
            );
            return true;
        }
    };
    for inside in found {
        let message = format!("in the annotation, {}: {}", inside.field, inside.message);
        reader.report(&codes::BETA_ANNOTATION, path, message);
    }
    written.is_none_or(|written| isolates(&written, path, reader))
}

fn isolates(written: &NamespaceNetworkPolicy, path: &Path<'_>, reader: &mut Reader<'_>) -> bool {
    let ingress = written.ingress.as_ref();
    if written.unreadable.is_some() || ingress.is_some_and(|ingress| ingress.unreadable.is_some()) {
        return true;
    }
    match ingress.and_then(|ingress| ingress.isolation.as_deref()) {
        None => false,
        Some("DefaultDeny") => true,
        Some(other) => {
            let message = format!("isolation {other:?} does not exist: the namespace counts as isolated");
            reader.report(&codes::BETA_ANNOTATION, path, message).help =
                Some("the only isolation is DefaultDeny".to_owned());
            true
        }
    }
}
