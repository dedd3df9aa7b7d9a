//! A connection that two policies of equal rank disagree about.
//!
//! Looked for among the pods that are known and the addresses and ports that the rules themselves name: where two rules
//! overlap, they overlap at the edge of what one of them says, so the edges are enough. It is bounded, so that no
//! input makes it slow; a conflict that is missed is still reported as two policies with one priority.

use std::fmt;
use std::net::IpAddr;

use palisade_model::flow::{Flow, Party, Who};
use palisade_model::group::Members;
use palisade_model::matching::{Context, Endpoint};
use palisade_model::policy::{
    Action, Direction, Object, Peer, Peers, Policy, Rule, TrafficMatch, TrafficMatches,
};
use palisade_model::traffic::{PortRange, Protocol, Traffic};

use super::pods;

/// Two rules, and a connection for which it matters which of them comes first.
pub struct Conflict {
    flow: String,
    first: (String, Action),
    second: (String, Action),
}

/// As many subjects, and as many others for each, are tried for a pair of rules.
const MOST_PODS: usize = 64;

/// The first conflict of two policies, where there is one.
pub fn find(context: &Context<'_>, a: &Policy, b: &Policy) -> Option<Conflict> {
    let disagree = |x: &Rule, y: &Rule| {
        x.direction == y.direction
            && x.action != y.action
            // Antrea interleaves rules by index: only those with the same one are left undecided.
            && (x.index == y.index || !(antrea(&a.object) && antrea(&b.object)))
            && context.unknown(x).is_none()
            && context.unknown(y).is_none()
    };
    let pairs = a.rules.iter().flat_map(|x| b.rules.iter().map(move |y| (x, y)));
    pairs.filter(|(x, y)| disagree(x, y)).find_map(|(x, y)| {
        let flow = witness(context, x, y)?;
        let (source, destination) =
            (context.snapshot.describe(flow.source), context.snapshot.describe(flow.destination));
        Some(Conflict {
            flow: format!("{source} -> {destination} {}", flow.traffic),
            first: (format!("{} rule {} of {}", x.direction, x.index, a.object.full_name()), x.action),
            second: (format!("{} rule {} of {}", y.direction, y.index, b.object.full_name()), y.action),
        })
    })
}

fn antrea(object: &Object) -> bool {
    object.api == "Antrea"
}

/// A connection that both rules match.
fn witness(context: &Context<'_>, x: &Rule, y: &Rule) -> Option<Flow> {
    let snapshot = context.snapshot;
    let applies = |endpoint: &Endpoint| {
        context.applies(&x.subjects, *endpoint) && context.applies(&y.subjects, *endpoint)
    };
    let nodes = (0..snapshot.nodes().len()).map(Endpoint::Node);
    let subjects: Vec<Endpoint> =
        pods(snapshot).map(Endpoint::Pod).chain(nodes).filter(applies).take(MOST_PODS).collect();
    let others = others(context, x, y);
    let traffics = traffics(context, x, y);
    for subject in subjects {
        let own = match subject {
            Endpoint::Pod(pod) => Who::Pod(pod),
            Endpoint::Node(node) => Who::Node(node),
            Endpoint::Service(_) => continue,
        };
        for (who, address) in others.iter().filter(|(who, _)| *who != own) {
            for traffic in &traffics {
                let ends = ((own, None), (*who, *address));
                let flow = match x.direction {
                    Direction::Egress => snapshot.flow(ends.0, ends.1, *traffic),
                    Direction::Ingress => snapshot.flow(ends.1, ends.0, *traffic),
                };
                let (_, peer) = Context::ends(&flow, x.direction);
                if [x, y].iter().all(|rule| context.readable_rule(rule, subject, peer, &flow)) {
                    return Some(flow);
                }
            }
        }
    }
    None
}

/// Who may be at the other end: pods, nodes, and an address of each block that is named.
fn others(context: &Context<'_>, x: &Rule, y: &Rule) -> Vec<(Who, Option<IpAddr>)> {
    let snapshot = context.snapshot;
    let mut others: Vec<(Who, Option<IpAddr>)> = Vec::new();
    let mut anybody = true;
    for peers in [&x.peers, &y.peers] {
        let Peers::Of(peers) = peers else { continue };
        anybody = false;
        for peer in peers {
            let blocks = match peer {
                Peer::Addresses(block) => std::slice::from_ref(block),
                Peer::Group(group) => match snapshot.group(group) {
                    Ok([Members::Addresses(blocks), ..]) => blocks.as_slice(),
                    _ => &[],
                },
                _ => &[],
            };
            others.extend(blocks.iter().take(MOST_PODS).map(|block| {
                let address = block.cidr().addr();
                (snapshot.who_has(address), Some(address))
            }));
        }
    }
    let living = pods(snapshot).filter(|pod| {
        // Pods that one of the rules cannot mean need not be tried.
        let party = Party { who: Who::Pod(*pod), address: snapshot.pods()[*pod].addresses.first().copied() };
        let flow = Flow {
            source: party,
            destination: party,
            traffic: Traffic::new(Protocol::Tcp, 1),
            via: None,
        };
        let relative = |peers: &Peers| {
            matches!(peers, Peers::Of(peers) if peers.iter().any(|peer| matches!(peer, Peer::Pods(_))))
        };
        [x, y].iter().all(|rule| {
            relative(&rule.peers) || context.peers(&rule.peers, party, Endpoint::Pod(*pod), &flow)
        })
    });
    others.extend(living.take(MOST_PODS).map(|pod| (Who::Pod(pod), None)));
    others.extend((0..snapshot.nodes().len()).take(MOST_PODS).map(|node| (Who::Node(node), None)));
    if anybody {
        others.push((Who::Outside, Some(IpAddr::from([203, 0, 113, 1]))));
    }
    others
}

/// What may be carried: the edges of what the rules name.
fn traffics(context: &Context<'_>, x: &Rule, y: &Rule) -> Vec<Traffic> {
    let mut traffics = Vec::new();
    for matches in [&x.traffic, &y.traffic] {
        if let TrafficMatches::Of(matches) = matches {
            for one in matches.iter().take(MOST_PODS) {
                edges(context, one, None, &mut traffics);
            }
        }
    }
    if traffics.is_empty() {
        traffics.push(Traffic::new(Protocol::Tcp, 80));
    }
    traffics.sort_unstable();
    traffics.dedup();
    traffics
}

fn edges(context: &Context<'_>, one: &TrafficMatch, source_port: Option<u16>, traffics: &mut Vec<Traffic>) {
    let ports = |protocol, port| Traffic { source_port, ..Traffic::new(protocol, port) };
    match one {
        TrafficMatch::Ports(protocol, PortRange { first, .. }) => {
            traffics.push(ports(*protocol, if *first == 0 { 80 } else { *first }));
        }
        TrafficMatch::Named(protocol, name) => {
            let named = |port: &&palisade_model::cluster::ContainerPort| {
                port.name.as_deref() == Some(name) && protocol.is_none_or(|wanted| wanted == port.protocol)
            };
            let known = pods(context.snapshot).flat_map(|pod| &context.snapshot.pods()[pod].ports);
            traffics.extend(known.filter(named).take(4).map(|port| ports(port.protocol, port.number)));
        }
        TrafficMatch::From(range, of) => {
            edges(context, of, Some(range.first), traffics);
        }
        TrafficMatch::Icmp(kind, code) => {
            let icmp = kind.map(|kind| (kind, *code));
            traffics.push(Traffic { icmp, ..Traffic::new(Protocol::Icmp, 0) });
        }
        TrafficMatch::Igmp(kind, _) => {
            let icmp = kind.map(|kind| (kind, None));
            traffics.push(Traffic { icmp, ..Traffic::new(Protocol::Igmp, 0) });
        }
        TrafficMatch::Unknown(_) => {}
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conflict { flow, first, second } = self;
        write!(f, "their order decides {flow}: {} by {}, {} by {}", first.1, first.0, second.1, second.0)
    }
}
