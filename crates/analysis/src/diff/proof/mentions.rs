//! Values that policies mention: the labels, addresses and names by which they distinguish endpoints.

use std::collections::{BTreeMap, BTreeSet};

use palisade_model::address::Block;
use palisade_model::cluster::NAMESPACE_NAME_LABEL;
use palisade_model::group::{Group, Members};
use palisade_model::label::{Operator, Selector};
use palisade_model::policy::{
    DomainName, Namespaces, Peer, Peers, PodSet, Policy, PortMatch, Subject, TrafficMatch, TrafficMatches,
};
use palisade_model::snapshot::Objects;
use smol_str::SmolStr;

/// Values that some policies mention.
#[derive(Debug, Default)]
pub struct Mentions {
    /// Labels of namespaces.
    pub namespaces: MentionedLabels,
    /// Labels of pods.
    pub pods: MentionedLabels,
    /// Labels of external entities.
    pub entities: MentionedLabels,
    /// Labels of nodes.
    pub nodes: MentionedLabels,
    /// Whether some peer is relative to the subject's own namespace.
    pub own: bool,
    /// Keys of namespace labels that peers compare with the subject's.
    pub compared: BTreeSet<SmolStr>,
    /// Names of service accounts.
    pub accounts: BTreeSet<SmolStr>,
    /// Address blocks.
    pub blocks: Vec<Block>,
    /// DNS names.
    pub names: BTreeSet<DomainName>,
    /// Names of ports.
    pub named_ports: BTreeSet<SmolStr>,
    /// Number of rules.
    pub rules: usize,
}

/// Selectors, with the values that they mention for each key.
#[derive(Debug, Default)]
pub struct MentionedLabels {
    /// The selectors.
    pub selectors: BTreeSet<Selector>,
    /// Keys, with values.
    pub values: BTreeMap<SmolStr, BTreeSet<SmolStr>>,
}

// === impl Mentions ===

impl Mentions {
    /// Collects the values that the policies of all these worlds mention.
    pub fn of<'o>(worlds: impl IntoIterator<Item = &'o Objects>) -> Self {
        let mut all = Mentions::default();
        for world in worlds {
            world.policies.iter().for_each(|policy| all.policy(policy));
            for group in &world.groups {
                all.members(&group.members);
            }
            // A group may be the pods behind a service.
            let behind = |group: &'_ Group| match &group.members {
                Members::Service(name) => Some((name.namespace.clone(), name.name.clone())),
                _ => None,
            };
            let behind: BTreeSet<(SmolStr, SmolStr)> = world.groups.iter().filter_map(behind).collect();
            for service in &world.services {
                if let Some(selector) = service.selector()
                    && behind.contains(&(service.namespace.clone(), service.name.clone()))
                {
                    all.pods.add(selector);
                    all.namespaces.add(&Selector::label(NAMESPACE_NAME_LABEL, &service.namespace));
                }
            }
        }
        all.blocks.sort_by_cached_key(ToString::to_string);
        all.blocks.dedup();
        all
    }

    fn policy(&mut self, policy: &Policy) {
        let isolated = policy.isolations.iter().map(|isolation| &isolation.subjects);
        for subjects in policy.rules.iter().map(|rule| &rule.subjects).chain(isolated) {
            subjects.iter().for_each(|subject| self.subject(subject));
        }
        self.rules += policy.rules.len();
        for rule in &policy.rules {
            if let Peers::Of(peers) = &rule.peers {
                peers.iter().for_each(|peer| self.peer(peer));
            }
            if let TrafficMatches::Of(all) = &rule.traffic {
                all.iter().for_each(|one| self.traffic(one));
            }
        }
    }

    fn subject(&mut self, subject: &Subject) {
        match subject {
            Subject::Pods(set) => self.set(set),
            Subject::Nodes(selector) => self.nodes.add(selector),
            Subject::Group { within: Some(namespace), .. } => {
                self.namespaces.add(&Selector::label(NAMESPACE_NAME_LABEL, namespace));
            }
            Subject::Group { .. } | Subject::Service(_) => {}
        }
    }

    fn peer(&mut self, peer: &Peer) {
        match peer {
            Peer::Pods(set) => self.set(set),
            Peer::Addresses(block) => self.blocks.push(block.clone()),
            Peer::Nodes(selector) => self.nodes.add(selector),
            Peer::Names(names) => self.names.extend(names.iter().cloned()),
            Peer::Service(_) | Peer::Group(_) | Peer::Unknown(_) => {}
        }
    }

    fn members(&mut self, members: &Members) {
        match members {
            Members::Pods(set) => self.set(set),
            Members::Nodes(selector) => self.nodes.add(selector),
            Members::Addresses(blocks) => self.blocks.extend(blocks.iter().cloned()),
            _ => {}
        }
    }

    fn set(&mut self, set: &PodSet) {
        if set.external { &mut self.entities } else { &mut self.pods }.add(&set.pods);
        self.accounts.extend(set.account.clone());
        match &set.namespaces {
            Namespaces::Named(name) => self.namespaces.add(&Selector::label(NAMESPACE_NAME_LABEL, name)),
            Namespaces::Matching(selector) => self.namespaces.add(selector),
            Namespaces::Own => self.own = true,
            Namespaces::SameLabels(keys) | Namespaces::NotSameLabels(keys) => {
                self.own = true;
                self.compared.extend(keys.iter().cloned());
            }
        }
    }

    fn traffic(&mut self, one: &TrafficMatch) {
        match one {
            TrafficMatch::Named(_, name) => {
                self.named_ports.insert(name.clone());
            }
            TrafficMatch::From(_, port) => match &**port {
                PortMatch::Named(_, name) => {
                    self.named_ports.insert(name.clone());
                }
                PortMatch::Numbers(..) => {}
            },
            TrafficMatch::Ports(..)
            | TrafficMatch::Icmp(..)
            | TrafficMatch::Igmp(..)
            | TrafficMatch::Unknown(_) => {}
        }
    }
}

// === impl MentionedLabels ===

impl MentionedLabels {
    fn add(&mut self, selector: &Selector) {
        for requirement in selector.requirements() {
            let values = self.values.entry(requirement.key.clone()).or_default();
            if let Operator::In(mentioned) | Operator::NotIn(mentioned) = &requirement.operator {
                values.extend(mentioned.iter().cloned());
            }
        }
        self.selectors.insert(selector.clone());
    }
}
