//! Manifests in files and folders as a source of objects.
//!
//! ```text
//!   inotify (watch.rs) ─┐
//!   stamps (survey.rs) ─┴► texts ──► LastGood (last_good.rs) ──► changed objects
//! ```
//!
//! Texts are read by a [`ReadFiles`], which knows what counts as a manifest and bounds what is read.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io};

use palisade_dialects::source::tree::Source as Text;
use palisade_dialects::thorium::Reading;
use palisade_model::diagnostic::Diagnostic;
use rustix::event::{PollFd, PollFlags, poll};

use self::last_good::LastGood;
use self::survey::Survey;
use self::watch::Watch;
use crate::source::{Batch, EmptyNode, ObjectSource, SourceStatus};
use crate::state::State;
use crate::timeout;

pub mod last_good;
pub mod survey;
pub mod watch;

/// Reads texts from files and folders.
pub trait ReadFiles: fmt::Debug {
    /// Reads these paths, each a file or a folder.
    fn read(&self, paths: &[String]) -> Texts;

    /// Returns whether an entry of a folder is read: a manifest or a folder.
    fn is_read(&self, entry: &Path) -> bool;
}

/// Texts, and what could not be read.
#[derive(Debug, Default)]
pub struct Texts {
    /// The texts that were read.
    pub texts: Vec<Arc<Text>>,
    /// A diagnostic for each file or folder that was not, with the path as its location.
    pub unread: Vec<Diagnostic>,
}

/// The manifests of some paths, read again when they change.
#[derive(Debug)]
pub struct Manifests<R> {
    reader: R,
    paths: Vec<String>,
    last_good: LastGood,
    /// `None` if the files are read once.
    watch: Option<Watch>,
    survey: Survey,
    begun: bool,
    /// Whether a file was being written when it was read.
    unfinished: bool,
    requested: bool,
    surveyed: Instant,
}

/// How long nothing more must be saved before files are read, and the maximum wait for that.
const QUIET: Duration = Duration::from_millis(4);
const MAX_QUIET_WAIT: Duration = Duration::from_millis(10);
/// The minimum age of every file before the first reading, and the maximum wait for that.
const SETTLED: Duration = Duration::from_millis(100);
const MAX_SETTLED_WAIT: Duration = Duration::from_secs(1);
/// The interval at which files are compared with their stamps: not every file system reports changes.
const SURVEY: Duration = Duration::from_secs(2);
/// The maximum number of times that files are read again because one of them changed meanwhile.
const MAX_READS: usize = 20;

// === impl Manifests ===

impl<R: ReadFiles> Manifests<R> {
    /// Reads these paths, and reads them again whenever they change.
    pub fn watched(reader: R, paths: &[String], thorium: impl Into<Reading>) -> io::Result<Self> {
        let watch = Watch::new()?;
        Ok(Manifests { watch: Some(watch), ..Manifests::once(reader, paths, thorium) })
    }

    /// Reads these paths, and does not notice when they change.
    pub fn once(reader: R, paths: &[String], thorium: impl Into<Reading>) -> Self {
        Manifests {
            reader,
            paths: paths.to_vec(),
            last_good: LastGood::new(paths, thorium),
            watch: None,
            survey: Survey::default(),
            begun: false,
            unfinished: false,
            requested: false,
            surveyed: Instant::now(),
        }
    }

    /// Returns whether the files have to be read.
    fn is_changed(&mut self, noticed: Instant) -> bool {
        let mut changed = false;
        if let Some(watch) = &mut self.watch
            && watch.changed()
        {
            wait_until_quiet(watch, noticed);
            changed = true;
        }
        if self.surveyed.elapsed() >= SURVEY {
            self.surveyed = Instant::now();
            changed |= self.unfinished || self.survey().stamps != self.survey.stamps;
        }
        changed
    }

    fn survey(&self) -> Survey {
        let paths: Vec<PathBuf> = self.paths.iter().map(PathBuf::from).collect();
        Survey::of(&paths, &|entry| self.reader.is_read(entry))
    }

    /// Returns the files once none of them was changed just now: a writer may be in the middle of one, and nothing was watched yet.
    fn settled(&self) -> Survey {
        let begun = Instant::now();
        loop {
            let survey = self.survey();
            if begun.elapsed() > MAX_SETTLED_WAIT || !survey.is_newer_than(SETTLED) {
                return survey;
            }
            std::thread::sleep(SETTLED / 4);
        }
    }

    /// Reads the files once.
    fn read(&mut self, batch: &mut Batch) {
        let texts = self.read_unchanged();
        let watch = self.watch.as_ref();
        let accepted = self.last_good.take(texts, &|path| watch.is_some_and(|watch| watch.is_written(path)));
        self.unfinished = accepted.unfinished;
        if let Some(changes) = accepted.changes {
            batch.changes.get_or_insert_default().extend(changes);
        }
        batch.names.extend(accepted.changed);
    }

    /// Reads the files while nothing happens to them: a write that begins during the reading would be noticed only after half of the
    /// file was read. A writer that never stops is not waited for.
    fn read_unchanged(&mut self) -> Texts {
        let mut reads = 0;
        loop {
            let texts = self.reader.read(&self.paths);
            reads += 1;
            let Some(watch) = &mut self.watch else { return texts };
            if !watch.changed() || reads == MAX_READS {
                return texts;
            }
        }
    }

    /// Watches the folders of a survey. Returns whether one of them is new: something may have happened in it before.
    fn watch(&mut self) -> bool {
        self.watch.as_mut().is_some_and(|watch| watch.set(&self.survey.folders))
    }
}

impl<R: ReadFiles> ObjectSource for Manifests<R> {
    fn wakeups(&self) -> Vec<BorrowedFd<'_>> {
        self.watch.iter().map(AsFd::as_fd).collect()
    }

    fn due(&self) -> Option<Duration> {
        self.watch.as_ref().map(|_| SURVEY.saturating_sub(self.surveyed.elapsed()))
    }

    fn poll(&mut self) -> Option<Batch> {
        let noticed = Instant::now();
        let requested = std::mem::take(&mut self.requested);
        let mut batch = Batch { changes: None, names: Vec::new(), noticed, requested };
        if !self.begun {
            self.begun = true;
            self.survey = self.settled();
            self.watch();
            batch.noticed = Instant::now();
            self.read(&mut batch);
            return Some(batch);
        }
        if !(self.is_changed(noticed) || requested) {
            return None;
        }
        loop {
            self.survey = self.survey();
            let new_folder = self.watch();
            self.read(&mut batch);
            if !(new_folder && self.survey() != self.survey) {
                return Some(batch);
            }
        }
    }

    fn relist(&mut self) {
        self.requested = true;
    }

    fn status(&self) -> SourceStatus<'_> {
        SourceStatus {
            complete: self.last_good.is_complete(),
            problems: self.last_good.problems(),
            findings: self.last_good.findings(),
            machine: None,
        }
    }

    fn empty_node(&self) -> EmptyNode {
        EmptyNode::Suspect
    }

    fn restore(&mut self, state: &State) -> bool {
        let same = state.paths == self.paths;
        if same {
            self.last_good.restore(state.files.iter().map(|file| (file.name.clone(), file.text.clone())));
        }
        same
    }

    fn record(&self, state: &mut State) {
        state.paths.clone_from(&self.paths);
        state.files = self.last_good.texts().map(Into::into).collect();
    }
}

/// Waits until all files of a batch are saved, e.g. by `git checkout`.
fn wait_until_quiet(watch: &mut Watch, noticed: Instant) {
    while noticed.elapsed() < MAX_QUIET_WAIT {
        let mut ready = [PollFd::new(watch, PollFlags::IN)];
        match poll(&mut ready, Some(&timeout(QUIET))) {
            Ok(0) => return,
            _ => drop(watch.changed()),
        }
    }
}
