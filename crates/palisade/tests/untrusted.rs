//! Folders and repositories that somebody else made: nothing that they configure is run, and nothing outside of them is read.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg(unix)]

mod folder;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use folder::Folder;

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\n";
const OTHER: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: secret, namespace: outside}\n";

fn policy(name: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{podSelector: {{}}}}\n"
    )
}

/// A program that leaves a mark when it is run.
fn trap(folder: &Folder, name: &str) -> String {
    let (program, mark) = (folder.0.join(format!("{name}.sh")), folder.0.join("marks").join(name));
    fs::create_dir_all(folder.0.join("marks")).unwrap();
    fs::write(&program, format!("#!/bin/sh\ntouch '{}'\nexit 1\n", mark.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program.to_str().unwrap().to_owned()
}

fn marks(folder: &Folder) -> Vec<String> {
    let entries = fs::read_dir(folder.0.join("marks")).unwrap().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

/// A repository whose configuration names a program wherever git takes one.
fn repository() -> Folder {
    let folder = Folder::new();
    folder.write("cluster/pod.yaml", POD);
    folder.write("cluster/policy.yaml", &policy("a"));
    folder.write(".gitattributes", "*.yaml diff=evil filter=evil merge=evil\n");
    folder.write(".gitignore", "*.sh\nmarks\ncluster/ignored.yaml\n");
    folder.git(&["init", "-q"]);
    folder.git(&["add", "."]);
    folder.git(&["commit", "-qm", "one"]);
    folder.git(&["branch", "-q", "side"]);
    folder.write("cluster/policy.yaml", &policy("b"));
    folder.git(&["commit", "-qam", "two"]);
    folder.write("cluster/policy.yaml", &policy("c"));
    folder.write("cluster/new.yaml", &policy("d"));
    folder.write("cluster/ignored.yaml", "this is no manifest: [");
    for (key, name) in [
        ("core.fsmonitor", "fsmonitor"),
        ("core.pager", "pager"),
        ("core.sshCommand", "ssh"),
        ("core.askPass", "askpass"),
        ("core.editor", "editor"),
        ("core.gitProxy", "proxy"),
        ("credential.helper", "credential"),
        ("diff.external", "external-diff"),
        ("diff.evil.command", "diff"),
        ("diff.evil.textconv", "textconv"),
        ("filter.evil.smudge", "smudge"),
        ("filter.evil.clean", "clean"),
        ("filter.evil.process", "process"),
        ("merge.evil.driver", "merge"),
        ("remote.origin.uploadpack", "uploadpack"),
    ] {
        let program = trap(&folder, name);
        folder.git(&["config", key, &program]);
    }
    folder.git(&["config", "filter.evil.required", "true"]);
    for command in ["ls-files", "ls-tree", "cat-file", "rev-parse", "merge-base", "for-each-ref"] {
        folder.git(&["config", &format!("alias.{command}"), &format!("!{}", trap(&folder, "alias"))]);
        folder.git(&["config", &format!("pager.{command}"), &trap(&folder, "pager")]);
    }
    let hooks = folder.0.join("hooks");
    fs::create_dir_all(&hooks).unwrap();
    for hook in ["fsmonitor-watchman", "post-index-change", "reference-transaction", "post-checkout"] {
        fs::copy(trap(&folder, &format!("hook-{hook}")), hooks.join(hook)).unwrap();
    }
    folder.git(&["config", "core.hooksPath", hooks.to_str().unwrap()]);
    // The index as a file system monitor would have left it, so that git asks the monitor.
    for mark in marks(&folder) {
        fs::remove_file(folder.0.join("marks").join(mark)).unwrap();
    }
    folder
}

#[test]
fn a_repository_runs_nothing() {
    let folder = repository();
    // The trap works: git itself falls into it.
    let _ = Command::new("git").arg("status").current_dir(&folder.0).output().unwrap();
    assert!(marks(&folder).contains(&"fsmonitor".to_owned()), "{:?}", marks(&folder));
    for mark in marks(&folder) {
        fs::remove_file(folder.0.join("marks").join(mark)).unwrap();
    }
    for revisions in ["HEAD", "side", "HEAD~1..HEAD", "side...HEAD", "nosuch"] {
        for paths in [&["cluster"][..], &[], &["cluster/policy.yaml"]] {
            let (code, _, err) = folder.palisade(&[&["diff", "--git", revisions][..], paths].concat());
            let want = if revisions == "nosuch" { 2 } else { 0 };
            // No pod is isolated in another way: the policies differ in their names.
            assert_eq!(code, want, "{revisions} {paths:?}: {err}");
            assert_eq!(marks(&folder), Vec::<String>::new(), "{revisions} {paths:?}");
        }
    }
}

#[test]
fn what_a_partial_clone_lacks_is_not_fetched() {
    let folder = repository();
    let id =
        Command::new("git").args(["rev-parse", "HEAD:cluster/policy.yaml"]).current_dir(&folder.0).output();
    let id = String::from_utf8(id.unwrap().stdout).unwrap().trim().to_owned();
    fs::remove_file(folder.0.join(".git/objects").join(&id[..2]).join(&id[2..])).unwrap();
    let url = format!("ext::{}", trap(&folder, "transport"));
    for (key, value) in [
        ("remote.origin.url", url.as_str()),
        ("remote.origin.promisor", "true"),
        ("remote.origin.partialclonefilter", "blob:none"),
        ("extensions.partialClone", "origin"),
        ("core.repositoryformatversion", "1"),
        ("protocol.ext.allow", "always"),
    ] {
        folder.git(&["config", key, value]);
    }
    let (code, _, err) = folder.palisade(&["diff", "--git", "HEAD", "cluster"]);
    assert_eq!(code, 2);
    assert!(err.contains("git cannot read HEAD:cluster/policy.yaml"), "{err}");
    assert_eq!(marks(&folder), Vec::<String>::new());
}

#[test]
fn a_repository_of_another_user_is_refused_with_the_reason() {
    let folder = repository();
    let output = Command::new(env!("CARGO_BIN_EXE_palisade"))
        .args(["diff", "--git", "HEAD", "cluster"])
        .current_dir(&folder.0)
        .env("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("dubious ownership"), "{err}");
    assert_eq!(marks(&folder), Vec::<String>::new());
}

#[test]
fn links_lead_nowhere_outside_of_their_folder() {
    let folder = Folder::new();
    folder.write("outside/secret.yaml", OTHER);
    folder.write("cluster/pod.yaml", POD);
    folder.write("cluster/..data/inner.yaml", &policy("inner"));
    symlink("../outside/secret.yaml", folder.0.join("cluster/file.yaml")).unwrap();
    symlink(folder.0.join("outside"), folder.0.join("cluster/folder")).unwrap();
    // As a ConfigMap is mounted: links that stay.
    symlink("..data/inner.yaml", folder.0.join("cluster/inner.yaml")).unwrap();
    symlink("cluster", folder.0.join("named")).unwrap();
    for path in ["cluster", "named", "./cluster/../cluster"] {
        let check = folder.json(&["check", "-f", path, "--output", "json"]);
        assert_eq!(check["summary"]["objects"], 2, "{check}");
        let links = check["diagnostics"].as_array().unwrap().iter().filter(|one| one["code"] == "S0020");
        let links: Vec<_> = links.map(|one| one["file"].as_str().unwrap().to_owned()).collect();
        assert_eq!(links, [format!("{path}/file.yaml"), format!("{path}/folder")]);
        let (code, _, err) = folder.palisade(&["explain", "outside/secret -> shop/web tcp/80", "-f", path]);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains("--follow-links"), "{err}");
    }
    let check = folder.json(&["check", "-f", "cluster", "--follow-links", "--output", "json"]);
    assert_eq!(check["summary"]["objects"], 3, "{check}");
    // What is named itself is read, wherever it leads.
    let check =
        folder.json(&["check", "-f", "cluster/file.yaml", "-f", "cluster/folder", "--output", "json"]);
    assert_eq!(check["summary"]["objects"], 1, "{check}");
    let (code, _, err) = folder.palisade(&["check", "-f", "cluster"]);
    assert_eq!(code, 2, "{err}");
    // What is enforced from a folder is all of it, or nothing.
    let (code, _, err) = folder.palisade(&["enforce", "-f", "cluster", "--dry-run", "--state", "state"]);
    assert!(code == 1 && err.contains("leads out of its folder"), "{code} {err}");
}

/// A pod that may be reached, unless the policy behind the link is read.
fn with_link(target: &str) -> Folder {
    let folder = Folder::new();
    folder.write("outside/policy.yaml", &policy("closed"));
    folder.write("cluster/pod.yaml", POD);
    folder.write("cluster/other.yaml", OTHER);
    folder.write(
        "cluster/open.yaml",
        &policy("open").replace("{podSelector: {}}", "{podSelector: {}, ingress: [{}]}"),
    );
    let name = if target.ends_with(".yaml") { "cluster/link.yaml" } else { "cluster/link" };
    symlink(target, folder.0.join(name)).unwrap();
    folder
}

#[test]
fn nothing_is_claimed_without_what_a_link_leads_to() {
    for target in ["../outside/policy.yaml", "../outside"] {
        let folder = with_link(target);
        for command in [
            &["explain", "outside/secret -> shop/web tcp/80", "-f", "cluster"][..],
            &["explain", "outside/secret -> shop/web tcp/80", "-f", "cluster", "--output", "json"],
            &["query", "outside/* -> shop/* tcp/80 is full", "-f", "cluster"],
            &["query", "outside/* -> shop/* tcp/80 is full", "-f", "cluster/pod.yaml", "--equals", "cluster"],
            &["map", "-f", "cluster"],
            &["diff", "cluster", "cluster"],
            &["diff", "cluster/pod.yaml", "--with", "cluster"],
            &["exposure", "-f", "cluster"],
            &["convert", "--to", "antrea", "-f", "cluster"],
            &["compile", "--to", "nftables", "-f", "cluster"],
            &["compile", "--to", "kubernetes", "-f", "cluster"],
            &["lab", "cluster"],
            &["test", "cluster"],
            &["check", "cluster"],
        ] {
            let (code, out, err) = folder.palisade(command);
            assert_eq!(code, 2, "{command:?}: {out}{err}");
            let said = format!("{out}{err}");
            assert!(
                said.contains("cluster/link") && said.contains("leads out of its folder"),
                "{command:?}: {said}"
            );
        }
        // With it, everything is claimed.
        let all = ["query", "outside/* -> shop/* tcp/80 is full", "-f", "cluster", "--follow-links"];
        assert_eq!(folder.palisade(&all).0, 0);
    }
}

#[test]
fn nothing_is_claimed_without_a_folder_that_cannot_be_read() {
    let folder = Folder::new();
    folder.write("cluster/pod.yaml", POD);
    folder.write("cluster/other.yaml", OTHER);
    let deep = format!("cluster/{}policy.yaml", "d/".repeat(70));
    folder.write(&deep, &policy("closed"));
    let (code, _, err) = folder.palisade(&["explain", "outside/secret -> shop/web tcp/80", "-f", "cluster"]);
    assert!(code == 2 && err.contains("folders nest deeper than 64"), "{code} {err}");
}

/// Folders of which each has two links to the next, for more paths than anybody can walk.
fn doubling(folder: &Folder) {
    for at in 0..38 {
        folder.write(&format!("cluster/d{at}/x.txt"), "");
        for name in ["a", "b"] {
            symlink(format!("../d{}", at + 1), folder.0.join(format!("cluster/d{at}/{name}"))).unwrap();
        }
    }
    folder.write("cluster/d38/x.txt", "");
}

#[test]
fn links_that_multiply_folders_end() {
    let folder = Folder::new();
    doubling(&folder);
    folder.write("cluster/pod.yaml", POD);
    let check = folder.json(&["check", "-f", "cluster", "--output", "json"]);
    let found: Vec<_> =
        check["diagnostics"].as_array().unwrap().iter().filter(|one| one["code"] == "S0003").collect();
    assert_eq!(found.len(), 1, "{check}");
    folder.git(&["init", "-q"]);
    folder.git(&["add", "."]);
    folder.git(&["commit", "-qm", "one"]);
    let (code, _, err) = folder.palisade(&["diff", "--git", "HEAD", "cluster"]);
    assert!(code == 2 && err.contains("lead to more than 100000"), "{code} {err}");
}

#[test]
fn links_in_a_repository_stay_in_it_too() {
    let folder = Folder::new();
    folder.write("outside/secret.yaml", OTHER);
    folder.write("repo/cluster/pod.yaml", POD);
    symlink("../../outside/secret.yaml", folder.0.join("repo/cluster/file.yaml")).unwrap();
    let repo = Folder(folder.0.join("repo"));
    repo.git(&["init", "-q"]);
    repo.git(&["add", "."]);
    repo.git(&["commit", "-qm", "one"]);
    for revisions in ["HEAD", "HEAD..HEAD"] {
        let (code, out, err) = repo.palisade(&["diff", "--git", revisions, "cluster"]);
        assert_eq!(code, 2, "{out}{err}");
        assert!(err.contains("HEAD:cluster/file.yaml: is a link that leads out of the repository"), "{err}");
        assert!(!out.contains("secret"), "{out}");
    }
    // What the working tree alone has is refused there.
    fs::remove_file(repo.0.join("cluster/file.yaml")).unwrap();
    repo.git(&["commit", "-qam", "two"]);
    assert_eq!(repo.palisade(&["diff", "--git", "HEAD", "cluster"]).0, 0);
    symlink(folder.0.join("outside"), repo.0.join("cluster/folder")).unwrap();
    let (code, _, err) = repo.palisade(&["diff", "--git", "HEAD", "cluster"]);
    assert!(
        code == 2 && err.contains("cluster/folder: is a link that leads out of the repository"),
        "{code} {err}"
    );
    // A folder of the index that is a link now: git lists what was in it.
    fs::remove_file(repo.0.join("cluster/folder")).unwrap();
    fs::rename(repo.0.join("cluster"), repo.0.join("was")).unwrap();
    fs::write(folder.0.join("outside/pod.yaml"), OTHER).unwrap();
    symlink("../outside", repo.0.join("cluster")).unwrap();
    let (code, out, err) = repo.palisade(&["diff", "--git", "HEAD"]);
    assert!(
        code == 2 && err.contains("cluster: is a link that leads out of the repository"),
        "{code} {out}{err}"
    );
}

#[test]
fn links_of_a_revision_are_read_as_those_of_the_working_tree() {
    let folder = Folder::new();
    folder.write("cluster/pod.yaml", POD);
    folder.write("cluster/other.yaml", OTHER);
    folder.write("shared/policy.yaml", &policy("closed"));
    folder.write("shared/more/pod.yaml", &POD.replace("web", "db"));
    folder.write(".gitignore", "shared/ignored\n");
    symlink("../shared/policy.yaml", folder.0.join("cluster/first.yaml")).unwrap();
    // A link to a link, and one to a folder.
    symlink("first.yaml", folder.0.join("cluster/policy.yaml")).unwrap();
    symlink("../shared/more", folder.0.join("cluster/more")).unwrap();
    symlink("cluster", folder.0.join("named")).unwrap();
    folder.git(&["init", "-q"]);
    folder.git(&["add", "."]);
    folder.git(&["commit", "-qm", "closed"]);
    for path in ["cluster", "named", "./cluster", "cluster/first.yaml"] {
        let (code, out, err) = folder.palisade(&["diff", "--git", "HEAD", path]);
        assert!(code == 0 && !err.contains("S0020") && !err.contains("link"), "{path}: {out}{err}");
    }
    // What a folder with ignored files has is not in the way of either side.
    folder.write("shared/ignored/pod.yaml", "no: [manifest");
    // The policy that a link leads to opens the pods.
    folder.write(
        "shared/policy.yaml",
        &policy("closed").replace("{podSelector: {}}", "{podSelector: {}, ingress: [{}]}"),
    );
    for path in ["cluster", "named"] {
        let (code, out, err) = folder.palisade(&["diff", "--git", "HEAD", path]);
        assert!(code == 1 && out.contains("shop/web") && out.contains("shop/db"), "{path}: {out}{err}");
    }
    folder.git(&["commit", "-qam", "open"]);
    assert_eq!(folder.palisade(&["diff", "--git", "HEAD", "cluster"]).0, 0);
    // Of two revisions neither reads the working tree.
    for name in ["shared/policy.yaml", "cluster/first.yaml", "cluster/policy.yaml", "cluster/more"] {
        fs::remove_file(folder.0.join(name)).unwrap();
    }
    let (code, out, err) = folder.palisade(&["diff", "--git", "HEAD~1..HEAD", "cluster"]);
    assert!(code == 1 && out.contains("shop/db"), "{out}{err}");
    // From a folder below the top, paths are from there.
    let inner = Folder(folder.0.join("cluster"));
    let (code, out, err) = inner.palisade(&["diff", "--git", "HEAD~1..HEAD"]);
    assert!(code == 1 && out.contains("shop/db"), "{out}{err}");
    let (code, _, err) = inner.palisade(&["diff", "--git", "HEAD~1..HEAD", "../shared"]);
    assert_eq!(code, 1, "{err}");
    std::mem::forget(inner);
}

/// A test with this world, in `tests/` of a folder.
fn with_world(folder: &Folder, world: &str) {
    let world = serde_json::Value::String(world.to_owned());
    folder.write(
        "tests/t.yaml",
        &format!("kind: PolicyTest\nname: t\nworld: [{world}]\nsteps: [{{expect: [{{allow: \"shop/web -> ip:192.0.2.1 tcp/80\"}}]}}]\n"),
    );
}

#[test]
fn a_test_reads_what_is_below_a_folder_that_is_named() {
    let folder = Folder::new();
    folder.write("cluster/pod.yaml", POD);
    folder.write("tests/own/pod.yaml", POD);
    folder.write("tests/deep/folder/x.yaml", POD);
    for (world, alone) in [
        ("own", true),
        ("./own/pod.yaml", true),
        ("../tests/own", true),
        ("../cluster", false),
        ("link", false),
    ] {
        with_world(&folder, world);
        if world == "link" {
            symlink("../cluster", folder.0.join("tests/link")).unwrap();
        }
        let (code, out, _) = folder.palisade(&["test", "tests"]);
        assert_eq!(code, if alone { 0 } else { 2 }, "{world}: {out}");
        assert_eq!(folder.palisade(&["test", "tests/t.yaml"]).0, code, "{world}");
        if !alone {
            assert!(out.contains("below a folder named on the command line"), "{out}");
        }
        // A folder that holds both may be named, or the other one as well.
        assert_eq!(folder.palisade(&["test", "."]).0, 0, "{world}");
        let both = folder.palisade(&["test", "tests/t.yaml", "cluster"]);
        assert_eq!(both.0, 0, "{world}: {both:?}");
    }
    fs::remove_file(folder.0.join("tests/link")).unwrap();
    // A link in a folder that a test names does not lead out, either.
    symlink("../../cluster/pod.yaml", folder.0.join("tests/deep/link.yaml")).unwrap();
    fs::remove_file(folder.0.join("tests/deep/folder/x.yaml")).unwrap();
    with_world(&folder, "deep");
    let (code, out, _) = folder.palisade(&["test", "tests/t.yaml"]);
    assert!(code == 2 && out.contains("leads out of its folder"), "{code} {out}");
    let (code, out, _) = folder.palisade(&["test", "tests/t.yaml", "--follow-links"]);
    assert_eq!(code, 0, "{out}");
    fs::remove_file(folder.0.join("tests/deep/link.yaml")).unwrap();
    // Where the tests are part of a repository, that is the boundary.
    with_world(&folder, "../cluster");
    folder.git(&["init", "-q"]);
    assert_eq!(folder.palisade(&["test", "tests"]).0, 0);
    with_world(&folder, "../../../../etc/hostname");
    assert_eq!(folder.palisade(&["test", "tests"]).0, 2);
    // Absolute paths are none of a test's.
    let absolute = folder.0.join("tests/own/pod.yaml");
    with_world(&folder, absolute.to_str().unwrap());
    let (code, out, _) = folder.palisade(&["test", "tests"]);
    assert!(code == 2 && out.contains("is absolute"), "{out}");
}
