//! Where a node's policies come from.
//!
//! ```text
//!   ObjectSource                                     Source
//!   ────────────                                     ──────
//!   manifests::Manifests  (files) ──┐
//!   a watch of the Kubernetes API ──┴► EngineSource ──┐
//!                                                     ├──► Enforcer ──► kernel
//!   a controller's feed ──────────────────────────────┘
//! ```
//!
//! A [`Source`] yields what changed for this node: deltas of its view, or all of it. A source of objects is one level below: it yields
//! objects that were applied or deleted, and [`EngineSource`](crate::engine_source::EngineSource) computes the view from them in this
//! process. A feed skips that level, because its controller has computed the view already.
//!
//! Both traits are synchronous and never block: the enforcer polls the descriptors of [`Source::wakeups`] together with those of the
//! kernel, the metrics and the signals, in one thread. A source that needs an async runtime runs it in threads of its own and hands over
//! by a channel and a socket pair whose other end is the wakeup.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use palisade_dialects::object::{Key, Loaded};
use palisade_dialects::source::tree::Source as Text;
use palisade_dialects::world::World;
use palisade_engine::delta::Delta;
use palisade_engine::view::View;
use palisade_model::diagnostic::Diagnostic;

use crate::machine::Placement;
use crate::node_view::PlacementError;
use crate::state::State;

/// A source of what is to be enforced on this node.
pub trait Source {
    /// Returns descriptors that become readable when [`Source::poll`] has something to do.
    fn wakeups(&self) -> Vec<BorrowedFd<'_>>;

    /// Returns how long until [`Source::poll`] has something to do though no descriptor is readable; `None` if that cannot happen.
    fn due(&self) -> Option<Duration>;

    /// Takes what changed since the last call, without blocking for more.
    fn poll(&mut self) -> Polled;

    /// Reads everything again at the next [`Source::poll`], whether or not it seems to have changed.
    fn relist(&mut self);

    /// Reports how far the source can be relied on.
    fn status(&self) -> SourceStatus<'_>;

    /// Returns all of this node's part, at the epoch of the last update; for an enforcer whose deltas do not fit.
    fn view(&self) -> View;

    /// Returns where this node's pods are, as of the last update.
    fn placement(&self) -> &Placement;

    /// Returns the number of policies in the last update.
    fn policies(&self) -> usize;

    /// Takes over what an earlier enforcer wrote down. Returns whether that one had the same source: its times go on then.
    fn restore(&mut self, state: &State) -> bool;

    /// Adds what [`Source::restore`] needs to a state.
    fn record(&self, state: &mut State);

    /// Returns the objects that changed in updates since the last call, for a comparison of what opened and closed. Sources that have no
    /// objects return none.
    fn take_changes(&mut self) -> Vec<Change>;
}

/// A source of objects: files, or the API of a cluster.
pub trait ObjectSource {
    /// See [`Source::wakeups`].
    fn wakeups(&self) -> Vec<BorrowedFd<'_>>;

    /// See [`Source::due`].
    fn due(&self) -> Option<Duration>;

    /// Returns what was read since the last call; `None` if nothing was.
    fn poll(&mut self) -> Option<Batch>;

    /// See [`Source::relist`].
    fn relist(&mut self);

    /// See [`Source::status`].
    fn status(&self) -> SourceStatus<'_>;

    /// Returns whether a node that has lost all of its pods is believed.
    fn empty_node(&self) -> EmptyNode;

    /// See [`Source::restore`].
    fn restore(&mut self, state: &State) -> bool;

    /// See [`Source::record`].
    fn record(&self, state: &mut State);
}

/// What a source of objects read.
#[derive(Debug)]
pub struct Batch {
    /// What changed; `None` if nothing did, or nothing was accepted. The first accepted batch is complete, and may be empty.
    pub changes: Option<Vec<Change>>,
    /// What the changes are called in a log, e.g. names of files.
    pub names: Vec<String>,
    /// When the change was noticed.
    pub noticed: Instant,
    /// Whether [`ObjectSource::relist`] caused it.
    pub requested: bool,
}

/// A change of one object.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "changes are handed over one by one; most are applied objects")]
pub enum Change {
    /// The object exists with this content.
    Apply(Loaded),
    /// The object does not exist any more.
    Delete(Key),
}

/// What [`Source::poll`] found.
#[derive(Debug, Default)]
pub struct Polled {
    /// Whether the source was read, and with what result.
    pub read: Option<Read>,
    /// What changed for this node, or why it cannot be enforced. An update that failed is part of the next one that does not.
    pub update: Option<Result<Update, PlacementError>>,
}

/// A reading of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// Whether [`Source::relist`] caused it.
    pub requested: bool,
    /// Whether anything was new and accepted.
    pub changed: bool,
}

/// A change for this node. Its wiring and addresses are in [`Source::placement`].
#[derive(Debug)]
pub struct Update {
    /// The node's part of the view.
    pub step: Step,
    /// What caused it.
    pub cause: Cause,
    /// When that was noticed: latency is measured from here.
    pub noticed: Instant,
}

/// How a node's part of the view changed.
#[derive(Debug)]
pub enum Step {
    /// By these deltas.
    Deltas(Vec<Delta>),
    /// It is new as a whole: the first one, another node's, or of an epoch that no deltas lead to.
    Whole(Box<View>),
}

/// What caused an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// Objects changed, e.g. in these files.
    Objects(Vec<String>),
    /// The machine was looked at. `moved` says whether the placement is another one.
    Machine {
        /// Whether pods, interfaces or addresses are others than before.
        moved: bool,
    },
}

/// How far a source can be relied on.
#[derive(Debug, Clone, Copy)]
pub struct SourceStatus<'s> {
    /// Whether there has been a complete listing: nothing is enforced before.
    pub complete: bool,
    /// What cannot be read, and is enforced in its last good version.
    pub problems: &'s [Problem],
    /// What was read and makes the result less certain.
    pub findings: &'s [Diagnostic],
    /// Why the machine could not be looked at the last time, if so.
    pub machine: Option<&'s str>,
}

/// Whether an empty node is believed.
///
/// What is missing in files can be missing by mistake: a volume is not mounted, an editor saved half. A cluster's API lists what there is,
/// and an agent enforces nothing before the list is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptyNode {
    /// A node without pods is ordinary: the rules of pods that are gone are removed.
    Believed,
    /// A node that had pods and has none is a mistake: their rules stay active, and that is reported.
    Suspect,
}

/// A part of a source that cannot be read, or not be accepted: its last good version stays.
#[derive(Debug, Clone, PartialEq)]
pub enum Problem {
    /// A finding in a text.
    Finding(Box<Finding>),
    /// A file that had content is empty.
    Emptied {
        /// The file.
        file: String,
    },
    /// A file or folder that cannot be read.
    Unreadable {
        /// The reason, with the name of the file.
        reason: String,
        /// Whether it has a last good version.
        kept: bool,
    },
    /// A path that was asked for has nothing in it any more.
    Vanished {
        /// The path.
        path: String,
    },
}

/// A diagnostic with the text that it is in.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The diagnostic.
    pub diagnostic: Diagnostic,
    /// The text, if the diagnostic has a location in one.
    pub text: Option<Arc<Text>>,
}

// === impl Change ===

impl Change {
    /// Makes a world follow this change.
    pub fn apply_to(self, world: &mut World) {
        match self {
            Change::Apply(loaded) => {
                // Not `insert`: of documents of Thorium with one name each is an object of its own.
                world.remove_key(&loaded.key);
                world.add(loaded);
            }
            Change::Delete(key) => drop(world.remove_key(&key)),
        }
    }

    /// Returns the identity of the object.
    pub fn key(&self) -> &Key {
        match self {
            Change::Apply(loaded) => &loaded.key,
            Change::Delete(key) => key,
        }
    }
}

// === impl Problem ===

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Finding(finding) => {
                let diagnostic = &finding.diagnostic;
                if let Some(at) = &diagnostic.location {
                    write!(out, "{at}: ")?;
                }
                out.write_str(&diagnostic.message)
            }
            Problem::Emptied { file } => write!(
                out,
                "{file}: is empty, and was not: what it said stays in force; delete it to take that out of force"
            ),
            Problem::Unreadable { reason, kept: true } => {
                write!(out, "{reason}; what was in force from there stays")
            }
            Problem::Unreadable { reason, kept: false } => out.write_str(reason),
            Problem::Vanished { path } => write!(
                out,
                "{path}: nothing is there any more: what was in force from there stays; `palisade enforce stop` takes it out"
            ),
        }
    }
}

// === impl Finding ===

impl PartialEq for Finding {
    fn eq(&self, other: &Self) -> bool {
        self.diagnostic == other.diagnostic
            && self.text.as_ref().map(|text| text.text()) == other.text.as_ref().map(|text| text.text())
    }
}
