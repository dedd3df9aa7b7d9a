//! `palisade diff`.

use palisade_analysis::diff::{Diff, Findings, Select};
use palisade_analysis::lint::dangling;
use palisade_analysis::map::{Level, Map, with_ingress_controller};
use palisade_analysis::reach::cells::Cells;
use palisade_analysis::reach::cuts::Cuts;
use palisade_dialects::codes;
use palisade_model::address::Family;
use palisade_model::diagnostic::Location;
use palisade_model::options::Options;
use palisade_model::snapshot::{Objects, Snapshot};

use super::explain::options;
use super::reservations::reservations;
use super::{NO, UNANSWERED, YES};
use crate::Outcome;
use crate::cli::{ColorChoice, DiffArgs, DiffOutput, FailOn, Families, IpBlocks, MapOptions};
use crate::input::{self, Input, git};
use crate::print::diff::{self, Facts};
use crate::print::style::Look;

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

/// One side: what it is called, and what was read.
struct Side {
    name: String,
    input: Input,
    /// The files whose objects are meant to take the place of others.
    replaces: Vec<String>,
}

fn answer(arguments: &DiffArgs, color: ColorChoice, errors: Look) -> Result<Outcome, String> {
    let options = evaluation(&arguments.reading)?;
    let mut sides = sides(arguments)?;
    let mut err = String::new();
    let mut objects: Vec<Objects> = Vec::new();
    for side in &mut sides {
        if let Some(refusal) = side.input.refusal() {
            return Err(refusal);
        }
        let mut read = input::world(&mut side.input, arguments.thorium).into_objects();
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
    let (before, after) = (Snapshot::new(before), Snapshot::new(after));
    for (side, snapshot) in sides.iter_mut().zip([&before, &after]) {
        side.input.found.extend(dangling(snapshot));
        let reserved = reservations(&side.input.found, errors);
        // What is wrong on both sides alike is said once.
        if !err.contains(&reserved) {
            err.push_str(&reserved);
        }
    }
    let cuts = Cuts::of([&before, &after]);
    let mut cells = Cells::new(cuts.line().clone());
    let level = if arguments.reading.pods { Level::Pods } else { Level::Workloads };
    let compared = Diff::new(&before, &after, &options, level, &cuts, &mut cells);
    let ignore_self = arguments.reading.ignore_self;
    let wanted = families(arguments.reading.family, [&compared.before, &compared.after], &cuts);
    let mut select = Select { ignore_self, families: wanted };
    let mut findings = Findings::of(&compared, &select, &cuts, &mut cells);
    // Nothing speaks of IPv6, and nothing else differs: then that, too, must be the same before it is called so.
    if arguments.reading.family == Families::Auto && findings.list.is_empty() && select.families.len() == 1 {
        select.families.push(Family::V6);
        findings = Findings::of(&compared, &select, &cuts, &mut cells);
    }
    let [first, second] = <[Side; 2]>::try_from(sides).map_err(|_| "two sides are compared")?;
    let facts = Facts {
        diff: &compared,
        findings: &findings,
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
    let failed = match arguments.fail_on {
        FailOn::Opened => findings.opened > 0,
        FailOn::Closed => findings.closed > 0,
        FailOn::Any => findings.opened + findings.closed > 0,
    };
    Ok(Outcome { out, err, code: if failed { NO } else { YES } })
}

/// The options that a map or a diff is read with.
pub fn evaluation(reading: &MapOptions) -> Result<Options, String> {
    let mut options = options(&reading.options)?;
    if reading.ip_blocks == IpBlocks::OutsideOnly {
        options.ip_block_matches_pods = false;
    }
    Ok(options)
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

fn sides(arguments: &DiffArgs) -> Result<Vec<Side>, String> {
    let with = |path: &[String]| -> Vec<String> { path.iter().chain(&arguments.files).cloned().collect() };
    if !arguments.with.is_empty() {
        return applied(arguments);
    }
    let Some(revisions) = &arguments.git else {
        let [before, after] = &arguments.paths[..] else {
            let given = arguments.paths.len();
            return Err(format!(
                "two sides are compared, and {given} given\n  write palisade diff BEFORE AFTER, palisade diff PATH… --with PATH, or palisade diff --git REV [PATH…]"
            ));
        };
        let side = |path: &String| Side {
            name: path.clone(),
            input: input::read(&with(std::slice::from_ref(path))),
            replaces: Vec::new(),
        };
        return Ok(vec![side(before), side(after)]);
    };
    let here = vec![".".to_owned()];
    let paths = if arguments.paths.is_empty() { &here } else { &arguments.paths };
    let at = |revision: &str| -> Result<Side, String> {
        let mut input = git::read(revision, paths)?;
        input.add(&arguments.files);
        Ok(Side { name: revision.to_owned(), input, replaces: Vec::new() })
    };
    match revisions.split_once("..") {
        Some((before, after)) => {
            let head = |name: &str| if name.is_empty() { "HEAD".to_owned() } else { name.to_owned() };
            Ok(vec![at(&head(before))?, at(&head(after.trim_start_matches('.')))?])
        }
        None => {
            let before = at(revisions)?;
            // What the revision has and the working tree has not is gone; what neither has is a mistake.
            let there: Vec<String> =
                paths.iter().filter(|path| std::path::Path::new(path).exists()).cloned().collect();
            if there.is_empty() && before.input.sources.is_empty() {
                return Err(format!(
                    "{}: no such file or folder, here or in {revisions}",
                    input::describe(paths)
                ));
            }
            Ok(vec![
                before,
                Side {
                    name: "the working tree".to_owned(),
                    input: input::read(&with(&there)),
                    replaces: Vec::new(),
                },
            ])
        }
    }
}

/// A side, and what applying more files makes of it.
fn applied(arguments: &DiffArgs) -> Result<Vec<Side>, String> {
    let paths: Vec<String> = arguments.paths.iter().chain(&arguments.files).cloned().collect();
    if paths.is_empty() {
        return Err(
            "--with says what is applied; to what?\n  write palisade diff PATH… --with PATH".to_owned()
        );
    }
    let (before, mut after) = (input::read(&paths), input::read(&paths));
    let own = after.sources.len();
    after.add(&arguments.with);
    let added = after.sources[own..].iter().map(|source| source.name().to_string()).collect();
    let with = input::describe(&arguments.with);
    let name = input::describe(&paths);
    Ok(vec![
        Side { name: name.clone(), input: before, replaces: Vec::new() },
        Side { name: format!("{name} with {with}"), input: after, replaces: added },
    ])
}
