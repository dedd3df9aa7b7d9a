//! Writer for the kinds of the Network Policy API, `policy.networking.k8s.io`: ClusterNetworkPolicy and AdminNetworkPolicy.
//!
//! Ingress peers are pods alone. A port's name has no protocol, and a rule that has one may have no other peers than pods:
//! such a rule is written as two, because a named port matches nothing on other peers.

use std::collections::BTreeSet;

use ipnet::IpNet;
use palisade_dialects::admin::write;
use palisade_dialects::written::Written;
use palisade_model::diagnostic::Code;
use palisade_model::policy::{Action, Dialect, Direction, Namespaces, Peer, Rule, Subject, TrafficMatch};
use palisade_model::snapshot::Stage;
use smol_str::SmolStr;

use super::conversion::OriginPolicy;
use super::inexpressible::Inexpressible;
use super::names::{TakenNames, suffixed};
use super::output::PolicyScope;
use super::priorities::{PreferredPriority, PriorityRange};
use super::slots::DialectWriter;
use super::{codes, normalize};

/// Writer of one version of the API.
#[derive(Debug, Clone, Copy)]
pub(super) struct PolicyApiWriter {
    /// Maximum number of rules of a direction in an object, and of peers and of traffic entries in a rule.
    pub max_entries: usize,
    pub version: write::Version,
    /// Whether baseline rules can pass, and can have DNS names.
    pub full_baseline: bool,
    /// Whether the standard channel has named ports.
    pub named_ports_in_standard: bool,
    /// The other version's dialect, which has the same priorities, and the same undefined order of equal ones.
    pub counterpart: Dialect,
}

/// Priorities of both versions.
pub(super) const PRIORITIES: PriorityRange = PriorityRange { min: 0.0, max: 1000.0, fractions: false };

/// Maximum number of networks, or of DNS names, in one peer.
const MAX_IN_PEER: usize = 25;

/// Peers of a rule as written: pods, and others. A rule with named ports has the two apart.
#[derive(Default)]
struct WrittenPeers {
    pods: Vec<Written>,
    others: Vec<Written>,
}

/// A rule while its parts are checked and written.
struct RuleTranslation<'r, 'a, 'w> {
    scope: &'r mut PolicyScope<'a, 'w>,
    rule: &'r Rule,
    /// Whether a part of the rule was refused.
    refused: bool,
}

/// Claims a name in the cluster for an object of the scope's policy, and reports it where it differs from the policy's.
pub(super) fn cluster_name(scope: &mut PolicyScope<'_, '_>, taken: &mut TakenNames) -> SmolStr {
    let origin = &scope.conversion.origins[scope.origin];
    let wanted = match origin.own_namespace() {
        Some(namespace) => suffixed(&format!("{namespace}-{}", origin.name()), ""),
        None => origin.name(),
    };
    let name = taken.claim(None, &wanted);
    if name != origin.policy.object.name {
        scope.report(&codes::NAME, None, "", format!("it becomes {name}"));
    }
    name
}

// === impl PolicyApiWriter ===

impl DialectWriter for PolicyApiWriter {
    fn max_rules(&self) -> usize {
        self.max_entries
    }

    fn has_single_subject(&self) -> bool {
        true
    }

    fn subjects(&self, scope: &mut PolicyScope<'_, '_>, subjects: &[Subject]) -> Vec<Written> {
        let mut written = Vec::new();
        for subject in normalize::subjects(scope.conversion, subjects) {
            let reason = match &subject {
                Subject::Pods(set) => match normalize::by_labels_alone(set) {
                    Ok(()) => {
                        written.push(write::pods(set));
                        continue;
                    }
                    Err(reason) => reason.to_string(),
                },
                other => format!("{other}: only pods can be subjects there"),
            };
            scope.refuse(&codes::SUBJECT, None, "", format!("cannot apply to {reason}"));
        }
        written
    }

    fn rule(&self, scope: &mut PolicyScope<'_, '_>, rule: &Rule, stage: Stage) -> Vec<Written> {
        let mut peers = normalize::peers(scope, rule);
        if let Some(namespace) = normalize::only_namespace(scope.conversion, rule) {
            for peer in peers.iter_mut().flatten() {
                if let Peer::Pods(set) = peer
                    && set.namespaces == Namespaces::Own
                {
                    set.namespaces = Namespaces::Named(namespace.clone());
                }
            }
        }
        if rule.log.is_some() {
            let message = "logging cannot be said there".to_owned();
            scope.report(&codes::LOGGING, Some(rule), ".enableLogging", message);
        }
        let mut translation = RuleTranslation { scope, rule, refused: false };
        let action = translation.action(stage, self.full_baseline);
        let traffic = translation.traffic(normalize::traffic(rule));
        let peers = match rule.direction {
            Direction::Ingress => translation.ingress(peers),
            Direction::Egress => {
                translation.egress(peers, self.full_baseline || stage == Stage::Tiers, traffic.as_deref())
            }
        };
        if translation.refused {
            return Vec::new();
        }
        self.rules(translation, action, peers, traffic)
    }

    fn deny_all(&self, direction: Direction) -> Option<Written> {
        write::deny_all(direction)
    }

    fn may_tie(&self, dialect: Dialect) -> bool {
        dialect == self.counterpart
    }

    /// Keeps the priorities of the other version. A baseline without a priority, which is negative here, has none to keep.
    fn preferred_priority(&self, origin: &OriginPolicy) -> PreferredPriority {
        match origin.precedence {
            Some(precedence) if origin.dialect == self.counterpart && precedence.priority.0 >= 0.0 => {
                PreferredPriority::Exactly(precedence.priority.0)
            }
            _ => PreferredPriority::Anywhere,
        }
    }
}

impl PolicyApiWriter {
    /// Writes a checked rule as as many rules as its peers and its traffic need.
    fn rules(
        &self,
        mut translation: RuleTranslation<'_, '_, '_>,
        action: Action,
        peers: WrittenPeers,
        traffic: Option<Vec<TrafficMatch>>,
    ) -> Vec<Written> {
        let (max, rule) = (self.max_entries, translation.rule);
        let named = |one: &TrafficMatch| matches!(one, TrafficMatch::Named(..));
        let unnamed: Option<Vec<TrafficMatch>> =
            traffic.as_ref().map(|all| all.iter().filter(|one| !named(one)).cloned().collect());
        let WrittenPeers { pods, others } = peers;
        let with_names = traffic.as_ref().is_some_and(|all| all.iter().any(named));
        let experimental = |peer: &Written| peer.get("nodes").or(peer.get("domainNames")).is_some();
        if others.iter().any(experimental) || with_names && !self.named_ports_in_standard {
            let message =
                "it needs the experimental channel of the definition: the standard one drops a field of it";
            translation.scope.report(&codes::EXPERIMENTAL, Some(rule), "", message.to_owned());
        }
        let parts: Vec<(Vec<Written>, Option<Vec<TrafficMatch>>)> = match with_names {
            // No address and no node has a named port.
            true => vec![(pods, traffic), (others, unnamed)],
            false => vec![(pods.into_iter().chain(others).collect(), traffic)],
        };
        let mut written = Vec::new();
        for (peers, traffic) in parts {
            if peers.is_empty() || traffic.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            // Every chunk of peers is written with every chunk of traffic.
            let ports = traffic.as_ref().map_or(0, Vec::len);
            let rules = peers.len().div_ceil(max).saturating_mul(ports.div_ceil(max).max(1));
            let values = rules.saturating_mul(8 * max.min(peers.len().max(ports)));
            if !translation.scope.conversion.affords(values) {
                let reason =
                    "all of its ports for all of its peers are too much to write, with all others".to_owned();
                translation.refuse(&codes::TOO_MUCH, "", reason);
                return Vec::new();
            }
            for peers in peers.chunks(max) {
                let mut write = |traffic: Option<&[TrafficMatch]>| {
                    let name = rule.name.as_deref();
                    written.push(self.version.rule(name, action, rule.direction, peers, traffic));
                };
                match &traffic {
                    None => write(None),
                    Some(all) => all.chunks(max).for_each(|some| write(Some(some))),
                }
            }
        }
        if written.is_empty() {
            let message = "the rule matches nothing and is left out".to_owned();
            translation.scope.report(&codes::NO_EFFECT, Some(rule), "", message);
        }
        written
    }
}

// === impl RuleTranslation ===

impl RuleTranslation<'_, '_, '_> {
    fn refuse(&mut self, code: &'static Code, field: &str, reason: String) {
        self.scope.refuse(code, Some(self.rule), field, reason);
        self.refused = true;
    }

    fn refuse_peer(&mut self, reason: &impl ToString) {
        self.refuse(&codes::PEER, normalize::peer_field(self.rule.direction), reason.to_string());
    }

    /// Returns the action to write; refuses conditions on layer 7, and Reject.
    fn action(&mut self, stage: Stage, full_baseline: bool) -> Action {
        if !self.rule.layer7.is_empty() {
            let reason = "conditions on layer 7 cannot be said there".to_owned();
            self.refuse(&codes::LAYER7, ".l7Protocols", reason);
        }
        match self.rule.action {
            // Behind the baseline everything is allowed.
            Action::Pass if stage == Stage::Baseline && !full_baseline => Action::Allow,
            Action::Reject => {
                let reason = "Reject answers, and Deny there drops without a word".to_owned();
                self.refuse(&codes::ACTION, ".action", reason);
                Action::Deny
            }
            action => action,
        }
    }

    /// Returns the traffic with named ports merged over protocols; refuses entries that are no ports.
    fn traffic(&mut self, traffic: Option<Vec<TrafficMatch>>) -> Option<Vec<TrafficMatch>> {
        let mut all = traffic?;
        normalize::merge_named_ports(&mut all);
        for one in &all {
            let reason = match one {
                TrafficMatch::Ports(..) | TrafficMatch::Named(None, _) => continue,
                TrafficMatch::Named(Some(_), _) => "there a port's name stands for it in every protocol",
                TrafficMatch::From(..) => "there are no source ports there",
                _ => "there are only ports of TCP, UDP and SCTP there",
            };
            self.refuse(&codes::TRAFFIC, normalize::traffic_field(one), format!("{one}: {reason}"));
        }
        Some(all)
    }

    /// Writes the peers of an ingress rule; refuses all but pods.
    fn ingress(&mut self, peers: Option<Vec<Peer>>) -> WrittenPeers {
        let Some(peers) = peers else {
            self.refuse_peer(
                &"everybody: only pods can be peers of ingress rules there, no address and no node",
            );
            return WrittenPeers::default();
        };
        let mut pods = Vec::new();
        for peer in &peers {
            match peer {
                Peer::Pods(set) => match normalize::by_labels_alone(set) {
                    Ok(()) => pods.push(write::pods(set)),
                    Err(reason) => self.refuse_peer(&reason),
                },
                other => self.refuse_peer(&format!("{other}: only pods can be peers of ingress rules there")),
            }
        }
        WrittenPeers { pods, others: Vec::new() }
    }

    /// Writes the peers of an egress rule, DNS names only where `may_name`.
    fn egress(
        &mut self,
        peers: Option<Vec<Peer>>,
        may_name: bool,
        traffic: Option<&[TrafficMatch]>,
    ) -> WrittenPeers {
        let named = traffic.is_some_and(|all| all.iter().any(|one| matches!(one, TrafficMatch::Named(..))));
        let Some(peers) = peers.filter(|peers| !normalize::are_everything(peers)) else {
            // Only pods and external entities have named ports.
            if named && self.scope.conversion.snapshot.pods().iter().any(|pod| pod.external) {
                self.refuse_peer(&"external entities: a rule with a named port can have pods as peers only");
            }
            let [pods, networks] = write::everything();
            return WrittenPeers { pods: vec![pods], others: vec![networks] };
        };
        let (mut pods, mut networks, mut nodes, mut names) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for peer in &peers {
            match peer {
                Peer::Pods(set) => match normalize::by_labels_alone(set) {
                    Ok(()) => pods.push(write::pods(set)),
                    Err(reason) => self.refuse_peer(&reason),
                },
                Peer::Addresses(block) => networks.extend(normalize::without_exceptions(block)),
                Peer::Nodes(selector) => {
                    nodes.push(write::nodes(selector));
                }
                Peer::Names(all) => {
                    for name in all {
                        match write::domain_name(name) {
                            Some(text) => names.push(text),
                            None => {
                                self.refuse_peer(&Inexpressible::DomainName(name.clone()));
                            }
                        }
                    }
                }
                other => self.refuse_peer(&Inexpressible::Peer(other.clone())),
            }
        }
        let dialect = self.scope.conversion.origins[self.scope.origin].dialect;
        let undefined = self.rule.action != Action::Allow
            && dialect != Dialect::AdminNetworkPolicy
            && dialect != Dialect::ClusterNetworkPolicy;
        if !names.is_empty() && (undefined || !may_name) {
            self.refuse_peer(&"DNS names: there only rules that allow, and are no baseline, have them");
        }
        // A block or a DNS name may hold the address of a pod that has the named port.
        if named && !(networks.is_empty() && names.is_empty()) {
            self.refuse_peer(&"addresses: a rule with a named port can have pods as peers only");
        }
        let mut networks: Vec<String> = networks.iter().map(IpNet::to_string).collect();
        let networks = chunks(&mut networks, write::networks);
        let others = networks.into_iter().chain(nodes).chain(chunks(&mut names, write::domain_names));
        WrittenPeers { pods, others: others.collect() }
    }
}

/// Returns peers that hold these texts, each once, in lists as long as a peer allows.
fn chunks(texts: &mut Vec<String>, peer: fn(&[String]) -> Written) -> Vec<Written> {
    let mut known: BTreeSet<String> = BTreeSet::new();
    texts.retain(|text| known.insert(text.clone()));
    texts.chunks(MAX_IN_PEER).map(peer).collect()
}
