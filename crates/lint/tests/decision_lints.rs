//! Lints about what rules decide: each in a small cluster that has it and in one that nearly has; and in random ones, where
//! taking out all that is reported changes no verdict.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../engine/tests/pool/mod.rs"]
mod pool;
#[path = "../../engine/tests/walk/mod.rs"]
mod walk;
#[path = "../../engine/tests/world/mod.rs"]
mod world;

use std::collections::BTreeMap;

use palisade_dialects::load::load;
use palisade_dialects::source::Limits;
use palisade_dialects::source::tree::Source;
use palisade_dialects::world::World;
use palisade_lint::lint;
use palisade_model::cluster::Pod;
use palisade_model::diagnostic::Diagnostic;
use palisade_model::event::Item;
use palisade_model::flow::{FlowPattern, Who};
use palisade_model::options::Options;
use palisade_model::policy::{Policy, Rule};
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::Verdict;
use palisade_model::verdicts::Verdicts;

use pool::{Dice, pool, some};
use world::{State, flows, objects, traffic};

fn check(text: &str) -> Vec<Diagnostic> {
    let source = Source::new("t.yaml", text);
    let (mut world, mut found) = (World::default(), Vec::new());
    load(&source, &Limits::default(), &mut world, &mut found);
    assert!(found.is_empty(), "{found:#?}");
    lint(&Snapshot::new(world.into_objects()))
}

fn pod(name: &str, at: u8) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: x, labels: {{app: {name}}}}}, spec: {{containers: [{{name: c}}]}}, status: {{podIP: 10.0.0.{at}}}}}\n"
    )
}

fn labelled(name: &str, labels: &str, at: u8) -> String {
    pod(name, at).replace(&format!("labels: {{app: {name}}}"), &format!("labels: {{{labels}}}"))
}

/// A pod of ReplicaSet web.
fn owned(name: &str, labels: &str, at: u8) -> String {
    let owner =
        "ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u, controller: true}]";
    labelled(name, labels, at).replace("namespace: x,", &format!("namespace: x, {owner},"))
}

/// Two pods of namespace x.
fn pods() -> String {
    pod("a", 1) + &pod("b", 2)
}

fn policy(name: &str, spec: &str) -> String {
    format!(
        "---\n{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: {name}, namespace: x}}, spec: {{{spec}}}}}\n"
    )
}

fn admin(name: &str, priority: u32, ingress: &str) -> String {
    format!(
        "---\n{{apiVersion: policy.networking.k8s.io/v1alpha1, kind: AdminNetworkPolicy, metadata: {{name: {name}}}, spec: {{priority: {priority}, subject: {{namespaces: {{}}}}, ingress: [{ingress}]}}}}\n"
    )
}

fn baseline(ingress: &str) -> String {
    format!(
        "---\n{{apiVersion: policy.networking.k8s.io/v1alpha1, kind: BaselineAdminNetworkPolicy, metadata: {{name: default}}, spec: {{subject: {{namespaces: {{}}}}, ingress: [{ingress}]}}}}\n"
    )
}

const NODE: &str = "---\n{apiVersion: v1, kind: Node, metadata: {name: node, labels: {r: w}}, status: {addresses: [{type: InternalIP, address: 10.9.0.1}]}}\n";

/// A pod of namespace x on that node.
fn on_node(name: &str, at: u8) -> String {
    pod(name, at).replace("spec: {", "spec: {nodeName: node, ")
}

const ALL: &str = "from: [{namespaces: {}}]";
const FROM_B: &str = "from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: b}}}}]";
const NOT_A: &str = "from: [{pods: {namespaceSelector: {}, podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [a]}]}}}]";
const WEB: &str = "ports: [{portNumber: {protocol: TCP, port: 80}}]";

/// One line a case: the text, the code and the field where it is found (and nowhere else), and words of the message;
/// or that it is not.
macro_rules! finds {
    ($($name:ident: $text:expr => $code:literal $($field:literal $words:expr),*;)*) => {$(
        #[test]
        fn $name() {
            let found = check(&$text);
            assert!(found.iter().all(|one| one.location.is_some() && one.subject.is_some()), "{found:#?}");
            let of: Vec<&Diagnostic> = found.iter().filter(|one| one.code.id == $code).collect();
            let got: Vec<&str> = of.iter().map(|one| one.field.as_str()).collect();
            let want: Vec<(&str, Vec<&str>)> = vec![$(($field, $words.to_vec())),*];
            assert_eq!(got, want.iter().map(|(field, _)| *field).collect::<Vec<_>>(), "{found:#?}");
            for (one, (_, words)) in of.iter().zip(want) {
                assert!(one.help.is_some(), "{one:#?}");
                words.iter().for_each(|words| assert!(one.message.contains(*words), "{words}: {}", one.message));
            }
        }
    )*};
}

finds! {
    a_rule_behind_a_wider_one: pods() + &admin("p", 1, &format!("{{action: Deny, {ALL}}}, {{action: Deny, {FROM_B}}}"))
        => "L0118" "spec.ingress[1]" ["whatever pods there are", "ingress rule 0 of AdminNetworkPolicy p"];
    a_rule_behind_one_for_some_ports: pods() + &admin("p", 1, &format!("{{action: Deny, {ALL}, {WEB}}}, {{action: Deny, {FROM_B}}}"))
        => "L0118";
    a_rule_behind_one_that_happens_to_be_wider: pods() + &admin("p", 1, &format!("{{action: Deny, {FROM_B}}}, {{action: Deny, {NOT_A}}}"))
        => "L0118" "spec.ingress[1]" ["for the pods there are", "x/b -> x/a tcp/80"];
    a_rule_behind_two_that_are_wider_together: pods() + &admin("p", 1, &format!("{{action: Deny, {FROM_B}}}, {{action: Pass, {NOT_A}}}")) + &admin("q", 2, &format!("{{action: Allow, {FROM_B}}}, {{action: Deny, {FROM_B}, {WEB}}}"))
        => "L0118" "spec.ingress[1]" ["for the pods"], "spec.ingress[1]" ["whatever pods"];
    a_dead_rule_needs_no_pods: admin("p", 1, &format!("{{action: Deny, {ALL}}}, {{action: Deny, {FROM_B}}}"))
        => "L0118" "spec.ingress[1]" ["whatever pods there are"];
    a_rule_of_a_new_sort_of_pods_is_not_dead: admin("p", 1, &format!("{{action: Deny, {FROM_B}}}, {{action: Deny, {NOT_A}}}"))
        => "L0118";

    allowed_and_refused_before: pods() + &admin("p", 1, &format!("{{action: Deny, {ALL}}}")) + &policy("q", "podSelector: {matchLabels: {app: a}}, ingress: [{from: [{podSelector: {matchLabels: {app: b}}}]}]")
        => "L0119" "spec.ingress[0]" ["refused by ingress rule 0 of AdminNetworkPolicy p", "x/b -> x/a tcp/80", "whatever pods there are"];
    allowed_and_refused_in_part: pods() + &admin("p", 1, &format!("{{action: Deny, {ALL}, {WEB}}}")) + &policy("q", "podSelector: {matchLabels: {app: a}}, ingress: [{from: [{podSelector: {matchLabels: {app: b}}}]}]")
        => "L0119";
    refused_and_allowed_before: pods() + &admin("p", 1, &format!("{{action: Allow, {ALL}}}")) + &baseline(&format!("{{action: Deny, {FROM_B}}}"))
        => "L0119" "spec.ingress[0]" ["allowed by ingress rule 0 of AdminNetworkPolicy p"];
    a_baseline_behind_network_policies: pods() + &baseline(&format!("{{action: Allow, {FROM_B}}}")) + &policy("q", "podSelector: {}")
        => "L0119";

    a_rule_that_another_includes: pods() + &policy("p", "podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: b}}}]}, {from: [{ipBlock: {cidr: 10.9.0.0/16}}]}]") + &policy("q", "podSelector: {}, ingress: [{from: [{podSelector: {}}]}]")
        => "L0120" "spec.ingress[0]" ["ingress rule 0 of NetworkPolicy x/q"];
    two_rules_alike_are_one_too_many: pods() + &policy("p", "podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: b}}}]}, {from: [{podSelector: {matchLabels: {app: b}}}]}]")
        => "L0120" "spec.ingress[1]" ["ingress rule 0 of NetworkPolicy x/p"];
    a_rule_for_more_ports: pods() + &policy("p", "podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: b}}}]}, {from: [{podSelector: {}}], ports: [{port: 80}]}]")
        => "L0120";
    an_admin_rule_that_a_later_one_repeats: pods() + &admin("p", 1, &format!("{{action: Deny, {FROM_B}}}, {{action: Deny, {ALL}}}"))
        => "L0120" "spec.ingress[0]" ["ingress rule 1 of AdminNetworkPolicy p"];
    an_admin_rule_that_guards_against_network_policies: pods() + &admin("p", 1, &format!("{{action: Deny, {FROM_B}}}")) + &policy("q", "podSelector: {}")
        => "L0120";

    a_policy_that_another_includes: pods() + &policy("p", "podSelector: {matchLabels: {app: a}}, ingress: [{from: [{podSelector: {matchLabels: {app: b}}}]}]") + &policy("q", "podSelector: {}, ingress: [{from: [{podSelector: {}}]}]")
        => "L0121" "spec" ["NetworkPolicy x/q"];
    a_default_deny_is_for_pods_to_come: pods() + &policy("p", "podSelector: {}") + &policy("q", "podSelector: {matchExpressions: [{key: app, operator: In, values: [a, b]}]}, ingress: [{ports: [{port: 80}]}]")
        => "L0121";
    a_default_deny_beside_a_policy_for_the_same_pods: pods() + &policy("p", "podSelector: {}") + &policy("q", "podSelector: {}, ingress: [{ports: [{port: 80}]}]")
        => "L0121";
    two_default_denies: pods() + &policy("p", "podSelector: {}") + &policy("q", "podSelector: {}")
        => "L0121" "spec" ["NetworkPolicy x/p"];
    a_policy_that_isolates_in_the_other_direction: pods() + &policy("p", "podSelector: {}") + &policy("q", "podSelector: {}, policyTypes: [Ingress, Egress], egress: [{ports: [{port: 53, protocol: UDP}]}]")
        => "L0121" "spec" ["NetworkPolicy x/q"];

    nothing_protects_a_workload: pods() + &policy("p", "podSelector: {matchLabels: {app: a}}")
        => "L0122" "metadata.name" ["1 workload of namespace x: b", "203.0.113.7 -> x/b tcp/80"];
    selected_is_not_protected: pods() + &admin("p", 1, &format!("{{action: Allow, {ALL}}}"))
        => "L0122" "metadata.name" ["2 workloads of namespace x: a, b"];
    refusing_something_protects: pods() + &admin("p", 1, &format!("{{action: Deny, {ALL}, {WEB}}}"))
        => "L0122";
    without_a_policy_nobody_is_told: pods() => "L0122";

    everybody_on_every_port: pods() + &policy("p", "podSelector: {}, ingress: [{}]")
        => "L0123" "spec.ingress[0]" ["203.0.113.7 -> x/a tcp/80"];
    all_addresses_on_every_port: pods() + &policy("p", "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.0.0.0/8]}}]}]")
        => "L0123" "spec.ingress[0]" ["203.0.113.7 -> x/a tcp/80"];
    everybody_on_one_port: pods() + &policy("p", "podSelector: {}, ingress: [{ports: [{port: 443}]}]")
        => "L0123";
    everybody_but_who_is_refused_before: pods() + "---\n{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {name: r}, spec: {priority: 1, tier: securityops, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{ipBlock: {cidr: 0.0.0.0/0}}, {ipBlock: {cidr: '::/0'}}]}]}}\n" + &policy("p", "podSelector: {}, ingress: [{}]")
        => "L0123";
    everything_to_everywhere: pods() + &policy("p", "podSelector: {}, policyTypes: [Egress], egress: [{}]")
        => "L0124" "spec.egress[0]" ["x/a -> 203.0.113.7 tcp/80"];
    dns_to_everywhere: pods() + &policy("p", "podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: 53, protocol: UDP}]}]")
        => "L0124";

    a_pod_does_not_meet_itself: pod("a", 1) + &admin("p", 1, &format!("{{action: Deny, {ALL}}}")) + &policy("q", "podSelector: {}, ingress: [{from: [{podSelector: {}}]}]")
        => "L0119" "spec.ingress[0]" ["ingress rule 0 of AdminNetworkPolicy p, whatever pods there are"];
    nobody_meets_its_own_node: NODE.to_owned() + &on_node("a", 1) + "---\n{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {name: p}, spec: {priority: 1, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{nodeSelector: {}}]}, {action: Allow, from: [{nodeSelector: {matchLabels: {r: w}}}]}]}}\n"
        => "L0119";
    another_pod_meets_the_node: NODE.to_owned() + &on_node("a", 1) + &pod("b", 2) + "---\n{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {name: p}, spec: {priority: 1, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{nodeSelector: {}}]}, {action: Allow, from: [{nodeSelector: {matchLabels: {r: w}}}]}]}}\n"
        => "L0119" "spec.ingress[1]" ["node:node -> x/b tcp/80"];
    pass_out_where_nobody_lets_it_in: pods() + "---\n{apiVersion: policy.networking.k8s.io/v1alpha1, kind: AdminNetworkPolicy, metadata: {name: p}, spec: {priority: 1, subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: a}}}}, egress: [{action: Pass, to: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: b}}}}]}]}}\n" + &policy("q", "podSelector: {matchLabels: {app: b}}")
        => "L0125" "spec.egress[0]" ["all of its egress is allowed"];
    pass_out_with_an_example_that_is_let_in: pods() + "---\n{apiVersion: policy.networking.k8s.io/v1alpha1, kind: AdminNetworkPolicy, metadata: {name: p}, spec: {priority: 1, subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: a}}}}, egress: [{action: Pass, to: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: b}}}}]}]}}\n" + &policy("q", "podSelector: {matchLabels: {app: b}}, ingress: [{ports: [{port: 7}]}]")
        => "L0125" "spec.egress[0]" ["e.g. x/a -> x/b tcp/7"];
    the_same_for_the_pods_there_are: labelled("a", "app: web, tier: front", 1) + &labelled("b", "app: db", 2) + &policy("p", "podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]") + &policy("q", "podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {tier: front}}}]}]")
        => "L0121" "spec" ["changes nothing, for the pods there are: another does the same (NetworkPolicy x/p)"];
    the_same_whatever_pods_there_are: pods() + &policy("p", "podSelector: {matchLabels: {app: a}}, ingress: [{from: [{podSelector: {matchLabels: {app: b}}}], ports: [{port: 80}]}]") + &policy("q", "podSelector: {}, ingress: [{from: [{podSelector: {}}], ports: [{port: 1, endPort: 100}]}]")
        => "L0121" "spec" ["changes nothing, whatever pods there are: another does the same (NetworkPolicy x/q)"];

    a_baseline_allow_with_nothing_behind: pods() + &baseline(&format!("{{action: Deny, {FROM_B}, {WEB}}}, {{action: Allow, {ALL}}}"))
        => "L0120" "spec.ingress[1]" ["what nobody refuses is allowed at the end"];
    a_baseline_allow_before_a_deny: pods() + &baseline(&format!("{{action: Allow, {FROM_B}}}, {{action: Deny, {ALL}}}"))
        => "L0120";
    a_baseline_allow_before_a_deny_that_is_dead: pods() + &baseline(&format!("{{action: Allow, {ALL}}}, {{action: Deny, {FROM_B}}}"))
        => "L0120";
    a_pass_with_nothing_behind_in_the_tiers: pods() + &admin("p", 1, &format!("{{action: Deny, {FROM_B}, {WEB}}}, {{action: Pass, {ALL}}}")) + &policy("q", "podSelector: {}, ingress: [{ports: [{port: 7}]}]")
        => "L0120" "spec.ingress[1]" ["what no rule matches is passed on"];
    a_pass_before_a_deny: pods() + &admin("p", 1, &format!("{{action: Pass, {FROM_B}}}")) + &admin("r", 2, &format!("{{action: Deny, {ALL}}}")) + &policy("q", "podSelector: {}, ingress: [{ports: [{port: 7}]}]")
        => "L0120";

    refused_over_one_family_is_protected: "---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: x}, spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c}]}}}}\n".to_owned() + "---\n{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {name: r}, spec: {priority: 1, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{ipBlock: {cidr: 0.0.0.0/0}}]}]}}\n"
        => "L0122";
    one_pod_of_a_workload_is_open: owned("a", "app: web", 1) + &owned("b", "app: other", 2) + &policy("p", "podSelector: {matchLabels: {app: web}}")
        => "L0122" "metadata.name" ["1 workload of namespace x: web (only 1 of its 2 pods: b)"];
    one_pod_of_a_workload_is_unlike: owned("a", "app: web, pod-template-hash: '1'", 1) + &owned("b", "app: other, pod-template-hash: '2'", 2) + &policy("p", "podSelector: {matchLabels: {app: web}}")
        => "L0127" "metadata.labels" ["ReplicaSet x/web apart: a has app=web, b has app=other"];
    a_label_that_nobody_asks_for: owned("a", "app: web, v: '1'", 1) + &owned("b", "app: web, v: '2'", 2) + &policy("p", "podSelector: {matchLabels: {app: web}}")
        => "L0127";
    the_hash_of_a_template: owned("a", "app: web, pod-template-hash: '1'", 1) + &owned("b", "app: web, pod-template-hash: '2'", 2) + &policy("p", "podSelector: {matchLabels: {pod-template-hash: '1'}}")
        => "L0127";

    all_addresses_in_two_halves: pods() + &policy("p", "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/1}}, {ipBlock: {cidr: 128.0.0.0/1}}]}]") + &policy("q", "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0}}]}]")
        => "L0123" "spec.ingress[0]" ["203.0.113.7 -> x/a"], "spec.ingress[0]" ["203.0.113.7 -> x/a"];
    all_public_addresses: pods() + &policy("p", "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/1, except: [10.0.0.0/8]}}, {ipBlock: {cidr: 128.0.0.0/2}}, {ipBlock: {cidr: 192.0.0.0/3}}]}]")
        => "L0123" "spec.ingress[0]" ["203.0.113.7 -> x/a"];
    half_of_all_addresses: pods() + &policy("p", "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 128.0.0.0/1}}]}]")
        => "L0123";
    all_addresses_in_a_group: pods() + "---\n{apiVersion: crd.antrea.io/v1beta1, kind: ClusterGroup, metadata: {name: g}, spec: {ipBlocks: [{cidr: 0.0.0.0/0}]}}\n---\n{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {name: r}, spec: {priority: 1, appliedTo: [{podSelector: {}}], ingress: [{action: Allow, from: [{group: g}]}]}}\n" + &policy("p", "podSelector: {}")
        => "L0123" "spec.ingress[0]" ["203.0.113.7 -> x/a"];

    allowed_in_and_refused_out: pods() + &policy("p", "podSelector: {matchLabels: {app: a}}, policyTypes: [Egress], egress: [{ports: [{port: 53, protocol: UDP}]}]") + &policy("q", "podSelector: {matchLabels: {app: b}}, ingress: [{from: [{podSelector: {matchLabels: {app: a}}}], ports: [{port: 5432}]}]")
        => "L0129" "spec.ingress[0]" ["x/a -> x/b tcp/5432 by the egress of x/a, isolated by NetworkPolicy x/p"];
    allowed_out_and_refused_in_by_a_rule: pods() + &admin("d", 1, &format!("{{action: Deny, {ALL}, {WEB}}}")) + &policy("p", "podSelector: {matchLabels: {app: a}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: b}}}], ports: [{port: 80}]}]")
        => "L0129" "spec.egress[0]" ["x/a -> x/b tcp/80 by the ingress of x/b, ingress rule 0 of AdminNetworkPolicy d"];
    allowed_in_and_partly_refused_out: pods() + &policy("p", "podSelector: {matchLabels: {app: a}}, policyTypes: [Egress], egress: [{ports: [{port: 53, protocol: UDP}, {port: 5433}]}]") + &policy("q", "podSelector: {matchLabels: {app: b}}, ingress: [{from: [{podSelector: {matchLabels: {app: a}}}], ports: [{port: 5432, endPort: 5433}]}]")
        => "L0129";

    pass_to_nobody: pods() + &admin("p", 1, &format!("{{action: Pass, {FROM_B}}}, {{action: Deny, {ALL}}}"))
        => "L0125" "spec.ingress[0]" ["x/b -> x/a tcp/80"];
    pass_to_a_network_policy: pods() + &admin("p", 1, &format!("{{action: Pass, {FROM_B}}}, {{action: Deny, {ALL}}}")) + &policy("q", "podSelector: {matchLabels: {app: a}}")
        => "L0125";
    pass_to_the_baseline: pods() + &admin("p", 1, &format!("{{action: Pass, {FROM_B}}}")) + &baseline(&format!("{{action: Deny, {ALL}, {WEB}}}"))
        => "L0125";
    pass_to_a_baseline_about_others: pods() + &admin("p", 1, &format!("{{action: Pass, {FROM_B}}}")) + &baseline("{action: Deny, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: a}}}}]}")
        => "L0125" "spec.ingress[0]" ["x/b -> x/a tcp/80"];
}

/// What costs too much is said, and does not take long: ranges of ports, all different, for the same pods.
#[test]
fn many_ranges_of_ports_are_bounded() {
    let policy = |at: u32| {
        let rule = |rule: u32| {
            let ports = (0..4).map(|port| {
                let first = 1 + (at * 100 + rule * 4 + port) * 2 % 60_000;
                format!("{{portRange: {{protocol: TCP, start: {first}, end: {}}}}}", first + at % 7)
            });
            format!("{{action: Allow, {ALL}, ports: [{}]}}", ports.collect::<Vec<_>>().join(", "))
        };
        admin(&format!("p{at}"), at, &(0..25).map(rule).collect::<Vec<_>>().join(", "))
    };
    let found = check(&(pods() + &(0..200).map(policy).collect::<String>()));
    assert!(found.iter().any(|one| one.code.id == "L0126"), "{}", found.len());
}

/// No example of any finding is a connection that policies have no say about, or that the finding is wrong about.
#[test]
fn examples_are_what_is_said_about_them() {
    let pool = pool();
    let mut asked = 0;
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let state = some(&pool, 3, &mut dice);
        let snapshot = Snapshot::new(objects(&state));
        let options = Options::default();
        let verdicts = Verdicts::new(&snapshot, &options);
        for finding in lint(&snapshot) {
            let allowed = match finding.code.id {
                "L0119" => finding.message.contains("is allowed by"),
                "L0118" | "L0125" => true,
                _ => continue,
            };
            let Some((_, example)) = finding.message.split_once("e.g. ") else { continue };
            let example = example.split(", ").next().unwrap();
            let pattern: FlowPattern = example.parse().unwrap();
            for flow in &snapshot.flows(&pattern).unwrap() {
                asked += 1;
                assert!(
                    flow.source.who != flow.destination.who || flow.source.who == Who::Outside,
                    "{finding:#?}"
                );
                let verdict = verdicts.verdict(flow);
                match finding.code.id {
                    "L0119" if !allowed => assert_ne!(verdict, Verdict::Allow, "{finding:#?}"),
                    "L0125" => assert_eq!(verdict, Verdict::Allow, "{finding:#?}"),
                    _ => {}
                }
            }
        }
    }
    assert!(asked > 20, "{asked}");
}

/// Without a rule that the other side refuses everything of, nothing is let through that was not, and all that was.
#[test]
fn what_the_other_side_refuses_nobody_misses() {
    let pool = pool();
    let (mut seen, mut asked) = (0, 0);
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let state = some(&pool, 3, &mut dice);
        let before = Snapshot::new(objects(&state));
        let found = lint(&before);
        for finding in found.iter().filter(|one| one.code.id == "L0129") {
            let after = Snapshot::new(objects(&without(&state, &[finding])));
            let options = Options::default();
            let (said, says) = (Verdicts::new(&before, &options), Verdicts::new(&after, &options));
            for flow in flows(&before, &traffic()) {
                let [one, other] = [&said, &says].map(|verdicts| verdicts.verdict(&flow) == Verdict::Allow);
                assert_eq!(one, other, "{flow:?}\n{finding:#?}");
                asked += 1;
            }
            let example = finding.message.split("there are: ").nth(1).unwrap().split(" by ").next().unwrap();
            let pattern: FlowPattern = example.parse().unwrap();
            // An external entity may have the name of a pod: one of those is meant.
            let meant = before.flows(&pattern).unwrap();
            assert!(meant.iter().any(|flow| said.verdict(flow) != Verdict::Allow), "{finding:#?}");
            seen += 1;
        }
    }
    assert!(seen > 10 && asked > 1000, "{seen} {asked}");
}

/// Codes of what can be taken out.
const SUPERFLUOUS: [&str; 4] = ["L0118", "L0119", "L0120", "L0121"];

/// The state without all that is reported.
fn without(state: &State, found: &[&Diagnostic]) -> State {
    let is_about = |finding: &Diagnostic, policy: &Policy| {
        let subject = finding.subject.as_ref().unwrap();
        (&subject.kind, &subject.namespace, &subject.name)
            == (&policy.object.kind, &policy.object.namespace, &policy.object.name)
    };
    let mut less = state.clone();
    for finding in found {
        // Two APIs have a NetworkPolicy: the place tells.
        let is_rule = |rule: &Rule, policy: &Policy| {
            is_about(finding, policy)
                && finding.field == format!("spec.{}[{}]", rule.direction, rule.index)
                && rule.at.as_ref().or(policy.object.at.as_ref()) == finding.location.as_ref()
        };
        let mut taken = 0;
        less.retain(|_, item| match item {
            Item::Policy(policy) if finding.code.id == "L0121" => {
                let gone = is_about(finding, policy) && policy.object.at == finding.location;
                taken += usize::from(gone);
                !gone
            }
            _ => true,
        });
        for item in less.values_mut() {
            if let Item::Policy(policy) = item {
                let owned = policy.clone();
                let before = policy.rules.len();
                policy.rules.retain(|rule| !is_rule(rule, &owned));
                taken += before - policy.rules.len();
            }
        }
        // Of a policy that is gone as a whole, a dead rule may have been reported, too.
        assert!(taken <= 1, "{finding:#?}");
    }
    less
}

/// How many verdicts stay as they are; all of them, or it panics.
fn stays(state: &State, less: &State, found: &[&Diagnostic]) -> usize {
    let (before, after) = (Snapshot::new(objects(state)), Snapshot::new(objects(less)));
    let options = Options::default();
    let (said, says) = (Verdicts::new(&before, &options), Verdicts::new(&after, &options));
    let flows = flows(&before, &traffic());
    for flow in &flows {
        assert_eq!(said.verdict(flow), says.verdict(flow), "{flow:?}\n{found:#?}");
    }
    flows.len()
}

/// More pods, with labels put together from those of others, in namespaces old and new.
fn more_pods(state: &State, dice: &mut Dice) -> State {
    let mut more = state.clone();
    let pods: Vec<Pod> = pool()
        .into_iter()
        .flatten()
        .filter_map(|item| match item {
            Item::Pod(pod) => Some(pod),
            _ => None,
        })
        .collect();
    for at in 0..12 {
        let (one, other) = (&pods[dice.roll(pods.len())], &pods[dice.roll(pods.len())]);
        let mut pod = one.clone();
        pod.name = format!("more-{at}").into();
        pod.addresses.clear();
        pod.namespace = other.namespace.clone();
        if dice.roll(4) == 0 {
            pod.namespace = "new".into();
        }
        for (key, value) in other.labels.iter().filter(|_| at % 2 == 0) {
            pod.labels.set(key.into(), value.into());
        }
        let item = Item::Pod(pod);
        more.insert(item.key(), item);
    }
    more
}

#[test]
fn what_is_superfluous_can_be_taken_out_at_once() {
    let pool = pool();
    let mut asked = 0;
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ever = 0;
    for seed in 0..120 {
        let mut dice = Dice(seed);
        let state = some(&pool, 4, &mut dice);
        let found = lint(&Snapshot::new(objects(&state)));
        let found: Vec<&Diagnostic> = found.iter().filter(|one| SUPERFLUOUS.contains(&one.code.id)).collect();
        found.iter().for_each(|one| *seen.entry(one.code.id).or_default() += 1);
        if found.is_empty() {
            continue;
        }
        asked += stays(&state, &without(&state, &found), &found);
        let dead: Vec<&Diagnostic> =
            found.into_iter().filter(|one| one.message.contains("whatever pods there are")).collect();
        if !dead.is_empty() {
            ever += dead.len();
            let state = more_pods(&state, &mut dice);
            asked += stays(&state, &without(&state, &dead), &dead);
        }
    }
    assert!(asked > 10_000 && seen.len() >= 2 && ever > 0, "{asked} {ever} {seen:?}");
}
