//! `palisade query` through the built binary: who is meant by an address, what a mistake is told, what counts as full.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ask;

use serde_json::{Value, json};

fn ask(world: &str, arguments: &[&str]) -> (i32, String, String) {
    ask::ask("query", world, arguments)
}

fn json_of(world: &str, arguments: &[&str]) -> Value {
    ask::json_of("query", world, arguments)
}

/// Two namespaces, a node, and policies that name addresses of the cluster's own.
const WORLD: &str = "\
{apiVersion: v1, kind: Node, metadata: {name: w1}, status: {addresses: [{type: InternalIP, address: 192.168.0.11}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {app: web}}, status: {podIP: 10.0.1.10}}
---
{apiVersion: v1, kind: Pod, metadata: {name: db, namespace: shop, labels: {app: db}}, status: {podIP: 10.0.1.77}}
---
{apiVersion: v1, kind: Pod, metadata: {name: scan, namespace: ops, labels: {app: scan}}, status: {podIP: 10.0.2.1}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  podSelector: {matchLabels: {app: web}}
  policyTypes: [Egress]
  egress:
  - to: [{ipBlock: {cidr: 10.0.1.77/32}}, {ipBlock: {cidr: 192.168.0.11/32}}]
    ports: [{port: 5432}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  policyTypes: [Ingress, Egress]
  ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 5432}]}]
  egress:
  - to: [{ipBlock: {cidr: 0.0.0.0/0, except: [192.168.0.0/16]}}]
";

#[test]
fn an_address_is_whoever_has_it() {
    for (query, code) in [
        // The database may send to nobody of 192.168.0.0/16, and the node has one of these.
        ("shop/db -> ip:192.168.0.11 is empty", 0),
        ("node:w1 -> ip:10.0.1.77 is empty", 0),
        ("shop/web -> ip:10.0.1.77 tcp/5432 is full", 0),
        ("ip:10.0.1.10 -> shop/db tcp/5432 is full", 0),
        ("ip:10.0.1.10/32 -> shop/db tcp/5432 is full", 0),
        ("ip:10.0.2.1 -> shop/db is empty", 0),
        ("ip:203.0.113.7 -> shop/web is full", 0),
        // Only addresses of the cluster's own are let through: the internet is not.
        ("shop/web -> internet is empty", 0),
        ("shop/web -> ip:10.0.0.0/8 is empty", 0),
        ("shop/db -> internet is empty", 1),
        ("shop/db -> ip:10.0.0.0/8 is full", 0),
    ] {
        let (got, out, err) = ask(WORLD, &[query]);
        assert_eq!(got, code, "{query}\n{out}{err}");
    }
    let node = "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: any, namespace: shop}, spec: {podSelector: {}, policyTypes: [Egress], egress: [{}]}}";
    let (code, out, _) = ask(&format!("{WORLD}---\n{node}\n"), &["shop/db -> ip:192.168.0.11 is empty"]);
    assert_eq!(code, 1);
    assert!(out.contains("→  node w1 192.168.0.11"), "{out}");
    let (_, out, _) = ask(WORLD, &["shop/web -> ip:10.0.1.77 is empty"]);
    assert!(out.contains("ALLOWED   shop/web 10.0.1.10  →  shop/db 10.0.1.77   tcp/5432"), "{out}");
    let (code, _, err) =
        ask(WORLD, &["ops/scan -> ip:10.0.1.77/32 is empty", "shop/web -> ip:192.168.0.11/32"]);
    assert_eq!(code, 0, "{err}");
    let (code, _, err) = ask(&WORLD.replace("10.0.1.10", "10.0.1.76"), &["ops/scan -> ip:10.0.1.76/31"]);
    assert_eq!(code, 2);
    assert!(err.contains("pods and nodes have all of its addresses"), "{err}");
}

#[test]
fn a_mistake_costs_one_try() {
    for (query, says) in [
        ("shop/web -> shop/db 80 is empty", "\"80\" is no traffic: write tcp/80; "),
        (
            "shop/web -> shop/db 80 is not empty",
            "what can be asserted is `is empty`, `is not empty` or `is full`",
        ),
        ("shop/web -> shop/db igmp is empty", "\"igmp\" is no traffic: "),
        ("shop/web -> svc:shop/db tcp/80 is empty", "\"svc:shop/db\" is a Service: "),
        ("shop/web -> shop/db is open", "expected `is empty`, `is not empty` or `is full`"),
        ("app=wbe -> shop/db", "app=wbe is nobody: no pod matches in -\n  did you mean app=web?"),
        ("ap=web -> shop/db", "did you mean app=web?"),
        ("shop/app in (wbe, x) -> shop/db", "did you mean shop/app in (web, x)"),
        ("shop/db <- ns:shpo", "ns:shpo is nobody: no pod matches in -\n  did you mean ns:shop?"),
        (
            "shop/db <- shpo/web tcp is empty",
            "shpo/web is nobody: no pod matches in -\n  did you mean shop/web?",
        ),
        ("shop/wbe -> shop/db", "did you mean shop/web?"),
        ("internet -> ip:10.0.0.0/8", "both ends are outside"),
        ("node:w2 -> shop/db", "no node w2 in -\n  did you mean node:w1?"),
    ] {
        let (code, out, err) = ask(WORLD, &[query]);
        assert_eq!((code, out.as_str()), (2, ""), "{query}: {err}");
        assert!(err.starts_with(&format!("error: {query:?}: ")) && err.contains(says), "{query}: {err}");
    }
}

#[test]
fn one_bad_query_does_not_hide_the_others() {
    let queries = ["shop/web -> shop/db 80", "shop/web -> shop/db tcp/5432 is full", "shop/wbe -> shop/db"];
    let (code, out, err) = ask(WORLD, &[&queries[..], &["--within", "no/such/folder"]].concat());
    assert_eq!(code, 2);
    assert_eq!(
        out,
        "HOLDS   shop/web -> shop/db tcp/5432 is full\n        tcp/5432 is let through, for 1 pair\n"
    );
    assert_eq!(err.matches("error: ").count(), 3, "{err}");
    let value = json_of(WORLD, &queries);
    assert_eq!(value["holds"], json!(false));
    assert_eq!(value["queries"][1]["holds"], json!(true));
    assert!(value["queries"][0]["error"].as_str().unwrap().contains("write tcp/80"), "{value}");
    assert!(value["queries"][2]["pairs"].is_null(), "{value}");
    let compared = json_of(WORLD, &["--equals", "examples/shop"]);
    assert_eq!((&compared["holds"], &compared["queries"]), (&json!(false), &json!([])));
    let only = &compared["compared"][0];
    assert_eq!([&only["how"], &only["with"]], [&json!("equals"), &json!("examples/shop")]);
    assert_eq!([&only["holds"], &only["counterexample"]["verdict"]], [&json!(false), &json!("allow")]);
    // A failure is none the less a failure, and less than no answer.
    assert_eq!(ask(WORLD, &["ops/scan -> shop/db is full", "shop/web -> shop/db tcp/5432 is full"]).0, 1);
}

#[test]
fn how_many_pairs_get_what_is_said() {
    let said = |query: &str| {
        let (code, out, err) = ask(WORLD, &[query]);
        assert_ne!(code, 2, "{err}");
        out.lines().nth(1).unwrap().trim().to_owned()
    };
    assert_eq!(said("ops/* -> shop/* tcp/80"), "tcp/80 is let through for 1 of 2 pairs; nothing for 1");
    assert_eq!(said("ops/scan → shop/db"), "nothing is let through, for 1 pair");
    assert_eq!(said("shop/db ← */* icmp is empty"), "nothing is let through, for all of 2 pairs");
    // A pod and itself are no pair.
    assert_eq!(said("shop/* -> shop/* tcp/1-3"), "tcp/1-3 is let through for 1 of 2 pairs; nothing for 1");
    // Pods that have not started could have either family of addresses: they are one pair.
    let world = WORLD.replace(", status: {podIP: 10.0.1.10}", "").replace(", status: {podIP: 10.0.1.77}", "");
    let (_, out, _) = ask(&world, &["shop/web -> shop/db"]);
    assert!(out.contains("for 1 pair\n"), "{out}");
}

#[test]
fn something_must_be_possible() {
    let (code, out, _) =
        ask(WORLD, &["shop/web -> shop/db is not empty", "shop/web → shop/db tcp must not be empty"]);
    assert_eq!((code, out.matches("HOLDS").count()), (0, 2), "{out}");
    let (code, out, _) = ask(WORLD, &["ops/scan -> shop/db is not empty"]);
    assert_eq!(code, 1);
    assert_eq!(
        out,
        "FAILS   ops/scan -> shop/db is not empty\n        nothing is let through, for 1 pair\n        no single connection shows it: every one of them is refused\n"
    );
}

const CONDITIONAL: &str = "\
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {app: web}}, status: {podIP: 10.0.1.10}}
---
{apiVersion: v1, kind: Pod, metadata: {name: db, namespace: shop, labels: {app: db}}, status: {podIP: 10.0.1.77}}
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: l7, namespace: shop}
spec:
  priority: 5
  tier: application
  appliedTo: [{podSelector: {matchLabels: {app: db}}}]
  ingress:
  - {action: Allow, from: [{podSelector: {matchLabels: {app: web}}}], ports: [{protocol: TCP, port: 80}], l7Protocols: [{http: {method: GET}}]}
  - {action: Allow, ports: [{protocol: TCP, port: 81}]}
  - {action: Drop}
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: names, namespace: shop}
spec:
  priority: 5
  tier: application
  appliedTo: [{podSelector: {matchLabels: {app: web}}}]
  egress:
  - {action: Allow, to: [{fqdn: \"*.example.com\"}], ports: [{protocol: TCP, port: 443}]}
  - {action: Drop, to: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.0.0.0/8]}}]}
";

#[test]
fn what_holds_on_condition_is_not_full_and_not_empty() {
    let (code, out, _) = ask(CONDITIONAL, &["shop/web -> shop/db tcp/80 is full"]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("FAILS") && out.contains("CONDITIONAL   only HTTP"), "{out}");
    assert!(out.contains("tcp/80 only on condition (layer 7), for some of them"), "{out}");
    for (query, code) in [
        ("shop/web -> shop/db tcp/80 is empty", 1),
        ("shop/web -> shop/db tcp/80 is not empty", 0),
        ("shop/web -> shop/db tcp/81 is full", 0),
        ("shop/web -> shop/db tcp/82 is empty", 0),
    ] {
        let (got, out, err) = ask(CONDITIONAL, &[query]);
        assert_eq!(got, code, "{query}\n{out}{err}");
    }
    // A connection that is refused says more.
    let value = json_of(
        CONDITIONAL,
        &["shop/web -> shop/db tcp/80-82 is full", "shop/web -> shop/db tcp/80 is full"],
    );
    assert_eq!(value["queries"][0]["counterexample"]["verdict"], "deny");
    assert_eq!(value["queries"][1]["counterexample"]["conditional"], true);
    assert_eq!(value["queries"][0]["conditional"], json!({"TCP": [[80, 80]], "ICMP": false}));
}

#[test]
fn rules_about_names_that_are_not_known_are_noted() {
    let query = "shop/web -> ip:198.51.100.0/24 is empty";
    let (code, out, _) = ask(CONDITIONAL, &[query]);
    let flat = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(code, 0, "{out}");
    assert!(flat.contains("note: egress rule 0") && flat.contains("not known"), "{out}");
    assert_eq!(json_of(CONDITIONAL, &[query])["queries"][0]["notes"].as_array().unwrap().len(), 1);
    let (code, out, _) = ask(CONDITIONAL, &[query, "--dns", "api.example.com=198.51.100.7"]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("198.51.100.7 (outside)") && !out.contains("note:"), "{out}");
    // It is nobody's business who is not a source of it.
    let (_, out, _) = ask(CONDITIONAL, &["shop/db -> internet"]);
    assert!(!out.contains("note:"), "{out}");
}

#[test]
fn what_was_left_out_is_said_in_json() {
    let query = "shop/web -> shop/db tcp/5432 is full";
    assert_eq!(json_of(WORLD, &[query])["inputProblems"], json!([]));
    let world = format!(
        "{WORLD}---\n{{apiVersion: cilium.io/v2, kind: CiliumNetworkPolicy, metadata: {{name: c, namespace: shop}}}}\n"
    );
    let value = json_of(&world, &[query]);
    assert_eq!(value["inputProblems"].as_array().unwrap().len(), 1, "{value}");
    assert_eq!(value["inputProblems"][0]["kind"], "CiliumNetworkPolicy");
}

#[test]
fn the_internet_is_of_both_families() {
    let world = "\
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: a}, spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c}]}}}}
---
{apiVersion: policy.networking.k8s.io/v1alpha1, kind: AdminNetworkPolicy, metadata: {name: p}, spec: {priority: 1, subject: {namespaces: {}}, egress: [{action: Deny, to: [{networks: [0.0.0.0/0]}]}]}}
";
    let (code, out, _) = ask(world, &["app=web -> internet is empty"]);
    assert_eq!(code, 1, "{out}");
    assert_eq!(ask(world, &["app=web -> internet is empty", "--family", "ipv4"]).0, 0);
}

#[test]
fn a_template_stands_for_two_that_meet() {
    let world = "\
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: a}, spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c}]}}}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: deny, namespace: a}, spec: {podSelector: {}, policyTypes: [Ingress]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: own, namespace: a}, spec: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]}}
";
    let (code, out, err) = ask(world, &["ns:a -> ns:a is empty"]);
    assert_eq!(code, 1, "{out}{err}");
    assert_eq!(ask(world, &["a/web -> a/web is full"]).0, 0);
}

#[test]
fn a_node_is_asked_about_by_each_of_its_addresses() {
    let world = "\
{apiVersion: v1, kind: Node, metadata: {name: k1}, status: {addresses: [{type: InternalIP, address: 192.168.0.1}, {type: ExternalIP, address: 203.0.113.5}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: a}, status: {podIP: 10.0.0.1}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: a}, spec: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 203.0.113.0/24}}]}]}}
";
    assert_eq!(ask(world, &["a/web -> node:k1 is not empty"]).0, 0);
    assert_eq!(ask(world, &["a/web -> node:k1 is full"]).0, 1);
    assert_eq!(ask(world, &["a/web -> ip:203.0.113.5 is full"]).0, 0);
    assert_eq!(ask(world, &["a/web -> ip:192.168.0.1 is empty"]).0, 0);
}
