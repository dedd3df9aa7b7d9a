//! Thorium's documents: which texts are taken for them, in which forms, and that what cannot be read opens nothing.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_macros)]

use palisade_dialects::load::load;
use palisade_dialects::source::Limits;
use palisade_dialects::source::tree::Source;
use palisade_dialects::thorium::Reading;
use palisade_dialects::world::World;
use palisade_model::diagnostic::Diagnostic;
use palisade_model::options::Options;
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::Verdict;
use palisade_model::verdicts::Verdicts;
use serde_json::{Value, json};

fn world(texts: &[(&str, &str)]) -> (World, Vec<Diagnostic>) {
    let (mut world, mut found) = (World::default(), Vec::new());
    for (name, text) in texts {
        load(&Source::new(*name, *text), &Limits::default(), &mut world, &mut found);
    }
    found.extend(world.review());
    (world, found)
}

/// `CODE line:column` of what is found in one text.
fn found(text: &str) -> Vec<String> {
    let (_, found) = world(&[("t.yaml", text)]);
    let place = |d: &Diagnostic| d.location.as_ref().map(|at| format!("{}:{}", at.line, at.column)).unwrap();
    found.iter().map(|d| format!("{} {}", d.code.id, place(d))).collect()
}

fn verdict(world: &World, flow: &str) -> Verdict {
    let snapshot = Snapshot::new(world.objects());
    let flows = snapshot.flows(&flow.parse().unwrap()).unwrap();
    Verdicts::new(&snapshot, &Options::default()).verdict(&flows[0])
}

const FARM: &str = "kind: ThoriumInstance\ngroups: [corn, crabs]\nimages:\n- {group: corn, tool: a, network_policies: [p]}\n- {group: crabs, tool: b}\n";

#[test]
fn ordinary_yaml_is_not_taken_for_thoriums() {
    for text in [
        "ingress:\n  enabled: true\n  hosts: []\n",
        "name: chart\ningress: {enabled: false, annotations: {}}\negress: {}\n",
        "ingress: []\n",
        "ingress:\n",
        "egress: null\ningress: [{host: a.example, paths: [/]}]\n",
        "groups: [{name: alerts, rules: []}]\n",
        "name: team\ngroups: yes\n",
        "- hosts: all\n  roles: [x]\n",
        "{}\n",
        "name: x\negress: deny\n",
        "groups: [a, b]\ningress: {className: nginx}\n",
        "{replicaCount: 1, ingress: {enabled: true, allowed_cidrs: [10.0.0.0/8]}}",
        "{name: web, ingress: {enabled: true, allowed_hosts: [a.example]}}",
        "{default_policy: DROP, rules: [{port: 80}]}",
        "{name: fw, default_policy: DROP, rules: [{port: 80}]}",
        "{name: alice, groups: [\"Domain Admins\", wheel]}",
        "{name: web, groups: [sg-1], ingress: [{port: 80, cidr: 0.0.0.0/0}]}",
        "{groups: [dev], ingress: [{host: a.example}]}",
        "{name: deploy, groups: [sudo, docker]}",
        "{name: main, default: true}",
        "{images: [{name: nginx, newTag: '1'}], resources: [a.yaml]}",
        "{policies: [{name: x, effect: deny}]}",
    ] {
        // That they are no objects is said, whoever wrote them.
        let said = |code: &String| code.starts_with("S0008") || code.starts_with("S0010");
        let quiet: Vec<String> = found(text).into_iter().filter(|code| !said(code)).collect();
        assert_eq!(quiet, Vec::<String>::new(), "{text}");
    }
}

#[test]
fn every_form_of_thorium_yml_is_read() {
    let base = "{name: shut, ingress: [], egress: []}";
    for (text, notes) in [
        (format!("thorium: {{secret_key: x, base_network_policies: [{base}]}}\nredis: {{host: h}}\n"), 0),
        (format!("- thorium:\n  - secret_key: x\n  - base_network_policies:\n    - {base}\n"), 1),
        (format!("- redis: {{}}\n- thorium: {{base_network_policies: [{base}]}}\n"), 1),
        (format!("thorium:\n- base_network_policies: [{base}]\n"), 1),
        (
            format!(
                "apiVersion: sandia.gov/v1\nkind: ThoriumCluster\nmetadata: {{name: prod, namespace: thorium}}\nspec: {{registry: r, config: {{thorium: {{base_network_policies: [{base}]}}}}}}\n"
            ),
            0,
        ),
        (
            format!(
                "{{\"thorium\": {{\"base_network_policies\": [{}]}}}}",
                r#"{"name": "shut", "ingress": [], "egress": []}"#
            ),
            0,
        ),
    ] {
        let (world, found) = world(&[
            ("farm.yaml", FARM),
            ("t.yaml", &text),
            ("p.yaml", "{name: p, groups: [corn], forced_policy: false}"),
        ]);
        let codes: Vec<&str> = found.iter().map(|d| d.code.id).filter(|id| *id != "T0303").collect();
        assert_eq!(codes, vec!["T0309"; notes], "{text}");
        assert_eq!(verdict(&world, "crabs/b -> thorium/api tcp/443"), Verdict::Deny, "{text}");
    }
}

#[test]
fn the_default_base_policy_is_used_unless_one_is_given() {
    let p = ("p.yaml", "{name: p, groups: [corn], forced_policy: false}");
    for config in [
        "",
        "thorium: {secret_key: x}",
        "thorium: {base_network_policies: }",
        "thorium: {base_network_policies: []}",
    ] {
        let (mut world, _) = world(&[("farm.yaml", FARM), ("t.yaml", config), p]);
        for (flow, want) in [
            ("corn/a -> thorium/api tcp/443", Verdict::Allow),
            ("corn/a -> kube-system/kube-dns udp/53", Verdict::Allow),
            ("corn/a -> kube-system/kube-dns tcp/53", Verdict::Deny),
            ("crabs/b -> corn/a tcp/80", Verdict::Deny),
        ] {
            assert_eq!(verdict(&world, flow), want, "{flow} with {config:?}");
        }
        world.read_thorium_as(Reading::Program);
        let open = if config.ends_with("[]}") { Verdict::Allow } else { Verdict::Deny };
        assert_eq!(verdict(&world, "crabs/b -> ip:203.0.113.7 tcp/80"), open, "the program with {config:?}");
    }
}

#[test]
fn pods_that_run_are_those_of_their_tool() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: job-1, namespace: corn, labels: {thorium: 'true', stage: a, group: corn}}\nstatus: {podIP: 10.0.0.1}\n";
    let p = "{name: p, groups: [corn], egress: [{allowed_groups: [crabs]}]}";
    let (world, _) = world(&[("farm.yaml", FARM), ("pod.yaml", pod), ("p.yaml", p)]);
    let snapshot = Snapshot::new(world.objects());
    let names: Vec<&str> = snapshot.pods().iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(names, ["job-1", "b", "kube-dns", "api"], "no stand-in beside a pod that runs");
    assert_eq!(verdict(&world, "corn/a -> ip:203.0.113.7 tcp/80"), Verdict::Deny);
    assert_eq!(verdict(&world, "corn/job-1 -> thorium/api tcp/80"), Verdict::Allow);
    // Without a manifest the pods tell which groups there are.
    let (world, _) = self::world(&[("pod.yaml", pod), ("t.yaml", "thorium: {secret_key: x}")]);
    assert_eq!(verdict(&world, "corn/job-1 -> ip:203.0.113.7 tcp/80"), Verdict::Deny);
}

#[test]
fn a_rules_file_is_found_beside_the_manifest() {
    let manifest = |file: &str| {
        format!(
            "kind: ThoriumInstance\ngroups: [corn]\nimages: [{{group: corn, tool: a, network_policies: [p]}}]\npolicies: [{{name: p, groups: [corn], rules: {file}}}]\n"
        )
    };
    let rules = "egress: [{allowed_all: true}]\n";
    for file in ["rules/p.yaml", "./rules/p.yaml", "x/../rules/p.yaml", "p.yaml", "farm/rules/p.yaml"] {
        let (world, found) = world(&[("farm/i.yaml", &manifest(file)), ("farm/rules/p.yaml", rules)]);
        assert!(!found.iter().any(Diagnostic::is_error), "{file}: {found:#?}");
        assert_eq!(verdict(&world, "corn/a -> ip:203.0.113.7 tcp/80"), Verdict::Allow, "{file}");
    }
    let (world, found) = world(&[("farm/i.yaml", &manifest("rules/q.yaml")), ("farm/rules/p.yaml", rules)]);
    assert_eq!(found.iter().filter(|d| d.is_error()).map(|d| d.code.id).collect::<Vec<_>>(), ["T0120"]);
    assert_eq!(
        verdict(&world, "corn/a -> thorium/api tcp/80"),
        Verdict::Allow,
        "the base policy still holds"
    );
    assert_eq!(verdict(&world, "corn/a -> ip:203.0.113.7 tcp/80"), Verdict::Deny);
}

#[test]
fn what_people_write_wrongly_is_said_in_its_place() {
    let found = |text: &str| {
        let mut found = found(text);
        found.retain(|line| !line.starts_with("T03"));
        found
    };
    let request = |rest: &str| format!("name: p\ngroups: [corn]\n{rest}\n");
    for (text, want) in [
        (request("ingress:"), vec!["T0117 3:8"]),
        (request("ingress: [{allowed_groups: [no]}]"), vec!["S0006 3:29"]),
        (request("ingress: [{allowed_all: on}]"), vec![]),
        (request("ingress: [{allowed_all: 'on'}]"), vec!["S0006 3:25"]),
        (request("ingress: [{tools: [a], allowed_tools: [b]}]"), vec!["T0118 3:19"]),
        (request("ingress: [{allowed_custom: [{pod_labels: [{key: a/b, value: x}]}]}]"), vec![]),
        (
            request("ingress: [{allowed_custom: [{pod_labels: [{key: a/b/c, value: x}]}]}]"),
            vec!["T0111 3:49"],
        ),
        (request("ingress: [{allowed_custom: [{pod_labels: [{key: a, value: no}]}]}]"), vec!["S0006 3:59"]),
        (request("forced: true\ningress: []"), vec!["T0103 3:1"]),
        (request("ingress: []\ningress: []"), vec!["S0005 4:1"]),
        ("name: no\ngroups: [corn]\negress: []\n".to_owned(), vec!["S0006 1:7"]),
        ("name: p\ngroups: corn\negress: [{allowed_all: true}]\n".to_owned(), vec!["S0006 2:9"]),
    ] {
        assert_eq!(found(&text), want, "{text}");
    }
}

// === what cannot be read opens nothing ===

const FLOWS: [&str; 16] = [
    "corn/a -> crabs/b tcp/80",
    "corn/a -> crabs/b udp/80",
    "crabs/b -> corn/a tcp/80",
    "crabs/b -> corn/a tcp/1003",
    "corn/a -> thorium/api tcp/443",
    "thorium/api -> corn/a tcp/443",
    "corn/a -> ip:10.10.10.10 tcp/1003",
    "corn/a -> ip:10.10.5.1 tcp/1003",
    "corn/a -> ip:203.0.113.7 tcp/443",
    "ip:203.0.113.7 -> corn/a tcp/443",
    "ip:10.10.1.1 -> corn/a tcp/1003",
    "crabs/b -> ip:203.0.113.7 tcp/443",
    // Pods that run, whatever becomes of the images.
    "corn/run-1 -> ip:203.0.113.7 tcp/443",
    "ip:203.0.113.7 -> corn/run-1 tcp/443",
    "corn/run-1 -> ip:10.10.5.1 tcp/1003",
    "ip:203.0.113.7 -> corn/run-2 tcp/443",
];

/// A rule with every field.
fn rule() -> Value {
    json!({
        "allowed_ips": [{"cidr": "10.10.10.10/32"}, {"cidr": "10.10.0.0/16", "except": ["10.10.5.0/24"]}],
        "allowed_groups": ["crabs"], "allowed_tools": ["z"], "allowed_local": false, "allowed_internet": false,
        "allowed_all": false, "ports": [{"port": 1000, "end_port": 1006, "protocol": "TCP"}],
        "allowed_custom": [{"namespace_labels": [{"key": "team", "value": "blue"}], "pod_labels": [{"key": "app", "value": "db"}]}],
    })
}

/// The texts that make a value by one change: each key misspelled and written twice, each value of another type.
fn broken(value: &Value) -> Vec<String> {
    let mut all = Vec::new();
    let mut paths = Vec::new();
    places(value, &mut Vec::new(), &mut paths);
    for path in paths {
        for how in 0..6 {
            let mut out = String::new();
            if write(value, &path, how, &mut out) {
                all.push(out);
            }
        }
    }
    all
}

fn places(value: &Value, path: &mut Vec<String>, all: &mut Vec<Vec<String>>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(i, v)| (i.to_string(), v)).collect(),
        _ => Vec::new(),
    };
    for (key, child) in children {
        path.push(key);
        all.push(path.clone());
        places(child, path, all);
        path.pop();
    }
}

/// Writes the value, changed at one place; says whether that was possible.
fn write(value: &Value, path: &[String], how: usize, out: &mut String) -> bool {
    let mut done = path.is_empty();
    match value {
        Value::Object(map) => {
            out.push('{');
            for (index, (key, child)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                let here = path.first() == Some(key);
                let last = here && path.len() == 1;
                if last && how == 0 {
                    out.push_str(&format!("{:?}:{child}", format!("{key}x")));
                    done = true;
                } else if last && how == 1 {
                    out.push_str(&format!("{key:?}:{child},{key:?}:{child}"));
                    done = true;
                } else if last {
                    out.push_str(&format!("{key:?}:"));
                    done = replaced(child, how, out);
                } else {
                    out.push_str(&format!("{key:?}:"));
                    let inside = write(child, if here { &path[1..] } else { &[] }, how, out);
                    done |= here && inside;
                }
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, child) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                let here = path.first().is_some_and(|at| *at == index.to_string());
                if here && path.len() == 1 {
                    done = how > 1 && replaced(child, how, out);
                    if how <= 1 {
                        out.push_str(&child.to_string());
                    }
                } else {
                    let inside = write(child, if here { &path[1..] } else { &[] }, how, out);
                    done |= here && inside;
                }
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
    done
}

/// A value of another type in its place.
fn replaced(value: &Value, how: usize, out: &mut String) -> bool {
    let other = [json!("x"), json!(7.5), json!([["x"]]), json!({"x": {}})][how - 2].clone();
    out.push_str(&other.to_string());
    std::mem::discriminant(value) != std::mem::discriminant(&other)
        // Any text is a name; a list of something else is not the list that it was.
        && !(value.is_number() && other.is_number())
}

fn denied(world: &World) -> Vec<&'static str> {
    let snapshot = Snapshot::new(world.objects());
    let verdicts = Verdicts::new(&snapshot, &Options::default());
    let denied = |flow: &&str| match snapshot.flows(&flow.parse().unwrap()) {
        Ok(flows) => flows.iter().all(|flow| verdicts.verdict(flow) != Verdict::Allow),
        // Who is not there opens nothing; those that run always are.
        Err(_) => {
            assert!(!flow.contains("run-"), "{flow}");
            true
        }
    };
    FLOWS.into_iter().filter(denied).collect()
}

#[test]
fn what_cannot_be_read_opens_nothing_and_is_reported() {
    let request = json!({"name": "p", "groups": ["corn"], "ingress": [rule()], "egress": [rule(), {"allowed_groups": ["crabs"]}],
        "forced_policy": true, "default_policy": false});
    let config = json!({"thorium": {"base_network_policies": [{"name": "b", "ingress": [rule()], "egress": [rule()]}]}});
    let rules = json!({"ingress": [rule()], "egress": [rule()]});
    let manifest = json!({"kind": "ThoriumInstance", "groups": ["corn", "crabs"],
        "images": [{"group": "corn", "tool": "a", "network_policies": ["p", "q"], "scaler": "K8s"}, {"group": "crabs", "tool": "b"}],
        "policies": [{"name": "q", "groups": ["corn"], "rules": "r.json", "forced_policy": true}]});
    let pods: Vec<Value> = [("run-1", "a", "10.2.0.1"), ("run-2", "zzz", "10.2.0.2")]
        .map(|(name, stage, ip)| {
            let labels = json!({"thorium": "true", "stage": stage});
            json!({"apiVersion": "v1", "kind": "Pod", "status": {"podIP": ip},
                "metadata": {"name": name, "namespace": "corn", "labels": labels}})
        })
        .into();
    let runs = json!({"kind": "List", "apiVersion": "v1", "items": pods});
    let documents = [("p.json", &request), ("t.json", &config), ("r.json", &rules), ("i.json", &manifest)];
    let load = |changed: &str, text: &str| {
        let texts: Vec<(&str, String)> = documents
            .iter()
            .map(|(name, value)| (*name, if *name == changed { text.to_owned() } else { value.to_string() }))
            .chain([("runs.json", runs.to_string())])
            .collect();
        let texts: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (*name, text.as_str())).collect();
        world(&texts)
    };
    let (whole, nothing) = load("", "");
    assert!(!nothing.iter().any(Diagnostic::is_error), "{nothing:#?}");
    let before = denied(&whole);
    assert!(before.len() > 4 && before.len() < FLOWS.len(), "{before:?}");
    let mut ways = 0;
    for (name, value) in &documents {
        for text in broken(value) {
            let (world, found) = load(name, &text);
            // Nothing of base policies is left: the default one takes their place, which is another.
            if *name == "t.json" && !text.contains("base_network_policies") {
                continue;
            }
            ways += 1;
            let after = denied(&world);
            let opened: Vec<_> = before.iter().filter(|flow| !after.contains(flow)).collect();
            assert!(opened.is_empty(), "{name} opens {opened:?}: {text}");
            assert!(found.iter().any(Diagnostic::is_error), "nothing is said about {name}: {text}");
        }
    }
    assert!(ways > 500, "only {ways} ways");
    eprintln!("{ways} ways");
}

// === a broken item opens nothing that runs ===

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: run-1, namespace: corn, labels: {thorium: 'true', stage: STAGE, group: corn}}\nstatus: {podIP: 10.2.0.1}\n";
const SHUT: &str = "thorium: {base_network_policies: [{name: shut, ingress: [], egress: []}]}\n";
const HALF: &str = "thorium: {base_network_policies: [{name: half, egress: []}]}\n";
const OUT: &str = "corn/run-1 -> ip:203.0.113.7 tcp/443";
const IN: &str = "ip:203.0.113.7 -> corn/run-1 tcp/443";

fn pod(stage: &str) -> String {
    POD.replace("STAGE", stage)
}

/// The texts, each a file, and a flow that must be denied, with an error or a warning of these codes.
fn closed(texts: &[&str], stage: &str, flow: &str, codes: &[&str]) {
    let pod = pod(stage);
    let names: Vec<String> = (0..texts.len()).map(|index| format!("{index}/thorium.yml")).collect();
    let mut all: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(texts.iter().copied()).collect();
    all.push(("pod.yaml", &pod));
    let (world, found) = world(&all);
    assert_ne!(verdict(&world, flow), Verdict::Allow, "{flow}: {texts:#?}\n{found:#?}");
    for code in codes {
        assert!(found.iter().any(|finding| finding.code.id == *code), "{code}: {texts:#?}\n{found:#?}");
    }
}

#[test]
fn one_broken_item_of_a_manifest_opens_nothing() {
    let images = "images: [{group: corn, tool: a, network_policies: []}]";
    for groups in
        ["groups: [corn, [x]]", "groups: [corn]\ngroups: [crabs]", "", "groups:", "groups: {corn: }"]
    {
        let manifest = format!("kind: ThoriumInstance\n{groups}\nimages: [{{group: crabs, tool: b}}]\n");
        closed(&[&manifest, SHUT], "zzz", OUT, &[]);
    }
    let start = "kind: ThoriumInstance\ngroups: [corn, crabs]\n";
    for (rest, codes) in [
        (
            "images: [{group: corn, tool: a, network_policies: [p]}, oops]\n---\n{name: p, groups: [corn], ingress: []}\n",
            ["S0006"],
        ),
        (
            "images: [{group: corn, tool: a, network_policies: [p]}, {group: corn}]\n---\n{name: p, groups: [corn], ingress: []}\n",
            ["T0101"],
        ),
        ("images: {group: corn, tool: a}\n---\n{name: p, groups: [corn], ingress: []}\n", ["S0006"]),
        ("images: [{group: corn, tool: A_}]\n", ["T0111"]),
        ("policies: [{name: sealed, groups: [corn], ingress: [], forced_policy: true}, oops]\n", ["S0006"]),
        ("policies: {name: sealed, groups: [corn], ingress: [], forced_policy: true}\n", ["S0006"]),
        ("policies: [{groups: [corn], ingress: [], forced_policy: true}]\n", ["T0101"]),
        ("policies: [{name: sealed, ingress: [], forced_policy: true}]\n", ["T0101"]),
        ("policies: [{name: sealed, groups: [[corn]], ingress: [], forced_policy: true}]\n", ["S0006"]),
        ("polices: [{name: sealed, groups: [corn], ingress: [], forced_policy: true}]\n", ["T0103"]),
        ("images: [{group: corn, tool: a, scaler: BareMetal}, {group: corn, tool: a}]\n", ["T0122"]),
        ("images: [{group: corn, tool: a, network_policies: }]\n", ["T0117"]),
    ] {
        closed(&[&format!("{start}{rest}"), HALF], "a", IN, &codes);
    }
    // The other items are still read.
    let (world, _) =
        world(&[("i.yaml", &format!("{start}{images}\npolicies: [oops, {{name: p, groups: [corn]}}]\n"))]);
    assert!(world.thorium_instance().unwrap().policy("corn", "p").is_some());
}

#[test]
fn a_request_that_says_not_where_closes_everything_it_could_mean() {
    let inst = "kind: ThoriumInstance\ngroups: [corn, crabs]\nimages: [{group: corn, tool: a, network_policies: []}]\n";
    for (request, code) in [
        ("{name: p, groups: [], egress: [], forced_policy: true}", "T0101"),
        ("{groups: [corn], ingress: [], egress: [], forced_policy: true}", "T0101"),
        ("{name: '', groups: [corn], ingress: [], egress: [], forced_policy: true}", "T0102"),
        ("{name: p, groups: [[corn]], ingress: [], egress: [], forced_policy: true}", "S0006"),
        ("{name: p, groups: [corn], egress: [], forced_policy: }", "T0117"),
    ] {
        closed(&[inst, HALF, request], "a", IN, &[code]);
    }
}

#[test]
fn two_documents_of_one_name_are_two() {
    let inst = "kind: ThoriumInstance\ngroups: [corn, crabs]\nimages: [{group: corn, tool: a, network_policies: []}]\n";
    let open = "thorium: {base_network_policies: [{name: open, ingress: [{allowed_all: true}]}]}\n";
    for (first, second) in [(SHUT, open), (open, SHUT)] {
        closed(&[inst, first, second], "a", OUT, &["T0205"]);
        closed(&[inst, &format!("{first}---\n{second}")], "a", OUT, &["T0205"]);
    }
    let other = "kind: ThoriumInstance\ngroups: [kelp]\n";
    closed(&[&format!("{inst}---\n{other}"), SHUT], "a", OUT, &[]);
    closed(&[&format!("{other}---\n{inst}"), SHUT], "a", OUT, &[]);
    let two = "{name: p, groups: [corn], ingress: [], forced_policy: true}\n---\n{name: p, groups: [corn], ingress: [{allowed_all: true}]}\n";
    let (world, found) =
        world(&[("i.yaml", inst), ("t.yaml", HALF), ("p.yaml", two), ("pod.yaml", &pod("a"))]);
    assert!(found.iter().any(|finding| finding.code.id == "T0119"), "{found:#?}");
    assert_ne!(verdict(&world, IN), Verdict::Allow);
    let named = "kind: ThoriumInstance\ngroups: [corn]\nimages: [{group: corn, tool: a, network_policies: [p]}]\npolicies: [{name: p, groups: [corn], rules: 1/thorium.yml}]\n";
    let rules = "ingress: []\n---\ningress: [{allowed_all: true}]\n";
    closed(&[named, rules, HALF], "a", IN, &["T0125"]);
}

#[test]
fn a_group_that_does_not_exist_is_not_allowed() {
    let inst =
        "kind: ThoriumInstance\ngroups: [corn]\nimages: [{group: corn, tool: a, network_policies: [p]}]\n";
    for rule in [
        "{allowed_groups: [kelp], allowed_ips: [{cidr: 203.0.113.0/24}]}",
        "{allowed_groups: [kelp], allowed_all: true}",
    ] {
        let request = format!("{{name: p, groups: [corn], egress: [{rule}]}}");
        closed(&[inst, SHUT, &request], "a", OUT, &["T0113"]);
        let (mut world, _) =
            world(&[("i.yaml", inst), ("t.yaml", SHUT), ("p.yaml", &request), ("pod.yaml", &pod("a"))]);
        world.read_thorium_as(Reading::Program);
        assert_ne!(verdict(&world, OUT), Verdict::Allow, "the request is refused");
    }
}

#[test]
fn a_configuration_twice_opens_nothing() {
    let inst =
        "kind: ThoriumInstance\ngroups: [corn]\nimages: [{group: corn, tool: a, network_policies: []}]\n";
    let list = "[{name: open, egress: [{allowed_all: true}]}]";
    for config in [
        format!("thorium: {{base_network_policies: {list}, base_network_policies: {list}}}\n"),
        format!("thorium: {{base_network_policies: {list}}}\nthorium: {{base_network_policies: {list}}}\n"),
        format!(
            "apiVersion: sandia.gov/v1\nkind: ThoriumCluster\nmetadata: {{name: c, namespace: thorium}}\nspec: {{config: {{thorium: {{base_network_policies: {list}, base_network_policies: {list}}}}}}}\n"
        ),
    ] {
        closed(&[inst, &config], "a", OUT, &["S0005"]);
        let (mut world, found) = world(&[("i.yaml", inst), ("t.yaml", &config), ("pod.yaml", &pod("a"))]);
        assert_eq!(found.iter().filter(|finding| finding.code.id == "S0005").count(), 1, "{found:#?}");
        world.read_thorium_as(Reading::Program);
        assert_ne!(verdict(&world, OUT), Verdict::Allow, "the program does not start");
    }
    closed(&[inst, &format!("thorium: {{base_network_policie: {list}}}\n")], "a", OUT, &["T0103"]);
}

#[test]
fn a_key_with_nothing_behind_it_is_no_wider() {
    let inst =
        "kind: ThoriumInstance\ngroups: [corn]\nimages: [{group: corn, tool: a, network_policies: [p]}]\n";
    for rule in [
        "{allowed_all: true, ports: }",
        "{allowed_ips: [{cidr: 203.0.113.0/24, except: }]}",
        "{allowed_all: true, ports: [{port: 443, protocol: }]}",
        "{allowed_ips: [{cidr: 203.0.113.0/24}], allowed_custom: [{namespace_labels: [{key: a, value: b}], pod_labels: }]}",
        "{allowed_ips: [{cidr: 203.0.113.0/24}], allowed_groups: }",
    ] {
        closed(
            &[inst, SHUT, &format!("{{name: p, groups: [corn], egress: [{rule}]}}")],
            "a",
            OUT,
            &["T0117"],
        );
    }
}

#[test]
fn tools_outside_of_groups_are_remarked_on() {
    let (_, found) = world(&[("i.yaml", "kind: ThoriumInstance\ngroups: [kelp]\n"), ("pod.yaml", &pod("a"))]);
    assert!(
        found.iter().any(|finding| finding.code.id == "T0208" && finding.location.is_some()),
        "{found:#?}"
    );
}

// === small mistakes ===

#[test]
fn a_small_mistake_does_not_make_a_document_vanish() {
    let inst = "kind: ThoriumInstance\ngroups: [corn, crabs]\nimages: [{group: corn, tool: a, network_policies: []}]\n";
    for request in [
        "{name: p, groups: corn, ingress: [], forced_policy: true}",
        "{name: p, groups: corn, ingress: [oops]}",
        "{name: p, groups: null, ingress: []}",
        "{name: p, group: [corn], ingress: []}",
        "{name: p, ingress: []}",
        "{name: p, groups: [corn], Ingress: []}",
        "{name: p, groups: [corn], Egress: []}",
        "{name: p, groups: [corn], egres: []}",
        "{name: p, groups: [corn], ingress: [], forced: true}",
        "{name: p, groups: [corn], ingress: [], forced_polcy: true}",
        "{name: p, groups: [corn], forced_polcy: true}",
        "{name: p, groups: [corn], forced: true}",
        "{name: p, groups: [corn], ingress: {}, forced_policy: true}",
        "{name: p, groups: [corn], egress: none}",
        "{name: p, groups: [corn], ingress: [{alowed_groups: [crabs]}], forced_policy: true}",
        "{name: p, groups: [corn], rules: r.yaml}",
        "policies: [{name: p, groups: [corn], ingress: [], forced_policy: true}]",
        "base_network_policies: [{name: b, ingress: []}]",
        "config: {thorium: {base_network_policies: [{name: b, ingress: []}]}}",
        "Thorium: {base_network_policies: [{name: b, ingress: []}]}",
        "thorium: {base_policies: [{name: b, ingress: []}]}",
        "{apiVersion: v1, kind: ThoriumInstance, policies: [{name: p, groups: [corn], ingress: [], forced_policy: true}]}",
        "{kind: Thoriuminstance, policies: [{name: p, groups: [corn], ingress: [], forced_policy: true}]}",
        "{kind: ThoriumInstances, policies: [{name: p, groups: [corn], ingress: [], forced_policy: true}]}",
        "{kind: ThoriumPolicy, name: p, groups: [corn], ingress: []}",
        "{apiVersion: v1, kind: ThoriumPolicy, metadata: {name: p, namespace: corn}, spec: {ingress: []}}",
    ] {
        let half = if request.contains("base_") { "" } else { HALF };
        let (world, found) =
            world(&[("i.yaml", inst), ("p.yaml", request), ("t.yaml", half), ("pod.yaml", &pod("a"))]);
        let said = found.iter().any(|finding| {
            finding.location.as_ref().is_some_and(|at| &*at.file == "p.yaml")
                && !finding.code.id.starts_with("T03")
        });
        assert!(said, "{request}: {found:#?}");
        assert_ne!(verdict(&world, IN), Verdict::Allow, "{request}");
    }
    for text in [
        "{apiVersion: sandia.gov/v1, kind: ThoriumCluster, metadata: {name: x}, spec: {}}",
        "{apiVersion: sandia.gov/v1, kind: ThoriumClutser, metadata: {name: x}}",
        "{apiVersion: sandia.gov/v1, kind: Other, metadata: {name: x}}",
        "ingres: [{allowed_all: true}]",
        "rules: {ingress: [{allowed_all: true}]}",
        "ingress: [{alowed_groups: [crabs]}]",
    ] {
        assert!(!found(text).is_empty(), "{text}");
    }
}

#[test]
fn a_rules_file_that_is_named_is_read_whatever_it_looks_like() {
    let inst = "kind: ThoriumInstance\ngroups: [corn]\nimages: [{group: corn, tool: a, network_policies: [p]}]\npolicies: [{name: p, groups: [corn], rules: r.yaml}]\n";
    for rules in [
        "ingress: {enabled: true}",
        "ingress: [{alowed: [x]}]",
        "Ingress: []",
        "{egress: deny}",
        "{ingress: [], foo: 1}",
    ] {
        let (world, found) =
            world(&[("i.yaml", inst), ("r.yaml", rules), ("t.yaml", HALF), ("pod.yaml", &pod("a"))]);
        assert!(!found.iter().any(|finding| finding.code.id == "T0120"), "{rules}: {found:#?}");
        assert!(
            found
                .iter()
                .any(|finding| finding.is_error() && &*finding.location.as_ref().unwrap().file == "r.yaml"),
            "{rules}: {found:#?}"
        );
        assert_ne!(verdict(&world, IN), Verdict::Allow, "{rules}");
    }
}

// === the program ===

#[test]
fn the_program_is_read_as_it_is() {
    let inst = "kind: ThoriumInstance\ngroups: [corn, crabs]\nimages: [{group: corn, tool: a, network_policies: [p]}, {group: corn, tool: b, network_policies: []}]\n";
    let p = |rest: &str| format!("{{name: p, groups: [corn], {rest}}}");
    let base = |list: &str| format!("thorium: {{base_network_policies: [{list}]}}");
    let shut = "{name: shut, ingress: [], egress: []}";
    let nothing = || p("forced_policy: false");
    let a = "corn/a -> ip:203.0.113.7 tcp/443";
    for (config, request, flow, want) in [
        // The later of two base policies wins.
        (
            base(&format!("{{name: shut, egress: [{{allowed_all: true}}]}}, {shut}")),
            nothing(),
            a,
            Verdict::Deny,
        ),
        (
            base(&format!("{shut}, {{name: shut, egress: [{{allowed_all: true}}]}}")),
            nothing(),
            a,
            Verdict::Allow,
        ),
        // Fields that are unknown inside of an item are gone over, the item stays.
        (base(shut), p("egress: [{allowed_ips: [{cidr: 10.0.0.0/8, foo: 1}]}]"), a, Verdict::Deny),
        (base(shut), p("egress: [{allowed_ips: [{cidr: 203.0.113.0/24, foo: 1}]}]"), a, Verdict::Allow),
        (
            base(shut),
            p("egress: [{allowed_custom: [{pod_labels: [{key: a, value: b}], foo: 1}]}]"),
            a,
            Verdict::Deny,
        ),
        (
            base(shut),
            p("egress: [{allowed_custom: [{pod_labels: [{key: a, value: b, foo: 1}]}]}]"),
            a,
            Verdict::Deny,
        ),
        (base(shut), p("egress: [{allowed_all: true, ports: [{port: 80, foo: 1}]}]"), a, Verdict::Deny),
        (base(shut), p("egress: [{allowed_all: true, ports: [{port: 443, foo: 1}]}]"), a, Verdict::Allow),
        // With a wrong type in its configuration it does not start; a request is refused.
        (base("{name: b, egress: 7}"), nothing(), a, Verdict::Deny),
        (base("{name: b, egress: [{allowed_groups: 7}]}"), nothing(), a, Verdict::Deny),
        (base(shut), p("egress: [{allowed_groups: 7}]"), a, Verdict::Deny),
        // A base policy called stage hides tools from rules, not from the policies they have.
        (base(&format!("{shut}, {{name: stage}}")), p("egress: [{allowed_all: true}]"), a, Verdict::Allow),
        // Peers beside allowed_all are not written.
        (
            base(shut),
            p("egress: [{allowed_all: true, allowed_ips: [{cidr: 10.10.10.10}]}]"),
            a,
            Verdict::Allow,
        ),
        (base(shut), p("egress: [{allowed_all: true, allowed_custom: [{}]}]"), a, Verdict::Allow),
        (base(shut), p("egress: [{allowed_all: true, allowed_ips: [{cidr: 10.0.0.1/8}]}]"), a, Verdict::Deny),
        // What is unknown to it forces nothing.
        (
            base("{name: half, ingress: []}"),
            p("egress: [], foo: 1"),
            "corn/b -> ip:203.0.113.7 tcp/443",
            Verdict::Allow,
        ),
        (base("{name: half, ingress: []}"), p("egress: [], foo: 1"), a, Verdict::Deny),
        // A rule where a list belongs.
        (base(shut), p("egress: {allowed_all: true}"), a, Verdict::Deny),
    ] {
        let (mut world, _) = world(&[("i.yaml", inst), ("t.yaml", &config), ("p.yaml", &request)]);
        world.read_thorium_as(Reading::Program);
        assert_eq!(verdict(&world, flow), want, "{flow}\n{config}\n{request}");
    }
    let named = "kind: ThoriumInstance\ngroups: [corn]\nimages: [{group: corn, tool: a, network_policies: [p]}]\npolicies: [{name: p, groups: [corn], rules: r.yaml}, {name: q, groups: [corn], ingress: 7, forced_policy: true}]\n";
    // Nothing at all is an empty list, null is refused. The wrong type of q is refused, too.
    for (rules, want) in [("ingress:\n", Verdict::Deny), ("ingress: null\n", Verdict::Allow)] {
        let (mut world, _) = world(&[("i.yaml", named), ("r.yaml", rules), ("t.yaml", HALF)]);
        world.read_thorium_as(Reading::Program);
        assert_eq!(verdict(&world, "ip:203.0.113.7 -> corn/a tcp/443"), want, "{rules}");
    }
}

#[test]
fn every_difference_from_the_program_is_named() {
    for (text, code) in [
        ("- thorium:\n  - base_network_policies: []\n", "T0309"),
        ("- thorium:\n  - secret: x\n", "T0309"),
        ("{name: a/b, groups: [corn], ingress: []}", "T0312"),
        ("{name: 'a:b', groups: [corn], ingress: []}", "T0312"),
        ("thorium: {base_network_policies: [{name: group, ingress: []}]}", "T0308"),
        ("{name: p, groups: [], ingress: []}", "T0101"),
    ] {
        assert!(found(text).iter().any(|line| line.starts_with(code)), "{code} {text}: {:?}", found(text));
    }
}
