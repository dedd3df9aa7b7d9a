//! Lint for named ports that no destination declares.

use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_model::flow::{Flow, Party, Who};
use palisade_model::matching::{Context, Endpoint};
use palisade_model::options::Options;
use palisade_model::policy::{Direction, Peer, Peers, Policy, PortMatch, Rule, TrafficMatch, TrafficMatches};
use palisade_model::snapshot::Snapshot;
use palisade_model::traffic::{Protocol, Traffic};

use super::{about_rule, pods, pods_of, pods_of_subject};

/// A named port that no known destination declares.
pub static RESOLVES_NOWHERE: Code = Code {
    id: "L0103",
    severity: Severity::Warning,
    title: "a named port that no destination has",
    explanation: "A port's name is looked up on the destination: for ingress on the pods the policy selects, for egress on the pods it names. None of those that are known declares a container port of that name and protocol, so the rule matches nothing. Names without `protocol` mean TCP in NetworkPolicy.",
};

pub(super) fn check(snapshot: &Snapshot, found: &mut Vec<Diagnostic>) {
    let context = Context { snapshot, options: Options::default() };
    for policy in snapshot.policies() {
        for rule in &policy.rules {
            let TrafficMatches::Of(matches) = &rule.traffic else { continue };
            for wanted in matches {
                let (protocol, name) = match wanted {
                    TrafficMatch::Named(protocol, name) => (protocol, name),
                    TrafficMatch::From(_, port) => match &**port {
                        PortMatch::Named(protocol, name) => (protocol, name),
                        PortMatch::Numbers(..) => continue,
                    },
                    TrafficMatch::Ports(..)
                    | TrafficMatch::Icmp(_)
                    | TrafficMatch::Igmp(..)
                    | TrafficMatch::Unknown(_) => continue,
                };
                let mut destinations = destinations(&context, rule).peekable();
                let known = destinations.peek().is_some();
                let resolves = |pod: usize| {
                    let protocols = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
                    let candidates =
                        protocols.into_iter().filter(|p| protocol.is_none_or(|wanted| wanted == *p));
                    candidates.into_iter().any(|p| snapshot.pods()[pod].named_port(name, p).is_some())
                };
                if known && !destinations.any(resolves) {
                    found.push(report(policy, rule, *protocol, name));
                }
            }
        }
    }
}

fn report(policy: &Policy, rule: &Rule, protocol: Option<Protocol>, name: &str) -> Diagnostic {
    let who = match rule.direction {
        Direction::Ingress => "the pods it selects",
        Direction::Egress => "its peers",
    };
    let port = match protocol {
        Some(protocol) => format!("{protocol} port named {name}"),
        None => format!("port named {name}"),
    };
    let message = format!("none of {who} has a {port}: this part of the rule matches nothing");
    let list = if policy.object.kind == "ClusterNetworkPolicy" { ".protocols" } else { ".ports" };
    about_rule(&RESOLVES_NOWHERE, policy, rule, list, message)
        .help(format!("declare a container port named {name}, or write its number"))
}

/// Returns the pods that can be the destination of a connection that the rule matches.
fn destinations<'s>(context: &'s Context<'s>, rule: &'s Rule) -> Box<dyn Iterator<Item = usize> + 's> {
    let snapshot = context.snapshot;
    let mut subjects = rule.subjects.iter().flat_map(move |subject| pods_of_subject(context, subject));
    if rule.direction == Direction::Ingress {
        return Box::new(subjects);
    }
    match (subjects.next(), &rule.peers) {
        (None, _) => Box::new(std::iter::empty()),
        (Some(_), Peers::Any) => Box::new(pods(snapshot)),
        (Some(subject), Peers::Of(peers)) => {
            Box::new(peers.iter().flat_map(move |peer| of_peer(context, peer, subject)))
        }
    }
}

/// Returns the pods that a peer selects for a subject.
fn of_peer<'s>(
    context: &'s Context<'s>,
    peer: &'s Peer,
    subject: usize,
) -> Box<dyn Iterator<Item = usize> + 's> {
    let snapshot = context.snapshot;
    let here: Box<dyn Iterator<Item = usize>> = match peer {
        Peer::Pods(set) => Box::new(pods_of(snapshot, &set.namespaces)),
        _ => Box::new(pods(snapshot)),
    };
    let party =
        |pod: usize| Party { who: Who::Pod(pod), address: snapshot.pods()[pod].addresses.first().copied() };
    let flow = move |pod: usize| Flow {
        source: party(subject),
        destination: party(pod),
        traffic: Traffic::new(Protocol::Tcp, 1),
        via: None,
    };
    Box::new(here.filter(move |pod| context.peer(peer, party(*pod), Endpoint::Pod(subject), &flow(*pod))))
}
