//! `palisade diff`.

mod sides;

use palisade_analysis::reach::cells::Cells;
use palisade_dialects::codes;
use palisade_lint::dangling;
use palisade_model::diagnostic::{Diagnostic, Location};
use palisade_model::snapshot::Objects;
use palisade_report::diff::{self as printer, DiffContext};
use palisade_report::style::Look;
use palisade_report::text::{NL, Text};

use super::comparison::{Comparison, Sides};
use super::explain::names;
use super::reading::{add_names, evaluation, left_out, level, many_source_ports, stopped, unproven, work};
use super::reservations::{reservations, weighty};
use super::{NO, UNANSWERED, YES};
use crate::Outcome;
use crate::cli::{ColorChoice, DiffArgs, DiffOutput, FailOn};
use crate::input;
use crate::print::output::StreamLook;
use sides::sides;

/// How many findings are printed for people, unless all are asked for.
const LISTED: usize = 60;

pub fn run(arguments: &DiffArgs, color: ColorChoice) -> Outcome {
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

fn answer(arguments: &DiffArgs, color: ColorChoice, errors: Look) -> Result<Outcome, Text> {
    let options = evaluation(&arguments.reading)?;
    let names = names(&arguments.dns)?;
    let mut sides = sides(arguments)?;
    let mut objects: Vec<Objects> = Vec::new();
    for side in &mut sides {
        if let Some(refusal) = side.input.refusal() {
            return Err(refusal.into());
        }
        let mut read = input::world(&mut side.input, arguments.thorium).into_objects();
        add_names(&mut read, &names);
        let meant = |at: &Location| side.replaces.iter().any(|name| **name == *at.file);
        side.input.found.retain(|one| {
            one.code.id != codes::DUPLICATE_OBJECT.id || !one.location.as_ref().is_some_and(meant)
        });
        objects.push(read);
    }
    if sides.iter().all(|side| side.input.sources.is_empty()) {
        return Err(text!("no manifests in {} and {}", sides[0].name, sides[1].name));
    }
    let [before, after] = <[Objects; 2]>::try_from(objects).map_err(|_| "two sides are compared")?;
    let compared = Sides::new(before, after);
    let mut problems: Vec<Diagnostic> = Vec::new();
    for (side, snapshot) in sides.iter_mut().zip([&compared.before, &compared.after]) {
        side.input.found.extend(dangling(snapshot));
        // What is wrong on both sides alike is said once.
        for one in weighty(&side.input.found) {
            if !problems.iter().any(|other| other.says_the_same(one)) {
                problems.push(one.clone());
            }
        }
    }
    let limit = work(sides.iter().map(|side| &side.input));
    let mut cells = Cells::limited(compared.cuts.space().clone(), limit);
    let how = Comparison {
        options,
        level: level(&arguments.reading),
        family: arguments.reading.family,
        ignore_self: arguments.reading.ignore_self,
    };
    let (diff, select, findings) = compared.findings(&how, &mut cells);
    problems.extend(many_source_ports(&compared.cuts));
    problems.extend(left_out(&diff.left_out));
    problems.extend(stopped(findings.unseen));
    let beyond = compared.beyond(&findings);
    problems.extend(beyond.proof.and_then(unproven));
    let err = reservations(&problems, errors);
    let [first, second] = sides;
    let facts = DiffContext {
        diff: &diff,
        findings: &findings,
        beyond: &beyond,
        problems: &problems,
        select: &select,
        cuts: &compared.cuts,
        names: (first.name, second.name),
        most: (!arguments.all).then_some(LISTED),
    };
    let out = match arguments.output {
        DiffOutput::Text => printer::text(&facts, &cells, Look::stdout(color)),
        DiffOutput::Json => printer::json(&facts, &mut cells),
        DiffOutput::Md => printer::markdown(&facts, &cells),
        DiffOutput::Sarif => printer::sarif(&facts, &cells),
    };
    let opened = findings.opened > 0 || beyond.opens(&diff);
    let closed = findings.closed > 0 || beyond.closes(&diff);
    let failed = match arguments.fail_on {
        FailOn::Opened => opened,
        FailOn::Closed => closed,
        FailOn::Any => opened || closed,
    };
    // Where nothing was found, it may be in what was left out.
    let code = match (failed, facts.is_complete()) {
        (true, _) => NO,
        (false, true) => YES,
        (false, false) => UNANSWERED,
    };
    Ok(Outcome { out, err, code })
}
