//! The commands as users and programs meet them: exit codes, the facts in each format, colour and width.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

struct Answer {
    code: i32,
    out: String,
    err: String,
}

/// Runs the program in the root of the repository, with a text on standard input and variables set.
fn palisade_with(arguments: &[&str], stdin: &str, variables: &[(&str, &str)]) -> Answer {
    let mut child = Command::new(env!("CARGO_BIN_EXE_palisade"))
        .args(arguments)
        .current_dir(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env_remove("COLUMNS")
        .env_remove("NO_COLOR")
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program may refuse its arguments and never read.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Answer { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

fn palisade(arguments: &[&str]) -> Answer {
    palisade_with(arguments, "", &[])
}

fn json(arguments: &[&str]) -> (i32, Value) {
    let answer = palisade(arguments);
    (answer.code, serde_json::from_str(&answer.out).unwrap_or_else(|error| panic!("{error}: {}", answer.out)))
}

const SHOP: &[&str] = &["-f", "examples/shop"];

fn explain<'a>(flow: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["explain", flow], SHOP, more].concat()
}

#[test]
fn explain_ends_with_the_answer() {
    assert_eq!(palisade(&explain("monitoring/prometheus -> shop/db tcp/9187", &[])).code, 0);
    assert_eq!(palisade(&explain("shop/web -> shop/db tcp/5432", &[])).code, 1);
    for (flow, says) in [
        ("shop/nobody -> shop/db tcp/80", "no pod or workload shop/nobody"),
        ("shop/web shop/db tcp/80", "has no ->"),
        ("shop/web -> shop/db tcp/http", "is not a port"),
        ("shop/web -> svc:shop/web tcp/1", "has no port tcp/1"),
        ("shop/web -> node:nowhere tcp/1", "no node nowhere"),
    ] {
        let answer = palisade(&explain(flow, &[]));
        assert_eq!(answer.code, 2, "{flow}");
        assert!(answer.err.starts_with("error: ") && answer.err.contains(says), "{}", answer.err);
        assert!(answer.out.is_empty());
    }
    let missing = palisade(&["explain", "a/b -> c/d tcp/1", "-f", "no/such/folder"]);
    assert_eq!((missing.code, missing.err.as_str()), (2, "error: no/such/folder: no such file or folder\n"));
}

#[test]
fn explain_as_json_has_the_facts_that_it_promises() {
    let (code, answer) = json(&explain("shop/web -> shop/db tcp/5432", &["--output", "json"]));
    assert_eq!((code, &answer["verdict"]), (1, &Value::from("deny")));
    assert_eq!(answer["flow"]["destination"]["name"], "db-0");
    assert_eq!(answer["flow"]["port"], 5432);
    let egress = &answer["egress"];
    assert_eq!(egress["verdict"], "allow");
    let by = &egress["decidedBy"];
    assert_eq!(
        (&by["kind"], &by["namespace"], &by["name"]),
        (&"NetworkPolicy".into(), &"shop".into(), &"web-egress".into())
    );
    assert_eq!((&by["rule"], &by["stage"]), (&0.into(), &"NetworkPolicy".into()));
    assert!(by["file"].as_str().unwrap().ends_with("policies.yaml") && by["line"].as_u64().unwrap() > 1);
    let ingress = &answer["ingress"];
    assert_eq!((&ingress["because"], &ingress["decidedBy"]["rule"]), (&"isolation".into(), &Value::Null));
    let stages = ingress["stages"].as_array().unwrap();
    assert_eq!(
        stages.iter().map(|stage| stage["outcome"].as_str().unwrap()).collect::<Vec<_>>(),
        ["no-match", "passed", "deny"]
    );
    let causes: Vec<&str> =
        stages[2]["rules"].as_array().unwrap().iter().map(|rule| rule["cause"].as_str().unwrap()).collect();
    assert_eq!(causes, ["port", "peer"]);
    assert_eq!(answer["others"].as_array().unwrap().len(), 1);

    let (_, nothing) =
        json(&["explain", "ip:192.0.2.1 -> ip:192.0.2.2 tcp/1", "-f", "examples/shop", "-o", "json"]);
    assert_eq!((&nothing["verdict"], &nothing["egress"]["decidedBy"]), (&"allow".into(), &Value::Null));
}

#[test]
fn explain_reads_standard_input_and_several_files() {
    let pods = "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: x}}\n";
    let answer =
        palisade_with(&["explain", "x/a -> shop/web tcp/80", "-f", "-", "-f", "examples/shop"], pods, &[]);
    assert_eq!(answer.code, 1, "{}", answer.out);
    let twice = palisade_with(&["explain", "x/a -> x/b tcp/80", "-f", "-", "-f", "-"], pods, &[]);
    assert_eq!(twice.code, 2);
    assert!(twice.err.contains("standard input can be read once"), "{}", twice.err);
}

#[test]
fn options_and_names_change_the_answer() {
    let world = "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x}, status: {podIP: 10.0.0.1}}\n---\n\
        {apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: p}, spec: {tier: Admin, priority: 1, subject: {namespaces: {}}, \
        ingress: [{action: Deny, from: [{namespaces: {}}]}], egress: [{action: Accept, to: [{domainNames: ['*.example.com']}]}, {action: Deny, to: [{networks: [0.0.0.0/0, '::/0']}]}]}}\n";
    let ask = |flow: &str, more: &[&str]| {
        palisade_with(&[&["explain", flow, "-f", "-"], more].concat(), world, &[]).code
    };
    assert_eq!(ask("x/a -> x/a tcp/80", &[]), 0);
    assert_eq!(ask("x/a -> x/a tcp/80", &["--option", "selfTraffic=evaluate"]), 1);
    assert_eq!(ask("x/a -> x/a tcp/80", &["--option", "selfTraffic=perhaps"]), 2);
    assert_eq!(ask("x/a -> ip:192.0.2.1 tcp/443", &[]), 1);
    assert_eq!(ask("x/a -> ip:192.0.2.1 tcp/443", &["--dns", "api.example.com=192.0.2.1"]), 0);
    assert_eq!(ask("x/a -> ip:192.0.2.1 tcp/443", &["--dns", "api.example.com"]), 2);
}

#[test]
fn another_answer_over_the_other_family_is_said() {
    let world = "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x}, status: {podIPs: [{ip: 10.0.0.1}, {ip: 'fd00::1'}]}}\n---\n\
        {apiVersion: v1, kind: Pod, metadata: {name: b, namespace: x}, status: {podIPs: [{ip: 10.0.0.2}, {ip: 'fd00::2'}]}}\n---\n\
        {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: x}, spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0}}]}]}}\n";
    let answer = palisade_with(&["explain", "x/a -> x/b tcp/80", "-f", "-"], world, &[]);
    assert_eq!(answer.code, 0);
    assert!(
        answer.out.contains("note: over IPv6 it is another answer:\n  DENIED   x/a fd00::1  →  x/b fd00::2"),
        "{}",
        answer.out
    );
}

#[test]
fn advice_names_the_rule_that_misses_by_one_thing() {
    let advice = |flow: &str, spec: &str| {
        let world = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: a, namespace: x, labels: {{app: a}}}}, status: {{podIP: 10.0.0.1}}}}\n---\n\
             {{apiVersion: v1, kind: Pod, metadata: {{name: b, namespace: x, labels: {{app: b}}}}, status: {{podIP: 10.0.0.2}}}}\n---\n\
             {{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {{name: cnp}}, spec: {{tier: Admin, priority: 1, subject: {{namespaces: {{}}}}, ingress: [{{action: Deny, from: [{{pods: {{podSelector: {{matchLabels: {{app: q}}}}}}}}]}}]}}}}\n---\n\
             {{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: np, namespace: x}}, spec: {spec}}}\n"
        );
        let answer = palisade_with(&["explain", flow, "-f", "-", "-o", "json"], &world, &[]);
        let answer: Value = serde_json::from_str(&answer.out).unwrap();
        answer["advice"].as_str().unwrap_or("none").to_owned()
    };
    let rules = "{podSelector: {matchLabels: {app: b}}, ingress: [{from: [{podSelector: {matchLabels: {app: c}}}], ports: [{port: 53}]}, {from: [{podSelector: {matchLabels: {app: d}}}], ports: [{port: 80}]}, \
        {from: [{ipBlock: {cidr: 203.0.113.0/24, except: [203.0.113.0/28]}}]}]}";
    assert_eq!(
        advice("x/a -> x/b tcp/80", rules),
        "To allow it: add x/a to `from` of rule 1 of x/np, <stdin>:7"
    );
    assert_eq!(
        advice("ip:203.0.113.1 -> x/b tcp/443", rules),
        "To allow it: take the exception out of rule 2 of x/np, or write a rule for an ipBlock with 203.0.113.1, <stdin>:7"
    );
    let shut = "{podSelector: {}, ingress: []}";
    assert_eq!(
        advice("x/a -> x/b icmp", shut),
        "To allow it: write an ingress rule from x/a without ports, which is what ICMP needs, for example in x/np, <stdin>:7"
    );
    let misplaced = "{podSelector: {}, ingress: [{from: [{podSelector: null, matchLabels: {app: a}}]}]}";
    assert_eq!(
        advice("x/a -> x/b tcp/80", misplaced),
        "To allow it: correct rule 0 of x/np, which cannot be read (unknown field matchLabels), <stdin>:7"
    );
    let broken = "{podSelectr: {}}";
    assert_eq!(
        advice("x/a -> ip:192.0.2.1 tcp/80", broken),
        "To allow it: correct NetworkPolicy x/np, which cannot be read (unknown field podSelectr), <stdin>:7"
    );
}

#[test]
fn a_spec_written_twice_opens_nothing() {
    let world = "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x}}\n---\n\
        {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: np, namespace: x}, spec: {policyTypes: [Egress]}, spec: {ingress: [{}]}}\n";
    assert_eq!(palisade_with(&["explain", "x/a -> ip:192.0.2.1 tcp/80", "-f", "-"], world, &[]).code, 1);
}

#[test]
fn problems_of_the_input_are_not_kept_from_who_asks() {
    let world = "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x}}\n---\n{apiVersion: cilium.io/v2, kind: CiliumNetworkPolicy, metadata: {name: p}}\n";
    let answer = palisade_with(&["explain", "x/a -> ip:192.0.2.1 tcp/80", "-f", "-"], world, &[]);
    assert_eq!(answer.code, 0);
    assert!(answer.err.contains("CiliumNetworkPolicy of cilium.io is not read"), "{}", answer.err);
}

#[test]
fn check_counts_and_ends_accordingly() {
    let clean = "{apiVersion: v1, kind: Namespace, metadata: {name: x}}\n";
    let warned = "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: x}, spec: {podSelector: {}, egress: []}}\n";
    let wrong = "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: P, namespace: x}, spec: {podSelector: {}}}\n";
    let check = |text: &str, more: &[&str]| palisade_with(&[&["check", "-f", "-"], more].concat(), text, &[]);
    let answer = check(clean, &[]);
    assert_eq!((answer.code, answer.out.as_str()), (0, "no problems in 1 object (1 file)\n"));
    assert_eq!(check(warned, &[]).code, 0);
    assert_eq!(check(warned, &["--strict"]).code, 1);
    assert_eq!(check(wrong, &[]).code, 1);
    assert_eq!(palisade(&["check", "-f", "no/such/file"]).code, 2);
    assert_eq!(palisade(&["check"]).code, 2, "nothing to check");
}

#[test]
fn check_as_json_has_the_facts_that_it_promises_in_file_order() {
    let (code, answer) = json(&["check", "-f", "examples/broken", "--output", "json"]);
    assert_eq!(code, 1);
    let all = answer["diagnostics"].as_array().unwrap();
    let keys = [
        "code",
        "severity",
        "message",
        "kind",
        "namespace",
        "name",
        "field",
        "file",
        "line",
        "column",
        "help",
    ];
    for diagnostic in all {
        assert!(keys.iter().all(|key| diagnostic.get(key).is_some()), "{diagnostic}");
    }
    let except = all.iter().find(|d| d["code"] == "K0203").unwrap();
    assert_eq!(
        (&except["severity"], &except["kind"], &except["namespace"]),
        (&"error".into(), &"NetworkPolicy".into(), &"shop".into())
    );
    assert_eq!(except["field"], "spec.ingress[0].from[0].ipBlock.except[0]");
    assert!(except["line"].as_u64().unwrap() > 1 && except["column"].as_u64().unwrap() > 1);
    let places: Vec<(&str, u64)> =
        all.iter().map(|d| (d["file"].as_str().unwrap(), d["line"].as_u64().unwrap())).collect();
    let mut sorted = places.clone();
    sorted.sort_unstable();
    assert_eq!(places, sorted);
    assert_eq!(
        answer["summary"]["errors"].as_u64().unwrap(),
        all.iter().filter(|d| d["severity"] == "error").count() as u64
    );
}

#[test]
fn check_as_sarif_names_rules_and_regions() {
    let (_, log) = json(&["check", "-f", "examples/broken", "--output", "sarif"]);
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    for result in run["results"].as_array().unwrap() {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        let place = &result["locations"][0]["physicalLocation"];
        assert!(place["artifactLocation"]["uri"].as_str().unwrap().starts_with("examples/broken/"));
        assert!(place["region"]["startLine"].as_u64().unwrap() >= 1);
    }
}

const FAILING: &str = "kind: PolicyTest\nname: t & <co>\nsteps:\n- name: s\n  apply:\n  - {apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x}}\n  \
    - {apiVersion: v1, kind: Pod, metadata: {name: b, namespace: x}}\n  expect:\n  - deny: \"x/a -> x/b tcp/80\"\n  - allow: \"x/a -> x/c tcp/80\"\n- name: fine\n  expect:\n  - allow: \"*/* -> */* tcp/80\"\n";

#[test]
fn a_failing_test_shows_what_led_there() {
    let answer = palisade_with(&["test", "-"], FAILING, &[]);
    assert_eq!(answer.code, 1);
    assert!(answer.out.contains("FAIL t & <co>: s   <stdin>:4"), "{}", answer.out);
    assert!(
        answer.out.contains("x/a -> x/b tcp/80   expected deny, got allow   <stdin>:9"),
        "{}",
        answer.out
    );
    assert!(answer.out.contains("ingress of x/b — allowed, nothing restricts it"), "{}", answer.out);
    assert!(answer.out.contains("no pod or workload x/c"), "{}", answer.out);
    assert!(answer.out.contains("ok   t & <co>: fine  (2 flows)"), "{}", answer.out);
    assert!(answer.out.ends_with("1 passed, 1 failed\n"), "{}", answer.out);
    assert_eq!(palisade(&["test", "examples/broken"]).code, 2, "no tests there");
    assert_eq!(palisade_with(&["test", "-"], "kind: PolicyTest\nsteps: 5\n", &[]).code, 2);
}

#[test]
fn apply_passes_over_what_is_no_concern_and_reports_what_is_lost() {
    let applying = |object: &str| {
        format!(
            "kind: PolicyTest\nname: t\nsteps:\n- apply:\n  - {{apiVersion: v1, kind: Pod, metadata: {{name: a, namespace: x}}}}\n  - {{apiVersion: v1, kind: Pod, metadata: {{name: b, namespace: x}}}}\n  - {object}\n  expect:\n  - allow: \"x/a -> x/b tcp/80\"\n"
        )
    };
    for fine in [
        "{apiVersion: v1, kind: ServiceAccount, metadata: {name: a, namespace: x}}",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: x}, data: {a: b}}",
        "{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}}",
        "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Secret, metadata: {name: a}}]}",
    ] {
        let answer = palisade_with(&["test", "-"], &applying(fine), &[]);
        assert_eq!((answer.code, answer.out.contains("1 passed")), (0, true), "{fine}: {}", answer.out);
    }
    for lost in [
        "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicyy, metadata: {name: a, namespace: x}}",
        "{apiVersion: networking.k8s.io/v2, kind: NetworkPolicy, metadata: {name: a, namespace: x}}",
        "{apiVersion: v1, kind: NetworkPolicy, metadata: {name: a, namespace: x}}",
        "{apiVersion: cilium.io/v2, kind: CiliumNetworkPolicy, metadata: {name: a, namespace: x}}",
        "{apiVersion: v1, kind: Pod, metadata: {namespace: x}}",
        "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Pod, metadata: {name: c, namespace: x}}, {apiVersion: networking.k8s.io/v1, kind: NetworkPolicies}]}",
        "{apiVersion: v1, kind: List, items: 5}",
        "{}",
        "null",
    ] {
        let answer = palisade_with(&["test", "-"], &applying(lost), &[]);
        assert_eq!((answer.code, answer.out.contains("1 failed")), (1, true), "{lost}: {}", answer.out);
        assert!(answer.out.contains("expected an object that can be read"), "{lost}: {}", answer.out);
    }
}

#[test]
fn test_results_for_programs() {
    let answer = palisade_with(&["test", "-", "-o", "json"], FAILING, &[]);
    let report: Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!((&report["passed"], &report["failed"]), (&1.into(), &1.into()));
    let failure = &report["cases"][0]["failures"][1];
    assert_eq!((&failure["expected"], &failure["got"]), (&"deny".into(), &"allow".into()));
    assert_eq!(failure["explanation"]["verdict"], "allow");
    let answer = palisade_with(&["test", "-", "-o", "junit"], FAILING, &[]);
    assert!(answer.out.contains("<testsuite name=\"t &amp; &lt;co&gt;\" tests=\"2\" failures=\"1\" errors=\"0\" file=\"&lt;stdin&gt;\">"), "{}", answer.out);
    assert_eq!(answer.out.matches("<testcase").count(), 2);
    assert_eq!(answer.out.matches("<failure").count(), 2);
}

#[test]
fn a_test_with_a_mistake_says_where_it_is() {
    for (text, says) in [
        ("kind: PolicyTest\nstep: []\n", "did you mean steps?"),
        ("kind: PolicyTest\nsteps:\n- expect:\n  - {alow: \"x/a -> x/b tcp/80\"}\n", "did you mean allow?"),
        ("kind: PolicyTest\nsteps:\n- expect:\n  - {allow: \"x/a x/b tcp/80\"}\n", "has no ->"),
        ("kind: PolicyTest\noptions: {selfTrafic: allow}\nsteps:\n- {}\n", "unknown option"),
        (
            "kind: PolicyTest\nworld: [missing.yaml]\nsteps:\n- expect: [{allow: \"x/a -> x/b tcp/80\"}]\n",
            "no such file or folder",
        ),
        ("kind: PolicyTest\nsteps:\n- {}\n", "expects something"),
        ("kind: PolicyTest\nsteps:\n- {expect: [], expect: []}\n", "expect is written twice"),
        ("kind: AdmissionTest\ncases:\n- {name: a, object: {}, expect: maybe}\n", "expect: accept or reject"),
        (
            "kind: AdmissionTest\ncases:\n- {name: a, operation: update, object: {}, expect: accept}\n",
            "needs the field old",
        ),
    ] {
        let answer = palisade_with(&["test", "-"], text, &[]);
        assert_eq!(answer.code, 2, "{text}");
        assert!(answer.out.contains(says) && answer.out.contains("<stdin>:"), "{says}: {}", answer.out);
    }
}

#[test]
fn colour_is_for_terminals_and_for_who_asks() {
    let flow = explain("shop/web -> shop/db tcp/5432", &[]);
    assert!(!palisade(&flow).out.contains('\u{1b}'));
    let always = [&flow[..], &["--color", "always"]].concat();
    assert!(palisade(&always).out.contains("\u{1b}[1m\u{1b}[31mDENIED"));
    let never = [&flow[..], &["--color", "never"]].concat();
    assert!(!palisade(&never).out.contains('\u{1b}'));
}

#[test]
fn trees_keep_to_the_width() {
    for width in ["60", "80", "132"] {
        let answer =
            palisade_with(&explain("shop/web -> shop/db tcp/5432", &["--all"]), "", &[("COLUMNS", width)]);
        let widest =
            answer.out.lines().filter(|line| line.starts_with("  ")).map(|line| line.chars().count()).max();
        assert!(widest.unwrap() <= width.parse::<usize>().unwrap(), "{width}: {widest:?}\n{}", answer.out);
    }
}

#[test]
fn help_has_examples_and_the_version_is_said() {
    for command in ["explain", "check", "test"] {
        let answer = palisade(&[command, "--help"]);
        assert_eq!(answer.code, 0);
        assert!(answer.out.contains("Examples:") && answer.out.contains("Exit code"), "{}", answer.out);
    }
    assert_eq!(palisade(&["--version"]).out, format!("palisade {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_program_for_the_kernel_is_for_one_node() {
    let answer = palisade(&["compile", "--to", "nftables", "-f", "examples/shop"]);
    assert_eq!((answer.code, answer.out.as_str()), (2, ""));
    assert!(answer.err.contains("--node: worker-1, worker-2"), "{}", answer.err);
    let answer = palisade(&["compile", "--to", "nftables", "--node", "worker-9", "-f", "examples/shop"]);
    assert_eq!(answer.code, 2);
    assert!(answer.err.contains("there is no node worker-9 in examples/shop"), "{}", answer.err);
    let answer = palisade(&["compile", "--to", "nftables", "--node", "worker-1", "-f", "examples/shop"]);
    assert_eq!(answer.code, 0, "{}", answer.err);
    // Pods of this node only, and the policy behind a verdict by name.
    let (head, _) = answer.out.split_once("map to_pod6").unwrap();
    let (_, dispatch) = head.split_once("map to_pod4").unwrap();
    assert!(dispatch.contains("10.244.1.12 : goto in_") && !dispatch.contains("10.244.2.31"), "{dispatch}");
    assert!(answer.out.contains("allowed by NetworkPolicy shop/web-egress, rule 0"), "{}", answer.out);
    let broken = palisade(&["compile", "--to", "nftables", "--node", "worker-1", "-f", "examples/broken"]);
    assert_eq!((broken.code, broken.out.as_str()), (1, ""), "{}", broken.err);
    assert!(broken.err.contains("nothing is compiled"), "{}", broken.err);
}
