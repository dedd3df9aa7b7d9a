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

use crate::kernel::elements::{self, DELETE_TABLE, GET_TABLE, INET, NEW_TABLE, OF_TABLE, Shape, Shapes};
use crate::kernel::features::{Features, Version};
use crate::kernel::netlink::{self, Socket};
use crate::kernel::nft::Nft;
use crate::kernel::watch::{self, Heard, Watch};
use crate::kernel::{Connection, Count, Counts, InForce, Kernel, KernelError, conntrack};
use crate::patch::Patch;
use crate::program::{Name, Program};
use crate::text::TABLE;

/// Asks for objects; what is said of one.
const GET_OBJECT: u16 = NEW_TABLE | 19;
const OBJECT_NAME: u16 = 2;
const OBJECT_KIND: u16 = 3;
const OBJECT_DATA: u16 = 4;
/// The kind of object that counts, and what it says.
const COUNTER: u32 = 1;
const BYTES: u16 = 1;
const PACKETS: u16 = 2;

/// Up from this kernel a chain is free as soon as nothing leads to it.
const RELEASES_AT_ONCE: Version = Version::new(6, 2, 0);
/// How often what the kernel has no room for is tried again, and how long to wait at first.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(2);
/// How long what could not be removed is left alone, if nothing else needs nft meanwhile.
const LEFT_ALONE: Duration = Duration::from_secs(1);
/// From so many elements on a change may be too much for those who listen.
const MANY: usize = 1000;

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
    /// went; `counted` is for what is much, or whose socket may have another number.
    fn change<T>(
        &mut self,
        counted: bool,
        change: impl FnOnce(&mut Linux) -> (u32, Result<T, KernelError>),
    ) -> Result<T, KernelError> {
        let before = match counted {
            true => Some(self.talk("cannot ask for the generation", watch::generation)?),
            false => None,
        };
        self.look()?;
        let (port, done) = change(self);
        let heard = self.listen()?;
        if heard.is_of_others(Some(port)) {
            let after = match before.filter(|_| done.is_ok()) {
                Some(before) => {
                    let after = self.talk("cannot ask for the generation", watch::generation)?;
                    Some(after.wrapping_sub(before))
                }
                None => None,
            };
            // One transaction more than before: that is ours, whatever its socket is called, and all that was heard is about it.
            if after != Some(1) {
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
        self.open()?;
        let heard = self.watch.as_mut().map_or(Err(Errno::BADF), Watch::listen);
        heard.map_err(|error| {
            // Until it is open again, anything may happen.
            self.watch = None;
            self.disturbances += 1;
            KernelError::of("cannot listen to nftables", error)
        })
    }

    /// A text, as one transaction.
    fn transaction(&mut self, text: &str) -> Result<(), KernelError> {
        self.change(true, |linux| match linux.nft.transaction(text) {
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
        let moved = self.change(patch.moves() > MANY, |linux| {
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
        match self.transaction(&format!("{before}{}", whole.text())) {
            Err(KernelError::Busy(said)) if said.contains(IN_USE) => {
                if !self.releases_late {
                    return Err(KernelError::Refused(said));
                }
                let shapes = self.shapes.as_ref();
                let is_map = |name: &Name| Some(shapes?.get(name)?.as_ref()?.is_map);
                let text = format!("{before}{}", whole.text_without_removals(is_map));
                self.transaction(&text)?;
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
        let listing = self.nft.list(&["-s", "-t", "list", "table", "inet", TABLE])?;
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
        Ok(Some(InForce { structure: in_order(&listing, &self.left), elements: all }))
    }
}

impl Kernel for Linux {
    fn replace(&mut self, program: &Program, counts: &Counts) -> Result<(), KernelError> {
        if let Some(dangling) = program.dangling() {
            return Err(KernelError::Refused(dangling));
        }
        let done = self.transaction(&program.replace_with(counts));
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
        let all = self.talk("cannot read counters", |socket| {
            let ours = |request: &mut netlink::Messages| {
                request.name(OF_TABLE, TABLE);
                request.attribute(OBJECT_KIND, &COUNTER.to_be_bytes());
            };
            socket.dump(GET_OBJECT, INET, ours, |message, all| {
                all.extend(count(message.attributes()));
                Ok(())
            })
        })?;
        let left = &self.left.no_counters;
        Ok(all.into_iter().filter(|(name, _)| !left.contains(name)).collect())
    }

    fn remove(&mut self) -> Result<bool, KernelError> {
        let removed = self.change(true, |linux| {
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

fn count(attributes: &[u8]) -> Option<(Name, Count)> {
    let ours = netlink::attribute(attributes, OF_TABLE).and_then(netlink::name) == Some(TABLE);
    let kind = netlink::attribute(attributes, OBJECT_KIND).and_then(netlink::number);
    let name = netlink::attribute(attributes, OBJECT_NAME).and_then(netlink::name)?;
    let data = netlink::attribute(attributes, OBJECT_DATA)?;
    let number = |kind| Some(u64::from_be_bytes(netlink::attribute(data, kind)?.try_into().ok()?));
    let count = Count { packets: number(PACKETS)?, bytes: number(BYTES)? };
    (ours && kind == Some(COUNTER)).then(|| (Name::new(name), count))
}

/// A listing in an order that does not depend on what came when, so that a program that was patched is the same as one that was put
/// there as a whole; and without what is only still there because it could not go yet.
fn in_order(listing: &str, left: &Patch) -> String {
    let is_left = |block: &str| {
        let mut words = block.split_whitespace();
        match (words.next(), words.next()) {
            (Some("chain"), Some(name)) => left.no_chains.contains(name),
            (Some("set" | "map"), Some(name)) => left.no_sets.contains(name),
            (Some("counter"), Some(name)) => left.no_counters.contains(name),
            _ => false,
        }
    };
    // A part begins after one tab and ends with a closing brace after one tab; all inside has two.
    let body = listing.split_once('\n').map_or("", |(_, body)| body);
    let body = body.trim_end().strip_suffix('}').unwrap_or(body);
    let mut blocks: Vec<&str> =
        body.split("\n\t}").map(str::trim).filter(|block| !block.is_empty() && !is_left(block)).collect();
    blocks.sort_unstable();
    blocks.iter().map(|block| format!("{block}\n}}\n")).collect()
}
