//! What only the kernel of this machine can do wrong: commands that are missing, old or hang, rights that we do not have, chains that
//! it keeps, listeners that it overruns. And how long things take.
//!
//! It needs root, `nft` and `ip`, so that `cargo test` leaves most of it out; `make kernel` runs it.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_macros)]

mod kernel_rig;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use palisade_nftables::kernel::features::Need;
use palisade_nftables::kernel::{Counts, Kernel, KernelError, Linux};
use palisade_nftables::patch::Patch;
use palisade_nftables::program::{Chain, Hook, Match, Program, Rule, Verdict};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities};

use kernel_rig::{
    ADDRESS, Network, PORT, PROTOCOL, SOURCE, exact, jump, name, nft, number, plain, rich, run, set, v4,
    verdicts,
};

/// A command that is called nft, in a folder that goes when this does.
struct Script(PathBuf);

impl Script {
    fn new(what: &str, text: &str) -> Script {
        let folder = std::env::temp_dir().join(format!("palisade-nft-{}-{what}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("nft");
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Script(path)
    }

    fn linux(&self) -> Linux {
        Linux::with_nft(&self.0)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.0.parent().unwrap());
    }
}

/// What is good for every test here: an nft of a version that we know.
const VERSION: &str = r#"[ "$1" = --version ] && { echo "nftables v1.0.6 (Lester Gooch #5)"; exit 0; }"#;

fn joins(set: &str, from: u32, to: u32) -> Patch {
    Patch { join: [(name(set), plain((from..to).map(|n| exact([v4(n)]))))].into(), ..Patch::default() }
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn nft_is_missing() {
    Network::new().inside(|| {
        let mut linux = Linux::with_nft("/nowhere/nft");
        let error = linux.replace(&rich(), &Counts::new()).unwrap_err();
        assert!(
            matches!(&error, KernelError::Missing(said) if said.contains("apt-get install nftables")),
            "{error}"
        );
        let features = linux.features();
        assert_eq!(features.lacks.iter().map(|lack| lack.need).collect::<Vec<_>>(), [Need::Nft]);
        // What needs no nft works.
        assert!(!linux.remove().unwrap());
        assert!(linux.counts().unwrap().is_empty());
    });
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn nft_is_too_old() {
    Network::new().inside(|| {
        let script = Script::new("old", "echo 'nftables v0.9.8 (E.D.S.)'");
        let mut linux = script.linux();
        let error = linux.replace(&rich(), &Counts::new()).unwrap_err();
        assert!(
            matches!(&error, KernelError::Missing(said) if said.contains("0.9.8 is too old: 1.0.0")),
            "{error}"
        );
        let lacks = linux.features().lacks;
        assert_eq!(lacks.iter().map(|lack| lack.need).collect::<Vec<_>>(), [Need::Nft]);
        assert!(lacks[0].to_string().contains("too old"), "{}", lacks[0]);
        let strange = Script::new("strange", "echo hello");
        let error = strange.linux().replace(&rich(), &Counts::new()).unwrap_err();
        assert!(matches!(&error, KernelError::Missing(_)), "{error}");
    });
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn nft_hangs() {
    Network::new().inside(|| {
        // One that reads nothing, with more to read than fits into a pipe; one that reads; one that closes everything first.
        for (n, hang) in
            ["exec sleep 60", "cat >/dev/null; exec sleep 60", "exec <&- >&- 2>&-; exec sleep 60"]
                .iter()
                .enumerate()
        {
            let script = Script::new(&format!("hangs{n}"), &format!("{VERSION}\n{hang}"));
            let mut linux = script.linux().deadline(Duration::from_millis(300));
            let mut program = rich();
            program.sets.insert(name("many"), set(&[ADDRESS], plain((0..20_000).map(|n| exact([v4(n)])))));
            let began = Instant::now();
            let error = linux.replace(&program, &Counts::new()).unwrap_err();
            assert!(matches!(&error, KernelError::Busy(said) if said.contains("ended")), "{hang}: {error}");
            assert!(began.elapsed() < Duration::from_secs(10), "{hang}: {:?}", began.elapsed());
            assert!(Linux::new().read().unwrap().is_none());
        }
    });
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn what_nft_says_is_told() {
    Network::new().inside(|| {
        let cases = [
            ("echo 'Error: Could not process rule: Device or resource busy' >&2; exit 1", "busy"),
            ("echo 'Error: syntax error' >&2; exit 1", "refused: Error: syntax error"),
            ("kill -SEGV $$", "signal 11"),
            ("exit 3", "does not say why"),
            ("head -c 300000 /dev/zero | tr '\\0' x >&2; exit 1", "refused: xxx"),
        ];
        for (n, (text, wanted)) in cases.into_iter().enumerate() {
            let script = Script::new(&format!("says{n}"), &format!("{VERSION}\n{text}"));
            let error = script.linux().replace(&rich(), &Counts::new()).unwrap_err().to_string();
            assert!(error.contains(wanted) && error.len() < 2000, "{text}: {error}");
        }
    });
}

/// Does something without the right to change networks. Only this thread and what it starts are without.
fn without_permission(task: impl FnOnce() + Send) {
    Network::new().inside(|| {
        nft("table inet palisade {\n}");
        remove_capability_from_bounding_set(CapabilitySet::NET_ADMIN).unwrap();
        let none = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
            .unwrap();
        task();
    });
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn we_may_not() {
    without_permission(|| {
        fn forbidden<T>(result: Result<T, KernelError>) {
            let error = result.err().expect("an error");
            assert!(matches!(&error, KernelError::Forbidden(_)), "{error:?}");
        }
        let mut linux = Linux::new();
        forbidden(linux.replace(&rich(), &Counts::new()));
        forbidden(linux.patch(&joins("plain4", 1, 2)));
        forbidden(linux.patch(&Patch::between(&Program::default(), &rich())));
        forbidden(linux.read());
        forbidden(linux.counts());
        forbidden(linux.remove());
        forbidden(linux.connections());
        forbidden(linux.is_disturbed());
        forbidden(linux.events().map(|_| ()));
        let lacks = linux.features().lacks;
        assert_eq!(lacks.iter().map(|lack| lack.need).collect::<Vec<_>>(), [Need::Permission]);
        assert!(lacks[0].to_string().contains("CAP_NET_ADMIN"), "{}", lacks[0]);
    });
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn this_machine_has_everything() {
    Network::new().inside(|| {
        let features = Linux::new().features();
        assert!(features.lacks.is_empty(), "{features:?}");
        assert!(features.nft.is_some());
        assert_eq!(run("nft", &["list", "ruleset"], ""), "");
    });
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn a_kernel_that_lacks_something_is_told_by_what() {
    Network::new().inside(|| {
        // A kernel without ranges and without reject, as far as nft -c is concerned.
        let text = format!(
            "{VERSION}\ntext=$(cat)\ncase \"$text\" in *'80-90'*|*reject*) echo 'Error: Could not process rule: Operation not supported' >&2; exit 1;; esac\nexit 0"
        );
        let lacks = Script::new("lacks", &text).linux().features().lacks;
        assert_eq!(lacks.iter().map(|lack| lack.need).collect::<Vec<_>>(), [Need::Ranges, Need::Reject]);
        assert!(lacks[0].to_string().contains("since 5.6"), "{}", lacks[0]);
        assert!(lacks[1].to_string().contains("nft_reject_inet"), "{}", lacks[1]);
    });
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn what_the_kernel_keeps_goes_later() {
    Network::new().inside(|| {
        let one = rich();
        let mut two = rich();
        two.chains.remove("pod_b");
        two.sets.remove("plain6");
        two.sets.get_mut("matrix").unwrap().elements.clear();
        let mut linux = Linux::new().releases_late(true).left_alone(Duration::from_secs(3600));
        linux.replace(&two, &Counts::new()).unwrap();
        let wanted = linux.read().unwrap().unwrap();
        linux.replace(&one, &Counts::new()).unwrap();
        // Somebody's rule keeps the chain, as an old kernel would for a while.
        nft("add chain inet palisade holds\nadd rule inet palisade holds jump pod_b");
        assert!(linux.is_disturbed().unwrap());
        linux.patch(&Patch::between(&one, &two)).unwrap();
        linux.tidy().unwrap();
        assert!(run("nft", &["list", "chain", "inet", "palisade", "pod_b"], "").contains("pod_b {\n\t}"));
        // It does not come into what is read, and comes back if it is needed again.
        let read = linux.read().unwrap().unwrap();
        assert!(!read.structure.contains("chain pod_b") && !read.elements.contains_key("plain6"), "{read:?}");
        linux.patch(&Patch::between(&two, &one)).unwrap();
        assert_eq!(linux.read().unwrap().unwrap().elements["plain6"], one.sets["plain6"].elements);
        linux.patch(&Patch::between(&one, &two)).unwrap();
        assert!(run("nft", &["list", "table", "inet", "palisade"], "").contains("chain pod_b"));
        nft("flush chain inet palisade holds\ndelete chain inet palisade holds");
        assert!(linux.is_disturbed().unwrap());
        // Not at once for elements, which are quick otherwise; but at last.
        linux.patch(&joins("plain4", 50, 51)).unwrap();
        assert!(run("nft", &["list", "table", "inet", "palisade"], "").contains("chain pod_b"));
        let mut linux = linux.left_alone(Duration::ZERO);
        linux.patch(&Patch { leave: joins("plain4", 50, 51).join, ..Patch::default() }).unwrap();
        assert!(!run("nft", &["list", "table", "inet", "palisade"], "").contains("chain pod_b"));
        assert_eq!(linux.read().unwrap().unwrap(), wanted);
        assert!(!linux.is_disturbed().unwrap());
    });
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn what_goes_is_out_of_the_way_at_once_and_gone_when_there_is_time() {
    Network::new().inside(|| {
        let (one, mut two) = (rich(), rich());
        two.chains.remove("pod_b");
        two.counters.insert(name("more"));
        two.sets.get_mut("matrix").unwrap().elements.clear();
        let mut linux = Linux::new().left_alone(Duration::from_secs(3600));
        linux.replace(&two, &Counts::new()).unwrap();
        let wanted = linux.read().unwrap().unwrap();
        linux.replace(&one, &Counts::new()).unwrap();
        let is_there = || run("nft", &["list", "table", "inet", "palisade"], "").contains("chain pod_b");
        for _ in 0..3 {
            linux.patch(&Patch::between(&one, &two)).unwrap();
            assert!(is_there());
            assert_eq!(linux.read().unwrap().unwrap(), wanted);
            // What is needed again before that comes again.
            linux.patch(&Patch::between(&two, &one)).unwrap();
        }
        linux.patch(&Patch::between(&one, &two)).unwrap();
        linux.tidy().unwrap();
        assert!(!is_there());
        assert_eq!(linux.read().unwrap().unwrap(), wanted);
        assert!(!linux.is_disturbed().unwrap());
    });
}

/// A base chain by its number, which another one never has.
fn base_chain() -> String {
    let all = run("nft", &["-a", "list", "table", "inet", "palisade"], "");
    all.lines().find(|line| line.contains("chain forward {")).unwrap().to_owned()
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn a_table_is_replaced_where_it_is() {
    Network::new().inside(|| {
        let program = rich();
        let mut linux = Linux::new();
        linux.replace(&program, &Counts::new()).unwrap();
        let (wanted, base) = (linux.read().unwrap().unwrap(), base_chain());
        let in_place = [
            "",
            "flush chain inet palisade forward",
            "add chain inet palisade x\nadd rule inet palisade x accept\ninsert rule inet palisade forward jump x",
            "add set inet palisade x { type mark; }",
            "add counter inet palisade x",
            "add element inet palisade plain4 { 10.9.9.9 }\nflush set inet palisade blocks",
            "flush map inet palisade to_pod\nadd element inet palisade to_pod { 10.0.0.1 : accept }",
        ];
        for meddling in in_place {
            nft(meddling);
            // By whoever put it there, and by somebody who knows nothing of it.
            for mut linux in [Linux::new(), Linux::new().releases_late(true)] {
                linux.replace(&program, &Counts::new()).unwrap();
                assert_eq!(linux.read().unwrap().unwrap(), wanted, "{meddling}");
                assert_eq!(base_chain(), base, "{meddling}");
            }
        }
        // Whoever was killed between two steps.
        let mut next = rich();
        let pod_c = Chain { hook: None, rules: vec![Rule::new([], Verdict::Drop)] };
        next.chains.insert(name("pod_c"), pod_c);
        next.sets.insert(name("more"), set(&[ADDRESS], plain([exact([v4(1)])])));
        next.counters.insert(name("more"));
        let (comes, ..) = Patch::between(&program, &next).split();
        Linux::new().patch(&comes).unwrap();
        for to in [&next, &program] {
            let mut linux = Linux::new();
            linux.replace(to, &Counts::new()).unwrap();
            assert_eq!(linux.read().unwrap().unwrap() == wanted, to == &program);
            assert_eq!(base_chain(), base);
        }
        // What cannot become ours is made again.
        let anew = [
            "add table inet palisade { flags dormant; }",
            "add chain inet palisade x { type filter hook output priority 5; policy drop; }",
            "add quota inet palisade x { over 1 mbytes; }",
            "flush chain inet palisade pod_a\ndelete set inet palisade plain4\nadd set inet palisade plain4 { type ipv6_addr; }",
            "delete table inet palisade\ntable inet palisade {\nchain forward {\ntype filter hook forward priority 7; policy accept;\n}\n}",
        ];
        for meddling in anew {
            nft(meddling);
            linux.replace(&program, &Counts::new()).unwrap();
            assert_eq!(linux.read().unwrap().unwrap(), wanted, "{meddling}");
        }
    });
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn changes_by_others_wake_whoever_waits() {
    Network::new().inside(|| {
        let mut linux = Linux::new();
        let waits = |linux: &mut Linux| {
            let moment = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            let events = linux.events().unwrap();
            poll(&mut [PollFd::from_borrowed_fd(events, PollFlags::IN)], Some(&moment)).unwrap() == 0
        };
        assert!(waits(&mut linux));
        linux.replace(&rich(), &Counts::new()).unwrap();
        linux.patch(&joins("plain4", 50, 60)).unwrap();
        // What we did ourselves wakes nobody.
        assert!(waits(&mut linux));
        nft("add element inet palisade plain4 { 10.9.9.9 }");
        assert!(!waits(&mut linux));
        assert!(linux.is_disturbed().unwrap());
        assert!(waits(&mut linux));
    });
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn a_process_with_another_number_is_ours_all_the_same() {
    Network::new().inside(|| {
        // The shell has the number that we know, nft has another: as if somebody else had that of nft already.
        let script = Script::new("between", "nft \"$@\"\nexit $?");
        let mut linux = script.linux();
        let mut program = rich();
        linux.replace(&program, &Counts::new()).unwrap();
        program.counters.insert(name("more"));
        linux.patch(&Patch::between(&rich(), &program)).unwrap();
        assert!(!linux.is_disturbed().unwrap());
        // And another's change in the midst of ours is not taken for ours.
        let script =
            Script::new("meddles", "nft \"$@\"\nnft add element inet palisade plain4 { 10.8.8.8 }\nexit 0");
        let mut linux = script.linux();
        linux.replace(&program, &Counts::new()).unwrap();
        assert!(linux.is_disturbed().unwrap());
        let many = plain((0..5000).map(|n| exact([v4(n)])));
        program.sets.insert(name("many"), set(&[ADDRESS], many));
        linux.replace(&program, &Counts::new()).unwrap();
        assert!(linux.is_disturbed().unwrap());
    });
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn two_of_us_disturb_each_other() {
    Network::new().inside(|| {
        let (mut one, mut two) = (Linux::new(), Linux::new());
        assert!(!one.is_disturbed().unwrap() && !two.is_disturbed().unwrap());
        one.replace(&rich(), &Counts::new()).unwrap();
        assert!(!one.is_disturbed().unwrap());
        assert!(two.is_disturbed().unwrap());
        two.patch(&joins("plain4", 50, 60)).unwrap();
        assert!(one.is_disturbed().unwrap());
        assert!(!two.is_disturbed().unwrap());
        // What is changed while much is changed is not overlooked.
        let mut program = rich();
        program.sets.insert(name("many"), set(&[ADDRESS], plain((0..100_000).map(|n| exact([v4(n)])))));
        two.replace(&program, &Counts::new()).unwrap();
        assert!(one.is_disturbed().unwrap());
        assert!(!two.is_disturbed().unwrap());
    });
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn a_set_that_is_not_ours_is_drift() {
    Network::new().inside(|| {
        let mut linux = Linux::new();
        linux.replace(&rich(), &Counts::new()).unwrap();
        for strange in ["add set inet palisade x { type mark; }", "add set inet palisade x { type ipv4_addr; flags timeout; }"] {
            nft(strange);
            let read = linux.read();
            assert!(matches!(read, Err(KernelError::Drifted(_))), "{read:?}");
            nft("delete set inet palisade x");
        }
        linux.read().unwrap().unwrap();
        // The same name, another sort: what we say about it is refused, and nothing is changed.
        nft("flush chain inet palisade pod_a\ndelete set inet palisade plain4\nadd set inet palisade plain4 { type ipv6_addr; }");
        let wrong = linux.patch(&joins("plain4", 50, 60));
        assert!(matches!(wrong, Err(KernelError::Refused(_))), "{wrong:?}");
        assert!(linux.is_disturbed().unwrap());
    });
}

#[test]
#[ignore = "needs root, nft and ip: make kernel; prints figures"]
fn figures() {
    Network::new().inside(|| {
        let mut program = Program::default();
        let rules = vec![
            Rule::new([Match::In(vec![SOURCE], name("peers"))], Verdict::Accept),
            Rule::new([], Verdict::Drop),
        ];
        let to = |n: u32| format!("pod_{n}");
        for n in 0..400 {
            program.chains.insert(name(&to(n)), Chain { hook: None, rules: rules.clone() });
        }
        program.sets.insert(name("peers"), set(&[ADDRESS], plain((0..100).map(|n| exact([v4(n)])))));
        program.sets.insert(
            name("many"),
            set(
                &[ADDRESS, PROTOCOL, PORT],
                plain((0..100_000).map(|n| exact([v4(n), number(6), number(80)]))),
            ),
        );
        program.sets.insert(
            name("to_pod"),
            set(&[ADDRESS], verdicts((0..400).map(|n| (exact([v4(n)]), jump(&to(n)))))),
        );
        let map = vec![Rule::new([], Verdict::Map(vec![SOURCE], name("to_pod")))];
        program.chains.insert(name("forward"), Chain { hook: Some(Hook::Forward), rules: map });
        let mut linux = Linux::new();
        let took = |what: &str, task: &mut dyn FnMut()| {
            let began = Instant::now();
            task();
            println!("{what}: {:.1?}", began.elapsed());
        };
        took("replace, 401 chains, 100,500 elements", &mut || {
            linux.replace(&program, &Counts::new()).unwrap();
        });
        took("read all of it", &mut || drop(linux.read().unwrap().unwrap()));
        let one = |n: u32| plain([exact([v4(n), number(17), number(53)])]);
        let join = |n| Patch { join: [(name("many"), one(n))].into(), ..Patch::default() };
        let leave = |n| Patch { leave: [(name("many"), one(n))].into(), ..Patch::default() };
        let mut timed = |what: &str, patches: &mut dyn Iterator<Item = Patch>| {
            let mut times: Vec<Duration> = patches
                .map(|patch| {
                    let began = Instant::now();
                    linux.patch(&patch).unwrap();
                    began.elapsed()
                })
                .collect();
            times.sort();
            let at = |hundredth: usize| times[(times.len() - 1) * hundredth / 100];
            println!("{what}: p50 {:.1?}, p99 {:.1?}, worst {:.1?}", at(50), at(99), at(100));
        };
        timed("one element", &mut (0..2000).map(join).chain((0..2000).map(leave)));
        // A packet could combine these, so that each waits for the one before.
        timed("one element to and fro", &mut (0..100).flat_map(|n| [join(n), leave(n)]));
        let many = || plain((0..10_000).map(|n| exact([v4(n), number(17), number(53)])));
        let join = Patch { join: [(name("many"), many())].into(), ..Patch::default() };
        took("10,000 elements come", &mut || linux.patch(&join).unwrap());
        let leave = Patch { leave: [(name("many"), many())].into(), ..Patch::default() };
        took("10,000 elements go", &mut || linux.patch(&leave).unwrap());
        let chain =
            Patch { chains: [(name("pod_new"), Chain { hook: None, rules })].into(), ..Patch::default() };
        took("a chain comes", &mut || linux.patch(&chain).unwrap());
        took("counts", &mut || drop(linux.counts().unwrap()));
        assert!(!linux.is_disturbed().unwrap());
    });
}
