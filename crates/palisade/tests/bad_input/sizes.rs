//! Absurd sizes.

use std::fmt::Write;

use crate::harness::{Folder, PODS, POLICY, at, check, explain};

const MB: usize = 1_000_000;

#[test]
fn a_hundred_thousand_documents_load() {
    let folder = Folder::new();
    let mut text = format!("{PODS}---\n{POLICY}");
    for index in 0..100_000 {
        let _ = write!(text, "---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: n{index}}}\n");
    }
    let path = folder.write("many.yaml", text);
    assert_eq!(explain(&[&path], b""), 1);
    let found = check(&[&path], b"");
    assert_eq!((found.code, found.objects, found.found), (0, 100_003, vec![]));
}

#[test]
fn every_one_of_many_broken_documents_is_reported() {
    let folder = Folder::new();
    let path = folder.write("many.yaml", format!("{PODS}---\n{POLICY}{}", "---\na: ]\n".repeat(20_000)));
    assert_eq!(explain(&[&path], b""), 1);
    assert_eq!(check(&[&path], b"").found.len(), 20_000);
}

#[test]
fn a_file_of_50_mb_loads() {
    let folder = Folder::new();
    let mut text = String::from("apiVersion: v1\nkind: List\nitems:\n");
    let indented = |object: &str| format!("- {}\n", object.trim_end().replace('\n', "\n  "));
    PODS.split("---\n").chain([POLICY]).for_each(|object| text.push_str(&indented(object)));
    let line = "    a line of a file in a config map, in no way remarkable\n";
    while text.len() < 50 * MB {
        text.push_str(
            "- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: c, namespace: shop}\n  data:\n   f: |\n",
        );
        text.push_str(&line.repeat(20_000));
    }
    let path = folder.write("large.yaml", text);
    assert_eq!(explain(&[&path], b""), 1);
}

#[test]
fn a_json_file_of_50_mb_on_one_line_loads() {
    let folder = Folder::new();
    let mut text = String::from(r#"{"apiVersion":"v1","kind":"List","items":["#);
    let mut index = 0;
    while text.len() < 50 * MB {
        let _ = write!(
            text,
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p{index}","namespace":"ä","annotations":{{"a":"{}"}}}}}},"#,
            "x".repeat(2000)
        );
        index += 1;
    }
    text.push_str(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop"}},"#);
    text.push_str(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"db","namespace":"shop"}}]}"#);
    let path = folder.write("large.json", text);
    assert_eq!(explain(&[&path], b""), 0);
}

#[test]
fn many_policies_are_checked_without_holding_each_against_all_pods() {
    let folder = Folder::new();
    let mut text = format!("{PODS}---\n{POLICY}");
    for index in 0..5_000 {
        let meta =
            format!("metadata: {{name: p{index}, namespace: n{}, labels: {{app: a{index}}}}}", index % 100);
        let selector = format!("podSelector: {{matchLabels: {{app: a{index}}}}}");
        let rules = format!(
            "ingress: [{{from: [{{{selector}}}]}}], egress: [{{ports: [{{port: dns, protocol: UDP}}]}}]"
        );
        let _ =
            write!(text, "---\napiVersion: v1\nkind: Pod\n{meta}\n---\napiVersion: networking.k8s.io/v1\n");
        let _ = write!(
            text,
            "kind: NetworkPolicy\n{meta}\nspec: {{{selector}, {rules}, policyTypes: [Egress, Ingress]}}\n"
        );
    }
    let path = folder.write("many.yaml", text);
    assert_eq!(explain(&[&path], b""), 1);
    assert_eq!(check(&[&path], b"").objects, 10_003);
}

#[test]
fn many_findings_on_one_line_are_shown() {
    let folder = Folder::new();
    let pods: Vec<_> = (0..20_000)
        .map(|index| {
            format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"ä{index}","labels":{{"a":1}}}}}}"#
            )
        })
        .collect();
    let path = folder.write("a.json", format!(r#"{{"kind":"List","items":[{}]}}"#, pods.join(",")));
    assert_eq!(check(&[&path], b"").code, 1);
}

#[test]
fn lists_in_lists_are_not_copied_at_every_level() {
    let folder = Folder::new();
    let (open, close) = ("{items: [".repeat(59), "]}".repeat(59));
    let text = format!(
        "kind: {}\napiVersion: v1\nitems:\n- {open}{}{close}\n",
        "List".repeat(60),
        "a, ".repeat(300_000)
    );
    let path = folder.write("a.yaml", format!("{PODS}---\n{POLICY}---\n{text}"));
    assert_eq!(explain(&[&path], b""), 1);
}

/// The parser keeps such a text a hundred times over: it must be refused before that, in little memory.
#[cfg(target_os = "linux")]
#[test]
fn hostile_50_mb_are_refused_in_little_memory() {
    let folder = Folder::new();
    for (index, unit) in ["a, ", "[] ", "*a ", "{a: b}, "].into_iter().enumerate() {
        let hostile = unit.repeat(50 * MB / unit.len());
        let path = folder
            .write(&format!("{index}.yaml"), format!("{PODS}---\n{POLICY}---\n[{hostile}\n---\n{PODS}"));
        let script = "ulimit -v 1500000; exec \"$0\" check --output json -f \"$1\"";
        let run = crate::harness::run(
            std::process::Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_palisade"), &path]),
            b"",
        );
        let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!((run.code, &json["summary"]["objects"]), (1, &3.into()), "{unit}");
        assert_eq!(json["diagnostics"][0]["code"], "S0003", "{unit}");
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn long_lines_and_names_are_shown_in_part() {
    let folder = Folder::new();
    let long = "n".repeat(MB);
    let path = folder.write(
        "a.yaml",
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{{long}: 1, name: {{{long}: 1}}}}\n"),
    );
    assert_eq!(check(&[&path], b"").code, 1);
    let path = folder.write("b.yaml", format!("{{a: {long}, b: [}}"));
    assert_eq!(check(&[&path], b"").found, [at("S0002", 1, 1_000_011)]);
}
