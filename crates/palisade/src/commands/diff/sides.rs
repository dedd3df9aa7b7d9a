//! The two sides that are compared: folders, a folder and what is applied to it, or git revisions.

use std::path::Path;

use palisade_report::text::{NL, Text};

use crate::cli::DiffArgs;
use crate::input::{self, Input, git};

/// One side: what it is called, and what was read.
pub struct Side {
    pub name: String,
    pub input: Input,
    /// The files whose objects are meant to take the place of others.
    pub replaces: Vec<String>,
}

/// Before and after.
pub fn sides(arguments: &DiffArgs) -> Result<[Side; 2], Text> {
    let given = arguments.paths.iter().chain(&arguments.files).chain(&arguments.with);
    let stdin = given.filter(|path| *path == "-").count();
    // Manifests of both sides are read for each.
    let twice = arguments.files.iter().any(|path| path == "-") || !arguments.with.is_empty();
    if stdin > 1 || (stdin == 1 && twice && !arguments.with.iter().any(|path| path == "-")) {
        return Err("standard input can be read once: write one of the sides to a file".into());
    }
    match &arguments.git {
        _ if !arguments.with.is_empty() => applied(arguments),
        Some(revisions) => of_revisions(revisions, arguments),
        None => of_paths(arguments),
    }
}

/// Two paths.
fn of_paths(arguments: &DiffArgs) -> Result<[Side; 2], Text> {
    let [before, after] = &arguments.paths[..] else {
        let given = arguments.paths.len();
        return Err(text!(
            "two sides are compared, and {given} given{NL}  write palisade diff BEFORE AFTER, palisade diff PATH… --with PATH, or palisade diff --git REV [PATH…]"
        ));
    };
    let side = |path: &String| {
        let paths: Vec<String> = std::iter::once(path).chain(&arguments.files).cloned().collect();
        Side { name: path.clone(), input: input::read(&paths), replaces: Vec::new() }
    };
    Ok([side(before), side(after)])
}

/// A revision and the working tree, or two revisions.
fn of_revisions(revisions: &str, arguments: &DiffArgs) -> Result<[Side; 2], Text> {
    let here = vec![".".to_owned()];
    let paths = if arguments.paths.is_empty() { &here } else { &arguments.paths };
    let mut seen = vec![false; paths.len()];
    let at = |revision: &str, seen: &mut [bool]| -> Result<Side, Text> {
        let mut input = git::read(revision, paths, seen)?;
        input.add(&arguments.files);
        Ok(Side { name: revision.to_owned(), input, replaces: Vec::new() })
    };
    let head = |name: &str| if name.is_empty() { "HEAD".to_owned() } else { name.to_owned() };
    let sides = match (revisions.split_once("..."), revisions.split_once("..")) {
        // As git itself has it: since the two went apart.
        (Some((before, after)), _) => {
            let (before, after) = (head(before), head(after));
            [at(&git::merge_base(&before, &after)?, &mut seen)?, at(&after, &mut seen)?]
        }
        (None, Some((before, after))) => [at(&head(before), &mut seen)?, at(&head(after), &mut seen)?],
        (None, None) => {
            let before = at(revisions, &mut seen)?;
            for (path, seen) in paths.iter().zip(&mut seen) {
                *seen |= Path::new(path).exists();
            }
            let mut input = git::read_working_tree(paths)?;
            input.add(&arguments.files);
            [before, Side { name: "the working tree".to_owned(), input, replaces: Vec::new() }]
        }
    };
    // What one side has and the other has not came or is gone; what neither has is a mistake.
    match paths.iter().zip(&seen).find(|(_, seen)| !**seen) {
        Some((path, _)) => {
            let named = [&sides[0].name, &sides[1].name];
            Err(text!("{path}: no such file or folder, in {} or in {}", named[0], named[1]))
        }
        None => Ok(sides),
    }
}

/// A side, and what applying more files makes of it.
fn applied(arguments: &DiffArgs) -> Result<[Side; 2], Text> {
    let paths: Vec<String> = arguments.paths.iter().chain(&arguments.files).cloned().collect();
    if paths.is_empty() {
        return Err(Text::own(
            "--with says what is applied; to what?\n  write palisade diff PATH… --with PATH",
        ));
    }
    let (before, mut after) = (input::read(&paths), input::read(&paths));
    let own = after.sources.len();
    after.add(&arguments.with);
    if after.sources.len() == own && !after.is_incomplete() {
        return Err(text!("no manifests in {}", input::describe(&arguments.with)));
    }
    let added = after.sources[own..].iter().map(|source| source.name().to_string()).collect();
    let with = input::describe(&arguments.with);
    let name = input::describe(&paths);
    Ok([
        Side { name: name.clone(), input: before, replaces: Vec::new() },
        Side { name: format!("{name} with {with}"), input: after, replaces: added },
    ])
}
