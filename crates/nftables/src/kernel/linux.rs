//! The kernel of this machine.
//!
//! ```text
//!   replace, patches of structure ──► nft -f -     one process, one transaction
//!   patches of elements ────────────► netlink      one message, no process: what happens whenever a pod comes or goes
//!   read ───────────────────────────► both         rules in nft's words, elements from the kernel
//!   counts, connections, watching ──► netlink
//! ```
//!
//! Sockets are opened when they are first needed, and closed when anything goes wrong with them, so that no answer is ever taken for
//! another's. Everything happens in the network namespace of the calling thread: one `Linux` belongs to one namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::kernel::elements::{self, DELETE_TABLE, GET_TABLE, INET, OF_TABLE};
use crate::kernel::features::{Features, Version};
use crate::kernel::netlink::Socket;
use crate::kernel::nft::Nft;
use crate::kernel::shape::{Shape, Shapes};
use crate::kernel::watch::{self, Heard, Watch};
use crate::kernel::{Connection, Counts, InForce, Kernel, KernelError, conntrack, counters, listing};
use crate::patch::Patch;
use crate::program::{Name, Program, Set};
use crate::text::TABLE;

/// Up from this kernel a chain is free as soon as nothing leads to it.
const RELEASES_AT_ONCE: Version = Version::new(6, 2, 0);
/// How often what the kernel has no room for is tried again, and how long to wait at first.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(2);
/// How long what could not be removed is left alone, if nothing else needs nft meanwhile.
const LEFT_ALONE: Duration = Duration::from_secs(1);
/// From so many elements on, telling about each takes the kernel longer than the change itself.
const MANY: usize = 1000;
const ASK_GENERATION: &str = "cannot ask for the generation of tables";

/// What nft says when something cannot go because something leads to it.
const IN_USE: &str = "Device or resource busy";

/// The kernel of this machine, in one network namespace.
#[derive(Debug)]
pub struct Linux {
    nft: Nft,
    socket: Option<Socket>,
    watch: Option<Watch>,
    /// How often others may have changed our table, and how much of that was told.
    disturbances: u64,
    told: u64,
    /// What sets there are, if that is known.
    shapes: Option<Shapes>,
    /// What should be gone and could not go yet.
    left: Patch,
    tried: Instant,
    releases_late: bool,
}

/// How a change of ours is told from those of others ([`watch`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ToldBy {
    /// By the socket, which is ours.
    Socket,
    /// By the socket, which is probably that of a process of ours; if it is another, by the generation.
    Either,
    /// By the generation, while nobody listens.
    Generation,
}

// === impl Linux ===

impl Default for Linux {
    fn default() -> Self {
        Linux::new()
    }
}

impl Linux {
    /// With the command `nft`, wherever it is.
    pub fn new() -> Linux {
        Linux::with_nft("nft")
    }

    /// With the command at this place.
    pub fn with_nft(path: impl Into<PathBuf>) -> Linux {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        Linux {
            nft: Nft::new(path.into()),
            socket: None,
            watch: None,
            disturbances: 0,
            told: 0,
            shapes: None,
            left: Patch::default(),
            tried: Instant::now(),
            releases_late: Version::read(&release).is_none_or(|version| version < RELEASES_AT_ONCE),
        }
    }

    /// How long nft may take; 30 seconds if nothing else is said.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Linux {
        self.nft.deadline(deadline);
        self
    }

    /// Whether this kernel keeps a chain for a while after the last thing that led to it is gone, as those before 6.2 do. What
    /// cannot be removed because of that is removed later. The kernel's version says it; tests say otherwise.
    #[must_use]
    pub fn releases_late(mut self, late: bool) -> Linux {
        self.releases_late = late;
        self
    }

    /// What this machine has, and what it lacks.
    pub fn features(&mut self) -> Features {
        Features::probe(&mut self.nft)
    }

    /// Becomes readable when any table changes: a reason to ask [`Kernel::is_disturbed`]. Not every one, because our own changes look at what was
    /// said meanwhile: ask after each of these too.
    pub fn events(&mut self) -> Result<BorrowedFd<'_>, KernelError> {
        self.open()?;
        let watch = self.watch.as_ref().ok_or_else(|| KernelError::of("cannot listen", Errno::BADF))?;
        Ok(watch.as_fd())
    }

    /// Opens what is not open. Listening begins before anything else, so that nothing is missed.
    fn open(&mut self) -> Result<(), KernelError> {
        if self.watch.is_none() {
            self.watch =
                Some(Watch::open().map_err(|error| KernelError::of("cannot listen to nftables", error))?);
        }
        if self.socket.is_none() {
            self.socket =
                Some(Socket::open().map_err(|error| KernelError::of("cannot talk to netfilter", error))?);
        }
        Ok(())
    }

    /// Does something through the socket; once more, up to a limit, when the kernel has no room at the moment.
    fn talk<T>(
        &mut self,
        what: &str,
        mut talk: impl FnMut(&mut Socket) -> Result<T, Errno>,
    ) -> Result<T, KernelError> {
        let mut pause = PAUSE;
        for last in (0..TRIES).map(|n| n + 1 == TRIES) {
            self.open()?;
            let Some(socket) = &mut self.socket else { break };
            let error = match talk(socket) {
                Ok(done) => return Ok(done),
                Err(error) => KernelError::of(what, error),
            };
            // Answers may still come: they would be taken for those to the next question.
            self.socket = None;
            if last || !matches!(error, KernelError::Busy(_)) {
                return Err(error);
            }
            std::thread::sleep(pause);
            pause *= 2;
        }
        Err(KernelError::of(what, Errno::AGAIN))
    }

    /// Does something that changes our table, and finds out whether somebody else does so too. It says through which socket it
    /// went.
    fn change<T>(
        &mut self,
        told_by: ToldBy,
        change: impl FnOnce(&mut Linux) -> (u32, Result<T, KernelError>),
    ) -> Result<T, KernelError> {
        if told_by == ToldBy::Socket {
            self.open()?;
            let (port, done) = change(self);
            if self.listen()?.is_of_others(Some(port)) {
                self.disturbances += 1;
            }
            return done;
        }
        let before = self.talk(ASK_GENERATION, watch::generation)?;
        self.look()?;
        self.hear(|watch| if told_by == ToldBy::Generation { watch.pause() } else { Ok(()) })?;
        let (port, done) = change(self);
        self.hear(|watch| if told_by == ToldBy::Generation { watch.resume() } else { Ok(()) })?;
        let heard = self.listen()?;
        if told_by == ToldBy::Generation || heard.is_of_others(Some(port)) {
            let after = self.talk(ASK_GENERATION, watch::generation)?;
            // One transaction more than before, if ours was done: that is ours, and all that was heard is about it.
            if after.wrapping_sub(before) != u32::from(done.is_ok()) {
                self.disturbances += 1;
            }
        }
        done
    }

    /// Hears what others do, while nothing of ours is under way.
    fn look(&mut self) -> Result<(), KernelError> {
        if self.listen()?.is_of_others(None) {
            self.disturbances += 1;
        }
        Ok(())
    }

    fn listen(&mut self) -> Result<Heard, KernelError> {
        self.hear(Watch::listen)
    }

    fn hear<T>(&mut self, hear: impl FnOnce(&mut Watch) -> Result<T, Errno>) -> Result<T, KernelError> {
        self.open()?;
        let heard = self.watch.as_mut().map_or(Err(Errno::BADF), hear);
        heard.map_err(|error| {
            // Until it is open again, anything may happen.
            self.watch = None;
            self.disturbances += 1;
            KernelError::of("cannot listen to nftables", error)
        })
    }

    /// A text with so many elements, as one transaction.
    fn transaction(&mut self, text: &str, elements: usize) -> Result<(), KernelError> {
        let told_by = if elements > MANY { ToldBy::Generation } else { ToldBy::Either };
        self.change(told_by, |linux| match linux.nft.transaction(text) {
            Ok(ran) => (ran.process, ran.said.map(|_| ())),
            // It may have been done or not: if it was, that counts as somebody else's.
            Err(error) => (0, Err(error)),
        })
    }

    /// A patch of elements without nft; says whether that can be.
    fn move_elements(&mut self, patch: &Patch) -> Result<bool, KernelError> {
        let shapes = match self.shapes.take() {
            Some(shapes) => shapes,
            None => self.talk("cannot read what sets there are", elements::shapes)?,
        };
        let told_by = if patch.moves() > MANY { ToldBy::Generation } else { ToldBy::Socket };
        let moved = self.change(told_by, |linux| {
            let moved =
                linux.talk("cannot change elements", |socket| match patch.messages(socket, &shapes) {
                    Some((messages, first, last)) => socket.ask(messages, first, last).map(|()| true),
                    None => Ok(false),
                });
            (linux.socket.as_ref().map_or(0, Socket::port), moved)
        })?;
        // After an error it is better to look again what there is.
        self.shapes = Some(shapes);
        Ok(moved)
    }

    /// A patch through nft, with what is left from earlier ones.
    fn move_structure(&mut self, patch: &Patch) -> Result<(), KernelError> {
        let mut whole = patch.clone();
        let mut before = String::new();
        for (left, back, what) in [
            (&self.left.no_sets, patch.sets.keys().cloned().collect::<BTreeSet<Name>>(), "set"),
            (&self.left.no_counters, patch.counters.clone(), "counter"),
        ] {
            for name in left.intersection(&back) {
                before.push_str(&format!("delete {what} inet {TABLE} {name}\n"));
            }
        }
        let is_back = |name: &&Name| !patch.chains.contains_key(*name);
        whole.no_chains.extend(self.left.no_chains.iter().filter(is_back).cloned());
        let is_back = |name: &&Name| !patch.sets.contains_key(*name);
        whole.no_sets.extend(self.left.no_sets.iter().filter(is_back).cloned());
        whole.no_counters.extend(self.left.no_counters.difference(&patch.counters).cloned());
        let mut left = Patch::default();
        let elements = patch.moves() + count_elements(&patch.sets);
        match self.transaction(&format!("{before}{}", whole.text()), elements) {
            Err(KernelError::Busy(said)) if said.contains(IN_USE) => {
                if !self.releases_late {
                    return Err(KernelError::Refused(said));
                }
                let shapes = self.shapes.as_ref();
                let is_map = |name: &Name| Some(shapes?.get(name)?.as_ref()?.is_map);
                let text = format!("{before}{}", whole.text_without_removals(is_map));
                self.transaction(&text, elements)?;
                left = whole.split_removals();
                self.tried = Instant::now();
            }
            other => other?,
        }
        if let Some(shapes) = &mut self.shapes {
            shapes.retain(|name, _| !whole.no_sets.contains(name));
            shapes.extend(patch.sets.iter().map(|(name, set)| (name.clone(), Some(Shape::of(set)))));
        }
        self.left = left;
        Ok(())
    }

    /// Our table in nft's words, without elements and counts.
    ///
    /// Asked for one table, nft 1.0.6 reads all elements even though it leaves them out; asked for all of a family it does not. But
    /// there may be something of others that it cannot read.
    fn listing(&mut self) -> Result<String, KernelError> {
        let of_all = self.nft.list(&["-s", "-t", "list", "ruleset", "inet"]).map(|all| listing::ours(&all));
        match of_all {
            Ok(Some(listing)) => Ok(listing),
            Ok(None) | Err(KernelError::System { .. } | KernelError::Refused(_)) => {
                self.nft.list(&["-s", "-t", "list", "table", "inet", TABLE])
            }
            Err(error) => Err(error),
        }
    }

    /// What is in our table, if nobody changes it meanwhile.
    fn try_read(&mut self) -> Result<Option<InForce>, KernelError> {
        let exists = |socket: &mut Socket| {
            let found = socket.get(GET_TABLE, INET, |request| request.name(OF_TABLE, TABLE), |_| Some(()));
            match found {
                Err(Errno::NOENT) => Ok(false),
                other => other.map(|()| true),
            }
        };
        if !self.talk("cannot ask for our table", exists)? {
            self.shapes = None;
            return Ok(None);
        }
        let listing = self.listing()?;
        let shapes = self.talk("cannot read what sets there are", elements::shapes)?;
        let mut all = BTreeMap::new();
        for (name, shape) in &shapes {
            if self.left.no_sets.contains(name) {
                continue;
            }
            let read = match shape {
                Some(shape) => {
                    self.talk("cannot read elements", |socket| elements::read(socket, name, shape))?
                }
                None => None,
            };
            let strange =
                || KernelError::Drifted(format!("set {name} is none of ours, or holds what is not ours"));
            all.insert(name.clone(), read.ok_or_else(strange)?);
        }
        self.shapes = Some(shapes);
        Ok(Some(InForce { structure: listing::in_order(&listing, &self.left), elements: all }))
    }
}

impl Kernel for Linux {
    fn replace(&mut self, program: &Program, counts: &Counts) -> Result<(), KernelError> {
        if let Some(dangling) = program.dangling() {
            return Err(KernelError::Refused(dangling));
        }
        let done = self.transaction(&program.replace_with(counts), count_elements(&program.sets));
        self.shapes = None;
        match done {
            Ok(()) => {
                let shapes = program.sets.iter().map(|(name, set)| (name.clone(), Some(Shape::of(set))));
                self.shapes = Some(shapes.collect());
                self.left = Patch::default();
                Ok(())
            }
            // Nothing that was there before can be missing, or in the way: all of it is new.
            Err(KernelError::Drifted(said)) if said.contains("No such file or directory") => Err(
                KernelError::Missing(format!("this kernel lacks something that the program needs: {said}")),
            ),
            Err(KernelError::Drifted(said)) => Err(KernelError::Refused(said)),
            Err(error) => Err(error),
        }
    }

    fn patch(&mut self, patch: &Patch) -> Result<(), KernelError> {
        let is_time = !self.left.is_empty() && self.tried.elapsed() > LEFT_ALONE;
        if patch.is_empty() && !is_time {
            return Ok(());
        }
        if patch.is_elements_only() && !is_time && self.move_elements(patch)? {
            return Ok(());
        }
        self.move_structure(patch)
    }

    fn read(&mut self) -> Result<Option<InForce>, KernelError> {
        for _ in 0..TRIES {
            self.look()?;
            let before = self.disturbances;
            let read = self.try_read();
            self.look()?;
            if self.disturbances == before {
                return read;
            }
        }
        Err(KernelError::Busy("our table changes faster than it can be read".to_owned()))
    }

    fn counts(&mut self) -> Result<Counts, KernelError> {
        let all = self.talk("cannot read counters", counters::list)?;
        let left = &self.left.no_counters;
        Ok(all.into_iter().filter(|(name, _)| !left.contains(name)).collect())
    }

    fn remove(&mut self) -> Result<bool, KernelError> {
        let removed = self.change(ToldBy::Either, |linux| {
            let removed = linux.talk("cannot remove our table", |socket| {
                elements::transaction(socket, DELETE_TABLE, |request| request.name(OF_TABLE, TABLE))
            });
            (linux.socket.as_ref().map_or(0, Socket::port), removed)
        });
        self.shapes = None;
        match removed {
            Ok(()) => {
                self.left = Patch::default();
                Ok(true)
            }
            Err(KernelError::Drifted(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn connections(&mut self) -> Result<Vec<Connection>, KernelError> {
        self.talk("cannot list connections", conntrack::list).map_err(conntrack::without)
    }

    fn cut(&mut self, connections: &[Connection]) -> Result<usize, KernelError> {
        let mut known = 0;
        for some in connections.chunks(conntrack::AT_ONCE) {
            known += self
                .talk("cannot cut connections", |socket| conntrack::cut(socket, some))
                .map_err(conntrack::without)?;
        }
        Ok(known)
    }

    fn is_disturbed(&mut self) -> Result<bool, KernelError> {
        self.look()?;
        Ok(mem::replace(&mut self.told, self.disturbances) != self.disturbances)
    }
}

fn count_elements(sets: &BTreeMap<Name, Set>) -> usize {
    sets.values().map(|set| set.elements.len()).sum()
}
