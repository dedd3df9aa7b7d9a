//! Each lint: what it finds, what it leaves alone, and where it points.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use palisade_dialects::load::load;
use palisade_dialects::source::Limits;
use palisade_dialects::source::tree::Source;
use palisade_dialects::world::World;
use palisade_lint::{codes_of_decisions, lint};
use palisade_model::diagnostic::Diagnostic;
use palisade_model::snapshot::Snapshot;

/// Everything that reading and linting a text find; but what is about decisions, which has a test of its own.
fn check(text: &str) -> Vec<Diagnostic> {
    let source = Source::new("t.yaml", text);
    let (mut world, mut found) = (World::default(), Vec::new());
    load(&source, &Limits::default(), &mut world, &mut found);
    found.extend(lint(&Snapshot::new(world.into_objects())));
    found.retain(|finding| !codes_of_decisions().any(|code| code.id == finding.code.id));
    found
}

fn pod(namespace: &str, name: &str, spec: &str, status: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: {namespace}, labels: {{app: {name}}}}}, spec: {{containers: [{{name: c, {spec}}}]}}, status: {{{status}}}}}\n"
    )
}

fn policy(name: &str, spec: &str) -> String {
    format!(
        "---\n{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: {name}, namespace: x}}, spec: {{{spec}}}}}\n"
    )
}

fn admin(name: &str, priority: u32, subject: &str) -> String {
    format!(
        "---\n{{apiVersion: policy.networking.k8s.io/v1alpha1, kind: AdminNetworkPolicy, metadata: {{name: {name}}}, spec: {{priority: {priority}, subject: {{namespaces: {{{subject}}}}}, ingress: [{{action: Deny, from: [{{namespaces: {{}}}}]}}]}}}}\n"
    )
}

/// Two pods of namespace x, with a port named web.
fn pods() -> String {
    pod("x", "a", "ports: [{name: web, containerPort: 80}]", "podIP: 10.0.0.1")
        + &pod("x", "b", "", "podIP: 10.0.0.2")
}

/// One line a case: the text and the codes that come of it, in order.
macro_rules! finds {
    ($($name:ident: $text:expr => [$($code:literal $field:literal),*];)*) => {$(
        #[test]
        fn $name() {
            let found = check(&$text);
            let got: Vec<(&str, &str)> = found.iter().map(|d| (d.code.id, d.field.as_str())).collect();
            let want: Vec<(&str, &str)> = vec![$(($code, $field)),*];
            assert_eq!(got, want, "{found:#?}");
            assert!(found.iter().all(|d| d.location.is_some()), "every finding has a place: {found:#?}");
        }
    )*};
}

finds! {
    clean: pods() + &policy("p", "podSelector: {matchLabels: {app: a}}, ingress: [{from: [{podSelector: {matchLabels: {app: b}}}]}]") => [];

    subject_selects_nothing: pods() + &policy("p", "podSelector: {matchLabels: {app: c}}") => ["L0101" "spec.podSelector"];
    subject_unknown_without_pods: policy("p", "podSelector: {matchLabels: {app: c}}") => [];
    subject_contradicts_itself: policy("p", "podSelector: {matchLabels: {app: c}, matchExpressions: [{key: app, operator: NotIn, values: [c]}]}") => ["L0101" "spec.podSelector"];
    peer_contradicts_itself: policy("p", "podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: c}, matchExpressions: [{key: app, operator: DoesNotExist}]}}]}]")
        => ["L0102" "spec.ingress[0].from[0]"];
    subject_of_a_namespace_without_pods: pod("other", "a", "", "") + &policy("p", "podSelector: {matchLabels: {app: c}}") => [];
    an_empty_subject_is_meant: pod("other", "a", "", "") + &policy("p", "podSelector: {}") => [];
    admin_subject_selects_nothing: pods() + &admin("p", 1, "matchLabels: {tenant: red}") => ["L0101" "spec.subject"];

    nodes_that_contradict_themselves: antrea("p", "5", "ingress: [{action: Drop, from: [{nodeSelector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: DoesNotExist}]}}]}]")
        => ["L0102" "spec.ingress[0].from"];
    namespaces_without_a_name: policy("p", "podSelector: {}, ingress: [{from: [{namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: DoesNotExist}]}}]}]")
        => ["L0102" "spec.ingress[0].from[0]"];
    a_group_that_contradicts_itself: "---\n{apiVersion: crd.antrea.io/v1beta1, kind: ClusterGroup, metadata: {name: g}, spec: {podSelector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: NotIn, values: [b]}]}}}\n".to_owned() + &antrea("p", "5", "ingress: [{action: Drop, from: [{group: g}]}]")
        => ["L0102" "spec.ingress[0].from"];
    a_block_that_is_all_exceptions: policy("p", "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.0.0.0/9, 10.128.0.0/9]}}]}]")
        => ["L0102" "spec.ingress[0].from[0]"];

    an_admin_policy_without_rules: pods() + "---\n{apiVersion: policy.networking.k8s.io/v1alpha1, kind: AdminNetworkPolicy, metadata: {name: p}, spec: {priority: 1, subject: {namespaces: {}}}}\n"
        => ["L0128" "spec"];
    a_network_policy_without_rules: pods() + &policy("p", "podSelector: {}") => [];

    peer_selects_nothing: pods() + &policy("p", "podSelector: {}, ingress: [{}, {from: [{podSelector: {matchLabels: {app: a}}}, {podSelector: {matchLabels: {app: c}}}]}]")
        => ["L0102" "spec.ingress[1].from[1]"];
    peer_namespace_selects_nothing: pods() + &policy("p", "podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: red}}}]}]")
        => ["L0102" "spec.ingress[0].from[0]"];

    named_port_nowhere: pods() + &policy("p", "podSelector: {}, ingress: [{ports: [{port: metrics}]}]") => ["L0103" "spec.ingress[0].ports"];
    named_port_wrong_protocol: pods() + &policy("p", "podSelector: {}, ingress: [{ports: [{port: web, protocol: UDP}]}]") => ["L0103" "spec.ingress[0].ports"];
    named_port_somewhere: pods() + &policy("p", "podSelector: {}, ingress: [{ports: [{port: web}]}]") => [];
    named_port_of_an_egress_peer: pods() + &policy("p", "podSelector: {}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: b}}}], ports: [{port: web}]}, {ports: [{port: 53, protocol: UDP}]}]")
        => ["L0103" "spec.egress[0].ports"];

    egress_without_dns: pods() + &policy("p", "podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: 443}]}]") => ["L0104" "spec.egress"];
    default_deny_egress_without_dns: pods() + &policy("p", "podSelector: {}, policyTypes: [Egress]") => ["L0104" "spec.egress"];
    dns_by_another_policy: pods() + &policy("p", "podSelector: {}, policyTypes: [Egress]") + &policy("dns", "podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: 53, protocol: UDP}]}]") => [];
    dns_only_for_some: pods() + &policy("p", "podSelector: {}, policyTypes: [Egress]") + &policy("dns", "podSelector: {matchLabels: {app: a}}, policyTypes: [Egress], egress: [{ports: [{port: 53, protocol: UDP}]}]")
        => ["L0104" "spec.egress"];
    dns_without_pods: policy("p", "podSelector: {}, policyTypes: [Egress]") => ["L0104" "spec.egress"];
    dns_by_a_rule_that_cannot_be_read: pods() + &policy("p", "podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: 53, protocol: UDP}], too: []}]")
        => ["S0007" "spec.egress[0].too", "L0104" "spec.egress"];
    dns_over_any_port: pods() + &policy("p", "podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}}]}]") => [];

    one_family: policy("p", "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.0.0.0/8]}}]}]") => ["L0105" "spec.ingress[0]"];
    both_families_in_two_rules: policy("p", "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0}}]}, {from: [{ipBlock: {cidr: '::/0'}}]}]") => [];
    both_families: policy("p", "podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0}}, {ipBlock: {cidr: '::/0'}}]}]") => [];

    tie: pods() + &admin("p", 10, "") + &admin("q", 10, "") => ["L0107" "spec.priority"];
    tie_without_pods: admin("p", 10, "") + &admin("q", 10, "matchLabels: {a: b}") => ["L0107" "spec.priority"];
    a_tie_behind_many_disjoint: (0..6).map(|i| admin(&format!("a{i}"), 10, &format!("matchLabels: {{a: v{i}}}"))).collect::<String>() + &admin("z1", 10, "matchLabels: {b: c}") + &admin("z2", 10, "matchLabels: {b: c}, matchExpressions: [{key: a, operator: DoesNotExist}]")
        => ["L0107" "spec.priority", "L0107" "spec.priority", "L0107" "spec.priority", "L0107" "spec.priority", "L0107" "spec.priority", "L0107" "spec.priority", "L0107" "spec.priority"];
    no_tie_between_disjoint: admin("p", 10, "matchLabels: {a: c}") + &admin("q", 10, "matchLabels: {a: b}") => [];
    no_tie_between_priorities: pods() + &admin("p", 10, "") + &admin("q", 11, "") => [];
    same_priority_with_nobody_in_common: pods() + &admin("p", 10, "") + &admin("q", 10, "matchLabels: {a: b}") => ["L0101" "spec.subject", "L0108" "spec.priority"];
    ovn_limit: pods() + &admin("p", 100, "") => ["L0110" "spec.priority"];

    shared_address: pod("x", "a", "", "podIP: 10.0.0.1") + &pod("other", "b", "", "podIP: 10.0.0.1") => ["L0109" "status.podIPs"];
    address_of_a_terminated_pod: pod("x", "a", "", "podIP: 10.0.0.1") + &pod("other", "b", "", "podIP: 10.0.0.1, phase: Failed") => [];

    empty_egress: policy("p", "podSelector: {}, egress: []") => ["K0209" "spec.egress"];
    ignored_rules: policy("p", "podSelector: {}, policyTypes: [Ingress], egress: [{}]") => ["K0210" "spec.egress"];
}

#[test]
fn a_misspelled_value_gets_the_ones_there_are() {
    let found = check(&(pods() + &policy("p", "podSelector: {matchLabels: {app: c}}")));
    assert_eq!(found[0].help.as_deref(), Some("values of app there: a, b"));
    let found = check(&(pods() + &policy("p", "podSelector: {matchLabels: {role: c}}")));
    assert_eq!(found[0].help.as_deref(), Some("no pod there has a label role"));
}

#[test]
fn codes_are_unique_and_documented() {
    let converting = palisade_convert::codes::ALL.iter().copied();
    let all: Vec<_> =
        palisade_dialects::codes::all().chain(palisade_lint::codes()).chain(converting).collect();
    let mut ids: Vec<&str> = all.iter().map(|code| code.id).collect();
    ids.sort_unstable();
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count);
    for code in all {
        assert!(code.title.len() > 10 && code.explanation.len() > 40, "{}", code.id);
    }
}

/// A port far behind others that two rules of one place name.
#[test]
fn a_tie_about_the_last_of_many_ports() {
    let ports = |ports: std::ops::RangeInclusive<u16>| {
        ports.map(|port| format!("{{port: {port}, protocol: TCP}}")).collect::<Vec<_>>().join(", ")
    };
    let rule = |action: &str, ports: String| format!("ingress: [{{action: {action}, ports: [{ports}]}}]");
    let drop = antrea("p", "5", &rule("Drop", ports(1..=70)));
    let allow = antrea("q", "5", &rule("Allow", ports(1000..=1063) + ", {port: 70, protocol: TCP}"));
    let found = check(&(pods() + &drop + &allow));
    assert_eq!(found.iter().map(|one| one.code.id).collect::<Vec<_>>(), ["L0107"], "{found:#?}");
    assert!(found[0].message.contains("tcp/70: "), "{}", found[0].message);
    let apart = antrea("q", "5", &rule("Allow", ports(1000..=1063)));
    let found = check(&(pods() + &drop + &apart));
    assert_eq!(found.iter().map(|one| one.code.id).collect::<Vec<_>>(), ["L0108"], "{found:#?}");
}

#[test]
fn ties_that_are_not_shown_are_counted() {
    let found = check(&(pods() + &(0..6).map(|at| admin(&format!("p{at}"), 10, "")).collect::<String>()));
    let help: Vec<&str> = found.iter().filter_map(|one| one.help.as_deref()).collect();
    assert_eq!(help.len(), 10);
    assert!(
        help[9].ends_with("; 5 more pairs of policies with priority 10 may have the same trouble"),
        "{}",
        help[9]
    );
}

fn antrea(name: &str, priority: &str, rules: &str) -> String {
    format!(
        "---\n{{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {{name: {name}}}, spec: {{priority: {priority}, appliedTo: [{{podSelector: {{}}}}], {rules}}}}}\n"
    )
}

#[test]
fn a_tie_of_antrea_names_the_flow_that_it_decides_and_who_disagrees() {
    let drop =
        antrea("drop", "5", "ingress: [{action: Drop, from: [{podSelector: {matchLabels: {app: b}}}]}]");
    let allow = antrea(
        "allow",
        "5",
        "ingress: [{action: Allow, ports: [{protocol: TCP, port: 8000, endPort: 9000}]}]",
    );
    let found = check(&(pods() + &drop + &allow));
    let tie = found.iter().find(|one| one.code.id == "L0107").unwrap();
    assert!(tie.message.contains("x/b -> x/a tcp/8000"), "{}", tie.message);
    assert!(tie.message.contains("Allow by ingress rule 0 of allow, Deny by ingress rule 0 of drop"));
    assert!(tie.help.as_ref().is_some_and(|help| help.contains("t.yaml:")));
}

#[test]
fn rules_of_equal_policies_that_interleave_or_never_meet_are_no_tie() {
    // The second rule of one and the first of the other are in order.
    let one = antrea(
        "one",
        "5",
        "ingress: [{action: Drop, ports: [{port: 1}]}, {action: Drop, from: [{podSelector: {matchLabels: {app: b}}}]}]",
    );
    let other = antrea("other", "5", "ingress: [{action: Allow, ports: [{port: 2}]}]");
    let later = antrea("later", "5.0001", "ingress: [{action: Allow}]");
    let found = check(&(pods() + &one + &other + &later));
    assert!(!found.iter().any(|one| one.code.id == "L0107"), "{found:#?}");
}

#[test]
fn two_tiers_of_one_number_tie() {
    let tier = "---\n{apiVersion: crd.antrea.io/v1beta1, kind: Tier, metadata: {name: mine}, spec: {priority: 250}}\n";
    let drop = antrea("drop", "5, tier: mine", "ingress: [{action: Drop}]");
    let allow = antrea("allow", "5", "ingress: [{action: Allow}]");
    let found = check(&(pods() + tier + &drop + &allow));
    assert!(found.iter().any(|one| one.code.id == "L0107"), "{found:#?}");
}

fn group(name: &str, spec: &str) -> String {
    format!(
        "---\n{{apiVersion: crd.antrea.io/v1beta1, kind: Group, metadata: {{name: {name}, namespace: x}}, spec: {{{spec}}}}}\n"
    )
}

fn of_group(name: &str) -> String {
    format!(
        "---\n{{apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {{name: p, namespace: x}}, spec: {{priority: 5, appliedTo: [{{group: {name}}}], ingress: [{{action: Drop}}]}}}}\n"
    )
}

finds! {
    a_missing_group_as_peer_is_reported_at_its_rule:
        pods() + &antrea("p", "5", "ingress: [{action: Drop, from: [{group: gone}]}]")
        => ["L0111" "spec.ingress[0].from"];
    a_missing_group_as_subject_is_reported_once:
        pods() + &of_group("gone") => ["L0111" "spec.appliedTo"];
    a_group_that_reaches_another_namespace:
        pods() + &pod("z", "far", "", "podIP: 10.0.0.9") + &group("far", "namespaceSelector: {}") + &of_group("far")
        => ["L0112" "spec.appliedTo"];
    an_antrea_policy_of_2020_with_the_name_of_a_network_policy:
        pods() + &policy("p", "podSelector: {}") + &of_group("gone").replace("crd.antrea.io/v1beta1", "security.antrea.tanzu.vmware.com/v1alpha1").replace("group: gone", "podSelector: {}")
        => ["L0113" "metadata.name"];
    a_group_of_its_own_namespace_is_fine:
        pods() + &pod("z", "far", "", "podIP: 10.0.0.9") + &group("near", "podSelector: {}") + &of_group("near")
        => [];
}

#[test]
fn a_missing_group_is_an_error() {
    let found = check(&(pods() + &of_group("gone")));
    assert!(found.iter().all(Diagnostic::is_error), "{found:#?}");
    assert_eq!(found[0].message, "group x/gone does not exist: it has no members");
}

#[test]
fn a_missing_group_gets_the_nearest_name() {
    let found = check(&(pods() + &group("webs", "podSelector: {}") + &of_group("web")));
    assert_eq!(found[0].help.as_deref(), Some("did you mean webs?"));
    let other = antrea("p", "5", "ingress: [{action: Drop, from: [{group: webs}]}]");
    let found = check(&(pods() + &group("webs", "podSelector: {}") + &other));
    assert!(found[0].help.as_ref().unwrap().contains("Group x/webs"), "{found:#?}");
}

/// Two Antrea policies at one priority, with these rules, after these objects.
fn two(objects: &str, one: &str, other: &str) -> Vec<Diagnostic> {
    let mut found = check(&(objects.to_owned() + &antrea("one", "5", one) + &antrea("other", "5", other)));
    found.retain(|finding| ["L0107", "L0108"].contains(&finding.code.id));
    found
}

#[test]
fn ties_are_found_wherever_rules_meet() {
    let names = "---\n{apiVersion: palisade.dev/v1alpha1, kind: DomainNames, metadata: {name: n}, names: {api.example.com: [198.51.100.7]}}\n";
    let service = "---\n{apiVersion: v1, kind: Service, metadata: {name: web, namespace: x}, spec: {clusterIP: 10.96.0.1, selector: {app: a}, ports: [{port: 80}]}}\n";
    let many: String = (0..90).map(|at| pod("other", &format!("p{at}"), "", "")).collect();
    for (objects, one, other, flow) in [
        (
            many.as_str(),
            "ingress: [{action: Drop, from: [{podSelector: {matchLabels: {app: b}}}]}]",
            "ingress: [{action: Allow}]",
            "x/b -> ",
        ),
        (
            names,
            "egress: [{action: Drop, to: [{fqdn: api.example.com}]}]",
            "egress: [{action: Allow, to: [{fqdn: '*example.com'}]}]",
            "198.51.100.7",
        ),
        (
            service,
            "egress: [{action: Drop, toServices: [{name: web, namespace: x}]}]",
            "egress: [{action: Allow}]",
            "x/a tcp",
        ),
        (
            "",
            "ingress: [{action: Drop, ports: [{port: 80, sourcePort: 5000}]}]",
            "ingress: [{action: Allow, ports: [{port: 80}]}]",
            "sport 5000",
        ),
        (
            "",
            "ingress: [{action: Drop, from: [{ipBlock: {cidr: 192.0.2.0/24, except: [192.0.2.0/25]}}]}]",
            "ingress: [{action: Allow, from: [{ipBlock: {cidr: 192.0.2.0/24}}]}]",
            "192.0.2.128",
        ),
    ] {
        let found = two(&(pods() + objects), one, other);
        assert_eq!(found.len(), 1, "{one} {other}: {found:#?}");
        assert!(found[0].code.id == "L0107" && found[0].message.contains(flow), "{}", found[0].message);
    }
    let gate = |action: &str| {
        antrea(
            &action.to_lowercase(),
            "5",
            &format!("ingress: [{{action: {action}, from: [{{ipBlock: {{cidr: 192.0.2.0/24}}}}]}}]"),
        )
        .replace("podSelector: {}", "service: {name: web, namespace: x}")
    };
    let found = check(&(pods() + service + &gate("Drop") + &gate("Allow")));
    assert!(
        found.iter().any(|one| one.code.id == "L0107" && one.message.contains("192.0.2.0")),
        "{found:#?}"
    );
}

#[test]
fn a_disagreement_is_reported_where_no_connection_is_known() {
    let (one, other) = ("ingress: [{action: Drop}]", "ingress: [{action: Allow}]");
    let found = two("", one, other);
    assert!(found.len() == 1 && found[0].code.id == "L0107", "{found:#?}");
    let apart = "ingress: [{action: Allow, ports: [{port: 81}]}]";
    let found = two(&pods(), "ingress: [{action: Drop, ports: [{port: 80}]}]", apart);
    assert!(found.len() == 1 && found[0].code.id == "L0108", "{found:#?}");
}

#[test]
fn a_service_without_a_cluster_address_is_reported() {
    let service = |spec: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Service, metadata: {{name: web, namespace: x}}, spec: {{{spec} selector: {{app: a}}, ports: [{{port: 80}}]}}}}\n"
        )
    };
    let named = antrea("p", "5", "egress: [{action: Drop, toServices: [{name: web, namespace: x}]}]");
    let applied = antrea("p", "5", "ingress: [{action: Drop, from: [{ipBlock: {cidr: 192.0.2.0/24}}]}]")
        .replace("podSelector: {}", "service: {name: web, namespace: x}");
    let messages = |text: &str, policy: &str| -> Vec<String> {
        let found = check(&(pods() + &service(text) + policy));
        let own = found.iter().filter(|one| one.code.id == "L0130");
        own.map(|one| format!("{}: {}", one.field, one.message)).collect()
    };
    let headless = "clusterIP: None,";
    let nothing = "Service x/web is headless and has no cluster address: this matches nothing";
    assert_eq!(messages(headless, &named), [format!("spec.egress[0].toServices: {nothing}")]);
    assert_eq!(messages(headless, &applied).len(), 1);
    let external = messages("type: ExternalName, externalName: example.com,", &named);
    assert!(external[0].contains("is an ExternalName and has no cluster address"), "{external:?}");
    assert_eq!(messages("clusterIP: 10.96.0.1,", &named), Vec::<String>::new());
    assert_eq!(messages("", &named), Vec::<String>::new());
}

#[test]
fn a_service_that_does_not_exist_is_reported_where_others_do() {
    let service = "---\n{apiVersion: v1, kind: Service, metadata: {name: web, namespace: x}, spec: {clusterIP: 10.96.0.1, selector: {app: a}, ports: [{port: 80}]}}\n";
    let policy = antrea("p", "5", "egress: [{action: Drop, toServices: [{name: wep, namespace: x}]}]");
    let found = check(&(pods() + service + &policy));
    let missing = found.iter().find(|one| one.code.id == "L0114").unwrap();
    assert_eq!(
        (missing.field.as_str(), missing.help.as_deref()),
        ("spec.egress[0].toServices", Some("did you mean web?"))
    );
    assert!(
        !check(&(pods() + &policy)).iter().any(|one| one.code.id == "L0114"),
        "nothing is known of services"
    );
}
