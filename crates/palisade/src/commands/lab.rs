//! `palisade lab`: a cluster on this machine.

mod error;
mod exec;
mod keep;
mod test;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use palisade_dialects::thorium::Reading;
use palisade_dialects::world::World;
use palisade_lab::matrix::Matrix;
use palisade_lab::world::LabWorld;
use palisade_lab::{Lab, LabError, Measured, clean};
use palisade_model::diagnostic::Diagnostic;
use palisade_model::evaluate::evaluate;
use palisade_model::flow::Flow;
use palisade_model::options::Options;
use palisade_model::trace::Verdict;
use palisade_model::verdicts::Verdicts;
use palisade_report::diagnostics::plural;
use palisade_report::json;
use palisade_report::style::Look;
use palisade_report::text::{NL, Text};

use self::error::LabCommandError;
use super::reservations::reservations;
use super::{NO, UNANSWERED, YES};
use crate::Outcome;
use crate::cli::{ColorChoice, LabArgs, LabCommand, LabOutput};
use crate::input;
use crate::print::lab::{self as printer, Asked, LabReport};
use crate::print::output::{Cursor, Stream, StreamLook};
use crate::print::time::seconds;

pub fn run(arguments: &LabArgs, color: ColorChoice) -> Outcome {
    let errors = Look::stderr(color);
    let outcome = match &arguments.command {
        Some(LabCommand::Test(arguments)) => test::run(arguments, color),
        Some(LabCommand::Exec(arguments)) => exec::run(arguments),
        Some(LabCommand::Clean) => clean::leftovers().map_err(LabCommandError::from).map(|count| {
            let out = text!("{} of labs that are gone taken away{NL}", plural(count, "namespace"));
            Outcome { out, err: Text::new(), code: YES }
        }),
        None => measure(arguments, color),
    };
    outcome.unwrap_or_else(|error| Outcome {
        out: Text::new(),
        err: text!("{} {}{NL}", errors.bad("error:"), error.text()),
        code: UNANSWERED,
    })
}

/// Returns the objects of the manifests, and what was found in them. Fails if one was left out.
fn read(paths: &[String], thorium: impl Into<Reading>) -> Result<(World, Vec<Diagnostic>), LabCommandError> {
    let mut input = input::read(paths);
    if let Some(refusal) = input.refusal() {
        return Err(LabCommandError::LeftOut(refusal));
    }
    let world = input::world(&mut input, thorium);
    Ok((world, input.found))
}

/// Returns a flag that SIGINT, SIGTERM and SIGHUP set.
fn interrupts() -> Result<Arc<AtomicBool>, LabCommandError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        let registered = signal_hook::flag::register(signal, Arc::clone(&stop));
        registered.map_err(LabCommandError::system("listen to signals"))?;
    }
    Ok(stop)
}

fn measure(arguments: &LabArgs, color: ColorChoice) -> Result<Outcome, LabCommandError> {
    let (written, found) = read(&arguments.paths, arguments.thorium)?;
    let placed = LabWorld::new(written.objects());
    let err = reservations(&found, Look::stderr(color));
    let matrix = Matrix::of(&placed, arguments.most_flows.max(1));
    let predicted = predict(&placed, &matrix);
    let mut say = Progress::new(arguments.output == LabOutput::Text);
    let stop = interrupts()?;
    let mut lab = match Lab::new(Arc::clone(&stop)) {
        Ok(lab) => lab,
        Err(LabError::Missing(what)) => {
            let mut outcome = prediction(arguments, color, &placed, &matrix, &predicted, &what);
            outcome.err = text!("{err}{}", outcome.err);
            return Ok(outcome);
        }
        Err(error) => return Err(error.into()),
    };
    let begun = Instant::now();
    let outside = plural(matrix.outside.len(), "host");
    say.part(&format!(
        "building {} on {} in {}, {outside} outside …",
        plural(placed.snapshot.pods().iter().filter(|pod| !pod.terminated).count(), "pod"),
        plural(placed.nodes.len(), "node"),
        plural(placed.snapshot.namespaces().len(), "namespace"),
    ));
    lab.build(&placed, &matrix.outside)?;
    say.end(&format!(" {}", seconds(begun.elapsed())));
    let begun = Instant::now();
    say.part(&format!("enforcing {} with nftables …", policies(placed.snapshot.policies().len())));
    lab.enforce(&placed)?;
    say.end(&format!(" {}", seconds(begun.elapsed())));
    let total = matrix.flows.len();
    let measured = lab.measure(&placed, &matrix.flows, &mut |done| say.bar("probing", done, total))?;
    say.end("");
    let flows = matrix.flows.iter().zip(&predicted).zip(measured);
    let asked: Vec<Asked> = flows
        .map(|((flow, predicted), measured)| {
            let flow = placed.flow(flow);
            let surprising = measured != Measured::Verdict(*predicted);
            let by = if surprising { decided_by(&placed, &flow) } else { Vec::new() };
            Asked { flow, predicted: *predicted, by, measured: Some(measured) }
        })
        .collect();
    let report = LabReport::new(&placed, &asked, &matrix, lab.lacks());
    let code = match (report.mismatches.is_empty(), report.failed.is_empty()) {
        (false, _) => NO,
        (true, false) => UNANSWERED,
        (true, true) => YES,
    };
    let look = Look::stdout(color);
    let out = match arguments.output {
        LabOutput::Text => printer::report(&report, look),
        LabOutput::Json => json::print(&report),
    };
    if !arguments.keep {
        return Ok(Outcome { out, err, code });
    }
    let _ = Stream::Stderr.write(&err);
    print_now(&out);
    keep::stay(arguments, &mut lab, written, placed, &stop, look)?;
    Ok(Outcome { out: Text::new(), err: Text::new(), code })
}

/// What the plain evaluator says about each flow.
fn predict(placed: &LabWorld, matrix: &Matrix) -> Vec<Verdict> {
    let options = Options::default();
    let verdicts = Verdicts::new(&placed.snapshot, &options);
    matrix.flows.iter().map(|flow| verdicts.verdict(&placed.flow(flow))).collect()
}

/// The policies that a prediction comes from.
fn decided_by(placed: &LabWorld, flow: &Flow) -> Vec<String> {
    let evaluation = evaluate(&placed.snapshot, flow, &Options::default());
    evaluation.decided_by().map(|object| object.to_string()).collect()
}

/// The predictions alone, where nothing can be measured.
fn prediction(
    arguments: &LabArgs,
    color: ColorChoice,
    placed: &LabWorld,
    matrix: &Matrix,
    predicted: &[Verdict],
    what: &str,
) -> Outcome {
    let flows = matrix.flows.iter().zip(predicted);
    let asked: Vec<Asked> = flows
        .map(|(flow, predicted)| Asked {
            flow: placed.flow(flow),
            predicted: *predicted,
            by: Vec::new(),
            measured: None,
        })
        .collect();
    let report = LabReport::new(placed, &asked, matrix, &Default::default());
    let look = Look::stderr(color);
    let err = text!(
        "{} no lab on this machine, so nothing was measured; a lab needs {what}{NL}",
        look.bad("error:")
    );
    let out = match arguments.output {
        LabOutput::Text => printer::report(&report, Look::stdout(color)),
        LabOutput::Json => json::print(&report),
    };
    Outcome { out, err, code: UNANSWERED }
}

fn policies(count: usize) -> String {
    if count == 1 { "1 policy".to_owned() } else { format!("{count} policies") }
}

fn print_now(text: &Text) {
    // Nobody is left to see it.
    let _ = Stream::Stdout.write(text);
}

/// What goes on, on standard error if somebody watches.
struct Progress {
    shown: bool,
    width: usize,
}

// === impl Progress ===

impl Progress {
    fn new(wanted: bool) -> Self {
        Progress { shown: wanted && Stream::Stderr.is_terminal(), width: 28 }
    }

    fn part(&mut self, text: &str) {
        self.write(Cursor::Stay, &text.into());
    }

    fn end(&mut self, text: &str) {
        self.write(Cursor::Stay, &text!("{text}{NL}"));
    }

    fn bar(&mut self, what: &str, done: usize, total: usize) {
        let full = self.width * done / total.max(1);
        let bar = format!("{}{}", "█".repeat(full), "░".repeat(self.width - full));
        self.write(Cursor::LineStart, &text!("{what} {} {bar} {done}/{total}", plural(total, "flow")));
    }

    fn write(&self, cursor: Cursor, text: &Text) {
        if self.shown {
            Stream::Stderr.draw(cursor, text);
        }
    }
}
