//! Exposure of workloads to pods that could exist and to outside addresses, as text and JSON.

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_analysis::exposure::WorkloadExposure;
use palisade_analysis::map::{Map, WorkloadName, connections};
use palisade_analysis::reach::cells::Cells;
use palisade_analysis::reach::traffics::{TrafficId, Traffics};
use palisade_analysis::space::Witness;
use palisade_model::label::Labels;
use palisade_model::policy::Direction;
use palisade_model::snapshot::Snapshot;
use serde::Serialize;

use super::caveats;
use super::json::DiagnosticJson;
use super::peers::{AddressRangeJson, AllowedJson, WorkloadJson, describe_ranges};
use super::style::Look;
use crate::text::{NL, Text};

/// All of it, in JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Document"))]
#[serde(rename_all = "camelCase")]
pub struct ExposureJson {
    #[allow(missing_docs, reason = "a comment would be a description in docs/schemas")]
    pub exposure: Vec<ExposureRowJson>,
    /// What of the input makes the answer less sure: errors, and what was left out or read as something else.
    pub input_problems: Vec<DiagnosticJson>,
}

/// One workload in one direction.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Row"))]
#[serde(rename_all = "camelCase")]
pub struct ExposureRowJson {
    workload: WorkloadJson,
    direction: &'static str,
    /// Whether any policy applies to any of its pods in this direction.
    protected: bool,
    /// Pods that do not exist yet: every one of them is in exactly one of these.
    pods: Vec<NewcomersJson>,
    /// Addresses outside; those that get nothing are left out.
    outside: Vec<AddressesJson>,
    /// Whether selections combine in more ways than are told apart: `pods` is empty then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    too_many: bool,
    /// Rules that depend on more than addresses and ports: on names whose addresses are not known, or on layer 7.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// Pods that get the same.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Pods"))]
struct NewcomersJson {
    /// Who they are, in words.
    who: String,
    /// One of them, as plain as it can be.
    example: WitnessJson,
    /// What some pods of the workload accept from them, or send them.
    allowed: AllowedJson,
    /// `false` where pods of the workload are not alike, and `allowed` is what some of them do.
    #[serde(skip_serializing_if = "Option::is_none")]
    uniform: Option<bool>,
}

/// A pod that does not exist.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Example"))]
#[serde(rename_all = "camelCase")]
struct WitnessJson {
    namespace: String,
    namespace_labels: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
    service_account: String,
}

/// Addresses that get the same.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Addresses"))]
struct AddressesJson {
    range: AddressRangeJson,
    /// What some pods of the workload accept from them, or send them.
    allowed: AllowedJson,
    /// `false` where pods of the workload are not alike, and `allowed` is what some of them do.
    #[serde(skip_serializing_if = "Option::is_none")]
    uniform: Option<bool>,
}

/// Traffic of some pods, and whether it is that of all: ranges with the same key share a line.
type GroupKey = (TrafficId, bool);

// === impl Row ===

impl ExposureRowJson {
    /// Creates the row of a workload in one direction.
    pub fn new(map: &Map<'_>, exposed: &WorkloadExposure, cells: &Cells) -> Self {
        let allowed = |traffic: TrafficId| AllowedJson::from(&connections(traffic, cells));
        let text_of = |uniform: bool| (!uniform).then_some(false);
        let pods = exposed.pods.as_ref().map(Vec::as_slice).unwrap_or_default().iter();
        let addresses = exposed.outside.iter();
        ExposureRowJson {
            workload: WorkloadJson::from(&map.workloads[exposed.workload].name),
            direction: exposed.direction.as_str(),
            protected: exposed.protected,
            pods: pods
                .map(|one| NewcomersJson {
                    who: one.who.clone(),
                    example: WitnessJson::from(&one.example),
                    allowed: allowed(one.allowed),
                    uniform: text_of(one.uniform),
                })
                .collect(),
            outside: addresses
                .map(|one| AddressesJson {
                    range: AddressRangeJson { from: one.first, to: one.last },
                    allowed: allowed(one.allowed),
                    uniform: text_of(one.uniform),
                })
                .collect(),
            too_many: exposed.pods.is_err(),
            notes: exposed.caveats.iter().map(|caveat| caveats::describe(map.snapshot, caveat)).collect(),
        }
    }
}

impl From<&Witness> for WitnessJson {
    fn from(witness: &Witness) -> Self {
        let labels =
            |labels: &Labels| labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        WitnessJson {
            namespace: witness.namespace.name.to_string(),
            namespace_labels: labels(&witness.namespace.labels),
            labels: labels(&witness.labels),
            service_account: witness.account.to_string(),
        }
    }
}

/// Prints the heading of a workload.
pub fn heading(name: &WorkloadName, look: Look) -> Text {
    text!("{} {}{NL}", look.strong(name), look.quiet(format_args!("({})", name.kind)))
}

/// Prints the exposure of a workload in one direction, a line for each class of peers.
pub fn text(snapshot: &Snapshot, exposed: &WorkloadExposure, cells: &Cells, look: Look) -> Text {
    let mut out = Text::new();
    let (verb, end) = match exposed.direction {
        Direction::Ingress => ("accepts", "from"),
        Direction::Egress => ("sends", "to"),
    };
    if !exposed.protected {
        write_line!(out, "  {verb} all {end} anybody   {}", look.warning("no policy applies"));
        return out;
    }
    let text_of = |traffic: TrafficId, uniform: bool| {
        let some = if uniform { "" } else { " (some pods)" };
        format!("{}{some}", connections(traffic, cells))
    };
    let mut lines: Vec<(String, String)> = Vec::new();
    match &exposed.pods {
        Ok(pods) => lines.extend(pods.iter().map(|one| (text_of(one.allowed, one.uniform), one.who.clone()))),
        Err(_) => {
            lines.push(("?".to_owned(), "pods: selections combine in too many ways to tell".to_owned()));
        }
    }
    let mut ranges: Vec<(GroupKey, Vec<(IpAddr, IpAddr)>)> = Vec::new();
    for one in &exposed.outside {
        let (allowed, range) = ((one.allowed, one.uniform), (one.first, one.last));
        match ranges.iter_mut().find(|(known, _)| *known == allowed) {
            Some((_, list)) => list.push(range),
            None => ranges.push((allowed, vec![range])),
        }
    }
    if ranges.is_empty() {
        lines.push((text_of(Traffics::EMPTY, true), "addresses outside".to_owned()));
    }
    lines.extend(
        ranges
            .into_iter()
            .map(|((allowed, uniform), list)| (text_of(allowed, uniform), describe_ranges(&list))),
    );
    let width = lines.iter().map(|(what, _)| what.chars().count()).max().unwrap_or(0).min(40);
    for (what, who) in lines {
        let pad = " ".repeat(width.saturating_sub(what.chars().count()));
        write_line!(out, "  {verb} {what}{pad}  {end} {who}");
    }
    out.push(&caveats::notes(snapshot, &exposed.caveats, 2, look));
    out
}
