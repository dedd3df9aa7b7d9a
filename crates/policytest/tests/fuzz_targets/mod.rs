//! What the fuzz targets do with some bytes, and what must hold whatever the bytes are.
//!
//! Two programs include this file: the targets in `fuzz/fuzz_targets`, which need nightly and make up bytes, and
//! `tests/corpus.rs`, which replays on stable what they have found interesting. That nothing panics, hangs or eats all
//! memory is watched from outside; the rest is asserted here.

#![allow(dead_code, reason = "each fuzz target uses one of the functions")]

use std::fmt::{Debug, Display};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use palisade_dialects::admission::{Request, admit};
use palisade_dialects::kubernetes::write;
use palisade_dialects::source::tree::Source;
use palisade_dialects::source::{Limits, documents};
use palisade_dialects::thorium::Reading;
use palisade_dialects::thorium::compile::compile;
use palisade_dialects::world::World;
use palisade_engine::wire::Frame;
use palisade_lint::lint;
use palisade_model::diagnostic::Diagnostic;
use palisade_model::evaluate::evaluate;
use palisade_model::flow::{EndpointPattern, FlowPattern};
use palisade_model::options::{HostNetworkPods, Options, SelfTraffic};
use palisade_model::policy::Dialect;
use palisade_model::snapshot::Snapshot;
use palisade_model::traffic::Traffic;
use palisade_model::verdicts::Verdicts;
use palisade_policytest::{FileError, TestFiles};

/// The cluster in which policies are tried.
const CLUSTER: &str = include_str!("cluster.yaml");

/// An instance of Thorium in it: its groups are the cluster's namespaces.
const FARM: &str = "kind: ThoriumInstance\nname: farm\ngroups: [x, z]\nimages:\n- {group: x, tool: t, network_policies: [p]}\n- {group: z, tool: u}\n";

/// Connections in it: within and across namespaces, to themselves, from and to nodes and outside, over both families.
const FLOWS: &[&str] = &[
    "*/* -> */* tcp/80",
    "x/a -> z/* udp/53",
    "z/* -> x/a sctp/9003",
    "x/a -> x/a tcp/80",
    "*/* -> ip:203.0.113.7 tcp/443",
    "ip:2001:db8::7 -> */* tcp/8080",
    "ip:10.0.1.1 -> x/* tcp/81",
    "node:n1 -> */* tcp/80",
    "*/* -> node:n2 udp/80",
    "*/* -> svc:x/web tcp/80",
    "z/a -> x/a icmp/8",
    "x/* -> */* icmp",
    "*/* -> x/a tcp/80 sport 4000",
    "x/a -> ip:224.0.0.22 igmp/22",
    "ip:203.0.113.7 -> svc:x/web tcp/80",
];

/// A text of any documents, as a file of YAML.
pub fn load(data: &[u8]) {
    load_as("f.yaml", data);
}

/// The same as a file of JSON.
pub fn json(data: &[u8]) {
    load_as("f.json", data);
}

/// The `spec` of a NetworkPolicy.
pub fn network_policy(data: &[u8]) {
    policy("networking.k8s.io/v1", "NetworkPolicy", data);
}

/// The `spec` of a NetworkPolicy of 2016.
pub fn beta_network_policy(data: &[u8]) {
    policy("extensions/v1beta1", "NetworkPolicy", data);
}

/// The `spec` of an admin policy, of each kind in turn.
pub fn admin(data: &[u8]) {
    policy("policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicy", data);
    policy("policy.networking.k8s.io/v1alpha1", "BaselineAdminNetworkPolicy", data);
    policy("policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy", data);
}

/// The `spec` of one of Antrea's objects, of each kind in turn.
pub fn antrea(data: &[u8]) {
    for kind in ["Tier", "ClusterNetworkPolicy", "NetworkPolicy", "ClusterGroup", "Group"] {
        policy("crd.antrea.io/v1beta1", kind, data);
    }
    policy("crd.antrea.io/v1alpha2", "ExternalEntity", data);
    for kind in ["Tier", "ClusterNetworkPolicy", "NetworkPolicy"] {
        policy("security.antrea.tanzu.vmware.com/v1alpha1", kind, data);
    }
}

/// Documents of Thorium beside an instance with tools: read, put together, compiled, and asked about connections. The
/// objects that they are compiled to are legal and say the same.
pub fn thorium(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (farm, source) = (Source::new("farm.yaml", FARM), Source::new("f.yaml", text));
    for reading in [Reading::Document, Reading::Program] {
        let (mut world, mut found) = (cluster().clone(), Vec::new());
        world.read_thorium_as(reading);
        palisade_dialects::load::load(&farm, &Limits::default(), &mut world, &mut Vec::new());
        palisade_dialects::load::load(&source, &Limits::default(), &mut world, &mut found);
        found.extend(world.review());
        // What is wrong between the two texts may stand in the other one.
        found.retain(|finding| finding.location.as_ref().is_none_or(|at| at.file != *farm.name()));
        assert_located(&source, &found);
        let instance = world.thorium_instance().expect("there is a manifest");
        let compiled = compile(&instance);
        let mut objects = world.objects();
        let snapshot = Snapshot::new(objects.clone());
        lint(&snapshot);
        assert_agreement(&snapshot);

        let written = Source::new("o.yaml", write::yaml(&compiled));
        let (mut reloaded, mut refused) = (World::default(), Vec::new());
        palisade_dialects::load::load(&written, &Limits::default(), &mut reloaded, &mut refused);
        assert!(!refused.iter().any(Diagnostic::is_error), "{refused:#?}\n{}", written.text());
        assert_eq!(reloaded.len(), compiled.len(), "{}", written.text());
        objects.policies.retain(|policy| policy.object.dialect != Dialect::Thorium);
        objects.policies.extend(reloaded.into_objects().policies);
        let after = Snapshot::new(objects);
        let options = Options::default();
        let (ours, theirs) = (Verdicts::new(&snapshot, &options), Verdicts::new(&after, &options));
        for pattern in FLOWS {
            for flow in snapshot.flows(&pattern.parse().expect("a flow")).expect("everybody is there") {
                assert_eq!(ours.verdict(&flow), theirs.verdict(&flow), "{flow:?}\n{}", written.text());
            }
        }
    }
}

/// The text of a flow, of one end of it, or of its traffic.
pub fn flow(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    reads_again::<FlowPattern>(text);
    reads_again::<EndpointPattern>(text);
    reads_again::<Traffic>(text);
}

/// A frame of the wire form. What is accepted means the same after another round trip.
pub fn wire(data: &[u8]) {
    let Ok(frame) = Frame::decode(data) else { return };
    let again = match &frame {
        Frame::Whole(view) => view.encode(),
        Frame::Delta(delta) => delta.encode(),
    };
    assert_eq!(Frame::decode(&again).as_ref(), Ok(&frame));
}

/// A file of tests.
pub fn policy_test(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let source = Arc::new(Source::new("f.yaml", text));
    let report = palisade_policytest::run(std::slice::from_ref(&source), &NoFiles);
    assert_eq!(report.passed() + report.failed(), report.cases.len());
    assert_located(&source, &report.unreadable);
    for case in &report.cases {
        assert_located(&source, &case.notes);
    }
}

fn load_as(name: &str, data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let source = Source::new(name, text);
    let (mut world, mut found) = (World::default(), Vec::new());
    palisade_dialects::load::load(&source, &Limits::default(), &mut world, &mut found);
    assert_located(&source, &found);
    assert_located(&source, &lint(&Snapshot::new(world.into_objects())));
}

/// Puts a policy with this spec into the cluster and asks about connections.
fn policy(api_version: &str, kind: &str, spec: &[u8]) {
    let Ok(spec) = std::str::from_utf8(spec) else { return };
    let mut text = format!(
        "apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: default, namespace: x}}\nspec:\n"
    );
    // Indented, any text stays inside the object, be it in block or flow style.
    for line in spec.lines() {
        text.push_str("  ");
        text.push_str(line);
        text.push('\n');
    }
    let source = Source::new("f.yaml", text);
    assert_admission(&source);
    let (mut world, mut found) = (cluster().clone(), Vec::new());
    palisade_dialects::load::load(&source, &Limits::default(), &mut world, &mut found);
    assert_located(&source, &found);
    let snapshot = Snapshot::new(world.into_objects());
    lint(&snapshot);
    assert_agreement(&snapshot);
}

/// Everything in [`CLUSTER`].
fn cluster() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let (mut world, mut found) = (World::default(), Vec::new());
        let source = Source::new("cluster.yaml", CLUSTER);
        palisade_dialects::load::load(&source, &Limits::default(), &mut world, &mut found);
        assert!(found.is_empty(), "{found:?}");
        world
    })
}

/// A finding without a place in the text cannot be shown.
fn assert_located(source: &Source, found: &[Diagnostic]) {
    let lines = source.text().lines().count().max(1) + 1;
    for diagnostic in found {
        let Some(at) = &diagnostic.location else { panic!("nowhere: {diagnostic:?}") };
        assert!(at.line >= 1 && at.column >= 1 && at.width >= 1, "{diagnostic:?}");
        assert!(at.line as usize <= lines && at.file == *source.name(), "{diagnostic:?}");
        let columns = source.line(at.line as usize - 1).chars().count() + 1;
        assert!(at.column as usize <= columns, "{diagnostic:?}");
    }
}

/// What may be created may also be left as it is.
fn assert_admission(source: &Source) {
    for node in documents(source, &Limits::default()).flatten() {
        let errors = |request| {
            admit(source, request, &World::default()).into_iter().filter(Diagnostic::is_error).collect()
        };
        let create: Vec<Diagnostic> = errors(Request::Create(&node));
        let update: Vec<Diagnostic> = errors(Request::Update(&node, &node));
        assert!(!create.is_empty() || update.is_empty(), "{update:?}");
        let _: Vec<Diagnostic> = errors(Request::Delete(&node));
    }
}

/// The fast verdicts are those of the plain evaluator.
fn assert_agreement(snapshot: &Snapshot) {
    let strict = Options {
        ip_block_matches_pods: false,
        host_network_pods: HostNetworkPods::Ignore,
        self_traffic: SelfTraffic::Evaluate,
    };
    for options in [Options::default(), strict] {
        let verdicts = Verdicts::new(snapshot, &options);
        for pattern in FLOWS {
            let pattern: FlowPattern = pattern.parse().expect("a flow");
            for flow in snapshot.flows(&pattern).expect("everybody is in the cluster") {
                let plain = evaluate(snapshot, &flow, &options);
                assert_eq!(verdicts.verdict(&flow), plain.verdict, "{flow:?}");
            }
        }
    }
}

/// What can be read is written so that it reads the same.
fn reads_again<T: FromStr + Display + PartialEq + Debug>(text: &str) {
    let Ok(read) = text.parse::<T>() else { return };
    let written = read.to_string();
    assert_eq!(written.parse::<T>().ok().as_ref(), Some(&read), "{text:?} is written {written:?}");
}

/// There are no files beside the test.
struct NoFiles;

impl TestFiles for NoFiles {
    fn open(&self, _: &Source, path: &str) -> Result<Vec<Arc<Source>>, FileError> {
        Err(FileError::Unreadable(format!("{path}: there are no files here")))
    }
}
