//! `palisade diff`.

mod sides;

use palisade_analysis::diff::{Beyond, Diff, Findings, Select, is_about_names, policies_of};
use palisade_analysis::lint::dangling;
use palisade_analysis::map::with_ingress_controller;
use palisade_analysis::reach::cells::Cells;
use palisade_analysis::reach::cuts::Cuts;
use palisade_dialects::codes;
use palisade_model::diagnostic::{Diagnostic, Location};
use palisade_model::snapshot::{Objects, Snapshot};

use super::explain::names;
use super::reading::{
    add_names, evaluation, families, left_out, level, many_source_ports, stopped, unproven, work,
};
use super::reservations::{reservations, weighty};
use super::{NO, UNANSWERED, YES};
use crate::Outcome;
use crate::cli::{ColorChoice, DiffArgs, DiffOutput, FailOn, Families};
use crate::input;
use crate::print::diff::{self, Facts};
use crate::print::style::Look;
use sides::sides;

/// How many findings are printed for people, unless all are asked for.
const LISTED: usize = 60;

pub fn run(arguments: &DiffArgs, color: ColorChoice) -> Outcome {
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

fn answer(arguments: &DiffArgs, color: ColorChoice, errors: Look) -> Result<Outcome, String> {
    let options = evaluation(&arguments.reading)?;
    let names = names(&arguments.dns)?;
    let mut sides = sides(arguments)?;
    let mut objects: Vec<Objects> = Vec::new();
    for side in &mut sides {
        if let Some(refusal) = side.input.refusal() {
            return Err(refusal);
        }
        let mut read = input::world(&mut side.input, arguments.thorium).into_objects();
        add_names(&mut read, &names);
        with_ingress_controller(&mut read);
        let meant = |at: &Location| side.replaces.iter().any(|name| **name == *at.file);
        side.input.found.retain(|one| {
            one.code.id != codes::DUPLICATE_OBJECT.id || !one.location.as_ref().is_some_and(meant)
        });
        objects.push(read);
    }
    if sides.iter().all(|side| side.input.sources.is_empty()) {
        return Err(format!("no manifests in {} and {}", sides[0].name, sides[1].name));
    }
    let [before, after] = <[Objects; 2]>::try_from(objects).map_err(|_| "two sides are compared")?;
    let policies = [&before, &after].map(policies_of);
    // Whom names that are not known are asked about.
    let there = is_about_names(&policies).then(|| before.clone());
    let (before, after) = (Snapshot::new(before), Snapshot::new(after));
    let mut problems: Vec<Diagnostic> = Vec::new();
    for (side, snapshot) in sides.iter_mut().zip([&before, &after]) {
        side.input.found.extend(dangling(snapshot));
        // What is wrong on both sides alike is said once.
        for one in weighty(&side.input.found) {
            if !problems.iter().any(|other| other.says_the_same(one)) {
                problems.push(one.clone());
            }
        }
    }
    let cuts = Cuts::of([&before, &after]);
    let mut cells = Cells::limited(cuts.line().clone(), work(sides.iter().map(|side| &side.input)));
    let level = level(&arguments.reading);
    let compared = Diff::new(&before, &after, &options, level, &cuts, &mut cells);
    let ignore_self = arguments.reading.ignore_self;
    let wanted = families(arguments.reading.family, [&compared.before, &compared.after], &cuts);
    let mut select = Select { ignore_self, families: wanted };
    let findings = match arguments.reading.family {
        Families::Auto => Findings::of_either_family(&compared, &mut select, &cuts, &mut cells),
        _ => Findings::of(&compared, &select, &cuts, &mut cells),
    };
    problems.extend(many_source_ports(&cuts));
    problems.extend(left_out(&compared.left_out));
    problems.extend(stopped(findings.unseen));
    let beyond = match findings.list.is_empty() {
        true => Beyond::of(&policies[0], &policies[1], there.as_ref()),
        false => Beyond::default(),
    };
    problems.extend(beyond.proof.and_then(unproven));
    let err = reservations(&problems, errors);
    let [first, second] = sides;
    let facts = Facts {
        diff: &compared,
        findings: &findings,
        beyond: &beyond,
        problems: &problems,
        select: &select,
        cuts: &cuts,
        names: (first.name, second.name),
        most: (!arguments.all).then_some(LISTED),
    };
    let out = match arguments.output {
        DiffOutput::Text => diff::text(&facts, &cells, Look::stdout(color)),
        DiffOutput::Json => diff::json(&facts, &mut cells),
        DiffOutput::Md => diff::markdown(&facts, &cells),
        DiffOutput::Sarif => diff::sarif(&facts, &cells),
    };
    let opened = findings.opened > 0 || beyond.opens(&compared);
    let closed = findings.closed > 0 || beyond.closes(&compared);
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
