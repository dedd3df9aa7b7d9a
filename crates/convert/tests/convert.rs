//! Conversion: what is said means the same, what cannot be said is named, and nothing is widened.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_macros)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use palisade_convert::{ConversionRequest, Converted, Originals, TargetDialect, convert};
use palisade_dialects::load::{load, load_object};
use palisade_dialects::object::DEFAULT_NAMESPACE;
use palisade_dialects::source::tree::Source;
use palisade_dialects::source::{Limits, documents};
use palisade_dialects::world::World;
use palisade_dialects::written;
use palisade_model::flow::Flow;
use palisade_model::options::Options;
use palisade_model::policy::Dialect;
use palisade_model::snapshot::{Objects, Snapshot};
use palisade_model::verdicts::Verdicts;
use palisade_policytest::format::{Expectation, Test, read};

const TARGETS: [TargetDialect; 4] = [
    TargetDialect::NetworkPolicy,
    TargetDialect::ClusterNetworkPolicy,
    TargetDialect::AdminNetworkPolicy,
    TargetDialect::Antrea,
];

fn request(to: TargetDialect, from: &[Dialect], partial: bool) -> ConversionRequest {
    ConversionRequest { to, from: from.to_vec(), partial }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A world, with its texts as they were written.
#[derive(Default, Clone)]
struct Given {
    world: World,
    originals: Originals,
}

impl Given {
    fn text(text: &str) -> Self {
        let mut given = Given::default();
        given.load(&Source::new("given.yaml", text));
        given
    }

    fn load(&mut self, source: &Source) {
        let mut fresh = World::default();
        load(source, &Limits::default(), &mut fresh, &mut Vec::new());
        fresh.iter().cloned().for_each(|loaded| self.world.insert(loaded));
        for node in documents(source, &Limits::default()).flatten() {
            self.originals.add(source, &node);
        }
    }

    fn path(&mut self, path: &Path) {
        if path.is_dir() {
            let mut entries: Vec<PathBuf> =
                std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
            entries.sort();
            entries
                .iter()
                .filter(|entry| entry.is_dir() || is_manifest(entry))
                .for_each(|entry| self.path(entry));
        } else {
            self.load(&Source::new(path.display().to_string(), std::fs::read_to_string(path).unwrap()));
        }
    }

    fn convert(&self, name: &str, request: &ConversionRequest) -> Converted {
        let converted = convert(&self.world, &self.originals, request);
        converted.unwrap_or_else(|failure| panic!("{name}, to {:?}: {failure}", request.to))
    }

    /// The world as it is when what was printed is applied and what it replaces is deleted.
    fn with(&self, converted: &Converted) -> Given {
        let mut after = self.clone();
        for gone in converted.replaced.iter().filter(|object| !object.group.is_empty()) {
            after.world.remove(Some(&gone.group), &gone.kind, gone.namespace.as_deref(), &gone.name);
        }
        after.load(&Source::new("converted.yaml", written::yaml(&converted.objects)));
        after
    }

    /// The same as what a snapshot is made of, without policies that no object of their own makes.
    fn objects(&self, converted: &Converted) -> Objects {
        let mut objects = self.world.objects();
        objects.policies.retain(|policy| !converted.replaced.contains(&policy.object));
        objects
    }
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// Calls `with` for every step of every test of a suite: the world, and the lines that state something about it.
fn each_step(suite: &str, mut with: impl FnMut(&str, &Given, &[Expectation], &Options)) {
    let folder = root().join("suites").join(suite);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.is_file() && is_manifest(path));
    files.sort();
    for file in files {
        let source = Source::new(file.display().to_string(), std::fs::read_to_string(&file).unwrap());
        let limits = Limits::default();
        let nodes: Vec<_> = documents(&source, &limits).map(Result::unwrap).collect();
        for node in &nodes {
            let Some(Ok(Test::Policy(test))) = read(&source, node) else { continue };
            let mut given = Given::default();
            given.world.read_thorium_as(test.thorium.unwrap_or_default());
            test.world.iter().for_each(|path| given.path(&folder.join(path.as_str())));
            for (index, step) in test.steps.iter().enumerate() {
                step.apply_files.iter().for_each(|path| given.path(&folder.join(path.as_str())));
                for object in step.apply {
                    let mut fresh = World::default();
                    load_object(&source, object, &mut fresh, &mut Vec::new());
                    fresh.iter().cloned().for_each(|loaded| given.world.insert(loaded));
                    given.originals.add(&source, object);
                }
                for gone in &step.delete {
                    let namespace = gone.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
                    given.world.remove(gone.group.as_deref(), &gone.kind, Some(namespace), &gone.name);
                }
                with(&format!("{} {index}", test.name), &given, &step.expect, &test.options);
            }
        }
    }
}

/// Every connection that some line is about gets the answer of the last line.
fn assert_holds(name: &str, objects: Objects, lines: &[Expectation], options: &Options) {
    let snapshot = Snapshot::new(objects);
    let verdicts = Verdicts::new(&snapshot, options);
    let mut expected: BTreeMap<Flow, &Expectation> = BTreeMap::new();
    for line in lines {
        expected.extend(snapshot.flows(&line.flows).unwrap().into_iter().map(|flow| (flow, line)));
    }
    for (flow, line) in expected {
        let verdict = verdicts.verdict(&flow);
        assert!(line.outcome.holds(verdict), "{name}, {}: {}", line.at, verdict.as_str());
    }
}

fn errors(converted: &Converted) -> Vec<String> {
    let errors = converted.diagnostics.iter().filter(|one| one.is_error());
    errors.map(|one| format!("{} {} {}", one.code.id, one.field, one.message)).collect()
}

/// Converts every step of a suite as a whole, and holds the result to the suite's lines. Says how many policies went.
fn converts(suite: &str, from: &[Dialect], to: TargetDialect) -> usize {
    let mut gone = 0;
    each_step(suite, |name, given, lines, options| {
        let converted = given.convert(name, &request(to, from, false));
        assert_eq!(errors(&converted), [] as [&str; 0], "{name}");
        let after = given.with(&converted);
        assert_holds(name, after.objects(&converted), lines, options);
        // Converted is converted: another time nothing happens.
        let again = after.convert(name, &request(to, from, false));
        if converted.replaced.iter().all(|object| !object.group.is_empty()) {
            assert!(again.replaced.is_empty(), "{name}");
        }
        gone += converted.replaced.len();
    });
    gone
}

/// Converts whatever can be said of every step of a suite. Says how many policies went, and how many stayed.
fn converts_partly(suite: &str, to: TargetDialect) -> (usize, usize) {
    let (mut gone, mut stayed) = (0, 0);
    each_step(suite, |name, given, lines, options| {
        let converted = given.convert(name, &request(to, &[], true));
        let after = given.with(&converted);
        assert_holds(name, after.objects(&converted), lines, options);
        gone += converted.replaced.len();
        stayed += converted.diagnostics.iter().filter(|one| one.is_error()).count();
    });
    (gone, stayed)
}

#[test]
fn admin_policies_become_cluster_policies() {
    assert!(
        converts("npa-v1alpha1", &[Dialect::AdminNetworkPolicy], TargetDialect::ClusterNetworkPolicy) > 90
    );
}

#[test]
fn cluster_policies_become_admin_policies() {
    let mut gone = 0;
    each_step("npa-v1alpha2", |name, given, lines, options| {
        let converted = given.convert(
            name,
            &request(TargetDialect::AdminNetworkPolicy, &[Dialect::ClusterNetworkPolicy], true),
        );
        assert_holds(name, given.with(&converted).objects(&converted), lines, options);
        gone += converted.replaced.len();
    });
    assert!(gone > 80, "{gone}");
}

#[test]
fn cluster_policies_become_antreas() {
    assert!(converts("npa-v1alpha2", &[Dialect::ClusterNetworkPolicy], TargetDialect::Antrea) > 90);
    assert!(converts("npa-v1alpha1", &[Dialect::AdminNetworkPolicy], TargetDialect::Antrea) > 90);
}

#[test]
fn network_policies_become_antreas() {
    assert!(converts("k8s-e2e", &[], TargetDialect::Antrea) > 50);
}

#[test]
fn network_policies_of_2016_become_those_of_today() {
    assert!(converts_partly("k8s-v1beta1", TargetDialect::NetworkPolicy).0 > 10);
}

#[test]
fn policies_of_2020_become_todays() {
    let (gone, stayed) = converts_partly("antrea-2020", TargetDialect::Antrea);
    // Tiers of their own may stand between built-in ones that have other numbers today.
    assert!(gone > 10 && stayed > 0, "{gone} {stayed}");
}

#[test]
fn thoriums_become_network_policies() {
    let (gone, stayed) = converts_partly("thorium-document", TargetDialect::NetworkPolicy);
    // Those that cannot be read stay.
    assert!(gone > 10 && stayed > 0, "{gone} {stayed}");
}

#[test]
fn whatever_can_be_said_of_any_suite_means_the_same() {
    let suites = [
        "thorium-document",
        "antrea",
        "antrea-2020",
        "antrea-decisions",
        "antrea-order",
        "decisions",
        "k8s-e2e",
        "k8s-v1beta1",
        "npa-v1alpha1",
        "npa-v1alpha2",
    ];
    for suite in suites {
        for to in TARGETS {
            let (gone, stayed) = converts_partly(suite, to);
            // Shown with --nocapture.
            println!("{suite} to {to:?}: {gone} converted, {stayed} cannot be said");
        }
    }
}

/// What Antrea says that others cannot, rule by rule: a ClusterNetworkPolicy with this in it.
fn acnp(rest: &str) -> String {
    format!(
        "{{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {{name: p}}, spec: {{priority: 5, {rest}}}}}"
    )
}

/// A ClusterNetworkPolicy of upstream.
fn cnp(name: &str, tier: &str, priority: u32, rest: &str) -> String {
    format!(
        "---\n{{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {{name: {name}}}, spec: {{tier: {tier}, priority: {priority}, subject: {{namespaces: {{}}}}, {rest}}}}}\n"
    )
}

/// An AdminNetworkPolicy.
fn anp(name: &str, priority: u32, rest: &str) -> String {
    format!(
        "---\n{{apiVersion: policy.networking.k8s.io/v1alpha1, kind: AdminNetworkPolicy, metadata: {{name: {name}}}, spec: {{priority: {priority}, subject: {{namespaces: {{}}}}, {rest}}}}}\n"
    )
}

#[test]
fn what_cannot_be_said_is_named_with_its_reason() {
    use TargetDialect::{
        AdminNetworkPolicy as Admin, Antrea, ClusterNetworkPolicy as Cluster, NetworkPolicy as Np,
    };
    let all = "appliedTo: [{podSelector: {}}]";
    let shop = "appliedTo: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}]";
    let from = "from: [{podSelector: {matchLabels: {app: web}}}]";
    let baseline = "apiVersion: policy.networking.k8s.io/v1alpha1\nkind: BaselineAdminNetworkPolicy\nmetadata: {name: default}\nspec: {subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}\n";
    let np = "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: shop}, spec: {podSelector: {}, policyTypes: [Ingress]}}";
    #[rustfmt::skip]
    let table: Vec<(String, TargetDialect, &str, &str, &str)> = vec![
        // What Antrea alone can say.
        (acnp(&format!("{all}, ingress: [{{action: Reject, {from}}}]")), Cluster, "C0101", "spec.ingress[0].action", "Reject answers"),
        (acnp(&format!("{all}, ingress: [{{action: Drop}}]")), Cluster, "C0102", "spec.ingress[0].from", "everybody"),
        (acnp(&format!("{all}, ingress: [{{action: Drop, from: [{{ipBlock: {{cidr: 10.0.0.0/8}}}}]}}]")), Cluster, "C0102", "spec.ingress[0].from", "10.0.0.0/8"),
        (acnp(&format!("{all}, ingress: [{{action: Drop, from: [{{nodeSelector: {{}}}}]}}]")), Cluster, "C0102", "spec.ingress[0].from", "any node"),
        (acnp(&format!("{all}, ingress: [{{action: Allow, from: [{{namespaces: {{match: Self}}}}]}}]")), Cluster, "C0102", "spec.ingress[0].from", "the same namespace"),
        (acnp(&format!("{all}, ingress: [{{action: Allow, from: [{{namespaces: {{sameLabels: [team]}}}}]}}]")), Admin, "C0102", "spec.ingress[0].from", "the same team"),
        (acnp(&format!("{all}, ingress: [{{action: Allow, from: [{{serviceAccount: {{name: a, namespace: b}}}}]}}]")), Cluster, "C0102", "spec.ingress[0].from", "service account a"),
        (acnp(&format!("{all}, egress: [{{action: Allow, toServices: [{{name: a, namespace: b}}]}}]")), Cluster, "C0102", "spec.egress[0].to", "service b/a"),
        (acnp(&format!("{all}, egress: [{{action: Allow, to: [{{fqdn: \"*example.com\"}}]}}]")), Cluster, "C0102", "spec.egress[0].to", "*example.com"),
        (acnp(&format!("{all}, egress: [{{action: Drop, to: [{{fqdn: \"www.example.com\"}}]}}]")), Cluster, "C0102", "spec.egress[0].to", "only rules that allow"),
        (acnp(&format!("{all}, egress: [{{action: Drop, to: [{{ipBlock: {{cidr: 10.0.0.0/8}}}}], ports: [{{port: http}}, {{port: http, protocol: UDP}}, {{port: http, protocol: SCTP}}]}}]")), Cluster, "C0102", "spec.egress[0].to", "named port"),
        (acnp("appliedTo: [{nodeSelector: {}}], ingress: [{action: Drop, from: [{podSelector: {}}]}]"), Cluster, "C0103", "", "any node"),
        (acnp("appliedTo: [{service: {name: a, namespace: b}}], ingress: [{action: Drop, from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]"), Cluster, "C0103", "", "service b/a"),
        (acnp(&format!("{all}, ingress: [{{action: Allow, {from}, protocols: [{{icmp: {{}}}}]}}]")), Cluster, "C0104", "spec.ingress[0].protocols", "any icmp"),
        (acnp(&format!("{all}, ingress: [{{action: Allow, {from}, ports: [{{port: 80, sourcePort: 99}}]}}]")), Cluster, "C0104", "spec.ingress[0].ports", "source port 99"),
        (acnp(&format!("{all}, ingress: [{{action: Allow, {from}, ports: [{{port: http}}]}}]")), Cluster, "C0104", "spec.ingress[0].ports", "tcp/http"),
        (acnp(&format!("{all}, ingress: [{{action: Allow, {from}, l7Protocols: [{{http: {{}}}}]}}]")), Cluster, "C0105", "spec.ingress[0].l7Protocols", "layer 7"),
        (acnp(&format!("{all}, ingress: [{{action: Allow, from: [{{group: gone}}]}}]")), Cluster, "C0108", "spec.ingress[0]", "does not exist"),
        (acnp("appliedTo: [{group: gone}], ingress: [{action: Drop, from: [{podSelector: {}}]}]"), Cluster, "C0108", "spec.ingress[0]", "group gone"),
        (acnp(&format!("tier: gone, {all}, ingress: [{{action: Drop, {from}}}]")), Cluster, "C0108", "spec.tier", "tier that does not exist"),
        (acnp(&format!("{all}, ingress: [{{action: Drop, {from}, unknown: 1}}]")), Cluster, "C0108", "spec.ingress[0]", "cannot be read"),
        // What NetworkPolicy cannot say.
        (acnp(&format!("{all}, ingress: [{{action: Allow, {from}}}, {{action: Drop}}]")), Np, "C0103", "spec.ingress[0]", "one namespace"),
        (acnp(&format!("{shop}, ingress: [{{action: Allow, {from}}}]")), Np, "C0107", "spec.ingress[0]", "is not denied to all"),
        (acnp(&format!("{shop}, ingress: [{{action: Drop, {from}}}]")), Np, "C0107", "spec.ingress[0].action", "not everything"),
        (acnp(&format!("{shop}, ingress: [{{action: Drop}}, {{action: Allow, {from}}}]")), Np, "C0107", "spec.ingress[1]", "denied everything"),
        (acnp(&format!("{shop}, ingress: [{{action: Pass, {from}}}, {{action: Drop}}]")), Np, "C0101", "spec.ingress[0].action", "only allow"),
        (acnp(&format!("{shop}, ingress: [{{action: Reject}}]")), Np, "C0101", "spec.ingress[0].action", "dropped"),
        (acnp(&format!("{shop}, egress: [{{action: Allow, to: [{{nodeSelector: {{}}}}]}}, {{action: Drop}}]")), Np, "C0102", "spec.egress[0].to", "any node"),
        (format!("{}\n---\n{np}", acnp(&format!("{shop}, ingress: [{{action: Allow, {from}}}, {{action: Drop}}]"))), Np, "C0106", "", "which stays as it is"),
        // What adds up, and tiers that know pods only.
        (np.to_owned(), Cluster, "C0107", "", "isolates pods for ingress"),
        // Places.
        (anp("a", 5, "ingress: [{action: Deny, from: [{namespaces: {}}]}]") + "---\n" + &acnp("appliedTo: [{podSelector: {}}], ingress: [{action: Reject, from: [{podSelector: {}}]}]"), Cluster, "C0101", "spec.ingress[0].action", "Reject"),
        (cnp("a", "Admin", 1000, "egress: [{action: Deny, to: [{namespaces: {}}]}]") + &anp("b", 5, "egress: [{action: Accept, to: [{namespaces: {}}]}]").replace("Accept", "Allow"), Cluster, "C0106", "spec.priority", "no priority is left"),
        (cnp("a", "Baseline", 1, "egress: [{action: Deny, to: [{namespaces: {}}]}]") + &cnp("b", "Baseline", 2, "egress: [{action: Deny, to: [{namespaces: {}}]}]").replace("subject: {namespaces: {}}", "subject: {namespaces: {matchLabels: {a: b}}}"), Admin, "C0109", "", "one BaselineAdminNetworkPolicy"),
        (cnp("a", "Baseline", 0, "egress: [{action: Deny, to: [{namespaces: {}}]}]") + "---\n" + baseline, Cluster, "C0106", "spec.priority", "no priority is left"),
        // What old admin policies could say.
        (anp("a", 5, "ingress: [{action: Deny, from: [{namespaces: {notSameLabels: [tenant]}}]}]"), Cluster, "C0102", "spec.ingress[0].from", "another tenant"),
        (anp("a", 5, "ingress: [{action: Deny, from: [{namespaces: {notSameLabels: [tenant]}}]}]"), Antrea, "C0102", "spec.ingress[0].from", "not unlike"),
        (anp("a", 5, "egress: [{action: Allow, to: [{domainNames: [a_b.example.com]}]}]"), Antrea, "C0102", "spec.egress[0].to", "a_b.example.com"),
    ];
    for (text, to, code, field, reason) in table {
        let given = Given::text(&text);
        let converted = given.convert(&text, &request(to, &[], false));
        let named = converted.diagnostics.iter().any(|one| {
            one.is_error() && one.code.id == code && one.field == field && one.message.contains(reason)
        });
        assert!(named, "{text} to {to:?}: {:?}", errors(&converted));
        assert!(converted.objects.is_empty() && converted.proof.is_none(), "{text}");
    }
}

fn said(given: &Given, to: TargetDialect) -> String {
    let converted = given.convert("given", &request(to, &[], false));
    assert_eq!(errors(&converted), [] as [&str; 0]);
    written::yaml(&converted.objects)
}

/// What is said about a converted: code and message.
fn notes(given: &Given, to: TargetDialect) -> Vec<(&'static str, String)> {
    let converted = given.convert("given", &request(to, &[], false));
    assert_eq!(errors(&converted), [] as [&str; 0]);
    converted.diagnostics.iter().map(|one| (one.code.id, one.message.clone())).collect()
}

#[test]
fn a_name_of_253_characters_has_room_for_what_comes_behind() {
    let long = "a".repeat(253);
    let policy = |spec: &str| {
        format!(
            "---\n{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: {long}, namespace: x}}, spec: {{podSelector: {{}}, {spec}}}}}\n"
        )
    };
    let given = Given::text(&policy("ingress: [{from: [{podSelector: {}}]}]"));
    let text = said(&given, TargetDialect::Antrea);
    assert!(text.contains(&format!("name: {}-isolation\n", "a".repeat(243))), "{text}");
    let rules = vec!["{action: Deny, to: [{namespaces: {}}]}"; 60].join(", ");
    let given = Given::text(&anp(&long, 5, &format!("egress: [{rules}]")));
    let text = said(&given, TargetDialect::ClusterNetworkPolicy);
    assert!(text.contains(&format!("name: {}-2\n", "a".repeat(251))), "{text}");
}

#[test]
fn a_policy_that_vanishes_is_named() {
    let given = Given::text(
        &(anp("a", 5, "ingress: [{action: Deny, from: [{namespaces: {}}]}]")
            + &anp("idle", 6, "ingress: []")),
    );
    let found = notes(&given, TargetDialect::ClusterNetworkPolicy);
    assert_eq!(found, [("C0204", "the policy has no rules, does nothing, and is left out".to_owned())]);
}

#[test]
fn a_priority_that_changes_is_named() {
    let given = Given::text(&anp("a", 5, "ingress: [{action: Deny, from: [{namespaces: {}}]}]"));
    assert_eq!(notes(&given, TargetDialect::ClusterNetworkPolicy), []);
    assert_eq!(notes(&given, TargetDialect::Antrea), [("C0207", "priority 5 becomes 6".to_owned())]);
}

#[test]
fn baselines_for_the_same_pods_are_one() {
    let first = cnp("a", "Baseline", 1, "egress: [{action: Accept, to: [{networks: [10.0.0.0/8]}]}]");
    let given = Given::text(
        &(first
            + &cnp(
                "b",
                "Baseline",
                2,
                "egress: [{action: Deny, to: [{networks: [10.0.0.0/8, 11.0.0.0/8]}]}]",
            )),
    );
    let text = said(&given, TargetDialect::AdminNetworkPolicy);
    assert_eq!(text.matches("kind: BaselineAdminNetworkPolicy\n").count(), 1, "{text}");
    assert!(text.find("action: Allow").unwrap() < text.find("action: Deny").unwrap(), "{text}");
    let converted = given.convert("given", &request(TargetDialect::AdminNetworkPolicy, &[], false));
    // The one that is asked last goes first.
    let gone: Vec<&str> = converted.left_to_delete().map(|object| object.name.as_str()).collect();
    assert_eq!(gone, ["b", "a"]);
}

#[test]
fn its_own_namespace_is_named_where_there_is_one() {
    let own =
        "ingress: [{action: Drop, from: [{namespaces: {match: Self}, podSelector: {matchLabels: {a: b}}}]}]";
    let given = Given::text(&acnp(&format!(
        "appliedTo: [{{namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: shop}}}}}}], {own}"
    )));
    let text = said(&given, TargetDialect::ClusterNetworkPolicy);
    assert_eq!(text.matches("kubernetes.io/metadata.name: shop").count(), 2, "{text}");
    let given = Given::text(&acnp(&format!(
        "appliedTo: [{{namespaceSelector: {{matchLabels: {{team: shop}}}}}}], {own}"
    )));
    let converted = given.convert("given", &request(TargetDialect::ClusterNetworkPolicy, &[], false));
    assert!(errors(&converted).iter().any(|one| one.contains("C0102")), "{:?}", errors(&converted));
}

#[test]
fn admin_policies_keep_their_priorities_and_their_labels() {
    let given = Given::text(
        "apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata:
  name: tenants
  uid: 2b1d
  labels: {team: platform}
  annotations: {why: tenants, kubectl.kubernetes.io/last-applied-configuration: '{}'}
spec:
  priority: 7
  subject: {pods: {namespaceSelector: {matchLabels: {tenant: acme}}, podSelector: {matchLabels: {app: web}}}}
  ingress:
  - name: web
    action: Allow
    from: [{pods: {namespaces: {namespaceSelector: {}}, podSelector: {matchLabels: {app: lb}}}}]
    ports: [{portNumber: {port: 80}}, {portRange: {protocol: UDP, start: 5, end: 9}}, {portRange: {start: 5, end: 5}}, {namedPort: web}]
status: {conditions: []}
---
apiVersion: policy.networking.k8s.io/v1alpha1
kind: BaselineAdminNetworkPolicy
metadata: {name: default}
spec:
  subject: {namespaces: {}}
  egress: [{action: Deny, to: [{networks: [10.0.0.0/8]}, {nodes: {}}]}]
",
    );
    let text = said(&given, TargetDialect::ClusterNetworkPolicy);
    assert_eq!(
        text,
        "apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata:
  name: tenants
  labels:
    team: platform
  annotations:
    why: tenants
spec:
  tier: Admin
  priority: 7
  subject:
    pods:
      namespaceSelector:
        matchLabels:
          tenant: acme
      podSelector:
        matchLabels:
          app: web
  ingress:
  - name: web
    action: Accept
    from:
    - pods:
        namespaceSelector: {}
        podSelector:
          matchLabels:
            app: lb
    protocols:
    - tcp:
        destinationPort:
          number: 80
    - udp:
        destinationPort:
          range:
            start: 5
            end: 9
    - tcp:
        destinationPort:
          number: 5
    - destinationNamedPort: web
---
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata:
  name: default
spec:
  tier: Baseline
  priority: 10
  subject:
    namespaces: {}
  egress:
  - action: Deny
    to:
    - networks:
      - 10.0.0.0/8
    - nodes: {}
"
    );
}

#[test]
fn long_lists_are_split_and_keep_their_order() {
    let rule = |at: usize| {
        let action = if at.is_multiple_of(2) { "Allow" } else { "Deny" };
        format!(
            "{{action: {action}, from: [{{namespaces: {{matchLabels: {{n: \"{}\"}}}}}}], ports: [{{portNumber: {{port: {}}}}}]}}",
            at % 7,
            1 + at % 5
        )
    };
    let rules: Vec<String> = (0..60).map(rule).collect();
    let peers: Vec<String> =
        (0..60).map(|at| format!("{{namespaces: {{matchLabels: {{m: \"{at}\"}}}}}}")).collect();
    let ports: Vec<String> =
        (0..60).map(|at| format!("{{portNumber: {{port: {}}}}}", 100 + 2 * at)).collect();
    let many =
        format!("ingress: [{{action: Deny, from: [{}], ports: [{}]}}]", peers.join(", "), ports.join(", "));
    let given = Given::text(
        &(anp("rules", 5, &format!("ingress: [{}]", rules.join(", "))) + &anp("after", 6, &many)),
    );
    let text = said(&given, TargetDialect::ClusterNetworkPolicy);
    let priorities: Vec<&str> = text.lines().filter(|line| line.starts_with("  priority")).collect();
    assert_eq!(priorities, ["  priority: 5", "  priority: 6", "  priority: 7", "  priority: 8"]);
    let names: Vec<&str> = text.lines().filter(|line| line.starts_with("  name")).collect();
    assert_eq!(names, ["  name: rules", "  name: rules-2", "  name: rules-3", "  name: after"]);
}

#[test]
fn policies_of_one_place_take_turns_and_still_do_when_cut_apart() {
    let one = |name: &str, rules: &str| {
        acnp(&format!("appliedTo: [{{podSelector: {{}}}}], egress: [{rules}]"))
            .replace("name: p", &format!("name: {name}"))
    };
    let to = |action: &str, app: &str| {
        format!("{{action: {action}, to: [{{podSelector: {{matchLabels: {{app: {app}}}}}}}]}}")
    };
    let a = one("a", &format!("{}, {}", to("Drop", "one"), to("Drop", "two")));
    let b = one("b", &format!("{}, {}", to("Allow", "two"), to("Allow", "one")));
    let text = said(&Given::text(&format!("{a}\n---\n{b}")), TargetDialect::ClusterNetworkPolicy);
    let names: Vec<&str> = text.lines().filter(|line| line.starts_with("  name")).collect();
    assert_eq!(names, ["  name: a", "  name: b", "  name: a-2", "  name: b-2"], "{text}");
    // Upstream does not say what equal priorities mean: none are made.
    let priorities: Vec<&str> = text.lines().filter(|line| line.starts_with("  priority")).collect();
    assert_eq!(priorities, ["  priority: 10", "  priority: 11", "  priority: 12", "  priority: 13"]);
}

#[test]
fn subjects_of_their_own_become_policies_of_their_own() {
    let given = Given::text(&acnp(
        "ingress: [{action: Allow, from: [{podSelector: {}}], appliedTo: [{podSelector: {matchLabels: {app: a}}}, {podSelector: {matchLabels: {app: b}}}]}, \
         {action: Drop, from: [{podSelector: {}}], appliedTo: [{podSelector: {}}]}]",
    ));
    let text = said(&given, TargetDialect::ClusterNetworkPolicy);
    assert_eq!(text.matches("kind: ClusterNetworkPolicy").count(), 3, "{text}");
}

#[test]
fn groups_and_exceptions_are_written_out() {
    let group = "{apiVersion: crd.antrea.io/v1beta1, kind: ClusterGroup, metadata: {name: g}, spec: {ipBlocks: [{cidr: 10.0.0.0/24, except: [10.0.0.64/26]}]}}";
    let policy = acnp(
        "appliedTo: [{podSelector: {}}], egress: [{action: Drop, to: [{group: g}], enableLogging: true}]",
    );
    let given = Given::text(&format!("{group}\n---\n{policy}"));
    let converted = given.convert("groups", &request(TargetDialect::ClusterNetworkPolicy, &[], false));
    let codes: Vec<&str> = converted.diagnostics.iter().map(|one| one.code.id).collect();
    assert_eq!(codes, ["C0202", "C0201", "C0207"]);
    let text = written::yaml(&converted.objects);
    assert!(text.contains("- 10.0.0.0/26\n      - 10.0.0.128/25\n"), "{text}");
}

#[test]
fn network_policies_allow_first_and_then_deny() {
    let given = Given::text(
        "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: deny, namespace: shop}, spec: {podSelector: {}}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: web, namespace: shop}, spec: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {}}], ports: [{port: http}]}]}}
---
{apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {name: last, namespace: shop}, spec: {tier: baseline, priority: 2, appliedTo: [{podSelector: {}}], ingress: [{action: Allow}]}}
",
    );
    let text = said(&given, TargetDialect::Antrea);
    let order: Vec<&str> = text
        .lines()
        .filter(|line| {
            line.starts_with("  name:") || line.starts_with("  priority") || line.contains("action")
        })
        .map(str::trim)
        .collect();
    assert_eq!(
        order,
        [
            "name: last",
            "priority: 2",
            "- action: Allow",
            "name: web",
            "priority: 1.3333333333333333",
            "- action: Allow",
            "name: deny",
            "priority: 1.6666666666666665",
            "- action: Drop",
        ],
        "{text}"
    );
}

#[test]
fn an_antrea_policy_that_isolates_is_a_network_policy() {
    let given = Given::text(
        "{apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {name: web, namespace: shop}, spec: {priority: 5, appliedTo: [{podSelector: {matchLabels: {app: web}}}], ingress: [{action: Allow, from: [{podSelector: {}}, {namespaceSelector: {matchLabels: {team: a}}}], ports: [{port: 80, endPort: 90}]}, {action: Drop}], egress: [{action: Drop}]}}",
    );
    let text = said(&given, TargetDialect::NetworkPolicy);
    assert_eq!(
        text,
        "apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: web
  namespace: shop
spec:
  podSelector:
    matchLabels:
      app: web
  policyTypes:
  - Ingress
  - Egress
  ingress:
  - from:
    - podSelector: {}
    - namespaceSelector:
        matchLabels:
          team: a
    ports:
    - protocol: TCP
      port: 80
      endPort: 90
"
    );
}

#[test]
fn what_is_in_the_dialect_already_is_printed_as_it_was_written() {
    let text = "apiVersion: crd.antrea.io/v1beta1
kind: Tier
metadata:
  name: mine
spec:
  priority: 42
---
apiVersion: crd.antrea.io/v1beta1
kind: ClusterNetworkPolicy
metadata:
  name: p
spec:
  tier: mine
  priority: 5.5
  appliedTo:
  - podSelector: {}
  ingress:
  - action: Reject
    enableLogging: true
    from:
    - group: g
";
    let group = "apiVersion: crd.antrea.io/v1beta1
kind: ClusterGroup
metadata:
  name: g
spec:
  podSelector: {}
---
";
    let given = Given::text(&format!("{group}{text}"));
    assert_eq!(said(&given, TargetDialect::Antrea), format!("{group}{text}"));
}

#[test]
fn there_and_back_again_is_the_same() {
    each_step("npa-v1alpha2", |name, given, lines, options| {
        let there =
            given.convert(name, &request(TargetDialect::Antrea, &[Dialect::ClusterNetworkPolicy], false));
        let middle = given.with(&there);
        let back =
            middle.convert(name, &request(TargetDialect::ClusterNetworkPolicy, &[Dialect::Antrea], false));
        assert_eq!(errors(&back), [] as [&str; 0], "{name}");
        assert_eq!(back.replaced.len(), there.objects.len(), "{name}");
        assert_holds(name, middle.with(&back).objects(&back), lines, options);
    });
}

#[test]
fn a_part_is_printed_only_if_asked_for_and_the_rest_stays() {
    let good = anp("good", 5, "ingress: [{action: Deny, from: [{namespaces: {}}]}]");
    let bad = anp("bad", 6, "ingress: [{action: Deny, from: [{namespaces: {sameLabels: [tenant]}}]}]");
    let given = Given::text(&format!("{good}{bad}"));
    let whole = given.convert("whole", &request(TargetDialect::ClusterNetworkPolicy, &[], false));
    assert!(whole.objects.is_empty());
    let part = given.convert("part", &request(TargetDialect::ClusterNetworkPolicy, &[], true));
    assert_eq!(part.replaced.iter().map(|object| object.name.as_str()).collect::<Vec<_>>(), ["good"]);
    assert_eq!(errors(&part).len(), 1);
    // The other way round the one that stays would come second: it came first.
    let given = Given::text(&format!("{}{}", good.replace("priority: 5", "priority: 7"), bad));
    let part = given.convert("part", &request(TargetDialect::ClusterNetworkPolicy, &[], true));
    assert_eq!(part.objects.len(), 0);
    assert!(errors(&part).iter().any(|error| error.contains("it would come before AdminNetworkPolicy bad")));
}

#[test]
fn names_that_are_taken_get_a_number() {
    let default = "---\n{apiVersion: policy.networking.k8s.io/v1alpha1, kind: BaselineAdminNetworkPolicy, metadata: {name: default}, spec: {subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}}\n";
    let there = cnp("default", "Admin", 1, "ingress: [{action: Pass, from: [{namespaces: {}}]}]");
    let given = Given::text(&format!("{there}{default}"));
    let converted = given.convert("names", &request(TargetDialect::ClusterNetworkPolicy, &[], false));
    assert!(
        converted
            .diagnostics
            .iter()
            .any(|one| one.code.id == "C0203" && one.message == "it becomes default-2")
    );
}

/// Policies of which every word matters, in a cluster that shows it.
const DELICATE: &str = "
{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: first}, spec: {tier: Admin, priority: 5, subject: {pods: {podSelector: {matchLabels: {app: web}}}}, egress: [
  {action: Accept, to: [{networks: [10.1.0.0/16]}], protocols: [{tcp: {destinationPort: {number: 443}}}]},
  {action: Pass, to: [{pods: {namespaceSelector: {matchLabels: {team: a}}, podSelector: {matchLabels: {app: db}}}}], protocols: [{udp: {destinationPort: {range: {start: 50, end: 60}}}}, {destinationNamedPort: sql}]},
  {action: Deny, to: [{namespaces: {}}, {networks: [0.0.0.0/0]}]}]}}
---
{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: second}, spec: {tier: Admin, priority: 6, subject: {namespaces: {matchExpressions: [{key: team, operator: Exists}]}}, egress: [
  {action: Accept, to: [{nodes: {matchLabels: {role: edge}}}]}, {action: Deny, to: [{nodes: {}}]}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: np, namespace: shop}, spec: {podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress, Egress], ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}}
";

#[test]
fn the_proof_sees_every_small_difference() {
    let objects = |text: &str| Given::text(text).world.objects();
    let before = objects(DELICATE);
    let proven = |text: &str| palisade_analysis::diff::proven(&before, &objects(text));
    let same = proven(DELICATE).unwrap();
    assert!(!same.bounded && same.endpoints > 100, "{same}");
    for (from, to) in [
        ("priority: 5", "priority: 7"),
        ("10.1.0.0/16", "10.1.0.0/17"),
        ("10.1.0.0/16", "10.0.0.0/15"),
        ("number: 443", "number: 444"),
        ("start: 50", "start: 51"),
        ("end: 60", "end: 61"),
        ("udp:", "sctp:"),
        ("destinationNamedPort: sql", "destinationNamedPort: mysql"),
        ("team: a", "team: b"),
        ("{app: db}}}}], protocols", "{app: dc}}}}], protocols"),
        ("action: Pass", "action: Deny"),
        ("action: Deny, to: [{namespaces: {}}, ", "action: Deny, to: ["),
        (", {networks: [0.0.0.0/0]}", ""),
        ("0.0.0.0/0", "0.0.0.0/1"),
        ("0.0.0.0/0", "::/0"),
        ("operator: Exists", "operator: DoesNotExist"),
        ("role: edge", "role: core"),
        ("{action: Deny, to: [{nodes: {}}]}", "{action: Pass, to: [{nodes: {}}]}"),
        ("{app: api}", "{app: apa}"),
        (
            "from: [{podSelector: {matchLabels: {app: api}}}]",
            "from: [{namespaceSelector: {}, podSelector: {matchLabels: {app: api}}}]",
        ),
        ("namespace: shop", "namespace: shop2"),
        ("tier: Admin, priority: 6", "tier: Baseline, priority: 6"),
        (
            "subject: {pods: {podSelector: {matchLabels: {app: web}}}}",
            "subject: {pods: {podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [db, api]}]}}}",
        ),
    ] {
        assert!(DELICATE.contains(from), "{from}");
        let found = proven(&DELICATE.replacen(from, to, 1));
        assert!(found.is_err(), "{from} to {to}: {found:?}");
    }
}
