//! `palisade map` as users and programs meet it: the same facts in every format, rows as a stream, help after a mistake.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod schema;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

struct Answer {
    code: i32,
    out: String,
    err: String,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_palisade"));
    command.arg("map").args(arguments).current_dir(root()).env_remove("COLUMNS").env_remove("NO_COLOR");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn map_of(world: &str, arguments: &[&str]) -> Answer {
    let mut child = command(&[&["-f", "-"], arguments].concat()).spawn().unwrap();
    // The program may refuse its arguments and never read.
    let _ = child.stdin.take().unwrap().write_all(world.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Answer { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

fn shop(arguments: &[&str]) -> Answer {
    let output = command(&[&["-f", "examples/shop"], arguments].concat()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Answer { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

fn json_of(world: &str, arguments: &[&str]) -> Value {
    let answer = map_of(world, &[arguments, &["--output", "json"]].concat());
    assert_eq!(answer.code, 0, "{}", answer.err);
    let value: Value =
        serde_json::from_str(&answer.out).unwrap_or_else(|error| panic!("{error}: {}", answer.out));
    schema::holds("map", &value);
    value
}

/// Two workloads of namespace shop, one of ops, and a policy for the database.
const WORLD: &str = "\
{apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: shop, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u, controller: true}]}, status: {podIP: 10.0.0.1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-2, namespace: shop, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u, controller: true}]}, status: {podIP: 10.0.0.2}}
---
{apiVersion: v1, kind: Pod, metadata: {name: db, namespace: shop, labels: {app: db}}, status: {podIP: 10.0.0.3}}
---
{apiVersion: v1, kind: Pod, metadata: {name: scan, namespace: ops}, status: {podIP: 10.0.1.1}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  policyTypes: [Ingress, Egress]
  ingress:
  - from: [{podSelector: {matchLabels: {app: web}}}]
    ports: [{port: 5432}]
  egress:
  - to: [{ipBlock: {cidr: 203.0.113.0/24, except: [203.0.113.128/25]}}]
    ports: [{port: 443}, {protocol: UDP, port: 53}]
";

fn name(peer: &Value) -> String {
    match peer.as_object().unwrap().iter().next().unwrap() {
        (kind, workload) if kind == "workload" => {
            format!("{}/{}", workload["namespace"].as_str().unwrap(), workload["name"].as_str().unwrap())
        }
        (kind, range) if kind == "range" => {
            format!("{}-{}", range["from"].as_str().unwrap(), range["to"].as_str().unwrap())
        }
        (kind, _) => kind.clone(),
    }
}

/// Rows as `src -> dst`, with what is allowed.
fn rows(value: &Value) -> Vec<(String, Value)> {
    let row =
        |row: &Value| (format!("{} -> {}", name(&row["src"]), name(&row["dst"])), row["allowed"].clone());
    value["connections"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn json_has_a_row_for_each_pair_with_something_allowed() {
    let all = json!({"TCP": [[1, 65535]], "UDP": [[1, 65535]], "SCTP": [[1, 65535]], "ICMP": true});
    let tcp = json!({"TCP": [[5432, 5432]], "ICMP": false});
    let out = json!({"TCP": [[443, 443]], "UDP": [[53, 53]], "ICMP": false});
    let whole = "0.0.0.0-255.255.255.255";
    let want: Vec<(String, Value)> = [
        ("ops/scan -> ops/scan".to_owned(), &all),
        ("ops/scan -> shop/web".to_owned(), &all),
        (format!("ops/scan -> {whole}"), &all),
        ("shop/db -> shop/db".to_owned(), &all),
        ("shop/db -> 203.0.113.0-203.0.113.127".to_owned(), &out),
        ("shop/web -> ops/scan".to_owned(), &all),
        ("shop/web -> shop/db".to_owned(), &tcp),
        ("shop/web -> shop/web".to_owned(), &all),
        (format!("shop/web -> {whole}"), &all),
        (format!("{whole} -> ops/scan"), &all),
        (format!("{whole} -> shop/web"), &all),
    ]
    .map(|(name, allowed)| (name, allowed.clone()))
    .into();
    let value = json_of(WORLD, &[]);
    assert_eq!(rows(&value), want);
    let peer = |at: usize| value["connections"][at]["src"]["workload"]["kind"].as_str();
    assert_eq!((peer(0), peer(5)), (Some("Pod"), Some("ReplicaSet")));
    assert_eq!(value["summary"], json!({"workloads": 3, "pairs": 9, "connected": 6}));
}

#[test]
fn what_is_asked_for_is_what_is_told() {
    let names = |arguments: &[&str]| -> Vec<String> {
        rows(&json_of(WORLD, arguments)).into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(
        names(&["--focus", "shop/db", "--ignore-self"]),
        ["shop/db -> 203.0.113.0-203.0.113.127", "shop/web -> shop/db"]
    );
    assert_eq!(
        names(&["--focus", "shop/db", "--direction", "egress", "--ignore-self"]),
        ["shop/db -> 203.0.113.0-203.0.113.127"]
    );
    assert_eq!(
        names(&["--namespace", "shop", "--port", "tcp/5432", "--direction", "ingress", "--ignore-self"])
            .len(),
        3
    );
    // A pod's name, and what made it, mean the workload.
    assert_eq!(names(&["--focus", "shop/web-2"]), names(&["--focus", "shop/web"]));
    assert!(names(&["--pods"]).contains(&"shop/web-1 -> shop/web-2".to_owned()));
    // A pod that has only an address of IPv4 has nothing to do with the other; one that has none goes along with both.
    let four = rows(&json_of(WORLD, &["--family", "both"]));
    assert!(four.iter().all(|(name, _)| !name.contains("::")), "{four:?}");
    let unborn = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: n}}";
    let six = rows(&json_of(unborn, &["--family", "both"]));
    assert!(
        six.iter().any(|(name, _)| name == "n/p -> ::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        "{six:?}"
    );
    assert_eq!(rows(&json_of(unborn, &[])).len(), 3);
}

#[test]
fn address_blocks_can_be_about_the_outside_only() {
    let block = WORLD.replace("203.0.113.0/24, except: [203.0.113.128/25]", "10.0.0.0/8");
    let reaches = |arguments: &[&str]| {
        rows(&json_of(&block, arguments)).iter().any(|(name, _)| name == "shop/db -> ops/scan")
    };
    assert!(reaches(&[]));
    assert!(!reaches(&["--ip-blocks", "outside-only"]));
}

#[test]
fn a_row_says_why() {
    let value = json_of(WORLD, &["--focus", "shop/db", "--ignore-self", "--explain"]);
    let row = value["connections"].as_array().unwrap().last().unwrap();
    let because: Vec<(&str, &str, &str)> = row["why"]
        .as_array()
        .unwrap()
        .iter()
        .map(|why| {
            (why["side"].as_str().unwrap(), why["because"].as_str().unwrap(), why["action"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        because,
        [("egress", "default", "Allow"), ("ingress", "rule", "Allow"), ("ingress", "isolation", "Deny")]
    );
    let by = &row["why"][1]["decidedBy"][0];
    assert_eq!(
        (by["name"].as_str(), by["rule"].as_u64(), by["line"].as_u64()),
        (Some("db"), Some(0), Some(16))
    );
    let text = map_of(WORLD, &["--focus", "shop/db", "--ignore-self", "--explain"]).out;
    assert!(text.contains("allowed by rule 0 of NetworkPolicy shop/db   <stdin>:16"), "{text}");
    assert!(text.contains("denied: NetworkPolicy shop/db isolates it"), "{text}");
}

#[test]
fn people_get_a_matrix_where_it_fits_and_a_list_where_not() {
    let table = map_of(WORLD, &[]).out;
    assert_eq!(
        table,
        "\x20 FROM \\ TO   ops/scan   shop/db    shop/web   outside
  ops/scan    –          ·          all        all
  shop/db     ·          –          ·          tcp/443, udp/53 to 203.0.113.0/25
  shop/web    all        tcp/5432   all        all
  outside     all        ·          all        –

3 workloads, 6 of 9 pairs connected, 3 reach outside, 2 are reached from outside
· nothing   – itself   A pod's own node always reaches it.
"
    );
    let list = map_of(WORLD, &["--output", "list", "--ignore-self"]).out;
    assert!(list.starts_with("ops/scan → shop/web   all\nops/scan → outside    all\n"), "{list}");
    assert!(list.contains("shop/db  → outside    tcp/443, udp/53   (203.0.113.0/25)\n"), "{list}");
    let mut narrow = command(&["-f", "examples/shop"]);
    let narrow = narrow.env("COLUMNS", "60").output().unwrap();
    let narrow = String::from_utf8(narrow.stdout).unwrap();
    assert!(!narrow.contains("FROM") && narrow.contains(" → "), "{narrow}");
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
}

#[test]
fn the_same_pairs_in_every_format() {
    let value: Value = serde_json::from_str(&shop(&["--output", "json"]).out).unwrap();
    schema::holds("map", &value);
    let count = rows(&value).iter().filter(|(name, _)| !name.contains("-255.255.255.255")).count();
    assert!(count > 10, "{count}");
    let pairs: BTreeSet<String> = rows(&value)
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| name.matches('/').count() == 2)
        .collect();
    let list = shop(&["--output", "list"]).out;
    let csv = shop(&["--output", "csv"]).out;
    let md = shop(&["--output", "md"]).out;
    for pair in &pairs {
        let (from, to) = pair.split_once(" -> ").unwrap();
        let line = |line: &&str| {
            let mut words = line.split_whitespace();
            words.next() == Some(from) && words.nth(1) == Some(to)
        };
        assert!(list.lines().any(|one| line(&one)), "{pair}\n{list}");
        let cells = |pair: &str| pair.replace('/', ",");
        let fields = format!("{},", cells(to));
        assert!(
            csv.lines().any(|line| line.contains(&format!("{},", cells(from))) && line.contains(&fields)),
            "{pair}"
        );
        assert!(md.contains(&format!("| {from} | {to} | ")), "{pair}\n{md}");
    }
    assert!(csv.lines().all(|line| line.matches(',').count() >= 8), "{csv}");
    let dot = shop(&["--output", "dot"]).out;
    assert!(dot.starts_with("digraph") && dot.ends_with("}\n"), "{dot}");
    assert_eq!(dot.matches('{').count(), dot.matches('}').count());
    let svg = shop(&["--output", "svg"]).out;
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(svg.matches("class=\"edge\"").count() >= pairs.len(), "{svg}");
    let html = shop(&["--output", "html"]).out;
    assert!(html.starts_with("<!doctype html>") && html.trim_end().ends_with("</html>"));
    assert!(html.contains("\"explained\":true"));
}

#[test]
fn hostile_names_are_text_in_every_format() {
    let evil = "<img src=x onerror=alert(1)>";
    let world = WORLD.replace("name: scan", &format!("name: \"{evil}</script>\""));
    for format in ["html", "svg", "md"] {
        let out = map_of(&world, &["--output", format]).out;
        assert!(!out.contains("<img"), "{format}: {out}");
        assert_eq!(out.matches("</script>").count(), if format == "html" { 2 } else { 0 }, "{format}");
    }
    let dot = map_of(&WORLD.replace("name: scan", r#"name: "a\"b""#), &["--output", "dot"]).out;
    assert!(dot.contains(r#"label="a\"b""#), "{dot}");
    let csv = map_of(&WORLD.replace("name: scan", r#"name: "a\",b""#), &["--output", "csv"]).out;
    assert!(csv.contains(r#"Pod,ops,"a"",b","#), "{csv}");
    let bell = map_of(&WORLD.replace("name: scan", r#"name: "a\u001b[2J""#), &["--output", "list"]).out;
    assert!(!bell.contains('\u{1b}'), "{bell}");
}

#[test]
fn nodes_are_told_where_there_are_any() {
    let node = "---\n{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {addresses: [{type: InternalIP, address: 192.0.2.1}]}}\n";
    let two = node.replace("n1", "n2").replace("192.0.2.1", "192.0.2.2");
    let world = format!("{WORLD}{node}{two}");
    let value = json_of(&world, &[]);
    let nodes = value["nodes"].as_array().unwrap();
    assert!(!nodes.is_empty());
    assert_eq!(nodes[0]["dst"], json!({"node": {"every": true}}));
    assert!(value["connections"].as_array().unwrap().iter().all(|row| row["src"].get("node").is_none()));
    // A block that holds one of two nodes tells them apart.
    let apart = json_of(
        &world.replace("203.0.113.0/24, except: [203.0.113.128/25]", "192.0.2.2/32"),
        &["--focus", "shop/db"],
    );
    let to: Vec<&Value> = apart["nodes"].as_array().unwrap().iter().map(|row| &row["dst"]).collect();
    assert!(to.contains(&&json!({"node": {"names": ["n2"]}})), "{to:?}");
    assert!(!map_of(&world, &["--output", "list"]).out.contains("every node"));
    let text = map_of(&world, &["--output", "list", "--nodes"]).out;
    assert!(text.contains("every node"), "{text}");
}

#[test]
fn whoever_serves_an_ingress_is_a_source() {
    let entrance = "\
---
{apiVersion: v1, kind: Service, metadata: {name: db, namespace: shop}, spec: {selector: {app: db}, ports: [{port: 80, targetPort: 5432}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}}
---
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i, namespace: shop}, spec: {rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}, {path: /db, pathType: Prefix, backend: {service: {name: db, port: {number: 80}}}}]}}]}}
";
    let world = format!("{WORLD}{entrance}");
    let value = json_of(&world, &[]);
    let from: Vec<(String, Value)> =
        rows(&value).into_iter().filter(|(name, _)| name.starts_with("ingressController")).collect();
    assert_eq!(
        from,
        [("ingressController -> shop/web".to_owned(), json!({"TCP": [[8080, 8080]], "ICMP": false}))]
    );
    // It is no workload of the cluster's.
    assert_eq!(value["summary"], json!({"workloads": 3, "pairs": 9, "connected": 6}));
    for (format, says) in [
        ("table", "ingress controller"),
        ("list", "ingress controller → shop/web"),
        ("csv", "IngressController,,,ReplicaSet,shop,web,TCP,8080,"),
        ("md", "| ingress controller | shop/web | tcp/8080 |"),
        ("dot", "[label=\"ingress controller\""),
        ("svg", "ingress controller → shop/web: tcp/8080"),
        ("html", "\"controller\":[["),
    ] {
        let out = map_of(&world, &["--output", format]).out;
        assert!(out.contains(says), "{format}: {out}");
    }
    let answer = map_of(&world, &["--namespace", "(ingress controler)"]);
    assert!(!answer.err.contains("did you mean"), "{}", answer.err);
}

#[test]
fn a_mistake_costs_one_try() {
    for (arguments, says) in [
        (&["--focus", "shop/wep"][..], "no workload shop/wep in <stdin>\n  did you mean shop/web"),
        (&["--focus", "web"], "expected NAMESPACE/NAME"),
        (&["--namespace", "shoop"], "no pods in namespace shoop in <stdin>\n  did you mean shop?"),
        (&["--port", "tcp/http"], "is not a port"),
        (&["--port", "igmp"], "a map is about"),
        (&["--option", "x"], "expected NAME=VALUE"),
    ] {
        let answer = map_of(WORLD, arguments);
        assert_eq!((answer.code, answer.out.as_str()), (2, ""), "{arguments:?}");
        assert!(
            answer.err.starts_with("error: ") && answer.err.replace("in -\n", "in <stdin>\n").contains(says),
            "{}",
            answer.err
        );
    }
    let missing = command(&["-f", "no/such/folder"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn what_was_left_out_is_said_and_the_rest_is_answered() {
    let world = format!(
        "{WORLD}---\n{{apiVersion: cilium.io/v2, kind: CiliumNetworkPolicy, metadata: {{name: c, namespace: shop}}}}\n"
    );
    let answer = map_of(&world, &["--output", "json"]);
    assert_eq!(answer.code, 0);
    assert!(answer.err.contains("left out of this answer"), "{}", answer.err);
    let value: Value = serde_json::from_str(&answer.out).unwrap();
    schema::holds("map", &value);
    assert_eq!(value["inputProblems"][0]["code"], "S0011");
}

/// A world of so many workloads that its rows do not fit into a pipe.
fn large() -> String {
    let pod = |n: usize| {
        format!(
            "{{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{{\"name\":\"p{n}\",\"namespace\":\"n{}\"}}}}",
            n % 7
        )
    };
    let pods: Vec<String> = (0..500).map(pod).collect();
    format!("{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[{}]}}", pods.join(","))
}

#[test]
fn whoever_has_seen_enough_may_leave() {
    for format in ["json", "list", "csv", "html"] {
        let mut child = command(&["-f", "-", "--output", format]).spawn().unwrap();
        child.stdin.take().unwrap().write_all(large().as_bytes()).unwrap();
        let mut first = [0; 16];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        // Its end of the pipe is closed now.
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{format}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{format}");
    }
}

#[test]
fn a_large_map_streams_and_a_large_page_is_small() {
    let value = map_of(&large(), &["--output", "json"]);
    let value: Value = serde_json::from_str(&value.out).unwrap();
    assert_eq!(value["summary"]["connected"], 250_000);
    let page = map_of(&large(), &["--output", "html"]).out;
    assert!(page.len() < 200_000, "{}", page.len());
    let picture = map_of(&large(), &["--output", "svg"]).out;
    assert!(picture.contains("namespaces are drawn instead"), "{picture}");
}

#[test]
fn static_pods_of_a_node_are_workloads_of_their_own() {
    let pod = |name: &str, address: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}-n0, namespace: kube-system, labels: {{component: {name}}}, ownerReferences: [{{apiVersion: v1, kind: Node, name: n0, uid: u, controller: true}}]}}, status: {{podIP: {address}}}}}\n"
        )
    };
    let policy = "---\n{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: etcd, namespace: kube-system}, spec: {podSelector: {matchLabels: {component: etcd}}, ingress: [{from: [{podSelector: {matchLabels: {component: apiserver}}}]}]}}\n";
    let world =
        pod("etcd", "10.0.0.1") + &pod("apiserver", "10.0.0.2") + &pod("scheduler", "10.0.0.3") + policy;
    for arguments in [&[][..], &["--by-deployment"]] {
        let text = json_of(&world, arguments).to_string();
        for name in ["etcd-n0", "apiserver-n0", "scheduler-n0"] {
            assert!(text.contains(name), "{arguments:?}: {text}");
        }
        assert!(!text.contains("\"n0\""), "{arguments:?}: {text}");
    }
}
