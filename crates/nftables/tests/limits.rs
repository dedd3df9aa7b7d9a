//! Programs that would take too much work: whatever the limit, nothing passes that all of the rules would not let through, and
//! what is denied for it is named.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod packets;
#[path = "../../engine/tests/written/mod.rs"]
mod written;

use std::fmt::Write;

use palisade_nftables::compile::compile;
use palisade_nftables::compile::{Compiler, Wiring};
use palisade_nftables::program::{Hook, Program, Verdict};

use packets::tcp;
use written::Followed;

const PODS: usize = 6;

/// Pods with a label each on one node, and a Service.
fn cluster() -> String {
    let mut text = String::from(
        "{apiVersion: v1, kind: Namespace, metadata: {name: x}}\n---\n{apiVersion: v1, kind: Service, metadata: {name: s, \
         namespace: x}, spec: {clusterIP: 10.96.0.1, selector: {a: p0}, ports: [{port: 80}]}}\n",
    );
    for at in 0..PODS {
        let _ = write!(
            text,
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: p{at}, namespace: x, labels: {{a: p{at}}}}}, spec: {{nodeName: \
             node1}}, status: {{podIP: 10.0.0.{}}}}}\n",
            at + 1
        );
    }
    text
}

/// Policies for all pods but one each, about all pods but another, and blocks with exceptions; and tiers with Pass, and a
/// Service.
fn policies(count: usize) -> String {
    let but =
        |at: usize| format!("{{matchExpressions: [{{key: a, operator: NotIn, values: [p{}]}}]}}", at % PODS);
    let mut text = String::new();
    for at in 0..count {
        let _ = write!(
            text,
            "---\n{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: n{at}, namespace: x}}, spec: \
             {{podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{{from: [{{podSelector: {}}}, {{ipBlock: {{cidr: \
             203.0.113.0/24, except: [203.0.113.{}/32]}}}}], ports: [{{port: {}, endPort: {}}}]}}], egress: [{{to: \
             [{{podSelector: {}}}], ports: [{{port: {}}}]}}]}}}}\n---\n{{apiVersion: crd.antrea.io/v1beta1, kind: \
             ClusterNetworkPolicy, metadata: {{name: c{at}}}, spec: {{priority: {}, appliedTo: [{{podSelector: {}}}], ingress: \
             [{{action: {}, from: [{{ipBlock: {{cidr: 203.0.113.{}/32}}}}], ports: [{{protocol: TCP, port: {}}}]}}], egress: \
             [{{action: Allow, toServices: [{{name: s, namespace: x}}]}}]}}}}\n",
            but(at),
            but(at * 3 + 1),
            at + 1,
            80 + at,
            82 + at * 2,
            but(at + 2),
            80 + at,
            at + 1,
            but(at * 5 + 2),
            ["Drop", "Pass", "Allow"][at % 3],
            at + 2,
            80 + at
        );
    }
    text
}

/// What passes of packets between all pods, and from some addresses outside.
fn passing(program: &Program) -> Vec<bool> {
    let pods: Vec<String> = (1..=PODS).map(|at| format!("10.0.0.{at}")).collect();
    let outside = (0..12).map(|at| format!("203.0.113.{at}"));
    let mut passing = Vec::new();
    for source in pods.iter().cloned().chain(outside) {
        for destination in pods.iter().filter(|pod| **pod != source) {
            for port in [79, 80, 81, 85, 90, 100] {
                for original in [destination.as_str(), "10.96.0.1"] {
                    let mut packet = tcp(&source, destination, port);
                    packet.original = original.parse().unwrap();
                    let walked = program.walk(Hook::Forward, &packet).unwrap();
                    passing.push(walked.verdict == Verdict::Accept);
                }
            }
        }
    }
    passing
}

#[test]
fn nothing_passes_for_want_of_work_and_what_is_denied_is_named() {
    let view = written::part(&format!("{}{}", cluster(), policies(8)), "node1");
    let whole = compile(&view, "node1");
    let all = passing(&whole.program);
    assert!(all.contains(&true) && all.contains(&false) && whole.lacks.is_empty(), "{:?}", whole.lacks);
    let (mut complete, mut partial, mut none) = (0, 0, 0);
    let mut limit = 400_000_000_u64;
    while limit > 0 {
        let live = Compiler::limited(view.clone(), "node1", Wiring::new(), limit);
        if *live.program() == whole.program {
            assert!(live.lacks().is_empty(), "with {limit} steps: {:?}", live.lacks());
            complete += 1;
        } else {
            let denied = live.lacks().iter().any(|lack| lack.contains("denied in"));
            assert!(denied, "with {limit} steps: {:?}", live.lacks());
            let own = passing(live.program());
            let opened = own.iter().zip(&all).filter(|(own, all)| **own && !**all).count();
            assert_eq!(opened, 0, "with {limit} steps");
            match own.contains(&true) {
                true => partial += 1,
                false => none += 1,
            }
        }
        limit -= limit / 12 + 1;
    }
    assert!(complete > 5 && partial > 5 && none > 5, "{complete} {partial} {none}");
}

/// What was denied for want of work is made up for when policies go.
#[test]
fn room_that_policies_leave_is_used() {
    let small = format!("{}{}", cluster(), policies(2));
    let large = format!("{}{}", cluster(), policies(40));
    let limit = {
        // Enough for the small ones, and not for all.
        let enough = |text: &str, limit: u64| {
            Compiler::limited(written::part(text, "node1"), "node1", Wiring::new(), limit).lacks().is_empty()
        };
        let mut limit = 1_000_000;
        while !enough(&small, limit) {
            limit *= 2;
        }
        assert!(!enough(&large, limit), "{limit}");
        limit
    };
    let mut source = Followed::default();
    let mut live = Compiler::limited(palisade_engine::view::View::default(), "node1", Wiring::new(), limit);
    for text in [&large, &small, &large, &small] {
        live.follow(&source.take(text, "node1")).unwrap();
        assert_eq!(live.lacks().is_empty(), *text == small, "{:?}", live.lacks());
    }
    live.tidy();
    assert_eq!(*live.program(), compile(live.view(), "node1").program);
}
