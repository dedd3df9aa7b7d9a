//! A cluster at one moment: every object once, in a fixed order, with the lookups that questions need.
//!
//! Building it is where objects meet: namespaces that are only mentioned come into being, templates stand for pods
//! that do not exist, tiers get their numbers and rules their order.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::ops::Range;

use smol_str::SmolStr;

use crate::cluster::{Endpoints, NAMESPACE_NAME_LABEL, Namespace, Node, Owner, Pod, Service, Workload};
use crate::entrance::Entrance;
use crate::flow::{Party, Who};
use crate::group::{Group, GroupName, Members};
use crate::label::Labels;
use crate::matching::{Parties, PodFacts};
use crate::policy::{Direction, DomainName, Placement, Policy, Priority, ServiceName, Subject, Tier};

mod entrances;
pub mod groups;
mod resolve;
mod stand_ins;

pub use entrances::{Dangling, Opening};
use groups::Resolved;
pub use resolve::ResolveError;
use stand_ins::{WorkloadKey, maker, with_stand_ins};

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
    groups: BTreeMap<GroupName, Resolved>,
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

/// Why nobody can say who is in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoGroup<'s> {
    /// There is no such group.
    Missing,
    /// It is there, and this of it cannot be read.
    Unreadable(&'s str),
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

// === impl NoGroup ===

impl<'s> NoGroup<'s> {
    /// In words.
    pub fn as_str(self) -> &'s str {
        match self {
            NoGroup::Missing => "a group that does not exist",
            NoGroup::Unreadable(what) => what,
        }
    }
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
    /// Puts the objects together.
    pub fn new(objects: Objects) -> Self {
        let Objects {
            namespaces,
            pods,
            workloads,
            nodes,
            services,
            endpoints,
            entrances,
            policies,
            tiers,
            groups,
            names,
        } = objects;
        let pods = with_stand_ins(pods, &workloads);
        let mut snapshot =
            Snapshot { pods, nodes, services, endpoints, entrances, policies, ..Snapshot::default() };
        let identity = |pod: &Pod| (pod.namespace.clone(), pod.name.clone(), pod.stand_in.clone());
        snapshot.pods.sort_by_cached_key(identity);
        snapshot.made_by = workloads.into_iter().filter_map(maker).collect();
        snapshot.nodes.sort_by(|a, b| a.name.cmp(&b.name));
        snapshot.services.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        snapshot.endpoints.sort_by(|a, b| (&a.namespace, &a.service).cmp(&(&b.namespace, &b.service)));
        let identity =
            |entrance: &Entrance| (entrance.kind.clone(), entrance.namespace.clone(), entrance.name.clone());
        snapshot.entrances.sort_by_cached_key(identity);
        snapshot.policies.sort_by(|a, b| a.object.cmp(&b.object));
        snapshot.place_namespaces(namespaces);
        snapshot.index();
        snapshot.rank(&tiers);
        let groups = groups.into_iter().map(|group| (group.name(), group)).collect();
        let services: HashMap<(&str, &str), &Service> =
            snapshot.services.iter().map(|s| ((&*s.namespace, &*s.name), s)).collect();
        let service = |name: &ServiceName| services.get(&(&*name.namespace, &*name.name)).copied();
        snapshot.groups = groups::resolve(&groups, service);
        snapshot.name(names);
        snapshot
    }

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

    /// Who is in a group, without groups in groups; or why nobody can say.
    pub fn group(&self, name: &GroupName) -> Result<&[Members], NoGroup<'_>> {
        match self.groups.get(name) {
            Some(Ok(members)) => Ok(members),
            Some(Err(what)) => Err(NoGroup::Unreadable(what)),
            None => Err(NoGroup::Missing),
        }
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

    /// Gives every namespace its name label, and makes those that are only mentioned.
    fn place_namespaces(&mut self, declared: Vec<Namespace>) {
        let mut all: BTreeMap<SmolStr, Namespace> =
            declared.into_iter().map(|ns| (ns.name.clone(), ns)).collect();
        let mentioned: BTreeSet<SmolStr> = (self.pods.iter().map(|pod| pod.namespace.clone()))
            .chain(self.services.iter().map(|service| service.namespace.clone()))
            .chain(self.policies.iter().filter_map(|policy| policy.object.namespace.clone()))
            .collect();
        for name in mentioned {
            let fresh = || Namespace { name: name.clone(), labels: Labels::default(), at: None };
            all.entry(name.clone()).or_insert_with(fresh);
        }
        self.namespaces = all.into_values().collect();
        for namespace in &mut self.namespaces {
            namespace.labels.set(NAMESPACE_NAME_LABEL.into(), namespace.name.clone());
        }
    }

    fn index(&mut self) {
        let names = |(index, ns): (usize, &Namespace)| (ns.name.clone(), index);
        self.namespace_by_name = self.namespaces.iter().enumerate().map(names).collect();
        self.pod_namespaces = self.pods.iter().map(|pod| self.namespace_by_name[&pod.namespace]).collect();
        // Pods are sorted by namespace, and namespaces by name.
        let first = |namespace: usize| self.pod_namespaces.partition_point(|home| *home < namespace);
        self.namespace_pods = (0..self.namespaces.len()).map(|at| first(at)..first(at + 1)).collect();
        for (index, pod) in self.pods.iter().enumerate() {
            self.pod_by_name.entry(pod.namespace.clone()).or_default().insert(pod.name.clone(), index);
        }
        for (index, node) in self.nodes.iter().enumerate() {
            self.node_by_name.insert(node.name.clone(), index);
            for address in &node.addresses {
                self.by_address.entry(*address).or_insert(Who::Node(index));
            }
        }
        self.place_host_network_pods();
        // An address that several pods claim is the first one's that lives there; the terminated have none.
        let own_network = |pod: &Pod| !pod.host_network;
        let host_network = |pod: &Pod| pod.host_network;
        for network in [own_network as fn(&Pod) -> bool, host_network] {
            for (index, pod) in
                self.pods.iter().enumerate().filter(|(_, pod)| !pod.terminated && network(pod))
            {
                for address in &pod.addresses {
                    self.by_address.entry(*address).or_insert(Who::Pod(index));
                }
            }
        }
    }

    /// Pods in their node's network are their node: where one tells only its node or only its address, the other follows.
    fn place_host_network_pods(&mut self) {
        for pod in self.pods.iter_mut().filter(|pod| pod.host_network) {
            match &pod.node {
                Some(name) if pod.addresses.is_empty() => {
                    if let Some(node) = self.node_by_name.get(name) {
                        pod.addresses.clone_from(&self.nodes[*node].addresses);
                    }
                }
                Some(_) => {}
                None => {
                    let owner = pod.addresses.iter().find_map(|address| match self.by_address.get(address) {
                        Some(Who::Node(node)) => Some(self.nodes[*node].name.clone()),
                        _ => None,
                    });
                    pod.node = owner;
                }
            }
        }
    }

    /// Orders the first-match rules: (tier, priority, rule index, kind, namespace, name).
    fn rank(&mut self, tiers: &BTreeMap<SmolStr, u8>) {
        for (policy_index, policy) in self.policies.iter().enumerate() {
            let Placement::Tier { tier, priority } = &policy.placement else { continue };
            let (number, name) = match tier {
                Tier::Fixed(number, name) => (Some(*number), SmolStr::new_static(name)),
                Tier::Named(name) => (tiers.get(name).copied(), name.clone()),
            };
            if number.is_none() {
                self.unplaced.push(policy_index);
            }
            self.ranked.extend(policy.rules.iter().enumerate().map(|(rule_index, rule)| RankedRule {
                tier: number.unwrap_or(0),
                unplaced: number.is_none(),
                tier_name: name.clone(),
                priority: *priority,
                index: rule.index,
                policy: policy_index,
                rule: rule_index,
            }));
        }
        // Policies are sorted by (kind, namespace, name) already, so their place is the rest of the rank.
        let rank = |rule: &RankedRule| (!rule.unplaced, rule.tier, rule.priority, rule.index, rule.policy);
        self.ranked.sort_by_key(|a| rank(a));
        let rules = self.ranked.iter().map(|ranked| &self.policies[ranked.policy].rules[ranked.rule]);
        let beyond = |subject: &Subject| !matches!(subject, Subject::Pods(_));
        self.beyond_pods = rules.flat_map(|rule| rule.subjects.iter()).any(beyond);
    }

    /// Notes what names stand for: those that are given, and those of headless services, which stand for their pods.
    fn name(&mut self, given: BTreeMap<String, Vec<IpAddr>>) {
        let mut names = given;
        for service in self.services.iter().filter(|service| service.headless) {
            let name = service.dns_name().to_string();
            let pods = self.pods_behind(service).flat_map(|pod| self.pods[pod].addresses.iter().copied());
            let listed = self.endpoints_of_service(service).flat_map(|e| e.ready.iter().copied());
            names.entry(name).or_default().extend(pods.chain(listed));
        }
        for (name, addresses) in names {
            for address in addresses {
                let known = self.names.entry(address).or_default();
                if !known.contains(&name) {
                    known.push(name.clone());
                }
            }
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
