//! What a packet costs does not grow with the number of policies, pods and peers: rules looked at, and lookups in sets.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod packets;
#[path = "../../engine/tests/written/mod.rs"]
mod written;

use std::fmt::Write;

use palisade_nftables::compile::compile;
use palisade_nftables::program::{Hook, Verdict};

use packets::tcp;

/// One server, and so many clients, each with a policy of its own that lets it reach another port.
fn world(clients: usize) -> String {
    let mut text = String::from("{apiVersion: v1, kind: Namespace, metadata: {name: x}}\n");
    let mut pod = |name: &str, app: &str, address: &str| {
        let _ = writeln!(
            text,
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: x, labels: {{app: {app}}}}}, \
             spec: {{nodeName: node1, containers: [{{name: c}}]}}, status: {{podIP: {address}}}}}"
        );
    };
    pod("server", "server", "10.0.0.1");
    for at in 0..clients {
        pod(&format!("c{at}"), &format!("c{at}"), &format!("10.1.{}.{}", at / 250, at % 250 + 1));
    }
    for at in 0..clients {
        let _ = writeln!(
            text,
            "---\n{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: p{at}, namespace: x}}, spec: \
             {{podSelector: {{matchLabels: {{app: server}}}}, ingress: [{{from: [{{podSelector: {{matchLabels: {{app: \
             c{at}}}}}}}], ports: [{{port: {}}}]}}]}}}}",
            1000 + at
        );
    }
    text
}

/// The most rules and lookups that a packet to the server takes, from some of the clients and from a stranger.
fn cost(clients: usize) -> (usize, usize) {
    let program = compile(&written::part(&world(clients), "node1"), "node1").program;
    let mut most = (0, 0);
    let last = clients - 1;
    for (at, port, expected) in [
        (0, 1000, Verdict::Accept),
        (last, 1000 + last, Verdict::Accept),
        (last, 999, Verdict::Drop),
        (clients, 1000, Verdict::Drop),
    ] {
        let source = format!("10.1.{}.{}", at / 250, at % 250 + 1);
        let packet = tcp(&source, "10.0.0.1", u16::try_from(port).unwrap());
        let walked = program.walk(Hook::Forward, &packet).unwrap();
        assert_eq!(walked.verdict, expected, "client {at} of {clients} to port {port}");
        assert_eq!(walked.counters.len(), 1, "whoever decided has counted it");
        most = (most.0.max(walked.cost.0), most.1.max(walked.cost.1));
    }
    most
}

#[test]
fn a_packet_costs_the_same_however_many_policies_there_are() {
    let few = cost(10);
    assert_eq!(few, cost(1000));
    assert!(few.0 <= 12 && few.1 <= 8, "{few:?}");
}
