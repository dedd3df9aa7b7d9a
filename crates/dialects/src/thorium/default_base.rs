//! The base policy that applies where none is given.

use palisade_model::address::Block;
use palisade_model::cluster::NAMESPACE_NAME_LABEL;
use palisade_model::traffic::{PortRange, Protocol};
use smol_str::SmolStr;

use super::policy::{Home, Meaning, Peer, Policy, Ports, Rule, Side, Sort, Who};

/// Its name.
pub const NAME: &str = "thorium-default";

/// Nothing in or out, except the Thorium API, and DNS over UDP to the addresses and pods that serve it.
///
/// The document prints it with the namespace `thorium` and says that it is about the Thorium API: it is the namespace
/// that Thorium runs in.
pub(super) fn default_base(namespace: &str) -> Policy {
    let api = || labels(namespace, "app", "api");
    let block = |text: &str| text.parse().ok().map(|net| Peer::Addresses(Block::new(net, [])));
    let mut dns: Vec<Peer> = ["169.254.0.0/16", "fe80::/10"].into_iter().filter_map(block).collect();
    dns.push(labels("kube-system", "k8s-app", "kube-dns"));
    dns.push(labels("kube-system", "k8s-app", "node-local-dns"));
    let udp = Ports { protocol: Protocol::Udp, range: PortRange::single(53) };
    let rules = |rules: Vec<Rule>| Side { rules: Some(rules), null: None };
    Policy {
        name: NAME.into(),
        sort: Sort::Base,
        groups: Vec::new(),
        ingress: rules(vec![rule(vec![api()], Vec::new())]),
        egress: rules(vec![rule(vec![api()], Vec::new()), rule(dns, vec![udp])]),
        forced: false,
        perhaps_forced: false,
        everywhere: false,
        default: false,
        unreadable: None,
        lost: false,
        refused: None,
        at: None,
    }
}

fn labels(namespace: &str, key: &str, value: &str) -> Peer {
    let pair = |key: &str, value: &str| -> Vec<(SmolStr, SmolStr)> { vec![(key.into(), value.into())] };
    Peer::Labels { namespaces: Home::Labels(pair(NAMESPACE_NAME_LABEL, namespace)), pods: pair(key, value) }
}

fn rule(peers: Vec<Peer>, ports: Vec<Ports>) -> Rule {
    let meaning = Meaning { who: Who::Of(peers), ports };
    Rule {
        document: meaning.clone(),
        program: meaning,
        unreadable: None,
        lost: false,
        groups: Vec::new(),
        at: None,
    }
}
