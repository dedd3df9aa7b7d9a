//! Deltas for any number of readers, none of whom the writer waits for.
//!
//! ```text
//!   base ──► delta ──► delta ──► delta ──► (the next one)
//!    ▲ a view           ▲ some reader       ▲ the writer
//! ```
//!
//! The deltas since a view, the **base**, are a chain that only grows at its end. A reader starts with the base and follows
//! the chain at its own pace, on whatever thread; what every reader has passed, and the base has, is freed. Nobody takes a
//! lock: the writer sets the end of the chain, once.
//!
//! The chain would grow for ever if the base stayed. To fold a long chain into the base is work in the size of the
//! cluster, so the writer does not do it: a reader that has followed has a view anyway, and hands it in with
//! [`Feed::rebase`]. A feed that nobody reads wants one reader for that alone.

use std::sync::{Arc, OnceLock};

use crate::delta::Delta;
use crate::view::{OutOfStep, View};

/// The writer's end.
#[derive(Debug)]
pub struct Feed {
    base: Arc<View>,
    /// What follows the base.
    first: Arc<Link>,
    last: Arc<Link>,
    /// How many deltas there are since the base.
    length: usize,
    /// Which feed it is.
    own: Arc<()>,
}

/// A reader's end: a view, and what follows it.
#[derive(Debug, Clone)]
pub struct Reader {
    base: Arc<View>,
    /// Deltas that have been taken and that the view has not followed yet.
    taken: Vec<Arc<Delta>>,
    next: Arc<Link>,
    own: Arc<()>,
}

/// A beginning that is not needed any more. To free it takes time in the size of the cluster: drop it where nobody waits.
#[derive(Debug)]
pub struct Past {
    _base: Arc<View>,
    _first: Arc<Link>,
}

/// A place in the chain: nothing yet, or a delta and the next place.
#[derive(Debug, Default)]
struct Link(OnceLock<(Arc<Delta>, Arc<Link>)>);

// === impl Feed ===

impl Feed {
    /// Starts with what there is.
    pub fn new(view: View) -> Self {
        let last = Arc::new(Link::default());
        Feed { base: Arc::new(view), first: Arc::clone(&last), last, length: 0, own: Arc::default() }
    }

    /// Hands a delta on. One that changes nothing is not worth a place.
    pub fn push(&mut self, delta: Delta) {
        if delta.changes.is_empty() {
            return;
        }
        let next = Arc::new(Link::default());
        if self.last.0.set((Arc::new(delta), Arc::clone(&next))).is_ok() {
            self.last = next;
            self.length += 1;
        }
    }

    /// A new reader. This takes no time: the view it starts with is shared, and it follows by itself.
    pub fn reader(&self) -> Reader {
        Reader {
            base: Arc::clone(&self.base),
            taken: Vec::new(),
            next: Arc::clone(&self.first),
            own: Arc::clone(&self.own),
        }
    }

    /// How many deltas a new reader has to follow: how urgent it is to rebase.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Takes a reader's place as the new beginning, and gives back the old one. Nothing happens if that is not older, if the
    /// reader's view is behind what it has taken, or if it reads another feed.
    pub fn rebase(&mut self, reader: &Reader) -> Option<Past> {
        let fits = reader.taken.is_empty() && Arc::ptr_eq(&reader.own, &self.own);
        if !fits || reader.base.epoch() <= self.base.epoch() {
            return None;
        }
        let base = std::mem::replace(&mut self.base, Arc::clone(&reader.base));
        let first = std::mem::replace(&mut self.first, Arc::clone(&reader.next));
        let rest = std::iter::successors(self.first.0.get(), |(_, next)| next.0.get());
        self.length = rest.count();
        Some(Past { _base: base, _first: first })
    }
}

// === impl Reader ===

impl Reader {
    /// The view at this place, which is whole: all of some epoch, and nothing of the next.
    pub fn view(&self) -> &Arc<View> {
        &self.base
    }

    /// The next delta, if there is one yet. The view stays where it is; see [`Reader::catch_up`].
    pub fn next_delta(&mut self) -> Option<Arc<Delta>> {
        let (delta, next) = self.next.0.get()?;
        let (delta, next) = (Arc::clone(delta), Arc::clone(next));
        self.next = next;
        self.taken.push(Arc::clone(&delta));
        Some(delta)
    }

    /// Brings the view up to the last delta there is.
    pub fn catch_up(&mut self) -> Result<&Arc<View>, OutOfStep> {
        while self.next_delta().is_some() {}
        for delta in self.taken.drain(..) {
            Arc::make_mut(&mut self.base).follow(&delta)?;
        }
        Ok(&self.base)
    }
}

// === impl Link ===

/// A long chain is freed link by link: one inside of the other would need a stack as long.
impl Drop for Link {
    fn drop(&mut self) {
        let mut rest = self.0.take().map(|(_, next)| next);
        while let Some(next) = rest {
            rest = Arc::into_inner(next).and_then(|mut link| link.0.take()).map(|(_, next)| next);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use palisade_model::cluster::Pod;
    use palisade_model::label::Labels;
    use palisade_model::label::Selector;
    use palisade_model::policy::{
        Dialect, Direction, Isolation, Namespaces, Object, Placement, PodSet, Policy, Subject,
    };

    use super::*;
    use crate::Engine;
    use crate::delta::{Change, SetId};
    use palisade_model::event::{Event, Item};

    fn pod(name: usize) -> Event {
        let labels = Labels::new([("app".into(), "web".into())]);
        let pod = Pod { namespace: "x".into(), name: name.to_string().into(), labels, ..Pod::default() };
        Event::Apply(Item::Pod(pod))
    }

    fn policy() -> Event {
        let set = PodSet::new(Namespaces::Named("x".into()), Selector::label("app", "web"));
        let subjects: Arc<[Subject]> = Arc::new([set.into()]);
        let object = Object {
            kind: "NetworkPolicy".into(),
            namespace: Some("x".into()),
            name: "deny".into(),
            group: "networking.k8s.io".into(),
            version: "v1".into(),
            generation: 1,
            at: None,
            dialect: Dialect::NetworkPolicy,
        };
        Event::Apply(Item::Policy(Policy {
            object: Arc::new(object),
            placement: Placement::Union,
            isolations: vec![Isolation { subjects, direction: Direction::Ingress }],
            rules: Vec::new(),
            unreadable: None,
        }))
    }

    #[test]
    fn a_reader_starts_anywhere_and_misses_nothing() {
        let mut engine = Engine::default();
        let mut feed = Feed::new(engine.view());
        let mut early = feed.reader();
        feed.push(engine.apply(policy()));
        for name in 0..50 {
            feed.push(engine.apply(pod(name)));
        }
        let mut late = feed.reader();
        assert_eq!(late.view().epoch(), 0);
        assert_eq!(late.catch_up().unwrap().as_ref(), &engine.view());
        feed.rebase(&late);
        assert_eq!(feed.length(), 0);
        feed.push(engine.apply(pod(50)));
        let mut latest = feed.reader();
        assert_eq!(latest.view().epoch(), 51);
        assert!(latest.next_delta().is_some() && latest.next_delta().is_none());
        // Whoever was there before the new beginning goes on where it was.
        assert_eq!(early.catch_up().unwrap().as_ref(), &engine.view());
        feed.rebase(&early);
        feed.rebase(&late);
        assert_eq!((feed.reader().view().epoch(), feed.length()), (52, 0));
    }

    #[test]
    fn readers_on_other_threads_see_whole_epochs_only() {
        let mut engine = Engine::default();
        let mut feed = Feed::new(engine.view());
        feed.push(engine.apply(policy()));
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let mut reader = feed.reader();
                std::thread::spawn(move || {
                    while reader.view().epoch() < 501 {
                        let view = reader.catch_up().unwrap();
                        let members: usize = view.sets().values().map(|set| set.members.len()).sum();
                        assert_eq!(members as u64, view.epoch().saturating_sub(1));
                    }
                    reader.view().to_string()
                })
            })
            .collect();
        for name in 0..500 {
            feed.push(engine.apply(pod(name)));
        }
        for reader in readers {
            assert_eq!(reader.join().unwrap(), engine.view().to_string());
        }
    }

    #[test]
    fn a_chain_that_nobody_reads_is_freed_without_a_deep_stack() {
        let mut engine = Engine::default();
        let mut feed = Feed::new(engine.view());
        feed.push(engine.apply(policy()));
        for name in 0..200_000 {
            feed.push(engine.apply(pod(name % 7 + name / 100_000)));
            feed.push(Delta { epoch: 0, changes: vec![Change::SetRemoved(SetId::new(NonZeroU32::MIN))] });
        }
        drop(feed);
    }
}
