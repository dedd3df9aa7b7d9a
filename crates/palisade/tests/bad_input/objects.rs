//! Texts that can be read and objects that cannot.

use crate::harness::{Folder, PODS, POLICY, at, between, check, explain};

/// A policy with a spec in one line, its own line 4.
fn policy(spec: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: p, namespace: x}}\nspec: {spec}"
    )
}

#[test]
fn wrong_types_are_located() {
    assert_eq!(between(&policy("{podSelector: [a]}")), (1, vec![at("S0006", 4, 21)]));
    assert_eq!(between(&policy("{podSelector: {}, ingress: 1}")), (1, vec![at("S0006", 4, 34)]));
    assert_eq!(
        between("apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {a: 1}}").1,
        [at("S0006", 3, 33)]
    );
    assert_eq!(between("just words"), (1, vec![at("S0008", 1, 1)]));
    assert_eq!(between("- a\n- b"), (1, vec![at("S0008", 1, 1)]));
}

#[test]
fn cidrs_with_host_bits_are_refused() {
    let (code, found) =
        between(&policy("{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.1/8}}]}]}"));
    assert_eq!((code, found), (1, vec![at("K0204", 4, 60)]));
}

#[test]
fn ports_out_of_range_are_refused() {
    let (code, found) =
        between(&policy("{podSelector: {}, ingress: [{ports: [{port: 65536}, {port: -1}]}]}"));
    assert_eq!((code, found), (1, vec![at("K0201", 4, 51), at("K0201", 4, 66)]));
    let (_, found) =
        between(&policy("{podSelector: {}, ingress: [{ports: [{port: 99999999999999999999}]}]}"));
    assert_eq!(found, [at("S0006", 4, 51)]);
}

#[test]
fn bad_operators_are_refused() {
    let (code, found) =
        between(&policy("{podSelector: {matchExpressions: [{key: a, operator: Is, values: [b]}]}}"));
    assert_eq!((code, found), (1, vec![at("K0206", 4, 60)]));
}

#[test]
fn duplicate_objects_are_said_and_the_later_counts() {
    let folder = Folder::new();
    let open = POLICY.replace("policyTypes: [Ingress]", "ingress: [{}]");
    let path = folder.write("a.yaml", format!("{PODS}---\n{open}---\n{POLICY}"));
    let found = check(&[&path], b"");
    assert_eq!((found.code, found.objects, found.found), (0, 3, vec![at("S0012", 14, 1)]));
    assert_eq!(explain(&[&path], b""), 1);
    let path = folder.write("b.yaml", format!("{PODS}---\n{POLICY}---\n{open}"));
    assert_eq!(explain(&[&path], b""), 0);
}

#[test]
fn words_that_yaml_takes_for_booleans_are_explained() {
    for name in ["no", "on", "y", "Off", "true"] {
        let folder = Folder::new();
        let path =
            folder.write("a.yaml", format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n"));
        let check = check(&[&path], b"");
        assert_eq!(check.code, 1);
        let help = check.diagnostics.iter().filter_map(|d| d["help"].as_str()).collect::<Vec<_>>();
        assert!(help.iter().any(|help| help.contains(&format!("\"{name}\""))), "{check:?}");
        let path = folder
            .write("a.yaml", format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: '{name}'}}\n"));
        assert_eq!(crate::harness::check(&[&path], b"").objects, 1);
    }
}

#[test]
fn unknown_kinds_of_our_groups_are_said() {
    for (api_version, kind) in [
        ("networking.k8s.io/v1", "NetworkPolcy"),
        ("networking.k8s.io/v2", "NetworkPolicy"),
        ("policy.networking.k8s.io/v1alpha1", "AdminNetworkPolice"),
        ("policy.networking.k8s.io/v9", "AdminNetworkPolicy"),
        ("v1", "NetworkPolicy"),
    ] {
        let (code, found) =
            between(&format!("apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: a}}"));
        assert_eq!((code, found), (1, vec![at("S0009", 2, 7)]), "{api_version} {kind}");
    }
    let (_, found) = between("apiVersion: cilium.io/v2\nkind: CiliumNetworkPolicy\nmetadata: {name: a}");
    assert_eq!(found, [at("S0011", 2, 7)]);
}

#[test]
fn kinds_of_no_concern_are_passed_over() {
    for (api_version, kind) in [
        ("v1", "Secret"),
        ("v1", "ConfigMap"),
        ("networking.k8s.io/v1", "IngressClass"),
        ("example.com/v1", "Widget"),
    ] {
        let object =
            format!("apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: a}}\nspec: [1, {{a: b}}]");
        assert_eq!(between(&object), (0, vec![]), "{kind}");
    }
}

#[test]
fn objects_without_name_kind_or_version_are_left_out() {
    assert_eq!(
        between("apiVersion: v1\nkind: Pod\nmetadata: {labels: {a: b}}"),
        (1, vec![at("S0014", 3, 11)])
    );
    assert_eq!(between("kind: Pod\nmetadata: {name: a}"), (1, vec![at("S0010", 1, 7)]));
    assert_eq!(between("apiVersion: v1\nmetadata: {name: a}"), (1, vec![at("S0010", 1, 1)]));
    assert_eq!(between("{}"), (1, vec![at("S0010", 1, 1)]));
    assert_eq!(between("# nothing is here"), (0, vec![]));
}

#[test]
fn lists_load_as_kubectl_and_the_api_print_them() {
    let folder = Folder::new();
    let list = folder.write(
        "list.yaml",
        "apiVersion: v1\nkind: List\nmetadata: {resourceVersion: ''}\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}}\n- just words\n",
    );
    let raw = r#"{"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [
        {"metadata": {"name": "db", "namespace": "shop", "labels": {"app": "db"}}}, {"metadata": {}}]}"#;
    let raw = folder.write("raw.json", raw);
    let policies = POLICY.replace("kind: NetworkPolicy\n", "");
    let policies = policies.replace("apiVersion: networking.k8s.io/v1\n", "").replace("\nspec", "\n  spec");
    let policies = folder.write(
        "policies.yaml",
        format!("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicyList\nitems:\n- {policies}"),
    );
    let paths = [list.as_str(), &raw, &policies];
    let check = check(&paths, b"");
    assert_eq!((check.code, check.objects), (1, 3));
    assert_eq!(check.found, [at("S0008", 6, 3), at("S0014", 2, 98)]);
    assert_eq!(explain(&paths, b""), 1);
}
