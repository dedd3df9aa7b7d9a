//! Who enforces: the files, the world they make, and the kernel that is kept to it.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use palisade_agent::figures::Figures;
use palisade_agent::state::{State, now};
use palisade_agent::watch::Watch;
use palisade_agent::{Done, Enforcement, Remembered, Wrote};
use palisade_nftables::kernel::Linux;
use palisade_report::diagnostics::plural;
use palisade_report::text::Text;

use super::super::reservations::reservations;
use super::files::{Files, Manifests};
use super::reporter::Reporter;
use super::said::Said;
use super::world::{self, Step, World};
use crate::cli::{ColorChoice, EnforceArgs};
use crate::input::{self, Input};
use crate::print::time::seconds;

pub use self::record::elements_digest;

mod record;

pub struct Enforcer {
    pub said: Said,
    paths: Vec<String>,
    folder: PathBuf,
    files: Files,
    manifests: Manifests,
    world: World,
    /// Until the first load is complete nothing can be enforced, and the kernel waits here.
    force: Force,
    remembered: Option<Remembered>,
    reporter: Reporter,
    /// What changed and could not be put into the kernel yet.
    unreported: Option<String>,
    /// Where files were not taken as they are.
    problems: Vec<Text>,
    /// Why the machine cannot be found in them, if it cannot.
    misplaced: Option<String>,
    unfinished: bool,
    since: u64,
    changed: u64,
    /// Whether what is in force is another than what is remembered on disk.
    unwritten: bool,
    /// Whether what the kernel has to say about it is still missing there.
    incomplete: bool,
    figures: Figures,
}

enum Force {
    Waits(Box<Linux>),
    Is(Box<Enforcement<Linux>>),
    /// Only while the one becomes the other.
    Changes,
}

/// How often files are read that change meanwhile.
const TRIES: usize = 20;

// === impl Enforcer ===

impl Enforcer {
    pub fn new(arguments: &EnforceArgs, color: ColorChoice, kernel: Linux) -> Self {
        Enforcer {
            said: Said::new(color),
            paths: arguments.input.files.clone(),
            folder: arguments.state.folder.clone(),
            files: Files::new(&arguments.input.files, arguments.thorium),
            manifests: Manifests::default(),
            world: World::new(arguments.node.as_deref()),
            force: Force::Waits(Box::new(kernel)),
            remembered: None,
            reporter: Reporter::new(),
            unreported: None,
            problems: Vec::new(),
            misplaced: None,
            unfinished: false,
            since: now(),
            changed: now(),
            unwritten: false,
            incomplete: false,
            figures: Figures::default(),
        }
    }

    /// What an enforcer before us left behind.
    pub fn remember(&mut self, state: Option<State>) {
        let Some(state) = state else { return };
        self.remembered = state.remembered();
        self.world.remember(&state);
        if state.paths == self.paths {
            self.since = state.since;
            self.changed = state.changed;
            self.files.remember(world::texts(&state));
        }
    }

    /// Whether something is enforced by us.
    pub fn is_begun(&self) -> bool {
        matches!(self.force, Force::Is(_))
    }

    /// Whether the kernel does not have what it should.
    pub fn is_behind(&self) -> bool {
        matches!(&self.force, Force::Is(force) if force.behind().is_some())
    }

    pub fn has_problems(&self) -> bool {
        !self.problems.is_empty()
    }

    pub fn is_unfinished(&self) -> bool {
        self.unfinished
    }

    /// Whether there is something to see to soon.
    pub fn is_unsettled(&self) -> bool {
        self.unwritten || matches!(&self.force, Force::Is(force) if force.is_unsettled())
    }

    /// What to wait for: tables change, or it is known what a change opened and closed.
    pub fn events(&mut self) -> Vec<BorrowedFd<'_>> {
        let tables = match &mut self.force {
            Force::Is(force) => force.kernel().events().ok(),
            _ => None,
        };
        tables.into_iter().chain(self.reporter.events()).collect()
    }

    /// When there is something to report though nothing happens.
    pub fn report_due(&self) -> Option<Duration> {
        self.reporter.due()
    }

    /// Reports what is known by now of the changes before.
    pub fn report_changes(&mut self) {
        self.reporter.advance(&self.said);
    }

    /// Waits a moment for what is still to be reported.
    pub fn finish_reports(&mut self) {
        self.reporter.finish(&self.said);
    }

    /// Reads the files again and puts in force what is new. Says whether anything was.
    pub fn reload(&mut self, watch: Option<&mut Watch>, begun: Instant, asked: bool) -> bool {
        let look = match watch {
            Some(watch) => {
                let input = read_still(&self.paths, watch);
                self.files.look(input, &|path| watch.is_written(path))
            }
            None => self.files.look(input::read(&self.paths), &|_| false),
        };
        self.unfinished = look.unfinished;
        let wrong = !look.problems.is_empty();
        let told = self.said.problems(look.problems.clone());
        self.problems = look.problems;
        match (wrong, told) {
            (true, true) => self.figures.refused_reloads += 1,
            (false, _) => self.figures.reloads += u64::from(asked || look.manifests.is_some()),
            _ => {}
        }
        let Some(manifests) = look.manifests else {
            if asked && !wrong && self.is_begun() {
                self.said.line("read again: nothing is new");
            }
            if told && wrong && self.is_begun() {
                self.said.warning("what was in force stays in force");
            }
            if told {
                self.unwritten = true;
            }
            return false;
        };
        self.said.reservations(&reservations(&manifests.found, self.said.err));
        self.manifests = manifests;
        let what = names(&look.changed);
        let first = !self.is_begun();
        let done = self.put();
        if let Some(done) = done {
            let time = done.at.unwrap_or_else(Instant::now).saturating_duration_since(begun);
            if done.wrote != Wrote::Nothing {
                self.changed = now();
            }
            self.write_state();
            self.report(&done, time, if first { None } else { Some(&what) });
        }
        true
    }

    /// Looks whether the machine has other interfaces or addresses, or its pods have.
    pub fn look_at_machine(&mut self, begun: Instant) {
        // Nothing can be placed before there are files; and what could not be placed is tried again.
        if self.manifests.sources.is_empty() {
            return;
        }
        let first = !self.is_begun();
        let before = self.world.place.clone();
        let looked = self.world.look_at_machine();
        let wrong = looked.as_ref().err().map(|error| format!("{error}; the machine counts as it was"));
        self.said.notes("looking", wrong);
        if !first && !matches!(looked, Ok(true)) {
            return;
        }
        if let Some(done) = self.put()
            && (first || self.world.place != before || done.wrote != Wrote::Nothing)
        {
            self.report(&done, begun.elapsed(), if first { None } else { Some("this machine") });
        }
    }

    /// Whether the machine is to be looked at now and then, because nobody tells.
    pub fn has_namespaces(&self) -> bool {
        self.world.has_namespaces()
    }

    /// Puts what the manifests say into the kernel.
    fn put(&mut self) -> Option<Done> {
        let step = match self.world.take(&self.manifests) {
            Ok(step) => step,
            Err(error) => {
                self.said.notes("placing", [format!("{error}; what was in force stays in force")]);
                self.unwritten |= self.misplaced.as_ref() != Some(&error);
                self.misplaced = Some(error);
                return None;
            }
        };
        self.said.notes("placing", None);
        self.misplaced = None;
        let place = &self.world.place;
        let (wiring, own, node) = (place.wiring.clone(), place.own.clone(), place.node.clone());
        let done = match std::mem::replace(&mut self.force, Force::Changes) {
            Force::Waits(kernel) => {
                let part = self.world.part();
                let (force, done) =
                    Enforcement::begin(part, &node, wiring, own, *kernel, self.remembered.as_ref());
                self.force = Force::Is(Box::new(force));
                done
            }
            Force::Is(mut force) => {
                // Rules and interfaces together: by an interface may come only what rules are in force for.
                let done = match step {
                    Step::Deltas(deltas) => match force.follow_wired(&deltas, wiring.clone(), own.clone()) {
                        Ok(done) => done,
                        Err(_) => force.anew(self.world.part(), &node, wiring, own),
                    },
                    Step::Whole(part) => force.anew(*part, &node, wiring, own),
                };
                self.force = Force::Is(force);
                done
            }
            Force::Changes => return None,
        };
        let lacks = match &self.force {
            Force::Is(force) => force.live().lacks().iter().cloned().collect(),
            _ => Vec::new(),
        };
        self.said.notes("machine", self.world.place.notes.iter().cloned());
        self.said.notes("lacks", lacks);
        self.unwritten = true;
        Some(done)
    }

    /// Says what a change came to, and has it reported what it opened and closed. The kernel has it already: this is for people.
    fn report(&mut self, done: &Done, time: Duration, changed: Option<&str>) {
        self.failed(done);
        let objects = self.world.objects();
        if done.failed.is_some() {
            match changed {
                Some(what) => self.unreported = Some(what.to_owned()),
                None => self.reporter.begin(objects),
            }
            return;
        }
        match changed {
            Some(what) => {
                self.unreported = None;
                self.reporter.changed(what, time, done.cut, objects, &self.said);
            }
            None => {
                self.reporter.begin(objects);
                let time = seconds(time);
                let cut = match done.cut {
                    0 => String::new(),
                    count => format!(", {} cut", plural(count, "connection")),
                };
                let how = match done.wrote {
                    Wrote::Nothing => "was in force already, so nothing is written",
                    _ => "in force",
                };
                let policies = match self.world.policies() {
                    1 => "1 policy".to_owned(),
                    count => format!("{count} policies"),
                };
                let pods = plural(self.world.place.pods.len(), "pod");
                let node = &self.world.place.node;
                self.said.line(text!("{policies} for {pods} on node {node}: {how}{cut} ({time})"));
            }
        }
    }

    /// Says what did not work, once.
    fn failed(&mut self, done: &Done) {
        let behind = self.is_behind();
        let failed = done.failed.as_ref().map(|error| match behind {
            true => format!("{error}; what was in force stays in force, and it is tried again"),
            false => format!("{error}; whether the table is as it was left is not known"),
        });
        let uncut = done.uncut.as_ref();
        let uncut = uncut.map(|error| format!("{error}; connections that are denied now are cut later"));
        self.said.notes("kernel", failed.into_iter().chain(uncut));
    }

    /// Sees to it that the kernel has what it should.
    pub fn mend(&mut self) {
        let Force::Is(force) = &mut self.force else { return };
        let begun = Instant::now();
        let was_behind = force.behind().is_some();
        let (done, repaired) = force.mend();
        let cut = match done.cut {
            0 => String::new(),
            count => format!(", {} cut", plural(count, "connection")),
        };
        let is_behind = force.behind().is_some();
        // What is still as wrong as it was needs no other word.
        if !(is_behind && done.failed.is_none()) {
            self.failed(&done);
        }
        match (is_behind, repaired) {
            (true, _) => {}
            (false, Some(why)) => {
                self.said.line(text!(
                    "somebody changed our table ({why}): repaired{cut}, in force after {}",
                    seconds(begun.elapsed())
                ));
            }
            (false, None) if was_behind => {
                let time = begun.elapsed();
                self.said.line(text!("works again{cut}, in force after {}", seconds(time)));
                if let Some(what) = self.unreported.take() {
                    self.reporter.changed(&what, time, 0, self.world.objects(), &self.said);
                }
            }
            (false, None) if done.cut > 0 => {
                self.said.line(text!("{} cut", plural(done.cut, "connection")));
            }
            _ => {}
        }
        if repaired.is_some() || was_behind {
            self.unwritten = true;
        }
    }

    pub fn tidy(&mut self) {
        if let Force::Is(force) = &mut self.force {
            let done = force.tidy();
            if done.wrote != Wrote::Nothing {
                self.unwritten = true;
            }
        }
    }
}

/// The files, read while nothing happened to them: whoever writes one would otherwise be noticed only after half of it was read. Who
/// writes all the time is not waited for.
fn read_still(paths: &[String], watch: &mut Watch) -> Input {
    let mut tries = 0;
    loop {
        let input = input::read(paths);
        tries += 1;
        if !watch.changed() || tries == TRIES {
            return input;
        }
    }
}

/// The names of files, without where they are.
fn names(changed: &[String]) -> String {
    let name = |path: &String| Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
    match changed {
        [] => "nothing".to_owned(),
        [only] => name(only).unwrap_or_default(),
        [first, rest @ ..] => format!("{} and {} more", name(first).unwrap_or_default(), rest.len()),
    }
}
