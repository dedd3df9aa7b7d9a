//! `palisade diff`, `query` and `exposure` through the built binary, on small worlds.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod folder;

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use folder::Folder;

const CLUSTER: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: store}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, ports: [{name: http, containerPort: 8080}]}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec:
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c}]}
---
apiVersion: v1
kind: Pod
metadata: {name: scan, namespace: ops, labels: {app: scan}}
status: {podIP: 10.0.0.9}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: front, namespace: shop}
spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}
";

fn db_policy(port: u16) -> String {
    format!(
        "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: db-ingress, namespace: shop}}
spec:
  podSelector: {{matchLabels: {{app: db}}}}
  ingress:
  - from: [{{podSelector: {{matchLabels: {{app: web}}}}}}]
    ports: [{{port: {port}}}]
"
    )
}

fn two_sides() -> Folder {
    let folder = Folder::new();
    folder.write("cluster.yaml", CLUSTER);
    folder.write("old/db.yaml", &db_policy(3306));
    folder.write("new/db.yaml", &db_policy(5432));
    folder
}

const SIDES: [&str; 5] = ["diff", "old", "new", "-f", "cluster.yaml"];

#[test]
fn what_opens_and_closes_is_said_with_the_rules_that_decide() {
    let folder = two_sides();
    let (code, out, err) = folder.palisade(&SIDES);
    assert_eq!((code, err.as_str()), (1, ""));
    assert!(out.starts_with("1 connection opens, 1 closes   (3 workloads"), "{out}");
    assert!(out.contains("OPENS   shop/web → shop/db   tcp/5432"), "{out}");
    assert!(out.contains("CLOSES  shop/web → shop/db   tcp/3306"), "{out}");
    assert!(out.contains("rule 0 of NetworkPolicy shop/db-ingress   new/db.yaml:8"), "{out}");
    assert!(
        out.contains("NetworkPolicy shop/db-ingress isolates it, and no rule allows it   old/db.yaml"),
        "{out}"
    );
}

#[test]
fn programs_get_before_and_after() {
    let folder = two_sides();
    let document = folder.json(&[&SIDES[..], &["--output", "json"]].concat());
    let changes = document["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{document:#}");
    let change = &changes[0];
    assert_eq!(change["kind"], "changed");
    assert_eq!(
        change["src"],
        json!({"workload": {"namespace": "shop", "name": "web", "kind": "Deployment"}})
    );
    assert_eq!(
        change["dst"],
        json!({"workload": {"namespace": "shop", "name": "db", "kind": "StatefulSet"}})
    );
    assert_eq!(change["before"], json!({"TCP": [[3306, 3306]], "ICMP": false}));
    assert_eq!(change["after"], json!({"TCP": [[5432, 5432]], "ICMP": false}));
    assert_eq!(change["opened"]["TCP"], json!([[5432, 5432]]));
    assert_eq!(change["opened"]["decidedAfter"][0]["file"], "new/db.yaml");
    assert_eq!(change["closed"]["decidedBefore"][0]["policies"], json!(["NetworkPolicy shop/db-ingress"]));
    assert_eq!(document["summary"], json!({"opened": 1, "closed": 1, "workloads": 3, "pairs": 9}));
}

#[test]
fn no_difference_is_exit_0_and_says_what_was_compared() {
    let folder = two_sides();
    // The same in other words: two rules for one.
    folder.write(
        "words.yaml",
        &db_policy(3306).replace(
            "matchLabels: {app: web}",
            "matchExpressions: [{key: app, operator: In, values: [web]}]",
        ),
    );
    let (code, out, _) = folder.palisade(&["diff", "old", "words.yaml", "-f", "cluster.yaml"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.starts_with("No difference   (3 workloads, 9 pairs and all addresses compared)"), "{out}");
}

#[test]
fn an_ipv6_difference_alone_is_a_difference() {
    let folder = two_sides();
    let policy = |from: &str| {
        format!(
            "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: web, namespace: shop}}
spec:
  podSelector: {{}}
  policyTypes: [Ingress]
  ingress: [{from}]
"
        )
    };
    folder.write("any.yaml", &policy("{}"));
    folder.write("four.yaml", &policy("{from: [{ipBlock: {cidr: 0.0.0.0/0}}, {namespaceSelector: {}}]}"));
    let (code, out, _) = folder.palisade(&[
        "diff",
        "any.yaml",
        "four.yaml",
        "-f",
        "cluster.yaml",
        "--ip-blocks",
        "outside-only",
    ]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("anywhere outside over IPv6"), "{out}");
}

#[test]
fn what_fails_is_chosen() {
    let folder = two_sides();
    folder.write(
        "more/db.yaml",
        &db_policy(3306).replace("ports: [{port: 3306}]", "ports: [{port: 3306}, {port: 5432}]"),
    );
    let code = |arguments: &[&str]| {
        folder.palisade(&[&["diff", "old", "more", "-f", "cluster.yaml"], arguments].concat()).0
    };
    assert_eq!(code(&[]), 1);
    assert_eq!(code(&["--fail-on", "opened"]), 1);
    assert_eq!(code(&["--fail-on", "closed"]), 0);
}

#[test]
fn a_comment_for_a_pull_request_is_a_table_that_names_cannot_break() {
    let folder = two_sides();
    folder.write("new/db.yaml", &db_policy(5432).replace("name: db-ingress", "name: \"db|<img src=x>\""));
    let (code, out, _) = folder.palisade(&[&SIDES[..], &["--output", "md"]].concat());
    assert_eq!(code, 1);
    assert!(out.starts_with("### Network policy: 1 connection opens, 1 closes"), "{out}");
    assert!(!out.contains("<img"), "{out}");
    let rows: Vec<&str> =
        out.lines().filter(|line| line.starts_with("| ⚠️") || line.starts_with("| 🔒")).collect();
    assert_eq!(rows.len(), 2, "{out}");
    for row in rows {
        assert_eq!(row.replace("\\|", "").matches('|').count(), 7, "{row}");
    }
}

#[test]
fn code_scanning_gets_results_at_the_rules_of_now() {
    let folder = two_sides();
    let sarif = folder.json(&[&SIDES[..], &["--output", "sarif"]].concat());
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    assert_eq!(results[0]["ruleId"], "palisade/opens");
    let place = &results[0]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "new/db.yaml");
}

#[test]
fn a_revision_of_git_is_a_side() {
    let folder = Folder::new();
    folder.write("cluster/world.yaml", CLUSTER);
    folder.write("cluster/db.yaml", &db_policy(3306));
    folder.write("cluster/.hidden/no.yaml", "kind: Broken: [");
    folder.git(&["init", "-q"]);
    folder.git(&["add", "."]);
    folder.git(&["commit", "-qm", "one"]);
    assert_eq!(folder.palisade(&["diff", "--git", "HEAD", "cluster"]).0, 0);
    folder.write("cluster/db.yaml", &db_policy(5432));
    let (code, out, err) = folder.palisade(&["diff", "--git", "main", "cluster"]);
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    assert!(out.contains("OPENS   shop/web → shop/db   tcp/5432"), "{out}");
    assert!(out.contains("cluster/db.yaml:8") && out.contains("main:cluster/db.yaml:"), "{out}");
    // Without a path: everything here; from a folder below, too.
    assert_eq!(folder.palisade(&["diff", "--git", "main"]).0, 1);
    folder.git(&["commit", "-qam", "two"]);
    let (code, out, _) = folder.palisade(&["diff", "--git", "main~1..main", "cluster", "--output", "json"]);
    assert_eq!(code, 1, "{out}");
    // A policy that is new, and one that is gone with its file.
    fs::remove_file(folder.0.join("cluster/db.yaml")).unwrap();
    let (code, out, _) = folder.palisade(&["diff", "--git", "main", "cluster"]);
    assert_eq!(code, 1);
    assert!(out.contains("ingress allowed: nothing restricts it"), "{out}");
    for (arguments, words) in [
        (vec!["diff", "--git", "mian", "cluster"], "did you mean main?"),
        (vec!["diff", "--git=--upload-pack=x", "cluster"], "is no git revision"),
        (vec!["diff", "--git", "main", "cluster", "nowhere"], "nowhere: no such file or folder"),
        (vec!["diff", "--git", "main..HEAD", "cluster", "nowhere"], "nowhere: no such file or folder"),
        (
            vec!["diff", "--git", "main", "nowhere"],
            "nowhere: no such file or folder, in main or in the working tree",
        ),
    ] {
        let (code, out, err) = folder.palisade(&arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?} {err}");
        assert!(err.contains(words), "{err}");
    }
}

#[test]
fn workloads_that_come_and_go_are_named() {
    let folder = two_sides();
    folder.write("pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: new, namespace: shop}\n");
    folder.write("empty.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n");
    let document = folder.json(&["diff", "empty.yaml", "pod.yaml", "-f", "cluster.yaml", "--output", "json"]);
    assert_eq!(document["workloads"]["added"], json!([{"namespace": "shop", "name": "new", "kind": "Pod"}]));
    let changes = document["changes"].as_array().unwrap();
    assert!(!changes.is_empty() && changes.iter().all(|change| change["kind"] == "added"), "{document:#}");
}

#[test]
fn the_ingress_controller_reaches_what_policies_let_it() {
    let folder = two_sides();
    folder.write(
        "closed.yaml",
        "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress]}
",
    );
    folder.write("nothing.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n");
    let document =
        folder.json(&["diff", "nothing.yaml", "closed.yaml", "-f", "cluster.yaml", "--output", "json"]);
    let changes = document["changes"].as_array().unwrap();
    let own = changes.iter().find(|change| change["src"] == json!({"ingressController": {}})).unwrap();
    assert_eq!(own["before"], json!({"TCP": [[8080, 8080]], "ICMP": false}));
    assert_eq!((&own["kind"], &own["after"]), (&json!("removed"), &json!({"ICMP": false})));
}

#[test]
fn mistakes_cost_one_try() {
    let folder = two_sides();
    for (arguments, words) in [
        (vec!["diff", "old"], "write palisade diff BEFORE AFTER"),
        (vec!["diff", "old", "gone"], "gone"),
        (vec!["query", "shop/web", "-f", "cluster.yaml"], "has neither -> nor <-"),
        (vec!["query", "shop/wep -> shop/db", "-f", "cluster.yaml"], "shop/wep is nobody"),
        (vec!["query", "-f", "cluster.yaml"], "nothing is asked"),
        (vec!["exposure", "-f", "cluster.yaml", "--focus", "shop/wep"], "did you mean shop/web"),
    ] {
        let (code, out, err) = folder.palisade(&arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?} {err}");
        assert!(err.contains(words), "{arguments:?}: {err}");
    }
}

#[test]
fn queries_hold_or_say_which_connection_speaks_against_them() {
    let folder = two_sides();
    let files = ["-f", "cluster.yaml", "-f", "old"];
    let ask = |query: &str| folder.palisade(&[&["query", query], &files[..]].concat());
    for (query, code) in [
        ("app=web -> app=db tcp/3306 is full", 0),
        ("app=web -> app=db is full", 1),
        ("shop/db <- internet is empty", 0),
        ("shop/web <- internet is empty", 1),
        ("ns:ops -> shop/db is empty", 0),
        ("shop/db <- ip:10.0.0.0/8 must be empty", 0),
        ("shop/app in (web, db) -> shop/db udp is empty", 0),
        ("ops/scan -> internet tcp/1-1024 is full", 0),
    ] {
        let (got, out, err) = ask(query);
        assert_eq!(got, code, "{query}\n{out}{err}");
        assert!(out.contains(if code == 0 { "HOLDS" } else { "FAILS" }), "{out}");
    }
    let (_, out, _) = ask("app=web -> app=db is full");
    assert!(out.contains("DENIED   shop/web") && out.contains("isolated by shop/db-ingress"), "{out}");
    let (code, out, _) = ask("app=web -> app=db");
    assert_eq!(code, 0);
    assert!(out.contains("ANSWER") && out.contains("tcp/3306"), "{out}");
    let document =
        folder.json(&[&["query", "app=web -> app=db is full", "--output", "json"], &files[..]].concat());
    assert_eq!((&document["holds"], &document["queries"][0]["holds"]), (&json!(false), &json!(false)));
    assert_eq!(document["queries"][0]["counterexample"]["verdict"], "deny");
}

#[test]
fn a_set_is_within_another_or_equal_to_it() {
    let folder = two_sides();
    folder.write(
        "wide.yaml",
        &format!("{CLUSTER}---{}", db_policy(3306).replace("port: 3306", "port: 1, endPort: 9999")),
    );
    folder.write("narrow.yaml", &format!("{CLUSTER}---{}", db_policy(3306)));
    let code = |own: &str, how: &str, other: &str| folder.palisade(&["query", "-f", own, how, other]).0;
    assert_eq!(code("narrow.yaml", "--within", "wide.yaml"), 0);
    assert_eq!(code("wide.yaml", "--within", "narrow.yaml"), 1);
    assert_eq!(code("narrow.yaml", "--equals", "narrow.yaml"), 0);
    assert_eq!(code("narrow.yaml", "--equals", "wide.yaml"), 1);
}

#[test]
fn exposure_is_exact_for_labels_that_combine() {
    let folder = two_sides();
    folder.write(
        "policy.yaml",
        "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress:
  - from: [{podSelector: {matchExpressions: [{key: app, operator: In, values: [web, api]}]}}]
    ports: [{port: 3306}]
  - from: [{podSelector: {matchLabels: {app: api}}}]
    ports: [{port: 5432}]
",
    );
    let document = folder.json(&[
        "exposure",
        "-f",
        "cluster.yaml",
        "-f",
        "policy.yaml",
        "--focus",
        "shop/db",
        "--direction",
        "ingress",
        "--output",
        "json",
    ]);
    let row = &document["exposure"][0];
    assert_eq!(row["protected"], true);
    let pods: Vec<(&str, &Value)> = row["pods"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["who"].as_str().unwrap(), &one["allowed"]["TCP"]))
        .collect();
    assert!(
        pods.contains(&("pods with app=api of namespace shop", &json!([[3306, 3306], [5432, 5432]]))),
        "{pods:?}"
    );
    assert!(pods.iter().any(|(who, tcp)| *who == "any other pod" && tcp.is_null()), "{pods:?}");
    assert_eq!(row["outside"], json!([]));
    let (_, out, _) = folder.palisade(&["exposure", "-f", "cluster.yaml"]);
    assert!(out.contains("accepts all from anybody   no policy applies"), "{out}");
}

#[test]
fn paths_below_a_folder_are_read_as_from_it() {
    let folder = Folder::new();
    folder.write("repo/a/world.yaml", CLUSTER);
    folder.git(&["init", "-q", "repo"]);
    let inner = Folder(folder.0.join("repo"));
    inner.git(&["add", "."]);
    inner.git(&["commit", "-qm", "one"]);
    let below = Path::new("a");
    let output = Command::new(env!("CARGO_BIN_EXE_palisade"))
        .args(["diff", "--git", "HEAD"])
        .current_dir(inner.0.join(below))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}
