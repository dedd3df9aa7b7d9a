//! Names that would forge output: every command and every format, with names, values, files, revisions and arguments that hold line
//! breaks, terminal escapes, bidirectional overrides, invisible characters and commands to CI runners.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod folder;

use std::collections::BTreeMap;
use std::process::Command;

use folder::Folder;
use serde_json::{Value, json};

/// What follows a name that has begun harmlessly. Each line of it must stay within the line of the name.
const EVIL: &str = "\n::error::FORGED\nFORGED line\r\u{1b}[31m\u{1b}[8mhidden\u{1b}[0m\u{202e}\u{2066}\u{200b}\u{9b}2J\u{7f}\
                    \u{2028}FORGED\u{2029}FORGED\u{61c}\u{e0041} ##[error]FORGED ##vso[task.x]FORGED\t\u{7}\u{0}";

fn evil(begin: &str) -> String {
    format!("{begin}{EVIL}")
}

/// Whether a character is one that no output holds, besides line breaks.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
}

/// Without the colours that the program uses; none of them hides.
fn without_colours(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        out.push_str(&rest[..at]);
        let code = &rest[at + 2..];
        let end = code.find(|c: char| !(c.is_ascii_digit() || c == ';')).unwrap_or(code.len());
        let own = code[end..].starts_with('m') && !code[..end].split(';').any(|part| part == "8");
        if !own {
            out.push_str("\u{1b}[");
        }
        rest = if own { &code[end + 1..] } else { code };
    }
    out.push_str(rest);
    out
}

/// Holds an output against what no input may do to it.
fn harmless(text: &str, what: &str) {
    for line in without_colours(text).split('\n') {
        // A program for nft is indented by tabs; it has no others.
        let shown = line.trim_start_matches('\t');
        assert!(!shown.contains(is_unseen), "{what}: {line:?}");
        let begin = shown.trim_start();
        assert!(!begin.starts_with("::error"), "{what}: {line:?}");
        assert!(!line.starts_with("FORGED"), "{what}: {line:?}");
        assert!(!line.contains("##[") && !line.contains("##vso["), "{what}: {line:?}");
    }
}

/// Runs with no other program on the path, so that nothing of this machine is measured or changed, unless git is needed.
fn run(folder: &Folder, arguments: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_palisade"));
    command.args(arguments).current_dir(&folder.0).env_remove("COLUMNS").env_remove("NO_COLOR");
    if !arguments.contains(&"--git") {
        command.env("PATH", "/nowhere");
    }
    let output = command.stdin(std::process::Stdio::null()).output().expect("the binary runs");
    assert!(output.status.code().is_some_and(|code| code <= 2), "{arguments:?}: {output:?}");
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// The commands that a help lists.
fn commands(folder: &Folder, of: &[&str]) -> Vec<String> {
    let (help, _) = run(folder, &[of, &["--help"]].concat());
    let list =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // What does not begin in the third column goes on from the line above.
    let names = list.filter(|line| line.find(|c| c != ' ') == Some(2));
    let names = names.filter_map(|line| line.split_whitespace().next().map(str::to_owned));
    names.filter(|name| name != "help").collect()
}

/// The formats that `--output` of a command takes; one nameless where it has no such option.
fn formats(folder: &Folder, of: &[&str]) -> Vec<String> {
    let (help, _) = run(folder, &[of, &["--help"]].concat());
    let values = help.lines().skip_while(|line| !line.contains("--output <")).skip(1);
    let values = values.take_while(|line| !line.trim_start().starts_with("--"));
    let name = |line: &str| Some(line.trim_start().strip_prefix("- ")?.split(':').next()?.to_owned());
    let found: Vec<String> = values.filter_map(name).collect();
    if found.is_empty() { vec![String::new()] } else { found }
}

/// A cluster in which every text is hostile, but for the names of some pods, so that questions have answers.
fn cluster() -> Vec<Value> {
    let labels = json!({"app": "web", evil("key"): evil("value")});
    let pod = |namespace: &str, name: &str, labels: &Value, address: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "labels": labels, "annotations": {"a": evil("note")}},
            "spec": {"nodeName": evil("node"), "containers": [
                {"name": "c", "image": evil("image"), "ports": [{"name": evil("port"), "containerPort": 80}]}]},
            "status": {"podIP": address},
        })
    };
    let policy = |name: &str, port: Value| {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress"], "ingress": [{
                "from": [{"podSelector": {"matchLabels": {evil("key"): evil("value")}}}, {"ipBlock": {"cidr": evil("10.0.0.0/8")}}],
                "ports": [{"port": port}]}]},
        })
    };
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": evil("team")}}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": evil("ns")}}),
        pod("shop", "web", &labels, "10.0.0.1"),
        pod("shop", "db", &json!({"app": "db"}), "10.0.0.2"),
        pod("shop", &evil("pod"), &labels, "10.0.0.3"),
        pod(&evil("ns"), &evil("pod"), &labels, "10.0.0.4"),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bad", "namespace": "shop"}, "status": {"podIP": evil("10.0.0.5")}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": evil("svc"), "namespace": "shop"},
            "spec": {"selector": {"app": "web"}, "ports": [{"name": evil("p"), "port": 80, "targetPort": evil("port")}]}}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": evil("in"), "namespace": "shop"},
            "spec": {"defaultBackend": {"service": {"name": evil("svc"), "port": {"number": 80}}}}}),
        policy(&evil("policy"), json!(evil("port"))),
        policy("plain", json!(80)),
        policy("plain", json!(80)),
        json!({"apiVersion": "policy.networking.k8s.io/v1alpha1", "kind": "AdminNetworkPolicy",
            "metadata": {"name": evil("anp")}, "spec": {"priority": 5, "subject": {"namespaces": {}},
            "ingress": [{"name": evil("rule"), "action": "Deny", "from": [{"namespaces": {"matchLabels": {"team": evil("team")}}}]}],
            "egress": [{"name": evil("rule"), "action": evil("Deny"), "to": [{"domainNames": [evil("a.example")]}]}]}}),
        json!({"apiVersion": "crd.antrea.io/v1beta1", "kind": "ClusterNetworkPolicy", "metadata": {"name": evil("acnp")},
            "spec": {"priority": 3, "tier": evil("tier"), "appliedTo": [{"group": evil("group")}],
            "ingress": [{"name": evil("rule"), "action": "Drop", "from": [{"fqdn": evil("b.example")}]}]}}),
        json!({"apiVersion": "crd.antrea.io/v1beta1", "kind": "ClusterNetworkPolicy", "metadata": {"name": "acnp"},
            "spec": {"priority": 4, "appliedTo": [{"podSelector": {}}],
            "egress": [{"name": evil("rule"), "action": "Allow", "to": [{"fqdn": evil("b.example")}],
                "l7Protocols": [{"http": {"host": evil("host"), "path": evil("/")}}]}]}}),
        json!({"apiVersion": evil("networking.k8s.io/v1"), "kind": evil("NetworkPolicy"), "metadata": {"name": evil("n")}}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "field", "namespace": "shop"},
            "spec": {"podSelector": {}, evil("unknownField"): evil("x")}}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": evil("Unknown"), "metadata": {"name": evil("n")}}),
        json!({evil("not"): evil("an object")}),
    ]
}

/// A cluster whose policies an API server would take, so that they are compared, compiled, converted and enforced; its pods and
/// nodes have hostile names.
fn accepted(port: u16) -> Vec<Value> {
    let pod = |name: &str, app: &str, address: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop", "labels": {"app": app}},
            "spec": {"nodeName": evil("node"), "containers": [{"name": "c", "ports": [{"containerPort": 80}]}]},
            "status": {"podIP": address},
        })
    };
    vec![
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": evil("node")},
            "status": {"addresses": [{"type": "InternalIP", "address": "172.18.0.2"}]}}),
        pod(&evil("web"), "web", "10.0.0.1"),
        pod(&evil("db"), "db", "10.0.0.2"),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": "np", "namespace": "shop", "annotations": {"note": evil("note")}},
            "spec": {"podSelector": {"matchLabels": {"app": "db"}}, "policyTypes": ["Ingress"], "ingress": [
                {"from": [{"podSelector": {"matchLabels": {"app": "web"}}}], "ports": [{"port": port}]}]}}),
    ]
}

/// The same that hostile documents may be, as Thorium has them.
fn thorium() -> Vec<Value> {
    vec![
        json!({"kind": "ThoriumInstance", "groups": [{"name": "corn"}, {"name": evil("group")}], "images": [
            {"name": "harvester", "group": "corn", "network_policies": [evil("policy")]},
            {"name": evil("tool"), "group": "corn"}]}),
        json!({"name": evil("policy"), "groups": ["corn"], "ingress": [{"allowed_tools": [evil("tool")], "ports": [{"port": 80}]}]}),
    ]
}

fn test() -> Value {
    json!({"kind": "PolicyTest", "name": evil("test"), "world": ["cluster"], "steps": [
        {"name": evil("step"), "expect": [{"allow": "shop/web -> shop/db tcp/80"}, {"deny": "shop/db -> shop/web tcp/80", "by": evil("by")},
            {"allow": format!("shop/{} -> shop/db tcp/80", evil("pod"))}, {"allow": "shop/nobody -> shop/db tcp/80"}]},
        {"name": evil("broken"), "applyFiles": [evil("gone.yaml")], "expect": []}]})
}

fn documents(all: &[Value]) -> String {
    all.iter().map(|one| format!("---\n{one}\n")).collect()
}

/// The folder with all of it: as files with plain names, as files with hostile ones, and as revisions of a repository.
fn hostile() -> Folder {
    let folder = Folder::new();
    // No file name holds NUL or a slash.
    let name = evil("file").replace(['\u{0}', '/'], "");
    folder.write("cluster/a.yaml", &documents(&cluster()));
    folder.write(&format!("{name}/{name}.yaml"), &documents(&cluster()[..6]));
    folder.write(&format!("{name}/broken.yaml"), "a: [\n# \u{1b}[31m\u{202e}FORGED\nb: {\u{9b}\n");
    folder.write(&format!("{name}/utf8.yaml"), "a: b\n");
    std::fs::write(folder.0.join(&name).join("utf8.yaml"), b"a: \x1b[31m\xff\n").unwrap();
    folder.write("accepted/a.yaml", &documents(&accepted(80)));
    folder.write("changed/a.yaml", &documents(&accepted(81)));
    folder.write("thorium/a.yaml", &documents(&thorium()));
    folder.write("tests/a.yaml", &test().to_string().replace("\"cluster\"", "\"../cluster\""));
    folder.write("tests/b.yaml", &json!({"kind": "PolicyTest", "name": evil("t"), evil("x"): 1}).to_string());
    folder.git(&["init", "-q"]);
    folder.git(&["add", "."]);
    folder.git(&["commit", "-qm", "one"]);
    let changed = documents(&cluster()).replace("\"port\":80", "\"port\":81");
    folder.write("cluster/a.yaml", &changed);
    folder
}

/// How each command is called. Whoever adds a command adds how it is called with hostile input.
fn calls(command: &str, name: &str) -> Vec<Vec<String>> {
    let e = evil("x");
    let flow = format!("shop/{} -> shop/web tcp/80", evil("pod"));
    let texts = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<String>>();
    let all: Vec<Vec<String>> = match command {
        "explain" => vec![
            texts(&["shop/db -> shop/web tcp/80", "-f", "cluster", "--all"]),
            texts(&["*/* -> shop/* tcp/80", "-f", "cluster", "-f", name]),
            texts(&[&flow, "-f", "cluster"]),
            texts(&[&format!("shop/{e} -> shop/web tcp/80"), "-f", name]),
            texts(&[&e, "-f", "cluster"]),
            texts(&["shop/db -> shop/web tcp/80", "-f", "cluster", "--option", &e]),
            texts(&["shop/db -> shop/web tcp/80", "-f", "cluster", "--option", &format!("selfTraffic={e}")]),
            texts(&["shop/db -> shop/web tcp/80", "-f", "cluster", "--dns", &format!("a={e}")]),
        ],
        "check" => vec![
            texts(&["-f", "cluster", "-f", name, "-f", "thorium"]),
            texts(&["-f", "nowhere", "-f", &e]),
            texts(&["--explain", &e]),
        ],
        "test" => vec![texts(&["tests"]), texts(&[&e]), texts(&["--engine", "tests", name])],
        "map" => vec![
            texts(&["-f", "cluster", "-f", name]),
            texts(&["-f", "cluster", "--explain", "--nodes", "--pods"]),
            texts(&["-f", "cluster", "--namespace", &e]),
            texts(&["-f", "cluster", "--focus", &format!("shop/{e}")]),
            texts(&["-f", "cluster", "--port", &e]),
        ],
        "diff" => vec![
            texts(&["--git", "HEAD", "cluster", "--all"]),
            texts(&["--git", &e, "cluster"]),
            texts(&["--git", "HEAD", &e]),
            texts(&["cluster", name, "--pods"]),
            texts(&["cluster", &e]),
            texts(&["accepted", "changed"]),
            texts(&["cluster", "--with", name]),
        ],
        "query" => vec![
            texts(&["-f", "cluster", "ns:shop <- internet is empty", "shop/db -> shop/web tcp/80 is full"]),
            texts(&["-f", "cluster", &e, &format!("shop/{e} -> shop/web tcp/80 is full")]),
            texts(&["-f", "cluster", "--within", name, "--equals", &e]),
        ],
        "exposure" => vec![
            texts(&["-f", "accepted"]),
            texts(&["-f", "cluster", "-f", name]),
            texts(&["-f", "cluster", "--focus", &format!("shop/{e}")]),
        ],
        "compile" => vec![
            texts(&["--to", "kubernetes", "-f", "thorium"]),
            texts(&["--to", "kubernetes", "-f", "thorium", "--thorium", "program"]),
            texts(&["--to", "nftables", "-f", "cluster"]),
            texts(&["--to", "nftables", "-f", "accepted"]),
            texts(&["--to", "nftables", "-f", "cluster", "--node", &evil("node")]),
            texts(&["--to", "nftables", "-f", "cluster", "--node", &e]),
        ],
        "convert" => ["networkpolicy", "clusternetworkpolicy", "adminnetworkpolicy", "antrea"]
            .into_iter()
            .flat_map(|to| {
                [
                    texts(&["--to", to, "-f", "accepted"]),
                    texts(&["--to", to, "-f", "cluster", "--partial"]),
                    texts(&["--to", to, "-f", "thorium"]),
                    texts(&["--to", to, "-f", &e]),
                ]
            })
            .collect(),
        "enforce" => vec![
            texts(&["-f", "cluster", "--dry-run", "--state", "state"]),
            texts(&["-f", "accepted", "--dry-run", "--state", "state"]),
            texts(&["-f", name, "--dry-run", "--node", &e, "--state", "state"]),
            texts(&["-f", "cluster", "--once", "--state", &e]),
        ],
        "enforce status" | "enforce stop" => vec![texts(&["--state", "state"]), texts(&["--state", &e])],
        "lab" => vec![texts(&["cluster"]), texts(&["accepted"]), texts(&[name]), texts(&[&e])],
        "lab test" => vec![texts(&["tests"]), texts(&[&e])],
        "lab exec" => vec![texts(&[&e, "--", "true"])],
        "lab clean" | "thorium" => vec![Vec::new()],
        "thorium effective" => vec![
            texts(&["corn/harvester", "-f", "thorium"]),
            texts(&[&format!("corn/{}", evil("tool")), "-f", "thorium"]),
            texts(&[&e, "-f", "thorium"]),
            texts(&[&format!("corn/{e}"), "-f", "thorium"]),
        ],
        "thorium verify" => {
            vec![texts(&["thorium"]), texts(&["rules", "thorium/a.yaml"]), texts(&[name, &e])]
        }
        "completions" => vec![texts(&["bash"]), texts(&[&e])],
        "man" => vec![texts(&[]), texts(&[&e])],
        other => panic!("palisade {other} is new: say here how it is called with hostile input"),
    };
    // And every command with arguments that it does not have.
    all.into_iter().chain([texts(&[&format!("--{e}")]), texts(&["--color", &e])]).collect()
}

#[test]
fn no_input_forges_output() {
    let folder = hostile();
    let name = evil("file").replace(['\u{0}', '/'], "");
    let mut all: BTreeMap<String, usize> = BTreeMap::new();
    let mut pending: Vec<Vec<String>> = commands(&folder, &[]).into_iter().map(|name| vec![name]).collect();
    assert!(pending.len() >= 14, "{pending:?}");
    while let Some(command) = pending.pop() {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        pending.extend(commands(&folder, &words).into_iter().map(|name| [&command[..], &[name]].concat()));
        for format in formats(&folder, &words) {
            for call in calls(&command.join(" "), &name) {
                // No argument holds NUL.
                let call: Vec<String> = call.iter().map(|argument| argument.replace('\u{0}', "")).collect();
                for colour in ["never", "always"] {
                    let mut arguments = words.clone();
                    arguments.extend(["--color", colour]);
                    if !format.is_empty() {
                        arguments.extend(["--output", &format]);
                    }
                    arguments.extend(call.iter().map(String::as_str));
                    let (out, err) = run(&folder, &arguments);
                    let what = format!("{arguments:?}");
                    // A script for a shell is all ours; it has tabs and escapes of its own.
                    if command[0] != "completions" {
                        harmless(&out, &what);
                    }
                    harmless(&err, &what);
                    if format == "json" && !out.is_empty() && !call.contains(&"nftables".to_owned()) {
                        serde_json::from_str::<Value>(&out)
                            .unwrap_or_else(|error| panic!("{what}: {error}: {out}"));
                    }
                    *all.entry(format!("{} {format}", command.join(" "))).or_default() +=
                        format!("{out}{err}").matches("FORGED").count();
                }
            }
        }
    }
    // Hostile names were not merely refused: they are shown, escaped, by what prints names.
    for shown in [
        "explain text",
        "explain json",
        "check text",
        "check sarif",
        "test text",
        "test junit",
        "map table",
        "map list",
        "map csv",
        "map md",
        "map dot",
        "map svg",
        "map html",
        "map json",
        "diff text",
        "diff md",
        "diff sarif",
        "query text",
        "exposure text",
        "compile yaml",
        "convert yaml",
        "convert json",
        "enforce ",
        "lab text",
        "lab exec ",
        "thorium effective text",
        "thorium verify text",
        "completions ",
        "man ",
    ] {
        assert!(all.get(shown).is_some_and(|count| *count > 0), "{shown} shows no hostile name: {all:?}");
    }
}

#[test]
fn an_unknown_command_is_quoted_harmlessly() {
    let folder = Folder::new();
    for arguments in [
        vec![evil("expalin")],
        vec!["explain".to_owned(), "-f".to_owned(), "a".to_owned(), evil("x"), evil("y")],
    ] {
        let arguments: Vec<String> = arguments.iter().map(|argument| argument.replace('\u{0}', "")).collect();
        let (out, err) = run(&folder, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(out, "");
        assert!(err.contains("FORGED"), "{err}");
        harmless(&err, "arguments");
    }
}

#[test]
fn colours_and_lines_of_the_program_reach_a_terminal() {
    let folder = Folder::new();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let (shop, broken) = (format!("{root}/shop"), format!("{root}/broken"));
    for arguments in [
        vec!["explain", "shop/web -> shop/db tcp/5432", "-f", &shop],
        vec!["explain", "shop/wep -> shop/db tcp/5432", "-f", &broken],
        vec!["check", "-f", &broken],
        vec!["map", "-f", &shop, "--explain"],
        vec!["test", &shop],
        vec![
            "query",
            "-f",
            &shop,
            "ns:payments <- internet is empty",
            "ns:payments <- ns:shop is empty",
            "x",
        ],
        vec!["exposure", "-f", &shop],
        vec!["diff", &shop, &broken],
        vec!["lab", &shop],
        vec!["enforce", "-f", &shop, "--dry-run", "--state", "state"],
        vec!["convert", "--to", "antrea", "-f", &shop],
    ] {
        let (out, err) = run(&folder, &[&arguments[..], &["--color", "always"]].concat());
        let both = format!("{out}{err}");
        assert!(both.contains("\u{1b}["), "{arguments:?}: {both}");
        // A colour or a line break that went through a string on its way would be escaped as data are.
        assert!(!both.contains("\\x1b") && !both.contains("\\n"), "{arguments:?}: {both}");
    }
}

#[test]
fn documents_keep_their_lines() {
    let folder = Folder::new();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let (shop, thorium) = (format!("{root}/shop"), format!("{root}/thorium"));
    for arguments in [
        vec!["compile", "--to", "nftables", "-f", &shop, "--node", "worker-1"],
        vec!["compile", "--to", "kubernetes", "-f", &thorium],
        vec!["thorium", "effective", "corn/harvester", "-f", &thorium],
        vec!["thorium", "verify", &thorium],
        vec!["check", "--explain", "all"],
        vec!["check", "--explain", "L0108"],
        vec!["map", "-f", &shop, "--output", "md", "--explain"],
        vec!["map", "-f", &shop, "--output", "csv"],
        vec!["map", "-f", &shop, "--output", "svg"],
        vec!["map", "-f", &shop, "--output", "dot"],
        vec!["test", &shop, "--output", "junit"],
    ] {
        let (out, err) = run(&folder, &arguments);
        assert!(out.lines().count() > 2, "{arguments:?}: {out}{err}");
        assert!(
            !out.contains("\\n") && !out.contains("\\x") && !out.contains("\\u{"),
            "{arguments:?}: {out}"
        );
    }
}
