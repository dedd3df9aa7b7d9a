//! Nodes: those that are declared, which rules can be about, and those that some pod only says it runs on.

use std::net::IpAddr;
use std::sync::Arc;

use palisade_model::cluster::Node;
use palisade_model::label::Selector;
use smol_str::SmolStr;

use crate::Engine;
use crate::arena::Arena;
use crate::delta::{Member, MemberKind};
use crate::endpoints::PodEntry;
use crate::id::{Id, SetId};
use crate::pending::Place;
use crate::shapes::Few;
use crate::spans::Location;
use crate::table::Map;

/// All nodes.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    hosts: Arena<Host>,
    by_name: Map<SmolStr, HostId>,
}

/// Identifies a node.
pub(crate) type HostId = Id<Host>;

/// A node that is declared, or that some pod runs on.
#[derive(Debug)]
pub(crate) struct Host {
    name: SmolStr,
    /// How many pods run there.
    pods: u32,
    /// Those of them that live in its own network.
    network: Few<Id<PodEntry>>,
    node: Option<Declared>,
}

/// A node that is declared.
#[derive(Debug)]
struct Declared {
    node: Node,
    member: Arc<Member>,
    /// The sets that hold it, sorted.
    sets: Few<SetId>,
}

// === impl Hosts ===

impl Hosts {
    pub(crate) fn is_empty(&self) -> bool {
        self.hosts.len() == 0 && self.by_name.is_empty()
    }

    /// A node by number, if it is declared.
    pub(crate) fn node(&self, at: HostId) -> Option<&Node> {
        Some(&self.hosts.get(at)?.node.as_ref()?.node)
    }

    pub(crate) fn declared(&self, name: &str) -> Option<HostId> {
        self.by_name.get(name).copied().filter(|at| self.hosts[*at].node.is_some())
    }

    /// Whose the first of these addresses is that is a node's; of several nodes the first by name.
    pub(crate) fn with_address(&self, addresses: &[IpAddr]) -> Option<&SmolStr> {
        let nodes = || self.hosts.iter().filter_map(|(_, host)| host.node.as_ref());
        addresses.iter().find_map(|address| {
            let with = nodes().filter(|node| node.node.addresses.contains(address));
            with.map(|declared| &declared.node.name).min()
        })
    }

    /// The pods in a node's own network.
    pub(crate) fn pods_of(&mut self, at: HostId) -> &mut Few<Id<PodEntry>> {
        &mut self.hosts[at].network
    }

    pub(crate) fn name(&self, at: HostId) -> Option<&SmolStr> {
        self.hosts.get(at).map(|host| &host.name)
    }

    /// The sets that hold a node.
    pub(crate) fn sets(&self, at: HostId) -> &[SetId] {
        let declared = self.hosts.get(at).and_then(|host| host.node.as_ref());
        declared.map(|declared| declared.sets.as_slice()).unwrap_or_default()
    }

    pub(crate) fn member(&self, at: HostId) -> Option<&Arc<Member>> {
        Some(&self.hosts.get(at)?.node.as_ref()?.member)
    }

    /// The nodes that a set holds.
    pub(crate) fn holding(&self, set: SetId) -> impl Iterator<Item = HostId> {
        let holds =
            move |host: &Host| host.node.as_ref().is_some_and(|node| node.sets.binary_search(&set).is_ok());
        self.hosts.iter().filter(move |(_, host)| holds(host)).map(|(at, _)| at)
    }

    /// A new set selects nodes.
    pub(crate) fn select(&mut self, set: SetId, selector: &Selector) {
        let ids: Vec<HostId> = self.hosts.iter().map(|(at, _)| at).collect();
        for at in ids {
            if let Some(node) = &mut self.hosts[at].node
                && selector.matches(&node.node.labels)
                && let Err(place) = node.sets.binary_search(&set)
            {
                node.sets.insert(place, set);
            }
        }
    }

    /// A set is gone.
    pub(crate) fn unselect(&mut self, set: SetId) {
        let ids: Vec<HostId> = self.holding(set).collect();
        for at in ids {
            if let Some(node) = &mut self.hosts[at].node {
                node.sets.retain(|other| *other != set);
            }
        }
    }

    fn found_or_new(&mut self, name: &SmolStr) -> HostId {
        if let Some(at) = self.by_name.get(name) {
            return *at;
        }
        let at = self.hosts.insert(Host { name: name.clone(), pods: 0, network: Few::new(), node: None });
        self.by_name.insert(name.clone(), at);
        at
    }

    /// A pod runs on a node.
    pub(crate) fn start_pod(&mut self, name: &SmolStr) -> HostId {
        let at = self.found_or_new(name);
        self.hosts[at].pods += 1;
        at
    }

    /// It does not any more.
    pub(crate) fn stop_pod(&mut self, at: HostId) {
        self.hosts[at].pods -= 1;
    }

    /// Forgets a node that is not declared and has no pods.
    pub(crate) fn forget(&mut self, at: HostId) {
        let idle = self.hosts.get(at).is_some_and(|host| host.pods == 0 && host.node.is_none());
        if idle {
            let gone = self.hosts.remove(at);
            self.by_name.remove(&gone.name);
        }
    }
}

impl Engine {
    /// A node is there, or has changed, or is gone.
    pub(crate) fn set_node(&mut self, name: &SmolStr, node: Option<Node>) {
        if node.is_none() && self.hosts.declared(name).is_none() {
            return;
        }
        let at = self.hosts.found_or_new(name);
        // A pod in its network that tells no address of its own has the node's.
        let pods = self.hosts.hosts[at].network.clone();
        for pod in &pods {
            self.say_pod(*pod, false);
        }
        let before = self.hosts.hosts[at].node.take();
        let old = before.as_ref().map(|declared| declared.sets.clone()).unwrap_or_default();
        let after = node.map(|node| {
            let holds = |set: &&SetId| {
                self.sets.sets[**set].selects_nodes().is_some_and(|selector| selector.matches(&node.labels))
            };
            let mut sets: Few<SetId> = self.sets.of_nodes.iter().filter(holds).copied().collect();
            sets.sort_unstable();
            Declared { member: Arc::new(Member::from(&node)), node, sets }
        });
        let new = after.as_ref().map(|declared| declared.sets.clone()).unwrap_or_default();
        self.pending.touch(before.map(|declared| (declared.member, declared.sets)), Place::Host(at));
        self.hosts.hosts[at].node = after;
        for set in old.iter().filter(|set| !new.contains(set)) {
            self.count_member(*set, Location::Node(at), -1);
        }
        for set in new.iter().filter(|set| !old.contains(set)) {
            self.count_member(*set, Location::Node(at), 1);
        }
        for pod in &pods {
            self.say_pod(*pod, true);
        }
        self.pending.idle_hosts.push(at);
    }
}

// === impl Member ===

impl From<&Node> for Member {
    fn from(node: &Node) -> Self {
        Member {
            kind: MemberKind::Node,
            namespace: SmolStr::default(),
            name: node.name.clone(),
            addresses: node.addresses.as_slice().into(),
            node: Some(node.name.clone()),
        }
    }
}
