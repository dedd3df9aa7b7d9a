//! Files and folders that cannot be read, or not as they seem.

use crate::harness::{FLOW, Folder, PODS, POLICY, at, check, explain, palisade};

#[test]
fn a_missing_file_is_said_and_the_others_are_read() {
    let folder = Folder::new();
    let (missing, good) = (folder.path("none.yaml"), folder.write("b.yaml", PODS));
    let check = check(&[&missing, &good], b"");
    assert_eq!((check.code, check.objects, check.found), (2, 2, vec![at("S0001", 1, 1)]));
    let run = palisade(&["explain", FLOW, "-f", &missing, "-f", &good], b"");
    assert!(run.code == 2 && run.err.contains("none.yaml: no such file or folder"), "{run:?}");
}

#[test]
fn a_folder_may_be_called_like_a_file() {
    let folder = Folder::new();
    folder.write("file.yaml/pods.yaml", PODS);
    folder.write("file.yaml/below/policy.yml", POLICY);
    folder.write("file.yaml/notes.txt", "not: [a manifest");
    folder.write("file.yaml/.hidden.yaml", "not: [a manifest");
    for path in [folder.path("file.yaml"), folder.path("")] {
        assert_eq!(explain(&[&path], b""), 1);
        assert_eq!(check(&[&path], b"").objects, 3);
    }
}

#[test]
fn an_empty_folder_is_nothing() {
    let folder = Folder::new();
    let check = palisade(&["check", "-f", &folder.path("")], b"");
    assert_eq!(check.code, 2, "nothing to check is no success");
    assert!(check.err.contains("no manifests in"), "{}", check.err);
    assert_eq!(explain(&[&folder.path("")], b""), 2);
    assert_eq!(palisade(&["test", &folder.path("")], b"").code, 2);
}

#[cfg(unix)]
#[test]
fn cycles_of_symbolic_links_end() {
    use std::os::unix::fs::symlink;

    let folder = Folder::new();
    folder.write("a/pods.yaml", PODS);
    folder.write("b/policy.yaml", POLICY);
    symlink(folder.path(""), folder.path("a/up")).unwrap();
    let root = folder.path("");
    assert_eq!(explain(&[&root], b""), 1);
    let found = check(&[&root], b"");
    assert_eq!((found.code, found.objects, found.found), (1, 3, vec![at("S0001", 1, 1)]));
    // Links to themselves, to each other and to nowhere are files that cannot be read.
    symlink(folder.path("self.yaml"), folder.path("self.yaml")).unwrap();
    symlink(folder.path("two.yaml"), folder.path("one.yaml")).unwrap();
    symlink(folder.path("one.yaml"), folder.path("two.yaml")).unwrap();
    symlink(folder.path("nowhere"), folder.path("gone.yaml")).unwrap();
    let found = check(&[&root], b"");
    assert_eq!((found.code, found.objects, found.found.len()), (2, 3, 5));
}

#[test]
fn standard_input_may_be_empty_and_is_read_once() {
    let found = check(&["-"], b"");
    assert_eq!((found.code, found.objects, found.found), (0, 0, vec![]));
    assert_eq!(explain(&["-"], b""), 2);
    let all = format!("{PODS}---\n{POLICY}");
    assert_eq!(explain(&["-"], all.as_bytes()), 1);
    let found = check(&["-", "-"], all.as_bytes());
    assert_eq!((found.code, found.objects, found.found), (2, 3, vec![at("S0001", 1, 1)]));
}

#[test]
fn several_files_are_one_cluster() {
    let folder = Folder::new();
    let (pods, policy) = (folder.write("a.yaml", PODS), folder.write("b.json", "[1"));
    assert_eq!(explain(&[&pods, "-", &policy], POLICY.as_bytes()), 1);
    // In the order given.
    let check = check(&[&policy, &pods, "-"], b"a: [");
    assert_eq!(check.code, 1);
    let files: Vec<_> = check.diagnostics.iter().map(|d| d["file"].as_str().unwrap()).collect();
    assert_eq!(files, [policy.as_str(), "<stdin>"]);
}
