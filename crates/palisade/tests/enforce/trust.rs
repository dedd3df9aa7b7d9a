//! A state that other users may have written: it is refused, and nothing is taken out of force for it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use super::machine::{Machine, POLICY};

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Every command refuses, names the reason, and leaves the kernel and the state as they are.
fn refused(machine: &Machine, why: &str) {
    let text = || fs::read_to_string(machine.beside("state/state.json")).ok();
    let before = text();
    let monitor = machine.monitor();
    let state = machine.state();
    for output in [
        machine.palisade(&["--once"]),
        machine.palisade(&[]),
        machine.run(&["enforce", "status", "--state", &state]),
        machine.run(&["enforce", "stop", "--yes", "--state", &state]),
    ] {
        assert_eq!(output.code, Some(2), "{why}: {output:?}");
        assert!(output.err.contains("is not trusted") && output.err.contains(why), "{why}: {output:?}");
        assert!(output.err.contains("what is in force stays in force"), "{why}: {output:?}");
        assert_eq!(output.err.lines().count(), 1, "{output:?}");
    }
    assert_eq!(monitor.heard(), "", "{why}");
    assert_eq!(text(), before, "{why}");
    assert!(machine.connects("web", 80) && !machine.connects("job", 80), "{why}");
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn a_state_that_others_may_have_written_does_not_come_into_force() {
    let machine = Machine::new();
    assert_eq!(machine.palisade(&["--once"]).code, Some(0));
    let (folder, state, lock) =
        (machine.beside("state"), machine.beside("state/state.json"), machine.beside("state/lock"));
    // A policy that lets job in, as another user would write it; and the file that it would stand for has an error.
    let good = fs::read_to_string(&state).unwrap();
    let tampered = good.replace("app: web", "app: job");
    assert_ne!(good, tampered);
    fs::write(&state, &tampered).unwrap();
    machine.write("policy.yaml", "kind: {");
    chmod(&folder, 0o777);
    refused(&machine, "other users may write it (mode 0777)");
    chmod(&folder, 0o700);
    chown(&state, Some(4242), None).unwrap();
    refused(&machine, "it is owned by user 4242, and this runs as user 0");
    chown(&state, Some(0), None).unwrap();
    chmod(&state, 0o620);
    refused(&machine, "other users may write it (mode 0620)");
    chmod(&state, 0o600);
    // A dry run goes on, and says what enforcing would do.
    chown(&folder, Some(4242), None).unwrap();
    machine.write("policy.yaml", POLICY);
    let output = machine.palisade(&["--dry-run"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.err.contains("palisade enforce would not start: "), "{output:?}");
    refused(&machine, "it is owned by user 4242");
    chown(&folder, Some(0), None).unwrap();
    // Links: of the state, of the lock, of the folder.
    fs::rename(&state, machine.beside("elsewhere.json")).unwrap();
    symlink(machine.beside("elsewhere.json"), &state).unwrap();
    refused(&machine, "it is a symbolic link");
    fs::remove_file(&state).unwrap();
    fs::write(machine.beside("victim"), "keep").unwrap();
    fs::remove_file(&lock).unwrap();
    symlink(machine.beside("victim"), &lock).unwrap();
    refused(&machine, "it is a symbolic link");
    fs::remove_file(&lock).unwrap();
    fs::hard_link(machine.beside("victim"), &lock).unwrap();
    refused(&machine, "it has another name (hard link)");
    assert_eq!(fs::read_to_string(machine.beside("victim")).unwrap(), "keep");
    fs::remove_file(&lock).unwrap();
    fs::rename(&folder, machine.beside("moved")).unwrap();
    symlink(machine.beside("moved"), &folder).unwrap();
    refused(&machine, "it is a symbolic link");
    // The advice of the message is enough.
    fs::remove_file(&folder).unwrap();
    let output = machine.palisade(&["--once"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(machine.connects("web", 80) && !machine.connects("job", 80));
    assert_eq!(machine.status()["table"], "as-left");
}
