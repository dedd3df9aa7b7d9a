//! Building a snapshot is where objects meet: namespaces that are only mentioned come into being, templates stand for pods
//! that do not exist, tiers get their numbers and rules their order.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use smol_str::SmolStr;

use super::stand_ins::{maker, with_stand_ins};
use super::{Objects, RankedRule, Snapshot};
use crate::cluster::{NAMESPACE_NAME_LABEL, Namespace, Pod, Service};
use crate::entrance::Entrance;
use crate::flow::Who;
use crate::label::Labels;
use crate::policy::{Placement, ServiceName, Subject, Tier};
use crate::resolve;

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
        snapshot.tiers = tiers;
        snapshot.groups = groups.into_iter().map(|group| (group.name(), group)).collect();
        let services: HashMap<(&str, &str), &Service> =
            snapshot.services.iter().map(|s| ((&*s.namespace, &*s.name), s)).collect();
        let service = |name: &ServiceName| services.get(&(&*name.namespace, &*name.name)).copied();
        snapshot.expansions = resolve::expand_all(&snapshot.groups, service);
        snapshot.name(names);
        snapshot
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
        for service in self.services.iter().filter(|service| service.is_headless()) {
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
}
