//! What becomes of connections under admin policies: where each kind stands, and that the unknown fails closed.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::panic)]

use palisade_dialects::load::load;
use palisade_dialects::source::{Limits, Source};
use palisade_dialects::world::World;
use palisade_model::evaluate::evaluate;
use palisade_model::flow::FlowPattern;
use palisade_model::options::Options;
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::Verdict::{self, Allow, Deny};

/// A policy of one kind, with its spec in flow style.
fn object(kind: &str, spec: &str) -> String {
    let (version, kind, name) = match kind {
        "anp" => ("v1alpha1", "AdminNetworkPolicy", "a"),
        "banp" => ("v1alpha1", "BaselineAdminNetworkPolicy", "default"),
        "cnp" => ("v1alpha2", "ClusterNetworkPolicy", "a"),
        other => panic!("no kind {other}"),
    };
    format!(
        "{{apiVersion: policy.networking.k8s.io/{version}, kind: {kind}, metadata: {{name: {name}}}, {spec}}}\n---\n"
    )
}

const WORLD: &str = r#"
{apiVersion: v1, kind: Namespace, metadata: {name: x, labels: {tenant: one}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: w, labels: {tenant: one}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: z, labels: {tenant: two}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x}, spec: {containers: [{name: c, ports: [{name: http, containerPort: 80}]}]}, status: {podIP: 10.0.0.1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: w}, spec: {containers: [{name: c}]}, status: {podIP: 10.0.0.2}}
---
{apiVersion: v1, kind: Pod, metadata: {name: c, namespace: z}, spec: {containers: [{name: c}]}, status: {podIP: 10.0.0.3}}
---
"#;

fn verdicts(policies: &str, flows: &[&str]) -> Vec<Verdict> {
    let source = Source::new("f.yaml", format!("{WORLD}{policies}"));
    let mut world = World::default();
    load(&source, &Limits::default(), &mut world, &mut Vec::new());
    let snapshot = Snapshot::new(world.into_objects());
    let verdict = |flow: &&str| {
        let pattern: FlowPattern = flow.parse().unwrap();
        let flows = snapshot.flows(&pattern).unwrap();
        assert_eq!(flows.len(), 1);
        evaluate(&snapshot, &flows[0], &Options::default()).verdict
    };
    flows.iter().map(verdict).collect()
}

const TO_A: &[&str] =
    &["w/b -> x/a tcp/80", "z/c -> x/a tcp/80", "z/c -> x/a tcp/81", "ip:192.0.2.1 -> x/a tcp/80"];

#[test]
fn tenants_are_kept_apart_by_labels_of_before() {
    let policy = object(
        "anp",
        "spec: {priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {notSameLabels: [tenant]}}]}]}",
    );
    assert_eq!(verdicts(&policy, TO_A), [Allow, Deny, Deny, Allow]);
}

#[test]
fn passing_leaves_it_to_the_baseline() {
    let deny = "spec: {subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}";
    let pass = "spec: {tier: Admin, priority: 1, subject: {namespaces: {}},
        ingress: [{action: Pass, from: [{namespaces: {matchLabels: {tenant: two}}}], protocols: [{destinationNamedPort: http}]}]}";
    let deny_two = "spec: {priority: 1, subject: {namespaces: {}}, ingress: [{action: Allow, from: [{namespaces: {}}]}]}";
    let policies = [object("banp", deny), object("cnp", pass), object("anp", deny_two)].concat();
    assert_eq!(verdicts(&policies, TO_A), [Allow, Deny, Allow, Allow]);
}

#[test]
fn an_unknown_peer_allows_nobody_and_denies_everybody() {
    let rule = |action: &str| {
        format!(
            "spec: {{tier: Admin, priority: 1, subject: {{namespaces: {{}}}},
             ingress: [{{action: {action}, from: [{{serviceAccounts: {{}}}}], protocols: [{{tcp: {{destinationPort: {{number: 80}}}}}}]}}]}}"
        )
    };
    let baseline = "spec: {subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}";
    let accept = [object("cnp", &rule("Accept")), object("banp", baseline)].concat();
    assert_eq!(verdicts(&accept, TO_A), [Deny, Deny, Deny, Allow]);
    assert_eq!(verdicts(&object("cnp", &rule("Deny")), TO_A), [Deny, Deny, Deny, Deny]);
    assert_eq!(verdicts(&object("cnp", &rule("Pass")), TO_A), [Deny, Deny, Deny, Deny]);
}

#[test]
fn the_baseline_stands_before_every_cluster_policy_of_its_tier() {
    let policies = [
        object(
            "cnp",
            "spec: {tier: Baseline, priority: 0, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}",
        ),
        object(
            "banp",
            "spec: {subject: {namespaces: {}}, ingress: [{action: Allow, from: [{namespaces: {matchLabels: {tenant: two}}}]}]}",
        ),
    ];
    assert_eq!(verdicts(&policies.concat(), TO_A), [Deny, Allow, Allow, Allow]);
}
