//! The commands for Thorium as users and programs meet them.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod run;

use serde_json::Value;

use run::palisade;

const EXAMPLE: &str = "examples/thorium";

#[test]
fn effective_shows_each_line_with_its_origin() {
    let (code, out, err) = palisade(&["thorium", "effective", "corn/harvester", "-f", EXAMPLE], "");
    assert_eq!((code, err.as_str()), (0, ""));
    for line in [
        "corn/harvester   3 policies (2 base, 1 attached)",
        "from-crabs, rule 0        examples/thorium/rules/from-crabs.yaml:2",
        "mirror, rule 0            examples/thorium/thorium.yml:23",
        "shown on the image: from-crabs",
    ] {
        assert!(out.contains(line), "{line}\n{out}");
    }
    let (_, out, _) = palisade(&["thorium", "effective", "kelp/press", "-f", EXAMPLE], "");
    assert!(out.contains("Kubernetes does not run it"), "{out}");
}

#[test]
fn effective_has_a_json_twin() {
    let (code, out, _) =
        palisade(&["thorium", "effective", "kelp/dryer", "-f", EXAMPLE, "--output", "json"], "");
    let held: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 0);
    assert_eq!(held["shown"], serde_json::json!([]));
    let because: Vec<&str> = held["applied"]
        .as_array()
        .unwrap()
        .iter()
        .map(|policy| policy["because"].as_str().unwrap())
        .collect();
    assert_eq!(because, ["base", "base", "forced"]);
    assert_eq!(held["ingress"]["restricted"], true);
    assert_eq!(held["egress"]["allowed"][0]["origins"][0]["line"], 12);
}

#[test]
fn a_wrong_tool_gets_the_nearest() {
    for (wrong, want) in [
        ("corn/harvestr", "did you mean corn/harvester?"),
        ("crabs/dryer", "did you mean kelp/dryer?"),
        ("corn", "write GROUP/TOOL"),
    ] {
        let (code, out, err) = palisade(&["thorium", "effective", wrong, "-f", EXAMPLE], "");
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(err.contains(want), "{err}");
    }
}

#[test]
fn verify_says_all_errors_at_once_with_their_places() {
    let rules = "ingress:\n- allowed_ips: [{cidr: 10.0.0.1/24}]\n  ports: [{port: 0}]\n- allowed_ip: []\negress: null\n";
    let (code, out, _) = palisade(&["thorium", "verify", "rules", "-"], rules);
    assert_eq!(code, 1);
    for finding in
        ["error[T0104]", "<stdin>:2:24", "error[T0108]", "error[T0103]", "<stdin>:4:3", "error[T0117]"]
    {
        assert!(out.contains(finding), "{finding}\n{out}");
    }
    let (code, out, _) = palisade(&["thorium", "verify", "-", "--output", "json"], rules);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["summary"]["errors"]), (1, &serde_json::json!(4)));
}

#[test]
fn verify_guesses_what_a_file_is() {
    for (text, what) in [
        ("ingress: [{allowed_all: true}]", "a rules file"),
        ("ingress: []", "a rules file"),
        ("{name: p, groups: [a], egress: []}", "a policy request"),
        ("thorium: {base_network_policies: [{name: b, egress: []}]}", "base policies"),
        ("{kind: ThoriumInstance, groups: [a]}", "an instance manifest"),
    ] {
        let (code, out, _) = palisade(&["thorium", "verify", "-"], text);
        assert_eq!(code, 0, "{out}");
        assert!(out.contains(&format!("<stdin>:1: {what}\n")), "{out}");
    }
    let (code, _, err) = palisade(&["thorium", "verify", "-"], "replicas: 3");
    assert_eq!(code, 2);
    assert!(err.contains("none of Thorium's documents"), "{err}");
    let (code, _, _) =
        palisade(&["thorium", "verify", "base", "-"], "- {name: b, ingress: []}\n- {name: b}\n");
    assert_eq!(code, 1, "a bare list of base policies, one name twice");
}

#[test]
fn compiled_objects_can_be_asked_like_any_others() {
    let (code, yaml, err) = palisade(&["compile", "--to", "kubernetes", "-f", EXAMPLE], "");
    assert_eq!((code, err.as_str()), (0, ""));
    let (code, out, _) = palisade(&["check", "-f", "-", "--output", "json"], &yaml);
    assert_eq!(code, 0, "{out}");
    let (_, json, _) = palisade(&["compile", "--to", "kubernetes", "-f", EXAMPLE, "--output", "json"], "");
    let list: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), yaml.matches("kind: NetworkPolicy").count());
}

#[test]
fn compile_says_when_there_is_nothing_or_something_is_wrong() {
    let (code, out, err) = palisade(&["compile", "--to", "kubernetes", "-f", "examples/broken"], "");
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("nothing to compile in examples/broken"), "{err}");
    let wrong = "{name: p, groups: [corn], ingress: [{allowed_ip: []}]}";
    let (code, out, err) = palisade(&["compile", "--to", "kubernetes", "-f", "-"], wrong);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("error[T0103]") && err.contains("nothing is compiled"), "{err}");
    let (code, out, _) =
        palisade(&["compile", "--to", "kubernetes", "--thorium", "program", "-f", "-"], wrong);
    assert_eq!(code, 0, "the program does not know that it is wrong");
    assert!(out.contains("kind: NetworkPolicy"), "{out}");
}

#[test]
fn the_switch_changes_the_answer() {
    let flow = "crabs/analyzer -> corn/harvester udp/8080";
    let request = "{kind: ThoriumInstance, groups: [a], images: [{group: a, tool: t, network_policies: [p]}]}\n---\n{name: p, groups: [a], egress: [{ports: [{port: 80, protocol: TCP}]}]}\n";
    let asked = |reading: &str| {
        palisade(&["explain", "a/t -> ip:203.0.113.7 tcp/80", "-f", "-", "--thorium", reading], request).0
    };
    assert_eq!((asked("document"), asked("program")), (1, 0));
    let (code, out, _) = palisade(&["explain", flow, "-f", EXAMPLE], "");
    assert_eq!(code, 1);
    assert!(out.contains("udp/8080 is not tcp/8080"), "{out}");
}

#[test]
fn verify_passes_nothing_that_is_something_else() {
    for (text, code) in [
        ("- {name: b, ingress: []}\n- {ingress: []}\n", 1),
        ("foo: 1\n", 1),
        ("- {name: b, ingress: []}\n", 0),
    ] {
        let (got, out, err) = palisade(&["thorium", "verify", "base", "-"], text);
        assert_eq!(got, code, "{text}{out}{err}");
    }
    let (_, out, err) = palisade(&["thorium", "verify", "-"], "replicas: 3");
    assert!(!out.contains("0 documents"), "{out}{err}");
    // Tests beside the documents are nobody's mistake.
    let (code, out, err) = palisade(&["thorium", "verify", EXAMPLE], "");
    assert_eq!(code, 0, "{out}{err}");
}

#[test]
fn one_wrong_item_hides_no_other() {
    let rules = "ingress:\n- ports: [{port: 0}, {port: 90, end_port: 80}, 443]\n  allowed_ips: [1.2.3.4, {cidr: foo}]\n";
    let (_, out, _) = palisade(&["thorium", "verify", "rules", "-"], rules);
    for code in ["T0108", "T0109", "S0006", "T0104"] {
        assert!(out.contains(code), "{code}: {out}");
    }
    let (_, out, _) =
        palisade(&["thorium", "verify", "-"], "- name: thorium-default\n  ingress:\n  - allowed_all: true\n");
    assert!(out.contains("put them below thorium: base_network_policies:"), "{out}");
}
