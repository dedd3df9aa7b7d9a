//! The live index: takes object changes in any order, and knows at any moment what they mean together.
//!
//! ```text
//!   events ──► endpoints ──► classes ◄──── matched once ────► sets ◄── policies ◄── tiers, groups
//!   (apply.rs) pods, nodes,  pods with                        pods that   rules by whom
//!              namespaces    equal labels                     some rule   they apply to
//!                            (endpoints.rs)                   names       (policies.rs)
//!                                   │                         (sets.rs)
//!                                   └───────────► questions (ask.rs), changes (change.rs) ◄──┘
//! ```
//!
//! Pods with the same namespace, labels and service account are one **class**. What rules say about pods, as subjects
//! and as peers, is a **set**: equal selectors are one set whatever the dialect and whoever wrote them. A class is
//! matched against a set once, when the later of the two appears, and only if the set asks for a label that the class
//! has. A pod that starts then joins a class, and with it every set that names the class; nothing else is looked at.
//!
//! State, not history: what the index answers depends on the objects that are there, not on the order they came in.
//! References that lead nowhere, objects that come twice and deletions of what never was are all fine.
//!
//! Nothing here does IO, waits, reads a clock or knows an API. [`Engine::apply`] takes an event, [`Engine::verdict`] and
//! [`Engine::policies_of`] answer, [`Engine::take_changes`] says what changed.

mod apply;
pub mod ask;
pub mod change;
mod endpoints;
mod event;
mod feed;
mod policies;
mod sets;
mod table;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use palisade_model::cluster::{Endpoints as Backends, Namespace, Node, Pod, Service};
use palisade_model::group::{Group, GroupName, Members};
use palisade_model::matching::Cluster;
use palisade_model::policy::DomainName;
use palisade_model::snapshot::NoGroup;
use palisade_model::snapshot::groups::Resolved;
use slab::Slab;
use smol_str::SmolStr;

pub use self::change::Change;
pub use self::event::{Event, Item, Key, PolicyKey};

use self::endpoints::Endpoints;
use self::policies::Policies;
use self::sets::Sets;

/// A cluster, indexed.
#[derive(Debug, Default)]
pub struct Engine {
    endpoints: Endpoints,
    sets: Sets,
    policies: Policies,
    nodes: Slab<Node>,
    node_by_name: HashMap<SmolStr, usize>,
    services: Slab<Service>,
    service_by_name: HashMap<(SmolStr, SmolStr), usize>,
    backends: BTreeMap<(SmolStr, SmolStr, SmolStr), Backends>,
    tiers: BTreeMap<SmolStr, u8>,
    groups: BTreeMap<GroupName, Group>,
    resolved: BTreeMap<GroupName, Resolved>,
    names: BTreeMap<SmolStr, Vec<IpAddr>>,
    changes: Vec<Change>,
    epoch: u64,
}

// === impl Cluster ===

impl Cluster for Engine {
    fn pod(&self, at: usize) -> &Pod {
        self.endpoints.pod(at)
    }

    fn namespace_of(&self, pod: usize) -> &Namespace {
        self.endpoints.namespace_of(pod)
    }

    fn node(&self, at: usize) -> &Node {
        &self.nodes[at]
    }

    fn node_named(&self, name: &str) -> Option<usize> {
        self.node_by_name.get(name).copied()
    }

    fn service(&self, at: usize) -> &Service {
        &self.services[at]
    }

    fn group(&self, name: &GroupName) -> Result<&[Members], NoGroup<'_>> {
        match self.resolved.get(name) {
            Some(Ok(members)) => Ok(members),
            Some(Err(what)) => Err(NoGroup::Unreadable(what)),
            None => Err(NoGroup::Missing),
        }
    }

    fn is_named(&self, address: IpAddr, names: &[DomainName]) -> bool {
        let stands_for = |(name, addresses): (&SmolStr, &Vec<IpAddr>)| {
            addresses.contains(&address) && names.iter().any(|wanted| wanted.matches(name))
        };
        self.names.iter().any(stands_for) || self.is_headless(address, names)
    }
}
