//! What happens to a cluster: an object is there, or it is gone, or this is all there is of its kind.

use std::net::IpAddr;
use std::sync::Arc;

use palisade_model::cluster::{Endpoints, Namespace, Node, Pod, Service};
use palisade_model::group::{Group, GroupName};
use palisade_model::policy::{Object, Policy};
use smol_str::SmolStr;

use crate::endpoints::ENTITY;

/// A change.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "events are handed over one by one and not kept")]
pub enum Event {
    /// The object is there, new or changed.
    Apply(Item),
    /// The object is gone, if it ever was.
    Delete(Key),
}

/// An object.
#[derive(Debug, Clone)]
pub enum Item {
    /// A namespace.
    Namespace(Namespace),
    /// A pod, a template that stands for pods, or an external entity.
    Pod(Pod),
    /// A node.
    Node(Node),
    /// A service.
    Service(Service),
    /// What is behind a service: one object may list several, so it has a name of its own.
    Endpoints(SmolStr, Endpoints),
    /// A policy.
    Policy(Policy),
    /// A tier with its priority.
    Tier(SmolStr, u8),
    /// A group.
    Group(Group),
    /// What a DNS name stands for.
    Name(SmolStr, Vec<IpAddr>),
}

/// The identity of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A namespace, by name.
    Namespace(SmolStr),
    /// A pod: namespace, name, and where it is no pod what it is: the kind of a template, or `ExternalEntity`.
    Pod(SmolStr, SmolStr, Option<SmolStr>),
    /// A node, by name.
    Node(SmolStr),
    /// A service: namespace and name.
    Service(SmolStr, SmolStr),
    /// What is behind a service: namespace, service, name.
    Endpoints(SmolStr, SmolStr, SmolStr),
    /// A policy.
    Policy(PolicyKey),
    /// A tier, by name.
    Tier(SmolStr),
    /// A group.
    Group(GroupName),
    /// A DNS name.
    Name(SmolStr),
}

/// The identity of a policy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyKey {
    /// The API group.
    pub group: SmolStr,
    /// The kind.
    pub kind: SmolStr,
    /// The namespace; `None` for cluster-wide policies.
    pub namespace: Option<SmolStr>,
    /// The name.
    pub name: SmolStr,
}

// === impl Item ===

impl Item {
    /// Its identity.
    pub fn key(&self) -> Key {
        match self {
            Item::Namespace(namespace) => Key::Namespace(namespace.name.clone()),
            Item::Pod(pod) => Key::Pod(pod.namespace.clone(), pod.name.clone(), sort(pod)),
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

/// What tells a template or an external entity from a pod of the same name.
pub(crate) fn sort(pod: &Pod) -> Option<SmolStr> {
    pod.stand_in.clone().or_else(|| pod.external.then(|| SmolStr::new_static(ENTITY)))
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
