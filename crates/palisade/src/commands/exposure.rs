//! `palisade exposure`.

use palisade_analysis::exposure::Exposure;
use palisade_analysis::map::Map;
use palisade_analysis::reach::cells::Cells;
use palisade_analysis::reach::cuts::Cuts;
use palisade_lint::dangling;
use palisade_model::policy::Direction;
use palisade_model::snapshot::Snapshot;
use palisade_report::exposure::{ExposureJson, ExposureRowJson, heading, text};
use palisade_report::json;
use palisade_report::style::Look;
use palisade_report::text::{NL, Text};

use super::explain::names;
use super::map::{focus, namespaces};
use super::reading::{add_names, evaluation, families, left_out, level, many_source_ports, stopped, work};
use super::reservations::{reservations, weighty};
use super::{UNANSWERED, YES};
use crate::Outcome;
use crate::cli::{ColorChoice, DirectionArg, ExposureArgs, ExposureOutput};
use crate::input;
use crate::print::output::StreamLook;

/// Steps to put a range of addresses into words.
const RANGE: u64 = 10_000;

pub fn run(arguments: &ExposureArgs, color: ColorChoice) -> Outcome {
    let errors = Look::stderr(color);
    match answer(arguments, color, errors) {
        Ok(outcome) => outcome,
        Err(message) => Outcome {
            out: Text::new(),
            err: text!("{} {message}{NL}", errors.bad("error:")),
            code: UNANSWERED,
        },
    }
}

fn answer(arguments: &ExposureArgs, color: ColorChoice, errors: Look) -> Result<Outcome, Text> {
    let options = evaluation(&arguments.reading)?;
    let names = names(&arguments.dns)?;
    let mut read = input::read(&arguments.input.files);
    if let Some(refusal) = read.refusal() {
        return Err(refusal.into());
    }
    let mut objects = input::world(&mut read, arguments.thorium).into_objects();
    add_names(&mut objects, &names);
    let snapshot = Snapshot::new(objects);
    read.found.extend(dangling(&snapshot));
    let cuts = Cuts::of([&snapshot]);
    read.found.extend(many_source_ports(&cuts));
    let mut cells = Cells::limited(cuts.space().clone(), work([&read]));
    let level = level(&arguments.reading);
    let map = Map::new(&snapshot, &options, level, &cuts, &mut cells);
    read.found.extend(left_out(&map.left_out));
    let mut warnings = reservations(&read.found, errors);
    let wanted = families(arguments.reading.family, [&map], &cuts);
    // Whoever is missed may have been lost while reading.
    let meant = meant(&map, arguments).map_err(|message| match warnings.is_empty() {
        true => message,
        false => text!("{message}{NL}{}", warnings.trim_end()),
    })?;
    let directions: &[Direction] = match arguments.direction {
        None => &[Direction::Ingress, Direction::Egress],
        Some(DirectionArg::Ingress) => &[Direction::Ingress],
        Some(DirectionArg::Egress) => &[Direction::Egress],
    };
    let mut exposure = Exposure::new(&map);
    let look = Look::stdout(color);
    let (mut out, mut rows) = (Text::new(), Vec::new());
    let mut complete = map.left_out.is_empty();
    for (at, workload) in meant.iter().copied().enumerate() {
        if cells.work().is_spent() {
            let stopped = stopped(meant.len() - at);
            warnings.push(&reservations(stopped.as_slice(), errors));
            read.found.extend(stopped);
            complete = false;
            break;
        }
        if arguments.output == ExposureOutput::Text {
            out.push(&heading(&map.workloads[workload].name, look));
        }
        for direction in directions {
            let exposed = exposure.of(workload, *direction, &wanted, &cuts, &mut cells);
            cells.work().take(RANGE * (exposed.outside.len() + exposed.caveats.len()) as u64);
            match arguments.output {
                ExposureOutput::Text => out.push(&text(&snapshot, &exposed, &cells, look)),
                ExposureOutput::Json => rows.push(ExposureRowJson::new(&map, &exposed, &cells)),
            }
        }
    }
    if arguments.output == ExposureOutput::Json {
        let input_problems = weighty(&read.found).map(json::DiagnosticJson::from).collect();
        out = json::print(&ExposureJson { exposure: rows, input_problems });
    }
    Ok(Outcome { out, err: warnings, code: if complete { YES } else { UNANSWERED } })
}

/// The workloads that are asked about, by their places: as with `palisade map`.
fn meant(map: &Map<'_>, arguments: &ExposureArgs) -> Result<Vec<usize>, Text> {
    let place = input::describe(&arguments.input.files);
    if map.workloads.is_empty() {
        return Err(text!("no workloads in {place}"));
    }
    let homes = namespaces(map, &arguments.namespaces, &place)?;
    let focus = focus(map, &arguments.focus, &place)?;
    let is_meant = |at: &usize| {
        let own = &map.workloads[*at].name.namespace;
        (homes.is_empty() || homes.iter().any(|home| home == own))
            && (arguments.focus.is_empty() || focus.contains(at))
    };
    let meant: Vec<usize> = (0..map.workloads.len()).filter(is_meant).collect();
    match meant.is_empty() {
        true => Err(text!("{} is not in namespace {}", arguments.focus.join(", "), homes.join(", "))),
        false => Ok(meant),
    }
}
