//! `palisade diff`.

mod sides;

use palisade_analysis::diff::{Beyond, Diff, Findings, Select, is_about_names};
use palisade_analysis::lint::dangling;
use palisade_analysis::map::{Level, Map, with_ingress_controller};
use palisade_analysis::reach::cells::Cells;
use palisade_analysis::reach::cuts::Cuts;
use palisade_dialects::codes;
use palisade_model::address::Family;
use palisade_model::diagnostic::{Diagnostic, Location};
use palisade_model::options::Options;
use palisade_model::snapshot::{Objects, Snapshot};

use super::explain::{names, options};
use super::reservations::{reservations, weighty};
use super::{NO, UNANSWERED, YES};
use crate::Outcome;
use crate::cli::{ColorChoice, DiffArgs, DiffOutput, FailOn, Families, IpBlocks, MapOptions};
use crate::input;
use crate::print::diff::{self, Facts};
use crate::print::style::Look;
use sides::sides;

/// What is said where source ports are not told apart.
pub const MANY_SOURCE_PORTS: &str =
    "rules tell more than 1,024 ranges of source ports apart: this is about connections that name none";
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
        for (name, addresses) in &names {
            read.names.entry(name.clone()).or_default().extend(addresses);
        }
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
            if !problems.iter().any(|other| alike(one, other)) {
                problems.push(one.clone());
            }
        }
    }
    let cuts = Cuts::of([&before, &after]);
    let mut cells = Cells::new(cuts.line().clone());
    let level = level(&arguments.reading);
    let compared = Diff::new(&before, &after, &options, level, &cuts, &mut cells);
    let ignore_self = arguments.reading.ignore_self;
    let wanted = families(arguments.reading.family, [&compared.before, &compared.after], &cuts);
    let mut select = Select { ignore_self, families: wanted };
    let mut findings = Findings::of(&compared, &select, &cuts, &mut cells);
    // Nothing speaks of IPv6: what changes there is what changes for IPv4, and told only where it is more than that.
    if arguments.reading.family == Families::Auto && select.families.len() == 1 {
        let six = Select { families: vec![Family::V6], ignore_self };
        let six = Findings::of(&compared, &six, &cuts, &mut cells);
        if six.exceeds(&findings, &mut cells) {
            select.families.push(Family::V6);
            findings = Findings::of(&compared, &select, &cuts, &mut cells);
        }
    }
    if cuts.coarse {
        problems.push(Diagnostic::new(&codes::LIMIT, MANY_SOURCE_PORTS));
    }
    let err = reservations(&problems, errors);
    let beyond = match findings.list.is_empty() {
        true => Beyond::of(&policies[0], &policies[1], there.as_ref()),
        false => Beyond::default(),
    };
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
    // Where there is nobody to compare, what could become of anybody is the answer.
    let nobody = compared.written().next().is_none();
    let opened = findings.opened > 0 || beyond.named_opened.is_some() || (nobody && beyond.opened.is_some());
    let closed = findings.closed > 0 || beyond.named_closed.is_some() || (nobody && beyond.closed.is_some());
    let failed = match arguments.fail_on {
        FailOn::Opened => opened,
        FailOn::Closed => closed,
        FailOn::Any => opened || closed,
    };
    Ok(Outcome { out, err, code: if failed { NO } else { YES } })
}

/// What of a side policies are, without anybody they could be about.
pub fn policies_of(objects: &Objects) -> Objects {
    Objects {
        policies: objects.policies.clone(),
        tiers: objects.tiers.clone(),
        groups: objects.groups.clone(),
        services: objects.services.clone(),
        ..Objects::default()
    }
}

/// Whether two findings are about the same thing, each in its side's own file.
fn alike(one: &Diagnostic, other: &Diagnostic) -> bool {
    (one.code.id, &one.message, &one.field, &one.subject)
        == (other.code.id, &other.message, &other.field, &other.subject)
}

/// The options that a map or a diff is read with.
pub fn evaluation(reading: &MapOptions) -> Result<Options, String> {
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
