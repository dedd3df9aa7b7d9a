//! A source of objects as a source of this node's view: an engine in this process computes it.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use palisade_dialects::thorium::Reading;
use palisade_engine::view::View;

use crate::link_events::LinkEvents;
use crate::machine::Placement;
use crate::machine::network::Network;
use crate::node_view::NodeView;
use crate::source::{Cause, Change, ObjectSource, Polled, Read, Source, SourceStatus, Update};
use crate::state::State;

/// Objects, and the machine they are enforced on.
#[derive(Debug)]
pub struct EngineSource<S, N> {
    objects: S,
    view: NodeView<N>,
    /// `None` if the machine is looked at once.
    links: Option<LinkEvents>,
    /// When to look at the machine again.
    looks: Vec<Instant>,
    looked: Instant,
    /// Why the machine could not be looked at the last time.
    trouble: Option<String>,
}

/// When to look at the machine after its interfaces changed: the address of a pod comes a while after its interface.
const LOOKS_AFTER_CHANGE: [Duration; 3] =
    [Duration::from_millis(20), Duration::from_millis(200), Duration::from_secs(1)];
/// The interval of looking into network namespaces: the kernel reports no changes in them.
const LOOK: Duration = Duration::from_secs(2);

// === impl EngineSource ===

impl<S: ObjectSource, N: Network> EngineSource<S, N> {
    /// Computes the view of this machine from objects. The machine is this node, if one is given.
    pub fn new(objects: S, network: N, node: Option<&str>, thorium: impl Into<Reading>) -> Self {
        let mut view = NodeView::new(network, objects.empty_node(), node);
        view.read_thorium_as(thorium);
        view.collect_changes();
        EngineSource { objects, view, links: None, looks: Vec::new(), looked: Instant::now(), trouble: None }
    }

    /// Follows changes of the machine's interfaces, too.
    #[must_use]
    pub fn with_links(self, links: LinkEvents) -> Self {
        EngineSource { links: Some(links), ..self }
    }

    /// Looks at the machine, if it is time.
    fn look_at_machine(&mut self) -> Polled {
        if let Some(links) = &mut self.links
            && links.changed()
        {
            self.looks.extend(LOOKS_AFTER_CHANGE.iter().map(|after| Instant::now() + *after));
        }
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            // A machine that could not be placed at first is tried again.
            let is_due = self.view.has_namespaces() || !self.view.is_begun();
            self.looks.extend(is_due.then(Instant::now));
        }
        let now = Instant::now();
        let is_due = self.looks.iter().any(|at| *at <= now);
        self.looks.retain(|at| *at > now);
        if !is_due || !self.objects.status().complete {
            return Polled::default();
        }
        let looked = self.view.look_at_machine();
        self.trouble = looked.as_ref().err().map(|error| format!("{error}; the machine counts as it was"));
        if self.view.is_begun() && !matches!(looked, Ok(true)) {
            return Polled::default();
        }
        let before = self.view.placement().clone();
        let step = self.view.take(Vec::new());
        let moved = *self.view.placement() != before;
        let update = step.map(|step| Update { step, cause: Cause::Machine { moved }, noticed: now });
        Polled { read: None, update: Some(update) }
    }
}

impl<S: ObjectSource, N: Network> Source for EngineSource<S, N> {
    fn wakeups(&self) -> Vec<BorrowedFd<'_>> {
        let mut all = self.objects.wakeups();
        all.extend(self.links.iter().map(AsFd::as_fd));
        all
    }

    fn due(&self) -> Option<Duration> {
        let looks = self.looks.iter().map(|at| at.saturating_duration_since(Instant::now()));
        let look = self.links.as_ref().map(|_| LOOK.saturating_sub(self.looked.elapsed()));
        looks.chain(look).chain(self.objects.due()).min()
    }

    fn poll(&mut self) -> Polled {
        let Some(batch) = self.objects.poll() else { return self.look_at_machine() };
        let read = Read { requested: batch.requested, changed: batch.changes.is_some() };
        let update = batch.changes.map(|changes| {
            let step = self.view.take(changes)?;
            Ok(Update { step, cause: Cause::Objects(batch.names), noticed: batch.noticed })
        });
        Polled { read: Some(read), update }
    }

    fn relist(&mut self) {
        self.objects.relist();
    }

    fn status(&self) -> SourceStatus<'_> {
        SourceStatus { machine: self.trouble.as_deref(), ..self.objects.status() }
    }

    fn view(&self) -> View {
        self.view.part()
    }

    fn placement(&self) -> &Placement {
        self.view.placement()
    }

    fn policies(&self) -> usize {
        self.view.policies()
    }

    fn restore(&mut self, state: &State) -> bool {
        self.view.restore(state);
        self.objects.restore(state)
    }

    fn record(&self, state: &mut State) {
        self.objects.record(state);
    }

    fn take_changes(&mut self) -> Vec<Change> {
        self.view.take_changes()
    }
}
