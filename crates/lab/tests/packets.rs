//! Real packets through a small world, end to end. Needs root, `ip` and `nft` (`scripts/setup test` installs them): without them
//! every test here fails and says so.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use palisade_dialects::load::load;
use palisade_dialects::source::Limits;
use palisade_dialects::source::tree::Source;
use palisade_dialects::world::World;
use palisade_lab::clean::namespaces;
use palisade_lab::matrix::Matrix;
use palisade_lab::world::LabWorld;
use palisade_lab::{Lab, Measured};
use palisade_model::flow::{EndpointPattern, Flow};
use palisade_model::options::Options;
use palisade_model::trace::Verdict;

const WORLD: &str = include_str!("world.yaml");

fn world(texts: &[&str]) -> LabWorld {
    let mut world = World::default();
    let mut found = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        let source = Arc::new(Source::new(format!("{at}.yaml"), (*text).to_owned()));
        load(&source, &Limits::default(), &mut world, &mut found);
    }
    assert!(found.iter().all(|d| !d.is_error()), "{found:#?}");
    LabWorld::new(world.into_objects())
}

fn lab() -> Lab {
    match Lab::new(Arc::new(AtomicBool::new(false))) {
        Ok(lab) => lab,
        Err(error) => panic!("these tests send real packets, and cannot here: {error}"),
    }
}

/// A flow text, what must become of it by prediction and by measurement.
type Line<'a> = (&'a str, Verdict);

/// Sends every flow of these lines, and holds what came of it against the line and the prediction.
fn check(lab: &mut Lab, placed: &LabWorld, lines: &[Line<'_>]) {
    let mut flows: Vec<(Flow, Line<'_>)> = Vec::new();
    let mut outside: BTreeSet<IpAddr> = BTreeSet::new();
    for line in lines {
        let pattern = line.0.parse::<palisade_model::flow::FlowPattern>().unwrap();
        for end in [&pattern.source, &pattern.destination] {
            if let EndpointPattern::Address(address) = end {
                outside.insert(*address);
            }
        }
        flows.extend(placed.given.flows(&pattern).unwrap().into_iter().map(|flow| (flow, *line)));
    }
    lab.update(placed, &outside).unwrap();
    let only: Vec<Flow> = flows.iter().map(|(flow, _)| *flow).collect();
    let measured = lab.measure(placed, &only, &mut |_| {}).unwrap();
    for ((flow, (text, expected)), measured) in flows.iter().zip(measured) {
        let predicted = placed.verdict(&placed.flow(flow), &Options::default());
        assert_eq!(predicted, *expected, "prediction of {text}");
        let node = placed.node_of(flow.destination);
        let program = node.and_then(|node| lab.program(node)).unwrap_or_default();
        assert_eq!(measured, Measured::Verdict(*expected), "{text}: {flow:?}\n{program}");
    }
}

const ALLOW: Verdict = Verdict::Allow;
const DENY: Verdict = Verdict::Deny;
const REJECT: Verdict = Verdict::Reject;

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn without_policies_everybody_reaches_everybody() {
    let mut lab = lab();
    check(
        &mut lab,
        &world(&[WORLD]),
        &[
            ("*/* -> */* tcp/80", ALLOW),
            ("*/* -> */* udp/53", ALLOW),
            ("*/* -> */* sctp/9003", ALLOW),
            ("*/* -> */* icmp", ALLOW),
            ("*/* -> */* icmp/13", ALLOW),
            ("ip:203.0.113.7 -> */* tcp/80", ALLOW),
            ("*/* -> ip:203.0.113.7 udp/53", ALLOW),
            ("node:n1 -> shop/db tcp/80", ALLOW),
            ("shop/web -> node:n2 tcp/22", ALLOW),
            ("shop/web -> shop/web tcp/80", ALLOW),
            ("*/* -> svc:shop/db tcp/5432", ALLOW),
            ("ip:203.0.113.7 -> svc:shop/db tcp/5432", ALLOW),
        ],
    );
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn policies_hold_for_packets_and_follow_their_updates() {
    let mut lab = lab();
    let policies = include_str!("policies.yaml");
    check(
        &mut lab,
        &world(&[WORLD, policies]),
        &[
            // A NetworkPolicy by a port's name; the service leads to that port.
            ("shop/web -> shop/db tcp/5432", ALLOW),
            ("shop/web -> shop/db tcp/5433", DENY),
            ("shop/web -> shop/db udp/5432", DENY),
            ("shop/web -> shop/db icmp", DENY),
            ("other/job -> shop/db tcp/5432", DENY),
            ("shop/web -> svc:shop/db tcp/15432", ALLOW),
            ("other/job -> svc:shop/db tcp/15432", DENY),
            ("ip:203.0.113.7 -> shop/db tcp/5432", DENY),
            // Its own node reaches it, another one does not.
            ("node:n2 -> shop/db tcp/5432", ALLOW),
            ("node:n1 -> shop/db tcp/5432", DENY),
            // Antrea rejects, with an answer of each protocol.
            ("other/job -> shop/web tcp/80", REJECT),
            ("other/job -> shop/web udp/53", REJECT),
            ("other/job -> shop/web sctp/9003", REJECT),
            ("other/job -> shop/web icmp", REJECT),
            ("ip:203.0.113.7 -> shop/web tcp/80", ALLOW),
            // Both families.
            ("shop/six -> shop/db tcp/5432", DENY),
            ("ip:2001:db8::7 -> shop/six tcp/443", ALLOW),
            ("ip:2001:db8::8 -> shop/six tcp/443", DENY),
            ("ip:2001:db8::7 -> shop/six udp/443", DENY),
            ("ip:2001:db8::7 -> shop/six icmp", DENY),
        ],
    );
    // The same lab, with a policy changed and a pod relabelled.
    let opened = policies.replacen("app: web}}}]", "app: job}}}]", 1);
    check(
        &mut lab,
        &world(&[WORLD, &opened]),
        &[
            ("shop/web -> shop/db tcp/5432", DENY),
            ("shop/web -> svc:shop/db tcp/15432", DENY),
            ("other/job -> shop/web tcp/80", REJECT),
        ],
    );
    let relabelled = WORLD.replace("labels: {app: other}", "labels: {app: job}");
    check(
        &mut lab,
        &world(&[&relabelled, &opened]),
        &[("shop/batch -> shop/db tcp/5432", ALLOW), ("shop/web -> shop/db tcp/5432", DENY)],
    );
    // And without any policy at all.
    check(&mut lab, &world(&[WORLD]), &[("*/* -> shop/db tcp/5432", ALLOW)]);
}

/// Types, codes of a type, codes of every type: all of both families, because ICMP and ICMPv6 are two protocols to the kernel.
#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn icmp_is_matched_by_type_and_by_code() {
    let rule = |action: &str, icmp: &str| format!("{{action: {action}, protocols: [{{icmp: {{{icmp}}}}}]}}");
    let policy = |rules: &[String]| {
        format!(
            "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: {{name: icmp}}\n\
             spec: {{priority: 5, appliedTo: [{{podSelector: {{matchLabels: {{app: db}}}}}}, {{podSelector: {{matchLabels: \
             {{app: six}}}}}}], ingress: [{}]}}\n",
            rules.join(", ")
        )
    };
    let mut lab = lab();
    let only_code = policy(&[rule("Drop", "icmpCode: 1")]);
    check(
        &mut lab,
        &world(&[WORLD, &only_code]),
        &[
            ("shop/web -> shop/db icmp", ALLOW),
            ("shop/web -> shop/db icmp/13", ALLOW),
            ("shop/web -> shop/db icmp/8/1", DENY),
            ("shop/web -> shop/db icmp/13/1", DENY),
            ("shop/web -> shop/db icmp/13/2", ALLOW),
            ("shop/web -> shop/six icmp", ALLOW),
            ("shop/web -> shop/six icmp/139/1", DENY),
            ("shop/web -> shop/six icmp/139/2", ALLOW),
            ("shop/web -> shop/db tcp/80", ALLOW),
        ],
    );
    let layered = policy(&[
        rule("Drop", "icmpType: 13, icmpCode: 2"),
        rule("Allow", "icmpCode: 2"),
        rule("Allow", "icmpType: 13"),
        rule("Drop", ""),
    ]);
    check(
        &mut lab,
        &world(&[WORLD, &layered]),
        &[
            ("shop/web -> shop/db icmp/13/2", DENY),
            ("shop/web -> shop/db icmp/13/1", ALLOW),
            ("shop/web -> shop/db icmp/17/2", ALLOW),
            ("shop/web -> shop/db icmp/17/1", DENY),
            ("shop/web -> shop/db icmp", DENY),
            ("shop/web -> shop/six icmp/139/2", ALLOW),
            ("shop/web -> shop/six icmp/139/1", DENY),
            ("shop/web -> shop/six icmp", DENY),
            ("shop/web -> shop/db tcp/80", ALLOW),
        ],
    );
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn all_flows_of_a_world_are_as_predicted() {
    let mut lab = lab();
    let placed = world(&[WORLD, include_str!("policies.yaml")]);
    let matrix = Matrix::of(&placed, 2000);
    lab.update(&placed, &matrix.outside).unwrap();
    let measured = lab.measure(&placed, &matrix.flows, &mut |_| {}).unwrap();
    let mut sent = 0;
    for (flow, measured) in matrix.flows.iter().zip(&measured) {
        let here = placed.flow(flow);
        let predicted = placed.verdict(&here, &Options::default());
        if let Measured::Verdict(measured) = measured {
            assert_eq!(*measured, predicted, "{here:?}");
            sent += 1;
        }
    }
    assert!(sent == matrix.all && sent > 60, "{sent} of {}: {measured:?}", matrix.all);
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn policies_that_are_not_in_force_are_found_out() {
    let mut lab = lab();
    let placed = world(&[WORLD, include_str!("policies.yaml")]);
    lab.build(&placed, &BTreeSet::new()).unwrap();
    let flows: Vec<Flow> = ["other/job -> shop/db tcp/5432", "other/job -> shop/web udp/53"]
        .iter()
        .flat_map(|text| placed.given.flows(&text.parse().unwrap()).unwrap())
        .collect();
    let measured = lab.measure(&placed, &flows, &mut |_| {}).unwrap();
    assert_eq!(measured, [Measured::Verdict(ALLOW), Measured::Verdict(ALLOW)]);
}

/// Runs `ip` in a pod's namespace.
fn ip(lab: &Lab, placed: &LabWorld, pod: &str, arguments: &str) {
    let name = lab.kept(placed, &[]).pods[pod].clone();
    let status = std::process::Command::new("ip").args(["-n", &name]).args(arguments.split(' ')).status();
    assert!(status.unwrap().success(), "ip -n {name} {arguments}");
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn a_probe_waits_for_its_addresses() {
    let mut lab = lab();
    let placed = world(&[WORLD]);
    lab.update(&placed, &BTreeSet::new()).unwrap();
    let flows = placed.given.flows(&"shop/six -> shop/* icmp".parse().unwrap()).unwrap();
    assert!(!flows.is_empty() && flows.iter().all(|flow| flow.source.address.is_some_and(|a| a.is_ipv6())));
    let allowed = vec![Measured::Verdict(ALLOW); flows.len()];
    let address = flows[0].source.address.unwrap();
    // With duplicate address detection, an address is tentative for a second or two.
    ip(&lab, &placed, "shop/six", &format!("address del {address}/128 dev eth0"));
    ip(&lab, &placed, "shop/six", &format!("address add {address}/128 dev eth0"));
    assert_eq!(lab.measure(&placed, &flows, &mut |_| {}).unwrap(), allowed);
    // One that comes late.
    ip(&lab, &placed, "shop/six", &format!("address del {address}/128 dev eth0"));
    let name = lab.kept(&placed, &[]).pods["shop/six"].clone();
    let late = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(700));
        let add = format!("-n {name} address add {address}/128 dev eth0 nodad");
        std::process::Command::new("ip").args(add.split(' ')).status().unwrap()
    });
    assert_eq!(lab.measure(&placed, &flows, &mut |_| {}).unwrap(), allowed);
    assert!(late.join().unwrap().success());
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn a_probe_that_cannot_be_sent_has_failed_and_says_why() {
    let mut lab = lab();
    let placed = world(&[WORLD]);
    lab.update(&placed, &BTreeSet::new()).unwrap();
    let flow = |text: &str| placed.given.flows(&text.parse().unwrap()).unwrap()[0];
    let flows = [
        flow("shop/web -> shop/db tcp/80"),
        flow("shop/db -> shop/web tcp/80"),
        flow("shop/db -> other/job tcp/80"),
    ];
    let address = flows[0].source.address.unwrap();
    ip(&lab, &placed, "shop/web", &format!("address del {address}/32 dev eth0"));
    let measured = lab.measure(&placed, &flows, &mut |_| {}).unwrap();
    // Nobody is there to send from, and nobody to listen; the third has nothing to do with it.
    for failed in &measured[..2] {
        assert!(
            matches!(failed, Measured::Failed(why) if why.contains(&address.to_string()) && why.contains("not ready")),
            "{measured:?}"
        );
    }
    assert_eq!(measured[2], Measured::Verdict(ALLOW));
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn nothing_is_left_behind() {
    let mut lab = lab();
    lab.update(&world(&[WORLD]), &BTreeSet::new()).unwrap();
    let outside = lab.cluster().outside();
    let own = outside.trim_end_matches("outside").to_owned();
    let ours = |own: &str| namespaces().iter().filter(|name| name.starts_with(own)).count();
    assert_eq!(ours(&own), 1 + 2 + 5, "{:?}", namespaces());
    drop(lab);
    assert_eq!(ours(&own), 0, "{:?}", namespaces());
}
