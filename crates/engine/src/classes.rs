//! Where classes and sets meet: a class is matched against a set once, when the later of the two appears.

use palisade_model::cluster::Namespace;
use palisade_model::policy::{Namespaces, PodSet};

use crate::Engine;
use crate::endpoints::{Class, PodEntry, number};
use crate::id::{Id, SetId};
use crate::namespaces::NamespaceEntry;
use crate::selection::{Content, NamedPort, Wanted};
use crate::sets::clues;
use crate::shapes::{Few, KindEntry, Shape};
use crate::spans::Location;

impl Engine {
    /// The set with this content. One that nobody uses by the end of the event goes again.
    pub(crate) fn take_set(&mut self, wanted: Wanted<'_>) -> SetId {
        let (hash, found) = self.sets.find(wanted);
        if let Some(id) = found {
            return id;
        }
        if let Wanted::Pods(set, port) = wanted {
            let shapes = self.endpoints.shapes.ask_for(set, port);
            self.reclass(&shapes);
        }
        let id = self.sets.insert(hash, wanted);
        self.pending.idle.push(id);
        match wanted {
            Wanted::Pods(set, port) => self.fill_with_classes(id, set, port),
            Wanted::Nodes(selector) => self.hosts.select(id, selector),
            Wanted::Names(names) => self.names.select(id, names),
            Wanted::Service(name) => self.services.select(id, name),
            Wanted::Addresses(_) => {}
        }
        id
    }

    /// One use more, or less.
    pub(crate) fn use_set(&mut self, id: SetId, by: i32) {
        let set = &mut self.sets.sets[id];
        set.uses = set.uses.saturating_add_signed(by);
        if set.uses == 0 {
            self.pending.idle.push(id);
        }
    }

    /// Empties a set that nobody uses any more.
    pub(crate) fn empty_set(&mut self, id: SetId) {
        for class in std::mem::take(&mut self.sets.sets[id].classes) {
            let sets = &mut self.endpoints.classes[class].sets;
            if let Ok(at) = sets.binary_search_by_key(&id, |(other, _)| *other) {
                sets.remove(at);
            }
        }
        match &self.sets.sets[id].selection.content {
            Content::Nodes(_) => self.hosts.unselect(id),
            Content::Names(_) => self.names.unselect(id),
            Content::Service(name) => self.services.unselect(id, name),
            Content::Pods(..) | Content::Addresses(_) => {}
        }
    }

    /// Finds the classes of a new set, among the fewest that can be told to hold them all.
    fn fill_with_classes(&mut self, id: SetId, set: &PodSet, port: Option<&NamedPort>) {
        let shapes = &self.endpoints.shapes;
        let kinds: Option<Few<Id<KindEntry>>> = match port {
            Some(port) => Some(shapes.with_port(port).into()),
            None => clues(&set.pods)
                .map(|clues| clues.into_iter().flat_map(|label| shapes.with_label(label)).copied().collect()),
        };
        let labelled =
            kinds.as_ref().map(|kinds| kinds.iter().map(|kind| shapes.kinds[*kind].classes.as_slice()));
        let here = self.namespaces_of(&set.namespaces);
        let here = here
            .as_ref()
            .map(|namespaces| namespaces.iter().map(|at| self.endpoints.namespaces[*at].classes.as_slice()));
        let classes: Few<Id<Class>> = match (here, labelled) {
            (Some(here), Some(labelled)) if size(labelled.clone()) < size(here.clone()) => {
                labelled.flatten().copied().collect()
            }
            (Some(here), _) => here.flatten().copied().collect(),
            (None, Some(labelled)) => labelled.flatten().copied().collect(),
            (None, None) => self.endpoints.classes.iter().map(|(class, _)| class).collect(),
        };
        let mut classes: Few<Id<Class>> = classes
            .into_iter()
            .filter(|class| self.sets.sets[id].holds(&self.endpoints.classes[*class], &self.endpoints))
            .collect();
        classes.sort_unstable();
        classes.dedup();
        for class in classes {
            self.admit(id, class);
        }
    }

    /// The namespaces that a set can be of, where it says so: those with the one name, or with a label.
    fn namespaces_of(&self, namespaces: &Namespaces) -> Option<Few<Id<NamespaceEntry>>> {
        match namespaces {
            Namespaces::Named(name) => Some(self.endpoints.namespace(name).into_iter().collect()),
            Namespaces::Matching(selector) => {
                let labels = clues(selector)?.into_iter();
                Some(labels.flat_map(|label| self.endpoints.with_namespace_label(label)).copied().collect())
            }
            _ => None,
        }
    }

    /// A class is in a set.
    pub(crate) fn admit(&mut self, set: SetId, class: Id<Class>) {
        let classes = &mut self.sets.sets[set].classes;
        classes.push(class);
        let place = number(classes.len() - 1);
        let holders = &mut self.endpoints.classes[class].sets;
        if let Err(at) = holders.binary_search_by_key(&set, |(other, _)| *other) {
            holders.insert(at, (set, place));
        }
        self.count_class(set, class, 1);
        self.split_class(set, class, 1);
    }

    /// A class is not in a set any more.
    pub(crate) fn expel(&mut self, set: SetId, class: Id<Class>) {
        self.split_class(set, class, -1);
        self.count_class(set, class, -1);
        let holders = &mut self.endpoints.classes[class].sets;
        let Ok(at) = holders.binary_search_by_key(&set, |(other, _)| *other) else { return };
        let (_, place) = holders.remove(at);
        let classes = &mut self.sets.sets[set].classes;
        classes.swap_remove(place as usize);
        if let Some(moved) = classes.get(place as usize) {
            let holders = &mut self.endpoints.classes[*moved].sets;
            if let Ok(at) = holders.binary_search_by_key(&set, |(other, _)| *other) {
                holders[at].1 = place;
            }
        }
    }

    fn count_class(&mut self, set: SetId, class: Id<Class>, by: i32) {
        if self.sets.sets[set].applied > 0 {
            for at in 0..self.endpoints.classes[class].pods.len() {
                let pod = self.endpoints.classes[class].pods[at];
                if let Some(host) = self.endpoints.pods[pod].host {
                    self.count_member(set, Location::Node(host), by);
                }
            }
        }
    }

    /// Puts a pod into its class, and with it into the class's sets.
    pub(crate) fn place_pod(&mut self, pod: Id<PodEntry>) {
        let (class, new) = self.endpoints.class_for(pod);
        if new {
            let holders = self.sets.holding(&self.endpoints.classes[class], &self.endpoints);
            for set in holders {
                self.admit(set, class);
            }
        }
        self.endpoints.join(pod, class);
        self.count_pod(pod, class, 1);
    }

    /// Takes a pod out of its class and its sets.
    pub(crate) fn unplace_pod(&mut self, pod: Id<PodEntry>) {
        let Some(class) = self.endpoints.pods[pod].class else { return };
        self.count_pod(pod, class, -1);
        self.endpoints.leave(pod);
        self.retire(class);
    }

    /// Counts a pod of a class in the sets that hold the class, at its node.
    fn count_pod(&mut self, pod: Id<PodEntry>, class: Id<Class>, by: i32) {
        let Some(host) = self.endpoints.pods[pod].host else { return };
        for at in 0..self.endpoints.classes[class].sets.len() {
            let (set, _) = self.endpoints.classes[class].sets[at];
            self.count_member(set, Location::Node(host), by);
        }
    }

    fn retire(&mut self, class: Id<Class>) {
        if self.endpoints.classes[class].pods.is_empty() {
            let holders: Few<SetId> = self.endpoints.classes[class].holders().collect();
            for set in holders {
                self.expel(set, class);
            }
            self.endpoints.forget(class);
        }
    }

    /// Something is asked for that was not before, or is not any more: pods of these shapes fall into other classes, which are in
    /// the same sets, because none of those asks for it.
    pub(crate) fn reclass(&mut self, shapes: &[Id<Shape>]) {
        for shape in shapes {
            let Some(old) = self.endpoints.shapes.project_anew(*shape) else { continue };
            for pod in self.endpoints.shapes.shapes[*shape].pods.clone() {
                // Pods that no selector finds have no class.
                let Some(before) = self.endpoints.pods[pod].class else { continue };
                self.endpoints.leave(pod);
                let (class, new) = self.endpoints.class_for(pod);
                if new {
                    let holders: Few<SetId> = self.endpoints.classes[before].holders().collect();
                    for set in holders {
                        self.admit(set, class);
                    }
                }
                self.endpoints.join(pod, class);
                self.retire(before);
            }
            self.endpoints.shapes.leave_kind(old);
        }
    }

    /// Puts together what no rule tells apart any more: labels that the last set to ask for them is gone of. It takes a walk
    /// over all pods and changes nothing that anybody sees; a quiet moment is a good one, and a list of everything does it.
    pub fn tidy(&mut self) {
        let shapes = self.endpoints.shapes.tidy();
        self.reclass(&shapes);
    }

    /// The labels of a namespace have changed: its classes are in other sets now.
    pub(crate) fn relabelled(&mut self, namespace: Id<NamespaceEntry>, before: &Namespace) {
        let after = &self.endpoints.namespaces[namespace].namespace;
        let sets = self.sets.minding(&before.labels, &after.labels);
        if sets.is_empty() && self.relatives.len() == 0 {
            return;
        }
        let classes = self.endpoints.namespaces[namespace].classes.clone();
        for class in &classes {
            self.pending.touch_class(&self.endpoints, *class);
        }
        for set in sets {
            for class in &classes {
                let class = *class;
                let holds = self.sets.sets[set].holds(&self.endpoints.classes[class], &self.endpoints);
                match (self.endpoints.classes[class].is_in(set), holds) {
                    (false, true) => self.admit(set, class),
                    (true, false) => self.expel(set, class),
                    _ => {}
                }
            }
        }
    }
}

fn size<'c>(lists: impl Iterator<Item = &'c [Id<Class>]>) -> usize {
    lists.map(<[Id<Class>]>::len).sum()
}
