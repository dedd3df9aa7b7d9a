//! What suites/antrea-validation leaves out: whole texts with their help, warnings, places in files, and what is wrong
//! with a set of objects together.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::panic)]

use palisade_dialects::admission::{Request, admit};
use palisade_dialects::antrea;
use palisade_dialects::load::load;
use palisade_dialects::source::{Limits, Source, documents};
use palisade_dialects::world::World;
use palisade_model::diagnostic::Diagnostic;

fn line(one: &Diagnostic) -> String {
    let help = one.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
    format!("{} {}: {}{help}", one.code.id, one.field, one.message)
}

/// Everything that is said to the creation of an object.
fn said(object: &str) -> Vec<String> {
    let source = Source::new("f.yaml", object.to_owned());
    let limits = Limits::default();
    let document = documents(&source, &limits).next().unwrap().unwrap();
    admit(&source, Request::Create(&document), &World::default()).iter().map(line).collect()
}

fn policy(spec: &str) -> String {
    format!(
        "{{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {{name: a}}, spec: {spec}}}"
    )
}

macro_rules! says {
    ($($name:ident: $spec:literal => [$($want:literal),* $(,)?];)*) => {$(
        #[test]
        fn $name() {
            let want: &[&str] = &[$($want),*];
            assert_eq!(said(&policy($spec)), want);
        }
    )*};
}

says! {
    a_field_of_another_position_is_unknown: "{priority: 1, appliedTo: [{podSelector: {}}], ingress: [{action: Allow, \
        from: [{fqdn: a.b}], toServices: []}]}" => [
        r#"S0007 spec.ingress[0].from[0].fqdn: unknown field "spec.ingress[0].from[0].fqdn" (names are for egress: a connection that comes in has an address)"#,
        r#"S0007 spec.ingress[0].toServices: unknown field "spec.ingress[0].toServices""#,
    ];
    a_misspelled_field_is_guessed_among_those_of_its_position: "{priority: 1, appliedTo: [{podSelectr: {}}]}" => [
        r#"S0007 spec.appliedTo[0].podSelectr: unknown field "spec.appliedTo[0].podSelectr" (did you mean podSelector?)"#,
        "N0219 spec.appliedTo[0]: an entry without a selector is every pod (write podSelector: {} if that is meant)",
    ];
    deny_is_drop: "{priority: 1, appliedTo: [{podSelector: {}}], ingress: [{action: Deny}]}" => [
        r#"N0103 spec.ingress[0].action: Unsupported value: "Deny": supported values: "Allow", "Drop", "Reject", "Pass" (did you mean Drop?)"#,
    ];
    a_priority_that_is_no_number: "{priority: .nan, appliedTo: [{podSelector: {}}]}" => [
        "N0102 spec.priority: Invalid value: must be a finite number",
    ];
    two_unnamed_rules_that_say_the_same: "{priority: 1, appliedTo: [{podSelector: {}}], egress: [{action: Drop}, \
        {action: Drop, ports: []}]}" => [
        "N0202 spec.egress[1].name: rules names must be unique within the policy (a rule before it says the same: both \
         get the name egress-drop-742ade5)",
    ];
    what_antrea_would_forget: "{priority: 1, appliedTo: [{podSelector: {}}], egress: [{action: Allow, \
        to: [{ipBlock: {cidr: 10.0.0.0/8}, podSelector: {}}]}]}" => [
        "N0207 spec.egress[0].to[0].ipBlock: ipBlock cannot be set with other peers in rules (Antrea would forget the \
         rest of the peer: write two peers to mean either)",
    ];
    a_null_label_is_dropped: "{priority: 1, appliedTo: [{podSelector: {matchLabels: {app: }}}]}" => [
        r#"N0108 spec.appliedTo[0].podSelector.matchLabels.app: the label app has no value: it is dropped (write "" for the empty value)"#,
    ];
    a_label_on_nodes_is_cut_off: "{priority: 1, appliedTo: [{nodeSelector: {}}], ingress: [{action: Drop, name: r, \
        enableLogging: true, logLabel: thirteen-char}, {action: Drop, name: s, logLabel: thirteen-char}]}" => [
        r#"N0215 spec.ingress[0].logLabel: LogLabels for Node NetworkPolicies are limited to 12 characters, but the label "thirteen-char" for policy rule "r" exceeds the limit and will be truncated in kernel logs"#,
    ];
    tls_over_udp_is_a_warning: "{priority: 1, appliedTo: [{podSelector: {}}], egress: [{action: Allow, \
        l7Protocols: [{tls: {}}], ports: [{protocol: UDP, port: 443}]}]}" => [
        "N0216 spec.egress[0].ports[0].protocol: TLS runs over TCP: what this port carries will be dropped",
    ];
    a_block_that_is_none_is_said_once: "{priority: 1, appliedTo: [{podSelector: {}}], ingress: [{action: Allow, \
        from: [{ipBlock: {cidr: 10.0.0.0}}]}]}" => [
        r#"N0106 spec.ingress[0].from[0].ipBlock.cidr: Invalid value: "10.0.0.0": spec.ingress[0].from[0].ipBlock.cidr in body must be of type cidr: "10.0.0.0": invalid CIDR address: 10.0.0.0"#,
    ];
    a_tier_is_guessed: "{priority: 1, tier: securityopps, appliedTo: [{podSelector: {}}]}" => [
        "N0301 spec.tier: tier securityopps does not exist (did you mean securityops?)",
    ];
}

#[test]
fn an_old_version_is_named() {
    let said =
        said("{apiVersion: crd.antrea.io/v1alpha1, kind: Tier, metadata: {name: a}, spec: {priority: 1}}");
    let want = "S0009 kind: no kind Tier in crd.antrea.io/v1alpha1: it is left out (Tier is read as crd.antrea.io/v1beta1)";
    assert_eq!(said, [want]);
}

#[test]
fn kinds_of_no_concern_are_passed_over() {
    for kind in ["Egress", "Traceflow", "ExternalIPPool", "BGPPolicy"] {
        let object = format!("{{apiVersion: crd.antrea.io/v1beta1, kind: {kind}, metadata: {{name: a}}}}");
        assert_eq!(said(&object), Vec::<String>::new(), "{kind}");
    }
}

fn world(text: &str) -> World {
    let mut world = World::default();
    load(&Source::new("f.yaml", text.to_owned()), &Limits::default(), &mut world, &mut Vec::new());
    world
}

/// What is wrong with a set of objects together, each with its line.
fn together(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    antrea::world::check(&world(text), &mut found);
    antrea::world::missing_children(&world(text), &mut found);
    let at = |one: &Diagnostic| one.location.as_ref().unwrap().line;
    found.iter().map(|one| format!("{} {}", at(one), line(one))).collect()
}

fn tier(name: &str, priority: u8) -> String {
    format!(
        "---\napiVersion: crd.antrea.io/v1beta1\nkind: Tier\nmetadata: {{name: {name}}}\nspec:\n  priority: {priority}\n"
    )
}

const POLICY: &str = "---\napiVersion: crd.antrea.io/v1beta1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: x}\n\
                      spec:\n  priority: 1\n  appliedTo: [{podSelector: {}}]\n";

#[test]
fn a_missing_tier_is_found_in_files() {
    let text = format!("{POLICY}  tier: mine\n{}", tier("miner", 7));
    assert_eq!(together(&text), ["8 N0301 spec.tier: tier mine does not exist (did you mean miner?)"]);
    assert_eq!(together(&format!("{POLICY}  tier: mine\n{}", tier("mine", 7))), Vec::<String>::new());
    assert_eq!(together(&format!("{POLICY}  tier: SecurityOps\n")), Vec::<String>::new());
    assert_eq!(together(POLICY), Vec::<String>::new());
}

#[test]
fn tiers_that_collide_are_found_in_files() {
    let text = [tier("a", 7), tier("b", 7), tier("c", 100)].concat();
    assert_eq!(
        together(&text),
        [
            "12 N0302 spec.priority: tier b priority 7 overlaps with existing Tier (it is the priority of a, at f.yaml:2)",
            "18 N0302 spec.priority: tier c priority 100 overlaps with existing Tier (it is the priority of securityops, \
             which is built in)",
        ]
    );
    // As an export of a cluster has them.
    assert_eq!(together(&[tier("emergency", 50), tier("baseline", 253)].concat()), Vec::<String>::new());
    let old = "6 N0308 spec.priority: emergency is a built-in tier, with priority 50 instead of 5";
    assert_eq!(together(&tier("emergency", 5)), [old]);
    // What is written counts, also for who else may have the number.
    assert_eq!(together(&[tier("emergency", 5), tier("mine", 50)].concat()), [old]);
}

#[test]
fn too_many_tiers_are_found_in_files() {
    let tiers = |count: u8| (0..count).map(|at| tier(&format!("t{at:02}"), at + 1)).collect::<String>();
    assert_eq!(together(&tiers(14)), Vec::<String>::new());
    let want =
        "90 N0304 spec.priority: maximum number of Tiers supported: 20 (there are 21 with the built-in ones)";
    assert_eq!(together(&tiers(15)), [want]);
}

#[test]
fn nested_groups_are_found_in_files() {
    let group = |name: &str, children: &str| {
        format!(
            "---\napiVersion: crd.antrea.io/v1beta1\nkind: ClusterGroup\nmetadata: {{name: {name}}}\nspec:\n  \
             childGroups: [{children}]\n"
        )
    };
    let text = [group("a", "b"), group("b", "c"), group("c", "a, d")].concat();
    assert_eq!(
        together(&text),
        [
            "6 N0310 spec.childGroups: cannot set ClusterGroup b as childGroup, who has 1 childGroups itself",
            "12 N0310 spec.childGroups: cannot set ClusterGroup c as childGroup, who has 2 childGroups itself",
            "18 N0310 spec.childGroups: cannot set ClusterGroup a as childGroup, who has 1 childGroups itself",
            "18 N0311 spec.childGroups: ClusterGroup d does not exist: it has no members (did you mean a?)",
        ]
    );
}

#[test]
fn both_api_groups_are_found_in_files() {
    let old = "---\napiVersion: security.antrea.tanzu.vmware.com/v1alpha1\nkind: ClusterNetworkPolicy\nmetadata: {name: p}\n\
               spec: {priority: 1, tier: emergency, appliedTo: [{podSelector: {}}]}\n";
    assert_eq!(together(old), Vec::<String>::new());
    assert_eq!(antrea::tiers(&world(old))["emergency"], 5);
    assert!(!antrea::tiers(&world(old)).contains_key("baseline"));
    let both = format!("{old}{POLICY}");
    let want = "5 N0309 spec.tier: there are objects of crd.antrea.io, too: its built-in tiers hold for all policies";
    assert_eq!(together(&both), [want]);
    assert_eq!(antrea::tiers(&world(&both))["emergency"], 50);
    let written = format!("{both}{}", tier("emergency", 3));
    assert_eq!(antrea::tiers(&world(&written))["emergency"], 3);
}

#[test]
fn built_in_tiers_are_in_every_world() {
    let tiers = World::default().objects().tiers;
    let tiers: Vec<(&str, u8)> = tiers.iter().map(|(name, priority)| (name.as_str(), *priority)).collect();
    let want = [
        ("application", 250),
        ("baseline", 253),
        ("emergency", 50),
        ("networkops", 150),
        ("platform", 200),
        ("securityops", 100),
    ];
    assert_eq!(tiers, want);
}
