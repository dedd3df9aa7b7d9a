//! What suites/admin-validation leaves out: updates, and the whole of a text where a suite asks for a part.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::panic)]

use palisade_dialects::admission::{Request, admit};
use palisade_dialects::source::{Limits, Source, Value, documents};
use palisade_dialects::world::World;
use palisade_model::diagnostic::Diagnostic;

/// What is said to an update of an AdminNetworkPolicy from one spec to another.
fn update(old: &str, new: &str) -> Vec<String> {
    let object = |name: &str, spec: &str| {
        format!(
            "{{apiVersion: policy.networking.k8s.io/v1alpha1, kind: AdminNetworkPolicy, metadata: {{name: {name}}}, \
             spec: {spec}}}"
        )
    };
    let (new_name, new) = new.split_once(' ').unwrap();
    let source = Source::new("f.yaml", format!("[{}, {}]", object("a", old), object(new_name, new)));
    let limits = Limits::default();
    let document = documents(&source, &limits).next().unwrap().unwrap();
    let Value::List(objects) = &document.value else { panic!("a list") };
    let found = admit(&source, Request::Update(&objects[0], &objects[1]), &World::default());
    found.iter().map(|one| format!("{} {}: {}", one.code.id, one.field, one.message)).collect()
}

#[test]
fn an_update_may_keep_what_is_wrong_already_and_nothing_more() {
    let old = "{priority: 1001, subject: {namespaces: {}}}";
    assert_eq!(update(old, &format!("a {old}")), Vec::<String>::new());
    assert_eq!(
        update(old, "a {priority: 1001, subject: {pods: {podSelector: {}, namespaceSelector: {}}}}").len(),
        0
    );
    assert_eq!(
        update(old, "a {priority: 1002, subject: {}}"),
        [
            "A0102 spec.priority: Invalid value: 1002: spec.priority in body should be less than or equal to 1000",
            "A0105 spec.subject: Invalid value: 0: spec.subject in body should have at least 1 properties",
        ]
    );
    assert_eq!(
        update(old, &format!("b {old}")),
        ["K0102 metadata.name: Invalid value: \"b\": field is immutable"]
    );
    let legacy = "{priority: 1, subject: {namespaces: {namespaceSelector: {}}}}";
    assert_eq!(update(legacy, &format!("a {legacy}")).len(), 1, "a warning stays");
}

/// Everything that is said about one spec, help included.
fn said(kind: &str, version: &str, spec: &str) -> Vec<String> {
    let text = format!(
        "{{apiVersion: policy.networking.k8s.io/{version}, kind: {kind}, metadata: {{name: a}}, spec: {spec}}}"
    );
    let source = Source::new("f.yaml", text);
    let limits = Limits::default();
    let document = documents(&source, &limits).next().unwrap().unwrap();
    let found = admit(&source, Request::Create(&document), &World::default());
    let line = |one: &Diagnostic| {
        let help = one.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{} {}: {}{help}", one.code.id, one.field, one.message)
    };
    found.iter().map(line).collect()
}

macro_rules! says {
    ($($name:ident: $kind:ident $version:ident $spec:literal => [$($want:literal),* $(,)?];)*) => {$(
        #[test]
        fn $name() {
            let want: &[&str] = &[$($want),*];
            assert_eq!(said(stringify!($kind), stringify!($version), $spec), want);
        }
    )*};
}

says! {
    a_wrong_type_is_not_also_missing: AdminNetworkPolicy v1alpha1
        r#"{priority: "10", subject: [], ingress: [{action: 1, from: {}}]}"# => [
        r#"S0006 spec.priority: Invalid value: "string": spec.priority in body must be of type integer: "string" (write it without quotes, 10)"#,
        r#"S0006 spec.subject: Invalid value: "array": spec.subject in body must be of type object: "array""#,
        r#"S0006 spec.ingress[0].action: Invalid value: "integer": spec.ingress[0].action in body must be of type string: "integer" (write it in quotes, "1")"#,
        r#"S0006 spec.ingress[0].from: Invalid value: "object": spec.ingress[0].from in body must be of type array: "object" (each item of a list begins with "- ")"#,
    ];
    rules_across_fields_wait: AdminNetworkPolicy v1alpha1
        "{subject: {namespaces: {}}, egress: [{action: Deny, to: [{networks: [x]}]}]}" => [
        "A0101 spec.priority: Required value",
    ];
    rules_across_fields_do_not_wait_for_ranges: AdminNetworkPolicy v1alpha1
        "{priority: -1, subject: {namespaces: {}}, egress: [{action: Deny, to: [{networks: [x]}]}]}" => [
        "A0102 spec.priority: Invalid value: -1: spec.priority in body should be greater than or equal to 0",
        r#"A0107 spec.egress[0].to[0].networks[0]: Invalid value: "x": Invalid CIDR format provided"#,
    ];
    the_baseline_is_called_default: BaselineAdminNetworkPolicy v1alpha1 "{subject: {namespaces: {}}}" => [
        r#"A0109 metadata.name: Invalid value: Only one baseline admin network policy with metadata.name="default" can be created in the cluster"#,
    ];
    a_word_of_the_other_version: ClusterNetworkPolicy v1alpha2
        "{tier: admin, priority: 1, subject: {namespaces: {}}, ingress: [{action: Allow, from: [{namespaces: {}}]}]}" => [
        r#"A0103 spec.tier: Unsupported value: "admin": supported values: "Admin", "Baseline" (did you mean Admin?)"#,
        r#"A0103 spec.ingress[0].action: Unsupported value: "Allow": supported values: "Accept", "Deny", "Pass" (did you mean Accept?)"#,
    ];
    a_label_without_value: ClusterNetworkPolicy v1alpha2
        "{tier: Admin, priority: 1, subject: {namespaces: {matchLabels: {tenant: }}}}" => [
        r#"A0115 spec.subject.namespaces.matchLabels.tenant: the label tenant has no value: it is dropped (write "" for the empty value)"#,
    ];
    names_are_for_rules_that_allow: ClusterNetworkPolicy v1alpha2
        "{tier: Admin, priority: 1, subject: {namespaces: {}}, egress: [{action: Deny, to: [{domainNames: [a.b]}]}]}" => [
        "A0111 spec.egress[0].to[0].domainNames: what Deny means for domainNames is not defined (allow the names that are needed, and deny the rest in a later rule)",
    ];
    a_protocol_without_ports: ClusterNetworkPolicy v1alpha2
        "{tier: Admin, priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}], protocols: [{tcp: {}}]}]}" => [
        "A0105 spec.ingress[0].protocols[0].tcp: Invalid value: 0: spec.ingress[0].protocols[0].tcp in body should have at least 1 properties (expected destinationPort)",
        "A0112 spec.ingress[0].protocols[0].tcp: no destinationPort: read as all ports (for all ports write destinationPort: {range: {start: 1, end: 65535}})",
    ];
    old_namespaces: AdminNetworkPolicy v1alpha1
        r#"{priority: 1, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {namespaceSelector: {matchLabels: {name: tenant1, on: "yes"}}}}]}]}"# => [
        r#"A0110 spec.ingress[0].from[0].namespaces: namespaceSelector below namespaces is no longer in the API: a newer server drops it (write namespaces: {matchLabels: {name: tenant1, "on": "yes"}})"#,
    ];
    old_pods: BaselineAdminNetworkPolicy v1alpha1
        "{subject: {pods: {namespaces: {namespaceSelector: {}}, podSelector: {matchLabels: {a: b}}}}}" => [
        "A0110 spec.subject.pods: namespaceSelector below pods.namespaces is no longer in the API: a newer server drops it (write pods: {namespaceSelector: {}, podSelector: {matchLabels: {a: b}}})",
        r#"A0109 metadata.name: Invalid value: Only one baseline admin network policy with metadata.name="default" can be created in the cluster"#,
    ];
    old_and_new_together: AdminNetworkPolicy v1alpha1
        "{priority: 1, subject: {namespaces: {sameLabels: [a]}}, egress: [{action: Deny, to: [{namespaces: {namespaceSelector: {}, matchLabels: {a: b}}}]}]}" => [
        "A0110 spec.subject.namespaces: sameLabels below namespaces is no longer in the API: a newer server drops it (sameLabels and notSameLabels are gone without a successor: write one policy for each value, with that value in its subject and in its peers)",
        "A0105 spec.subject.namespaces.sameLabels: sameLabels means nothing in a subject",
        "A0110 spec.egress[0].to[0].namespaces: namespaceSelector below namespaces is no longer in the API: a newer server drops it (write namespaces: {})",
        "A0105 spec.egress[0].to[0].namespaces: namespaceSelector, matchLabels exclude each other",
    ];
    the_old_shape_is_unknown_in_the_new_version: ClusterNetworkPolicy v1alpha2
        "{tier: Admin, priority: 1, subject: {namespaces: {namespaceSelector: {}}}}" => [
        r#"S0007 spec.subject.namespaces.namespaceSelector: unknown field "spec.subject.namespaces.namespaceSelector""#,
    ];
}
