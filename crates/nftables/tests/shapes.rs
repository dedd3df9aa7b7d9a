//! What programs have that random worlds do not reach: IGMP by type and group, forged sources, logging; and how peers are
//! shared.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod packets;
#[path = "../../engine/tests/written/mod.rs"]
mod written;

use std::collections::BTreeSet;
use std::fmt::Write;

use palisade_engine::view::View;
use palisade_nftables::compile::{Compiler, Wiring};
use palisade_nftables::compile::{FORGED, compile};
use palisade_nftables::program::{Hook, ICMP6, IGMP, Interface, Program, Verdict};
use palisade_nftables::walk::Packet;

use packets::tcp;
use written::Followed;

fn view(text: &str) -> View {
    written::part(text, "node1")
}

fn program(text: &str) -> Program {
    compile(&view(text), "node1").program
}

fn pod(name: &str, address: &str, node: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: x, labels: {{app: {name}}}}}, spec: \
         {{nodeName: {node}, containers: [{{name: c}}]}}, status: {{podIP: {address}}}}}\n"
    )
}

#[test]
fn igmp_is_told_apart_by_type_and_group() {
    let program = program(&format!(
        "{{apiVersion: v1, kind: Namespace, metadata: {{name: x}}}}\n{}---\n{{apiVersion: crd.antrea.io/v1beta1, kind: \
         ClusterNetworkPolicy, metadata: {{name: igmp}}, spec: {{priority: 1, appliedTo: [{{namespaceSelector: {{}}}}], egress: [\
         {{action: Allow, protocols: [{{igmp: {{igmpType: 0x16, groupAddress: 225.1.2.3}}}}]}}, \
         {{action: Drop, protocols: [{{igmp: {{igmpType: 0x16}}}}]}}]}}}}\n",
        pod("a", "10.0.0.1", "node1")
    ));
    let said = |kind: u8, destination: &str| {
        let packet =
            Packet { protocol: IGMP, ports: None, icmp: Some((kind, 0)), ..tcp("10.0.0.1", destination, 0) };
        program.walk(Hook::Forward, &packet).unwrap().verdict
    };
    assert_eq!(said(0x16, "225.1.2.3"), Verdict::Accept);
    assert_eq!(said(0x16, "225.1.2.4"), Verdict::Drop);
    assert_eq!(said(0x11, "225.1.2.4"), Verdict::Accept);
    // To somebody it may be about any group.
    assert_eq!(said(0x16, "10.0.0.2"), Verdict::Accept);
}

#[test]
fn what_comes_by_a_pods_interface_with_another_address_is_forged() {
    let text = format!(
        "{{apiVersion: v1, kind: Namespace, metadata: {{name: x}}}}\n{}",
        pod("a", "10.0.0.1", "node1")
    );
    let wire = Interface::new("veth-a").unwrap();
    let wiring: Wiring = [(wire, BTreeSet::from(["10.0.0.1".parse().unwrap()]))].into();
    let mut live = Compiler::new(view(&text), "node1", wiring);
    let said =
        |program: &Program, hook: Hook, source: &str, interface: Option<Interface>, established: bool| {
            let packet = Packet { interface, established, ..tcp(source, "10.9.9.9", 80) };
            let walked = program.walk(hook, &packet).unwrap();
            (walked.verdict, walked.counters.iter().any(|counter| counter == FORGED))
        };
    let (passes, forged) = ((Verdict::Accept, false), (Verdict::Drop, true));
    for hook in [Hook::Forward, Hook::Input] {
        for established in [false, true] {
            let said =
                |source: &str, wire: Option<Interface>| said(live.program(), hook, source, wire, established);
            assert_eq!(said("10.0.0.1", Some(wire)), passes);
            assert_eq!(said("10.0.0.2", Some(wire)), forged);
            assert_eq!(said("10.0.0.2", None), passes);
            assert_eq!(said("10.0.0.2", Interface::new("eth0")), passes);
        }
    }
    // Another address comes by it now, and then nothing is known any more.
    let patch = live.rewire([(wire, BTreeSet::from(["10.0.0.2".parse().unwrap()]))].into()).patch;
    assert!(patch.is_elements_only() && patch.moves() == 2, "{patch:?}");
    assert_eq!(said(live.program(), Hook::Forward, "10.0.0.1", Some(wire), false), forged);
    live.rewire(Wiring::new());
    assert_eq!(said(live.program(), Hook::Forward, "10.0.0.1", Some(wire), false), passes);
    assert_eq!(*live.program(), compile(live.view(), "node1").program);
}

/// Before it has an address a pod asks its neighbours, from no address or one of its link; anything else by such an address is forged.
#[test]
fn neighbour_discovery_is_never_forged_nor_denied() {
    let text = format!(
        "{{apiVersion: v1, kind: Namespace, metadata: {{name: x}}}}\n{}---\n{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, \
         metadata: {{name: shut, namespace: x}}, spec: {{podSelector: {{}}, policyTypes: [Ingress, Egress]}}}}\n",
        pod("a", "'fd00::1'", "node1")
    );
    let wire = Interface::new("veth-a").unwrap();
    for wiring in [Wiring::new(), [(wire, BTreeSet::from(["fd00::1".parse().unwrap()]))].into()] {
        let wired = !wiring.is_empty();
        let live = Compiler::new(view(&text), "node1", wiring);
        let said = |hook: Hook, source: &str, destination: &str, kind: u8| {
            let icmp =
                Packet { protocol: ICMP6, ports: None, icmp: Some((kind, 0)), ..tcp(source, destination, 0) };
            live.program().walk(hook, &Packet { interface: Some(wire), ..icmp }).unwrap().verdict
        };
        for kind in 133..=137 {
            for source in ["::", "fe80::1", "fd00::1"] {
                assert_eq!(said(Hook::Input, source, "ff02::1", kind), Verdict::Accept, "{kind} {source}");
            }
            assert_eq!(said(Hook::Output, "fe80::9", "fd00::1", kind), Verdict::Accept, "{kind}");
        }
        let forged = if wired { Verdict::Drop } else { Verdict::Accept };
        for kind in [128, 132, 138] {
            assert_eq!(said(Hook::Input, "fe80::1", "ff02::1", kind), forged, "{kind}");
            assert_eq!(said(Hook::Input, "fd00::1", "fd00::9", kind), Verdict::Drop, "{kind}");
        }
        // A connection that is known goes on, by whichever interface.
        let known = Packet { established: true, interface: Some(wire), ..tcp("fd00::1", "fd00::9", 80) };
        for hook in [Hook::Forward, Hook::Input] {
            assert_eq!(live.program().walk(hook, &known).unwrap().verdict, Verdict::Accept);
        }
        // Whoever is further away than a neighbour cannot send it: a router counts down from 255.
        let text = live.program().to_string();
        let accepted = text.matches("ip6 hoplimit 255 icmpv6 type 133-137 accept").count();
        assert_eq!((accepted, text.matches("icmpv6 type 133-137").count()), (3, 3), "{text}");
    }
}

#[test]
fn rules_that_want_it_are_logged() {
    let text = format!(
        "{{apiVersion: v1, kind: Namespace, metadata: {{name: x}}}}\n{}---\n{{apiVersion: crd.antrea.io/v1beta1, kind: \
         ClusterNetworkPolicy, metadata: {{name: told}}, spec: {{priority: 1, appliedTo: [{{namespaceSelector: {{}}}}], ingress: [\
         {{action: Drop, enableLogging: true, logLabel: shut, ports: [{{protocol: TCP, port: 80}}]}}, {{action: Drop}}]}}}}\n",
        pod("a", "10.0.0.1", "node1")
    );
    let program = program(&text);
    let logged: Vec<_> = program
        .chains
        .values()
        .flat_map(|chain| &chain.rules)
        .filter(|rule| matches!(rule.verdict, Verdict::Log(_)))
        .collect();
    assert_eq!(logged.len(), 1);
    let text = program.to_string();
    let line = "limit rate 10/second burst 20 packets log prefix \"palisade shut ingress denied by Antrea ClusterNetworkPolicy told, rule 0: \"";
    assert!(text.contains(line), "{text}");
    let walked = program.walk(Hook::Forward, &tcp("10.9.9.9", "10.0.0.1", 80)).unwrap();
    assert_eq!((walked.verdict, walked.counters.len()), (Verdict::Drop, 1));
}

/// However many namespaces let in everybody of the cluster, everybody is kept once, and for each namespace only its own.
#[test]
fn peers_of_many_lists_are_kept_once() {
    let mut text = String::new();
    for namespace in 0..20 {
        let _ = write!(
            text,
            "---\n{{apiVersion: v1, kind: Namespace, metadata: {{name: x{namespace}}}}}\n\
             ---\n{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: own, namespace: x{namespace}}}, \
             spec: {{podSelector: {{}}, ingress: [{{from: [{{podSelector: {{}}}}], ports: [{{port: 80}}]}}]}}}}\n\
             ---\n{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: all, namespace: x{namespace}}}, \
             spec: {{podSelector: {{}}, ingress: [{{from: [{{namespaceSelector: {{}}}}], ports: [{{port: 443}}]}}]}}}}\n"
        );
        for number in 1..=20 {
            let node = if number == 1 { "node1" } else { "node2" };
            let pod = pod(&format!("p{number}"), &format!("10.0.{namespace}.{number}"), node);
            text.push_str(&pod.replace("namespace: x", &format!("namespace: x{namespace}")));
        }
    }
    let program = program(&text);
    let elements: usize = program.sets.values().map(|set| set.elements.len()).sum();
    // 400 pods; the 20 of each namespace in a set of their own; the 20 pods here; ports.
    assert!((820..1000).contains(&elements), "{elements}");
    let said =
        |source: &str, port| program.walk(Hook::Forward, &tcp(source, "10.0.3.1", port)).unwrap().verdict;
    assert_eq!(said("10.0.3.7", 80), Verdict::Accept);
    assert_eq!(said("10.0.3.7", 443), Verdict::Accept);
    assert_eq!(said("10.0.4.7", 443), Verdict::Accept);
    assert_eq!(said("10.0.4.7", 80), Verdict::Drop);
    assert_eq!(said("10.9.9.9", 443), Verdict::Drop);
}

#[test]
fn namespaces_that_change_places_at_once() {
    let world = |x: &str, z: &str, b: &str| {
        let mut text = format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: x, labels: {{ns: {x}}}}}}}\n---\n\
             {{apiVersion: v1, kind: Namespace, metadata: {{name: z, labels: {{ns: {z}}}}}}}\n---\n\
             {{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {{name: p}}, spec: {{priority: 5, appliedTo: \
             [{{namespaceSelector: {{matchLabels: {{ns: x}}}}, podSelector: {{matchLabels: {{app: a}}}}}}], ingress: [{{action: Drop, \
             from: [{{namespaceSelector: {{matchLabels: {{ns: z}}}}, podSelector: {{matchLabels: {{app: b}}}}}}]}}]}}}}\n"
        );
        for (namespace, number) in [("x", 1), ("z", 2)] {
            for (name, node) in [("a", "node1"), ("b", "node2")] {
                let pod = pod(name, &format!("10.0.{number}.{}", name.as_bytes()[0]), node);
                let pod = pod.replace("namespace: x", &format!("namespace: {namespace}"));
                let label = if (namespace, name) == ("z", "b") { b } else { name };
                text.push_str(&pod.replace(&format!("app: {name}"), &format!("app: {label}")));
            }
        }
        text
    };
    let mut source = Followed::default();
    let mut live = Compiler::new(View::default(), "node1", Wiring::new());
    let said = |program: &Program, source: &str, destination: &str| {
        program.walk(Hook::Forward, &tcp(source, destination, 80)).unwrap().verdict
    };
    for (text, expected) in [
        (world("x", "z", "b"), [Verdict::Drop, Verdict::Accept]),
        // Nobody is left whom the rule asks for, and then somebody else is.
        (world("x", "z", "other"), [Verdict::Accept, Verdict::Accept]),
        (world("z", "x", "other"), [Verdict::Accept, Verdict::Drop]),
        (world("x", "z", "b"), [Verdict::Drop, Verdict::Accept]),
    ] {
        live.follow(&source.take(&text, "node1")).unwrap();
        assert_eq!(source.view.part_of("node1"), *live.view());
        let program = live.program();
        assert_eq!(
            [said(program, "10.0.2.98", "10.0.1.97"), said(program, "10.0.1.98", "10.0.2.97")],
            expected
        );
    }
    live.tidy();
    assert_eq!(*live.program(), compile(&source.view.part_of("node1"), "node1").program);
}

/// Each of two policies is needed by another pod still; what they come to together is not, once the pod goes that both are about.
#[test]
fn a_list_goes_with_the_last_who_needs_it() {
    let world = |both: bool| {
        let mut text = "{apiVersion: v1, kind: Namespace, metadata: {name: x}}\n".to_owned();
        for (policy, port) in [("b", 80), ("c", 81)] {
            let _ = write!(
                text,
                "---\n{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: {policy}, namespace: x}}, spec: \
                 {{podSelector: {{matchExpressions: [{{key: app, operator: In, values: [a, {policy}]}}]}}, ingress: [{{ports: \
                 [{{port: {port}}}]}}]}}}}\n"
            );
        }
        for (name, address) in [("a", "10.0.0.1"), ("b", "10.0.0.2"), ("c", "10.0.0.3")] {
            if both || name != "a" {
                text.push_str(&pod(name, address, "node1"));
            }
        }
        text
    };
    let mut source = Followed::default();
    let mut live = Compiler::new(View::default(), "node1", Wiring::new());
    let lists = |live: &Compiler| live.program().chains.keys().filter(|name| name.starts_with("in_")).count();
    live.follow(&source.take(&world(true), "node1")).unwrap();
    let before = lists(&live);
    live.follow(&source.take(&world(false), "node1")).unwrap();
    assert_eq!(lists(&live), before - 1);
    assert_eq!(*live.program(), compile(&source.view.part_of("node1"), "node1").program);
}

/// What is left of a connection that was cut opens none, in whichever direction rules apply.
#[test]
fn the_rest_of_a_connection_is_dropped_both_ways() {
    for (types, lists) in [("Ingress", ["in", "eg_loose"]), ("Egress", ["eg", "in_loose"])] {
        let program = program(&format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: x}}}}\n{}{}---\n{{apiVersion: networking.k8s.io/v1, kind: \
             NetworkPolicy, metadata: {{name: p, namespace: x}}, spec: {{podSelector: {{matchLabels: {{app: a}}}}, policyTypes: \
             [{types}]}}}}\n",
            pod("a", "10.0.0.1", "node1"),
            pod("free", "10.0.0.2", "node1"),
        ));
        assert!(lists.iter().all(|list| program.chains.keys().any(|name| name.starts_with(list))), "{types}");
        let said = |hook, source: &str, destination: &str| {
            let packet = Packet { syn: false, ..tcp(source, destination, 80) };
            program.walk(hook, &packet).unwrap().verdict
        };
        assert_eq!(said(Hook::Forward, "10.0.0.1", "10.9.9.9"), Verdict::Drop, "{types}");
        assert_eq!(said(Hook::Forward, "10.9.9.9", "10.0.0.1"), Verdict::Drop, "{types}");
        assert_eq!(said(Hook::Input, "10.0.0.1", "10.9.9.8"), Verdict::Drop, "{types}");
        // Nobody whom rules apply to.
        assert_eq!(said(Hook::Forward, "10.0.0.2", "10.9.9.9"), Verdict::Accept, "{types}");
        assert_eq!(said(Hook::Forward, "10.9.9.9", "10.0.0.2"), Verdict::Accept, "{types}");
    }
}

/// A small policy can tell a great deal apart. What is too much is denied and said, and takes no room.
#[test]
fn what_tells_too_much_apart_is_denied() {
    let mut excepts = String::from(
        "---\n{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: x}, spec: {podSelector: {}, ingress: [",
    );
    for number in 0..1000 {
        let _ = write!(
            excepts,
            "{{from: [{{ipBlock: {{cidr: 0.0.0.0/0, except: [10.2.{}.{}/32]}}}}], ports: [{{port: {}}}]}}, ",
            number / 250,
            number % 250,
            1000 + number
        );
    }
    excepts.push_str("]}}\n");
    let mut sources = String::from(
        "---\n{apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {name: p, namespace: x}, spec: {priority: 1, appliedTo: \
         [{podSelector: {}}], ingress: [{action: Allow, ports: [",
    );
    for number in 0..800 {
        let (source, port) = (2000 + 7 * number, 2000 + 11 * number);
        let _ = write!(
            sources,
            "{{protocol: TCP, port: {port}, endPort: {port}, sourcePort: {source}, sourceEndPort: 65000}}, "
        );
    }
    sources.push_str("]}, {action: Drop}]}}\n");
    for policy in [excepts, sources] {
        let view = view(&format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: x}}}}\n{}{policy}",
            pod("a", "10.0.0.1", "node1")
        ));
        let compiled = compile(&view, "node1");
        assert!(
            compiled.lacks.iter().any(|lack| lack.contains("than can be put into a kernel")),
            "{:?}",
            compiled.lacks
        );
        let size: usize = compiled.program.sets.values().map(|set| set.elements.len()).sum();
        assert!(size < 10_000, "{size}");
        let walked = compiled.program.walk(Hook::Forward, &tcp("10.9.9.9", "10.0.0.1", 1001)).unwrap();
        assert_eq!(walked.verdict, Verdict::Drop);
        assert_eq!(walked.counters, ["ingress/denied/too-much"]);
    }
}
