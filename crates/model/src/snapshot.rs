//! A cluster at one moment: every object once, in a fixed order, with the lookups that questions need.
//!
//! [`Snapshot::new`] puts it together, and [`Snapshot::flows`] finds whom a question means.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::ops::Range;

use smol_str::SmolStr;

use crate::cluster::{Endpoints, Namespace, Node, Owner, Pod, Service, Workload};
use crate::entrance::Entrance;
use crate::flow::{Party, Who};
use crate::group::{Group, GroupName};
use crate::matching::{Parties, PodFacts};
use crate::policy::{Direction, DomainName, Placement, Policy, Priority};
use crate::resolve::{Expansion, GroupMember, References};

mod backends;
mod build;
mod entrances;
mod resolve;
mod stand_ins;

pub use entrances::{Dangling, Opening};
pub use resolve::ResolveError;
use stand_ins::WorkloadKey;

/// The objects of a snapshot, in any order.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    /// Namespaces.
    pub namespaces: Vec<Namespace>,
    /// Pods.
    pub pods: Vec<Pod>,
    /// What makes pods.
    pub workloads: Vec<Workload>,
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Services.
    pub services: Vec<Service>,
    /// What is behind services.
    pub endpoints: Vec<Endpoints>,
    /// By what connections come in: Ingresses and routes.
    pub entrances: Vec<Entrance>,
    /// Policies.
    pub policies: Vec<Policy>,
    /// Tiers: their priority by name.
    pub tiers: BTreeMap<SmolStr, u8>,
    /// Groups that policies name.
    pub groups: Vec<Group>,
    /// What DNS names stand for.
    pub names: BTreeMap<String, Vec<IpAddr>>,
}

/// A cluster at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    namespaces: Vec<Namespace>,
    /// For each namespace the places of its pods.
    namespace_pods: Vec<Range<usize>>,
    pods: Vec<Pod>,
    /// For each pod the place of its namespace.
    pod_namespaces: Vec<usize>,
    nodes: Vec<Node>,
    services: Vec<Service>,
    /// By namespace and service.
    endpoints: Vec<Endpoints>,
    entrances: Vec<Entrance>,
    policies: Vec<Policy>,
    /// For each address the DNS names that stand for it.
    names: BTreeMap<IpAddr, Vec<String>>,
    groups: BTreeMap<GroupName, Group>,
    expansions: BTreeMap<GroupName, Expansion>,
    tiers: BTreeMap<SmolStr, u8>,
    ranked: Vec<RankedRule>,
    unplaced: Vec<usize>,
    /// Whether a ranked rule has a subject that is no pod.
    beyond_pods: bool,
    /// Who made a workload, as a CronJob makes Jobs.
    made_by: HashMap<WorkloadKey, Owner>,
    namespace_by_name: HashMap<SmolStr, usize>,
    pod_by_name: HashMap<SmolStr, HashMap<SmolStr, usize>>,
    node_by_name: HashMap<SmolStr, usize>,
    by_address: HashMap<IpAddr, Who>,
}

/// A first-match rule with its place in the order of all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedRule {
    /// The tier's number.
    pub tier: u8,
    /// The tier's name.
    pub tier_name: SmolStr,
    /// The policy's priority.
    pub priority: Priority,
    /// The rule's index in its direction.
    pub index: u32,
    /// The policy's place in the snapshot, which is by kind, namespace and name.
    pub policy: usize,
    /// The rule's place in the policy.
    pub rule: usize,
    /// Whether the policy names a tier that does not exist. It comes before all others then and fails closed: what it
    /// allows is not allowed, and what it passes or refuses is refused.
    pub unplaced: bool,
}

/// The steps of the pipeline, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Tiers 0 to 251: the first rule that matches decides; Pass leads to the next stage.
    Tiers,
    /// NetworkPolicy: for isolated pods, any allow allows, else denied; final.
    NetworkPolicy,
    /// Tiers from 253: the first rule that matches decides; Pass leads to the end.
    Baseline,
}

// === impl Stage ===

impl Stage {
    /// The pipeline.
    pub const PIPELINE: [Stage; 3] = [Stage::Tiers, Stage::NetworkPolicy, Stage::Baseline];

    /// The last tier before the NetworkPolicy stage.
    pub const LAST_TIER: u8 = 251;
}

// === impl Snapshot ===

impl Snapshot {
    /// All namespaces, by name.
    pub fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    /// All pods, by namespace and name; terminated ones too.
    pub fn pods(&self) -> &[Pod] {
        &self.pods
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All services, by namespace and name.
    pub fn services(&self) -> &[Service] {
        &self.services
    }

    /// All policies, by kind, namespace and name.
    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    /// The first-match rules in their order.
    pub fn ranked(&self) -> &[RankedRule] {
        &self.ranked
    }

    /// Policies that name a tier which does not exist.
    pub fn unplaced(&self) -> impl Iterator<Item = &Policy> {
        self.unplaced.iter().map(|index| &self.policies[*index])
    }

    /// The first-match rules of a stage.
    pub fn rules_of(&self, stage: Stage) -> &[RankedRule] {
        let split = self.ranked.partition_point(|rule| rule.tier <= Stage::LAST_TIER);
        match stage {
            Stage::Tiers => &self.ranked[..split],
            Stage::Baseline => &self.ranked[split..],
            Stage::NetworkPolicy => &[],
        }
    }

    /// A pod's namespace.
    pub fn namespace_of(&self, pod: usize) -> &Namespace {
        &self.namespaces[self.pod_namespaces[pod]]
    }

    /// A namespace by name.
    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespace_by_name.get(name).map(|index| &self.namespaces[*index])
    }

    /// The places of a namespace's pods; none when there is no such namespace.
    pub fn pods_in(&self, namespace: &str) -> Range<usize> {
        self.namespace_by_name.get(namespace).map_or(0..0, |index| self.namespace_pods[*index].clone())
    }

    /// The place of a pod by name.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<usize> {
        self.pod_by_name.get(namespace)?.get(name).copied()
    }

    /// The place of a node by name.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.node_by_name.get(name).copied()
    }

    /// Whose address this is.
    pub fn who_has(&self, address: IpAddr) -> Who {
        self.by_address.get(&address).copied().unwrap_or(Who::Outside)
    }

    /// Everybody who made a pod: its controller, that one's, and so on; a ReplicaSet's Deployment also by its name.
    pub fn makers(&self, pod: &Pod) -> Vec<Owner> {
        let mut makers: Vec<Owner> = [pod.owner.clone(), pod.workload()].into_iter().flatten().collect();
        let mut next = pod.owner.clone();
        // A chain longer than this would be a circle.
        for _ in 0..4 {
            let Some(owner) = next else { break };
            next = self.made_by.get(&(pod.namespace.clone(), owner.kind, owner.name)).cloned();
            makers.extend(next.clone());
        }
        makers
    }

    /// The DNS names that are known to stand for an address.
    pub fn names_of(&self, address: IpAddr) -> impl Iterator<Item = &str> {
        self.names.get(&address).into_iter().flatten().map(String::as_str)
    }

    /// Whether one of the names is known to stand for an address.
    pub fn is_named(&self, address: IpAddr, names: &[DomainName]) -> bool {
        self.names_of(address).any(|known| names.iter().any(|name| name.matches(known)))
    }

    /// The addresses that some name is known to stand for.
    pub fn named_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.names.keys().copied()
    }

    /// Returns the members of a group, child groups and services looked up, or what in it cannot be read. A group that does
    /// not exist has no members.
    pub fn group(&self, name: &GroupName) -> Result<&[GroupMember], &str> {
        match self.expansions.get(name) {
            Some(Ok(members)) => Ok(members),
            Some(Err(what)) => Err(what),
            None => Ok(&[]),
        }
    }

    /// Returns a group as it is written.
    pub(crate) fn written_group(&self, name: &GroupName) -> Option<&Group> {
        self.groups.get(name)
    }

    /// Whether there is a group of this name.
    pub fn has_group(&self, name: &GroupName) -> bool {
        self.groups.contains_key(name)
    }

    /// The groups there are, by name.
    pub fn groups(&self) -> impl Iterator<Item = &GroupName> {
        self.groups.keys()
    }

    /// Whether a rule applies to nodes or services, not only to pods.
    pub fn has_rules_beyond_pods(&self) -> bool {
        self.beyond_pods
    }

    /// A party in words: `shop/web 10.1.0.12`, `node worker-0`, `203.0.113.7`.
    pub fn describe(&self, party: Party) -> String {
        match (party.who, party.address) {
            (Who::Pod(pod), _) => format!("{}/{}", self.pods[pod].namespace, self.pods[pod].name),
            (Who::Node(node), _) => format!("node {}", self.nodes[node].name),
            (Who::Outside, Some(address)) => address.to_string(),
            (Who::Outside, None) => "outside".to_owned(),
        }
    }

    /// The union policies that say something about a direction: their places.
    pub fn union_policies(&self, direction: Direction) -> impl Iterator<Item = usize> {
        self.policies
            .iter()
            .enumerate()
            .filter(move |(_, policy)| {
                policy.placement == Placement::Union
                    && (policy.isolations.iter().any(|isolation| isolation.direction == direction)
                        || policy.rules.iter().any(|rule| rule.direction == direction))
            })
            .map(|(index, _)| index)
    }
}

// === impl References ===

impl<'s> References<'s> for &'s Snapshot {
    fn tier(&self, name: &SmolStr) -> Option<u8> {
        self.tiers.get(name).copied()
    }

    fn group(&self, name: &GroupName) -> Option<&'s Expansion> {
        self.expansions.get(name)
    }
}

// === impl Parties ===

impl Parties for Snapshot {
    fn pod(&self, at: usize) -> PodFacts<'_> {
        PodFacts::from(&self.pods[at])
    }

    fn node(&self, at: usize) -> &Node {
        &self.nodes[at]
    }

    fn node_named(&self, name: &str) -> Option<usize> {
        Snapshot::node(self, name)
    }
}
