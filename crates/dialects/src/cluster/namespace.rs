//! Namespaces, with what they say about the isolation of their pods (2016).

use palisade_model::cluster::Namespace;

use super::{dig, metadata, no_update};
use crate::apimachinery::field::Path;
use crate::decode::{Decode, Reader};
use crate::kubernetes_beta::{NamespaceSpec, isolation, isolation_annotation};
use crate::object::{Header, Kind, Lowered};
use crate::source::tree::Node;

/// The kind.
pub const NAMESPACE: Kind =
    Kind { group: "", versions: &["v1"], kind: "Namespace", namespaced: false, read, update: no_update };

fn read(header: &Header, node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Lowered> {
    let meta = metadata(node, &Path::root(), reader);
    let spec = dig(node, "spec").map(|spec| {
        let unreadable =
            NamespaceSpec { unreadable: Some("no mapping".to_owned()), ..NamespaceSpec::default() };
        NamespaceSpec::decode(spec, &Path::new("spec"), reader).unwrap_or(unreadable)
    });
    // Annotations that cannot be read as a whole may have held the one that isolates: as good as one that cannot be read.
    let lost = meta.annotations.is_none() && dig(node, "metadata.annotations").is_some();
    let annotation = isolation_annotation(&meta).map(|text| text.as_str()).or(lost.then_some(""));
    let policy = isolation(header, annotation, spec.as_ref(), reader);
    let namespace =
        Namespace { name: header.name.clone(), labels: meta.labels(), at: Some(header.at.clone()) };
    Some(Lowered::Namespace(namespace, policy))
}
