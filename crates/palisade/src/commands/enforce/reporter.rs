//! Reports what changes open and close, in a thread of its own: the kernel has a change before it is reported, and the next change does not
//! wait for the report of the last.
//!
//! ```text
//!   change in force ──► Reporter ──(last reported, present)──► comparison ──► line
//!                          ▲ further changes meanwhile: one batch
//! ```
//!
//! What is compared is the state that was last reported and the present one, so any number of changes leaves at most one comparison to do.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use palisade_model::snapshot::Objects;
use palisade_report::diagnostics::plural;

use super::super::changes::{Changes, between};
use super::said::Said;
use crate::print::time::{clock, seconds};

/// Compares the present state with the one that was last reported, and prints a line for it.
#[derive(Debug)]
pub struct Reporter {
    worker: Option<Worker>,
    /// What the last line was about; nothing before the first load.
    reported: Option<Arc<Objects>>,
    /// What is compared now, and for which changes.
    running: Option<(Arc<Objects>, Batch)>,
    /// What is in force since, and what led there.
    waiting: Option<(Arc<Objects>, Batch)>,
}

/// A thread that compares.
#[derive(Debug)]
struct Worker {
    tasks: SyncSender<(Arc<Objects>, Arc<Objects>)>,
    results: Receiver<Changes>,
    /// Readable when there is a result.
    bell: UnixStream,
}

/// Changes that are reported in one line.
#[derive(Debug)]
struct Batch {
    /// What changed: file names, or the machine; the first few.
    names: Vec<String>,
    count: usize,
    /// How long the last took until the kernel had it.
    took: Duration,
    cut: usize,
    since: Instant,
    /// The time of the line that said that the report takes longer.
    announced: Option<String>,
}

/// How many changes of a batch are named.
const NAMED: usize = 3;
/// How long a comparison may take before a change is logged without it.
const PATIENCE: Duration = Duration::from_secs(1);
/// The lowest priority: enforcing comes first.
const NICE: i32 = 19;

// === impl Reporter ===

impl Reporter {
    /// Starts the thread. Without one, changes are logged without what they open and close.
    pub fn new() -> Self {
        Reporter { worker: Worker::start().ok(), reported: None, running: None, waiting: None }
    }

    /// Begins with what is in force: later changes are compared with it.
    pub fn begin(&mut self, objects: Arc<Objects>) {
        self.reported = Some(objects);
    }

    /// Logs a change that the kernel has, as soon as it is known what it opens and closes.
    pub fn changed(&mut self, name: &str, took: Duration, cut: usize, objects: Arc<Objects>, said: &Said) {
        let mut batch = self.waiting.take().map_or_else(Batch::new, |(_, batch)| batch);
        if batch.announced.is_some() {
            // The others of the batch were logged already.
            let own = Batch { count: 1, names: vec![name.to_owned()], took, cut, ..Batch::new() };
            said.line(own.words());
        }
        batch.add(name, took, cut);
        self.waiting = Some((objects, batch));
        self.advance(said);
    }

    /// Something to wait for: a comparison is done.
    pub fn events(&self) -> Option<BorrowedFd<'_>> {
        self.worker.as_ref().map(|worker| worker.bell.as_fd())
    }

    /// When there is something to do though nothing happens.
    pub fn due(&self) -> Option<Duration> {
        let batches = self.running.iter().chain(&self.waiting).map(|(_, batch)| batch);
        let quiet = batches.filter(|batch| batch.announced.is_none());
        quiet.map(|batch| PATIENCE.saturating_sub(batch.since.elapsed())).min()
    }

    /// Prints what is known by now, and has the next batch compared.
    pub fn advance(&mut self, said: &Said) {
        match self.worker.as_mut().map(Worker::result) {
            Some(Ok(changes)) => self.print(&changes, said),
            Some(Err(TryRecvError::Empty)) => {}
            Some(Err(TryRecvError::Disconnected)) | None => self.give_up(said),
        }
        if self.running.is_none()
            && let Some(worker) = &self.worker
            && let Some((objects, batch)) = self.waiting.take()
        {
            let before = self.reported.get_or_insert_with(|| Arc::clone(&objects));
            let _ = worker.tasks.try_send((Arc::clone(before), Arc::clone(&objects)));
            self.running = Some((objects, batch));
        }
        for (_, batch) in self.running.iter_mut().chain(&mut self.waiting) {
            if batch.announced.is_none() && batch.since.elapsed() >= PATIENCE {
                batch.announced = Some(clock());
                said.line(text!("{}; what opens and closes is being computed", batch.words()));
            }
        }
    }

    /// Before the end: waits a moment for what is still being compared.
    pub fn finish(&mut self, said: &Said) {
        let until = Instant::now() + PATIENCE;
        while self.running.is_some()
            && let Some(worker) = &self.worker
        {
            match worker.results.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(changes) => self.print(&changes, said),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => self.worker = None,
            }
            self.advance(said);
        }
        self.give_up(said);
    }

    fn print(&mut self, changes: &Changes, said: &Said) {
        let Some((objects, batch)) = self.running.take() else { return };
        self.reported = Some(objects);
        let words = changes.words(said.out);
        said.line(match &batch.announced {
            Some(time) => text!("{}, logged at {time}: {words}", batch.names()),
            None => text!("{}: {words}", batch.words()),
        });
    }

    /// Logs what cannot be compared any more.
    fn give_up(&mut self, said: &Said) {
        self.worker = None;
        for (objects, batch) in self.running.take().into_iter().chain(self.waiting.take()) {
            self.reported = Some(objects);
            if batch.announced.is_none() {
                said.line(text!("{}; what opens and closes is not known", batch.words()));
            }
        }
    }
}

// === impl Worker ===

impl Worker {
    fn start() -> std::io::Result<Worker> {
        let (tasks, receive) = sync_channel::<(Arc<Objects>, Arc<Objects>)>(1);
        let (send, results) = sync_channel(1);
        let (bell, mut rope) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let work = move || {
            // Of this thread alone, and of those that it starts.
            let _ = rustix::process::setpriority_process(None, NICE);
            for (before, after) in receive {
                let changes = between(Objects::clone(&before), Objects::clone(&after));
                drop((before, after));
                if send.send(changes).is_err() || rope.write_all(&[1]).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("reporter".to_owned()).spawn(work)?;
        Ok(Worker { tasks, results, bell })
    }

    fn result(&mut self) -> Result<Changes, TryRecvError> {
        let mut bells = [0; 8];
        let _ = self.bell.read(&mut bells);
        self.results.try_recv()
    }
}

// === impl Batch ===

impl Batch {
    fn new() -> Batch {
        Batch {
            names: Vec::new(),
            count: 0,
            took: Duration::ZERO,
            cut: 0,
            since: Instant::now(),
            announced: None,
        }
    }

    fn add(&mut self, name: &str, took: Duration, cut: usize) {
        self.count += 1;
        if self.names.len() < NAMED && !self.names.iter().any(|known| known == name) {
            self.names.push(name.to_owned());
        }
        self.took = took;
        self.cut += cut;
    }

    fn names(&self) -> String {
        let names = self.names.join(", ");
        let more = if self.names.len() == NAMED && self.count > NAMED { ", …" } else { "" };
        match self.count {
            1 => names,
            count => format!("{} ({names}{more})", plural(count, "change")),
        }
    }

    /// `db.yaml changed, enforced in 38 ms, 1 connection cut`.
    fn words(&self) -> String {
        let cut = match self.cut {
            0 => String::new(),
            count => format!(", {} cut", plural(count, "connection")),
        };
        let took = seconds(self.took);
        match self.count {
            1 => format!("{} changed, enforced in {took}{cut}", self.names()),
            _ => format!("{} enforced, the last in {took}{cut}", self.names()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ColorChoice;

    #[test]
    fn a_batch_is_a_line() {
        let mut batch = Batch::new();
        batch.add("db.yaml", Duration::from_millis(38), 1);
        assert_eq!(batch.words(), "db.yaml changed, enforced in 38 ms, 1 connection cut");
        batch.add("web.yaml", Duration::from_millis(5), 2);
        assert_eq!(
            batch.words(),
            "2 changes (db.yaml, web.yaml) enforced, the last in 5 ms, 3 connections cut"
        );
        for name in ["db.yaml", "job.yaml", "all.yaml"] {
            batch.add(name, Duration::from_millis(5), 0);
        }
        assert_eq!(
            batch.words(),
            "5 changes (db.yaml, web.yaml, job.yaml, …) enforced, the last in 5 ms, 3 connections cut"
        );
    }

    #[test]
    fn any_number_of_changes_leaves_one_comparison_to_do() {
        let said = Said::new(ColorChoice::Never);
        let mut reporter = Reporter::new();
        reporter.begin(Arc::default());
        let mut last = Arc::default();
        for _ in 0..10_000 {
            last = Arc::new(Objects::default());
            reporter.changed("a.yaml", Duration::ZERO, 0, Arc::clone(&last), &said);
        }
        reporter.finish(&said);
        assert!(reporter.running.is_none() && reporter.waiting.is_none());
        assert!(reporter.reported.is_some_and(|reported| Arc::ptr_eq(&reported, &last)));
    }

    #[test]
    fn without_a_worker_changes_are_logged_all_the_same() {
        let said = Said::new(ColorChoice::Never);
        let mut reporter = Reporter { worker: None, reported: None, running: None, waiting: None };
        reporter.changed("a.yaml", Duration::ZERO, 0, Arc::default(), &said);
        assert!(reporter.waiting.is_none() && reporter.due().is_none() && reporter.events().is_none());
    }
}
