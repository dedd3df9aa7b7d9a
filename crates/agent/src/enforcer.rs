//! Enforces what a source yields: puts it into the kernel, keeps it there, and reports what happens.
//!
//! ```text
//!   Source ──updates──► Enforcer ──► Enforcement ──► kernel
//!                          ├──► Observer      notices, and comparisons of what opened and closed
//!                          └──► state, metrics (record.rs)
//! ```
//!
//! [`Enforcer::step`] does what there is to do and never waits; run.rs is the loop around it.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use palisade_dialects::thorium::Reading;
use palisade_nftables::kernel::{Fake, Kernel, Linux};

use self::notice::{Begun, Notice, Observer, Topic};
use crate::comparison::{Comparisons, Outcome};
use crate::enforcement::{Done, Enforcement, Remembered, Wrote};
use crate::figures::Figures;
use crate::source::{Cause, Problem, Source, Step, Update};
use crate::state::{State, now};

pub use self::record::elements_digest;
pub use self::run::Control;

pub mod notice;
mod record;
mod run;

/// A kernel that reports when tables change.
pub trait WatchedKernel: Kernel {
    /// Returns a descriptor that becomes readable when another program changes tables, if the kernel can tell.
    fn wakeup(&mut self) -> Option<BorrowedFd<'_>>;
}

/// Keeps a kernel to what a source yields.
#[derive(Debug)]
pub struct Enforcer<S, K, O: Observer> {
    source: S,
    observer: O,
    /// The folder of the state.
    folder: PathBuf,
    kernel: KernelState<K>,
    remembered: Option<Remembered>,
    comparisons: Comparisons<O::Changes>,
    /// The last change that could not be put into the kernel yet.
    unreported: Option<String>,
    /// The problems that were reported last.
    problems: Vec<Problem>,
    /// Why the machine cannot be placed, if so.
    misplaced: Option<String>,
    since: u64,
    changed: u64,
    /// Whether the state on disk is older than what is enforced.
    is_unwritten: bool,
    /// Whether the state on disk lacks the kernel's description of the table.
    is_incomplete: bool,
    figures: Figures,
}

#[derive(Debug)]
enum KernelState<K> {
    /// Nothing can be enforced before the first complete listing.
    Idle(Box<K>),
    Enforcing(Box<Enforcement<K>>),
    /// Only while the one becomes the other.
    Changing,
}

/// How often the tables are tidied up.
const TIDY: Duration = Duration::from_secs(60);

// === impl Enforcer ===

impl<S: Source, K: WatchedKernel, O: Observer> Enforcer<S, K, O> {
    /// Enforces nothing yet. The state is kept in this folder.
    pub fn new(source: S, kernel: K, observer: O, folder: &Path, thorium: Reading) -> Self {
        Enforcer {
            source,
            observer,
            folder: folder.to_owned(),
            kernel: KernelState::Idle(Box::new(kernel)),
            remembered: None,
            comparisons: Comparisons::new(O::compare, thorium),
            unreported: None,
            problems: Vec::new(),
            misplaced: None,
            since: now(),
            changed: now(),
            is_unwritten: false,
            is_incomplete: false,
            figures: Figures::default(),
        }
    }

    /// Takes over what an earlier enforcer wrote down.
    pub fn restore(&mut self, state: &State) {
        self.remembered = state.remembered();
        if self.source.restore(state) {
            self.since = state.since;
            self.changed = state.changed;
        }
    }

    /// Returns the observer.
    pub fn observer(&mut self) -> &mut O {
        &mut self.observer
    }

    /// Returns whether this process enforces anything.
    pub fn is_begun(&self) -> bool {
        self.enforcement().is_some()
    }

    /// Returns whether the kernel does not have what it should.
    pub fn is_behind(&self) -> bool {
        self.enforcement().is_some_and(|enforcement| enforcement.behind().is_some())
    }

    /// Returns whether a part of the source is enforced in an older version.
    pub fn has_problems(&self) -> bool {
        !self.problems.is_empty()
    }

    fn enforcement(&self) -> Option<&Enforcement<K>> {
        match &self.kernel {
            KernelState::Enforcing(enforcement) => Some(enforcement),
            _ => None,
        }
    }

    /// Takes what the source has, and enforces it.
    pub fn step(&mut self) {
        let polled = self.source.poll();
        let interfaces = self.source.status().machine.map(ToOwned::to_owned);
        self.warn(Topic::Interfaces, interfaces);
        let (mut are_new, mut are_any) = (false, false);
        if let Some(read) = polled.read {
            let problems = self.source.status().problems.to_vec();
            are_any = !problems.is_empty();
            are_new = problems != self.problems;
            if are_new {
                self.observer.notice(Notice::Problems(&problems));
                self.is_unwritten = true;
            }
            self.problems = problems;
            match are_any {
                true => self.figures.refused_reloads += u64::from(are_new),
                false => self.figures.reloads += u64::from(read.requested || read.changed),
            }
            if !read.changed && read.requested && !are_any && self.is_begun() {
                self.observer.notice(Notice::NothingNew);
            }
            if read.changed {
                self.observer.notice(Notice::Findings(self.source.status().findings));
            }
        }
        match polled.update {
            Some(update) => self.take(update),
            None if are_any && are_new && self.is_begun() => self.observer.notice(Notice::Unchanged),
            None => {}
        }
    }

    /// Enforces an update, or reports why that cannot be.
    fn take(&mut self, update: Result<Update, crate::node_view::PlacementError>) {
        let update = match update {
            Ok(update) => update,
            Err(error) => {
                let error = error.to_string();
                self.warn(Topic::Placing, [format!("{error}; what was in force stays in force")]);
                self.is_unwritten |= self.misplaced.as_ref() != Some(&error);
                self.misplaced = Some(error);
                return;
            }
        };
        self.warn(Topic::Placing, None);
        self.misplaced = None;
        let is_first = !self.is_begun();
        let done = self.put(update.step);
        self.comparisons.take(self.source.take_changes());
        let took = done.at.unwrap_or_else(Instant::now).saturating_duration_since(update.noticed);
        let is_reported = match &update.cause {
            Cause::Objects(_) => true,
            Cause::Machine { moved } => is_first || *moved || done.wrote != Wrote::Nothing,
        };
        if let Cause::Objects(_) = update.cause {
            if done.wrote != Wrote::Nothing {
                self.changed = now();
            }
            self.write_state();
        }
        if is_reported {
            let name = match update.cause {
                Cause::Objects(names) => shorten(&names),
                Cause::Machine { .. } => "this machine".to_owned(),
            };
            self.report(&done, took, (!is_first).then_some(name));
        }
    }

    /// Puts a step into the kernel, with the wiring and the addresses that belong to it.
    fn put(&mut self, step: Step) -> Done {
        let placement = self.source.placement();
        let (wiring, own, node) = (placement.wiring.clone(), placement.own.clone(), placement.node.clone());
        let done = match std::mem::replace(&mut self.kernel, KernelState::Changing) {
            KernelState::Idle(kernel) => {
                let part = self.source.view();
                let (enforcement, done) =
                    Enforcement::begin(part, &node, wiring, own, *kernel, self.remembered.as_ref());
                self.kernel = KernelState::Enforcing(Box::new(enforcement));
                done
            }
            KernelState::Enforcing(mut enforcement) => {
                // Rules and interfaces together: by an interface may come only what rules are enforced for.
                let done = match step {
                    Step::Deltas(deltas) => {
                        match enforcement.follow_wired(&deltas, wiring.clone(), own.clone()) {
                            Ok(done) => done,
                            Err(_) => enforcement.anew(self.source.view(), &node, wiring, own),
                        }
                    }
                    Step::Whole(part) => enforcement.anew(*part, &node, wiring, own),
                };
                self.kernel = KernelState::Enforcing(enforcement);
                done
            }
            KernelState::Changing => Done::default(),
        };
        let lacks: Option<Vec<String>> =
            self.enforcement().map(|enforcement| enforcement.live().lacks().iter().cloned().collect());
        self.warn(Topic::Pods, self.source.placement().notes.clone());
        self.warn(Topic::Unsupported, lacks.unwrap_or_default());
        self.is_unwritten = true;
        done
    }

    /// Reports a change, and has compared what it opened and closed. `changed` is `None` for the first one.
    fn report(&mut self, done: &Done, took: Duration, changed: Option<String>) {
        self.report_failure(done);
        match changed {
            _ if done.failed.is_some() => match changed {
                Some(name) => self.unreported = Some(name),
                None => self.comparisons.begin(),
            },
            Some(name) => {
                self.unreported = None;
                let outcomes = self.comparisons.compare(&name, took, done.cut);
                self.report_outcomes(outcomes);
            }
            None => {
                self.comparisons.begin();
                let placement = self.source.placement();
                self.observer.notice(Notice::Begun(Begun {
                    node: &placement.node,
                    policies: self.source.policies(),
                    pods: placement.pods.len(),
                    was_enforced: done.wrote == Wrote::Nothing,
                    cut: done.cut,
                    took,
                }));
            }
        }
    }

    fn report_failure(&mut self, done: &Done) {
        let behind = self.is_behind();
        let failed = done.failed.as_ref().map(|error| match behind {
            true => format!("{error}; what was in force stays in force, and it is tried again"),
            false => format!("{error}; whether the table is as it was left is not known"),
        });
        let uncut = done.uncut.as_ref();
        let uncut = uncut.map(|error| format!("{error}; connections that are denied now are cut later"));
        self.warn(Topic::Kernel, failed.into_iter().chain(uncut));
    }

    fn report_outcomes(&mut self, outcomes: Vec<Outcome<O::Changes>>) {
        for outcome in outcomes {
            self.observer.notice(Notice::Change(outcome));
        }
    }

    fn warn(&mut self, topic: Topic, warnings: impl IntoIterator<Item = String>) {
        self.observer.notice(Notice::Warnings(topic, warnings.into_iter().collect()));
    }

    /// Compares the kernel with what it should have, and repairs it.
    fn repair(&mut self) {
        let KernelState::Enforcing(enforcement) = &mut self.kernel else { return };
        let begun = Instant::now();
        let was_behind = enforcement.behind().is_some();
        let (done, repaired) = enforcement.repair();
        let is_behind = enforcement.behind().is_some();
        // An error that lasts is reported once.
        if !(is_behind && done.failed.is_none()) {
            self.report_failure(&done);
        }
        let (cut, took) = (done.cut, begun.elapsed());
        match (is_behind, repaired) {
            (true, _) => {}
            (false, Some(why)) => self.observer.notice(Notice::Repaired { why, cut, took }),
            (false, None) if was_behind => {
                self.observer.notice(Notice::Recovered { cut, took });
                if let Some(name) = self.unreported.take() {
                    let outcomes = self.comparisons.compare(&name, took, 0);
                    self.report_outcomes(outcomes);
                }
            }
            (false, None) if cut > 0 => self.observer.notice(Notice::Cut(cut)),
            _ => {}
        }
        if repaired.is_some() || was_behind {
            self.is_unwritten = true;
        }
    }

    fn tidy(&mut self) {
        if let KernelState::Enforcing(enforcement) = &mut self.kernel {
            let done = enforcement.tidy();
            self.is_unwritten |= done.wrote != Wrote::Nothing;
        }
    }
}

impl WatchedKernel for Linux {
    fn wakeup(&mut self) -> Option<BorrowedFd<'_>> {
        self.events().ok()
    }
}

impl WatchedKernel for Fake {
    fn wakeup(&mut self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Returns the names of files, without their folders: the first one, and how many more.
fn shorten(names: &[String]) -> String {
    let name = |path: &String| Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
    match names {
        [] => "nothing".to_owned(),
        [only] => name(only).unwrap_or_default(),
        [first, rest @ ..] => format!("{} and {} more", name(first).unwrap_or_default(), rest.len()),
    }
}
