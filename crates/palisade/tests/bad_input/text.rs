//! Texts that are not what they should be.

use crate::harness::{FLOW, Folder, PODS, POLICY, at, between, check, explain, palisade};

#[test]
fn broken_yaml_hides_no_other_document() {
    assert_eq!(between("a: [1, 2\nb: }"), (1, vec![at("S0002", 2, 2)]));
    assert_eq!(between("a: 'open"), (1, vec![at("S0002", 1, 4)]));
    assert_eq!(between("a: b\n c: d"), (1, vec![at("S0002", 2, 3)]));
}

#[test]
fn broken_json_is_located() {
    let folder = Folder::new();
    let (bad, good) = (folder.write("a.json", "{\"a\": 1,\n  b: 2}"), folder.write("b.yaml", PODS));
    let check = check(&[&bad, &good], b"");
    assert_eq!((check.code, check.objects, check.found), (1, 2, vec![at("S0002", 2, 3)]));
}

#[test]
fn deep_nesting_is_refused() {
    for open in ["[", "{a: ", "- "] {
        assert_eq!(between(&open.repeat(100_000)).1[0].0, "S0003", "{open}");
    }
    let folder = Folder::new();
    let path = folder.write("deep.json", "[".repeat(100_000));
    assert_eq!(check(&[&path], b"").found, [at("S0003", 1, 129)]);
}

#[test]
fn alias_bombs_are_refused() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..20 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    let (code, found) = between(&bomb);
    assert_eq!((code, found.len(), found[0].0.as_str()), (1, 1, "S0003"));
}

#[test]
fn keys_written_twice_are_reported_and_fail_closed() {
    let folder = Folder::new();
    let twice = "\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: open, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress: [{from: [{podSelector: {matchLabels: {app: nobody}}}]}]
  ingress: [{}]
";
    let path = folder.write("a.yaml", format!("{PODS}---\n{twice}"));
    let check = check(&[&path], b"");
    assert_eq!((check.code, check.found), (1, vec![at("S0005", 15, 3)]));
    assert_eq!(explain(&[&path], b""), 1);
}

#[test]
fn text_that_is_not_utf8_is_left_out() {
    let folder = Folder::new();
    folder.write("a.yaml", b"apiVersion: v1\nkind: P\xf6d\n");
    folder.write("b.yaml", PODS);
    let check = check(&[&folder.path("")], b"");
    assert_eq!((check.code, check.objects, check.found), (2, 2, vec![at("S0004", 2, 8)]));
    // An answer without that file might be wrong.
    assert_eq!(explain(&[&folder.path("")], b""), 2);
}

#[test]
fn binary_files_are_left_out() {
    let folder = Folder::new();
    let bytes: Vec<u8> = b"\x7fELF".iter().copied().chain((0..=255).cycle().take(100_000)).collect();
    let (binary, good) = (folder.write("a.yaml", bytes), folder.write("b.yaml", PODS));
    let found = check(&[&binary, &good], b"");
    assert_eq!((found.code, found.objects, found.found), (2, 2, vec![at("S0004", 2, 118)]));
    // Control characters are UTF-8, and still no text.
    let controls: String = (1..32).cycle().take(1000).map(char::from).collect();
    let controls = folder.write("c.yaml", controls);
    let found = check(&[&controls, &good], b"");
    assert_eq!((found.code, found.objects), (1, 2));
    assert!(found.found.iter().all(|(code, ..)| code == "S0002" || code == "S0008"), "{found:?}");
}

#[test]
fn nul_bytes_are_reported_and_hide_nothing() {
    let (code, found) = between("apiVersion: v1\nkind: Pod\0\nmetadata: {name: a}");
    assert_eq!((code, found), (1, vec![at("S0002", 2, 10)]));
    let (code, found) = between("\0\0\0");
    assert_eq!((code, found), (1, vec![at("S0002", 1, 1)]));
}

#[test]
fn comments_alone_are_nothing() {
    let folder = Folder::new();
    let path = folder.write("a.yaml", "# nothing\n\n# here\n---\n# nor here\n");
    let check = check(&[&path], b"");
    assert_eq!((check.code, check.objects, check.found), (0, 0, vec![]));
}

#[test]
fn the_fuzzers_finds_can_be_printed() {
    let folder = Folder::new();
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus");
    for target in ["load", "json", "policy_test"] {
        for entry in std::fs::read_dir(format!("{corpus}/{target}")).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{target}/{}.yaml", entry.file_name().display());
            folder.write(&name, std::fs::read(entry.path()).unwrap());
        }
    }
    let path = folder.path("");
    folder.write("z.yaml", format!("{PODS}---\n{POLICY}"));
    assert_ne!(check(&[&path], b"").code, 0);
    for output in ["text", "json"] {
        palisade(&["explain", FLOW, "--output", output, "-f", &path], b"");
        palisade(&["test", &path, "--output", output], b"");
    }
    palisade(&["check", "-f", &path, "--output", "sarif"], b"");
    palisade(&["test", &path, "--output", "junit"], b"");
}
