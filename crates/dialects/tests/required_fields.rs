//! Every field that an API requires, left out: it is an error each time, and reads as the value that decoders give it where
//! the API allows that value, and fails closed where it does not. `docs/semantics.md` has the same list in words.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use palisade_dialects::load::load;
use palisade_dialects::source::{Limits, Source};
use palisade_dialects::world::World;
use palisade_model::diagnostic::Diagnostic;
use palisade_model::policy::{Action, Policy};
use palisade_model::snapshot::Objects;

/// What an object means without the field.
enum Reading {
    /// What it means with this in the field's place.
    As(&'static str),
    /// Nothing: each of its rules that has the field fails closed.
    Closed,
}

use Reading::{As, Closed};

fn read(text: &str) -> (Objects, Vec<Diagnostic>) {
    let (mut world, mut found) = (World::default(), Vec::new());
    load(&Source::new("f.yaml", text), &Limits::default(), &mut world, &mut found);
    (world.into_objects(), found)
}

/// What the policies of a text mean, without where they are written and the names that rules get of their text.
fn meaning(objects: &Objects) -> Vec<String> {
    let plain = |policy: &Policy| {
        let mut policy = policy.clone();
        policy.rules.iter_mut().for_each(|rule| (rule.at, rule.name) = (None, None));
        format!("{:?} {:?} {:?} {:?}", policy.placement, policy.isolations, policy.rules, policy.unreadable)
    };
    objects.policies.iter().map(plain).collect()
}

/// A policy of this kind, with its spec in flow style.
fn object(kind: &str, spec: &str) -> String {
    let (api, kind) = match kind {
        "np" => ("networking.k8s.io/v1", "NetworkPolicy"),
        "beta" => ("extensions/v1beta1", "NetworkPolicy"),
        "anp" => ("policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicy"),
        "banp" => ("policy.networking.k8s.io/v1alpha1", "BaselineAdminNetworkPolicy"),
        "cnp" => ("policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy"),
        "acnp" => ("crd.antrea.io/v1beta1", "ClusterNetworkPolicy"),
        "annp" => ("crd.antrea.io/v1beta1", "NetworkPolicy"),
        "acnp-2020" => ("security.antrea.tanzu.vmware.com/v1alpha1", "ClusterNetworkPolicy"),
        other => panic!("no kind {other}"),
    };
    format!(
        "{{apiVersion: {api}, kind: {kind}, metadata: {{name: default, namespace: x}}, spec: {{{spec}}}}}"
    )
}

/// The kind, the spec with `%` in the place of the field, whether its absence is an error, and what it means.
#[rustfmt::skip]
const REQUIRED: &[(&str, &str, bool, Reading)] = &[
    // NetworkPolicy: the API server decodes first and asks then, so that an empty selector is none too few.
    ("np", "% ingress: [{ports: [{port: 80}]}]", false, As("podSelector: {},")),
    ("np", "podSelector: {}, ingress: [{from: [{ipBlock: {% except: []}}]}]", true, Closed),
    ("np", "podSelector: {}, ingress: [{from: [{%}]}]", true, Closed),
    ("np", "podSelector: {matchExpressions: [{% operator: Exists}]}, ingress: [{}]", true, Closed),
    ("np", "podSelector: {matchExpressions: [{key: a %}]}, ingress: [{}]", true, Closed),
    ("beta", "% ingress: [{ports: [{port: 80}]}]", false, As("podSelector: {},")),
    ("beta", "podSelector: {}, ingress: [{from: [{%}]}]", true, Closed),
    // AdminNetworkPolicy, BaselineAdminNetworkPolicy.
    ("anp", "% subject: {namespaces: {}}, ingress: [{action: Allow, from: [{namespaces: {}}]}]", true, As("priority: 0,")),
    ("anp", "priority: 1, ingress: [{action: Deny, from: [{namespaces: {matchLabels: {a: b}}}]}] %", true, Closed),
    ("anp", "priority: 1, subject: {%}, ingress: [{action: Deny, from: [{namespaces: {matchLabels: {a: b}}}]}]", true, Closed),
    ("anp", "priority: 1, subject: {pods: {% podSelector: {matchLabels: {a: b}}}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]", true, As("namespaceSelector: {},")),
    ("anp", "priority: 1, subject: {pods: {% namespaceSelector: {matchLabels: {a: b}}}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]", true, As("podSelector: {},")),
    ("anp", "priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{pods: {% podSelector: {matchLabels: {a: b}}}}]}]", true, As("namespaceSelector: {},")),
    ("anp", "priority: 1, subject: {namespaces: {}}, egress: [{action: Pass, to: [{pods: {% namespaceSelector: {matchLabels: {a: b}}}}]}]", true, As("podSelector: {},")),
    ("anp", "priority: 1, subject: {namespaces: {}}, ingress: [{action: Allow, from: [{pods: {% namespaces: {namespaceSelector: {}}}}]}]", true, As("podSelector: {},")),
    ("anp", "priority: 1, subject: {namespaces: {}}, ingress: [{% from: [{namespaces: {}}]}]", true, Closed),
    ("anp", "priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny %}]", true, Closed),
    ("anp", "priority: 1, subject: {namespaces: {}}, egress: [{action: Deny %}]", true, Closed),
    ("anp", "priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{%}]}]", true, Closed),
    ("anp", "priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}], ports: [{%}]}]", true, Closed),
    ("anp", "priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}], ports: [{portNumber: {protocol: TCP %}}]}]", true, Closed),
    ("anp", "priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}], ports: [{portRange: {% end: 9}}]}]", true, Closed),
    ("anp", "priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}], ports: [{portRange: {start: 9 %}}]}]", true, Closed),
    ("anp", "priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {matchExpressions: [{% operator: Exists}]}}]}]", true, Closed),
    ("anp", "priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {matchExpressions: [{key: a %}]}}]}]", true, Closed),
    ("banp", "ingress: [{action: Deny, from: [{namespaces: {matchLabels: {a: b}}}]}] %", true, Closed),
    ("banp", "subject: {pods: {% namespaceSelector: {matchLabels: {a: b}}}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]", true, As("podSelector: {},")),
    ("banp", "subject: {namespaces: {}}, ingress: [{action: Deny, from: [{pods: {% namespaceSelector: {matchLabels: {a: b}}}}]}]", true, As("podSelector: {},")),
    ("banp", "subject: {namespaces: {}}, egress: [{% to: [{namespaces: {}}]}]", true, Closed),
    // ClusterNetworkPolicy.
    ("cnp", "% priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {matchLabels: {a: b}}}]}]", true, Closed),
    ("cnp", "tier: Baseline, % subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]", true, As("priority: 0,")),
    ("cnp", "tier: Admin, priority: 1, ingress: [{action: Deny, from: [{namespaces: {matchLabels: {a: b}}}]}] %", true, Closed),
    ("cnp", "tier: Admin, priority: 1, subject: {pods: {% namespaceSelector: {matchLabels: {a: b}}}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]", true, As("podSelector: {},")),
    ("cnp", "tier: Admin, priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{pods: {% namespaceSelector: {matchLabels: {a: b}}}}]}]", true, As("podSelector: {},")),
    ("cnp", "tier: Admin, priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{pods: {% podSelector: {matchLabels: {a: b}}}}]}]", false, As("namespaceSelector: {},")),
    ("cnp", "tier: Admin, priority: 1, subject: {namespaces: {}}, ingress: [{% from: [{namespaces: {}}]}]", true, Closed),
    ("cnp", "tier: Admin, priority: 1, subject: {namespaces: {}}, egress: [{action: Deny %}]", true, Closed),
    ("cnp", "tier: Admin, priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}], protocols: [{%}]}]", true, Closed),
    ("cnp", "tier: Admin, priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {%}}}]}]", true, Closed),
    ("cnp", "tier: Admin, priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {range: {start: 9 %}}}}]}]", true, Closed),
    // Antrea.
    ("acnp", "% appliedTo: [{podSelector: {}}], ingress: [{action: Drop, ports: [{port: 80}]}]", true, Closed),
    ("acnp", "priority: 1, ingress: [{action: Drop, ports: [{port: 80}]}] %", true, Closed),
    ("acnp", "priority: 1, appliedTo: [{%}], ingress: [{action: Drop, ports: [{port: 80}]}]", true, As("podSelector: {}")),
    ("acnp", "priority: 1, appliedTo: [{podSelector: {}}], ingress: [{ports: [{port: 80}] %}]", true, Closed),
    ("acnp", "priority: 1, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{%}]}]", true, As("podSelector: {}")),
    ("acnp", "priority: 1, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{ipBlock: {%}}]}]", true, Closed),
    ("acnp", "priority: 1, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{namespaces: {%}}]}]", true, Closed),
    ("acnp", "priority: 1, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{serviceAccount: {% namespace: x}}]}]", true, Closed),
    ("acnp", "priority: 1, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{serviceAccount: {name: a %}}]}]", true, Closed),
    ("acnp", "priority: 1, appliedTo: [{service: {name: a %}}], ingress: [{action: Drop}]", true, Closed),
    ("acnp", "priority: 1, appliedTo: [{podSelector: {}}], egress: [{action: Drop, toServices: [{% namespace: x}]}]", true, Closed),
    ("acnp", "priority: 1, appliedTo: [{podSelector: {}}], egress: [{action: Drop, toServices: [{name: a %}]}]", true, Closed),
    ("acnp", "priority: 1, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, protocols: [{%}]}]", true, Closed),
    ("acnp", "priority: 1, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, ports: [{endPort: 9 %}]}]", true, Closed),
    ("acnp", "priority: 1, appliedTo: [{podSelector: {}}], ingress: [{action: Drop, from: [{podSelector: {matchExpressions: [{% operator: Exists}]}}]}]", true, Closed),
    ("annp", "priority: 1, appliedTo: [{podSelector: {}}], egress: [{action: Drop, toServices: [{name: a %}]}]", false, As(", namespace: x")),
    ("annp", "% appliedTo: [{podSelector: {}}], ingress: [{action: Drop, ports: [{port: 80}]}]", true, Closed),
    ("acnp-2020", "priority: 1, ingress: [{action: Drop, ports: [{port: 80}]}] %", true, Closed),
    ("acnp-2020", "% appliedTo: [{podSelector: {}}], ingress: [{action: Drop, ports: [{port: 80}]}]", true, Closed),
];

#[test]
fn each_has_the_reading_that_is_documented() {
    for (kind, spec, refused, reading) in REQUIRED {
        let (missing, found) = read(&object(kind, &spec.replace('%', "")));
        assert_eq!(!found.is_empty(), *refused, "{kind} {spec}: {found:?}");
        match reading {
            As(value) => {
                let (written, _) = read(&object(kind, &spec.replace('%', value)));
                assert_eq!(meaning(&missing), meaning(&written), "{kind} {spec}");
            }
            Closed => {
                let rules: Vec<_> = missing.policies.iter().flat_map(|policy| &policy.rules).collect();
                assert!(!rules.is_empty(), "{kind} {spec}");
                for rule in rules {
                    assert!(rule.unknown().is_some(), "{kind} {spec}: {rule:?}");
                    assert!(rule.action != Action::Pass, "{kind} {spec}: {rule:?}");
                }
            }
        }
    }
}

/// The spec is a required field, too. Without it there are no rules, and nothing in the text that could have been one.
#[test]
fn a_policy_without_a_spec_has_no_rules() {
    for kind in ["np", "beta", "anp", "banp", "cnp", "acnp", "annp", "acnp-2020"] {
        let text = object(kind, "").replace(", spec: {}", "");
        let (objects, _) = read(&text);
        assert_eq!(objects.policies.len(), 1, "{kind}");
        assert!(objects.policies[0].rules.is_empty(), "{kind}: {:?}", objects.policies[0]);
        // Only a NetworkPolicy isolates by being there, for ingress and every pod, as one with an empty spec does.
        assert_eq!(objects.policies[0].isolations.len(), usize::from(kind == "np"), "{kind}");
    }
}

#[test]
fn a_tier_without_a_priority_is_at_0_and_one_that_cannot_be_read_is_nowhere() {
    let tier = |spec: &str| {
        let text =
            format!("{{apiVersion: crd.antrea.io/v1beta1, kind: Tier, metadata: {{name: ours}}{spec}}}");
        let (objects, found) = read(&text);
        assert_eq!(found.is_empty(), spec.contains(": 7"), "{spec}: {found:?}");
        objects.tiers.get("ours").copied()
    };
    assert_eq!(tier(", spec: {priority: 7}"), Some(7));
    assert_eq!(tier(", spec: {description: a}"), Some(0));
    assert_eq!(tier(""), Some(0));
    assert_eq!(tier(", spec: {priority: seven}"), None);
    assert_eq!(tier(", spec: {priorit: 9}"), None);
    assert_eq!(tier(", spec: {priority: 256}"), None);
    assert_eq!(tier(", specs: {priority: 9}"), None);
}
