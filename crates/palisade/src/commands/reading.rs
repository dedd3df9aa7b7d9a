//! How `map`, `diff`, `query` and `exposure` read a cluster: what their options mean, alike in all of them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_analysis::map::{Level, Map};
use palisade_analysis::reach::cuts::Cuts;
use palisade_dialects::codes;
use palisade_model::address::Family;
use palisade_model::diagnostic::Diagnostic;
use palisade_model::options::Options;
use palisade_model::snapshot::Objects;

use super::explain::options;
use crate::cli::{Families, IpBlocks, MapOptions};
use crate::print::text::Text;

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
        Families::Auto if maps.iter().any(|map| map.speaks_six(cuts)) => vec![Family::V4, Family::V6],
        Families::Auto => vec![Family::V4],
    }
}

/// Adds what names stand for, besides what manifests say.
pub fn add_names(objects: &mut Objects, names: &BTreeMap<String, Vec<IpAddr>>) {
    for (name, addresses) in names {
        objects.names.entry(name.clone()).or_default().extend(addresses);
    }
}

/// Says that source ports are not told apart, where there are too many.
pub fn many_source_ports(cuts: &Cuts) -> Option<Diagnostic> {
    let message =
        "rules tell more than 1,024 ranges of source ports apart: this is about connections that name none";
    cuts.coarse.then(|| Diagnostic::new(&codes::LIMIT, message))
}
