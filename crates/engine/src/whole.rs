//! A whole world at once: all objects in, and all that the index says out.

use std::collections::BTreeSet;
use std::sync::Arc;

use palisade_model::flow::{Flow, Party, Who};
use palisade_model::matching::Parties;
use palisade_model::snapshot::{Objects, Snapshot};
use smol_str::format_smolstr;

use crate::delta::{Need, Part};
use crate::event::{Event, Item, Key};
use crate::view::{Set, View};
use crate::{Engine, sets};

impl Engine {
    /// The index of these objects. The pods are the snapshot's, which has put stand-ins among them.
    pub fn of(objects: &Objects, snapshot: &Snapshot) -> Engine {
        let mut engine = Engine::default();
        engine.relist(&BTreeSet::new(), objects, snapshot);
        engine
    }

    /// These objects are all there is: what was there before and is not among them goes. Says what is there now.
    pub fn relist(
        &mut self,
        before: &BTreeSet<Key>,
        objects: &Objects,
        snapshot: &Snapshot,
    ) -> BTreeSet<Key> {
        let items = items(objects, snapshot);
        let now: BTreeSet<Key> = items.iter().map(Item::key).collect();
        for gone in before.difference(&now) {
            self.apply(Event::Delete(gone.clone()));
        }
        for item in items {
            self.apply(Event::Apply(item));
        }
        now
    }

    /// Everything the index says, at this epoch.
    pub fn view(&self) -> View {
        let mut view = View { epoch: self.epoch, ..View::default() };
        for (id, origin) in self.policies.origins() {
            view.policies.insert(id, Arc::clone(origin));
        }
        for (id, set) in self.sets.sets.iter().filter(|(_, set)| set.seen > 0) {
            let members = self.members_of(id).into_iter().collect();
            view.sets.insert(id, Set { content: Arc::clone(&set.content), members });
            let needs = |part, hosts: &sets::Counts| -> Vec<Need> {
                let need = |host| Need { set: id, part, node: self.node_name(host) };
                hosts.iter().map(|(host, _)| need(*host)).collect()
            };
            view.needs.extend(needs(Part::Subject, &set.nodes));
            view.needs.extend(needs(Part::Addresses, &set.needed));
        }
        for (id, _) in self.rows.iter() {
            let rule = self.rule_of(id);
            view.by_subject.entry(rule.subject).or_default().insert(id);
            view.by_policy.entry(rule.policy).or_default().insert(id);
            view.rules.insert(id, Arc::new(rule));
        }
        view
    }

    /// A flow of a snapshot, with the index's own places; `None` when somebody in it is not here.
    pub fn flow(&self, snapshot: &Snapshot, flow: &Flow) -> Option<Flow> {
        let party = |party: Party| {
            let who = match party.who {
                Who::Pod(pod) => Who::Pod(self.pod_at(&snapshot.pods()[pod])?),
                Who::Node(node) => Who::Node(self.node_named(&snapshot.nodes()[node].name)?),
                Who::Outside => Who::Outside,
            };
            Some(Party { who, ..party })
        };
        let via = match flow.via {
            Some(via) => Some(self.service_at(&snapshot.services()[via])?),
            None => None,
        };
        Some(Flow { source: party(flow.source)?, destination: party(flow.destination)?, via, ..*flow })
    }
}

fn items(objects: &Objects, snapshot: &Snapshot) -> Vec<Item> {
    let mut items = Vec::new();
    items.extend(objects.namespaces.iter().cloned().map(Item::Namespace));
    items.extend(objects.nodes.iter().cloned().map(Item::Node));
    items.extend(objects.tiers.iter().map(|(name, tier)| Item::Tier(name.clone(), *tier)));
    items.extend(objects.services.iter().cloned().map(Item::Service));
    let endpoints = objects.endpoints.iter().enumerate();
    items
        .extend(endpoints.map(|(at, endpoints)| Item::Endpoints(format_smolstr!("{at}"), endpoints.clone())));
    items.extend(objects.groups.iter().cloned().map(Item::Group));
    let names = objects.names.iter();
    items.extend(names.map(|(name, addresses)| Item::Name(name.as_str().into(), addresses.clone())));
    items.extend(snapshot.pods().iter().cloned().map(Item::Pod));
    items.extend(objects.policies.iter().cloned().map(Item::Policy));
    items
}
