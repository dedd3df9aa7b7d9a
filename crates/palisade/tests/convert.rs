//! `palisade convert` as users and programs meet it.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod run;

use serde_json::Value;

use run::palisade;

const SHOP: &str = "examples/shop";
const THORIUM: &str = "examples/thorium";

#[test]
fn admin_policies_are_said_anew_and_compared() {
    let arguments = ["convert", "--to", "clusternetworkpolicy", "--from", "adminnetworkpolicy", "-f", SHOP];
    let (code, out, err) = palisade(&arguments, "");
    assert_eq!(code, 0, "{err}");
    // One was there already, and stands before those that come.
    assert_eq!(out.matches("kind: ClusterNetworkPolicy\n").count(), 3);
    assert!(out.contains("  name: tenants\nspec:\n  tier: Admin\n  priority: 10\n"), "{out}");
    assert!(
        err.contains("2 objects said in 2 objects, with the same verdict for every connection "),
        "{err}"
    );
    // Whoever reads it finds nothing wrong with it.
    let (code, text, _) = palisade(&["check", "--strict", "-f", "-"], &out);
    assert_eq!(code, 0, "{text}");
    // Converted is converted.
    let (code, again, _) = palisade(&["convert", "--to", "clusternetworkpolicy", "-f", "-"], &out);
    assert_eq!((code, again), (0, out));
}

#[test]
fn what_is_replaced_is_to_be_deleted_from_the_last_to_the_first() {
    let arguments = ["convert", "--to", "clusternetworkpolicy", "--from", "adminnetworkpolicy", "-f", SHOP];
    let (_, _, err) = palisade(&arguments, "");
    let after = err.split("delete what they take the place of:\n").nth(1).unwrap();
    let lines: Vec<&str> = after.lines().collect();
    assert_eq!(
        lines,
        [
            "  kubectl delete baselineadminnetworkpolicy.policy.networking.k8s.io default",
            "  kubectl delete adminnetworkpolicy.policy.networking.k8s.io tenants",
        ]
    );
}

#[test]
fn what_is_wrong_with_others_does_not_keep_from_converting() {
    let policies = "apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {name: right}
spec: {priority: 5, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: wrong, namespace: shop}
spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: nonsense}}]}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop}
spec: {podSelector: {}}
";
    let all = ["convert", "--to", "clusternetworkpolicy", "-f", "-"];
    let (code, out, err) = palisade(&all, policies);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    let some = [&all[..], &["--from", "adminnetworkpolicy"]].concat();
    let (code, out, err) = palisade(&some, policies);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("name: right\n") && !out.contains("wrong"), "{out}");
    assert!(err.contains("<stdin>:9") && err.contains("these stay as they are"), "{err}");
    // Of the dialect that is converted it does.
    let some = [&all[..], &["--from", "networkpolicy", "--partial"]].concat();
    assert_eq!(palisade(&some, policies).0, 1);
}

#[test]
fn what_cannot_be_said_is_named_and_nothing_is_printed() {
    let arguments = ["convert", "--to", "clusternetworkpolicy", "--from", "antrea", "-f", SHOP];
    let (code, out, err) = palisade(&arguments, "");
    assert_eq!((code, out.as_str()), (1, ""));
    for text in [
        "error[C0101]: Reject answers",
        "examples/shop/antrea.yaml:30",
        "ClusterNetworkPolicy lab-containment, spec.egress[1].action",
        "error[C0104]: tcp/http",
        "3 things cannot be said: so nothing is converted",
    ] {
        assert!(err.contains(text), "{text}\n{err}");
    }
}

#[test]
fn a_part_is_printed_if_asked_for() {
    let arguments = [
        "convert",
        "--to",
        "clusternetworkpolicy",
        "--partial",
        "-f",
        "examples/shop/admin.yaml",
        "-f",
        "examples/shop/antrea.yaml",
    ];
    let (code, out, err) = palisade(&arguments, "");
    assert_eq!(code, 1);
    assert!(out.contains("name: tenants") && !out.contains("lab-containment"), "{out}");
    assert!(err.contains("3 things cannot be said: stays as it is"), "{err}");
}

#[test]
fn objects_can_be_had_as_json() {
    let arguments = [
        "convert",
        "--to",
        "antrea",
        "--from",
        "networkpolicy",
        "-f",
        "examples/shop/policies.yaml",
        "--output",
        "json",
    ];
    let (code, out, err) = palisade(&arguments, "");
    assert_eq!(code, 0, "{err}");
    let list: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(list["kind"], "List");
    assert!(
        list["items"].as_array().unwrap().iter().all(|item| item["apiVersion"] == "crd.antrea.io/v1beta1")
    );
}

#[test]
fn policies_of_2016_become_those_of_today() {
    let arguments = ["convert", "--to", "networkpolicy", "-f", "examples/shop/legacy.yaml"];
    let (code, out, err) = palisade(&arguments, "");
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("apiVersion: networking.k8s.io/v1\n") && !out.contains("extensions"), "{out}");
    assert!(out.contains("  name: default-deny-ingress\n  namespace: legacy\n"), "{out}");
    assert!(err.contains("note[C0205]"), "{err}");
}

#[test]
fn thoriums_policies_are_what_they_compile_to() {
    let arguments = ["convert", "--to", "networkpolicy", "-f", THORIUM];
    let (code, out, err) = palisade(&arguments, "");
    assert_eq!(code, 0, "{err}");
    let (_, compiled, _) = palisade(&["compile", "--to", "kubernetes", "-f", THORIUM], "");
    let compiled: Vec<&str> = compiled.split("---\n").collect();
    for object in out.split("---\n") {
        assert!(compiled.contains(&object), "{object}");
    }
}

#[test]
fn there_is_nothing_to_say_about_nothing() {
    let (code, out, err) =
        palisade(&["convert", "--to", "antrea", "-f", "examples/shop/namespaces.yaml"], "");
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("nothing to convert in examples/shop/namespaces.yaml"), "{err}");
    let (code, _, err) = palisade(&["convert", "--to", "antrea", "-f", "no-such-file.yaml"], "");
    assert!(code == 2 && err.contains("no-such-file.yaml"), "{err}");
}

#[test]
fn what_is_refused_is_not_converted() {
    let policy = "apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {name: wrong}
spec:
  priority: 5000
  subject: {namespaces: {}}
";
    for partial in [&[][..], &["--partial"]] {
        let arguments = [&["convert", "--to", "clusternetworkpolicy", "-f", "-"], partial].concat();
        let (code, out, err) = palisade(&arguments, policy);
        assert_eq!((code, out.as_str()), (1, ""));
        assert!(err.contains("<stdin>:5") && err.contains("nothing is converted"), "{err}");
    }
}
