//! The NetworkPolicy proposal of 2016: `extensions/v1beta1`, and isolation by the namespace.
//!
//! Three things differ from `networking.k8s.io/v1`: a namespace isolates its pods (by an annotation, or by the field of
//! its spec that the text shows), a policy never does; a `ports` or `from` that is there but empty matches nothing; there
//! is no egress. The rules join the same union as those of v1. (Kubernetes itself gave `extensions/v1beta1` the meaning of
//! v1 from 1.7 on; here the apiVersion says which meaning is wanted.)

mod isolation;
mod lower;
mod types;
mod validate;

use crate::apimachinery::field::Path;
use crate::decode::{Decode, Reader};
use crate::kubernetes::metadata_update;
use crate::object::{Header, Kind, Lowered};
use crate::source::tree::Node;

pub(crate) use isolation::{isolation, isolation_annotation};
pub use types::{
    NamespaceIngressPolicy, NamespaceNetworkPolicy, NamespaceSpec, NetworkPolicy, NetworkPolicyIngressRule,
    NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};

/// The kind.
pub const NETWORK_POLICY: Kind = Kind {
    group: "extensions",
    versions: &["v1beta1"],
    kind: "NetworkPolicy",
    namespaced: true,
    read,
    update,
};

fn read(header: &Header, node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Lowered> {
    let written = NetworkPolicy::decode(node, &Path::root(), reader)?;
    validate::validate(&written, reader);
    Some(Lowered::Policy(lower::lower(&written, header, reader)))
}

fn update(old: &Node<'_>, header: &Header, new: &Node<'_>, reader: &mut Reader<'_>) {
    let root = Path::root();
    let decode = |node| reader.quietly(|reader| NetworkPolicy::decode(node, &root, reader));
    if let (Some(old), Some(written)) = (decode(old), decode(new)) {
        metadata_update(written.metadata.as_ref(), old.metadata.as_ref(), reader);
    }
    read(header, new, reader);
}
