//! Compares what changes open and close, in a thread of its own: the kernel has a change before it is compared, and the next change does
//! not wait for the comparison of the last.
//!
//! ```text
//!   enforced change ──► Comparisons ──(changed objects)──► worker: its own copy of the objects, before and after ──► Outcome
//!                          ▲ further changes meanwhile: one batch
//! ```
//!
//! The worker follows the same objects as the engine, one by one, so the enforcing thread copies the changed objects and no others.
//! It compares the state that was last compared with the present one, so any number of changes leaves at most one comparison to do.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use palisade_dialects::object::Key;
use palisade_dialects::thorium::Reading;
use palisade_dialects::world::World;
use palisade_model::snapshot::Objects;

use crate::source::Change;

/// Compares the objects before and after a batch of changes.
pub type Compare<R> = fn(Objects, Objects) -> R;

/// Comparisons of enforced changes, one batch at a time.
#[derive(Debug)]
pub struct Comparisons<R> {
    worker: Option<Worker<R>>,
    /// Objects that changed since the last comparison began. Each is kept once.
    changed: BTreeMap<Key, Change>,
    running: Option<Batch>,
    waiting: Option<Batch>,
}

/// Changes that are compared together.
#[derive(Debug, Clone)]
pub struct Batch {
    /// What changed: file names, or the machine; the first [`MAX_NAMES`] different ones.
    pub names: Vec<String>,
    /// The number of changes.
    pub count: usize,
    /// The time from noticing to enforcing, of the last change.
    pub took: Duration,
    /// The number of connections that were cut.
    pub cut: usize,
    /// When the batch was reported as [`Outcome::Pending`].
    pub announced: Option<SystemTime>,
    since: Instant,
}

/// What is known of a batch.
#[derive(Debug)]
pub enum Outcome<R> {
    /// The comparison takes longer; its result follows.
    Pending(Batch),
    /// A change that joined a batch which was announced already.
    Joined(Batch),
    /// The result.
    Compared(Batch, R),
    /// There will be no result.
    Unknown(Batch),
}

/// A thread that compares.
#[derive(Debug)]
struct Worker<R> {
    tasks: SyncSender<Task>,
    results: Receiver<R>,
    /// Readable when there is a result.
    bell: UnixStream,
}

/// Changed objects, and whether to compare.
#[derive(Debug)]
struct Task {
    changes: Vec<Change>,
    compare: bool,
}

/// The maximum number of changes of a batch that are named.
pub const MAX_NAMES: usize = 3;
/// How long a comparison may take before a change is announced without it.
const PATIENCE: Duration = Duration::from_secs(1);
/// The lowest priority: enforcing comes first.
const NICE: i32 = 19;

// === impl Comparisons ===

impl<R: Send + 'static> Comparisons<R> {
    /// Starts the thread. If it does not start, every outcome is [`Outcome::Unknown`].
    pub fn new(compare: Compare<R>, thorium: Reading) -> Self {
        let worker = Worker::start(compare, thorium).ok();
        Comparisons { worker, changed: BTreeMap::new(), running: None, waiting: None }
    }

    /// Takes changed objects. They are part of the next comparison.
    pub fn take(&mut self, changes: Vec<Change>) {
        if self.worker.is_some() {
            self.changed.extend(changes.into_iter().map(|change| (change.key().clone(), change)));
        }
    }

    /// Begins with the objects that were taken: later changes are compared with them.
    pub fn begin(&mut self) {
        let changes = self.changed();
        if let Some(worker) = &self.worker {
            // The worker waits: it has had nothing to do yet.
            let _ = worker.tasks.send(Task { changes, compare: false });
        }
    }

    /// Compares a change that the kernel has, once the comparisons before it are done.
    pub fn compare(&mut self, name: &str, took: Duration, cut: usize) -> Vec<Outcome<R>> {
        let mut outcomes = Vec::new();
        let mut batch = self.waiting.take().unwrap_or_default();
        if batch.announced.is_some() {
            // The others of the batch were announced already.
            let mut own = Batch::default();
            own.add(name, took, cut);
            outcomes.push(Outcome::Joined(own));
        }
        batch.add(name, took, cut);
        self.waiting = Some(batch);
        outcomes.extend(self.advance());
        outcomes
    }

    /// Returns a descriptor that becomes readable when a comparison is done.
    pub fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        self.worker.as_ref().map(|worker| worker.bell.as_fd())
    }

    /// Returns how long until there is something to announce though no comparison is done.
    pub fn due(&self) -> Option<Duration> {
        let quiet = self.running.iter().chain(&self.waiting).filter(|batch| batch.announced.is_none());
        quiet.map(|batch| PATIENCE.saturating_sub(batch.since.elapsed())).min()
    }

    /// Returns what is known by now, and has the next batch compared.
    pub fn advance(&mut self) -> Vec<Outcome<R>> {
        let mut outcomes = Vec::new();
        match self.worker.as_mut().map(Worker::result) {
            Some(Ok(result)) => outcomes.extend(self.done(result)),
            Some(Err(TryRecvError::Empty)) => {}
            Some(Err(TryRecvError::Disconnected)) | None => outcomes.extend(self.give_up()),
        }
        if self.running.is_none()
            && self.worker.is_some()
            && let Some(batch) = self.waiting.take()
        {
            let changes = self.changed();
            if let Some(worker) = &self.worker {
                let _ = worker.tasks.try_send(Task { changes, compare: true });
            }
            self.running = Some(batch);
        }
        for batch in self.running.iter_mut().chain(&mut self.waiting) {
            if batch.announced.is_none() && batch.since.elapsed() >= PATIENCE {
                outcomes.push(Outcome::Pending(batch.clone()));
                batch.announced = Some(SystemTime::now());
            }
        }
        outcomes
    }

    /// Waits a moment for what is still being compared; gives up the rest.
    pub fn finish(&mut self) -> Vec<Outcome<R>> {
        let mut outcomes = Vec::new();
        let until = Instant::now() + PATIENCE;
        while self.running.is_some()
            && let Some(worker) = &self.worker
        {
            match worker.results.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(result) => outcomes.extend(self.done(result)),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => self.worker = None,
            }
            outcomes.extend(self.advance());
        }
        outcomes.extend(self.give_up());
        outcomes
    }

    fn changed(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changed).into_values().collect()
    }

    fn done(&mut self, result: R) -> Option<Outcome<R>> {
        self.running.take().map(|batch| Outcome::Compared(batch, result))
    }

    fn give_up(&mut self) -> Vec<Outcome<R>> {
        self.worker = None;
        self.changed.clear();
        let batches = self.running.take().into_iter().chain(self.waiting.take());
        batches.filter(|batch| batch.announced.is_none()).map(Outcome::Unknown).collect()
    }
}

// === impl Worker ===

impl<R: Send + 'static> Worker<R> {
    fn start(compare: Compare<R>, thorium: Reading) -> std::io::Result<Self> {
        let (tasks, receive) = sync_channel::<Task>(2);
        let (send, results) = sync_channel(1);
        let (bell, mut rope) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let work = move || {
            // Of this thread alone, and of those that it starts.
            let _ = rustix::process::setpriority_process(None, NICE);
            let mut world = World::default();
            world.read_thorium_as(thorium);
            let mut before = Objects::default();
            for task in receive {
                for change in task.changes {
                    change.apply_to(&mut world);
                }
                let after = world.objects();
                let was = std::mem::replace(&mut before, after.clone());
                if task.compare && (send.send(compare(was, after)).is_err() || rope.write_all(&[1]).is_err())
                {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("comparison".to_owned()).spawn(work)?;
        Ok(Worker { tasks, results, bell })
    }

    fn result(&mut self) -> Result<R, TryRecvError> {
        let mut bells = [0; 8];
        let _ = self.bell.read(&mut bells);
        self.results.try_recv()
    }
}

// === impl Batch ===

impl Default for Batch {
    fn default() -> Self {
        Batch {
            names: Vec::new(),
            count: 0,
            took: Duration::ZERO,
            cut: 0,
            announced: None,
            since: Instant::now(),
        }
    }
}

impl Batch {
    /// Adds a change.
    pub fn add(&mut self, name: &str, took: Duration, cut: usize) {
        self.count += 1;
        if self.names.len() < MAX_NAMES && !self.names.iter().any(|known| known == name) {
            self.names.push(name.to_owned());
        }
        self.took = took;
        self.cut += cut;
    }
}

#[cfg(test)]
mod tests {
    use palisade_dialects::object::Loaded;
    use palisade_model::cluster::Pod;

    use super::*;

    fn pod(name: &str) -> Change {
        let pod = Pod { namespace: "shop".into(), name: name.into(), ..Pod::default() };
        Change::Apply(Loaded::from(pod))
    }

    // The comparison of a real caller consumes both sides.
    #[allow(clippy::needless_pass_by_value)]
    fn counts(before: Objects, after: Objects) -> (usize, usize) {
        (before.pods.len(), after.pods.len())
    }

    /// Whatever happens meanwhile, each comparison goes on from where the last one ended.
    #[test]
    fn any_number_of_changes_leaves_one_comparison_to_do() {
        let mut comparisons = Comparisons::new(counts, Reading::default());
        comparisons.take(vec![pod("first")]);
        comparisons.begin();
        let (mut last, mut changes) = (1, 0);
        let mut see = |outcomes: Vec<Outcome<(usize, usize)>>| {
            for outcome in outcomes {
                let Outcome::Compared(batch, (before, after)) = outcome else { panic!("{outcome:?}") };
                assert_eq!(before, last);
                (last, changes) = (after, changes + batch.count);
            }
        };
        for number in 0..1_000 {
            comparisons.take(vec![pod(&format!("p{number}"))]);
            see(comparisons.compare("a.yaml", Duration::ZERO, 0));
        }
        see(comparisons.finish());
        assert!(comparisons.running.is_none() && comparisons.waiting.is_none());
        assert_eq!((last, changes), (1_001, 1_000));
    }

    #[test]
    fn without_a_worker_changes_are_reported_all_the_same() {
        let mut comparisons: Comparisons<()> =
            Comparisons { worker: None, changed: BTreeMap::new(), running: None, waiting: None };
        comparisons.take(vec![pod("a")]);
        let outcomes = comparisons.compare("a.yaml", Duration::ZERO, 0);
        assert!(matches!(&outcomes[..], [Outcome::Unknown(batch)] if batch.count == 1), "{outcomes:?}");
        assert!(comparisons.changed.is_empty() && comparisons.due().is_none());
        assert!(comparisons.wakeup().is_none());
    }

    #[test]
    fn a_batch_names_the_first_few() {
        let mut batch = Batch::default();
        for (name, cut) in [("db.yaml", 1), ("web.yaml", 2), ("db.yaml", 0), ("job.yaml", 0), ("all.yaml", 0)]
        {
            batch.add(name, Duration::from_millis(5), cut);
        }
        assert_eq!((batch.names.len(), batch.count, batch.cut), (MAX_NAMES, 5, 3));
    }
}
