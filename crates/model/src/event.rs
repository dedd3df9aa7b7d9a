//! Events: an object was applied or deleted.
//!
//! ```text
//!   files, an API server, a store ──► dialects::World ──► Event ──► engine (and whatever else follows a cluster)
//! ```
//!
//! An event carries one whole object or its identity, so a consumer needs no history: applying an object twice, or deleting
//! one that does not exist, changes nothing. Events of different objects may arrive in any order.

use std::net::IpAddr;
use std::sync::Arc;

use smol_str::SmolStr;

use crate::cluster::{Endpoints, Namespace, Node, Pod, Service};
use crate::group::{Group, GroupName};
use crate::policy::{Object, Policy};

/// A change to one object.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "events are handed over one by one and not kept")]
pub enum Event {
    /// The object exists with this content, new or changed.
    Apply(Item),
    /// The object does not exist (any more).
    Delete(Key),
}

/// An object as consumers of events see it: lowered, with nothing looked up.
#[derive(Debug, Clone)]
pub enum Item {
    /// A declared namespace.
    Namespace(Namespace),
    /// A pod, a workload's template that stands for its pods, or an external entity.
    Pod(Pod),
    /// A node.
    Node(Node),
    /// A service.
    Service(Service),
    /// Addresses behind a service. The name distinguishes the objects that list addresses of the same service.
    Endpoints(SmolStr, Endpoints),
    /// A policy of any dialect.
    Policy(Policy),
    /// A tier and its priority.
    Tier(SmolStr, u8),
    /// A group that policies refer to.
    Group(Group),
    /// A DNS name and the addresses it resolves to.
    Name(SmolStr, Vec<IpAddr>),
}

/// The identity of an [`Item`].
///
/// The order of the variants is the order to apply many objects in: what a kind refers to comes before it. Any other order
/// gives the same result with more work, because a policy is resolved again whenever its tier or group changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A namespace's name.
    Namespace(SmolStr),
    /// A node's name.
    Node(SmolStr),
    /// A tier's name.
    Tier(SmolStr),
    /// Namespace and name of a service.
    Service(SmolStr, SmolStr),
    /// Namespace, service, and the name of the object that lists the addresses.
    Endpoints(SmolStr, SmolStr, SmolStr),
    /// A group, namespaced or cluster-wide.
    Group(GroupName),
    /// A DNS name.
    Name(SmolStr),
    /// Namespace, name and [`Pod::variant`].
    Pod(SmolStr, SmolStr, Option<SmolStr>),
    /// A policy.
    Policy(PolicyKey),
}

/// The identity of a policy. The version is no part of it: an API serves the same object in several versions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyKey {
    /// The API group; empty for the core and for dialects without groups.
    pub group: SmolStr,
    /// The kind, e.g. `NetworkPolicy`.
    pub kind: SmolStr,
    /// The namespace; `None` for cluster-wide policies.
    pub namespace: Option<SmolStr>,
    /// The object's name.
    pub name: SmolStr,
}

// === impl Item ===

impl Item {
    /// Returns the identity of the object.
    pub fn key(&self) -> Key {
        match self {
            Item::Namespace(namespace) => Key::Namespace(namespace.name.clone()),
            Item::Pod(pod) => Key::Pod(pod.namespace.clone(), pod.name.clone(), pod.variant()),
            Item::Node(node) => Key::Node(node.name.clone()),
            Item::Service(service) => Key::Service(service.namespace.clone(), service.name.clone()),
            Item::Endpoints(name, endpoints) => {
                Key::Endpoints(endpoints.namespace.clone(), endpoints.service.clone(), name.clone())
            }
            Item::Policy(policy) => Key::Policy(PolicyKey::from(&policy.object)),
            Item::Tier(name, _) => Key::Tier(name.clone()),
            Item::Group(group) => Key::Group(group.name()),
            Item::Name(name, _) => Key::Name(name.clone()),
        }
    }
}

// === impl PolicyKey ===

impl From<&Arc<Object>> for PolicyKey {
    fn from(object: &Arc<Object>) -> Self {
        PolicyKey {
            group: object.group.clone(),
            kind: object.kind.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
        }
    }
}
