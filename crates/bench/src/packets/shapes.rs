//! Clusters whose node has 200 pods with 100,000 peers, in the ways that policies make programs large.

use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Value, json};

use super::cluster::{Cluster, Compiled, NODE, compiled};

/// A way to be large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// One namespace, four policies, each for a quarter of the peers: few sets, all large.
    FewSets,
    /// A hundred namespaces, each of which lets everybody in by a port: a hundred groups, one selector.
    Everybody,
    /// The same, and each lets its own pods in by another port as well: nobody's peers are anybody else's.
    EverybodyAndOwn,
    /// A policy for each pod of the node, each with peers of its own.
    Distinct,
    /// Fifty policies for each pod of the node, each with ten peers and a port of its own.
    ManyPolicies,
    /// A hundred namespaces that let the same 10,000 CIDRs in, by one port.
    Blocks,
    /// A hundred namespaces, each with a hundred CIDRs of its own, one policy and one port for each.
    OwnBlocks,
    /// The generated cluster: 10,000 pods, 10,000 policies.
    Generated,
}

/// Pods on the node.
pub const LOCAL: usize = 200;
/// Namespaces, where there are many.
const NAMESPACES: usize = 100;
/// Policies of each pod on the node, where there are many.
const POLICIES: usize = 50;
/// CIDRs.
const BLOCKS: usize = 10_000;

// === impl Shape ===

impl Shape {
    /// In words.
    pub fn title(self) -> &'static str {
        match self {
            Shape::FewSets => "4 policies, a quarter of the peers each",
            Shape::Everybody => "100 namespaces let everybody in",
            Shape::EverybodyAndOwn => "the same, own pods by one port more",
            Shape::Distinct => "200 policies, own peers each",
            Shape::ManyPolicies => "10,000 policies, own peers and port each",
            Shape::Blocks => "100 namespaces let the same 10,000 CIDRs in",
            Shape::OwnBlocks => "10,000 policies, a CIDR and a port each",
            Shape::Generated => "the generated cluster",
        }
    }

    /// How many peers there are, if this many are asked for.
    pub fn peers(self, asked: usize) -> usize {
        match self {
            // Its programs grow with groups × peers.
            Shape::EverybodyAndOwn => asked / 10,
            Shape::Blocks | Shape::OwnBlocks => BLOCKS,
            Shape::Generated => 10_000,
            _ => asked,
        }
    }

    /// The program of the node, for so many peers.
    pub fn compiled(self, peers: usize) -> std::io::Result<Compiled> {
        if self == Shape::Generated {
            return Ok(Cluster::new()?.compiled(10_000, false));
        }
        let spread = if self == Shape::FewSets { 1 } else { NAMESPACES };
        let mut objects: Vec<Value> = (0..spread).map(namespace).collect();
        objects.extend((0..LOCAL).map(|at| pod(at, at % spread, true)));
        if !matches!(self, Shape::Blocks | Shape::OwnBlocks) {
            objects.extend((0..peers).map(|at| pod(at, at % spread, false)));
        }
        self.policies(spread, &mut objects);
        Ok(compiled(&objects))
    }

    fn policies(self, spread: usize, objects: &mut Vec<Value>) {
        let everybody = || json!({"namespaceSelector": {}});
        let group = |size: usize, at: usize| json!({"namespaceSelector": {}, "podSelector": {"matchLabels": {(format!("by-{size}")): at.to_string()}}});
        let local = |at: usize| json!({"matchLabels": {"app": format!("local-{at}")}});
        let all = json!({});
        let mut add = |namespace: usize, number: usize, pods: &Value, ingress: &[Value]| {
            objects.push(policy(namespace, number, pods, ingress));
        };
        match self {
            Shape::FewSets => {
                (0..4).for_each(|part| add(0, part, &all, &[rule(&[group(4, part)], 8000 + part)]));
            }
            Shape::Everybody => {
                (0..spread).for_each(|at| add(at, 0, &all, &[rule(&[everybody()], 8080)]));
            }
            Shape::EverybodyAndOwn => {
                let own = rule(&[json!({"podSelector": {}})], 9090);
                let rules = [rule(&[everybody()], 8080), own];
                (0..spread).for_each(|at| add(at, 0, &all, &rules));
            }
            Shape::Distinct => {
                (0..LOCAL)
                    .for_each(|at| add(at % spread, at, &local(at), &[rule(&[group(LOCAL, at)], 8080)]));
            }
            Shape::ManyPolicies => {
                let many = LOCAL * POLICIES;
                for at in 0..many {
                    let (pod, number) = (at % LOCAL, at / LOCAL);
                    add(pod % spread, at, &local(pod), &[rule(&[group(many, at)], 8000 + number)]);
                }
            }
            Shape::Blocks => {
                let blocks: Vec<Value> = (0..BLOCKS).map(block).collect();
                let rules = [rule(&blocks, 443)];
                (0..spread).for_each(|at| add(at, 0, &all, &rules));
            }
            Shape::OwnBlocks => {
                for at in 0..BLOCKS {
                    add(at % spread, at, &all, &[rule(&[block(at)], 8000 + at / spread)]);
                }
            }
            Shape::Generated => {}
        }
    }
}

fn namespace_name(at: usize) -> String {
    format!("ns-{at:03}")
}

fn namespace(at: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace_name(at)}})
}

/// A pod of the node, or one elsewhere that is a peer: it is in a group of each size that some shape selects by.
fn pod(at: usize, namespace: usize, local: bool) -> Value {
    let (name, node, network) = match local {
        true => (format!("local-{at}"), NODE.to_owned(), 10 << 24),
        false => (format!("peer-{at}"), format!("worker-{:03}", 1 + at % 500), (10 << 24) + (64 << 16)),
    };
    let mut labels = json!({"app": name});
    if !local {
        for size in [4, LOCAL, LOCAL * POLICIES] {
            labels[format!("by-{size}")] = (at % size).to_string().into();
        }
    }
    let address = u32::try_from(at).map_or(network, |at| network + at);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": labels, "name": name, "namespace": namespace_name(namespace)},
        "spec": {"containers": [{"image": "example.com/app", "name": "app"}], "nodeName": node},
        "status": {"phase": "Running", "podIP": std::net::Ipv4Addr::from(address).to_string()},
    })
}

/// Every second /24 from 11.0.0.0 on: none touches another.
fn block(at: usize) -> Value {
    let address = u32::try_from(at).map_or(0, |at| (11 << 24) + (at << 9));
    json!({"ipBlock": {"cidr": format!("{}/24", std::net::Ipv4Addr::from(address))}})
}

fn rule(from: &[Value], port: usize) -> Value {
    json!({"from": from, "ports": [{"port": port, "protocol": "TCP"}]})
}

fn policy(namespace: usize, number: usize, pods: &Value, ingress: &[Value]) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": format!("policy-{number}"), "namespace": namespace_name(namespace)},
        "spec": {"ingress": ingress, "podSelector": pods, "policyTypes": ["Ingress"]},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chains, sets and elements.
    fn size(shape: Shape, peers: usize) -> (usize, usize, usize) {
        let program = shape.compiled(peers).unwrap().program;
        let elements = program.sets.values().map(|set| set.elements.len()).sum();
        (program.chains.len(), program.sets.len(), elements)
    }

    #[test]
    fn every_peer_is_an_element_and_every_pod_of_the_node_is_dispatched() {
        for shape in [Shape::FewSets, Shape::Everybody, Shape::Distinct] {
            let (.., elements) = size(shape, 2000);
            assert!((LOCAL + 2000..LOCAL + 3000).contains(&elements), "{shape:?}: {elements}");
        }
    }
}
