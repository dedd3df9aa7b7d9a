//! What the admin policies become in the rule language: each field, the old shapes of peers, and every way to fail closed.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::panic)]

use palisade_dialects::load::load;
use palisade_dialects::source::{Limits, Source};
use palisade_dialects::world::World;
use palisade_model::diagnostic::Diagnostic;
use palisade_model::policy::{Peers, Placement, Policy, Tier, TrafficMatches};

fn read(text: &str) -> (World, Vec<Diagnostic>) {
    let (mut world, mut found) = (World::default(), Vec::new());
    load(&Source::new("f.yaml", text), &Limits::default(), &mut world, &mut found);
    (world, found)
}

/// A policy of one kind, with its spec in flow style.
fn object(kind: &str, spec: &str) -> String {
    let (version, kind, name) = match kind {
        "anp" => ("v1alpha1", "AdminNetworkPolicy", "a"),
        "banp" => ("v1alpha1", "BaselineAdminNetworkPolicy", "default"),
        "cnp" => ("v1alpha2", "ClusterNetworkPolicy", "a"),
        other => panic!("no kind {other}"),
    };
    format!(
        "{{apiVersion: policy.networking.k8s.io/{version}, kind: {kind}, metadata: {{name: {name}}}, {spec}}}\n---\n"
    )
}

/// A policy as text: its place, then a line for each rule.
fn plain(policy: &Policy) -> Vec<String> {
    let Placement::Tier { tier: Tier::Fixed(tier, name), priority } = &policy.placement else {
        panic!("{:?}", policy.placement)
    };
    assert!(policy.isolations.is_empty());
    let mut lines = vec![format!("{tier} {name} {priority}")];
    for rule in &policy.rules {
        let peers = match &rule.peers {
            Peers::Any => "anybody".to_owned(),
            Peers::Of(peers) => peers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | "),
        };
        let traffic = match &rule.traffic {
            TrafficMatches::Any => String::new(),
            TrafficMatches::Of(all) => {
                format!(" on {}", all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | "))
            }
        };
        let name = rule.name.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default();
        assert!(rule.at.is_some());
        lines.push(format!(
            "{}[{}]{name} {} of {}: {peers}{traffic}",
            rule.direction, rule.index, rule.action, rule.subjects[0]
        ));
    }
    lines
}

fn lowered(kind: &str, spec: &str) -> Vec<String> {
    let (world, _) = read(&object(kind, spec));
    let objects = world.objects();
    assert_eq!(objects.policies.len(), 1);
    plain(&objects.policies[0])
}

macro_rules! lowers {
    ($($name:ident: $kind:ident $spec:literal => [$($want:literal),* $(,)?];)*) => {$(
        #[test]
        fn $name() {
            let want: &[&str] = &[$($want),*];
            assert_eq!(lowered(stringify!($kind), $spec), want);
        }
    )*};
}

// === what is written properly ===

lowers! {
    an_admin_policy_stands_at_251: anp "spec: {priority: 10, subject: {namespaces: {}}}" => ["251 admin 10"];
    a_number_with_an_empty_fraction: anp "spec: {priority: 10.0, subject: {namespaces: {}}}" => ["251 admin 10"];
    a_baseline_stands_before_all_others_at_254: banp "spec: {subject: {namespaces: {}}}" => ["254 baseline -1"];
    tier_admin_stands_at_220: cnp "spec: {tier: Admin, priority: 1000, subject: {namespaces: {}}}" => ["220 admin 1000"];
    tier_baseline_stands_at_254: cnp "spec: {tier: Baseline, priority: 0, subject: {namespaces: {}}}"
        => ["254 baseline 0"];

    everything_in_an_admin_policy: anp "spec:
        {priority: 1, subject: {namespaces: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: Exists}]}},
        ingress: [{name: in, action: Allow, from: [{namespaces: {}}], ports: [{portNumber: {port: 80}}]},
                  {action: Pass, from: [{pods: {namespaceSelector: {matchLabels: {a: b}}, podSelector: {matchLabels: {c: d}}}}],
                   ports: [{portNumber: {protocol: UDP, port: 53}}, {portRange: {protocol: SCTP, start: 1, end: 9}}, {namedPort: http}]}],
        egress: [{name: out, action: Deny, to: [{networks: [10.1.2.3/8, '::/0']}, {nodes: {}}, {nodes: {matchLabels: {e: f}}}]},
                 {action: Allow, to: [{domainNames: ['*.Example.com', kubernetes.io.]}]}]}" => [
        "251 admin 1",
        "ingress[0] \"in\" Allow of pods of namespaces with a=b,c: any pod on tcp/80",
        "ingress[1] Pass of pods of namespaces with a=b,c: pods with c=d of namespaces with a=b on udp/53 | sctp/1-9 | port http",
        "egress[0] \"out\" Deny of pods of namespaces with a=b,c: 10.0.0.0/8 | ::/0 | any node | nodes with e=f",
        "egress[1] Allow of pods of namespaces with a=b,c: *.example.com, kubernetes.io",
    ];
    everything_in_a_baseline: banp "spec:
        {subject: {pods: {namespaceSelector: {matchLabels: {a: b}}, podSelector: {matchLabels: {c: d}}}},
        ingress: [{action: Deny, from: [{namespaces: {}}]}],
        egress: [{name: out, action: Allow, to: [{networks: [10.0.0.0/8]}, {nodes: {}}]}]}" => [
        "254 baseline -1",
        "ingress[0] Deny of pods with c=d of namespaces with a=b: any pod",
        "egress[0] \"out\" Allow of pods with c=d of namespaces with a=b: 10.0.0.0/8 | any node",
    ];
    everything_in_a_cluster_policy: cnp "spec:
        {tier: Admin, priority: 1, subject: {pods: {podSelector: {matchLabels: {c: d}}}},
        ingress: [{name: in, action: Accept, from: [{pods: {podSelector: {}}}, {namespaces: {matchLabels: {a: b}}}],
                   protocols: [{tcp: {destinationPort: {number: 80}}}, {udp: {destinationPort: {range: {start: 1, end: 9}}}},
                               {sctp: {destinationPort: {number: 7}}}, {destinationNamedPort: http}]}],
        egress: [{action: Pass, to: [{networks: [10.0.0.0/8]}, {nodes: {}}, {domainNames: [a.b]}]},
                 {action: Deny, to: [{namespaces: {}}]}]}" => [
        "220 admin 1",
        "ingress[0] \"in\" Allow of pods with c=d anywhere: any pod | pods of namespaces with a=b on tcp/80 | udp/1-9 | sctp/7 | port http",
        "egress[0] Pass of pods with c=d anywhere: 10.0.0.0/8 | any node | a.b",
        "egress[1] Deny of pods with c=d anywhere: any pod",
    ];
    a_null_label_is_dropped_as_the_server_does: anp "spec: {priority: 1, subject: {namespaces: {matchLabels: {a: null, b: c}}},
        ingress: [{action: Deny, from: [{namespaces: {matchLabels: {a: null}}}]}]}" => [
        "251 admin 1", "ingress[0] Deny of pods of namespaces with b=c: any pod",
    ];
}

// === refused, and still clear ===

lowers! {
    a_protocol_without_ports_is_all_of_them: cnp "spec: {tier: Admin, priority: 1, subject: {namespaces: {}},
        ingress: [{action: Deny, from: [{namespaces: {}}], protocols: [{tcp: {}}]}]}" => [
        "220 admin 1", "ingress[0] Deny of any pod: any pod on any tcp port",
    ];
    a_range_of_one_port: cnp "spec: {tier: Admin, priority: 1, subject: {namespaces: {}},
        ingress: [{action: Deny, from: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {range: {start: 7, end: 7}}}}]}]}" => [
        "220 admin 1", "ingress[0] Deny of any pod: any pod on tcp/7",
    ];
    a_network_twice: anp "spec: {priority: 1, subject: {namespaces: {}}, egress: [{action: Deny, to: [{networks: [10.0.0.0/8, 10.0.0.0/8]}]}]}" => [
        "251 admin 1", "egress[0] Deny of any pod: 10.0.0.0/8 | 10.0.0.0/8",
    ];
}

// === peers of before v0.1.2 ===

lowers! {
    old_namespaces: anp "spec: {priority: 1, subject: {namespaces: {}},
        ingress: [{action: Deny, from: [{namespaces: {namespaceSelector: {matchLabels: {a: b}}}}, {namespaces: {sameLabels: [t, u]}},
                                        {namespaces: {notSameLabels: [t]}}]}]}" => [
        "251 admin 1",
        "ingress[0] Deny of any pod: pods of namespaces with a=b | pods of namespaces with the same t, u | pods of namespaces with another t",
    ];
    old_pods: banp "spec: {subject: {namespaces: {}},
        egress: [{action: Deny, to: [{pods: {namespaces: {namespaceSelector: {matchLabels: {a: b}}}, podSelector: {matchLabels: {c: d}}}},
                                     {pods: {namespaces: {sameLabels: [t]}, podSelector: {}}},
                                     {pods: {namespaces: {notSameLabels: [t]}, podSelector: {}}}]}]}" => [
        "254 baseline -1",
        "egress[0] Deny of any pod: pods with c=d of namespaces with a=b | pods of namespaces with the same t | pods of namespaces with another t",
    ];
    an_old_subject_by_analogy: anp "spec: {priority: 1, subject: {namespaces: {namespaceSelector: {matchLabels: {a: b}}}},
        ingress: [{action: Deny, from: [{namespaces: {}}]}]}" => [
        "251 admin 1", "ingress[0] Deny of pods of namespaces with a=b: any pod",
    ];
    old_and_new_together_are_unknown: anp "spec: {priority: 1, subject: {namespaces: {}},
        ingress: [{action: Deny, from: [{namespaces: {namespaceSelector: {}, matchLabels: {a: b}}}, {namespaces: {sameLabels: [a], notSameLabels: [b]}},
                   {pods: {namespaces: {namespaceSelector: {}}, namespaceSelector: {}, podSelector: {}}},
                   {pods: {namespaces: {matchLabels: {a: b}}, podSelector: {}}}]}]}" => [
        "251 admin 1",
        "ingress[0] Deny of any pod: an unknown peer (namespaces with more than one field) | an unknown peer (namespaces with more than one field) | an unknown peer (namespaces and namespaceSelector) | an unknown peer (matchLabels below pods.namespaces)",
    ];
    a_subject_relative_to_itself: anp "spec: {priority: 1, subject: {namespaces: {sameLabels: [a]}}, ingress: [{action: Deny, from: [{namespaces: {matchLabels: {a: b}}}]}]}" => [
        "251 admin 1", "ingress[0] Deny of any pod: an unknown peer (labels relative to the subject in the subject)",
    ];
}

// === required fields that are missing, and have a reading: an error of `check` each, and the zero value ===

lowers! {
    no_priority: anp "spec: {subject: {namespaces: {matchLabels: {a: b}}}, ingress: [{action: Allow, from: [{namespaces: {}}]}]}" => [
        "251 admin 0", "ingress[0] Allow of pods of namespaces with a=b: any pod",
    ];
    a_null_priority: cnp "spec: {tier: Baseline, priority: null, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}" => [
        "254 baseline 0", "ingress[0] Deny of any pod: any pod",
    ];
    subjects_without_a_selector: anp "spec: {priority: 1, subject: {pods: {podSelector: {matchLabels: {a: b}}}}, egress: [{action: Deny, to: [{nodes: {}}]}]}" => [
        "251 admin 1", "egress[0] Deny of pods with a=b anywhere: any node",
    ];
    subjects_without_the_other: banp "spec: {subject: {pods: {namespaceSelector: {matchLabels: {a: b}}}}, egress: [{action: Deny, to: [{nodes: {}}]}]}" => [
        "254 baseline -1", "egress[0] Deny of pods of namespaces with a=b: any node",
    ];
    subjects_without_either: cnp "spec: {tier: Admin, priority: 1, subject: {pods: {}}, egress: [{action: Deny, to: [{nodes: {}}]}]}" => [
        "220 admin 1", "egress[0] Deny of any pod: any node",
    ];
    peers_without_a_selector: anp "spec: {priority: 1, subject: {namespaces: {}},
        ingress: [{action: Deny, from: [{pods: {namespaceSelector: {matchLabels: {a: b}}}}, {pods: {podSelector: {matchLabels: {a: b}}}}, {pods: {podSelector: null, namespaceSelector: {matchLabels: {a: b}}}}, {pods: {}}]}],
        egress: [{action: Deny, to: [{pods: {namespaceSelector: {matchLabels: {a: b}}}}]}]}" => [
        "251 admin 1",
        "ingress[0] Deny of any pod: pods of namespaces with a=b | pods with a=b anywhere | pods of namespaces with a=b | any pod",
        "egress[0] Deny of any pod: pods of namespaces with a=b",
    ];
    peers_of_a_cluster_network_policy: cnp "spec: {tier: Admin, priority: 1, subject: {namespaces: {}},
        ingress: [{action: Deny, from: [{pods: {namespaceSelector: {matchLabels: {a: b}}}}, {pods: {}}]}]}" => [
        "220 admin 1", "ingress[0] Deny of any pod: pods of namespaces with a=b | any pod",
    ];
    old_peers_without_a_selector: banp "spec: {subject: {namespaces: {}},
        ingress: [{action: Deny, from: [{pods: {namespaces: {namespaceSelector: {matchLabels: {a: b}}}}}, {pods: {namespaces: {}, podSelector: {matchLabels: {a: b}}}}, {pods: {namespaces: {sameLabels: [t]}}}]}]}" => [
        "254 baseline -1",
        "ingress[0] Deny of any pod: pods of namespaces with a=b | pods with a=b anywhere | pods of namespaces with the same t",
    ];
}

#[test]
fn a_missing_required_selector_is_an_error() {
    let kinds = [
        ("v1alpha1", "AdminNetworkPolicy", "priority: 1, ", "Deny", true),
        ("v1alpha1", "BaselineAdminNetworkPolicy", "", "Deny", true),
        ("v1alpha2", "ClusterNetworkPolicy", "tier: Admin, priority: 1, ", "Deny", false),
    ];
    for (version, kind, place, action, both) in kinds {
        let (_, found) = read(&format!(
            "{{apiVersion: policy.networking.k8s.io/{version}, kind: {kind}, metadata: {{name: default}}, spec: {{{place}subject: {{pods: {{}}}}, ingress: [{{action: {action}, from: [{{pods: {{}}}}]}}]}}}}"
        ));
        let fields: Vec<&str> = found.iter().map(|one| &*one.field).collect();
        for place in ["spec.subject.pods", "spec.ingress[0].from[0].pods"] {
            assert!(fields.contains(&&*format!("{place}.podSelector")), "{kind}: {fields:?}");
            assert_eq!(fields.contains(&&*format!("{place}.namespaceSelector")), both, "{kind}: {fields:?}");
        }
        assert!(found.iter().all(|one| one.code.id == "A0101"), "{kind}: {found:?}");
    }
}

// === failing closed ===

lowers! {
    an_unknown_field_in_the_spec: anp "spec: {priority: 1, subject: {namespaces: {matchLabels: {a: b}}}, log: true,
        ingress: [{action: Allow, from: [{namespaces: {}}], ports: [{namedPort: x}]}], egress: [{action: Pass, to: [{namespaces: {}}]}]}" => [
        "251 admin 1",
        "ingress[0] Allow of pods of namespaces with a=b: an unknown peer (unknown field log)",
        "egress[0] Pass of pods of namespaces with a=b: an unknown peer (unknown field log)",
    ];
    a_spec_of_which_nothing_is_known: anp "spec: {priority: 1, subject: {namespaces: {matchLabels: {a: b}}}, ingres: []}" => [
        "251 admin 1",
        "ingress[0] Deny of pods of namespaces with a=b: an unknown peer (unknown field ingres)",
        "egress[0] Deny of pods of namespaces with a=b: an unknown peer (unknown field ingres)",
    ];
    a_spec_that_is_a_list: cnp "spec: []" => [
        "220 admin 0",
        "ingress[0] Deny of any pod: an unknown peer (a list in the place of an object)",
        "egress[0] Deny of any pod: an unknown peer (a list in the place of an object)",
    ];
    no_spec: anp "status: {}" => ["251 admin 0"];
    no_spec_and_something_unknown: anp "specs: {}" => [
        "251 admin 0",
        "ingress[0] Deny of any pod: an unknown peer (unknown field specs)",
        "egress[0] Deny of any pod: an unknown peer (unknown field specs)",
    ];
    rules_that_are_no_list: anp "spec: {priority: 1, subject: {namespaces: {}}, ingress: {action: Deny, from: []}}" => [
        "251 admin 1", "ingress[0] Deny of any pod: an unknown peer (a mapping in the place of a list)",
    ];
    a_rule_that_is_nothing: anp "spec: {priority: 1, subject: {namespaces: {}}, ingress: [{action: Allow, from: [{namespaces: {}}]}, null]}" => [
        "251 admin 1", "ingress[0] Allow of any pod: any pod", "ingress[1] Deny of any pod: an unknown peer (null in the place of an object)",
    ];
    a_priority_out_of_range: cnp "spec: {tier: Baseline, priority: 1001, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}" => [
        "254 baseline 0", "ingress[0] Deny of any pod: an unknown peer (priority 1001)",
    ];
    an_unknown_tier: cnp "spec: {tier: Edge, priority: 5, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}" => [
        "220 admin 0", "ingress[0] Deny of any pod: an unknown peer (tier \"Edge\")",
    ];
    no_tier: cnp "spec: {priority: 5, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}" => [
        "220 admin 0", "ingress[0] Deny of any pod: an unknown peer (no tier)",
    ];
    no_subject: anp "spec: {priority: 1, ingress: [{action: Allow, from: [{namespaces: {}}]}]}" => [
        "251 admin 1", "ingress[0] Allow of any pod: an unknown peer (no subject)",
    ];
    a_subject_that_is_null: anp "spec: {priority: 1, subject: {pods: null}, ingress: [{action: Deny, from: [{namespaces: {matchLabels: {a: b}}}]}]}" => [
        "251 admin 1", "ingress[0] Deny of any pod: an unknown peer (a subject without any field)",
    ];
    a_misspelled_selector: anp "spec: {priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{pods: {namespaceSelector: {}, podSelektor: {matchLabels: {a: b}}}}]}]}" => [
        "251 admin 1", "ingress[0] Deny of any pod: an unknown peer (unknown field podSelektor)",
    ];
    a_subject_with_two_fields: anp "spec: {priority: 1, subject: {namespaces: {}, pods: {podSelector: {}, namespaceSelector: {}}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}" => [
        "251 admin 1", "ingress[0] Deny of any pod: an unknown peer (a subject with more than one field)",
    ];
    a_subject_with_an_unknown_field: cnp "spec: {tier: Admin, priority: 1, subject: {namespaces: {matchLabels: {a: b}}, nodes: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}" => [
        "220 admin 1", "ingress[0] Deny of any pod: an unknown peer (unknown field nodes)",
    ];
    a_subject_with_a_bad_selector: anp "spec: {priority: 1, subject: {pods: {podSelector: {matchLabel: {a: b}}, namespaceSelector: {}}}, egress: [{action: Deny, to: [{nodes: {}}]}]}" => [
        "251 admin 1", "egress[0] Deny of any pod: an unknown peer (podSelector: unknown field matchLabel)",
    ];
    an_unknown_action_denies: anp "spec: {priority: 1, subject: {namespaces: {}}, ingress: [{action: allow, from: [{namespaces: {}}]}, {action: Accept, from: [{namespaces: {}}]}, {from: [{namespaces: {}}]}]}" => [
        "251 admin 1", "ingress[0] Deny of any pod: an unknown peer (action \"allow\")", "ingress[1] Deny of any pod: an unknown peer (action \"Accept\")", "ingress[2] Deny of any pod: an unknown peer (action \"\")",
    ];
    a_baseline_does_not_pass: banp "spec: {subject: {namespaces: {}}, ingress: [{action: Pass, from: [{namespaces: {}}]}]}" => [
        "254 baseline -1", "ingress[0] Deny of any pod: an unknown peer (action \"Pass\")",
    ];
    the_other_directions_peers: anp "spec: {priority: 1, subject: {namespaces: {}}, ingress: [{action: Allow, from: [{namespaces: {}}], to: [{namespaces: {}}]}]}" => [
        "251 admin 1", "ingress[0] Allow of any pod: an unknown peer (unknown field to)",
    ];
    no_peers: cnp "spec: {tier: Admin, priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny}, {action: Deny, from: []}, {action: Deny, from: {}}],
        egress: [{action: Deny, to: [{networks: []}, {domainNames: []}]}]}" => [
        "220 admin 1",
        "ingress[0] Deny of any pod: an unknown peer (no from)",
        "ingress[1] Deny of any pod: an unknown peer (no from)",
        "ingress[2] Deny of any pod: an unknown peer (a mapping in the place of a list)",
        "egress[0] Deny of any pod: an unknown peer (no networks) | an unknown peer (no domainNames)",
    ];
    peers_that_say_nothing_or_too_much: anp "spec: {priority: 1, subject: {namespaces: {}},
        egress: [{action: Deny, to: [{}, {serviceAccounts: {}}, {namespaces: {}, nodes: {}}, {namespaces: null}, 7, {networks: 10.0.0.0/8}, {networks: [7]}]}]}" => [
        "251 admin 1",
        "egress[0] Deny of any pod: an unknown peer (a peer without any field) | an unknown peer (unknown field serviceAccounts) | an unknown peer (a peer with more than one field) | an unknown peer (a peer without any field) | an unknown peer (a number in the place of an object) | an unknown peer (networks cannot be read) | an unknown peer (networks cannot be read)",
    ];
    peers_that_are_for_egress: anp "spec: {priority: 1, subject: {namespaces: {}},
        ingress: [{action: Allow, from: [{networks: [10.0.0.0/8]}, {nodes: {}}, {domainNames: [a.b]}, {namespaces: {}}]}]}" => [
        "251 admin 1",
        "ingress[0] Allow of any pod: an unknown peer (unknown field networks) | an unknown peer (unknown field nodes) | an unknown peer (unknown field domainNames) | any pod",
    ];
    names_are_unknown_in_a_baseline: banp "spec: {subject: {namespaces: {}}, egress: [{action: Allow, to: [{domainNames: [a.b]}]}]}" => [
        "254 baseline -1", "egress[0] Allow of any pod: an unknown peer (unknown field domainNames)",
    ];
    selectors_that_cannot_be_read: cnp "spec: {tier: Admin, priority: 1, subject: {namespaces: {}},
        egress: [{action: Deny, to: [{namespaces: {matchExpressions: [{key: a, operator: Gt, values: [b]}]}}, {nodes: {matchExpressions: [{operator: Exists}]}},
                  {namespaces: {matchLabels: {a: 1}}}, {pods: {podSelector: {matchLabels: {a: b/c}}}}, {namespaces: {namespaceSelector: {}}}]}]}" => [
        "220 admin 1",
        "egress[0] Deny of any pod: an unknown peer (unknown operator \"Gt\" on label a) | an unknown peer (\"\" is no label) | an unknown peer (matchLabels cannot be read) | an unknown peer (podSelector: \"b/c\" is no value of a label) | an unknown peer (unknown field namespaceSelector)",
    ];
    networks_and_names_that_are_none: anp "spec: {priority: 1, subject: {namespaces: {}},
        egress: [{action: Allow, to: [{networks: [10.0.0.0/8, 010.0.0.0/8, 10.0.0.1]}, {domainNames: [a.b, 'a.*.b']}]}]}" => [
        "251 admin 1",
        "egress[0] Allow of any pod: 10.0.0.0/8 | an unknown peer (\"010.0.0.0/8\" is no CIDR) | an unknown peer (\"10.0.0.1\" is no CIDR) | an unknown peer (\"a.*.b\" is no DNS name) | a.b",
    ];
    ports_that_cannot_be_read: anp "spec: {priority: 1, subject: {namespaces: {}},
        ingress: [{action: Deny, from: [{namespaces: {}}], ports: [{}, {icmp: {}}, {portNumber: {protocol: tcp, port: 80}}, {portNumber: {port: 0}}, {portNumber: {}},
                   {portRange: {start: 9, end: 1}}, {portRange: {start: 9}}, {namedPort: a, portNumber: {port: 1}}, {portNumber: {port: 1, endPort: 2}}, 80]},
                  {action: Deny, from: [{namespaces: {}}], ports: []}, {action: Deny, from: [{namespaces: {}}], ports: 80}]}" => [
        "251 admin 1",
        "ingress[0] Deny of any pod: any pod on unknown traffic (a port without any field) | unknown traffic (unknown field icmp) | unknown traffic (protocol \"tcp\") | unknown traffic (ports 0 to 0) | unknown traffic (no port) | unknown traffic (ports 9 to 1) | unknown traffic (no port) | unknown traffic (a port with more than one field) | unknown traffic (unknown field endPort) | unknown traffic (a number in the place of an object)",
        "ingress[1] Deny of any pod: any pod on unknown traffic (no ports)",
        "ingress[2] Deny of any pod: any pod on unknown traffic (a number in the place of a list)",
    ];
    protocols_that_cannot_be_read: cnp "spec: {tier: Admin, priority: 1, subject: {namespaces: {}},
        ingress: [{action: Deny, from: [{namespaces: {}}], protocols: [{}, {icmp: {}}, {tcp: {port: 80}}, {tcp: {destinationPort: {}}}, {tcp: {}, udp: {}}, {tcp: 80},
                   {tcp: {destinationPort: {number: 1, range: {start: 1, end: 2}}}}, {tcp: {destinationPort: {range: {start: 2, end: 1}}}}, {destinationNamedPort: 80}]}]}" => [
        "220 admin 1",
        "ingress[0] Deny of any pod: any pod on unknown traffic (a protocol without any field) | unknown traffic (unknown field icmp) | unknown traffic (unknown field port) | unknown traffic (a destinationPort without any field) | unknown traffic (a protocol with more than one field) | unknown traffic (a number in the place of an object) | unknown traffic (a destinationPort with more than one field) | unknown traffic (ports 2 to 1) | unknown traffic (destinationNamedPort cannot be read)",
    ];
}

#[test]
fn rules_know_where_they_stand() {
    let text = "apiVersion: policy.networking.k8s.io/v1alpha1\nkind: AdminNetworkPolicy\nmetadata: {name: a}\nspec:\n  \
                priority: 1\n  subject: {namespaces: {}}\n  ingress:\n  - {action: Deny, from: [{namespaces: {}}]}\n  - \
                {action: Deny, from: [{namespaces: {}}]}\n";
    let (world, found) = read(text);
    assert!(found.is_empty(), "{found:?}");
    let lines: Vec<u32> =
        world.objects().policies[0].rules.iter().map(|rule| rule.at.as_ref().unwrap().line).collect();
    assert_eq!(lines, [8, 9]);
}

// === the examples of OVN-Kubernetes' documentation, which have peers of before v0.1.2 ===

const BASIC: &str = r#"
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata:
  name: simple-admin-policy
spec:
  priority: 10
  subject:
    namespaces:
      matchLabels:
          name: monitoring
  ingress:
  - name: "deny-all-ingress-tenant1"
    action: "Deny"
    from:
    - namespaces:
        namespaceSelector:
          matchLabels:
            name: tenant1
"#;

const COMBINATION: &str = r#"
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata:
  name: segment-admin-policy
spec:
  priority: 12
  subject:
    namespaces:
      matchLabels:
          name: tenant1
  ingress:
  - name: "deny-all-communication-tenant2"
    action: "Deny"
    from:
    - namespaces:
        namespaceSelector:
          matchLabels:
            name: tenant2
  egress:
  - name: "deny-all-egress-tenant2"
    action: "Deny"
    to:
    - namespaces:
        namespaceSelector:
          matchLabels:
            name: tenant2
  ingress:
  - name: "shared-storage"
    action: "Pass"
    from:
    - namespaces:
        namespaceSelector:
          matchLabels:
            name: shared_storage
  egress:
  - name: "shared-services"
    action: "Pass"
    to:
    - namespaces:
        namespaceSelector:
          matchLabels:
            name: shared_services
"#;

/// One rule for each direction of subject `tenant1`, as in the other examples.
fn example(priority: u32, subject: &str, action: &str, peer: &str, egress: bool) -> String {
    let rule = |peers: &str| {
        format!(
            "  - name: \"r\"\n    action: \"{action}\"\n    {peers}:\n    - namespaces:\n        namespaceSelector:\n          \
             matchLabels:\n            {peer}\n"
        )
    };
    let egress = if egress { format!("  egress:\n{}", rule("to")) } else { String::new() };
    format!(
        "apiVersion: policy.networking.k8s.io/v1alpha1\nkind: AdminNetworkPolicy\nmetadata:\n  name: example\nspec:\n  \
         priority: {priority}\n  subject:\n    namespaces:\n      matchLabels:\n          {subject}\n  ingress:\n{}{egress}",
        rule("from")
    )
}

fn codes(found: &[Diagnostic]) -> Vec<&str> {
    found.iter().map(|one| one.code.id).collect()
}

#[test]
fn the_examples_are_read_as_their_authors_meant_them() {
    let (world, found) = read(BASIC);
    assert_eq!(codes(&found), ["A0110"]);
    assert_eq!(
        plain(&world.objects().policies[0]),
        [
            "251 admin 10",
            "ingress[0] \"deny-all-ingress-tenant1\" Deny of pods of namespaces with name=monitoring: pods of namespaces \
             with name=tenant1",
        ]
    );

    let (world, found) = read(&example(11, "name: tenant1", "Deny", "name: tenant2", true));
    assert_eq!(codes(&found), ["A0110", "A0110"]);
    assert_eq!(
        plain(&world.objects().policies[0]),
        [
            "251 admin 11",
            "ingress[0] \"r\" Deny of pods of namespaces with name=tenant1: pods of namespaces with name=tenant2",
            "egress[0] \"r\" Deny of pods of namespaces with name=tenant1: pods of namespaces with name=tenant2",
        ]
    );

    let (world, found) = read(&example(12, "name: tenant1", "Pass", "name: shared_storage", false));
    assert_eq!(codes(&found), ["A0110"]);
    assert_eq!(
        plain(&world.objects().policies[0])[1..],
        [
            "ingress[0] \"r\" Pass of pods of namespaces with name=tenant1: pods of namespaces with name=shared_storage"
        ]
    );

    let houses = ("conformance-house: gryffindor", "conformance-house: slytherin");
    let (world, found) = read(&example(10, houses.0, "Pass", houses.1, true));
    assert_eq!(codes(&found), ["A0110", "A0110"]);
    assert_eq!(plain(&world.objects().policies[0]).len(), 3);
}

#[test]
fn lists_of_rules_written_twice_fail_closed() {
    let (world, found) = read(COMBINATION);
    assert_eq!(codes(&found), ["S0005", "S0005", "A0110", "A0110"]);
    assert_eq!(found[0].field, "spec.ingress");
    assert_eq!(found[1].field, "spec.egress");
    assert_eq!(
        plain(&world.objects().policies[0]),
        [
            "251 admin 12",
            "ingress[0] Deny of pods of namespaces with name=tenant1: an unknown peer (ingress is written \
             twice)",
            "egress[0] Deny of pods of namespaces with name=tenant1: an unknown peer (ingress is written \
             twice)",
        ]
    );
}
