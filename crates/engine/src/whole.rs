//! A whole world at once: all objects in, and all that the index says out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use palisade_model::flow::{Flow, Party, Who};
use palisade_model::matching::Parties;
use palisade_model::snapshot::{Objects, Snapshot};
use smol_str::{SmolStr, format_smolstr};

use crate::delta::{Delta, Need, Part};
use crate::spans::Location;
use crate::view::{Set, View};
use crate::{Engine, sets};
use palisade_model::event::{Event, Item, Key};

impl Engine {
    /// The index of these objects. The pods are the snapshot's, which has put stand-ins among them.
    pub fn of(objects: &Objects, snapshot: &Snapshot) -> Engine {
        let mut engine = Engine::default();
        engine.relist(&BTreeSet::new(), objects, snapshot);
        engine
    }

    /// These objects are all there is: what was there before and is not among them goes, after the others have come. Says
    /// what is there now, and what changed.
    pub fn relist(
        &mut self,
        before: &BTreeSet<Key>,
        objects: &Objects,
        snapshot: &Snapshot,
    ) -> (BTreeSet<Key>, Vec<Delta>) {
        let items = items(objects, snapshot);
        let now: BTreeSet<Key> = items.iter().map(Item::key).collect();
        let mut deltas: Vec<Delta> = items.into_iter().map(|item| self.apply(Event::Apply(item))).collect();
        let gone = before.difference(&now).cloned();
        deltas.extend(gone.map(|key| self.apply(Event::Delete(key))));
        deltas.retain(|delta| !delta.changes.is_empty());
        self.tidy();
        (now, deltas)
    }

    /// Whether nothing is left of anything, also of what nobody sees. After everything is deleted, and [`Engine::tidy`].
    pub fn is_empty(&self) -> bool {
        self.endpoints.is_empty()
            && self.hosts.is_empty()
            && self.services.is_empty()
            && self.names.is_empty()
            && self.groups.is_empty()
            && self.policies.is_empty()
            && self.sets.is_empty()
            && self.splits.is_empty()
            && self.rows.len() + self.shared_rows.len() + self.relatives.len() == 0
            && self.given_names.is_empty()
            && self.tiers.is_empty()
    }

    /// Everything the index says, at this epoch.
    pub fn view(&self) -> View {
        let mut view = View { epoch: self.epoch, ..View::default() };
        for (id, origin) in self.policies.origins() {
            view.policies.insert(id, Arc::clone(origin));
        }
        for (id, set) in self.sets.sets.iter().filter(|(_, set)| set.seen > 0) {
            let members = self.members_of(id).into_iter().collect();
            view.sets.insert(id, Set { selection: Arc::clone(&set.selection), members });
            let needs = |part, locations: &sets::Counts<Location>| -> Vec<Need> {
                let need = |at| Need { set: id, part, node: self.node_name(at) };
                locations.iter().map(|(location, _)| need(*location)).collect()
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
    // What is behind a service comes without a name here: each has its number among those of the service.
    let mut behind: BTreeMap<(&SmolStr, &SmolStr), usize> = BTreeMap::new();
    for endpoints in &objects.endpoints {
        let at = behind.entry((&endpoints.namespace, &endpoints.service)).or_default();
        items.push(Item::Endpoints(format_smolstr!("{at}"), endpoints.clone()));
        *at += 1;
    }
    items.extend(objects.groups.iter().cloned().map(Item::Group));
    let names = objects.names.iter();
    items.extend(names.map(|(name, addresses)| Item::Name(name.as_str().into(), addresses.clone())));
    items.extend(snapshot.pods().iter().cloned().map(Item::Pod));
    items.extend(objects.policies.iter().cloned().map(Item::Policy));
    items
}
