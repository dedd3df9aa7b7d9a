//! `palisade map`.
//!
//! Unlike other commands it writes while it works: the map of a large cluster has more rows than anybody wants in memory.

mod asked;
mod telling;

use std::io::ErrorKind;

use palisade_analysis::map::{Map, RowFilter, with_ingress_controller};
use palisade_analysis::reach::cells::Cells;
use palisade_analysis::reach::cuts::Cuts;
use palisade_lint::dangling;
use palisade_model::address::Family;
use palisade_model::policy::Direction;
use palisade_model::snapshot::Snapshot;
use palisade_report::json;
use palisade_report::map::{
    CsvPrinter, DotPrinter, HtmlPrinter, JsonPrinter, ListPrinter, MapContext, MarkdownPrinter,
    MatrixPrinter, Printer, SvgPrinter,
};
use palisade_report::style::Look;
use palisade_report::text::{NL, Text};

use super::explain::names;
use super::reading::{add_names, evaluation, families, left_out, level, many_source_ports, stopped, work};
use super::reservations::{reservations, weighty};
use super::{UNANSWERED, YES};
use crate::Outcome;
use crate::cli::{ColorChoice, DirectionArg, MapArgs, MapOutput};
use crate::input;
use crate::print::output::{Stream, StreamLook};
use crate::print::progress::Progress;
use asked::traffic;
pub use asked::{focus, namespaces};
use telling::Telling;

/// So many kinds of workloads at most have their reasons in a page, which has them for every pair.
const MOST_EXPLAINED: usize = 400;
/// So many intervals of addresses are looked at for that.
const MOST_LOOKED_AT: usize = 200_000;

pub fn run(arguments: &MapArgs, color: ColorChoice) -> Outcome {
    let errors = Look::stderr(color);
    let refused = |message: Text| Outcome {
        out: Text::new(),
        err: text!("{} {message}{NL}", errors.bad("error:")),
        code: UNANSWERED,
    };
    answer(arguments, color, errors).unwrap_or_else(refused)
}

fn answer(arguments: &MapArgs, color: ColorChoice, errors: Look) -> Result<Outcome, Text> {
    let options = evaluation(&arguments.reading)?;
    let names = names(&arguments.dns)?;
    let traffic = arguments.port.as_deref().map(traffic).transpose()?;
    let look = Look::stdout(color);
    let scrolls = !matches!(arguments.output, MapOutput::Svg | MapOutput::Html);
    let progress = Progress::begin("reading", scrolls);
    let paths = arguments.input.all();
    let mut input = input::read(&paths);
    if let Some(refusal) = input.refusal() {
        return Err(refusal.into());
    }
    if input.sources.is_empty() {
        return Err(text!("no manifests in {}", input::describe(&paths)));
    }
    let mut objects = input::world(&mut input, arguments.thorium).into_objects();
    add_names(&mut objects, &names);
    progress.step("working out who reaches whom", 0);
    with_ingress_controller(&mut objects);
    let snapshot = Snapshot::new(objects);
    input.found.extend(dangling(&snapshot));
    let cuts = Cuts::of([&snapshot]);
    input.found.extend(many_source_ports(&cuts));
    let mut cells = Cells::limited(cuts.space().clone(), work([&input]));
    let level = level(&arguments.reading);
    let map = Map::new(&snapshot, &options, level, &cuts, &mut cells);
    input.found.extend(left_out(&map.left_out));
    let place = input::describe(&paths);
    // Whoever is missed may have been lost while reading.
    let missed = |message: Text| match reservations(&input.found, errors) {
        lost if lost.is_empty() => message,
        lost => text!("{message}{NL}{}", lost.trim_end()),
    };
    let select = RowFilter {
        namespaces: namespaces(&map, &arguments.namespace, &place)
            .map_err(missed)?
            .into_iter()
            .map(Into::into)
            .collect(),
        focus: focus(&map, &arguments.focus, &place).map_err(missed)?,
        direction: arguments.direction.map(|direction| match direction {
            DirectionArg::Egress => Direction::Egress,
            DirectionArg::Ingress => Direction::Ingress,
        }),
        traffic,
        ignore_self: arguments.reading.ignore_self,
        families: families(arguments.reading.family, [&map], &cuts),
    };
    let mut facts = MapContext::new(&map);
    facts.selected = (0..map.workloads.len()).map(|at| select.selects(&map, at)).collect();
    facts.ignore_self = select.ignore_self;
    facts.families.clone_from(&select.families);
    facts.explain = match arguments.output {
        MapOutput::Html => {
            let kinds = map.kinds().len();
            kinds <= MOST_EXPLAINED && kinds.saturating_mul(cuts.len(Family::V4)) <= MOST_LOOKED_AT
        }
        _ => arguments.explain,
    };
    let printer: Box<dyn Printer<'_>> = match arguments.output {
        MapOutput::Table => Box::new(MatrixPrinter::new(look)),
        MapOutput::List => Box::new(ListPrinter::new(look)),
        MapOutput::Json => {
            Box::new(JsonPrinter::new(weighty(&input.found).map(json::DiagnosticJson::from).collect()))
        }
        MapOutput::Csv => Box::new(CsvPrinter),
        MapOutput::Md => Box::new(MarkdownPrinter::default()),
        MapOutput::Dot => Box::new(DotPrinter::default()),
        MapOutput::Svg => Box::new(SvgPrinter::default()),
        MapOutput::Html => Box::new(HtmlPrinter::default()),
    };
    progress.step("writing rows", map.workloads.len());
    // Said before the answer, which may be long.
    let _ = Stream::Stderr.write(&reservations(&input.found, errors));
    let mut telling = Telling::new(&map, &cuts, facts, printer, progress);
    telling.tell(&select, arguments.nodes || arguments.output == MapOutput::Json, &mut cells);
    match telling.failed {
        // Whoever closed the pipe has seen enough: that is no error of ours.
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(text!("cannot write the answer: {error}"))
        }
        _ => {
            let stopped = stopped(telling.left_out);
            let complete = map.left_out.is_empty() && stopped.is_none();
            let code = if complete { YES } else { UNANSWERED };
            Ok(Outcome { out: Text::new(), err: reservations(stopped.as_slice(), errors), code })
        }
    }
}
