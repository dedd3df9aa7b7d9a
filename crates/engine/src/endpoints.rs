//! Pods and their namespaces, and the classes they fall into.

use std::collections::HashMap;

use palisade_model::cluster::{NAMESPACE_NAME_LABEL, Namespace, Pod};
use palisade_model::label::Labels;
use slab::Slab;
use smol_str::SmolStr;

use crate::change::{Member, SetId};
use crate::table::{Index, Table};

/// Pods, namespaces and classes.
#[derive(Debug, Default)]
pub(crate) struct Endpoints {
    pods: Slab<PodEntry>,
    /// By namespace, name and kind of template.
    pod_by_name: Table,
    pub(crate) namespaces: Slab<NamespaceEntry>,
    namespace_by_name: HashMap<SmolStr, usize>,
    pub(crate) classes: Slab<Class>,
    /// By what makes it one.
    class_by_content: Table,
    /// Which classes have a label, for selectors that ask for it in all namespaces.
    by_label: Index,
}

#[derive(Debug)]
struct PodEntry {
    pod: Pod,
    namespace: usize,
    /// Its class, and its place there. Pods that no selector finds have none.
    class: Option<(usize, usize)>,
}

/// A namespace that is declared, or that some pod is in.
#[derive(Debug)]
pub(crate) struct NamespaceEntry {
    pub(crate) namespace: Namespace,
    declared: bool,
    pods: usize,
    pub(crate) class_list: Vec<usize>,
}

/// Pods that no selector tells apart.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) namespace: usize,
    pub(crate) labels: Labels,
    pub(crate) account: SmolStr,
    pub(crate) external: bool,
    pub(crate) pods: Vec<usize>,
    /// The sets that hold it, sorted.
    pub(crate) sets: Vec<SetId>,
}

/// A pod that went into a class.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placed {
    /// The pod.
    pub(crate) pod: usize,
    /// Its class.
    pub(crate) class: usize,
    /// Whether the class is new.
    pub(crate) new: bool,
}

// === impl Endpoints ===

impl Endpoints {
    pub(crate) fn pod(&self, at: usize) -> &Pod {
        &self.pods[at].pod
    }

    pub(crate) fn pod_count(&self) -> usize {
        self.pods.len()
    }

    pub(crate) fn namespace_of(&self, pod: usize) -> &Namespace {
        &self.namespaces[self.pods[pod].namespace].namespace
    }

    pub(crate) fn class_of(&self, pod: usize) -> Option<&Class> {
        self.pods[pod].class.map(|(class, _)| &self.classes[class])
    }

    pub(crate) fn find(
        &self,
        namespace: &SmolStr,
        name: &SmolStr,
        stand_in: &Option<SmolStr>,
    ) -> Option<usize> {
        self.pod_by_name.find(&(namespace, name, stand_in), |at| {
            let pod = &self.pods[at].pod;
            pod.name == *name && pod.namespace == *namespace && pod.stand_in == *stand_in
        })
    }

    pub(crate) fn namespace(&self, name: &str) -> Option<usize> {
        self.namespace_by_name.get(name).copied()
    }

    /// The classes that have a label, anywhere.
    pub(crate) fn with_label(&self, label: (&str, &str)) -> &[usize] {
        self.by_label.get(&label)
    }

    /// A pod as a member of a set.
    pub(crate) fn member(&self, pod: usize) -> Member {
        let pod = &self.pods[pod].pod;
        Member {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            addresses: pod.addresses.clone(),
            node: pod.node.clone(),
        }
    }

    /// Puts a new pod in its place.
    pub(crate) fn insert(&mut self, pod: Pod) -> (usize, Option<Placed>) {
        let namespace = self.namespace_or_new(&pod.namespace);
        self.namespaces[namespace].pods += 1;
        let hash = self.pod_by_name.hash(&(&pod.namespace, &pod.name, &pod.stand_in));
        let selectable = !pod.host_network && !pod.terminated;
        let at = self.pods.insert(PodEntry { pod, namespace, class: None });
        self.pod_by_name.insert(hash, at);
        let placed = selectable.then(|| self.place(at));
        (at, placed)
    }

    fn place(&mut self, at: usize) -> Placed {
        let entry = &self.pods[at];
        let (pod, namespace) = (&entry.pod, entry.namespace);
        let content = (namespace, &pod.labels, &pod.account, pod.external);
        let found = self.class_by_content.find(&content, |class| self.classes[class].content() == content);
        let (class, new) = match found {
            Some(class) => (class, false),
            None => (self.new_class(at, namespace), true),
        };
        let pods = &mut self.classes[class].pods;
        pods.push(at);
        let place = pods.len() - 1;
        self.pods[at].class = Some((class, place));
        Placed { pod: at, class, new }
    }

    fn new_class(&mut self, pod: usize, namespace: usize) -> usize {
        let pod = &self.pods[pod].pod;
        let class = self.classes.insert(Class {
            namespace,
            labels: pod.labels.clone(),
            account: pod.account.clone(),
            external: pod.external,
            pods: Vec::new(),
            sets: Vec::new(),
        });
        let hash = self.class_by_content.hash(&self.classes[class].content());
        self.class_by_content.insert(hash, class);
        self.namespaces[namespace].class_list.push(class);
        for label in pod.labels.iter() {
            self.by_label.add(&label, class);
        }
        class
    }

    /// Takes a pod out of its class. The class stays until [`Endpoints::forget`] is told.
    pub(crate) fn leave(&mut self, pod: usize) -> Option<usize> {
        let (class, place) = self.pods[pod].class.take()?;
        let pods = &mut self.classes[class].pods;
        pods.swap_remove(place);
        if let Some(moved) = pods.get(place).copied() {
            self.pods[moved].class = Some((class, place));
        }
        Some(class)
    }

    /// Removes a pod that has left its class.
    pub(crate) fn remove(&mut self, pod: usize) {
        let entry = self.pods.remove(pod);
        let gone = &entry.pod;
        self.pod_by_name.remove(&(&gone.namespace, &gone.name, &gone.stand_in), pod);
        self.namespaces[entry.namespace].pods -= 1;
        self.forget_namespace(entry.namespace);
    }

    /// Changes what no selector sees of a pod.
    pub(crate) fn replace(&mut self, at: usize, pod: Pod) {
        self.pods[at].pod = pod;
    }

    /// Removes a class that has no pods any more; its sets have been told.
    pub(crate) fn forget(&mut self, class: usize) {
        let gone = self.classes.remove(class);
        self.class_by_content.remove(&gone.content(), class);
        self.namespaces[gone.namespace].class_list.retain(|other| *other != class);
        for label in gone.labels.iter() {
            self.by_label.take(&label, class);
        }
    }

    fn namespace_or_new(&mut self, name: &SmolStr) -> usize {
        if let Some(at) = self.namespace_by_name.get(name) {
            return *at;
        }
        let namespace = Namespace { name: name.clone(), labels: Labels::default(), at: None };
        let at = self.namespaces.insert(NamespaceEntry {
            namespace: named(namespace),
            declared: false,
            pods: 0,
            class_list: Vec::new(),
        });
        self.namespace_by_name.insert(name.clone(), at);
        at
    }

    /// Declares a namespace; its place, if its labels have changed.
    pub(crate) fn declare(&mut self, namespace: Namespace) -> Option<usize> {
        let at = self.namespace_or_new(&namespace.name);
        let entry = &mut self.namespaces[at];
        entry.declared = true;
        let namespace = named(namespace);
        let changed = entry.namespace.labels != namespace.labels;
        entry.namespace = namespace;
        changed.then_some(at)
    }

    /// Takes a declaration back: a namespace with pods stays, without labels of its own.
    pub(crate) fn undeclare(&mut self, name: &SmolStr) -> Option<usize> {
        let at = self.namespace(name)?;
        self.namespaces[at].declared = false;
        if self.namespaces[at].pods == 0 {
            self.forget_namespace(at);
            return None;
        }
        let bare = named(Namespace { name: name.clone(), labels: Labels::default(), at: None });
        let changed = self.namespaces[at].namespace.labels != bare.labels;
        self.namespaces[at].namespace = bare;
        changed.then_some(at)
    }

    fn forget_namespace(&mut self, at: usize) {
        let entry = &self.namespaces[at];
        if entry.pods == 0 && !entry.declared {
            let gone = self.namespaces.remove(at);
            self.namespace_by_name.remove(&gone.namespace.name);
        }
    }
}

// === impl Class ===

impl Class {
    fn content(&self) -> (usize, &Labels, &SmolStr, bool) {
        (self.namespace, &self.labels, &self.account, self.external)
    }
}

/// Every namespace carries its name as a label.
fn named(mut namespace: Namespace) -> Namespace {
    namespace.labels.set(NAMESPACE_NAME_LABEL.into(), namespace.name.clone());
    namespace
}
