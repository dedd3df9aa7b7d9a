//! Where an event goes.
//!
//! ```text
//!   a pod ────────► its shape and class (endpoints.rs, shapes.rs), and with the class into sets (classes.rs)
//!   a namespace ──► its classes into other sets (classes.rs), and the rows that depend on it (relative.rs)
//!   a policy ─────► rows at the sets it applies to (policies.rs, expand.rs)
//!   a tier, a group, a service that a group stands for ──► the policies that name it, read again (groups.rs)
//!   a node, a service, a name ──► the sets of such (hosts.rs, services.rs, names.rs)
//! ```
//!
//! Each notes what it changes (pending.rs); when it is over, that is the delta.

use palisade_model::cluster::{Namespace, Pod};
use palisade_model::policy::ServiceName;
use smol_str::SmolStr;

use crate::Engine;
use crate::delta::Delta;
use crate::endpoints::PodEntry;
use crate::id::Id;
use crate::namespaces::{Before, NamespaceEntry, Undeclared};
use crate::pending::Place;
use palisade_model::event::{Event, Item, Key};

impl Engine {
    /// Takes an event, and says what it changed. Nothing is wrong with one that changes nothing.
    pub fn apply(&mut self, event: Event) -> Delta {
        match event {
            Event::Apply(Item::Namespace(namespace)) => self.declare(namespace),
            Event::Apply(Item::Pod(pod)) => self.apply_pod(&pod),
            Event::Apply(Item::Node(node)) => {
                let name = node.name.clone();
                self.set_node(&name, Some(node));
            }
            Event::Apply(Item::Service(service)) => {
                let name = ServiceName { namespace: service.namespace.clone(), name: service.name.clone() };
                self.set_service(&name, Some(service));
            }
            Event::Apply(Item::Endpoints(name, backends)) => {
                let key = (backends.namespace.clone(), backends.service.clone(), name);
                self.set_backends(&key, Some(backends));
            }
            Event::Apply(Item::Policy(policy)) => self.apply_policy(policy),
            Event::Apply(Item::Tier(name, priority)) => self.set_tier(&name, Some(priority)),
            Event::Apply(Item::Group(group)) => self.set_group(&group.name(), Some(group)),
            Event::Apply(Item::Name(name, addresses)) => self.set_name(&name, Some(addresses)),
            Event::Delete(Key::Namespace(name)) => self.undeclare(&name),
            Event::Delete(Key::Pod(namespace, name, variant)) => {
                if let Some(pod) = self.endpoints.find(&namespace, &name, variant.as_deref()) {
                    self.remove_pod(pod);
                }
            }
            Event::Delete(Key::Node(name)) => self.set_node(&name, None),
            Event::Delete(Key::Service(namespace, name)) => {
                self.set_service(&ServiceName { namespace, name }, None);
            }
            Event::Delete(Key::Endpoints(namespace, service, name)) => {
                self.set_backends(&(namespace, service, name), None);
            }
            Event::Delete(Key::Policy(key)) => self.delete_policy(&key),
            Event::Delete(Key::Tier(name)) => self.set_tier(&name, None),
            Event::Delete(Key::Group(name)) => self.set_group(&name, None),
            Event::Delete(Key::Name(name)) => self.set_name(&name, None),
        }
        self.conclude()
    }

    fn apply_pod(&mut self, pod: &Pod) {
        let found = self.endpoints.find(&pod.namespace, &pod.name, pod.variant().as_deref());
        if found.is_some_and(|at| self.endpoints.is_same(at, pod)) {
            return;
        }
        let before = found.map(|at| {
            let sets = self.endpoints.class_of(at).map(|class| class.holders().collect());
            (self.endpoints.pods[at].member.clone(), sets.unwrap_or_default())
        });
        // The new one comes before the old one goes, so that what they share stays: their namespace, shape and class.
        if let Some(at) = found {
            self.say_pod(at, false);
            self.endpoints.hide(at);
        }
        let host = pod.node.as_ref().map(|node| self.hosts.start_pod(node));
        let (at, new_namespace) = self.endpoints.insert(pod, host);
        if new_namespace {
            let namespace = self.endpoints.namespace_of(at).clone();
            self.namespace_changed(None, Some(&namespace));
        }
        if self.endpoints.is_selectable(at) {
            self.place_pod(at);
        }
        if pod.host_network
            && let Some(host) = host
        {
            self.hosts.pods_of(host).push(at);
        }
        self.say_pod(at, true);
        self.pending.touch(before, Place::Pod(at));
        if let Some(old) = found {
            self.take_out(old);
        }
    }

    fn remove_pod(&mut self, pod: Id<PodEntry>) {
        self.say_pod(pod, false);
        let sets = self.endpoints.class_of(pod).map(|class| class.holders().collect());
        let before = (self.endpoints.pods[pod].member.clone(), sets.unwrap_or_default());
        self.pending.touch(Some(before), Place::Nowhere);
        self.endpoints.hide(pod);
        self.take_out(pod);
    }

    fn take_out(&mut self, pod: Id<PodEntry>) {
        self.unplace_pod(pod);
        if let Some(host) = self.endpoints.pods[pod].host {
            self.hosts.pods_of(host).retain(|other| *other != pod);
            self.hosts.stop_pod(host);
            self.pending.idle_hosts.push(host);
        }
        if let Some(gone) = self.endpoints.remove(pod) {
            self.namespace_changed(Some(&gone), None);
        }
    }

    fn declare(&mut self, namespace: Namespace) {
        let (at, before) = self.endpoints.declare(namespace);
        match before {
            None => {}
            Some(Before::Nothing) => {
                let after = self.endpoints.namespaces[at].namespace.clone();
                self.namespace_changed(None, Some(&after));
            }
            Some(Before::Was(before)) => self.other_labels(at, &before),
        }
    }

    fn undeclare(&mut self, name: &SmolStr) {
        match self.endpoints.undeclare(name) {
            None => {}
            Some(Undeclared::Gone(before)) => self.namespace_changed(Some(&before), None),
            Some(Undeclared::Bare(at, before)) => self.other_labels(at, &before),
        }
    }

    fn other_labels(&mut self, at: Id<NamespaceEntry>, before: &Namespace) {
        self.relabelled(at, before);
        let after = self.endpoints.namespaces[at].namespace.clone();
        self.namespace_changed(Some(before), Some(&after));
    }

    fn set_tier(&mut self, name: &SmolStr, priority: Option<u8>) {
        let before = match priority {
            Some(priority) => self.tiers.insert(name.clone(), priority),
            None => self.tiers.remove(name),
        };
        if before != priority {
            self.tier_changed(name);
        }
    }

    fn set_name(&mut self, name: &SmolStr, addresses: Option<Vec<std::net::IpAddr>>) {
        let before = match addresses.clone() {
            Some(addresses) => self.given_names.insert(name.clone(), addresses),
            None => self.given_names.remove(name),
        };
        for address in addresses.unwrap_or_default() {
            self.say(name, address, true);
        }
        for address in before.unwrap_or_default() {
            self.say(name, address, false);
        }
    }
}
