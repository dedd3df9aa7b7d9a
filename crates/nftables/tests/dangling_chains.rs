//! Chains that nothing leads to are removed, and are there again when an address leads to them.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../engine/tests/written/mod.rs"]
mod written;

use std::fmt::Write;

use palisade_engine::view::View;
use palisade_model::snapshot::Snapshot;
use palisade_nftables::compile::{Compiler, Wiring};

use written::Followed;

/// Two replicas wait for their addresses, and one gets its own; of two pods that claim an address the one that has it gets another.
#[test]
fn a_list_that_nothing_led_to_is_there_when_something_does() {
    let world = |addresses: [&str; 2], labels: [&str; 2]| {
        let mut text = "{apiVersion: v1, kind: Namespace, metadata: {name: x}}\n---\n\
            {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: a, namespace: x}, spec: {podSelector: \
            {matchLabels: {app: a}}}}\n---\n\
            {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: b, namespace: x}, spec: {podSelector: \
            {matchLabels: {app: b}}, ingress: [{ports: [{port: 80}]}]}}\n"
            .to_owned();
        for (number, (address, label)) in addresses.into_iter().zip(labels).enumerate() {
            let status = if address.is_empty() { String::new() } else { format!("podIP: {address}") };
            let _ = write!(
                text,
                "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: p{number}, namespace: x, labels: {{app: {label}}}}}, spec: \
                 {{nodeName: n0, containers: [{{name: c, image: i}}]}}, status: {{{status}}}}}\n"
            );
        }
        let (objects, found) = written::loaded(&text);
        assert!(!found.iter().any(|one| one.is_error()), "{found:#?}\n{text}");
        objects
    };
    let cases = [
        // Both wait; one comes.
        [world(["", ""], ["a", "a"]), world(["10.0.0.1", ""], ["a", "a"])],
        // Both claim an address, and the second, which has it, gets another.
        [world(["10.0.0.1", "10.0.0.1"], ["a", "b"]), world(["10.0.0.1", "10.0.0.2"], ["a", "b"])],
    ];
    for (number, case) in cases.into_iter().enumerate() {
        let mut source = Followed::default();
        let mut compiler = Compiler::new(View::default(), "n0", Wiring::new());
        for objects in case {
            let [parts] = source.relist(&objects, &Snapshot::new(objects.clone()), ["n0"]);
            compiler.follow(&parts).unwrap();
            assert_eq!(compiler.program().dangling(), None, "case {number}");
        }
    }
}
