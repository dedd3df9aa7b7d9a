//! Pods and their namespaces, and the classes they fall into.
//!
//! A **class** is the pods of one kind in one namespace: whatever a set says of one of them, it says of all.

use std::net::IpAddr;
use std::sync::Arc;

use palisade_model::cluster::{Namespace, Pod};
use palisade_model::label::Labels;
use palisade_model::matching::PodFacts;
use smallvec::SmallVec;
use smol_str::SmolStr;

use crate::arena::Arena;
use crate::delta::{Member, MemberKind};
use crate::hosts::HostId;
use crate::id::{Id, SetId};
use crate::namespaces::NamespaceEntry;
use crate::shapes::{Few, Kind, KindEntry, Shape, Shapes};
use crate::table::{Index, Map, Table};

/// Pods, namespaces and classes.
#[derive(Debug, Default)]
pub(crate) struct Endpoints {
    pub(crate) pods: Arena<PodEntry>,
    /// By namespace, name and variant.
    pod_by_name: Table<Id<PodEntry>>,
    pub(crate) namespaces: Arena<NamespaceEntry>,
    pub(crate) namespace_by_name: Map<SmolStr, Id<NamespaceEntry>>,
    pub(crate) namespace_by_label: Index<Id<NamespaceEntry>>,
    pub(crate) shapes: Shapes,
    pub(crate) classes: Arena<Class>,
    /// By namespace and kind.
    class_by_content: Map<(Id<NamespaceEntry>, Id<KindEntry>), Id<Class>>,
}

/// A pod, with what is not in its shape.
#[derive(Debug)]
pub(crate) struct PodEntry {
    pub(crate) member: Arc<Member>,
    pub(crate) namespace: Id<NamespaceEntry>,
    shape: Id<Shape>,
    place_in_shape: u32,
    /// Its class; `None` for pods that no selector finds.
    pub(crate) class: Option<Id<Class>>,
    /// Its index in the class, or among [`NamespaceEntry::others`].
    place_in_class: u32,
    /// The node it runs on, once it is scheduled.
    pub(crate) host: Option<HostId>,
    host_addresses: Box<[IpAddr]>,
    pub(crate) host_network: bool,
    pub(crate) terminated: bool,
    pub(crate) ready: bool,
}

/// Pods that no rule tells apart.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) namespace: Id<NamespaceEntry>,
    pub(crate) kind: Id<KindEntry>,
    pub(crate) pods: Few<Id<PodEntry>>,
    /// The sets that hold it, sorted, and its place in each.
    pub(crate) sets: Holders,
    place_in_namespace: u32,
    place_in_kind: u32,
}

/// Sets that hold something, sorted, with its place there.
pub(crate) type Holders = SmallVec<[(SetId, u32); 3]>;

// === impl Class ===

impl Class {
    /// Whether a set holds it.
    pub(crate) fn is_in(&self, set: SetId) -> bool {
        self.sets.binary_search_by_key(&set, |(other, _)| *other).is_ok()
    }

    /// The sets that hold it.
    pub(crate) fn holders(&self) -> impl Iterator<Item = SetId> {
        self.sets.iter().map(|(set, _)| *set)
    }
}

// === impl Endpoints ===

impl Endpoints {
    pub(crate) fn is_empty(&self) -> bool {
        self.pods.len() + self.namespaces.len() + self.classes.len() == 0
            && self.namespace_by_name.is_empty()
            && self.class_by_content.is_empty()
            && self.namespace_by_label.is_empty()
            && self.shapes.is_empty()
    }

    pub(crate) fn namespace_of(&self, pod: Id<PodEntry>) -> &Namespace {
        &self.namespaces[self.pods[pod].namespace].namespace
    }

    pub(crate) fn class_of(&self, pod: Id<PodEntry>) -> Option<&Class> {
        self.pods[pod].class.map(|class| &self.classes[class])
    }

    /// Returns the class of a pod that may not be there.
    pub(crate) fn class_at(&self, pod: Id<PodEntry>) -> Option<&Class> {
        self.pods.get(pod)?.class.map(|class| &self.classes[class])
    }

    pub(crate) fn kind(&self, class: &Class) -> &Kind {
        &self.shapes.kinds[class.kind].kind
    }

    pub(crate) fn labels(&self, pod: Id<PodEntry>) -> &Labels {
        &self.shapes.shapes[self.pods[pod].shape].labels
    }

    pub(crate) fn facts(&self, pod: Id<PodEntry>) -> PodFacts<'_> {
        let entry = &self.pods[pod];
        let shape = &self.shapes.shapes[entry.shape];
        PodFacts {
            node: entry.member.node.as_ref(),
            host_addresses: &entry.host_addresses,
            ports: &shape.ports,
            host_network: entry.host_network,
            external: shape.external,
            stand_in: matches!(entry.member.kind, MemberKind::Template(_)),
        }
    }

    pub(crate) fn find(&self, namespace: &str, name: &str, variant: Option<&str>) -> Option<Id<PodEntry>> {
        let hash = self.pod_by_name.hash(&(namespace, name, variant));
        self.pod_by_name.find(hash, |at| {
            let member = &self.pods[at].member;
            member.name == name && member.namespace == namespace && member.variant() == variant
        })
    }

    /// Puts a new pod in its place, without a class yet. Whether its namespace is new.
    pub(crate) fn insert(&mut self, pod: &Pod, host: Option<HostId>) -> (Id<PodEntry>, bool) {
        let (namespace, new) = self.namespace_or_new(&pod.namespace);
        self.namespaces[namespace].pods += 1;
        let member = Arc::new(Member::from(pod));
        let hash = self.pod_by_name.hash(&(&*member.namespace, &*member.name, member.variant()));
        let shape = self.shapes.of(pod);
        let at = self.pods.insert(PodEntry {
            member,
            namespace,
            shape,
            place_in_shape: number(self.shapes.shapes[shape].pods.len()),
            class: None,
            place_in_class: 0,
            host,
            host_addresses: pod.host_addresses.as_slice().into(),
            host_network: pod.host_network,
            terminated: pod.terminated,
            ready: pod.ready,
        });
        self.shapes.shapes[shape].pods.push(at);
        if !self.is_selectable(at) {
            let others = &mut self.namespaces[namespace].others;
            self.pods[at].place_in_class = number(others.len());
            others.push(at);
        }
        self.pod_by_name.insert(hash, at);
        (at, new)
    }

    /// A pod is not found by its name any more: it is about to go.
    pub(crate) fn hide(&mut self, pod: Id<PodEntry>) {
        let member = &self.pods[pod].member;
        let hash = self.pod_by_name.hash(&(&*member.namespace, &*member.name, member.variant()));
        self.pod_by_name.remove(hash, pod);
    }

    /// Removes a pod that is hidden and has left its class. Its namespace may be gone with it.
    pub(crate) fn remove(&mut self, pod: Id<PodEntry>) -> Option<Namespace> {
        let entry = self.pods.remove(pod);
        let pods = &mut self.shapes.shapes[entry.shape].pods;
        pods.swap_remove(entry.place_in_shape as usize);
        if let Some(moved) = pods.get(entry.place_in_shape as usize) {
            self.pods[*moved].place_in_shape = entry.place_in_shape;
        }
        if self.shapes.shapes[entry.shape].pods.is_empty() {
            self.shapes.forget(entry.shape);
        }
        let home = &mut self.namespaces[entry.namespace];
        home.pods -= 1;
        if entry.host_network || entry.terminated {
            home.others.swap_remove(entry.place_in_class as usize);
            if let Some(moved) = home.others.get(entry.place_in_class as usize) {
                self.pods[*moved].place_in_class = entry.place_in_class;
            }
        }
        self.forget_namespace(entry.namespace)
    }

    /// Whether a pod is as it was.
    pub(crate) fn is_same(&self, at: Id<PodEntry>, pod: &Pod) -> bool {
        let entry = &self.pods[at];
        let shape = &self.shapes.shapes[entry.shape];
        entry.member.addresses.as_slice() == pod.addresses
            && entry.member.node == pod.node
            && (entry.host_network, entry.terminated, entry.ready)
                == (pod.host_network, pod.terminated, pod.ready)
            && *entry.host_addresses == *pod.host_addresses
            && (&shape.labels, &*shape.ports, &shape.account, shape.external)
                == (&pod.labels, &*pod.ports, &pod.account, pod.external)
    }

    /// All pods of a namespace.
    pub(crate) fn pods_in(&self, namespace: Id<NamespaceEntry>) -> impl Iterator<Item = Id<PodEntry>> {
        let entry = &self.namespaces[namespace];
        let found = entry.classes.iter().flat_map(|class| &self.classes[*class].pods);
        found.chain(&entry.others).copied()
    }

    /// Whether selectors find it.
    pub(crate) fn is_selectable(&self, pod: Id<PodEntry>) -> bool {
        let entry = &self.pods[pod];
        !entry.host_network && !entry.terminated
    }

    /// The class that a pod belongs to, and whether it is new. The pod is not in it yet.
    pub(crate) fn class_for(&mut self, pod: Id<PodEntry>) -> (Id<Class>, bool) {
        let entry = &self.pods[pod];
        let (namespace, kind) = (entry.namespace, self.shapes.shapes[entry.shape].kind);
        if let Some(class) = self.class_by_content.get(&(namespace, kind)) {
            return (*class, false);
        }
        let class = self.classes.insert(Class {
            namespace,
            kind,
            pods: Few::new(),
            sets: Holders::new(),
            place_in_namespace: number(self.namespaces[namespace].classes.len()),
            place_in_kind: number(self.shapes.kinds[kind].classes.len()),
        });
        self.class_by_content.insert((namespace, kind), class);
        self.namespaces[namespace].classes.push(class);
        self.shapes.kinds[kind].classes.push(class);
        (class, true)
    }

    /// Puts a pod into a class.
    pub(crate) fn join(&mut self, pod: Id<PodEntry>, class: Id<Class>) {
        let pods = &mut self.classes[class].pods;
        pods.push(pod);
        let place = number(pods.len() - 1);
        let entry = &mut self.pods[pod];
        (entry.class, entry.place_in_class) = (Some(class), place);
    }

    /// Takes a pod out of its class. The class stays until [`Endpoints::forget`] is told.
    pub(crate) fn leave(&mut self, pod: Id<PodEntry>) {
        let entry = &mut self.pods[pod];
        let place = entry.place_in_class;
        let Some(class) = entry.class.take() else { return };
        let pods = &mut self.classes[class].pods;
        pods.swap_remove(place as usize);
        if let Some(moved) = pods.get(place as usize).copied() {
            self.pods[moved].place_in_class = place;
        }
    }

    /// Removes a class that has no pods any more; its sets have been told.
    pub(crate) fn forget(&mut self, class: Id<Class>) {
        let gone = self.classes.remove(class);
        self.class_by_content.remove(&(gone.namespace, gone.kind));
        let siblings = &mut self.namespaces[gone.namespace].classes;
        siblings.swap_remove(gone.place_in_namespace as usize);
        if let Some(moved) = siblings.get(gone.place_in_namespace as usize) {
            self.classes[*moved].place_in_namespace = gone.place_in_namespace;
        }
        let cousins = &mut self.shapes.kinds[gone.kind].classes;
        cousins.swap_remove(gone.place_in_kind as usize);
        if let Some(moved) = cousins.get(gone.place_in_kind as usize) {
            self.classes[*moved].place_in_kind = gone.place_in_kind;
        }
    }
}

/// A length as a number: nothing here is longer than there are numbers for it.
#[expect(
    clippy::cast_possible_truncation,
    reason = "indices are 32 bits: more objects than that fit in no memory"
)]
pub(crate) fn number(length: usize) -> u32 {
    length as u32
}

// === impl Member ===

impl From<&Pod> for Member {
    fn from(pod: &Pod) -> Self {
        let kind = match &pod.stand_in {
            Some(kind) => MemberKind::Template(kind.clone()),
            None if pod.external => MemberKind::Entity,
            None => MemberKind::Pod,
        };
        Member {
            kind,
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            addresses: pod.addresses.as_slice().into(),
            node: pod.node.clone(),
        }
    }
}

impl Member {
    /// Returns the [`Pod::variant`] of the pod it was made from.
    pub(crate) fn variant(&self) -> Option<&str> {
        match &self.kind {
            MemberKind::Template(kind) => Some(kind),
            MemberKind::Entity => Some(Pod::EXTERNAL_ENTITY),
            _ => None,
        }
    }
}
