//! What Antrea's objects become in the rule language, and what they become where they cannot be read.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use palisade_dialects::load::load;
use palisade_dialects::object::Lowered;
use palisade_dialects::source::Limits;
use palisade_dialects::source::tree::Source;
use palisade_dialects::world::World;
use palisade_model::policy::{Peers, Placement, Policy, Rule, TrafficMatches};

fn world(text: &str) -> World {
    let (mut world, mut found) = (World::default(), Vec::new());
    load(&Source::new("t.yaml", text), &Limits::default(), &mut world, &mut found);
    world
}

fn lowered(api_version: &str, kind: &str, spec: &str) -> Policy {
    let text = format!(
        "apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: p, namespace: x}}\nspec: {{{spec}}}\n"
    );
    let world = world(&text);
    match &world.iter().next().expect("it is read").lowered {
        Lowered::Policy(policy) => policy.clone(),
        other => panic!("{other:?}"),
    }
}

fn cluster(spec: &str) -> Policy {
    lowered("crd.antrea.io/v1beta1", "ClusterNetworkPolicy", spec)
}

fn namespaced(spec: &str) -> Policy {
    lowered("crd.antrea.io/v1beta1", "NetworkPolicy", spec)
}

/// A rule in one line: action, whom it applies to, peers, traffic, condition; or why it cannot be read.
fn words(rule: &Rule) -> String {
    if let Some(why) = rule.unknown() {
        return format!("{} unreadable: {why}", rule.action);
    }
    let subjects: Vec<String> = rule.subjects.iter().map(ToString::to_string).collect();
    let peers = match &rule.peers {
        Peers::Any => "anybody".to_owned(),
        Peers::Of(peers) => peers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + "),
    };
    let traffic = match &rule.traffic {
        TrafficMatches::Any => "anything".to_owned(),
        TrafficMatches::Of(all) => all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + "),
    };
    let mut words = format!("{} | {} | {peers} | {traffic}", rule.action, subjects.join(" + "));
    for condition in &rule.layer7 {
        words.push_str(&format!(" if {condition}"));
    }
    words
}

/// One line a case: the single rule of a policy, and what it becomes.
macro_rules! rules {
    ($($name:ident: $policy:expr => $words:literal;)*) => {$(
        #[test]
        fn $name() {
            let policy = $policy;
            assert_eq!(words(&policy.rules[0]), $words);
        }
    )*};
}

/// A cluster policy with one ingress rule for every pod.
fn ingress(rule: &str) -> Policy {
    cluster(&format!("priority: 1, appliedTo: [{{podSelector: {{}}}}], ingress: [{{{rule}}}]"))
}

fn egress(rule: &str) -> Policy {
    cluster(&format!("priority: 1, appliedTo: [{{podSelector: {{}}}}], egress: [{{{rule}}}]"))
}

/// A cluster policy that drops everything for these.
fn applied(to: &str) -> Policy {
    cluster(&format!("priority: 1, appliedTo: [{to}], ingress: [{{action: Drop}}]"))
}

rules! {
    everything: ingress("action: Drop") => "Deny | any pod | anybody | anything";
    empty_lists_are_everything: ingress("action: Drop, from: [], ports: [], protocols: []") => "Deny | any pod | anybody | anything";
    reject: ingress("action: Reject") => "Reject | any pod | anybody | anything";
    pass: ingress("action: Pass") => "Pass | any pod | anybody | anything";
    pods_anywhere: ingress("action: Allow, from: [{podSelector: {matchLabels: {a: b}}}]") => "Allow | any pod | pods with a=b anywhere | anything";
    pods_of_namespaces: ingress("action: Allow, from: [{podSelector: {matchLabels: {a: b}}, namespaceSelector: {matchLabels: {n: m}}}]") => "Allow | any pod | pods with a=b of namespaces with n=m | anything";
    own_namespace: ingress("action: Allow, from: [{namespaces: {match: Self}, podSelector: {matchLabels: {a: b}}}]") => "Allow | any pod | pods with a=b of the same namespace | anything";
    same_labels: ingress("action: Allow, from: [{namespaces: {sameLabels: [tier, env]}}]") => "Allow | any pod | pods of namespaces with the same tier, env | anything";
    block: ingress("action: Allow, from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}]") => "Allow | any pod | 10.0.0.0/8 except 10.1.0.0/16 | anything";
    group_peer: ingress("action: Allow, from: [{group: g}]") => "Allow | any pod | group g | anything";
    account_peer: ingress("action: Allow, from: [{serviceAccount: {name: s, namespace: ns}}]") => "Allow | any pod | pods with service account s of namespace ns | anything";
    node_peer: ingress("action: Allow, from: [{nodeSelector: {matchLabels: {zone: a}}}]") => "Allow | any pod | nodes with zone=a | anything";
    name_peer: egress("action: Allow, to: [{fqdn: '*Example.com'}]") => "Allow | any pod | *example.com | anything";
    to_services: egress("action: Drop, toServices: [{name: s, namespace: ns}]") => "Deny | any pod | service ns/s | anything";
    empty_peer_is_every_pod: ingress("action: Allow, from: [{}]") => "Allow | any pod | any pod | anything";
    ports: ingress("action: Drop, ports: [{port: 80}, {protocol: UDP, port: 50, endPort: 60}, {protocol: SCTP}, {port: web}]") => "Deny | any pod | anybody | tcp/80 + udp/50-60 + any sctp port + tcp/web";
    source_ports: ingress("action: Drop, ports: [{port: 80, sourcePort: 1000, sourceEndPort: 2000}, {sourcePort: 5}]") => "Deny | any pod | anybody | tcp/80 from source ports 1000-2000 + any tcp port from source port 5";
    ports_and_protocols_add_up: ingress("action: Drop, ports: [{port: 80}], protocols: [{icmp: {icmpType: 8, icmpCode: 0}}, {icmp: {}}]") => "Deny | any pod | anybody | tcp/80 + icmp/8/0 + any icmp";
    igmp: egress("action: Drop, protocols: [{igmp: {igmpType: 22, groupAddress: 225.1.2.3}}]") => "Deny | any pod | anybody | igmp/22 about 225.1.2.3";
    layer_7: ingress("action: Allow, l7Protocols: [{http: {method: GET, path: '/api/*', host: a.example}}, {tls: {sni: b.example}}]") => "Allow | any pod | anybody | anything if HTTP GET /api/* to a.example if TLS to b.example";

    applied_to_nodes: applied("{nodeSelector: {matchLabels: {zone: a}}}") => "Deny | nodes with zone=a | anybody | anything";
    applied_to_a_service: applied("{service: {name: s, namespace: ns}}") => "Deny | service ns/s from outside | anybody | anything";
    applied_to_an_account: applied("{serviceAccount: {name: s, namespace: ns}}") => "Deny | pods with service account s of namespace ns | anybody | anything";
    applied_to_a_group: applied("{group: g}") => "Deny | group g | anybody | anything";
    applied_to_several: applied("{podSelector: {matchLabels: {a: b}}}, {namespaceSelector: {matchLabels: {n: m}}}") => "Deny | pods with a=b anywhere + pods of namespaces with n=m | anybody | anything";
    applied_to_anything: applied("{}") => "Deny | any pod | anybody | anything";
    applied_by_the_rule: cluster("priority: 1, ingress: [{action: Drop, appliedTo: [{group: g}]}]") => "Deny | group g | anybody | anything";

    namespaced_pods: namespaced("priority: 1, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{podSelector: {matchLabels: {a: b}}}]}]") => "Deny | pods of namespace x | pods with a=b of namespace x | anything";
    namespaced_group: namespaced("priority: 1, appliedTo: [{group: g}], ingress: [{action: Drop, from: [{group: h}]}]") => "Deny | group x/g, in namespace x | group x/h | anything";
    namespaced_entities: namespaced("priority: 1, appliedTo: [{externalEntitySelector: {matchLabels: {a: b}}}], ingress: [{action: Drop, from: [{externalEntitySelector: {}, namespaceSelector: {}}]}]") => "Deny | external entities with a=b of namespace x | any external entity | anything";
    namespaced_service: namespaced("priority: 1, appliedTo: [{podSelector: {}}], egress: [{action: Drop, toServices: [{name: s}]}]") => "Deny | pods of namespace x | service x/s | anything";

    unknown_action: ingress("action: Deny") => "Deny unreadable: action \"Deny\"";
    two_things_in_a_peer: ingress("action: Allow, from: [{ipBlock: {cidr: 10.0.0.0/8}, podSelector: {}}]") => "Allow unreadable: a peer that says two things";
    port_0: ingress("action: Allow, ports: [{port: 0}]") => "Allow unreadable: ports 0 to 0";
    ports_backwards: ingress("action: Drop, ports: [{port: 9, endPort: 8}]") => "Deny unreadable: ports 9 to 8";
    named_port_with_end: ingress("action: Drop, ports: [{port: web, endPort: 8}]") => "Deny unreadable: port \"web\" with endPort";
    except_outside: ingress("action: Drop, from: [{ipBlock: {cidr: 10.0.0.0/8, except: [11.0.0.0/8]}}]") => "Deny unreadable: 11.0.0.0/8 is no part of 10.0.0.0/8";
    match_of_another_word: ingress("action: Drop, from: [{namespaces: {match: self}}]") => "Deny unreadable: namespaces match \"self\"";
    operator_without_values: ingress("action: Drop, from: [{podSelector: {matchExpressions: [{key: a, operator: In}]}}]") => "Deny unreadable: podSelector: In without values on label a";
    no_applied_to: cluster("priority: 1, ingress: [{action: Drop}]") => "Deny unreadable: no appliedTo";
    applied_to_twice: cluster("priority: 1, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, appliedTo: [{podSelector: {}}]}]") => "Deny unreadable: appliedTo in both the spec and the rule";
    priority_0: cluster("priority: 0, appliedTo: [{podSelector: {}}], ingress: [{action: Allow}]") => "Allow unreadable: priority 0";
    priority_not_a_number: cluster("priority: .nan, appliedTo: [{podSelector: {}}], ingress: [{action: Allow}]") => "Allow unreadable: priority cannot be read";
    priority_infinite: cluster("priority: .inf, appliedTo: [{podSelector: {}}], ingress: [{action: Drop}]") => "Deny unreadable: priority cannot be read";
    no_reject_in_2020: lowered("security.antrea.tanzu.vmware.com/v1alpha1", "ClusterNetworkPolicy", "priority: 1, appliedTo: [{podSelector: {}}], ingress: [{action: Reject}]") => "Deny unreadable: action \"Reject\"";
}

#[test]
fn a_policy_stands_in_the_tier_it_names_at_its_fraction() {
    let place = |spec: &str| match cluster(spec).placement {
        Placement::Tier { tier, priority } => format!("{tier:?} {priority}"),
        Placement::Union => panic!("no tier"),
    };
    assert_eq!(place("priority: 0.5"), "Named(\"application\") 0");
    assert_eq!(place("priority: 5.25, tier: ''"), "Named(\"application\") 5.25");
    assert_eq!(place("priority: 10000, tier: SecurityOps"), "Named(\"securityops\") 10000");
    assert_eq!(place("priority: 1, tier: Mine"), "Named(\"Mine\") 1");
}

#[test]
fn a_rule_without_a_name_gets_antreas() {
    let policy = ingress("action: Drop");
    let name = policy.rules[0].name.clone().unwrap();
    assert!(name.starts_with("ingress-drop-") && name.len() == "ingress-drop-".len() + 7, "{name}");
    assert_eq!(ingress("action: Drop, name: mine").rules[0].name.as_deref(), Some("mine"));
}

#[test]
fn an_unreadable_policy_denies_in_both_directions_whomever_it_could_have_meant() {
    let policy = namespaced("priority: 1, appliedTo: [{podSelector: {matchLabels: {a: b}}}], ingres: []");
    assert_eq!(policy.rules.len(), 2);
    for rule in &policy.rules {
        let subjects: Vec<String> = rule.subjects.iter().map(ToString::to_string).collect();
        // What it says, and everybody else of the namespace.
        assert_eq!(
            subjects,
            ["pods with a=b of namespace x", "pods of namespace x", "external entities of namespace x"]
        );
        assert!(rule.unknown().is_some());
    }
}

#[test]
fn both_api_groups_in_one_world_use_the_newer_tiers() {
    let tier = |text: &str| world(text).objects().tiers["securityops"];
    let old = "{apiVersion: security.antrea.tanzu.vmware.com/v1alpha1, kind: Tier, metadata: {name: a}, spec: {priority: 7}}\n";
    let new =
        "---\n{apiVersion: crd.antrea.io/v1beta1, kind: Tier, metadata: {name: b}, spec: {priority: 8}}\n";
    assert_eq!(tier(old), 50);
    assert_eq!(tier(&format!("{old}{new}")), 100);
    assert_eq!(tier(new), 100);
}
