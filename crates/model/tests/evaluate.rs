//! The plain evaluator, point by point of the semantics, on policies made by hand.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod builders;

use std::sync::Arc;

use builders::*;
use palisade_model::address::Block;
use palisade_model::options::{HostNetworkPods, Options, SelfTraffic};
use palisade_model::policy::{
    Action, Direction, DomainName, Namespaces, Peer, Peers, Placement, PodSet, Policy, Priority, Tier,
    TrafficMatch, TrafficMatches,
};
use palisade_model::snapshot::{Objects, Snapshot};
use palisade_model::trace::{Because, Cause, Exemption, StageOutcome, StepResult, Verdict};
use palisade_model::traffic::Protocol;

use Action::{Allow, Deny, Pass, Reject};
use Direction::{Egress, Ingress};

/// Rules about every pod, from and to anybody, any traffic.
fn every(direction: Direction, action: Action) -> palisade_model::policy::Rule {
    rule(direction, action, PodSet::everything(), Peers::Any, TrafficMatches::Any)
}

/// Rules about every pod, for one port.
fn port(direction: Direction, action: Action, port: u16) -> palisade_model::policy::Rule {
    rule(direction, action, PodSet::everything(), Peers::Any, tcp(port, port))
}

/// A policy in a tier that is named.
fn named_tier(name: &str, tier: &str, action: Action) -> Policy {
    let placement = Placement::Tier { tier: Tier::Named(tier.into()), priority: Priority(5.0) };
    Policy { placement, ..tiered(name, 0, 0.0, [every(Ingress, action)]) }
}

#[test]
fn nothing_restricts_nobody() {
    assert_eq!(verdict(&with([]), "x/a -> y/b tcp/80"), "allow");
}

#[test]
fn both_sides_must_allow() {
    let egress = with([tiered("e", 100, 1.0, [every(Egress, Deny)])]);
    let ingress = with([tiered("i", 100, 1.0, [every(Ingress, Deny)])]);
    assert_eq!(verdict(&egress, "x/a -> y/b tcp/80"), "deny");
    assert_eq!(verdict(&ingress, "x/a -> y/b tcp/80"), "deny");
    // The outside decides nothing on its side.
    assert_eq!(verdict(&egress, "ip:203.0.113.7 -> y/b tcp/80"), "allow");
    assert_eq!(verdict(&ingress, "x/a -> ip:203.0.113.7 tcp/80"), "allow");
}

#[test]
fn an_egress_refusal_is_met_first() {
    let snapshot = with([tiered("t", 100, 1.0, [every(Egress, Reject), every(Ingress, Deny)])]);
    assert_eq!(verdict(&snapshot, "x/a -> y/b tcp/80"), "reject");
}

#[test]
fn tiers_come_in_the_order_of_their_numbers_then_priorities_then_rules() {
    let lower_tier =
        with([tiered("a", 100, 9.0, [every(Ingress, Allow)]), tiered("b", 200, 1.0, [every(Ingress, Deny)])]);
    assert_eq!(verdict(&lower_tier, "x/a -> y/b tcp/80"), "allow");
    let lower_priority =
        with([tiered("a", 100, 9.0, [every(Ingress, Allow)]), tiered("b", 100, 1.5, [every(Ingress, Deny)])]);
    assert_eq!(verdict(&lower_priority, "x/a -> y/b tcp/80"), "deny");
    let earlier_rule = with([tiered("a", 100, 1.0, [port(Ingress, Allow, 80), every(Ingress, Deny)])]);
    assert_eq!(verdict(&earlier_rule, "x/a -> y/b tcp/80"), "allow");
    assert_eq!(verdict(&earlier_rule, "x/a -> y/b tcp/81"), "deny");
}

#[test]
fn equal_policies_interleave_by_rule_index_and_ties_go_by_name() {
    // A = [deny 80, deny 81], B = [allow 81, allow 80]: 80 meets A0 before B1, 81 meets B0 before A1.
    let a = tiered("a", 100, 5.0, [port(Ingress, Deny, 80), port(Ingress, Deny, 81)]);
    let b = tiered("b", 100, 5.0, [port(Ingress, Allow, 81), port(Ingress, Allow, 80)]);
    let snapshot = with([b, a]);
    assert_eq!(verdict(&snapshot, "x/a -> y/b tcp/80"), "deny");
    assert_eq!(verdict(&snapshot, "x/a -> y/b tcp/81"), "allow");
    let tie =
        with([tiered("b", 100, 5.0, [every(Ingress, Deny)]), tiered("a", 100, 5.0, [every(Ingress, Allow)])]);
    assert_eq!(verdict(&tie, "x/a -> y/b tcp/80"), "allow");
}

#[test]
fn pass_leaves_the_tiers_for_network_policies_and_then_baseline() {
    let pass = || tiered("pass", 50, 1.0, [every(Ingress, Pass)]);
    let deny_later_tier = || tiered("late", 251, 1.0, [every(Ingress, Deny)]);
    let isolate = || network_policy("shut", &PodSet::all_of("y"), &[Ingress], []);
    let baseline = || tiered("base", 254, 1.0, [every(Ingress, Deny)]);
    assert_eq!(verdict(&with([pass(), deny_later_tier()]), "x/a -> y/b tcp/80"), "allow");
    assert_eq!(verdict(&with([pass(), isolate()]), "x/a -> y/b tcp/80"), "deny");
    assert_eq!(verdict(&with([pass(), baseline()]), "x/a -> y/b tcp/80"), "deny");
    // In the baseline stage Pass leads to the end.
    let pass_baseline = tiered("base-pass", 253, 1.0, [every(Ingress, Pass)]);
    assert_eq!(verdict(&with([pass_baseline, baseline()]), "x/a -> y/b tcp/80"), "allow");
}

#[test]
fn the_network_policy_stage_is_final_for_the_isolated_per_direction() {
    let subject = PodSet::all_of("y");
    let allow_80 = rule(Ingress, Allow, subject.clone(), Peers::Any, tcp(80, 80));
    let np = network_policy("np", &subject, &[Ingress], [allow_80]);
    let baseline = tiered("base", 254, 1.0, [every(Ingress, Deny), every(Egress, Deny)]);
    let snapshot = with([np, baseline]);
    assert_eq!(verdict(&snapshot, "ip:203.0.113.7 -> y/b tcp/80"), "allow");
    assert_eq!(verdict(&snapshot, "ip:203.0.113.7 -> y/b tcp/81"), "deny");
    assert_eq!(
        verdict(&snapshot, "y/b -> ip:203.0.113.7 tcp/80"),
        "deny",
        "not isolated for egress: baseline decides"
    );
    assert_eq!(
        verdict(&snapshot, "ip:203.0.113.7 -> z/a tcp/80"),
        "deny",
        "not isolated at all: baseline decides"
    );
}

#[test]
fn rules_without_isolation_open_nothing() {
    let subject = PodSet::all_of("y");
    let allow = rule(Ingress, Allow, subject.clone(), Peers::Any, tcp(80, 80));
    let lone = network_policy("lone", &subject, &[], [allow]);
    assert_eq!(verdict(&with([lone.clone()]), "x/a -> y/b tcp/81"), "allow");
    // As soon as anybody isolates, the rule counts.
    let isolate = network_policy("shut", &subject, &[Ingress], []);
    assert_eq!(verdict(&with([lone.clone(), isolate.clone()]), "x/a -> y/b tcp/81"), "deny");
    assert_eq!(verdict(&with([lone, isolate]), "x/a -> y/b tcp/80"), "allow");
}

#[test]
fn named_tiers_are_resolved_by_the_world_and_missing_ones_have_no_place() {
    let policies = vec![named_tier("late", "late", Deny), named_tier("early", "early", Allow)];
    let tiers = [("early".into(), 10), ("late".into(), 20)].into();
    let snapshot = Snapshot::new(Objects { policies: policies.clone(), tiers, ..world() });
    assert_eq!(verdict(&snapshot, "x/a -> y/b tcp/80"), "allow");
    let tiers = [("late".into(), 20)].into();
    let snapshot = Snapshot::new(Objects { policies, tiers, ..world() });
    assert_eq!(verdict(&snapshot, "x/a -> y/b tcp/80"), "deny");
    assert_eq!(snapshot.unplaced().map(|policy| policy.object.name.as_str()).collect::<Vec<_>>(), ["early"]);
}

#[test]
fn what_cannot_be_read_fails_closed() {
    let unknown = || peers([Peer::Unknown("a new kind of peer".to_owned())]);
    let strange = || TrafficMatches::Of(vec![TrafficMatch::Unknown("protocol \"GRE\"".to_owned())]);
    let about_all = |action, peers, traffic| rule(Ingress, action, PodSet::everything(), peers, traffic);
    for (action, behind, want) in
        [(Allow, Deny, "deny"), (Deny, Allow, "deny"), (Reject, Allow, "deny"), (Pass, Allow, "deny")]
    {
        for (peers, traffic) in
            [(unknown(), TrafficMatches::Any), (Peers::Any, strange()), (unknown(), strange())]
        {
            let snapshot =
                with([tiered("t", 100, 1.0, [about_all(action, peers, traffic), every(Ingress, behind)])]);
            assert_eq!(verdict(&snapshot, "x/a -> y/b tcp/80"), want, "{action}");
        }
    }
    // The whole rule fails closed, whatever stands beside the unknown: an Allow matches no traffic, others deny all.
    let beside = || peers([Peer::Unknown("new".to_owned()), Peer::Pods(pods("ns=x", ""))]);
    for (action, want) in [(Allow, "reject"), (Deny, "deny"), (Pass, "deny")] {
        let first = about_all(action, beside(), tcp(80, 80));
        let snapshot = with([tiered("t", 100, 1.0, [first, every(Ingress, Reject)])]);
        for flow in ["x/a -> y/b tcp/80", "z/a -> y/b tcp/80", "z/a -> y/b tcp/81"] {
            assert_eq!(verdict(&snapshot, flow), want, "{action} {flow}");
        }
    }
    // In a union an unreadable rule allows nobody.
    let np = network_policy(
        "np",
        &PodSet::all_of("y"),
        &[Ingress],
        [about_all(Allow, unknown(), TrafficMatches::Any)],
    );
    let evaluation = ask(&with([np]), "x/a -> y/b tcp/80");
    assert_eq!(evaluation.verdict, Verdict::Deny);
    assert!(matches!(evaluation.ingress.stages[0].steps[0].result, StepResult::FailedClosed { .. }));
}

#[test]
fn the_decision_of_an_unreadable_deny_says_so() {
    let unreadable = rule(
        Ingress,
        Pass,
        PodSet::everything(),
        peers([Peer::Unknown("new".to_owned())]),
        TrafficMatches::Any,
    );
    let evaluation = ask(&with([tiered("t", 100, 1.0, [unreadable])]), "x/a -> y/b tcp/80");
    let Because::Rule(decision) = evaluation.ingress.because else { panic!("a rule decides") };
    assert_eq!((decision.action, decision.failed_closed.as_deref()), (Deny, Some("new")));
}

#[test]
fn relative_namespaces_are_relative_to_the_subject() {
    let from = |namespaces| {
        let set = PodSet::new(namespaces, Default::default());
        let allow = rule(Ingress, Allow, PodSet::everything(), peers([Peer::Pods(set)]), TrafficMatches::Any);
        with([tiered("t", 100, 1.0, [allow, every(Ingress, Deny)])])
    };
    let own = from(Namespaces::Own);
    assert_eq!(verdict(&own, "x/a -> x/b tcp/80"), "allow");
    assert_eq!(verdict(&own, "y/a -> x/b tcp/80"), "deny");
    let same = from(Namespaces::SameLabels(vec!["team".into()]));
    assert_eq!(verdict(&same, "y/a -> x/b tcp/80"), "allow");
    assert_eq!(verdict(&same, "z/a -> x/b tcp/80"), "deny", "z has no team");
    assert_eq!(verdict(&same, "z/a -> z/b tcp/80"), "deny", "nobody has z's missing team");
    let other = from(Namespaces::NotSameLabels(vec!["ns".into()]));
    assert_eq!(verdict(&other, "y/a -> x/b tcp/80"), "allow");
    assert_eq!(verdict(&other, "x/a -> x/b tcp/80"), "deny");
    for empty in [Namespaces::SameLabels(vec![]), Namespaces::NotSameLabels(vec![])] {
        assert_eq!(verdict(&from(empty), "x/a -> x/b tcp/80"), "deny", "no labels select nothing");
    }
}

#[test]
fn nodes_names_and_blocks_are_peers() {
    let to = |peer| {
        let deny = rule(Egress, Deny, PodSet::everything(), peers([peer]), TrafficMatches::Any);
        let names = [("api.example.com".to_owned(), vec!["198.51.100.7".parse().unwrap()])].into();
        Snapshot::new(Objects { policies: vec![tiered("t", 100, 1.0, [deny])], names, ..world() })
    };
    let nodes = to(Peer::Nodes(selector("kind=node")));
    assert_eq!(verdict(&nodes, "x/a -> node:n1 tcp/10250"), "deny");
    assert_eq!(verdict(&nodes, "x/a -> ip:172.18.0.3 tcp/10250"), "deny", "a node's address is the node");
    assert_eq!(verdict(&nodes, "x/a -> y/a tcp/80"), "allow");
    let names = to(Peer::Names(vec![DomainName::new("*.example.com")]));
    assert_eq!(verdict(&names, "x/a -> ip:198.51.100.7 tcp/443"), "deny");
    assert_eq!(verdict(&names, "x/a -> ip:198.51.100.8 tcp/443"), "allow");
    let block =
        to(Peer::Addresses(Block::new("10.0.0.0/8".parse().unwrap(), ["10.0.1.0/24".parse().unwrap()])));
    assert_eq!(verdict(&block, "x/a -> z/a tcp/80"), "deny", "blocks match pods");
    assert_eq!(verdict(&block, "x/a -> y/a tcp/80"), "allow", "excepted");
    assert_eq!(verdict(&block, "x/a -> ip:fd00::2:0 tcp/80"), "allow", "the other family");
    let outside_only = Options { ip_block_matches_pods: false, ..Options::default() };
    assert_eq!(ask_with(&block, "x/a -> z/a tcp/80", outside_only).verdict, Verdict::Allow);
    assert_eq!(ask_with(&block, "x/a -> ip:10.9.9.9 tcp/80", outside_only).verdict, Verdict::Deny);
}

#[test]
fn a_ports_name_is_the_destinations() {
    let named = |protocol| TrafficMatches::Of(vec![TrafficMatch::Named(protocol, "web".into())]);
    let deny = |protocol| {
        with([tiered("t", 100, 1.0, [rule(Egress, Deny, PodSet::everything(), Peers::Any, named(protocol))])])
    };
    for protocol in [None, Some(Protocol::Tcp)] {
        assert_eq!(verdict(&deny(protocol), "x/a -> y/a tcp/80"), "deny");
        assert_eq!(verdict(&deny(protocol), "x/a -> y/a tcp/81"), "allow");
        assert_eq!(verdict(&deny(protocol), "x/a -> y/a udp/80"), "allow");
        assert_eq!(verdict(&deny(protocol), "x/a -> ip:203.0.113.7 tcp/80"), "allow");
        assert_eq!(verdict(&deny(protocol), "x/a -> y/a icmp"), "allow");
    }
    assert_eq!(verdict(&deny(Some(Protocol::Udp)), "x/a -> y/a tcp/80"), "allow");
}

#[test]
fn icmp_is_for_rules_without_ports() {
    let snapshot = |traffic| {
        with([tiered("t", 100, 1.0, [rule(Ingress, Deny, PodSet::everything(), Peers::Any, traffic)])])
    };
    assert_eq!(verdict(&snapshot(TrafficMatches::Any), "x/a -> y/a icmp/8"), "deny");
    assert_eq!(verdict(&snapshot(tcp(0, 65535)), "x/a -> y/a icmp/8"), "allow");
    assert_eq!(
        verdict(&snapshot(TrafficMatches::Of(vec![])), "x/a -> y/a tcp/80"),
        "allow",
        "an empty list is nothing"
    );
}

#[test]
fn a_pod_reaches_itself_unless_asked_to_evaluate_it() {
    let snapshot = with([tiered("t", 100, 1.0, [every(Ingress, Deny)])]);
    let evaluation = ask(&snapshot, "x/a -> x/a tcp/80");
    assert_eq!(evaluation.verdict, Verdict::Allow);
    assert!(matches!(evaluation.ingress.because, Because::Exempt(Exemption::OwnAddress)));
    let evaluate = Options { self_traffic: SelfTraffic::Evaluate, ..Options::default() };
    assert_eq!(ask_with(&snapshot, "x/a -> x/a tcp/80", evaluate).verdict, Verdict::Deny);
}

#[test]
fn its_own_node_reaches_a_pod_and_no_other() {
    let snapshot = with([tiered("t", 100, 1.0, [every(Ingress, Deny), every(Egress, Deny)])]);
    assert_eq!(verdict(&snapshot, "node:n0 -> x/a tcp/80"), "allow");
    assert_eq!(verdict(&snapshot, "ip:172.18.0.2 -> x/a tcp/80"), "allow");
    assert_eq!(verdict(&snapshot, "node:n1 -> x/a tcp/80"), "deny");
    assert_eq!(verdict(&snapshot, "x/a -> node:n0 tcp/80"), "deny", "the way to its node is evaluated");
}

#[test]
fn host_network_pods_are_their_node() {
    let mut objects = world();
    objects.pods.push(palisade_model::cluster::Pod {
        host_network: true,
        ..pod("x", "host", "app=host", "172.18.0.2")
    });
    let deny_pods = rule(
        Ingress,
        Deny,
        PodSet::everything(),
        peers([Peer::Pods(PodSet::everything())]),
        TrafficMatches::Any,
    );
    let deny_nodes =
        rule(Egress, Deny, PodSet::everything(), peers([Peer::Nodes(selector(""))]), TrafficMatches::Any);
    objects.policies.push(tiered("t", 100, 1.0, [deny_pods, deny_nodes]));
    let snapshot = Snapshot::new(objects);
    assert_eq!(verdict(&snapshot, "x/host -> x/a tcp/80"), "allow", "no selector finds it");
    assert_eq!(verdict(&snapshot, "y/a -> x/host tcp/80"), "deny", "a node by its labels");
    assert_eq!(verdict(&snapshot, "x/host -> ip:203.0.113.7 tcp/80"), "allow", "never a subject");
    let ignore = Options { host_network_pods: HostNetworkPods::Ignore, ..Options::default() };
    assert_eq!(ask_with(&snapshot, "y/a -> x/host tcp/80", ignore).verdict, Verdict::Allow);
    let shut = |options| {
        let mut objects = world();
        objects
            .pods
            .push(palisade_model::cluster::Pod { host_network: true, ..pod("x", "host", "", "172.18.0.2") });
        objects.policies.push(tiered("t", 100, 1.0, [every(Ingress, Deny)]));
        ask_with(&Snapshot::new(objects), "x/host -> x/a tcp/80", options).verdict
    };
    assert_eq!(shut(Options::default()), Verdict::Allow, "it is x/a's own node");
    assert_eq!(shut(ignore), Verdict::Deny);
}

#[test]
fn a_host_network_pod_is_its_node_whichever_of_the_two_it_tells() {
    let host = |node: Option<&str>, address: &str| {
        let mut objects = world();
        let pod = pod("x", "host", "", address);
        objects.pods.push(palisade_model::cluster::Pod {
            host_network: true,
            node: node.map(Into::into),
            ..pod
        });
        let by_address = peers([Peer::Addresses(Block::new("172.18.0.3/32".parse().unwrap(), []))]);
        let by_node = peers([Peer::Nodes(selector("kind=node"))]);
        objects.policies.push(tiered(
            "t",
            100,
            1.0,
            [
                rule(Egress, Reject, PodSet::everything(), by_address, tcp(80, 80)),
                rule(Egress, Deny, PodSet::everything(), by_node, tcp(81, 81)),
            ],
        ));
        let snapshot = Snapshot::new(objects);
        [verdict(&snapshot, "y/a -> x/host tcp/80"), verdict(&snapshot, "y/a -> x/host tcp/81")]
    };
    assert_eq!(host(Some("n1"), ""), ["reject", "deny"], "without a status");
    assert_eq!(host(None, "172.18.0.3"), ["reject", "deny"], "without a node's name");
}

#[test]
fn the_address_of_its_node_is_known_from_a_pods_own_status() {
    let mut objects = Objects { nodes: Vec::new(), ..world() };
    for pod in &mut objects.pods {
        pod.host_addresses = vec!["172.18.0.2".parse().unwrap()];
    }
    objects.policies.push(tiered("t", 100, 1.0, [every(Ingress, Deny)]));
    let snapshot = Snapshot::new(objects);
    assert_eq!(verdict(&snapshot, "ip:172.18.0.2 -> x/a tcp/80"), "allow");
    assert_eq!(verdict(&snapshot, "ip:172.18.0.3 -> x/a tcp/80"), "deny");
}

#[test]
fn neighbour_discovery_always_passes_and_only_on_ipv6() {
    let snapshot = with([tiered("t", 100, 1.0, [every(Ingress, Deny)])]);
    assert_eq!(verdict(&snapshot, "ip:fd00::99 -> x/a icmp/135"), "allow");
    assert_eq!(verdict(&snapshot, "ip:fd00::99 -> x/a icmp/128"), "deny");
    assert_eq!(verdict(&snapshot, "ip:10.9.9.9 -> x/a icmp/135"), "deny");
}

#[test]
fn a_template_is_many_pods_and_none_of_them_is_another() {
    let mut objects = world();
    objects.pods.push(palisade_model::cluster::Pod {
        stand_in: Some("Deployment".into()),
        ..pod("x", "web", "", "")
    });
    objects.policies.push(tiered("t", 100, 1.0, [every(Ingress, Deny)]));
    assert_eq!(verdict(&Snapshot::new(objects), "x/web -> x/web tcp/80"), "deny");
}

#[test]
fn a_pod_without_address_is_found_by_selectors_and_by_no_block() {
    let mut objects = world();
    objects.pods.push(pod("x", "new", "app=new", ""));
    let by_block = rule(
        Ingress,
        Deny,
        PodSet::everything(),
        peers([Peer::Addresses(Block::new("0.0.0.0/0".parse().unwrap(), []))]),
        TrafficMatches::Any,
    );
    let by_label = rule(
        Ingress,
        Reject,
        PodSet::everything(),
        peers([Peer::Pods(pods("", "app=new"))]),
        TrafficMatches::Any,
    );
    objects.policies.push(tiered("t", 100, 1.0, [by_block, by_label]));
    assert_eq!(verdict(&Snapshot::new(objects), "x/new -> y/a tcp/80"), "reject");
}

#[test]
fn the_trace_names_who_decided_and_why_the_others_did_not() {
    let not_for_us = rule(Ingress, Deny, pods("ns=z", ""), Peers::Any, TrafficMatches::Any);
    let by_peer = rule(
        Ingress,
        Deny,
        PodSet::everything(),
        peers([Peer::Pods(pods("", "app=b"))]),
        TrafficMatches::Any,
    );
    let policies = [
        tiered("elsewhere", 10, 1.0, [not_for_us]),
        tiered("peer-and-port", 20, 1.0, [by_peer, port(Ingress, Deny, 81), port(Ingress, Pass, 80)]),
        network_policy(
            "np",
            &PodSet::all_of("y"),
            &[Ingress],
            [rule(Ingress, Allow, PodSet::all_of("y"), Peers::Any, tcp(80, 80))],
        ),
        network_policy(
            "np2",
            &PodSet::all_of("y"),
            &[Ingress],
            [rule(Ingress, Allow, PodSet::all_of("y"), Peers::Any, TrafficMatches::Any)],
        ),
    ];
    let evaluation = ask(&with(policies), "x/a -> y/b tcp/80");
    let stages = &evaluation.ingress.stages;
    assert_eq!(
        stages.iter().map(|stage| stage.outcome).collect::<Vec<_>>(),
        [StageOutcome::NoMatch, StageOutcome::Passed, StageOutcome::Decided(Verdict::Allow)]
    );
    assert_eq!(stages[0].bystanders[0].applies_to, "pods of namespaces with ns=z");
    let causes: Vec<Option<Cause>> = stages[1]
        .steps
        .iter()
        .map(|step| match &step.result {
            StepResult::NotMatched { cause, .. } => Some(*cause),
            _ => None,
        })
        .collect();
    assert_eq!(causes, [Some(Cause::Peer), Some(Cause::Port), None]);
    assert_eq!(stages[2].isolated_by.len(), 2);
    let deciders: Vec<&str> = evaluation.decided_by().map(|object: &Arc<_>| object.name.as_str()).collect();
    assert_eq!(deciders, ["np", "np2"]);
}

macro_rules! reasons {
    ($($name:ident: $flow:literal, $peers:expr, $traffic:expr => $cause:ident $why:literal;)*) => {$(
        #[test]
        fn $name() {
            let deny = rule(Ingress, Deny, PodSet::everything(), $peers, $traffic);
            let evaluation = ask(&with([tiered("t", 100, 1.0, [deny])]), $flow);
            let StepResult::NotMatched { cause, why, .. } = &evaluation.ingress.stages[0].steps[0].result else {
                panic!("it must not match")
            };
            assert_eq!((*cause, why.as_str()), (Cause::$cause, $why));
        }
    )*};
}

fn block(cidr: &str, except: &[&str]) -> Peers {
    peers([Peer::Addresses(Block::new(cidr.parse().unwrap(), except.iter().map(|net| net.parse().unwrap())))])
}

reasons! {
    reason_port: "x/a -> y/b tcp/5432", Peers::Any, tcp(3306, 3306) => Port "tcp/5432 is not tcp/3306";
    reason_port_range: "x/a -> y/b tcp/5432", Peers::Any, tcp(1, 9) => Port "tcp/5432 is not in tcp/1-9";
    reason_protocol: "x/a -> y/b udp/53", Peers::Any, tcp(53, 53) => Protocol "udp/53 is not tcp/53";
    reason_named_port: "x/a -> y/b tcp/81", Peers::Any, TrafficMatches::Of(vec![TrafficMatch::Named(None, "web".into())])
        => Port "port web of y/b is tcp/80, not tcp/81";
    reason_no_such_port: "x/a -> y/b tcp/81", Peers::Any, TrafficMatches::Of(vec![TrafficMatch::Named(None, "dns".into())])
        => Port "y/b has no tcp port named dns";
    reason_no_ports: "x/a -> y/b tcp/81", Peers::Any, TrafficMatches::Of(vec![])
        => Protocol "its list of ports is empty, so it matches no traffic";
    reason_label: "x/a -> y/b tcp/80", peers([Peer::Pods(pods("ns=x", "app=c"))]), TrafficMatches::Any
        => Peer "x/a is not among pods with app=c of namespaces with ns=x: its app is a";
    reason_no_label: "x/a -> y/b tcp/80", peers([Peer::Pods(pods("ns=x", "role=c"))]), TrafficMatches::Any
        => Peer "x/a is not among pods with role=c of namespaces with ns=x: it has no label role";
    reason_namespace: "x/a -> y/b tcp/80", peers([Peer::Pods(pods("ns=z", "app=a"))]), TrafficMatches::Any
        => Peer "x/a is not among pods with app=a of namespaces with ns=z";
    reason_outside: "ip:203.0.113.7 -> y/b tcp/80", peers([Peer::Pods(pods("", "app=a"))]), TrafficMatches::Any
        => Peer "203.0.113.7 is outside the cluster, not pods with app=a anywhere";
    reason_block: "x/a -> y/b tcp/80", block("192.0.2.0/24", &[]), TrafficMatches::Any
        => Peer "10.0.0.0 is not in 192.0.2.0/24";
    reason_except: "ip:192.0.2.7 -> y/b tcp/80", block("192.0.2.0/24", &["192.0.2.0/28"]), TrafficMatches::Any
        => Peer "192.0.2.7 is excepted: 192.0.2.0/24 except 192.0.2.0/28";
    reason_family: "ip:2001:db8::7 -> y/b tcp/80", block("0.0.0.0/0", &[]), TrafficMatches::Any
        => Family "2001:db8::7 is IPv6, 0.0.0.0/0 is IPv4";
    reason_node: "ip:203.0.113.7 -> y/b tcp/80", peers([Peer::Nodes(selector("kind=node"))]), TrafficMatches::Any
        => Peer "203.0.113.7 is no node";
    reason_nobody: "x/a -> y/b tcp/80", peers([]), TrafficMatches::Any
        => Peer "its list of peers is empty, so it matches nobody";
}
