//! Small files that ask for much: commands end, say what they left out, and claim nothing about it.

use std::fmt::Write;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::harness::{Folder, Run, run_within};

/// However many others run beside: what counts is that it ends. In a release build each takes some seconds.
const LONGEST: Duration = Duration::from_secs(300);
/// What a process may hold, in KiB of addresses: the limit for resident memory, and what the allocator reserves beside.
const MEMORY: usize = 1_600_000;

/// Pods with a label each, and policies for all but one of them whose peers are all but another: what each pair may do
/// is another set of ports.
fn excluding(pods: usize, policies: usize) -> String {
    let but = |at: usize| {
        format!(r#"{{"matchExpressions":[{{"key":"a","operator":"NotIn","values":["{}"]}}]}}"#, at % pods)
    };
    let mut items = Vec::new();
    for at in 0..pods {
        items.push(format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p{at}","namespace":"d","labels":{{"a":"{at}"}}}},"status":{{"podIP":"10.0.{}.{}"}}}}"#,
            at / 250,
            at % 250 + 1
        ));
    }
    for at in 0..policies {
        items.push(format!(
            r#"{{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{{"name":"n{at}","namespace":"d"}},"spec":{{"podSelector":{},"policyTypes":["Ingress"],"ingress":[{{"from":[{{"podSelector":{}}}],"ports":[{{"port":{},"endPort":{}}}]}}]}}}}"#,
            but(at),
            but(at * 3),
            1 + at * 7,
            1 + at * 7 + at * 31 % 900
        ));
    }
    let mut text = r#"{"apiVersion":"v1","kind":"List","items":["#.to_owned();
    let _ = write!(text, "{}]}}", items.join(","));
    assert!(text.len() < 1_000_000);
    text
}

fn palisade(arguments: &[&str]) -> Run {
    let mut command = Command::new("sh");
    let limited = format!("ulimit -v {MEMORY}; exec \"$0\" \"$@\"");
    command.args(["-c", &limited, env!("CARGO_BIN_EXE_palisade")]).args(arguments);
    run_within(&mut command, &[], LONGEST)
}

#[test]
fn what_takes_too_much_work_is_left_out_and_never_claimed() {
    let folder = Folder::new();
    let bomb = folder.write("bomb.json", excluding(1_000, 1_500));
    let asked = ["d/* -> d/* tcp/65000 is empty", "-f", &bomb, "--output", "json"];
    let query = palisade(&[&["query"], &asked[..]].concat());
    let json: Value = serde_json::from_str(&query.out).unwrap();
    // It would hold, were it worked out.
    assert_eq!((query.code, &json["holds"]), (2, &Value::Bool(false)), "{}", query.err);
    let error = json["queries"][0]["error"].as_str().unwrap();
    assert!(error.contains("too much work"), "{error}");
    let query = palisade(&["query", asked[0], "-f", &bomb]);
    assert!(
        query.code == 2 && !query.out.contains("HOLDS") && query.err.contains("too much work"),
        "{query:?}"
    );

    let map = palisade(&["map", "-f", &bomb, "--output", "json", "--port", "tcp/1"]);
    let json: Value = serde_json::from_str(&map.out).unwrap();
    let problems = json["inputProblems"].as_array().unwrap();
    let left_out = problems.iter().find(|one| one["code"] == "S0018").expect("workloads are left out");
    assert!(left_out["message"].as_str().unwrap().starts_with("left out "), "{left_out}");
    assert!(map.code == 2 && map.err.contains("left out "), "{}", map.err);

    let same = palisade(&["diff", &bomb, &bomb]);
    assert_eq!(same.code, 2, "{same:?}");
    assert!(same.out.starts_with("No difference in what was compared"), "{same:?}");
    assert!(same.err.contains("too much work"), "{same:?}");
}
