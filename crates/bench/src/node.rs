//! One node of a large cluster: what its program costs to make, and what an event costs from the index to the kernel.
//!
//! 100 namespaces with 1,000 pods each, of which two run on the node; in each namespace three policies: one about its own pods,
//! one that lets in the front ends of all namespaces (10,000 pods), one that lets everybody in the cluster (100,000) reach
//! one port. So the node has 200 pods, and 100,000 addresses to tell apart.

use std::fmt::Write;
use std::hint::black_box;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use palisade_dialects::load::load;
use palisade_dialects::source::Limits;
use palisade_dialects::source::tree::Source;
use palisade_dialects::world::World;
use palisade_engine::Engine;
use palisade_engine::view::View;
use palisade_lab::namespace::{self, Run};
use palisade_lab::{LabError, clean, tool};
use palisade_model::cluster::{Namespace, Pod};
use palisade_model::event::{Event, Item};
use palisade_model::label::Labels;
use palisade_nftables::compile::{Compiler, Wiring};
use palisade_nftables::kernel::{Counts, Kernel, KernelError, Linux};
use palisade_nftables::transition::Transition;
use smol_str::{SmolStr, format_smolstr};

use crate::units::nanoseconds;

/// The node.
pub const NODE: &str = "here";

const NAMESPACES: u32 = 100;
const PODS: u32 = 1000;

/// A node's program that follows a cluster.
pub struct Node {
    engine: Engine,
    view: View,
    /// The program.
    pub live: Compiler,
}

/// How long things took.
pub struct Times {
    what: &'static str,
    all: Vec<Duration>,
    /// How many elements moved in the largest patch, and how many patches were more than that.
    elements: usize,
    structural: usize,
    /// How many needed a guard.
    guarded: usize,
}

// === impl Node ===

impl Node {
    /// The cluster, and the node's program: with how long the program took.
    pub fn new() -> (Node, Duration) {
        let mut engine = Engine::default();
        for item in items() {
            engine.apply(Event::Apply(item));
        }
        let view = engine.view();
        let start = Instant::now();
        let live = Compiler::new(view.part_of(NODE), NODE, Wiring::new());
        (Node { engine, view, live }, start.elapsed())
    }

    /// From an event to what is done to the kernel; nothing if the index is broken.
    pub fn follow(&mut self, event: Event) -> Option<Transition> {
        let delta = self.engine.apply(event);
        let parts = self.view.follow_for(&delta, &[NODE]).ok()?;
        self.live.follow(&parts).ok()
    }
}

/// Measures it all, as a table; on to the kernel if that is wanted.
pub fn run(count: usize, kernel: bool) -> io::Result<String> {
    let (mut node, made) = Node::new();
    if !kernel {
        let times = events(&mut node, count, &mut |_| Ok(()))?;
        return Ok(table(&node, made, None, &times));
    }
    let failed = |error: LabError| io::Error::other(error.to_string());
    clean::leftovers().map_err(failed)?;
    let name = Run::own(0).map_err(failed)?.name("node");
    tool::ip(None, &format!("netns add {name}\n")).map_err(failed)?;
    let measured = namespace::inside(&name, || -> io::Result<String> {
        let refused = |error: KernelError| io::Error::other(error.to_string());
        let mut linux = Linux::new();
        let start = Instant::now();
        linux.replace(node.live.program(), &Counts::new()).map_err(refused)?;
        let loaded = start.elapsed();
        let times =
            events(&mut node, count, &mut |transition| linux.transition(transition).map_err(refused))?;
        Ok(table(&node, made, Some(loaded), &times))
    });
    tool::ip(None, &format!("netns delete {name}\n")).map_err(failed)?;
    measured.map_err(failed)?
}

/// Measures events of each sort; `kernel` puts the patch there, and is part of what is measured.
pub fn events(
    node: &mut Node,
    count: usize,
    kernel: &mut dyn FnMut(&Transition) -> io::Result<()>,
) -> io::Result<Vec<Times>> {
    let mut times = Vec::new();
    for (what, local, label) in
        [("a pod elsewhere starts, and goes", false, "app-2"), ("a pod here starts, and goes", true, "app-1")]
    {
        let mut own =
            Times { what, all: Vec::with_capacity(2 * count), elements: 0, structural: 0, guarded: 0 };
        for at in 0..count {
            let number = u32::try_from(at).unwrap_or(0);
            let pod = pod(number % NAMESPACES, PODS + number, label, local);
            for event in [Event::Apply(Item::Pod(pod.clone())), Event::Delete(Item::Pod(pod).key())] {
                let start = Instant::now();
                let Some(transition) = node.follow(event) else { continue };
                kernel(&transition)?;
                own.all.push(start.elapsed());
                own.elements = own.elements.max(transition.patch.moves());
                own.structural += usize::from(!transition.patch.is_elements_only());
                own.guarded += usize::from(transition.guard.is_some());
                black_box(&transition);
            }
        }
        times.push(own);
    }
    Ok(times)
}

/// The figures as a table.
fn table(node: &Node, made: Duration, loaded: Option<Duration>, times: &[Times]) -> String {
    let program = node.live.program();
    let elements: usize = program.sets.values().map(|set| set.elements.len()).sum();
    let mut out = format!(
        "the program of a node with 200 pods, in a cluster of 100,000: made in {} ms; {} chains, {} sets and maps, {elements} \
         elements, {} KiB of text\n\n",
        made.as_millis(),
        program.chains.len(),
        program.sets.len(),
        program.replace().len() / 1024
    );
    match loaded {
        Some(loaded) => {
            let _ = writeln!(out, "loaded by nft in {} ms; events on to the kernel\n", loaded.as_millis());
        }
        None => out.push_str("events up to the patch for the kernel\n\n"),
    }
    let _ = writeln!(
        out,
        "{:<36}{:>10}{:>10}{:>10}{:>12}{:>12}{:>10}",
        "event", "median", "p99", "max", "elements", "structural", "guarded"
    );
    for Times { what, all, elements, structural, guarded } in times {
        let mut sorted: Vec<u64> =
            all.iter().map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)).collect();
        sorted.sort_unstable();
        let at = |part: usize| sorted.get(sorted.len() * part / 100).or(sorted.last()).copied().unwrap_or(0);
        let _ = writeln!(
            out,
            "{what:<36}{:>10}{:>10}{:>10}{elements:>12}{structural:>12}{guarded:>10}",
            nanoseconds(at(50)),
            nanoseconds(at(99)),
            nanoseconds(at(100)),
        );
    }
    out
}

fn items() -> Vec<Item> {
    let mut items = Vec::new();
    let mut policies = String::new();
    for namespace in 0..NAMESPACES {
        let name = name(namespace);
        items.push(Item::Namespace(Namespace {
            labels: Labels::new([("kubernetes.io/metadata.name".into(), name.clone())]),
            name: name.clone(),
            at: None,
        }));
        for number in 0..PODS {
            let label =
                if number % 10 == 9 { "front" } else { ["app-0", "app-1", "app-2"][number as usize % 3] };
            items.push(Item::Pod(pod(namespace, number, label, number < 2)));
        }
        let _ = write!(
            policies,
            "{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: own, namespace: {name}}}, spec: \
             {{podSelector: {{}}, ingress: [{{from: [{{podSelector: {{matchLabels: {{app: app-2}}}}}}], ports: [{{port: 80}}]}}]}}}}\n\
             ---\n{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: front, namespace: {name}}}, spec: \
             {{podSelector: {{matchLabels: {{app: app-0}}}}, ingress: [{{from: [{{namespaceSelector: {{}}, podSelector: \
             {{matchLabels: {{app: front}}}}}}], ports: [{{port: 8080}}, {{port: 9090}}]}}]}}}}\n\
             ---\n{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: all, namespace: {name}}}, spec: \
             {{podSelector: {{matchLabels: {{app: app-1}}}}, ingress: [{{from: [{{namespaceSelector: {{}}}}], ports: [{{port: 443}}]}}]}}}}\n---\n"
        );
    }
    let (mut world, mut found) = (World::default(), Vec::new());
    load(&Source::new("policies.yaml", policies), &Limits::default(), &mut world, &mut found);
    items.extend(world.into_objects().policies.into_iter().map(Item::Policy));
    items
}

fn name(namespace: u32) -> SmolStr {
    format_smolstr!("ns-{namespace}")
}

fn pod(namespace: u32, number: u32, label: &str, here: bool) -> Pod {
    let address = 0x0a00_0000 + (namespace << 16) + number + 1;
    Pod {
        namespace: name(namespace),
        name: format_smolstr!("pod-{number}"),
        labels: Labels::new([("app".into(), label.into())]),
        addresses: vec![IpAddr::V4(Ipv4Addr::from_bits(address))],
        node: Some(if here { NODE.into() } else { format_smolstr!("node-{}", number % 500) }),
        ready: true,
        account: SmolStr::new_static("default"),
        ..Pod::default()
    }
}
