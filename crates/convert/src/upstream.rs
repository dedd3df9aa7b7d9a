//! What ClusterNetworkPolicy and AdminNetworkPolicy say alike: pods as subjects, peers, actions.
//!
//! Ingress peers are pods and nobody else. A port has a name without a protocol, and a rule that names one may have no
//! other peers than pods: such a rule becomes two, where the name could mean nothing for the others anyway.

use std::collections::BTreeSet;

use ipnet::IpNet;
use palisade_dialects::written::Written;
use palisade_model::diagnostic::Code;
use palisade_model::label::Selector;
use palisade_model::policy::{
    Action, Dialect, Direction, Namespaces, Peer, PodSet, Rule, Subject, TrafficMatch,
};
use palisade_model::snapshot::Stage;
use smol_str::SmolStr;

use super::conversion::Conversion;
use super::speech::Speech;
use super::{codes, ends};

/// How the versions differ.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// So many peers, or entries of traffic, a rule can have.
    pub most: usize,
    /// The word for letting through.
    pub allow: &'static str,
    /// The field for traffic.
    pub traffic: &'static str,
    /// One entry of it.
    pub entry: fn(&TrafficMatch) -> Option<Written>,
    /// Whether baseline rules can pass, and can name DNS names.
    pub full_baseline: bool,
    /// Whether names of ports are in the standard channel.
    pub standard_names: bool,
}

/// So many networks, or DNS names, one peer can have.
const MOST_IN_A_PEER: usize = 25;
/// So many characters the name of a rule can have.
const LONGEST_NAME: usize = 100;

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
                    said.push(pods(set));
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
        Action::Allow => shape.allow,
        Action::Deny => "Deny",
        // Past the baseline comes the end, where everything is allowed.
        Action::Pass if stage == Stage::Baseline && !shape.full_baseline => shape.allow,
        Action::Pass => "Pass",
        Action::Reject => {
            let why = "Reject answers, and Deny there drops without a word".to_owned();
            wrong.note(&codes::ACTION, ".action", why);
            ""
        }
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
                let entries = traffic.map(|all| all.iter().filter_map(shape.entry).collect());
                let field = if rule.direction == Direction::Ingress { "from" } else { "to" };
                said.push(Written::map([
                    ("name", rule.name.as_ref().map(|name| Written::text(short(name)))),
                    ("action", Some(Written::text(action))),
                    (field, Some(Written::List(peers.to_vec()))),
                    (shape.traffic, entries.map(Written::List)),
                ]));
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

/// A rule that denies everything to everybody, where there are words for that.
pub(super) fn deny_all(direction: Direction) -> Option<Written> {
    let to = match direction {
        Direction::Ingress => return None,
        Direction::Egress => anybody(),
    };
    Some(Written::map([("action", Some(Written::text("Deny"))), ("to", Some(Written::List(to.into())))]))
}

/// Everybody: every pod, also one without an address, and every address.
fn anybody() -> [Written; 2] {
    let blocks = ["0.0.0.0/0", "::/0"].map(Written::text).to_vec();
    [every_pod(), Written::map([("networks", Some(Written::List(blocks)))])]
}

fn every_pod() -> Written {
    Written::map([("namespaces", Some(Written::Map(Vec::new())))])
}

/// Pods, as a subject and as a peer.
fn pods(set: &PodSet) -> Written {
    let namespaces = ends::selector(&ends::namespaces(&set.namespaces));
    if set.pods == Selector::everything() {
        return Written::map([("namespaces", Some(namespaces))]);
    }
    let both = Written::map([
        ("namespaceSelector", Some(namespaces)),
        ("podSelector", Some(ends::selector(&set.pods))),
    ]);
    Written::map([("pods", Some(both))])
}

fn short(name: &SmolStr) -> String {
    name.chars().take(LONGEST_NAME).collect()
}

/// Lists of texts, each as long as a peer allows.
fn lists(field: &str, texts: Vec<String>) -> Vec<Written> {
    let mut known: BTreeSet<String> = BTreeSet::new();
    let once: Vec<String> = texts.into_iter().filter(|text| known.insert(text.clone())).collect();
    let list = |some: &[String]| Written::List(some.iter().map(Written::text).collect());
    once.chunks(MOST_IN_A_PEER).map(|some| Written::map([(field, Some(list(some)))])).collect()
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
                    None => said.push(pods(set)),
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
            let [pods, networks] = anybody();
            return (vec![pods], vec![networks]);
        };
        let (mut inside, mut networks, mut nodes, mut names) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for peer in &peers {
            match peer {
                Peer::Pods(set) => match ends::beyond_labels(set) {
                    None => inside.push(pods(set)),
                    Some(why) => self.peer(why),
                },
                Peer::Addresses(block) => networks.extend(ends::whole_blocks(block)),
                Peer::Nodes(selector) => {
                    nodes.push(Written::map([("nodes", Some(ends::selector(selector)))]));
                }
                Peer::Names(all) => {
                    for name in all {
                        match ends::domain_name(name) {
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
        let networks = networks.iter().map(IpNet::to_string).collect();
        let outside = lists("networks", networks).into_iter().chain(nodes).chain(lists("domainNames", names));
        (inside, outside.collect())
    }
}
