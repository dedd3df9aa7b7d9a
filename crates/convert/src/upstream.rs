//! What ClusterNetworkPolicy and AdminNetworkPolicy say alike: pods as subjects, peers, actions.
//!
//! Ingress peers are pods and nobody else. A port has a name without a protocol, and a rule that names one may have no
//! other peers than pods: such a rule becomes two, where the name could mean nothing for the others anyway.

use std::collections::BTreeSet;

use ipnet::IpNet;
use palisade_dialects::admin::write;
use palisade_dialects::written::Written;
use palisade_model::diagnostic::Code;
use palisade_model::policy::{Action, Dialect, Direction, Namespaces, Peer, Rule, Subject, TrafficMatch};
use palisade_model::snapshot::Stage;

use super::conversion::Conversion;
use super::speech::Speech;
use super::{codes, ends};

/// How the versions differ.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// So many peers, or entries of traffic, a rule can have.
    pub most: usize,
    /// The version that is written.
    pub version: write::Version,
    /// Whether baseline rules can pass, and can name DNS names.
    pub full_baseline: bool,
    /// Whether names of ports are in the standard channel.
    pub standard_names: bool,
}

/// So many networks, or DNS names, one peer can have.
const MOST_IN_A_PEER: usize = 25;

/// Everything that cannot be said about a rule, and where.
struct Wrong<'a, 'w> {
    conversion: &'a Conversion<'w>,
    origin: usize,
    rule: &'a Rule,
    speech: &'a mut Speech,
    any: bool,
}

/// Whom an object applies to, one entry for each object that is needed.
pub(super) fn subjects(
    conversion: &Conversion<'_>,
    origin: usize,
    subjects: &[Subject],
    speech: &mut Speech,
) -> Vec<Written> {
    let mut said = Vec::new();
    for subject in ends::subjects(conversion, subjects) {
        let why = match &subject {
            Subject::Pods(set) => match ends::beyond_labels(set) {
                None => {
                    said.push(write::pods(set));
                    continue;
                }
                Some(why) => why,
            },
            other => format!("{other}: only pods can be subjects there"),
        };
        speech.cannot(&codes::SUBJECT, conversion, origin, None, "", format!("cannot apply to {why}"));
    }
    said
}

/// A rule, as one or more.
pub(super) fn rule(
    shape: Shape,
    conversion: &Conversion<'_>,
    origin: usize,
    rule: &Rule,
    stage: Stage,
    speech: &mut Speech,
) -> Vec<Written> {
    let mut outward = ends::peers(conversion, origin, rule, speech);
    if let Some(home) = ends::only_namespace(conversion, rule) {
        for peer in outward.iter_mut().flatten() {
            if let Peer::Pods(set) = peer
                && set.namespaces == Namespaces::Own
            {
                set.namespaces = Namespaces::Named(home.clone());
            }
        }
    }
    let mut wrong = Wrong { conversion, origin, rule, speech, any: false };
    if rule.log.is_some() {
        wrong.speech.note(
            &codes::LOGGING,
            conversion,
            origin,
            Some(rule),
            ".enableLogging",
            "logging cannot be said there".to_owned(),
        );
    }
    if !rule.layer7.is_empty() {
        wrong.note(&codes::LAYER7, ".l7Protocols", "conditions on layer 7 cannot be said there".to_owned());
    }
    let action = match rule.action {
        // Past the baseline comes the end, where everything is allowed.
        Action::Pass if stage == Stage::Baseline && !shape.full_baseline => Action::Allow,
        Action::Reject => {
            let why = "Reject answers, and Deny there drops without a word".to_owned();
            wrong.note(&codes::ACTION, ".action", why);
            Action::Deny
        }
        action => action,
    };
    let traffic = wrong.traffic(ends::traffic(rule));
    let said_ends = match rule.direction {
        Direction::Ingress => wrong.ingress(outward),
        Direction::Egress => {
            wrong.egress(outward, shape.full_baseline || stage == Stage::Tiers, traffic.as_deref())
        }
    };
    if wrong.any {
        return Vec::new();
    }
    let named = |one: &TrafficMatch| matches!(one, TrafficMatch::Named(..));
    let plain: Option<Vec<TrafficMatch>> =
        traffic.as_ref().map(|all| all.iter().filter(|one| !named(one)).cloned().collect());
    let (inside, outside) = said_ends;
    let with_names = traffic.as_ref().is_some_and(|all| all.iter().any(named));
    let experimental = |peer: &Written| peer.get("nodes").or(peer.get("domainNames")).is_some();
    if outside.iter().any(experimental) || with_names && !shape.standard_names {
        let message =
            "it needs the experimental channel of the definition: the standard one drops a field of it";
        wrong.speech.note(&codes::EXPERIMENTAL, conversion, origin, Some(rule), "", message.to_owned());
    }
    let parts: Vec<(Vec<Written>, Option<Vec<TrafficMatch>>)> = match with_names {
        // No address and no node has a port with a name.
        true => vec![(inside, traffic), (outside, plain)],
        false => vec![(inside.into_iter().chain(outside).collect(), traffic)],
    };
    let mut said = Vec::new();
    for (peers, traffic) in parts {
        if peers.is_empty() || traffic.as_ref().is_some_and(Vec::is_empty) {
            continue;
        }
        // Every chunk of the one stands with every chunk of the other.
        let ports = traffic.as_ref().map_or(0, Vec::len);
        let rules = peers.len().div_ceil(shape.most).saturating_mul(ports.div_ceil(shape.most).max(1));
        if !ends::affords(conversion, rules.saturating_mul(8 * shape.most.min(peers.len().max(ports)))) {
            let why =
                "all of its ports for all of its peers are too much to write, with all others".to_owned();
            wrong.note(&codes::TOO_MUCH, "", why);
            return Vec::new();
        }
        for peers in peers.chunks(shape.most) {
            let mut write = |traffic: Option<&[TrafficMatch]>| {
                said.push(shape.version.rule(rule.name.as_deref(), action, rule.direction, peers, traffic));
            };
            match &traffic {
                None => write(None),
                Some(all) => all.chunks(shape.most).for_each(|some| write(Some(some))),
            }
        }
    }
    if said.is_empty() {
        let message = "the rule matches nothing and is left out".to_owned();
        speech.note(&codes::NO_EFFECT, conversion, origin, Some(rule), "", message);
    }
    said
}

/// Peers that hold these texts, each once, in lists as long as a peer allows.
fn chunks(texts: &mut Vec<String>, peer: fn(&[String]) -> Written) -> Vec<Written> {
    let mut known: BTreeSet<String> = BTreeSet::new();
    texts.retain(|text| known.insert(text.clone()));
    texts.chunks(MOST_IN_A_PEER).map(peer).collect()
}

// === impl Wrong ===

impl Wrong<'_, '_> {
    fn note(&mut self, code: &'static Code, part: &str, why: String) {
        self.speech.cannot(code, self.conversion, self.origin, Some(self.rule), part, why);
        self.any = true;
    }

    fn peer(&mut self, why: String) {
        let part = if self.rule.direction == Direction::Ingress { ".from" } else { ".to" };
        self.note(&codes::PEER, part, why);
    }

    fn traffic(&mut self, traffic: Option<Vec<TrafficMatch>>) -> Option<Vec<TrafficMatch>> {
        let mut all = traffic?;
        ends::names_of_any_protocol(&mut all);
        for one in &all {
            let why = match one {
                TrafficMatch::Ports(..) | TrafficMatch::Named(None, _) => continue,
                TrafficMatch::Named(Some(_), _) => "there a port's name stands for it in every protocol",
                TrafficMatch::From(..) => "there are no source ports there",
                _ => "there are only ports of TCP, UDP and SCTP there",
            };
            let part = match one {
                TrafficMatch::Icmp(..) | TrafficMatch::Igmp(..) => ".protocols",
                _ => ".ports",
            };
            self.note(&codes::TRAFFIC, part, format!("{one}: {why}"));
        }
        Some(all)
    }

    /// Pods, and nobody else.
    fn ingress(&mut self, peers: Option<Vec<Peer>>) -> (Vec<Written>, Vec<Written>) {
        let Some(peers) = peers else {
            self.peer(
                "everybody: only pods can be peers of ingress rules there, no address and no node".to_owned(),
            );
            return (Vec::new(), Vec::new());
        };
        let mut said = Vec::new();
        for peer in &peers {
            match peer {
                Peer::Pods(set) => match ends::beyond_labels(set) {
                    None => said.push(write::pods(set)),
                    Some(why) => self.peer(why),
                },
                other => self.peer(format!("{other}: only pods can be peers of ingress rules there")),
            }
        }
        (said, Vec::new())
    }

    /// Pods, and those that are none.
    fn egress(
        &mut self,
        peers: Option<Vec<Peer>>,
        may_name: bool,
        traffic: Option<&[TrafficMatch]>,
    ) -> (Vec<Written>, Vec<Written>) {
        let named = traffic.is_some_and(|all| all.iter().any(|one| matches!(one, TrafficMatch::Named(..))));
        let Some(peers) = peers.filter(|peers| !ends::are_everybody(peers)) else {
            // Whatever has a port with a name is a pod, or an external entity.
            if named && self.conversion.snapshot.pods().iter().any(|pod| pod.external) {
                self.peer(
                    "external entities: a rule with a named port can have pods as peers only".to_owned(),
                );
            }
            let [pods, networks] = write::everything();
            return (vec![pods], vec![networks]);
        };
        let (mut inside, mut networks, mut nodes, mut names) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for peer in &peers {
            match peer {
                Peer::Pods(set) => match ends::beyond_labels(set) {
                    None => inside.push(write::pods(set)),
                    Some(why) => self.peer(why),
                },
                Peer::Addresses(block) => networks.extend(ends::whole_blocks(block)),
                Peer::Nodes(selector) => {
                    nodes.push(write::nodes(selector));
                }
                Peer::Names(all) => {
                    for name in all {
                        match write::domain_name(name) {
                            Some(text) => names.push(text),
                            None => {
                                self.peer(format!("{name}: not a name, or names, that can be written there"));
                            }
                        }
                    }
                }
                other => self.peer(format!("{other}: there are no words for it there")),
            }
        }
        let undefined = self.rule.action != Action::Allow
            && self.conversion.origins[self.origin].dialect != Dialect::AdminNetworkPolicy
            && self.conversion.origins[self.origin].dialect != Dialect::ClusterNetworkPolicy;
        if !names.is_empty() && (undefined || !may_name) {
            self.peer("DNS names: there only rules that allow, and are no baseline, have them".to_owned());
        }
        // By its address a block or a name may mean a pod, whose port has that name.
        if named && !(networks.is_empty() && names.is_empty()) {
            self.peer("addresses: a rule with a named port can have pods as peers only".to_owned());
        }
        let mut networks: Vec<String> = networks.iter().map(IpNet::to_string).collect();
        let networks = chunks(&mut networks, write::networks);
        let outside = networks.into_iter().chain(nodes).chain(chunks(&mut names, write::domain_names));
        (inside, outside.collect())
    }
}
