//! Antrea's tiers, policies and groups: `crd.antrea.io/v1beta1`, and the API of 2020,
//! `security.antrea.tanzu.vmware.com/v1alpha1`.
//!
//! Who may be created, changed and deleted is decided in three places. The definitions ([`crd`]) say which fields exist
//! where and what they may hold; the webhook ([`webhook`]) looks at one object as a whole; and what depends on other
//! objects ([`world`]) is asked of a request and of a whole set of files alike. Versions and kinds share their types
//! ([`types`]), so that lowering is written once.

mod carried;
pub mod codes;
mod crd;
mod defaults;
mod ends;
mod entity;
mod lower;
mod policy;
mod tiers;
pub mod types;
mod webhook;
pub mod world;
pub mod write;

use palisade_model::diagnostic::{Diagnostic, Location};
use palisade_model::policy::Dialect;

use self::types::{ExternalEntity, Group, Policy, Tier};
use crate::apimachinery::field::Path;
use crate::apimachinery::meta::immutable;
use crate::decode::{Decode, Reader};
use crate::definition::findings::Findings;
use crate::definition::object as definition;
use crate::definition::schema::{Schema, written};
use crate::definition::typed::whole;
use crate::meta::ObjectMeta;
use crate::object::{Header, Kind, Lowered};
use crate::source::tree::Node;

pub use self::defaults::rule_name;
pub use self::tiers::{TierIndex, tier_name, tiers};

/// The API group of today.
pub const GROUP: &str = "crd.antrea.io";
/// That of 2020.
pub const GROUP_2020: &str = "security.antrea.tanzu.vmware.com";

/// Tier.
pub const TIER: Kind = kind::<Tier>(GROUP, "v1beta1", "Tier", false);
/// ClusterNetworkPolicy.
pub const CLUSTER_NETWORK_POLICY: Kind = kind::<Policy>(GROUP, "v1beta1", "ClusterNetworkPolicy", false);
/// NetworkPolicy.
pub const NETWORK_POLICY: Kind = kind::<Policy>(GROUP, "v1beta1", "NetworkPolicy", true);
/// ClusterGroup.
pub const CLUSTER_GROUP: Kind = kind::<Group>(GROUP, "v1beta1", "ClusterGroup", false);
/// Group.
pub const NAMESPACED_GROUP: Kind = kind::<Group>(GROUP, "v1beta1", "Group", true);
/// ExternalEntity.
pub const EXTERNAL_ENTITY: Kind = kind::<ExternalEntity>(GROUP, "v1alpha2", "ExternalEntity", true);
/// Tier of 2020.
pub const TIER_2020: Kind = kind::<Tier>(GROUP_2020, "v1alpha1", "Tier", false);
/// ClusterNetworkPolicy of 2020.
pub const CLUSTER_NETWORK_POLICY_2020: Kind =
    kind::<Policy>(GROUP_2020, "v1alpha1", "ClusterNetworkPolicy", false);
/// NetworkPolicy of 2020.
pub const NETWORK_POLICY_2020: Kind = kind::<Policy>(GROUP_2020, "v1alpha1", "NetworkPolicy", true);

/// One of these kinds.
trait Resource: Decode {
    /// Its definition.
    fn schema(header: &Header) -> &'static Schema;

    /// Its metadata, as written.
    fn metadata(&self) -> Option<&ObjectMeta>;

    /// What the webhook says to it, by itself.
    fn webhook(&self, header: &Header, node: &Node<'_>, findings: &mut Findings<'_, '_>);

    /// What the webhook says only to a new one.
    fn creation(&self, _: &Header, _: &Node<'_>, _: &mut Findings<'_, '_>) {}

    /// What the webhook says to a change of it.
    fn change(&self, _: &Header, _: &Node<'_>, _: &Node<'_>, _: &mut Findings<'_, '_>) {}

    /// Itself in the rule language.
    fn lower(&self, header: &Header, reader: &Reader<'_>) -> Option<Lowered>;
}

const fn kind<T: Resource>(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    namespaced: bool,
) -> Kind {
    let versions: &'static [&'static str] = match version.as_bytes() {
        b"v1beta1" => &["v1beta1"],
        b"v1alpha2" => &["v1alpha2"],
        _ => &["v1alpha1"],
    };
    Kind { group, versions, kind, namespaced, read: read::<T>, update: update::<T> }
}

fn read<T: Resource>(header: &Header, node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Lowered> {
    reader.hold_to(T::schema(header));
    let object = T::decode(node, &Path::root(), reader)?;
    let found = definition::findings(T::schema(header), &crd::CODES, object.metadata(), node, reader);
    let mut findings = Findings::new(reader, &crd::CODES);
    object.webhook(header, node, &mut findings);
    object.creation(header, node, &mut findings);
    let found: Vec<Diagnostic> = found.into_iter().chain(findings.found).collect();
    definition::report(found, reader);
    object.lower(header, reader)
}

/// An update may keep what its definition refuses and what does not change. The webhook looks at the new object alone.
fn update<T: Resource>(old: &Node<'_>, header: &Header, new: &Node<'_>, reader: &mut Reader<'_>) {
    let (root, schema) = (Path::root(), T::schema(header));
    reader.hold_to(schema);
    let Some(object) = T::decode(new, &root, reader) else { return };
    let Some(stored) = reader.quietly(|reader| T::decode(old, &root, reader)) else { return };
    definition::same_name(object.metadata(), stored.metadata(), reader);
    if let (Some(_), Some(new), Some(old)) = (&header.namespace, object.metadata(), stored.metadata()) {
        let namespace = |meta: &ObjectMeta| meta.namespace.clone().unwrap_or_default();
        let path = Path::new("metadata");
        let sink = &mut reader.sink(&crate::codes::IMMUTABLE);
        immutable(&path.child("namespace"), &namespace(new), &namespace(old), sink);
    }
    let found = definition::findings(schema, &crd::CODES, object.metadata(), new, reader);
    let known = definition::findings(schema, &crd::CODES, stored.metadata(), old, reader);
    let mut findings = Findings::new(reader, &crd::CODES);
    object.webhook(header, new, &mut findings);
    object.change(header, old, new, &mut findings);
    let found: Vec<Diagnostic> = definition::news(found, &known).chain(findings.found).collect();
    definition::report(found, reader);
}

/// Where the fields stand through which an object depends on others: there is no text any more when these meet.
pub(crate) fn places(header: &Header, node: &Node<'_>, reader: &Reader<'_>) -> Vec<(&'static str, Location)> {
    if !is_ours(&header.group) {
        return Vec::new();
    }
    let spec = Path::new("spec");
    let fields = ["tier", "priority", "childGroups"];
    let there = |field: &&str| written(node, "spec").and_then(|spec| written(spec, field)).is_some();
    fields.into_iter().filter(there).map(|field| (field, reader.locate(&spec.child(field)))).collect()
}

/// Whether an API group is one of Antrea's.
pub fn is_ours(group: &str) -> bool {
    group == GROUP || group == GROUP_2020
}

fn is_2020(header: &Header) -> bool {
    header.group == GROUP_2020
}

fn dialect(header: &Header) -> Dialect {
    if is_2020(header) { Dialect::Antrea2020 } else { Dialect::Antrea }
}

/// The priority of a tier as written.
fn priority(node: &Node<'_>) -> Option<i64> {
    written(written(node, "spec")?, "priority").and_then(|priority| whole(&priority.value))
}

// === impl Resource ===

impl Resource for Tier {
    fn schema(_: &Header) -> &'static Schema {
        &crd::TIER
    }

    fn metadata(&self) -> Option<&ObjectMeta> {
        self.metadata.as_ref()
    }

    fn webhook(&self, _: &Header, _: &Node<'_>, _: &mut Findings<'_, '_>) {}

    fn creation(&self, header: &Header, node: &Node<'_>, findings: &mut Findings<'_, '_>) {
        let reserved: &[i64] =
            if is_2020(header) { &[251, 252, 253, 254, 255] } else { &[220, 251, 252, 254, 255] };
        if let Some(priority) = priority(node).filter(|priority| reserved.contains(priority)) {
            let message = format!("tier {} priority {priority} is reserved", header.name);
            findings.say(&codes::TIER_RESERVED, &Path::new("spec").child("priority"), message);
        }
    }

    fn change(&self, header: &Header, old: &Node<'_>, new: &Node<'_>, findings: &mut Findings<'_, '_>) {
        let spec = Path::new("spec");
        if priority(old) != priority(new) {
            let message = "update to Tier priority is not allowed";
            findings.say(&codes::TIER_UPDATE, &spec.child("priority"), message);
        }
        let text = |node: &Node<'_>| {
            written(node, "spec").and_then(|spec| spec.get("description")?.as_str().map(ToOwned::to_owned))
        };
        let is_static = tiers::built_in_of(&header.group).iter().any(|(name, _)| *name == header.name);
        if is_2020(header) && is_static && text(old) != text(new) {
            let message = format!("tier {} is read-only", header.name);
            findings.say(&codes::TIER_UPDATE, &spec.child("description"), message);
        }
    }

    fn lower(&self, header: &Header, _: &Reader<'_>) -> Option<Lowered> {
        Some(Lowered::Tier(lower::tier(self, header)))
    }
}

impl Resource for Policy {
    fn schema(header: &Header) -> &'static Schema {
        match (is_2020(header), header.namespace.is_some()) {
            (false, false) => &crd::CLUSTER_POLICY,
            (false, true) => &crd::POLICY,
            (true, false) => &crd::CLUSTER_POLICY_2020,
            (true, true) => &crd::POLICY_2020,
        }
    }

    fn metadata(&self) -> Option<&ObjectMeta> {
        self.metadata.as_ref()
    }

    fn webhook(&self, header: &Header, node: &Node<'_>, findings: &mut Findings<'_, '_>) {
        match is_2020(header) {
            false => webhook::policy(self, node, findings),
            true => webhook::policy_2020(header.namespace.is_none(), node, findings),
        }
    }

    fn lower(&self, header: &Header, reader: &Reader<'_>) -> Option<Lowered> {
        Some(Lowered::Policy(policy::lower(self, header, reader)))
    }
}

impl Resource for Group {
    fn schema(header: &Header) -> &'static Schema {
        if header.namespace.is_some() { &crd::GROUP } else { &crd::CLUSTER_GROUP }
    }

    fn metadata(&self) -> Option<&ObjectMeta> {
        self.metadata.as_ref()
    }

    fn webhook(&self, header: &Header, node: &Node<'_>, findings: &mut Findings<'_, '_>) {
        webhook::group(header.namespace.is_none(), &header.name, node, findings);
    }

    fn lower(&self, header: &Header, _: &Reader<'_>) -> Option<Lowered> {
        Some(Lowered::Group(lower::group(self, header)))
    }
}

impl Resource for ExternalEntity {
    fn schema(_: &Header) -> &'static Schema {
        &crd::EXTERNAL_ENTITY
    }

    fn metadata(&self) -> Option<&ObjectMeta> {
        self.metadata.as_ref()
    }

    fn webhook(&self, _: &Header, _: &Node<'_>, _: &mut Findings<'_, '_>) {}

    fn lower(&self, header: &Header, _: &Reader<'_>) -> Option<Lowered> {
        Some(Lowered::Pod(entity::lower(self, header)))
    }
}
