//! `palisade exposure`.

use std::fmt::Write;
use std::net::IpAddr;

use palisade_analysis::exposure::{Exposed, Exposure};
use palisade_analysis::lint::dangling;
use palisade_analysis::map::{Level, Map, connections};
use palisade_analysis::reach::cells::Cells;
use palisade_analysis::reach::cuts::Cuts;
use palisade_analysis::reach::traffic_set::{TrafficId, Traffics};
use palisade_model::policy::Direction;
use palisade_model::snapshot::Snapshot;
use serde::Serialize;

use super::diff::{evaluation, families};
use super::reservations::reservations;
use super::{UNANSWERED, YES};
use crate::Outcome;
use crate::cli::{ColorChoice, DirectionArg, ExposureArgs, ExposureOutput};
use crate::input;
use crate::print::json;
use crate::print::peers::{Allowed, Range, Workload, outside};
use crate::print::style::Look;

/// All of it, in JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Document {
    exposure: Vec<Row>,
}

/// One workload in one direction.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct Row {
    workload: Workload,
    direction: &'static str,
    /// Whether any policy applies to it in this direction.
    protected: bool,
    /// Pods that do not exist yet.
    pods: Vec<Pods>,
    /// Addresses outside.
    outside: Vec<Addresses>,
    /// Whether selections combine in more ways than are told apart: `pods` is empty then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    too_many: bool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Pods {
    who: String,
    allowed: Allowed,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Addresses {
    range: Range,
    allowed: Allowed,
}

pub fn run(arguments: &ExposureArgs, color: ColorChoice) -> Outcome {
    let errors = Look::stderr(color);
    match answer(arguments, color, errors) {
        Ok(outcome) => outcome,
        Err(message) => Outcome {
            out: String::new(),
            err: format!("{} {message}\n", errors.bad("error:")),
            code: UNANSWERED,
        },
    }
}

fn answer(arguments: &ExposureArgs, color: ColorChoice, errors: Look) -> Result<Outcome, String> {
    let options = evaluation(&arguments.reading)?;
    let mut read = input::read(&arguments.input.files);
    if let Some(refusal) = read.refusal() {
        return Err(refusal);
    }
    let snapshot = Snapshot::new(input::world(&mut read, arguments.thorium).into_objects());
    read.found.extend(dangling(&snapshot));
    let cuts = Cuts::of([&snapshot]);
    let mut cells = Cells::new(cuts.line().clone());
    let level = if arguments.reading.pods { Level::Pods } else { Level::Workloads };
    let map = Map::new(&snapshot, &options, level, &cuts, &mut cells);
    let wanted = families(arguments.reading.family, [&map], &cuts);
    let meant: Vec<usize> = (0..map.workloads.len())
        .filter(|at| {
            let name = &map.workloads[*at].name;
            (arguments.namespaces.is_empty() || arguments.namespaces.iter().any(|own| *own == name.namespace))
                && (arguments.focus.is_empty() || arguments.focus.contains(&name.to_string()))
        })
        .collect();
    if meant.is_empty() {
        let names = map.workloads.iter().map(|workload| workload.name.to_string()).collect::<Vec<_>>();
        let asked = arguments.focus.first().or(arguments.namespaces.first()).cloned().unwrap_or_default();
        let near = palisade_model::nearest::nearest(&asked, names.iter().map(String::as_str)).join(", ");
        let help = if near.is_empty() { String::new() } else { format!("\n  did you mean {near}?") };
        let place = input::describe(&arguments.input.files);
        return Err(format!("no workload {asked} in {place}{help}"));
    }
    let directions: &[Direction] = match arguments.direction {
        None => &[Direction::Ingress, Direction::Egress],
        Some(DirectionArg::Ingress) => &[Direction::Ingress],
        Some(DirectionArg::Egress) => &[Direction::Egress],
    };
    let mut exposure = Exposure::new(&map);
    let look = Look::stdout(color);
    let (mut out, mut rows) = (String::new(), Vec::new());
    for workload in meant {
        if arguments.output == ExposureOutput::Text {
            let name = &map.workloads[workload].name;
            let _ = writeln!(
                out,
                "{} {}",
                look.strong(&name.to_string()),
                look.quiet(&format!("({})", name.kind))
            );
        }
        for direction in directions {
            let exposed = exposure.of(workload, *direction, &wanted, &cuts, &mut cells);
            match arguments.output {
                ExposureOutput::Text => text(&exposed, &cells, look, &mut out),
                ExposureOutput::Json => rows.push(row(&map, &exposed, &cells)),
            }
        }
    }
    if arguments.output == ExposureOutput::Json {
        out = json::print(&Document { exposure: rows });
    }
    Ok(Outcome { out, err: reservations(&read.found, errors), code: YES })
}

fn text(exposed: &Exposed, cells: &Cells, look: Look, out: &mut String) {
    let (verb, end) = match exposed.direction {
        Direction::Ingress => ("accepts", "from"),
        Direction::Egress => ("sends", "to"),
    };
    if !exposed.protected {
        let _ = writeln!(out, "  {verb} all {end} anybody   {}", look.warning("no policy applies"));
        return;
    }
    let said = |traffic: TrafficId| connections(traffic, cells).to_string();
    let mut lines: Vec<(String, String)> = Vec::new();
    match &exposed.pods {
        Ok(pods) => lines.extend(pods.iter().map(|(who, gets)| (said(*gets), who.clone()))),
        Err(_) => {
            lines.push(("?".to_owned(), "pods: selections combine in too many ways to tell".to_owned()));
        }
    }
    let mut ranges: Vec<(TrafficId, Vec<(IpAddr, IpAddr)>)> = Vec::new();
    for (first, last, gets) in &exposed.outside {
        match ranges.iter_mut().find(|(known, _)| known == gets) {
            Some((_, list)) => list.push((*first, *last)),
            None => ranges.push((*gets, vec![(*first, *last)])),
        }
    }
    if ranges.is_empty() {
        lines.push((said(Traffics::EMPTY), "addresses outside".to_owned()));
    }
    lines.extend(ranges.into_iter().map(|(gets, list)| (said(gets), outside(&list))));
    let width = lines.iter().map(|(what, _)| what.chars().count()).max().unwrap_or(0).min(40);
    for (what, who) in lines {
        let pad = " ".repeat(width.saturating_sub(what.chars().count()));
        let _ = writeln!(out, "  {verb} {what}{pad}  {end} {who}");
    }
}

fn row(map: &Map<'_>, exposed: &Exposed, cells: &Cells) -> Row {
    let allowed = |traffic: TrafficId| Allowed::from(&connections(traffic, cells));
    let pods = exposed.pods.as_ref().map(Vec::as_slice).unwrap_or_default();
    Row {
        workload: Workload::from(&map.workloads[exposed.workload].name),
        direction: exposed.direction.as_str(),
        protected: exposed.protected,
        pods: pods.iter().map(|(who, gets)| Pods { who: who.clone(), allowed: allowed(*gets) }).collect(),
        outside: exposed
            .outside
            .iter()
            .map(|(from, to, gets)| Addresses {
                range: Range { from: *from, to: *to },
                allowed: allowed(*gets),
            })
            .collect(),
        too_many: exposed.pods.is_err(),
    }
}
