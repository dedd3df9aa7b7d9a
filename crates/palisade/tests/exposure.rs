//! `palisade exposure` through the built binary: workloads whose pods differ, whose names are those of their makers, and
//! rules that depend on more than addresses and ports.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ask;

use serde_json::{Value, json};

fn exposure(world: &str, arguments: &[&str]) -> (i32, String, String) {
    ask::ask("exposure", world, arguments)
}

/// The first row of a direction.
fn row(world: &str, direction: &str, arguments: &[&str]) -> Value {
    let asked = [arguments, &["--direction", direction]].concat();
    ask::json_of("exposure", world, &asked)["exposure"][0].clone()
}

fn pod(name: &str, labels: &str, address: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: ns, labels: {{{labels}}}, ownerReferences: [{{apiVersion: apps/v1, kind: ReplicaSet, name: w, uid: u, controller: true}}]}}, status: {{podIP: {address}}}}}\n---\n"
    )
}

const CANARY: &str = "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny-all, namespace: ns}
spec: {podSelector: {}, policyTypes: [Ingress, Egress]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: canary, namespace: ns}
spec:
  podSelector: {matchLabels: {canary: \"y\"}}
  policyTypes: [Egress]
  egress:
  - ports: [{port: 443}]
";

#[test]
fn all_sorts_of_pods_of_a_workload_count() {
    let (plain, canary) = ("app: w", "app: w, canary: \"y\"");
    let worlds = [(plain, canary), (canary, plain)]
        .map(|(one, two)| pod("w-1", one, "10.0.0.1") + &pod("w-2", two, "10.0.0.2") + CANARY);
    let [first, second] = worlds.each_ref().map(|world| row(world, "egress", &["--focus", "ns/w"]));
    assert_eq!(first, second);
    let tcp = json!({"TCP": [[443, 443]], "ICMP": false});
    let anybody = json!({"labels": {}, "namespace": "other", "namespaceLabels": {"kubernetes.io/metadata.name": "other"}, "serviceAccount": "default"});
    assert_eq!(
        first["pods"],
        json!([{"who": "any pod", "example": anybody, "allowed": tcp, "uniform": false}])
    );
    let all = json!({"from": "0.0.0.0", "to": "255.255.255.255"});
    assert_eq!(first["outside"], json!([{"range": all, "allowed": tcp, "uniform": false}]));
    for world in &worlds {
        let (_, out, _) = exposure(world, &["--focus", "ns/w"]);
        assert!(out.contains("sends tcp/443 (some pods)  to any pod\n"), "{out}");
        assert!(out.contains("sends tcp/443 (some pods)  to anywhere outside over IPv4\n"), "{out}");
        assert!(out.contains("accepts nothing  from any pod\n"), "{out}");
    }
    // Pods that are alike are not told to differ, and one by one they are what they are.
    let alike = pod("w-1", canary, "10.0.0.1") + &pod("w-2", canary, "10.0.0.2") + CANARY;
    assert_eq!(
        row(&alike, "egress", &[])["pods"],
        json!([{"who": "any pod", "example": anybody, "allowed": tcp}])
    );
    let one = row(&worlds[0], "egress", &["--pods", "--focus", "ns/w-1"]);
    assert_eq!(one["pods"], json!([{"who": "any pod", "example": anybody, "allowed": {"ICMP": false}}]));
}

#[test]
fn what_only_some_pods_name_is_told_apart_for_all_of_them() {
    let policy = "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: open, namespace: ns}
spec:
  podSelector: {}
  ingress: [{from: [{podSelector: {matchLabels: {role: a}}}], ports: [{port: 80}]}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: more, namespace: ns}
spec:
  podSelector: {matchLabels: {canary: \"y\"}}
  ingress: [{from: [{podSelector: {matchLabels: {role: b}}}, {ipBlock: {cidr: 203.0.113.0/24}}], ports: [{port: 81}]}]
";
    let world = pod("w-1", "app: w", "10.0.0.1") + &pod("w-2", "canary: \"y\"", "10.0.0.2") + policy;
    let row = row(&world, "ingress", &[]);
    let tcp = |port: u16| json!({"TCP": [[port, port]], "ICMP": false});
    let pods = row["pods"].as_array().unwrap();
    let of = |who: &str| pods.iter().find(|one| one["who"] == who).unwrap_or_else(|| panic!("{pods:?}"));
    let uniform = of("pods with role=a of namespace ns");
    assert_eq!((&uniform["allowed"], &uniform["uniform"]), (&tcp(80), &Value::Null));
    let some = of("pods with role=b of namespace ns");
    assert_eq!((&some["allowed"], &some["uniform"]), (&tcp(81), &json!(false)));
    assert_eq!(of("any other pod")["allowed"], json!({"ICMP": false}));
    assert_eq!(row["outside"].as_array().unwrap().len(), 1);
    assert_eq!(row["outside"][0]["uniform"], json!(false));
}

#[test]
fn whoever_has_no_policy_among_the_pods_counts_too() {
    let policy = "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed, namespace: ns}
spec: {podSelector: {matchLabels: {app: w}}, policyTypes: [Ingress]}
";
    let world = pod("w-1", "app: w", "10.0.0.1") + &pod("w-2", "app: v", "10.0.0.2") + policy;
    let (_, out, _) = exposure(&world, &["--direction", "ingress"]);
    assert!(out.contains("accepts all (some pods)  from any pod\n"), "{out}");
    assert!(out.contains("accepts all (some pods)  from anywhere outside over IPv4\n"), "{out}");
}

#[test]
fn a_workload_goes_by_the_names_of_its_makers_and_its_pods() {
    let world = pod("web-5d4f8-x2x4z", "app: w, pod-template-hash: 5d4f8", "10.0.0.1")
        .replace("name: w,", "name: web-5d4f8,");
    for name in ["ns/web", "ns/web-5d4f8", "ns/web-5d4f8-x2x4z"] {
        let (code, out, err) = exposure(&world, &["--focus", name]);
        assert_eq!(code, 0, "{name}: {err}");
        assert!(out.starts_with("ns/web-5d4f8 (ReplicaSet)\n"), "{name}: {out}");
        let (code, out, err) = exposure(&world, &["--pods", "--focus", name]);
        assert_eq!(code, 0, "{name}: {err}");
        assert!(out.starts_with("ns/web-5d4f8-x2x4z (Pod)\n"), "{name}: {out}");
    }
}

#[test]
fn a_mistake_costs_one_try() {
    let world = pod("w-1", "app: w", "10.0.0.1");
    for (world, arguments, says) in [
        (&*world, &["--focus", "ns/x"][..], "error: no workload ns/x in -\n  did you mean ns/w"),
        (&world, &["--focus", "w"], "--focus w: expected NAMESPACE/NAME"),
        (&world, &["--namespace", "nss"], "error: no pods in namespace nss in -\n  did you mean ns?"),
        (&world, &["--dns", "x"], "--dns x: expected NAME=IP"),
        ("", &[], "error: no workloads in -\n"),
    ] {
        let (code, out, err) = exposure(world, arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
        assert!(err.contains(says), "{arguments:?}: {err}");
    }
}

#[test]
fn rules_about_names_and_on_condition_are_noted() {
    let policy = "
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: out, namespace: ns}
spec:
  priority: 5
  tier: application
  appliedTo: [{podSelector: {}}]
  egress:
  - {name: api, action: Allow, to: [{fqdn: api.example.com}], ports: [{protocol: TCP, port: 443}]}
  - {action: Allow, to: [{podSelector: {matchLabels: {app: db}}}], l7Protocols: [{http: {method: GET}}]}
  - {action: Drop}
";
    let world = pod("w-1", "app: w", "10.0.0.1") + policy;
    let (code, out, err) = exposure(&world, &["--direction", "egress"]);
    assert_eq!(code, 0, "{err}");
    let flat = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("note: egress rule 0 \"api\" of"), "{out}");
    assert!(
        flat.contains("names whose addresses are not known, and matches nothing here: api.example.com"),
        "{out}"
    );
    assert!(flat.contains("allows only HTTP") && flat.contains("GET"), "{out}");
    assert_eq!(row(&world, "egress", &[])["notes"].as_array().unwrap().len(), 2);
    let known = row(&world, "egress", &["--dns", "api.example.com=198.51.100.7"]);
    assert_eq!(known["notes"].as_array().unwrap().len(), 1, "{known}");
    assert_eq!(known["outside"][0]["range"], json!({"from": "198.51.100.7", "to": "198.51.100.7"}));
}
