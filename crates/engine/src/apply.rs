//! Where an event goes: every change of an object, and what it does to classes, sets and policies.

use std::net::IpAddr;

use palisade_model::cluster::{Namespace, Pod, Service};
use palisade_model::group::GroupName;
use palisade_model::policy::{DomainName, Namespaces, ServiceName};
use palisade_model::snapshot::groups;
use smol_str::SmolStr;

use crate::Engine;
use crate::change::{Change, SetId};
use crate::event::{Event, Item, Key};

impl Engine {
    /// Takes a change. Nothing is wrong with one that changes nothing.
    pub fn apply(&mut self, event: Event) {
        self.epoch += 1;
        match event {
            Event::Apply(Item::Namespace(namespace)) => self.declare(namespace),
            Event::Apply(Item::Pod(pod)) => self.apply_pod(pod),
            Event::Apply(Item::Node(node)) => match self.node_by_name.get(&node.name) {
                Some(at) => self.nodes[*at] = node,
                None => {
                    let name = node.name.clone();
                    let at = self.nodes.insert(node);
                    self.node_by_name.insert(name, at);
                }
            },
            Event::Apply(Item::Service(service)) => {
                let key = (service.namespace.clone(), service.name.clone());
                match self.service_by_name.get(&key) {
                    Some(at) => self.services[*at] = service,
                    None => {
                        let at = self.services.insert(service);
                        self.service_by_name.insert(key, at);
                    }
                }
                self.resolve_groups();
            }
            Event::Apply(Item::Endpoints(name, endpoints)) => {
                let key = (endpoints.namespace.clone(), endpoints.service.clone(), name);
                self.backends.insert(key, endpoints);
            }
            Event::Apply(Item::Policy(policy)) => self.apply_policy(policy),
            Event::Apply(Item::Tier(name, priority)) => {
                if self.tiers.insert(name.clone(), priority) != Some(priority) {
                    self.tier_changed(&name);
                }
            }
            Event::Apply(Item::Group(group)) => {
                self.groups.insert(group.name(), group);
                self.resolve_groups();
            }
            Event::Apply(Item::Name(name, addresses)) => drop(self.names.insert(name, addresses)),
            Event::Delete(key) => self.delete(&key),
        }
    }

    fn delete(&mut self, key: &Key) {
        match key {
            Key::Namespace(name) => {
                if let Some(at) = self.endpoints.undeclare(name) {
                    self.relabelled(at);
                }
            }
            Key::Pod(namespace, name, stand_in) => {
                if let Some(pod) = self.endpoints.find(namespace, name, stand_in) {
                    self.remove_pod(pod);
                }
            }
            Key::Node(name) => {
                if let Some(at) = self.node_by_name.remove(name) {
                    self.nodes.remove(at);
                }
            }
            Key::Service(namespace, name) => {
                if let Some(at) = self.service_by_name.remove(&(namespace.clone(), name.clone())) {
                    self.services.remove(at);
                    self.resolve_groups();
                }
            }
            Key::Endpoints(namespace, service, name) => {
                self.backends.remove(&(namespace.clone(), service.clone(), name.clone()));
            }
            Key::Policy(key) => self.delete_policy(key),
            Key::Tier(name) => {
                if self.tiers.remove(name).is_some() {
                    self.tier_changed(name);
                }
            }
            Key::Group(name) => {
                if self.groups.remove(name).is_some() {
                    self.resolve_groups();
                }
            }
            Key::Name(name) => drop(self.names.remove(name)),
        }
    }

    // pods and namespaces

    fn apply_pod(&mut self, pod: Pod) {
        if let Some(at) = self.endpoints.find(&pod.namespace, &pod.name, &pod.stand_in) {
            let old = self.endpoints.pod(at);
            let seen = |pod: &Pod| (pod.host_network, pod.terminated, pod.external);
            let alike = seen(old) == seen(&pod)
                && old.labels == pod.labels
                && old.account == pod.account
                && old.addresses == pod.addresses
                && old.node == pod.node;
            if alike {
                self.endpoints.replace(at, pod);
                return;
            }
            self.remove_pod(at);
        }
        let (_, placed) = self.endpoints.insert(pod);
        let Some(placed) = placed else { return };
        if placed.new {
            self.match_class(placed.class);
        }
        let member = self.endpoints.member(placed.pod);
        for set in &self.endpoints.classes[placed.class].sets {
            self.changes.push(Change::Join(*set, member.clone()));
        }
    }

    fn remove_pod(&mut self, pod: usize) {
        let member = self.endpoints.member(pod);
        if let Some(class) = self.endpoints.leave(pod) {
            for set in &self.endpoints.classes[class].sets {
                self.changes.push(Change::Leave(*set, member.clone()));
            }
            if self.endpoints.classes[class].pods.is_empty() {
                for set in std::mem::take(&mut self.endpoints.classes[class].sets) {
                    self.sets.sets[set].classes.retain(|other| *other != class);
                }
                self.endpoints.forget(class);
            }
        }
        self.endpoints.remove(pod);
    }

    fn declare(&mut self, namespace: Namespace) {
        if let Some(at) = self.endpoints.declare(namespace) {
            self.relabelled(at);
        }
    }

    /// The labels of a namespace have changed: its classes are in other sets now.
    fn relabelled(&mut self, namespace: usize) {
        let classes = self.endpoints.namespaces[namespace].class_list.clone();
        if classes.is_empty() {
            return;
        }
        for set in self.sets.by_namespace_labels() {
            for class in &classes {
                let holds = self.sets.sets[set].holds(&self.endpoints.classes[*class], &self.endpoints);
                let held = self.endpoints.classes[*class].sets.binary_search(&set).is_ok();
                match (held, holds) {
                    (false, true) => self.admit(set, *class),
                    (true, false) => self.expel(set, *class),
                    _ => {}
                }
            }
        }
    }

    /// Finds the sets of a new class.
    fn match_class(&mut self, class: usize) {
        let found = &self.endpoints.classes[class];
        let namespace = &self.endpoints.namespaces[found.namespace].namespace.name;
        let mut candidates = self.sets.candidates(namespace, &found.labels);
        candidates.retain(|set| self.sets.sets[*set].holds(found, &self.endpoints));
        for set in &candidates {
            self.sets.sets[*set].classes.push(class);
        }
        self.endpoints.classes[class].sets = candidates;
    }

    /// Finds the classes of a new set.
    pub(crate) fn fill_set(&mut self, set: SetId) {
        let content = self.sets.sets[set].content.clone();
        self.changes.push(Change::Set(set, content.clone()));
        let here = match &content.namespaces {
            Namespaces::Named(name) => {
                let namespace = self.endpoints.namespace(name);
                Some(
                    namespace
                        .map(|at| self.endpoints.namespaces[at].class_list.as_slice())
                        .unwrap_or_default(),
                )
            }
            _ => None,
        };
        let labelled = content.pods.required_label().map(|label| self.endpoints.with_label(label));
        // Whichever are fewer: those of the namespace, or those with the label.
        let classes: Vec<usize> = match (here, labelled) {
            (Some(here), Some(labelled)) if labelled.len() < here.len() => labelled.to_vec(),
            (Some(here), _) => here.to_vec(),
            (None, Some(labelled)) => labelled.to_vec(),
            (None, None) => self.endpoints.classes.iter().map(|(class, _)| class).collect(),
        };
        for class in classes {
            if self.sets.sets[set].holds(&self.endpoints.classes[class], &self.endpoints) {
                self.admit(set, class);
            }
        }
    }

    /// Empties a set that nobody uses any more, and removes it.
    pub(crate) fn drop_set(&mut self, set: SetId) {
        for class in self.sets.sets[set].classes.clone() {
            self.expel(set, class);
        }
        self.sets.remove(set);
        self.changes.push(Change::Unset(set));
    }

    fn admit(&mut self, set: SetId, class: usize) {
        self.sets.sets[set].classes.push(class);
        let found = &mut self.endpoints.classes[class];
        if let Err(at) = found.sets.binary_search(&set) {
            found.sets.insert(at, set);
        }
        for pod in &self.endpoints.classes[class].pods {
            self.changes.push(Change::Join(set, self.endpoints.member(*pod)));
        }
    }

    fn expel(&mut self, set: SetId, class: usize) {
        self.sets.sets[set].classes.retain(|other| *other != class);
        let found = &mut self.endpoints.classes[class];
        if let Ok(at) = found.sets.binary_search(&set) {
            found.sets.remove(at);
        }
        for pod in &self.endpoints.classes[class].pods {
            self.changes.push(Change::Leave(set, self.endpoints.member(*pod)));
        }
    }

    // groups, services and names

    /// Looks all groups up again; whoever names one that has changed is placed anew.
    fn resolve_groups(&mut self) {
        if self.groups.is_empty() && self.resolved.is_empty() {
            return;
        }
        let (services, by_name) = (&self.services, &self.service_by_name);
        let service = |name: &ServiceName| {
            by_name.get(&(name.namespace.clone(), name.name.clone())).map(|at| &services[*at])
        };
        let resolved = groups::resolve(&self.groups, service);
        let before = std::mem::replace(&mut self.resolved, resolved);
        let names = before.keys().chain(self.resolved.keys());
        let mut changed: Vec<GroupName> =
            names.filter(|name| before.get(*name) != self.resolved.get(*name)).cloned().collect();
        changed.sort();
        changed.dedup();
        if !changed.is_empty() {
            self.groups_changed(&changed);
        }
    }

    /// Whether one of the names is that of a headless service with a pod at this address.
    pub(crate) fn is_headless(&self, address: IpAddr, names: &[DomainName]) -> bool {
        self.services.iter().filter(|(_, service)| service.headless).any(|(_, service)| {
            let name = format!("{}.{}.svc.cluster.local", service.name, service.namespace);
            names.iter().any(|wanted| wanted.matches(&name)) && self.is_behind(service, address)
        })
    }

    fn is_behind(&self, service: &Service, address: IpAddr) -> bool {
        let namespace = self.endpoints.namespace(&service.namespace);
        let classes = namespace.map(|at| self.endpoints.namespaces[at].class_list.as_slice());
        let serves = |pod: &Pod| {
            (pod.ready || service.publish_not_ready)
                && pod.addresses.contains(&address)
                && service.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
        };
        let pods = classes.unwrap_or_default().iter().map(|class| &self.endpoints.classes[*class]);
        let selected = pods
            .filter(|class| !class.external)
            .any(|class| class.pods.iter().any(|pod| serves(self.endpoints.pod(*pod))));
        let first = (service.namespace.clone(), service.name.clone(), SmolStr::default());
        let listed = self.backends.range(first..);
        let own = listed
            .take_while(|((namespace, name, _), _)| *namespace == service.namespace && *name == service.name);
        selected || own.into_iter().any(|(_, backends)| backends.ready.contains(&address))
    }
}
