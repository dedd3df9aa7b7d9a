//! Namespaces: those that are declared, and those that some pod is in.

use palisade_model::cluster::{NAMESPACE_NAME_LABEL, Namespace};
use palisade_model::label::Labels;
use smol_str::SmolStr;

use crate::endpoints::{Class, Endpoints, PodEntry};
use crate::id::Id;
use crate::shapes::Few;

/// A namespace that is declared, or that some pod is in.
#[derive(Debug)]
pub(crate) struct NamespaceEntry {
    pub(crate) namespace: Namespace,
    declared: bool,
    pub(crate) pods: u32,
    pub(crate) classes: Few<Id<Class>>,
    /// The pods that no selector finds.
    pub(crate) others: Few<Id<PodEntry>>,
}

/// How a namespace was.
#[derive(Debug)]
pub(crate) enum Before {
    /// It was not there.
    Nothing,
    /// Like this.
    Was(Namespace),
}

/// What became of a namespace that is not declared any more.
#[derive(Debug)]
pub(crate) enum Undeclared {
    /// It is gone.
    Gone(Namespace),
    /// It is still there, and has other labels than before.
    Bare(Id<NamespaceEntry>, Namespace),
}

impl Endpoints {
    pub(crate) fn namespace(&self, name: &str) -> Option<Id<NamespaceEntry>> {
        self.namespace_by_name.get(name).copied()
    }

    /// The namespaces that have a label, with that value or any, and perhaps others.
    pub(crate) fn with_namespace_label(&self, label: (&str, Option<&str>)) -> &[Id<NamespaceEntry>] {
        self.namespace_by_label.get(&label)
    }

    pub(crate) fn namespace_or_new(&mut self, name: &SmolStr) -> (Id<NamespaceEntry>, bool) {
        if let Some(at) = self.namespace_by_name.get(name) {
            return (*at, false);
        }
        let at = self.namespaces.insert(NamespaceEntry {
            namespace: bare(name),
            declared: false,
            pods: 0,
            classes: Few::new(),
            others: Few::new(),
        });
        self.namespace_by_name.insert(name.clone(), at);
        self.note_labels(at, true);
        (at, true)
    }

    /// Declares a namespace: its place, and how it was before, if it is new or its labels have changed.
    pub(crate) fn declare(&mut self, mut namespace: Namespace) -> (Id<NamespaceEntry>, Option<Before>) {
        let (at, new) = self.namespace_or_new(&namespace.name);
        let entry = &mut self.namespaces[at];
        entry.declared = true;
        namespace.labels.set(NAMESPACE_NAME_LABEL.into(), namespace.name.clone());
        let changed = entry.namespace.labels != namespace.labels;
        let before = self.replace_namespace(at, namespace);
        let before = match (new, changed) {
            (true, _) => Some(Before::Nothing),
            (false, true) => Some(Before::Was(before)),
            (false, false) => None,
        };
        (at, before)
    }

    /// Takes a declaration back: a namespace with pods stays, without labels of its own.
    pub(crate) fn undeclare(&mut self, name: &str) -> Option<Undeclared> {
        let at = self.namespace(name)?;
        self.namespaces[at].declared = false;
        if let Some(gone) = self.forget_namespace(at) {
            return Some(Undeclared::Gone(gone));
        }
        let bare = bare(&self.namespaces[at].namespace.name);
        if self.namespaces[at].namespace.labels == bare.labels {
            return None;
        }
        let before = self.replace_namespace(at, bare);
        Some(Undeclared::Bare(at, before))
    }

    fn replace_namespace(&mut self, at: Id<NamespaceEntry>, namespace: Namespace) -> Namespace {
        self.note_labels(at, false);
        let before = std::mem::replace(&mut self.namespaces[at].namespace, namespace);
        self.note_labels(at, true);
        before
    }

    fn note_labels(&mut self, at: Id<NamespaceEntry>, there: bool) {
        for label in self.namespaces[at].namespace.labels.iter() {
            for label in [(label.0, Some(label.1)), (label.0, None)] {
                if there {
                    self.namespace_by_label.add(&label, at);
                } else {
                    self.namespace_by_label.take(&label, at);
                }
            }
        }
    }

    pub(crate) fn forget_namespace(&mut self, at: Id<NamespaceEntry>) -> Option<Namespace> {
        let entry = &self.namespaces[at];
        if entry.pods > 0 || entry.declared {
            return None;
        }
        self.note_labels(at, false);
        let gone = self.namespaces.remove(at).namespace;
        self.namespace_by_name.remove(&gone.name);
        Some(gone)
    }
}

/// A namespace that carries only its name, as every namespace does.
fn bare(name: &SmolStr) -> Namespace {
    let labels = Labels::new([(NAMESPACE_NAME_LABEL.into(), name.clone())]);
    Namespace { name: name.clone(), labels, at: None }
}
