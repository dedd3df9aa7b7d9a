//! Pods and their namespaces, and the classes they fall into.

use std::collections::HashMap;

use palisade_model::cluster::{NAMESPACE_NAME_LABEL, Namespace, Pod};
use palisade_model::label::Labels;
use slab::Slab;
use smol_str::SmolStr;

use crate::change::{Member, SetId};

/// Pods, namespaces and classes.
#[derive(Debug, Default)]
pub(crate) struct Endpoints {
    pods: Slab<PodEntry>,
    pod_by_name: HashMap<PodName, usize>,
    pub(crate) namespaces: Slab<NamespaceEntry>,
    namespace_by_name: HashMap<SmolStr, usize>,
    pub(crate) classes: Slab<Class>,
    /// Which classes have a label, for selectors that ask for it in all namespaces.
    by_label: HashMap<(SmolStr, SmolStr), Vec<usize>>,
}

/// Namespace, name, and the kind of template.
type PodName = (SmolStr, SmolStr, Option<SmolStr>);

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
    classes: HashMap<Labels, Vec<usize>>,
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
        self.pod_by_name.get(&(namespace.clone(), name.clone(), stand_in.clone())).copied()
    }

    pub(crate) fn namespace(&self, name: &str) -> Option<usize> {
        self.namespace_by_name.get(name).copied()
    }

    /// The classes that have a label, anywhere.
    pub(crate) fn with_label(&self, label: (&str, &str)) -> &[usize] {
        let key = (SmolStr::from(label.0), SmolStr::from(label.1));
        self.by_label.get(&key).map(Vec::as_slice).unwrap_or_default()
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
        let key = (pod.namespace.clone(), pod.name.clone(), pod.stand_in.clone());
        let selectable = !pod.host_network && !pod.terminated;
        let at = self.pods.insert(PodEntry { pod, namespace, class: None });
        self.pod_by_name.insert(key, at);
        let placed = selectable.then(|| self.place(at));
        (at, placed)
    }

    fn place(&mut self, at: usize) -> Placed {
        let entry = &self.pods[at];
        let (pod, namespace) = (&entry.pod, entry.namespace);
        let alike = |class: &&usize| {
            let class = &self.classes[**class];
            class.account == pod.account && class.external == pod.external
        };
        let found =
            self.namespaces[namespace].classes.get(&pod.labels).into_iter().flatten().find(alike).copied();
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
        let home = &mut self.namespaces[namespace];
        home.classes.entry(pod.labels.clone()).or_default().push(class);
        home.class_list.push(class);
        for (key, value) in pod.labels.iter() {
            self.by_label.entry((key.into(), value.into())).or_default().push(class);
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
        self.pod_by_name.remove(&(entry.pod.namespace, entry.pod.name, entry.pod.stand_in));
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
        let home = &mut self.namespaces[gone.namespace];
        home.class_list.retain(|other| *other != class);
        if let Some(alike) = home.classes.get_mut(&gone.labels) {
            alike.retain(|other| *other != class);
            if alike.is_empty() {
                home.classes.remove(&gone.labels);
            }
        }
        for (key, value) in gone.labels.iter() {
            let label = (SmolStr::from(key), SmolStr::from(value));
            if let Some(classes) = self.by_label.get_mut(&label) {
                classes.retain(|other| *other != class);
                if classes.is_empty() {
                    self.by_label.remove(&label);
                }
            }
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
            classes: HashMap::new(),
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

/// Every namespace carries its name as a label.
fn named(mut namespace: Namespace) -> Namespace {
    namespace.labels.set(NAMESPACE_NAME_LABEL.into(), namespace.name.clone());
    namespace
}
