//! What Thorium's policies are compiled to means the same as they do: random instances, every flow, both readings.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write;

use palisade_dialects::kubernetes::write;
use palisade_dialects::load::load;
use palisade_dialects::source::Limits;
use palisade_dialects::source::tree::Source;
use palisade_dialects::thorium::Reading;
use palisade_dialects::thorium::compile::compile;
use palisade_dialects::world::World;
use palisade_model::diagnostic::Diagnostic;
use palisade_model::flow::{Flow, Party, Who};
use palisade_model::options::Options;
use palisade_model::snapshot::Snapshot;
use palisade_model::traffic::Traffic;
use palisade_model::verdicts::Verdicts;
use proptest::prelude::*;

/// A cluster around the tools: the API, DNS, a stranger in a group's namespace, a namespace with labels, a tool that runs.
const CLUSTER: &str = "\
{apiVersion: v1, kind: Namespace, metadata: {name: corn, labels: {team: red}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: other, labels: {team: blue, zone: a}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: db, namespace: other, labels: {app: db}}, status: {podIP: 10.1.0.1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: other, labels: {app: web, zone: a}}, status: {podIP: 192.0.2.1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: stranger, namespace: corn, labels: {app: db}}, status: {podIP: 10.1.5.1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: run-1, namespace: corn, labels: {thorium: 'true', stage: a, group: corn}}, status: {podIPs: [{ip: 10.2.0.1}, {ip: 'fd00::1'}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: run-2, namespace: corn, labels: {thorium: 'true'}}, status: {podIP: 10.2.0.2}}
---
{apiVersion: v1, kind: Pod, metadata: {name: run-3, namespace: kelp, labels: {thorium: 'true', stage: gone}}, status: {podIP: 10.2.0.3}}
---
{apiVersion: v1, kind: Pod, metadata: {name: api-0, namespace: thorium, labels: {app: api}}, status: {podIP: 10.3.0.1}}
";

const OUTSIDE: [&str; 6] =
    ["203.0.113.7", "10.10.10.10", "10.10.5.1", "169.254.1.1", "2001:db8::5", "fc00::9"];
const TRAFFIC: [&str; 8] =
    ["tcp/80", "udp/53", "sctp/9003", "tcp/1000", "udp/1003", "tcp/1007", "tcp/443", "icmp/8"];

fn load_text(name: &str, text: &str, world: &mut World) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    load(&Source::new(name, text), &Limits::default(), world, &mut found);
    found
}

/// A name of a policy that is longer than any name of an object.
const LONG: &str = "a-name-that-goes-on-and-on-and-on-and-on-and-on-and-on-and-on-and-on-and-on";

/// One part of a rule; parts of one key never meet in a rule, because the generator takes each at most once.
fn peer() -> impl Strategy<Value = (&'static str, &'static str)> {
    prop::sample::select(vec![
        ("allowed_ips", "[{cidr: 10.10.10.10}]"),
        (
            "allowed_ips",
            "[{cidr: 10.10.0.0/16, except: [10.10.5.0/24, 10.10.6.0/24]}, {cidr: '2001:db8::/32'}]",
        ),
        ("allowed_ips", "[{cidr: 10.0.0.0/8, except: [10.0.0.0/8]}]"),
        ("allowed_ips", "[{cidr: 0.0.0.0/0, except: [10.0.0.0/8]}, {cidr: '2001:db8::5'}]"),
        ("allowed_groups", "[crabs]"),
        ("allowed_groups", "[corn, kelp]"),
        ("allowed_groups", "[]"),
        ("allowed_tools", "[a]"),
        ("tools", "[b, nowhere]"),
        ("allowed_local", "true"),
        ("allowed_internet", "true"),
        ("allowed_all", "true"),
        ("allowed_al", "true"),
        ("allowed_all", ""),
        ("allowed_groups", "[nowhere]"),
        ("allowed_groups", "7"),
        ("allowed_ips", "[{cidr: 10.10.0.0/16, excep: [10.10.5.0/24]}]"),
        ("allowed_ips", "[{cidr: 10.10.0.1/16}, {cidr: 0.0.0.0/0}]"),
        ("allowed_custom", "[{pod_labels: [{key: app, value: db, x: y}]}]"),
        ("allowed_custom", "[{}]"),
        ("allowed_custom", "[{namespace_labels: [{key: team, value: blue}]}]"),
        ("allowed_custom", "[{pod_labels: [{key: app, value: db}]}]"),
        (
            "allowed_custom",
            "[{namespace_labels: [{key: team, value: blue}], pod_labels: [{key: app, value: web}, {key: zone, value: a}]}]",
        ),
        ("allowed_custom", "[{pod_labels: [{key: app, value: db}, {key: app, value: web}]}]"),
    ])
}

fn ports() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "",
        "",
        "ports: []",
        "ports: [{port: 80, protocol: TCP}]",
        "ports: [{port: 53, protocol: UDP}, {port: 9003, protocol: SCTP}]",
        "ports: [{port: 1000, end_port: 1006}]",
        "ports: [{port: 443}]",
        "ports: [{port: 80, x: y}]",
        "ports: [{port: 0}]",
        "ports:",
    ])
}

fn rule() -> impl Strategy<Value = String> {
    (prop::collection::vec(peer(), 0..4), ports()).prop_map(|(peers, ports)| {
        let mut keys: Vec<&str> = Vec::new();
        let mut fields: Vec<String> = Vec::new();
        for (key, value) in peers {
            // Both spellings of tools in one rule are refused.
            let spelling = if key == "tools" { "allowed_tools" } else { key };
            if !keys.contains(&spelling) {
                keys.push(spelling);
                fields.push(format!("{key}: {value}"));
            }
        }
        fields.extend((!ports.is_empty()).then(|| ports.to_owned()));
        format!("{{{}}}", fields.join(", "))
    })
}

/// ` ingress: […]`, or nothing, or nothing behind it.
fn side(key: &'static str) -> impl Strategy<Value = String> {
    let rules = prop::option::weighted(0.7, prop::collection::vec(rule(), 0..4));
    (rules, 0..20u8).prop_map(move |(rules, odd)| match (rules, odd) {
        (_, 0) => format!(", {key}: null"),
        (Some(rules), _) => format!(", {key}: [{}]", rules.join(", ")),
        (None, _) => String::new(),
    })
}

fn policy() -> impl Strategy<Value = String> {
    let groups =
        prop::sample::select(vec!["corn", "crabs", "corn, crabs", "corn, crabs, kelp", "corn, nowhere"]);
    let odd = prop::sample::select(vec!["", "", "", "", "", ", unknown: 1", ", forced: true"]);
    (groups, side("ingress"), side("egress"), any::<bool>(), any::<bool>(), odd).prop_map(
        |(groups, ingress, egress, forced, default, odd)| {
            format!(
                "groups: [{groups}]{ingress}{egress}, forced_policy: {forced}, default_policy: {default}{odd}"
            )
        },
    )
}

fn base() -> impl Strategy<Value = String> {
    let policy = (side("ingress"), side("egress")).prop_map(|(ingress, egress)| ingress + &egress);
    let name = prop::sample::select(vec!["b0", "b1", "b1", "b_0", "b-2", "'Grüße 🌽'", LONG]);
    prop::option::of(prop::collection::vec((name, policy), 0..3)).prop_map(|base| {
        let Some(base) = base else { return String::new() };
        let named = base.iter().map(|(name, rules)| format!("{{name: {name}{rules}}}"));
        format!("---\nthorium: {{base_network_policies: [{}]}}\n", named.collect::<Vec<_>>().join(", "))
    })
}

/// A whole instance as text.
fn instance() -> impl Strategy<Value = String> {
    // For each of four images: which of the policies it asks for; `None` when it brings none.
    let asks = prop::option::of(prop::collection::vec(any::<bool>(), 4));
    let odd =
        prop::sample::select(vec!["", "", "", "", ", scaler: BareMetal", ", scaler: K9s", ", unknown: 1"]);
    let images = prop::collection::vec((asks, odd, 0..8u8), 4);
    let name = prop::sample::select(vec!["p0", "p0", "p1", "'P 1'", "p-1", "'Größe/1'", LONG]);
    let policies = prop::collection::vec((name, policy()), 0..4);
    (policies, base(), images).prop_map(|(policies, base, images)| {
        let mut text = "kind: ThoriumInstance\ngroups: [corn, crabs, kelp]\nimages:\n".to_owned();
        for (index, (asks, odd, wrong)) in images.iter().enumerate() {
            let (group, tool) = [("corn", "a"), ("corn", "b"), ("crabs", "a"), ("kelp", "c")][index];
            let named = |(at, (name, body)): (usize, &(&str, String))| {
                let wanted = asks.as_ref().is_some_and(|asks| asks[at]);
                let groups = body.split(']').next().unwrap_or_default();
                (wanted && groups.contains(group)).then(|| (*name).to_owned())
            };
            let mut names: Vec<String> = policies.iter().enumerate().filter_map(named).collect();
            names.extend((*wrong == 0).then(|| "nobody".to_owned()));
            let list = asks.as_ref().map(|_| format!(", network_policies: [{}]", names.join(", ")));
            let _ = writeln!(text, "- {{group: {group}, tool: {tool}{}{odd}}}", list.unwrap_or_default());
        }
        for (name, body) in &policies {
            let _ = writeln!(text, "---\n{{name: {name}, {body}}}");
        }
        text + &base
    })
}

/// Every flow between everybody.
fn flows(snapshot: &Snapshot) -> Vec<Flow> {
    let pods = (0..snapshot.pods().len()).flat_map(|pod| {
        let addresses = &snapshot.pods()[pod].addresses;
        let known = addresses.iter().map(|address| Some(*address));
        let all: Vec<_> = if addresses.is_empty() { vec![None] } else { known.collect() };
        all.into_iter().map(move |address| Party { who: Who::Pod(pod), address })
    });
    let outside =
        OUTSIDE.iter().map(|text| Party { who: Who::Outside, address: Some(text.parse().unwrap()) });
    let parties: Vec<Party> = pods.chain(outside).collect();
    let mut flows = Vec::new();
    for source in &parties {
        for destination in parties.iter().filter(|destination| *destination != source) {
            for text in TRAFFIC {
                let traffic: Traffic = text.parse().unwrap();
                flows.push(Flow { source: *source, destination: *destination, traffic, via: None });
            }
        }
    }
    flows
}

/// Loads the objects back through the ordinary loader, in the place of the instance's own policies, and asks everything.
fn same_verdicts(text: &str, reading: Reading) {
    let mut world = World::default();
    world.read_thorium_as(reading);
    assert!(load_text("cluster.yaml", CLUSTER, &mut world).is_empty());
    // Errors fail closed, in the objects, too.
    load_text("instance.yaml", text, &mut world);
    let compiled = compile(&world.thorium_instance().unwrap());

    let mut objects = world.objects();
    let before = Snapshot::new(objects.clone());
    objects.policies.clear();
    for (name, written) in [("o.yaml", write::yaml(&compiled)), ("o.json", write::json(&compiled))] {
        let mut reloaded = World::default();
        let found = load_text(name, &written, &mut reloaded);
        assert!(found.is_empty(), "{found:#?}\n{written}");
        assert_eq!(reloaded.len(), compiled.len(), "names are distinct");
        let mut objects = objects.clone();
        objects.policies = reloaded.into_objects().policies;
        let after = Snapshot::new(objects);
        let options = Options::default();
        let (ours, theirs) = (Verdicts::new(&before, &options), Verdicts::new(&after, &options));
        for flow in flows(&before) {
            assert_eq!(
                ours.verdict(&flow),
                theirs.verdict(&flow),
                "{} -> {} {}\n{text}\n{written}",
                before.describe(flow.source),
                before.describe(flow.destination),
                flow.traffic
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn objects_give_the_verdicts_of_the_document(text in instance()) {
        same_verdicts(&text, Reading::Document);
    }

    #[test]
    fn objects_give_the_verdicts_of_the_program(text in instance()) {
        same_verdicts(&text, Reading::Program);
    }
}

#[test]
fn the_same_instance_always_gives_the_same_text() {
    let text = "kind: ThoriumInstance\ngroups: [corn, crabs]\nimages: [{group: corn, tool: a}]\n---\n{name: p, groups: [corn, crabs], egress: []}\n";
    let written = || {
        let mut world = World::default();
        load_text("i.yaml", text, &mut world);
        write::yaml(&compile(&world.thorium_instance().unwrap()))
    };
    assert_eq!(written(), written());
    assert_eq!(
        written().matches("kind: NetworkPolicy").count(),
        4,
        "the default base policy and p, in two groups"
    );
}

#[test]
fn a_name_is_cut_where_it_is_only_remembered() {
    let text = format!(
        "kind: ThoriumInstance\ngroups: [corn]\n---\n{{name: {}, groups: [corn], egress: []}}\n",
        "ü".repeat(300_000)
    );
    let mut world = World::default();
    load_text("i.yaml", &text, &mut world);
    let written = write::yaml(&compile(&world.thorium_instance().unwrap()));
    assert!(written.len() < 10_000, "{}", written.len());
}
