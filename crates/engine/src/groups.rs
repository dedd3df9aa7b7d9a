//! Groups, with what they come to. A group is looked up again when it, a child of it or a service it stands for changes,
//! and whoever names it is told only if it came to something else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use palisade_model::group::{Group, GroupName, Members};
use palisade_model::policy::ServiceName;
use palisade_model::resolve::{Expansion, expand, sibling};

use crate::Engine;
use crate::table::References;

/// All groups.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: BTreeMap<GroupName, Group>,
    expansions: BTreeMap<GroupName, Arc<Expansion>>,
    /// Who has a group as a child, and who stands for the pods of a service.
    by_child: References<GroupName, GroupName>,
    by_service: References<ServiceName, GroupName>,
}

// === impl Groups ===

impl Groups {
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
            && self.expansions.is_empty()
            && self.by_child.is_empty()
            && self.by_service.is_empty()
    }

    /// Returns the members of a group, or what in it cannot be read; `None` if it does not exist.
    pub(crate) fn get(&self, name: &GroupName) -> Option<&Arc<Expansion>> {
        self.expansions.get(name)
    }

    fn refer(&mut self, name: &GroupName, there: bool) {
        let Some(group) = self.groups.get(name) else { return };
        match &group.members {
            Members::Children(children) => {
                for child in children {
                    self.by_child.note(sibling(name, child), name.clone(), there);
                }
            }
            Members::Service(service) => self.by_service.note(service.clone(), name.clone(), there),
            _ => {}
        }
    }

    /// A group, and those that have it as a child.
    fn with_parents(&self, names: impl IntoIterator<Item = GroupName>) -> BTreeSet<GroupName> {
        let mut all: BTreeSet<GroupName> = names.into_iter().collect();
        let parents = all.iter().flat_map(|name| self.by_child.get(name)).cloned();
        let parents: Vec<GroupName> = parents.collect();
        all.extend(parents);
        all
    }
}

impl Engine {
    /// A group is there, or has changed, or is gone.
    pub(crate) fn set_group(&mut self, name: &GroupName, group: Option<Group>) {
        self.groups.refer(name, false);
        match group {
            Some(group) => drop(self.groups.groups.insert(name.clone(), group)),
            None => drop(self.groups.groups.remove(name)),
        }
        self.groups.refer(name, true);
        let names = self.groups.with_parents([name.clone()]);
        self.resolve(names);
    }

    /// A service has changed: groups may stand for other pods.
    pub(crate) fn service_changed(&mut self, name: &ServiceName) {
        let names = self.groups.with_parents(self.groups.by_service.get(name).cloned());
        self.resolve(names);
    }

    fn resolve(&mut self, names: BTreeSet<GroupName>) {
        let mut changed = Vec::new();
        for name in names {
            let members = |name: &GroupName| self.groups.groups.get(name).map(|group| &group.members);
            let now = members(&name).map(|own| {
                expand(&name, own, members, |service: &ServiceName| self.services.service(service))
            });
            if self.groups.expansions.get(&name).map(|before| &**before) != now.as_ref() {
                match now {
                    Some(now) => drop(self.groups.expansions.insert(name.clone(), Arc::new(now))),
                    None => drop(self.groups.expansions.remove(&name)),
                }
                changed.push(name);
            }
        }
        if !changed.is_empty() {
            self.groups_changed(&changed);
        }
    }
}
