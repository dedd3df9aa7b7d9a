//! What changes open and close: in the log, and in a dry run, as `palisade diff` says it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;

use super::machine::{Machine, POLICY, until};

/// Names one port, and closes all others.
const EGRESS: &str = "\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: web}
spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: [{ports: [{port: 443}]}]}
";

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn a_policy_that_names_one_port_closes_all_others_and_says_so() {
    let machine = Machine::new();
    fs::remove_file(machine.path("policy.yaml")).unwrap();
    let enforcer = machine.enforce(&[]);
    enforcer.says("watching");
    assert!(machine.connects("web", 80));
    machine.write("egress.yaml", EGRESS);
    enforcer.says("egress.yaml changed, enforced in ");
    enforcer.says(
        ": closes shop/web → shop/db, shop/job, node worker-1, anywhere outside over IPv4 all but tcp/443\n",
    );
    assert!(!machine.connects("web", 80));
    fs::remove_file(machine.path("egress.yaml")).unwrap();
    enforcer.says("egress.yaml changed, enforced in ");
    enforcer.says(
        ": opens shop/web → shop/db, shop/job, node worker-1, anywhere outside over IPv4 all but tcp/443\n",
    );
    assert!(machine.connects("web", 80));
}

/// Lines of `palisade diff`, or of a dry run, that say what opens and closes, without how they are set.
fn said(out: &str, prefix: &str) -> BTreeSet<String> {
    let lines = out.lines().filter_map(|line| line.strip_prefix(prefix));
    let own = lines
        .filter(|line| ["opens ", "closes"].contains(&line[..6.min(line.len())].to_lowercase().as_str()));
    own.map(|line| line.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn a_dry_run_says_what_a_diff_says() {
    let machine = Machine::new();
    // What the machine would add is written down, so that both know it.
    let mut world = "{apiVersion: v1, kind: Node, metadata: {name: worker-1}, \
                     status: {addresses: [{type: InternalIP, address: 10.77.255.1}]}}\n"
        .to_owned();
    for (pod, address) in [("web", "10.77.0.1"), ("db", "10.77.0.2"), ("job", "10.77.0.3")] {
        let _ = write!(
            world,
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{namespace: shop, name: {pod}, labels: {{app: {pod}}}}}, \
             spec: {{nodeName: worker-1}}, status: {{podIP: {address}}}}}\n"
        );
    }
    machine.write("world.yaml", &world);
    let before = machine.beside("before");
    let isolated = "\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: all}
spec: {podSelector: {}, policyTypes: [Ingress, Egress], egress: [{to: [{ipBlock: {cidr: 198.51.100.0/24}}]}]}
";
    let wide =
        POLICY.replace("ports: [{port: 80}]", "ports: [{port: 80, endPort: 90}, {port: 53, protocol: UDP}]");
    let texts = [
        String::new(),
        POLICY.to_owned(),
        EGRESS.to_owned(),
        wide,
        isolated.to_owned(),
        format!("{POLICY}---\n{EGRESS}"),
    ];
    let mut lines = 0;
    for (one, other) in (0..texts.len()).flat_map(|one| (0..texts.len()).map(move |other| (one, other))) {
        // Not all of 36 pairs: this builds the table anew each time.
        if one == other || (one + other) % 2 == 0 {
            continue;
        }
        machine.write("policy.yaml", &texts[one]);
        assert_eq!(machine.palisade(&["--once"]).code, Some(0));
        let _ = fs::remove_dir_all(&before);
        fs::create_dir(&before).unwrap();
        for name in ["world.yaml", "policy.yaml"] {
            fs::copy(machine.path(name), before.join(name)).unwrap();
        }
        machine.write("policy.yaml", &format!("# more than nothing\n{}", texts[other]));
        let dry = machine.palisade(&["--dry-run"]);
        let (folder, after) = (before.display().to_string(), machine.folder().display().to_string());
        let diff = machine.run(&["diff", &folder, &after, "--all"]);
        assert_eq!((dry.code, diff.code), (Some(0), Some(1)), "{dry:?} {diff:?}");
        let (dry_says, diff_says) = (said(&dry.out, "# "), said(&diff.out, "  "));
        assert_eq!(dry_says, diff_says, "{one} to {other}:\n{}\n{}", dry.out, diff.out);
        lines += dry_says.len();
    }
    assert!(lines > 30, "{lines}");
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn a_world_of_any_size_is_reported() {
    let machine = Machine::new();
    let mut more = String::new();
    for pod in 0..600 {
        let _ = write!(
            more,
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{namespace: far, name: p{pod}}}, \
             spec: {{nodeName: far}}, status: {{podIP: 10.78.{}.{}}}}}\n",
            pod / 250,
            pod % 250 + 1
        );
    }
    machine.write("far.yaml", &more);
    let enforcer = machine.enforce(&["--node", "worker-1"]);
    enforcer.says("watching");
    machine.write("policy.yaml", &POLICY.replace("app: web", "app: job"));
    enforcer.says(": opens shop/job → shop/db tcp/80; closes shop/web → shop/db tcp/80\n");
    machine.write("egress.yaml", EGRESS);
    enforcer.says(": closes shop/web → far/*, ");
}

/// However many changes come while the last ones are compared, what is reported at the end is what is so.
#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn a_burst_of_changes_is_reported_to_its_end() {
    let machine = Machine::new();
    let enforcer = machine.enforce(&[]);
    enforcer.says("watching");
    for round in 0..60 {
        machine.write("policy.yaml", &POLICY.replace("port: 80", &format!("port: {}", 1000 + round)));
        std::thread::sleep(std::time::Duration::from_millis(round % 7 * 3));
    }
    machine.write("policy.yaml", &POLICY.replace("port: 80", "port: 82"));
    enforcer.says("opens shop/web → shop/db tcp/82; ");
    until("the last one", || machine.connects("web", 82));
}
