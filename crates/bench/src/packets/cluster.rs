//! The cluster whose rules packets meet: the large generated world, with as many of its policies as are asked for, and two pods that
//! talk.
//!
//! The pods are the same at every number of policies, 200 of them on the node in question, of all namespaces, so that
//! hardly two have the same rules. The policies of the namespace where the packets go come first: at ten there are ten that
//! matter, at ten thousand there are a hundred that do and all the others.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use palisade_engine::Engine;
use palisade_engine::view::View;
use palisade_model::snapshot::Snapshot;
use palisade_nftables::compile::compile;
use palisade_nftables::program::Program;
use serde_json::{Value, json};

use crate::generate::{self, Size};
use crate::measure::{self, cpu_time};
use crate::text::Format;

/// The node in question.
pub const NODE: &str = "worker-000";
/// The namespace where the packets go.
const NAMESPACE: usize = 1;
/// The port they go to, UDP and TCP.
pub const PORT: u16 = 7000;
/// One that no policy opens.
pub const CLOSED: u16 = 7001;
/// iperf3's own.
pub const STREAM: u16 = 5201;
/// How many policies are needed for the packets themselves.
const OWN: usize = 2;

/// Who talks: a client to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// From here.
    pub client: Ipv4Addr,
    /// To here.
    pub server: Ipv4Addr,
}

/// The cluster, without a decision on how many policies it has.
#[derive(Debug)]
pub struct Cluster {
    /// Namespaces, nodes and pods.
    objects: Vec<Value>,
    /// Policies, those of the packets' namespace first.
    policies: Vec<Value>,
    /// Where the packets go, and the applications that send and get them.
    place: [String; 3],
    /// From a pod on another node, to a pod on this one.
    pub far: Ends,
    /// From a pod on this node, to the same.
    pub near: Ends,
}

/// What a node has to do, and how it does it.
#[derive(Debug)]
pub struct Compiled {
    /// The node's part of the view.
    pub part: View,
    /// The program.
    pub program: Program,
    /// How long the part took, on the CPU.
    pub part_took: Duration,
    /// How long compiling took, on the CPU.
    pub compile_took: Duration,
}

/// What a policy of NetworkPolicy's kind is called.
const NETWORK_POLICY: &str = "NetworkPolicy";

// === impl Cluster ===

impl Cluster {
    /// The large world, spread over nodes so that each has pods of all namespaces.
    pub fn new() -> io::Result<Cluster> {
        let size = Size::LARGE;
        let (mut policies, mut objects): (Vec<Value>, Vec<Value>) =
            generate::world(size).into_iter().partition(|object| object["kind"] == NETWORK_POLICY);
        let pods = objects.iter_mut().filter(|object| object["kind"] == "Pod");
        for (index, pod) in pods.enumerate() {
            let node = (index % size.namespaces + index / size.namespaces) % size.nodes;
            pod["spec"]["nodeName"] = format!("worker-{node:03}").into();
        }
        let name = objects.get(NAMESPACE).and_then(|namespace| text(namespace, "/metadata/name"));
        let name = name.ok_or_else(|| missing("a namespace"))?.to_owned();
        policies.sort_by_key(|policy| text(policy, "/metadata/namespace") != Some(&name));
        let in_it = objects.iter().filter(|object| text(object, "/metadata/namespace") == Some(&name));
        let (near, far): (Vec<&Value>, Vec<&Value>) =
            in_it.partition(|pod| text(pod, "/spec/nodeName") == Some(NODE));
        let server = near.first().ok_or_else(|| missing("a server"))?;
        let client = near.iter().find(|pod| app(pod) != app(server)).ok_or_else(|| missing("a client"))?;
        let twin = far.iter().find(|pod| app(pod) == app(client)).ok_or_else(|| missing("a client"))?;
        let to = address(server)?;
        let (far, near) =
            (Ends { client: address(twin)?, server: to }, Ends { client: address(client)?, server: to });
        let place = [name, app(client).to_owned(), app(server).to_owned()];
        Ok(Cluster { objects, policies, place, far, near })
    }

    /// The program of the node with so many policies, of which two are about the packets themselves. These may name a range of
    /// ports too, which the kernel keeps in another way.
    pub fn compiled(&self, policies: usize, range: bool) -> Compiled {
        let policies = self.policies.iter().take(policies.saturating_sub(OWN));
        let mut objects: Vec<Value> = self.objects.iter().chain(policies).cloned().collect();
        objects.extend(own_policies(&self.place, range));
        compiled(&objects)
    }
}

/// From objects to the program of the node.
pub fn compiled(objects: &[Value]) -> Compiled {
    let objects = measure::world(&measure::source(Format::Json, objects)).0.into_objects();
    let engine = Engine::of(&objects, &Snapshot::new(objects.clone()));
    let view = engine.view();
    let begun = cpu_time();
    let part = view.part_of(NODE);
    let between = cpu_time();
    let program = compile(&part, NODE).program;
    let (part_took, compile_took) = (between.saturating_sub(begun), cpu_time().saturating_sub(between));
    Compiled { part, program, part_took, compile_took }
}

/// The client may reach the server and the server lets it, by the same ports.
fn own_policies([namespace, client, server]: &[String; 3], range: bool) -> [Value; OWN] {
    let app = |app: &str| json!({"matchLabels": {"app": app}});
    let mut ports = vec![
        json!({"port": PORT, "protocol": "UDP"}),
        json!({"port": PORT, "protocol": "TCP"}),
        json!({"port": STREAM, "protocol": "TCP"}),
    ];
    if range {
        ports.push(json!({"port": 20_000, "endPort": 20_100, "protocol": "UDP"}));
    }
    let policy = |name: &str, spec: Value| {
        let metadata = json!({"name": name, "namespace": namespace});
        json!({"apiVersion": "networking.k8s.io/v1", "kind": NETWORK_POLICY, "metadata": metadata, "spec": spec})
    };
    let ingress = json!([{"from": [{"podSelector": app(client)}], "ports": ports}]);
    let egress = json!([{"to": [{"podSelector": app(server)}], "ports": ports}]);
    [
        policy("server", json!({"podSelector": app(server), "ingress": ingress, "policyTypes": ["Ingress"]})),
        policy("client", json!({"podSelector": app(client), "egress": egress, "policyTypes": ["Egress"]})),
    ]
}

fn text<'v>(object: &'v Value, at: &str) -> Option<&'v str> {
    object.pointer(at).and_then(Value::as_str)
}

fn app(pod: &Value) -> &str {
    text(pod, "/metadata/labels/app").unwrap_or_default()
}

fn address(pod: &Value) -> io::Result<Ipv4Addr> {
    let found = text(pod, "/status/podIP").and_then(|text| text.parse().ok());
    found.ok_or_else(|| missing("an address"))
}

fn missing(what: &str) -> io::Error {
    io::Error::other(format!("the generated world has not {what} where there should be one"))
}

#[cfg(test)]
mod tests {
    use palisade_nftables::program::{Hook, Match, UDP, Verdict};
    use palisade_nftables::walk::Packet;

    use super::*;
    use crate::packets::naive;

    #[test]
    fn the_packets_are_decided_by_the_program_and_the_closed_port_is_closed() {
        let cluster = Cluster::new().unwrap();
        let compiled = cluster.compiled(10, false);
        for (ends, counters) in [(cluster.far, 1), (cluster.near, 2)] {
            for (port, expected) in [(PORT, Verdict::Accept), (CLOSED, Verdict::Drop)] {
                let packet = Packet {
                    source: ends.client.into(),
                    destination: ends.server.into(),
                    original: ends.server.into(),
                    protocol: UDP,
                    ports: Some((40000, port)),
                    icmp: None,
                    established: false,
                    syn: false,
                    loopback: false,
                    interface: None,
                };
                let walked = compiled.program.walk(Hook::Forward, &packet).unwrap();
                assert_eq!(walked.verdict, expected, "{ends:?} {port}");
                if expected == Verdict::Accept {
                    assert_eq!(walked.counters.len(), counters, "{ends:?}");
                }
            }
        }
        let ranges = |program: &Program| {
            let rules = program.chains.values().flat_map(|chain| &chain.rules);
            rules.flat_map(|rule| &rule.matches).filter(|asked| matches!(asked, Match::Between(..))).count()
        };
        assert!(ranges(&cluster.compiled(10, true).program) > ranges(&compiled.program));
        let naive = naive::program(&compiled.part, cluster.far);
        assert!(naive.rules > 10 && naive.before < naive.rules, "{naive:?}");
        assert_eq!(naive.text.matches("counter name").count(), 1, "the packets' own rule is counted");
    }
}
