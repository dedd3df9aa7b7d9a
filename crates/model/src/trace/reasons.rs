//! Why a rule does not match, in words: looked for only after the evaluator has said that it does not.

use super::{Cause, StepResult};
use crate::address::{Block, Family, NotInBlock};
use crate::cluster::Service;
use crate::evaluate::matching::Judge;
use crate::flow::{Flow, Party, Who};
use crate::matching::Endpoint;
use crate::policy::{Peer, Peers, PodSet, Rule, ServiceName, TrafficMatch, TrafficMatches};
use crate::traffic::PortRange;

impl Judge<'_> {
    /// Why a rule does not match a connection, or what in it cannot be read.
    pub(crate) fn reason(&self, rule: &Rule, subject: Endpoint, peer: Party, flow: &Flow) -> StepResult {
        if let Some(what) = self.unknown(rule) {
            return StepResult::FailedClosed { why: what.into_owned() };
        }
        if !self.peers(&rule.peers, peer, subject, flow) {
            let (cause, why) = self.why_not_peer(&rule.peers, peer, subject);
            return StepResult::NotMatched { cause, why, only: self.traffics(&rule.traffic, flow) };
        }
        if !self.traffics(&rule.traffic, flow) {
            let (cause, why) = self.why_not_traffic(&rule.traffic, flow);
            return StepResult::NotMatched { cause, why, only: true };
        }
        StepResult::Matched
    }

    fn why_not_peer(&self, peers: &Peers, party: Party, subject: Endpoint) -> (Cause, String) {
        let peers = match peers {
            Peers::Any => &[],
            Peers::Of(peers) => peers.as_slice(),
        };
        let who = self.context.snapshot.describe(party);
        match peers {
            [] => (Cause::Peer, "its list of peers is empty, so it matches nobody".to_owned()),
            [only] => self.why_not_one_peer(only, party, subject),
            several => {
                let blocks = several.iter().filter(|peer| matches!(peer, Peer::Addresses(_)));
                let other_family =
                    |peer: &Peer| self.why_not_one_peer(peer, party, subject).0 == Cause::Family;
                let cause = if several.len() == blocks.count() && several.iter().all(other_family) {
                    Cause::Family
                } else {
                    Cause::Peer
                };
                (cause, format!("{who} is none of {}", listed(several, "peers")))
            }
        }
    }

    fn why_not_one_peer(&self, peer: &Peer, party: Party, subject: Endpoint) -> (Cause, String) {
        let who = self.context.snapshot.describe(party);
        let reason = match (peer, party.who) {
            (Peer::Addresses(block), _) => return self.why_not_block(block, party, &who),
            (Peer::Pods(_), Who::Outside) => format!("{who} is outside the cluster, not {peer}"),
            (Peer::Pods(_), Who::Node(_)) => format!("{who} is not among {peer}"),
            (Peer::Pods(_), Who::Pod(pod)) if self.context.snapshot.pods()[pod].host_network => {
                format!("{who} is in its node's network, where no pod selector finds it")
            }
            (Peer::Pods(set), Who::Pod(pod)) => {
                let labels = &self.context.snapshot.pods()[pod].labels;
                let in_namespace = PodSet { pods: Default::default(), ..set.clone() };
                if self.context.holds(&in_namespace, pod, subject)
                    && let Some(unmet) = set.pods.unmet(labels)
                {
                    let has = match labels.get(&unmet.key) {
                        Some(value) => format!("its {} is {value}", unmet.key),
                        None => format!("it has no label {}", unmet.key),
                    };
                    format!("{who} is not among {set}: {has}")
                } else {
                    format!("{who} is not among {set}")
                }
            }
            (Peer::Nodes(_), Who::Node(_)) => format!("{who} is not among {peer}"),
            (Peer::Nodes(_), _) => format!("{who} is no node"),
            (Peer::Names(_), _) => {
                format!("{who} is not known to be {peer}")
            }
            (Peer::Service(name), _) if self.has_no_address(name) => {
                format!("{peer} has no cluster address: no connection goes through it")
            }
            (Peer::Service(_), _) => format!("the connection does not go through {peer}"),
            (Peer::Group(group), _) if !self.context.snapshot.has_group(group) => {
                format!("{peer} does not exist, so it has no members")
            }
            (Peer::Group(_), _) => format!("{who} is not in {peer}"),
            (Peer::Unknown(what), _) => format!("unknown peer: {what}"),
        };
        (Cause::Peer, reason)
    }

    /// Whether there is such a Service, and it has no cluster address.
    fn has_no_address(&self, name: &ServiceName) -> bool {
        let named = |service: &&Service| service.namespace == name.namespace && service.name == name.name;
        self.context
            .snapshot
            .services()
            .iter()
            .find(named)
            .is_some_and(|service| !service.has_cluster_address())
    }

    fn why_not_block(&self, block: &Block, party: Party, who: &str) -> (Cause, String) {
        let Some(address) = party.address else {
            return (Cause::Peer, format!("{who} has no address yet, so no block holds it"));
        };
        if self.context.is_pod(party) && !self.context.options.ip_block_matches_pods {
            return (
                Cause::Peer,
                format!("{who} is a pod, and blocks are for the outside (ipBlockMatchesPods: false)"),
            );
        }
        match block.misses(address) {
            Some(NotInBlock::Family) => {
                let (own, other) = (Family::of(address), block.family());
                (Cause::Family, format!("{address} is {own}, {} is {other}", block.cidr()))
            }
            Some(NotInBlock::Excepted(net)) => {
                (Cause::Peer, format!("{address} is excepted: {} except {net}", block.cidr()))
            }
            _ => (Cause::Peer, format!("{address} is not in {block}")),
        }
    }

    fn why_not_traffic(&self, matches: &TrafficMatches, flow: &Flow) -> (Cause, String) {
        let matches: &[TrafficMatch] = match matches {
            TrafficMatches::Any => &[],
            TrafficMatches::Of(matches) => matches,
        };
        let traffic = flow.traffic;
        let same_protocol = |one: &TrafficMatch| one.is_about(traffic.protocol);
        let cause = if matches.iter().any(same_protocol) { Cause::Port } else { Cause::Protocol };
        let named = matches.iter().find_map(|one| match one {
            TrafficMatch::Named(_, name) if matches.len() == 1 && same_protocol(one) => Some(name),
            _ => None,
        });
        let why = match named {
            Some(name) => {
                let pod = self.context.snapshot.describe(flow.destination);
                match self.context.named_port(flow.destination, name, traffic.protocol) {
                    Some(number) => {
                        format!("port {name} of {pod} is {}/{number}, not {traffic}", traffic.protocol)
                    }
                    None => format!("{pod} has no {} port named {name}", traffic.protocol),
                }
            }
            None if matches.is_empty() => "its list of ports is empty, so it matches no traffic".to_owned(),
            None if matches.iter().any(same_protocol)
                && needs_a_source_port(matches, traffic.source_port) =>
            {
                let all = PortRange::EPHEMERAL;
                format!(
                    "{traffic} may come from any port of {all}, and the rule is for {}",
                    listed(matches, "ports")
                )
            }
            None if matches.len() == 1 => format!("{traffic} is not {}", in_words(&matches[0])),
            None => format!("{traffic} is none of {}", listed(matches, "ports")),
        };
        (cause, why)
    }
}

/// Whether the question would have to name a source port to be answered by these.
fn needs_a_source_port(matches: &[TrafficMatch], given: Option<u16>) -> bool {
    given.is_none() && matches.iter().all(|one| matches!(one, TrafficMatch::From(..)))
}

fn in_words(one: &TrafficMatch) -> String {
    match one {
        TrafficMatch::Ports(_, range) if *range != PortRange::ALL && range.first != range.last => {
            format!("in {one}")
        }
        other => other.to_string(),
    }
}

/// Up to four of them, then how many more.
fn listed<T: std::fmt::Display>(all: &[T], what: &str) -> String {
    let shown: Vec<String> = all.iter().take(4).map(ToString::to_string).collect();
    let more = all.len() - shown.len();
    if more == 0 { shown.join("; ") } else { format!("{} and {more} more {what}", shown.join("; ")) }
}
