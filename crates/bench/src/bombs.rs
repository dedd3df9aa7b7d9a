//! Small inputs that ask for much: what reading them to the answer takes at most, in instructions and in memory.
//!
//! Each is a file under 1 MB that once took minutes or gigabytes, and a question about it. The limits are far above what
//! an answer takes today and far below what it took: `scripts/instructions` fails where one is exceeded. What comes of
//! a bomb is an answer that says what it left out; that it does is tested with the commands.

use std::fmt::Write;
use std::ops::ControlFlow;

use clap::ValueEnum;
use palisade_analysis::diff::{ChangeFilter, Diff, DiffFindings, PotentialDifferences, policies_of};
use palisade_analysis::exposure::Exposure;
use palisade_analysis::map::{self, Level, Map};
use palisade_analysis::query::answer;
use palisade_analysis::reach::cells::Cells;
use palisade_analysis::reach::cuts::Cuts;
use palisade_analysis::work::Work;
use palisade_convert::{ConversionRequest, Originals, TargetDialect, convert};
use palisade_dialects::load::load;
use palisade_dialects::source::{Limits, Source};
use palisade_dialects::world::World;
use palisade_engine::Engine;
use palisade_lint::lint;
use palisade_model::address::Family;
use palisade_model::flow::Flow;
use palisade_model::options::Options;
use palisade_model::policy::Direction;
use palisade_model::snapshot::Snapshot;
use palisade_model::verdicts::Verdicts;
use palisade_nftables::compile::{Compiler, Wiring};

/// An input and a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Bomb {
    /// 2,500 NetworkPolicies, converted to their own dialect.
    ConvertPolicies,
    /// 60 AdminNetworkPolicies that select by labels pods do not have, converted to NetworkPolicies.
    ConvertNegations,
    /// 1,700 AdminNetworkPolicies of one priority, converted to ClusterNetworkPolicies.
    ConvertTies,
    /// 200 groups of 400 groups, of which no pod is a member, checked.
    CheckGroups,
    /// 400 pods and 500 policies that each select nearly all of them, with port ranges that overlap: their map.
    MapNegations,
    /// The same, compared with itself and one policy more.
    DiffNegations,
    /// The same, asked whether everything is open.
    QueryNegations,
    /// 1,200 policies that let in whoever lacks a label, each another one: what a workload is exposed to.
    ExposureNegations,
    /// 700 pods and 700 policies that each select nearly all of them: every pod to every pod.
    VerdictsNegations,
    /// 400 nodes and 400 rules for all of them, each about a block but for two addresses, with a port of its own: their map.
    MapExceptions,
    /// The pods and policies of `MapNegations` on one node: its program.
    CompileNegations,
    /// 4,000 Pass rules about all addresses but two, with port ranges that overlap: the program of a node.
    CompileExceptions,
    /// 3,000 Services that rules name: the program of a node.
    CompileServices,
    /// A text of 400 kB and 30,000 aliases of it, read.
    ReadAliases,
}

/// What an answer may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Millions of instructions.
    pub instructions: u64,
    /// MiB of memory.
    pub memory: u64,
}

/// Steps that answers may take here. A hundredth of what commands allow would show the same: that they end.
const STEPS: u64 = 300_000_000;

// === impl Bomb ===

impl Bomb {
    /// What its answer may take.
    pub fn limit(self) -> Limit {
        let (instructions, memory) = match self {
            Bomb::ConvertPolicies => (20_000, 300),
            Bomb::ConvertNegations => (8_000, 300),
            Bomb::ConvertTies => (20_000, 300),
            Bomb::CheckGroups => (8_000, 300),
            Bomb::MapNegations | Bomb::QueryNegations => (3_000, 300),
            Bomb::DiffNegations => (10_000, 500),
            Bomb::ExposureNegations => (20_000, 500),
            Bomb::VerdictsNegations => (20_000, 300),
            Bomb::MapExceptions => (3_000, 100),
            Bomb::CompileNegations | Bomb::CompileExceptions | Bomb::CompileServices => (5_000, 300),
            Bomb::ReadAliases => (3_000, 200),
        };
        Limit { instructions, memory }
    }

    /// The manifest.
    pub fn text(self) -> String {
        let objects = match self {
            Bomb::ConvertPolicies => (0..2_500).map(peaceful).collect(),
            Bomb::ConvertNegations => (0..60).map(negating).collect(),
            Bomb::ConvertTies => (0..1_700).map(tied).collect(),
            Bomb::CheckGroups => groups(),
            Bomb::MapNegations | Bomb::DiffNegations | Bomb::QueryNegations => excluding(400, 500),
            Bomb::ExposureNegations => lacking(1_200),
            Bomb::VerdictsNegations => excluding(700, 700),
            Bomb::MapExceptions => node_rules(400),
            Bomb::CompileNegations => excluding(400, 500),
            Bomb::CompileExceptions => passing(4_000),
            Bomb::CompileServices => services(3_000),
            Bomb::ReadAliases => return aliases(400_000, 30_000),
        };
        let text = format!(r#"{{"apiVersion":"v1","kind":"List","items":[{}]}}"#, objects.join(","));
        assert!(text.len() < 1_000_000, "a bomb is a file under 1 MB");
        text
    }

    /// Asks once. What it returns says that something came of it.
    pub fn run(self) -> usize {
        let source = Source::new("bomb", self.text());
        let mut world = World::default();
        let mut found = Vec::new();
        load(&source, &Limits::default(), &mut world, &mut found);
        let convert = |to: TargetDialect| {
            let request = ConversionRequest { to, from: Vec::new(), partial: true };
            match convert(&world, &Originals::read([&source]), &request) {
                Ok(conversion) => conversion.objects.len() + conversion.diagnostics.len(),
                Err(_) => 1,
            }
        };
        match self {
            Bomb::ConvertPolicies | Bomb::ConvertNegations => convert(TargetDialect::NetworkPolicy),
            Bomb::ConvertTies => convert(TargetDialect::ClusterNetworkPolicy),
            Bomb::CheckGroups => lint(&Snapshot::new(world.into_objects())).len(),
            Bomb::MapNegations | Bomb::MapExceptions => of_map(&world, |map, cuts, cells| {
                let select = map::RowFilter { families: vec![Family::V4], ..map::RowFilter::default() };
                let mut rows = 0;
                let told = map.rows(&select, cuts, cells, |_, _| {
                    rows += 1;
                    ControlFlow::Continue(())
                });
                rows + map.left_out.len() + told.continue_value().map_or(0, |told| told.left_out)
            }),
            Bomb::QueryNegations => of_map(&world, |map, cuts, cells| {
                let Ok(query) = "d/* -> d/* is full".parse() else { return 0 };
                answer(map, &query, &[Family::V4], cuts, cells)
                    .map_or(1, |found| found.pairs + found.left_out)
            }),
            Bomb::ExposureNegations => of_map(&world, |map, cuts, cells| {
                let mut exposure = Exposure::new(map);
                let exposed = exposure.of(0, Direction::Ingress, &[Family::V4], cuts, cells);
                exposed.outside.len() + exposed.pods.map_or(1, |pods| pods.len())
            }),
            Bomb::DiffNegations => of_diff(&world),
            Bomb::ReadAliases => found.len(),
            Bomb::VerdictsNegations => {
                let (snapshot, options) = (Snapshot::new(world.into_objects()), Options::default());
                let verdicts = Verdicts::new(&snapshot, &options);
                let Ok(pattern) = "d/* -> d/* tcp/80".parse() else { return 0 };
                let flows: Vec<Flow> = snapshot.flows(&pattern).unwrap_or_default();
                let weight: u64 = flows.iter().map(|flow| verdicts.weight(flow)).sum();
                usize::try_from(weight).unwrap_or(usize::MAX)
            }
            Bomb::CompileNegations | Bomb::CompileExceptions | Bomb::CompileServices => {
                let objects = world.into_objects();
                let view = Engine::of(&objects, &Snapshot::new(objects.clone())).view();
                let live = Compiler::limited(view.part_of(NODE), NODE, Wiring::new(), STEPS);
                live.program().chains.len() + live.lacks().len()
            }
        }
    }
}

fn of_map(world: &World, ask: impl FnOnce(&Map<'_>, &Cuts, &mut Cells) -> usize) -> usize {
    let (snapshot, options) = (Snapshot::new(world.objects()), Options::default());
    let cuts = Cuts::of([&snapshot]);
    let mut cells = Cells::limited(cuts.space().clone(), Work::new(STEPS));
    let map = Map::new(&snapshot, &options, Level::Pods, &cuts, &mut cells);
    ask(&map, &cuts, &mut cells)
}

fn of_diff(world: &World) -> usize {
    let mut more = world.clone();
    let closed = r#"{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"more","namespace":"d"},"spec":{"podSelector":{},"policyTypes":["Egress"]}}"#;
    load(&Source::new("more.json", closed.to_owned()), &Limits::default(), &mut more, &mut Vec::new());
    let (before, after) = (world.objects(), more.objects());
    let beyond = PotentialDifferences::of(&policies_of(&before), &policies_of(&after), None);
    let (before, after) = (Snapshot::new(before), Snapshot::new(after));
    let cuts = Cuts::of([&before, &after]);
    let mut cells = Cells::limited(cuts.space().clone(), Work::new(STEPS));
    let diff = Diff::new(&before, &after, &Options::default(), Level::Pods, &cuts, &mut cells);
    let select = ChangeFilter { ignore_self: false, families: vec![Family::V4] };
    let findings = DiffFindings::of(&diff, &select, &cuts, &mut cells);
    findings.opened
        + findings.closed
        + findings.unseen
        + diff.left_out.len()
        + usize::from(beyond.proof.is_none())
}

/// Where the pods are.
const NODE: &str = "n0";

fn pod(name: &str, labels: &str, at: usize) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","namespace":"d","labels":{{{labels}}}}},"spec":{{"nodeName":"{NODE}"}},"status":{{"podIP":"10.0.{}.{}"}}}}"#,
        at / 250,
        at % 250 + 1
    )
}

/// A NetworkPolicy that selects by a label of its own.
fn peaceful(at: usize) -> String {
    format!(
        r#"{{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{{"name":"p{at}","namespace":"d"}},"spec":{{"podSelector":{{"matchLabels":{{"a":"{at}"}}}},"ingress":[{{"from":[{{"podSelector":{{"matchLabels":{{"b":"{at}"}}}}}}],"ports":[{{"port":{}}}]}}]}}}}"#,
        at + 1
    )
}

/// An AdminNetworkPolicy for pods that lack labels of its own.
fn negating(at: usize) -> String {
    let lacking = |one: &str, other: &str| {
        format!(
            r#"{{"pods":{{"namespaceSelector":{{}},"podSelector":{{"matchExpressions":[{{"key":"{one}{at}","operator":"NotIn","values":["x","y"]}},{{"key":"{other}{at}","operator":"DoesNotExist"}}]}}}}}}"#
        )
    };
    format!(
        r#"{{"apiVersion":"policy.networking.k8s.io/v1alpha1","kind":"AdminNetworkPolicy","metadata":{{"name":"p{at}"}},"spec":{{"priority":{at},"subject":{},"ingress":[{{"name":"a","action":"Allow","from":[{}],"ports":[{{"portNumber":{{"protocol":"TCP","port":{}}}}}]}},{{"name":"b","action":"Deny","from":[{{"namespaces":{{}}}}]}}]}}}}"#,
        lacking("k", "l"),
        lacking("m", "n"),
        at + 1
    )
}

/// An AdminNetworkPolicy whose priority all others have, too.
fn tied(at: usize) -> String {
    let labelled = |key: &str| {
        format!(
            r#"{{"pods":{{"namespaceSelector":{{}},"podSelector":{{"matchLabels":{{"{key}":"{at}"}}}}}}}}"#
        )
    };
    format!(
        r#"{{"apiVersion":"policy.networking.k8s.io/v1alpha1","kind":"AdminNetworkPolicy","metadata":{{"name":"p{at}"}},"spec":{{"priority":7,"subject":{},"egress":[{{"name":"a","action":"{}","to":[{}],"ports":[{{"portNumber":{{"protocol":"TCP","port":{}}}}}]}}]}}}}"#,
        labelled("a"),
        if at.is_multiple_of(2) { "Deny" } else { "Allow" },
        labelled("b"),
        at + 1
    )
}

/// Groups of groups, policies for each, and pods that are in none of them.
fn groups() -> Vec<String> {
    let object = |kind: &str, name: String, spec: String| {
        format!(
            r#"{{"apiVersion":"crd.antrea.io/v1beta1","kind":"{kind}","metadata":{{"name":"{name}"}},"spec":{{{spec}}}}}"#
        )
    };
    let children = (0..400).fold(String::new(), |mut all, at| {
        let _ = write!(all, r#"{}"c{at}""#, if at == 0 { "" } else { "," });
        all
    });
    let child = |at: usize| {
        object("ClusterGroup", format!("c{at}"), format!(r#""podSelector":{{"matchLabels":{{"a":"{at}"}}}}"#))
    };
    let parent =
        |at: usize| object("ClusterGroup", format!("g{at}"), format!(r#""childGroups":[{children}]"#));
    let policy = |at: usize| {
        let spec = format!(
            r#""priority":{},"appliedTo":[{{"group":"g{at}"}}],"ingress":[{{"action":"Drop","from":[{{"group":"g{}"}}]}}]"#,
            at % 100 + 1,
            at * 7 % 200
        );
        object("ClusterNetworkPolicy", format!("p{at}"), spec)
    };
    let pods = (0..500).map(|at| pod(&format!("p{at}"), &format!(r#""b":"{at}""#), at));
    (0..400).map(child).chain((0..200).map(parent)).chain((0..200).map(policy)).chain(pods).collect()
}

/// Pods with a label each, and policies for all but one of them, whose peers are all but another.
fn excluding(pods: usize, policies: usize) -> Vec<String> {
    let but = |at: usize| {
        format!(r#"{{"matchExpressions":[{{"key":"a","operator":"NotIn","values":["{}"]}}]}}"#, at % pods)
    };
    let policy = |at: usize| {
        format!(
            r#"{{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{{"name":"n{at}","namespace":"d"}},"spec":{{"podSelector":{},"ingress":[{{"from":[{{"podSelector":{}}}],"ports":[{{"port":{},"endPort":{}}}]}}],"egress":[{{"to":[{{"podSelector":{}}}],"ports":[{{"port":{}}}]}}],"policyTypes":["Ingress","Egress"]}}}}"#,
            but(at),
            but(at * 3),
            1 + at * 7 % 60_000,
            1 + at * 7 % 60_000 + at * 31 % 3_000,
            but(at * 5),
            1 + at * 3 % 60_000
        )
    };
    let pods = (0..pods).map(|at| pod(&format!("p{at}"), &format!(r#""a":"{at}""#), at));
    pods.chain((0..policies).map(policy)).collect()
}

/// Nodes, and rules for all of them about all of them but two each.
fn node_rules(count: usize) -> Vec<String> {
    let address = |at: usize| format!("172.18.{}.{}", at / 250, at % 250 + 1);
    let node = |at: usize| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"n{at}"}},"status":{{"addresses":[{{"type":"InternalIP","address":"{}"}}]}}}}"#,
            address(at)
        )
    };
    let policy = |at: usize| {
        let rule = |peers: &str| {
            format!(
                r#""action":"{}","{peers}":[{{"ipBlock":{{"cidr":"172.18.0.0/16","except":["{}/32","{}/32"]}}}}],"ports":[{{"protocol":"TCP","port":{}}}]"#,
                if at.is_multiple_of(2) { "Drop" } else { "Allow" },
                address(at),
                address(at * 7 % count),
                2 * at + 1
            )
        };
        antrea_policy(
            at,
            &format!(
                r#""appliedTo":[{{"nodeSelector":{{}}}}],"ingress":[{{{}}}],"egress":[{{{}}}]"#,
                rule("from"),
                rule("to")
            ),
        )
    };
    let pod = std::iter::once(pod("w", r#""x":"1""#, 0));
    pod.chain((0..count).map(node)).chain((0..count).map(policy)).collect()
}

fn antrea_policy(at: usize, spec: &str) -> String {
    format!(
        r#"{{"apiVersion":"crd.antrea.io/v1beta1","kind":"ClusterNetworkPolicy","metadata":{{"name":"p{at}"}},"spec":{{"priority":{},{spec}}}}}"#,
        at % 100 + 1
    )
}

/// A pod, and rules that pass on what comes from all addresses but two each.
fn passing(rules: usize) -> Vec<String> {
    let rule = |at: usize| {
        let (first, block) = (1 + at * 7 % 60_000, format!("{}.{}", at % 200 + 1, at / 200));
        format!(
            r#"{{"name":"r{at}","action":"Pass","from":[{{"ipBlock":{{"cidr":"0.0.0.0/0","except":["{block}.0.0/24","{block}.1.0/24"]}}}}],"ports":[{{"protocol":"TCP","port":{first},"endPort":{}}}]}}"#,
            first + at * 31 % 3_000
        )
    };
    let policy = |part: usize| {
        let rules: Vec<String> = (0..rules / 100).map(|at| rule(part * rules / 100 + at)).collect();
        antrea_policy(
            part,
            &format!(r#""appliedTo":[{{"podSelector":{{}}}}],"ingress":[{}]"#, rules.join(",")),
        )
    };
    std::iter::once(pod("w", r#""x":"1""#, 0)).chain((0..100).map(policy)).collect()
}

/// Pods, and rules about connections through Services.
fn services(count: usize) -> Vec<String> {
    let service = |at: usize| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"s{at}","namespace":"d"}},"spec":{{"clusterIP":"10.96.{}.{}","selector":{{"a":"0"}},"ports":[{{"port":80}}]}}}}"#,
            at / 250,
            at % 250 + 1
        )
    };
    let rule = |at: usize| {
        format!(
            r#"{{"name":"r{at}","action":"{}","toServices":[{{"name":"s{at}","namespace":"d"}}]}}"#,
            if at.is_multiple_of(2) { "Drop" } else { "Allow" }
        )
    };
    let rules: Vec<String> = (0..count).map(rule).collect();
    let policy =
        antrea_policy(0, &format!(r#""appliedTo":[{{"podSelector":{{}}}}],"egress":[{}]"#, rules.join(",")));
    let pods = (0..100).map(|at| pod(&format!("p{at}"), &format!(r#""a":"{at}""#), at));
    pods.chain((0..count).map(service)).chain([policy]).collect()
}

/// A pod with a long text and aliases of it for labels, in YAML.
fn aliases(bytes: usize, aliases: usize) -> String {
    let mut text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: w\n  namespace: d\n  labels:\n    first: &text |\n      {}\n",
        "y".repeat(bytes)
    );
    for at in 0..aliases {
        let _ = writeln!(text, "    a{at}: *text");
    }
    assert!(text.len() < 1_000_000, "a bomb is a file under 1 MB");
    text
}

/// A pod, and policies that let in whoever lacks a label.
fn lacking(policies: usize) -> Vec<String> {
    let policy = |at: usize| {
        format!(
            r#"{{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{{"name":"n{at}","namespace":"d"}},"spec":{{"podSelector":{{}},"ingress":[{{"from":[{{"podSelector":{{"matchExpressions":[{{"key":"k{at}","operator":"NotIn","values":["1"]}}]}}}}],"ports":[{{"port":{}}}]}}]}}}}"#,
            at + 1
        )
    };
    std::iter::once(pod("w", r#""x":"1""#, 0)).chain((0..policies).map(policy)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bomb_is_read_without_a_word_and_answered() {
        // What aliases stand for is refused.
        let is_read = |bomb: &&Bomb| **bomb != Bomb::ReadAliases;
        for bomb in Bomb::value_variants().iter().filter(is_read) {
            let source = Source::new("bomb", bomb.text());
            let (mut world, mut found) = (World::default(), Vec::new());
            load(&source, &Limits::default(), &mut world, &mut found);
            assert!(found.is_empty() && world.len() >= 60, "{bomb:?}: {found:?}");
            assert!(bomb.run() > 0, "{bomb:?}");
        }
    }

    #[test]
    fn aliases_of_a_long_text_are_refused() {
        let source = Source::new("bomb", Bomb::ReadAliases.text());
        let (mut world, mut found) = (World::default(), Vec::new());
        load(&source, &Limits::default(), &mut world, &mut found);
        assert_eq!(found.iter().map(|one| one.code.id).collect::<Vec<_>>(), ["S0003"]);
    }
}
