//! How `map`, `diff`, `query` and `exposure` read a cluster: what their options mean, alike in all of them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_analysis::diff::Proof;
use palisade_analysis::map::{Level, Map, WorkloadName};
use palisade_analysis::reach::cuts::Cuts;
use palisade_analysis::work::Work;
use palisade_dialects::codes;
use palisade_model::address::Family;
use palisade_model::diagnostic::Diagnostic;
use palisade_model::options::Options;
use palisade_model::snapshot::Objects;
use palisade_report::diagnostics::plural;
use palisade_report::text::Text;

use super::explain::options;
use crate::cli::{Families, IpBlocks, MapOptions};
use crate::input::Input;

/// The options of evaluation.
pub fn evaluation(reading: &MapOptions) -> Result<Options, Text> {
    let mut options = options(&reading.options)?;
    if reading.ip_blocks == IpBlocks::OutsideOnly {
        options.ip_block_matches_pods = false;
    }
    Ok(options)
}

/// What rows stand for.
pub fn level(reading: &MapOptions) -> Level {
    match (reading.pods, reading.by_deployment) {
        (true, _) => Level::Pods,
        (_, true) => Level::Makers,
        _ => Level::Workloads,
    }
}

/// The families of outside addresses that are told.
pub fn families<const N: usize>(wanted: Families, maps: [&Map<'_>; N], cuts: &Cuts) -> Vec<Family> {
    match wanted {
        Families::Ipv4 => vec![Family::V4],
        Families::Ipv6 => vec![Family::V6],
        Families::Both => vec![Family::V4, Family::V6],
        Families::Auto if maps.iter().any(|map| map.uses_ipv6(cuts)) => vec![Family::V4, Family::V6],
        Families::Auto => vec![Family::V4],
    }
}

/// Adds what names stand for, besides what manifests say.
pub fn add_names(objects: &mut Objects, names: &BTreeMap<String, Vec<IpAddr>>) {
    for (name, addresses) in names {
        objects.names.entry(name.clone()).or_default().extend(addresses);
    }
}

/// Workloads that are named where they are left out.
const NAMED: usize = 3;

/// How much work an answer about these inputs may take.
pub fn work<'i>(inputs: impl IntoIterator<Item = &'i Input>) -> Work {
    let sources = inputs.into_iter().flat_map(|input| &input.sources);
    Work::for_input(sources.map(|source| source.text().len()).sum())
}

/// Says which workloads an answer leaves out, because what policies say about their pods is too much to work out.
pub fn left_out<'n>(names: impl IntoIterator<Item = &'n WorkloadName>) -> Option<Diagnostic> {
    let mut names: Vec<String> = names.into_iter().map(ToString::to_string).collect();
    let count = names.len();
    names.truncate(NAMED);
    let more = if count > names.len() { ", …" } else { "" };
    let message = format!(
        "left out {}: working out what policies say about their pods takes too much work ({}{more})",
        plural(count, "workload"),
        names.join(", "),
    );
    (count > 0).then(|| Diagnostic::new(&codes::WORK, message))
}

/// Says that pods there could be were not all compared.
pub fn unproven(proof: Proof) -> Option<Diagnostic> {
    let message = format!(
        "left out {} of pods there could be: comparing them takes too much work",
        plural(proof.left_out + proof.left_out_made_up, "sort"),
    );
    (!proof.is_complete()).then(|| Diagnostic::new(&codes::WORK, message))
}

/// Says that an answer ends early.
pub fn stopped(left_out: usize) -> Option<Diagnostic> {
    let message = format!(
        "stopped: the rest of the answer takes too much work (left out what {} may do)",
        plural(left_out, "workload"),
    );
    (left_out > 0).then(|| Diagnostic::new(&codes::WORK, message))
}

/// Says that source ports are not told apart, where there are too many.
pub fn many_source_ports(cuts: &Cuts) -> Option<Diagnostic> {
    let message = "rules tell too many ranges of source ports apart (more than 1,024, or with too many ports): this is about connections that name none";
    cuts.coarse.then(|| Diagnostic::new(&codes::LIMIT, message))
}
