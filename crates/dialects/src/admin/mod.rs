//! `policy.networking.k8s.io`: AdminNetworkPolicy and BaselineAdminNetworkPolicy (v1alpha1), ClusterNetworkPolicy
//! (v1alpha2).
//!
//! These are custom resources: what an API server accepts is in their definitions, and everything it refuses it refuses in
//! the same few sentences. So each definition is a table here (`crd`), [`crate::definition`] checks an object against any
//! of them, and `check` adds what these leave open. Types and lowering are each version's own.

mod check;
mod crd;
mod lower;
mod v1alpha1;
mod v1alpha2;
pub mod write;

use palisade_model::diagnostic::Diagnostic;
use palisade_model::policy::Policy;

use self::v1alpha1::{AdminNetworkPolicy, BaselineAdminNetworkPolicy};
use self::v1alpha2::ClusterNetworkPolicy;
use crate::apimachinery::field::Path;
use crate::decode::{Decode, Reader};
use crate::definition::object as definition;
use crate::definition::schema::Schema;
use crate::meta::ObjectMeta;
use crate::object::{Header, Kind, Lowered};
use crate::source::tree::Node;

/// The API group.
pub const GROUP: &str = "policy.networking.k8s.io";

/// AdminNetworkPolicy.
pub const ADMIN_NETWORK_POLICY: Kind = Kind {
    group: GROUP,
    versions: &["v1alpha1"],
    kind: "AdminNetworkPolicy",
    namespaced: false,
    read: read::<AdminNetworkPolicy>,
    update: update::<AdminNetworkPolicy>,
};

/// BaselineAdminNetworkPolicy.
pub const BASELINE_ADMIN_NETWORK_POLICY: Kind = Kind {
    group: GROUP,
    versions: &["v1alpha1"],
    kind: "BaselineAdminNetworkPolicy",
    namespaced: false,
    read: read::<BaselineAdminNetworkPolicy>,
    update: update::<BaselineAdminNetworkPolicy>,
};

/// ClusterNetworkPolicy.
pub const CLUSTER_NETWORK_POLICY: Kind = Kind {
    group: GROUP,
    versions: &["v1alpha2"],
    kind: "ClusterNetworkPolicy",
    namespaced: false,
    read: read::<ClusterNetworkPolicy>,
    update: update::<ClusterNetworkPolicy>,
};

/// One of these kinds.
trait ApiKind: Decode {
    /// Its definition.
    const SCHEMA: &'static Schema;

    /// Its metadata, as written.
    fn metadata(&self) -> Option<&ObjectMeta>;

    /// Itself in the rule language.
    fn lower(&self, header: &Header, reader: &Reader<'_>) -> Policy;
}

fn read<T: ApiKind>(header: &Header, node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Lowered> {
    let written = T::decode(node, &Path::root(), reader)?;
    definition::report(findings(&written, node, reader), reader);
    Some(Lowered::Policy(written.lower(header, reader)))
}

/// An update may keep what is wrong already: the API server tolerates errors in what does not change.
fn update<T: ApiKind>(old: &Node<'_>, _: &Header, new: &Node<'_>, reader: &mut Reader<'_>) {
    let root = Path::root();
    let Some(written) = T::decode(new, &root, reader) else { return };
    let Some(stored) = reader.quietly(|reader| T::decode(old, &root, reader)) else { return };
    definition::same_name(written.metadata(), stored.metadata(), reader);
    let (found, stored) = (findings(&written, new, reader), findings(&stored, old, reader));
    definition::report(definition::news(found, &stored), reader);
}

fn findings<T: ApiKind>(written: &T, node: &Node<'_>, reader: &Reader<'_>) -> Vec<Diagnostic> {
    definition::findings(T::SCHEMA, &crd::CODES, written.metadata(), node, reader)
}
