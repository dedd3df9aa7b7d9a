//! "No difference" is a proof: what rows of workloads do not tell of is compared, too, or said not to be.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod folder;

use serde_json::json;

use folder::Folder;

const PODS: &str = "\
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {app: web}}, status: {podIP: 10.0.1.1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: db, namespace: shop, labels: {app: db}}, status: {podIP: 10.0.1.77}}
---
{apiVersion: v1, kind: Node, metadata: {name: w1}, status: {addresses: [{type: InternalIP, address: 192.168.0.11}, {type: ExternalIP, address: 203.0.113.9}]}}
";

fn policy(rest: &str) -> String {
    format!(
        "{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: p, namespace: shop}}, spec: {{podSelector: {{}}, {rest}}}}}\n"
    )
}

fn admin(egress: &str) -> String {
    format!(
        "{{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {{name: a}}, spec: {{tier: Admin, priority: 5, subject: {{namespaces: {{}}}}, egress: [{egress}]}}}}\n"
    )
}

/// A folder with two sides, and what both have.
fn sides(before: &str, after: &str, both: &str) -> Folder {
    let folder = Folder::new();
    folder.write("before.yaml", before);
    folder.write("after.yaml", after);
    folder.write("both.yaml", both);
    folder
}

const DIFF: [&str; 5] = ["diff", "before.yaml", "after.yaml", "-f", "both.yaml"];

#[test]
fn policies_alone_are_compared_for_pods_there_could_be() {
    let same = policy("ingress: [{from: [{podSelector: {}}]}]");
    let open = policy("ingress: [{}]");
    let folder = sides(&same, &open, "");
    let (code, out, _) = folder.palisade(&DIFF[..3]);
    assert_eq!(code, 1, "{out}");
    assert!(out.starts_with("Different for pods there could be"), "{out}");
    assert!(
        out.contains("opens, e.g. a pod without labels of another namespace -> a pod without labels of shop"),
        "{out}"
    );
    assert_eq!(folder.palisade(&[&DIFF[..3], &["--fail-on", "closed"]].concat()).0, 0);
    let (code, out, _) = folder.palisade(&["diff", "before.yaml", "before.yaml"]);
    assert_eq!(code, 0);
    assert!(out.contains("the policies say the same of any pods there could be"), "{out}");
    // Where there are workloads and none of them is concerned, they are the answer; the others are said.
    folder.write("both.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: other}}\n");
    let (code, out, _) = folder.palisade(&DIFF);
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("but for pods that are not there yet") && out.contains("opens, e.g."), "{out}");
    let document = folder.json(&[&DIFF[..], &["--output", "json"]].concat());
    assert!(document["potential"]["opened"].is_string() && document["potential"]["closed"].is_null());
}

#[test]
fn nodes_are_compared_by_every_address() {
    let allow = "{action: Accept, to: [{namespaces: {}}]}";
    let nodes = format!("{{action: Deny, to: [{{nodes: {{}}}}]}}, {allow}");
    let folder = sides(&admin(allow), &admin(&nodes), PODS);
    let (code, out, _) = folder.palisade(&DIFF);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("CLOSES  all workloads → node w1   all"), "{out}");
    let document = folder.json(&[&DIFF[..], &["--output", "json"]].concat());
    assert_eq!(document["changes"], json!([]));
    assert_eq!(document["nodes"][0]["dst"], json!({"node": {"names": ["w1"]}}));
    // The second address of a node counts like the first.
    let isolated = "policyTypes: [Egress], egress: [";
    let to = format!("{isolated}{{to: [{{ipBlock: {{cidr: 203.0.113.0/24}}}}]}}]");
    let folder = sides(&policy(&format!("{isolated}]")), &policy(&to), PODS);
    let (_, out, _) = folder.palisade(&DIFF);
    assert!(out.contains("all workloads → node w1, 203.0.113.0/24   all"), "{out}");
}

#[test]
fn pods_that_are_not_like_the_others_are_told_apart() {
    let pod = |name: &str, labels: &str, last: u8| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: shop, labels: {{{labels}}}, ownerReferences: [{{apiVersion: apps/v1, kind: ReplicaSet, name: web-5d4f, uid: u, controller: true}}]}}, status: {{podIP: 10.0.2.{last}}}}}\n---\n"
        )
    };
    let pods = pod("a", "app: web", 1)
        + &pod("b", "app: web, canary: 'yes'", 2)
        + &policy("policyTypes: [Ingress, Egress]");
    let allow = |labels: &str| {
        format!(
            "{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: out, namespace: shop}}, spec: {{podSelector: {{matchLabels: {{{labels}}}}}, policyTypes: [Egress], egress: [{{to: [{{ipBlock: {{cidr: 0.0.0.0/0}}}}], ports: [{{port: 443}}]}}]}}}}\n"
        )
    };
    let folder = sides(&allow("canary: 'yes'"), &allow("app: web"), &pods);
    let (code, out, _) = folder.palisade(&DIFF);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("OPENS   pod shop/a → anywhere outside over IPv4   tcp/443"), "{out}");
    let document = folder.json(&[&DIFF[..], &["--output", "json"]].concat());
    assert_eq!(document["changes"], json!([]));
    assert_eq!(
        document["pods"][0]["src"],
        json!({"workload": {"namespace": "shop", "name": "a", "kind": "Pod"}})
    );
    // A row to the outside says that it is about some pods only.
    let map = folder.json(&["map", "-f", "before.yaml", "-f", "both.yaml", "--output", "json"]);
    assert_eq!(map["connections"][0]["uniform"], json!(false), "{map:#}");
}

#[test]
fn names_whose_addresses_are_not_known_are_compared_all_the_same() {
    let deny = "{action: Deny, to: [{networks: [0.0.0.0/0, '::/0']}]}";
    let named = format!("{{action: Accept, to: [{{domainNames: ['*.example.com']}}]}}, {deny}");
    let folder = sides(&admin(deny), &admin(&named), PODS);
    let (code, out, _) = folder.palisade(&[&DIFF[..], &["--fail-on", "opened"]].concat());
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("opens, e.g. shop/") && out.contains(".example.com tcp/80"), "{out}");
    let known = [&DIFF[..], &["--dns", "www.example.com=198.51.100.7"]].concat();
    let (code, out, _) = folder.palisade(&known);
    assert_eq!(code, 1);
    assert!(out.contains("OPENS   all workloads → 198.51.100.7   all"), "{out}");
}

#[test]
fn what_no_verdict_tells_of_is_said() {
    let antrea = |rest: &str| {
        format!(
            "{{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {{name: a}}, spec: {{priority: 5, appliedTo: [{{podSelector: {{}}}}], egress: [{{{rest}, to: [{{podSelector: {{}}}}], ports: [{{port: 80, protocol: TCP}}]}}]}}}}\n"
        )
    };
    let folder = sides(&antrea("action: Drop"), &antrea("action: Reject"), PODS);
    let (code, out, _) = folder.palisade(&DIFF);
    assert_eq!(code, 0, "{out}");
    let line = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        line.contains("refused in another way") && line.contains("denied before and rejected after"),
        "{out}"
    );
    let get = "action: Allow, l7Protocols: [{http: {method: GET}}]";
    let folder = sides(&antrea(get), &antrea("action: Allow, l7Protocols: [{http: {}}]"), PODS);
    let (code, out, _) = folder.palisade(&DIFF);
    assert_eq!(code, 0, "{out}");
    assert!(
        out.contains(
            "The conditions of egress rule 0 of Antrea ClusterNetworkPolicy a on layer 7 are others"
        ),
        "{out}"
    );
}

#[test]
fn ipv6_that_opens_is_told_although_something_else_closes() {
    let deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c}]}}}}\n";
    let before = policy("policyTypes: [Egress], egress: [{to: [{namespaceSelector: {}}]}]");
    let after =
        admin("{action: Deny, to: [{networks: [0.0.0.0/0]}]}") + "---\n" + &policy("policyTypes: [Ingress]");
    let folder = sides(&before, &after, deployment);
    let (code, out, _) = folder.palisade(&[&DIFF[..], &["--fail-on", "opened"]].concat());
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("OPENS   shop/web → anywhere outside over IPv6   all"), "{out}");
}

#[test]
fn what_could_not_be_read_is_in_the_comment() {
    let good = policy("ingress: []");
    let folder = sides(&good, &(good.clone() + "---\nspec: {podSelector: {"), PODS);
    let (code, out, _) = folder.palisade(&[&DIFF[..], &["--output", "md"]].concat());
    assert_eq!(code, 0, "{out}");
    assert!(out.starts_with("### Network policy: no difference in what could be read"), "{out}");
    assert!(out.contains("> [!WARNING]") && out.contains("`after.yaml:"), "{out}");
    let document = folder.json(&[&DIFF[..], &["--output", "json"]].concat());
    assert_eq!(document["inputProblems"].as_array().map(Vec::len), Some(1), "{document:#}");
}

#[test]
fn standard_input_is_one_side() {
    let folder = sides(&policy("ingress: []"), "", PODS);
    for arguments in [vec!["diff", "-", "-"], vec!["diff", "before.yaml", "after.yaml", "-f", "-"]] {
        let (code, out, err) = folder.palisade(&arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}");
        assert!(err.contains("standard input can be read once"), "{err}");
    }
}

#[test]
fn git_compares_as_git_does() {
    let folder = sides("", "", PODS);
    folder.write("k/p.yaml", &policy("ingress: []"));
    folder.write(".gitignore", "rendered/\n");
    folder.git(&["init", "-q"]);
    folder.git(&["add", "."]);
    folder.git(&["commit", "-qm", "one"]);
    folder.git(&["checkout", "-qb", "branch"]);
    folder.write("k/q.yaml", &policy("ingress: []").replace("name: p,", "name: q,"));
    folder.git(&["add", "."]);
    folder.git(&["commit", "-qm", "two"]);
    folder.git(&["checkout", "-q", "main"]);
    folder.write("k/p.yaml", &policy("ingress: [{}]"));
    folder.git(&["commit", "-qam", "three"]);
    // Since they went apart the branch changed nothing; what main did is not its doing.
    let (code, out, err) = folder.palisade(&["diff", "--git", "main...branch", "k", "-f", "both.yaml"]);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(folder.palisade(&["diff", "--git", "main..branch", "k", "-f", "both.yaml"]).0, 1);
    // What git ignores is no part of a change.
    folder.write("k/rendered/r.yaml", &policy("ingress: []").replace("name: p,", "name: r,"));
    let (code, out, err) = folder.palisade(&["diff", "--git", "main", "k", "-f", "both.yaml"]);
    assert_eq!(code, 0, "{out}{err}");
}

#[test]
fn within_is_judged_by_all_there_is_and_explained_by_one_connection() {
    // More closes than is kept apart, and then something opens.
    let pod = |name: &str, namespace: &str| {
        format!("{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: {namespace}}}}}\n---\n")
    };
    let many: String = (0..460).map(|at| pod(&format!("p{at}"), "a")).collect();
    let pods = many + &pod("x", "z") + &pod("y", "z");
    let deny = policy("policyTypes: [Ingress]");
    let only_a =
        policy("ingress: [{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: a}}}]}]");
    let folder = sides(&only_a.replace("shop", "z"), &deny.replace("shop", "a"), &pods);
    let arguments =
        ["query", "-f", "after.yaml", "-f", "both.yaml", "--within", "before.yaml", "--within", "both.yaml"];
    let (code, out, err) = folder.palisade(&arguments);
    assert_eq!(code, 1, "{out}{err}");
    // A small one says which connection, and why.
    let folder = sides(
        &deny,
        &only_a.replace("kubernetes.io/metadata.name: a", "kubernetes.io/metadata.name: shop"),
        PODS,
    );
    let arguments =
        ["query", "-f", "after.yaml", "-f", "both.yaml", "--within", "before.yaml", "--within", "both.yaml"];
    let (code, out, _) = folder.palisade(&arguments);
    assert_eq!(code, 1);
    assert!(out.contains("for example, as it is here:") && out.contains("ALLOWED"), "{out}");
    let document = folder.json(&[&arguments[..], &["--output", "json"]].concat());
    assert_eq!(document["compared"][0]["counterexample"]["verdict"], json!("allow"), "{document:#}");
    // The other way round nothing opens.
    let arguments =
        ["query", "-f", "before.yaml", "-f", "both.yaml", "--within", "after.yaml", "--within", "both.yaml"];
    assert_eq!(folder.palisade(&arguments).0, 0);
    // Policies alone are compared for pods there could be.
    let arguments = ["query", "-f", "after.yaml", "--within", "before.yaml"];
    assert_eq!(folder.palisade(&arguments).0, 1);
    assert_eq!(folder.palisade(&["query", "-f", "before.yaml", "--within", "after.yaml"]).0, 0);
}

#[test]
fn the_ingress_controller_counts_for_equality_too() {
    let service = "\
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}}
---
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i, namespace: shop}, spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {app: web}}, status: {podIP: 10.0.1.1}}
";
    let folder =
        sides(&policy("ingress: []"), &policy("ingress: [{from: [{namespaceSelector: {}}]}]"), service);
    let arguments =
        ["query", "-f", "after.yaml", "-f", "both.yaml", "--equals", "before.yaml", "--equals", "both.yaml"];
    let (code, out, _) = folder.palisade(&arguments);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("ingress controller → shop/web"), "{out}");
}

#[test]
fn more_source_ports_than_are_told_apart_are_said() {
    let rules = |from: usize| -> String {
        let rule = |at: usize| {
            format!(
                "{{action: Drop, to: [{{podSelector: {{}}}}], ports: [{{protocol: TCP, port: {}, sourcePort: {}}}]}},",
                2000 + at,
                40000 + 2 * at
            )
        };
        let rules: String = (from..600).map(rule).collect();
        format!(
            "{{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {{name: a}}, spec: {{priority: 5, appliedTo: [{{podSelector: {{}}}}], egress: [{rules}]}}}}\n"
        )
    };
    let folder = sides(&rules(0), &rules(1), PODS);
    let (code, out, err) = folder.palisade(&DIFF);
    assert!(err.contains("too many ranges of source ports"), "{err}");
    assert!(out.starts_with("No difference in what was compared"), "{out}");
    // The first rule is on one side only: that nothing differs is not claimed.
    assert_eq!(code, 2, "{out}");
}

#[test]
fn labels_and_rollouts_are_named_as_causes() {
    let pod = |hash: &str, app: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: web-{hash}-x, namespace: shop, labels: {{app: {app}, pod-template-hash: {hash}}}, ownerReferences: [{{apiVersion: apps/v1, kind: ReplicaSet, name: web-{hash}, uid: u, controller: true}}]}}, status: {{podIP: 10.0.2.1}}}}\n"
        )
    };
    let folder = sides(
        &pod("abc", "web"),
        &pod("def", "web"),
        &(PODS.to_owned()
            + "---\n"
            + &policy("ingress: []").replace("podSelector: {}", "podSelector: {matchLabels: {app: api}}")),
    );
    let (code, out, _) = folder.palisade(&DIFF);
    assert_eq!(code, 1);
    assert!(out.contains("--by-deployment"), "{out}");
    let by_deployment = [&DIFF[..], &["--by-deployment"]].concat();
    let (code, out, _) = folder.palisade(&by_deployment);
    assert_eq!(code, 0, "{out}");
    folder.write("after.yaml", &pod("def", "api"));
    let (code, out, _) = folder.palisade(&by_deployment);
    assert_eq!(code, 1);
    assert!(out.contains("Labels changed: shop/web (-app=web +app=api)"), "{out}");
}

/// A pod's own node reaches it whatever policies say; another node does not.
#[test]
fn a_node_is_not_cut_off_from_its_own_pods() {
    let pod = |name: &str, node: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{namespace: shop, name: {name}}}, spec: {{nodeName: {node}}}}}\n"
        )
    };
    let node = "{apiVersion: v1, kind: Node, metadata: {name: w1}, status: {addresses: [{type: InternalIP, address: 192.0.2.1}]}}\n";
    let isolated = policy("policyTypes: [Ingress]");
    let folder = sides("", &isolated, &format!("{node}{}{}", pod("db", "w1"), pod("web", "w1")));
    let (code, out, _) = folder.palisade(&DIFF);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("CLOSES") && !out.contains("node w1"), "{out}");
    let (_, out, _) =
        folder.palisade(&["explain", "-f", "both.yaml", "-f", "after.yaml", "node:w1 -> shop/db tcp/80"]);
    assert!(out.starts_with("ALLOWED"), "{out}");
    folder.write("both.yaml", &format!("{node}{}{}", pod("db", "w1"), pod("web", "w2")));
    let (_, out, _) = folder.palisade(&DIFF);
    assert!(out.contains("CLOSES  shop/web, anywhere outside over IPv4 → shop/db   all\n"), "{out}");
    assert!(out.contains("CLOSES  shop/db, node w1, anywhere outside over IPv4 → shop/web   all\n"), "{out}");
}
