//! The kernel of this machine.
//!
//! ```text
//!   a first program ────────────────► nft -f -     one process (replace)
//!   patches, guards ────────────────► netlink      one batch for each step, no process (apply, guard); nft for what that cannot express
//!   read ───────────────────────────► both         rules in nft's words, elements from the kernel
//!   counts, connections, watching ──► netlink      (talk)
//! ```
//!
//! Everything happens in the network namespace of the calling thread: one `Linux` belongs to one namespace.

mod apply;
mod grace;
mod guard;
mod replace;
mod talk;

use std::collections::BTreeMap;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::guard::Scope;
use crate::kernel::elements;
use crate::kernel::features::{Features, Version};
use crate::kernel::netlink::Socket;
use crate::kernel::nft::Nft;
use crate::kernel::shape::Shapes;
use crate::kernel::tables::{self, DELETE_TABLE, GET_TABLE, INET, OF_TABLE};
use crate::kernel::watch::Watch;
use crate::kernel::{Connection, Counts, InForce, Kernel, KernelError, conntrack, counters, listing};
use crate::patch::Patch;
use crate::program::{Name, Program};
use crate::settling::{CommitNumber, Settling};
use crate::text::{GUARD, TABLE};

use self::grace::Grace;
use self::talk::ToldBy;

/// Up from this kernel a chain is free as soon as nothing leads to it.
const RELEASES_AT_ONCE: Version = Version::new(6, 2, 0);
/// How long what is left behind is left alone, if nobody tidies up.
const LEFT_ALONE: Duration = Duration::from_secs(1);
/// How often something is done again because our table was changed meanwhile.
const TRIES: u32 = 5;

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
    /// What nothing leads to any more and is still there, and since when, or when it was last tried to take it away.
    left: Patch,
    /// The commit after which nothing leads to it.
    left_since: CommitNumber,
    tried: Instant,
    left_alone: Duration,
    releases_late: bool,
    /// Commits that packets on their way may not have seen, and the wait for these packets.
    settling: Settling,
    grace: Grace,
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
            left_since: 0,
            tried: Instant::now(),
            left_alone: LEFT_ALONE,
            releases_late: Version::read(&release).is_none_or(|version| version < RELEASES_AT_ONCE),
            settling: Settling::default(),
            grace: Grace::default(),
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

    /// How long patches leave alone what is left behind, if nobody tidies up; a second if nothing else is said.
    #[must_use]
    pub fn left_alone(mut self, time: Duration) -> Linux {
        self.left_alone = time;
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

    /// Waits until every packet that began before the last commit is through.
    fn wait_for_packets(&mut self) {
        let last = self.settling.last();
        grace::wait_for_packets();
        self.grace.settle(last);
    }

    fn exists(&mut self, table: &'static str) -> Result<bool, KernelError> {
        self.talk("cannot ask for our table", |socket| {
            let found = socket.get(GET_TABLE, INET, |request| request.name(OF_TABLE, table), |_| Some(()));
            match found {
                Err(Errno::NOENT) => Ok(false),
                other => other.map(|()| true),
            }
        })
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
        if !self.exists(TABLE)? {
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
        match listing::parts(&listing) {
            Some(parts) => {
                let names: Vec<Name> = parts.iter().map(|part| Name::new(part.name)).collect();
                self.settling.observe_parts(all.iter(), names.iter());
            }
            None => self.settling.forget(),
        }
        Ok(Some(InForce { structure: listing::in_order(&listing, &self.left), elements: all }))
    }
}

impl Kernel for Linux {
    fn replace(&mut self, program: &Program, counts: &Counts) -> Result<(), KernelError> {
        if let Some(dangling) = program.dangling() {
            return Err(KernelError::Refused(dangling));
        }
        // What is there now is not known in every detail, so the guard is all of what comes. Where there is nothing, nothing is
        // refused that could be let through by mistake.
        if self.exists(TABLE)? {
            self.load_guard(&program.guard(&Scope::Everything))?;
        }
        let replaced = self.replace_behind_guard(program, counts);
        let dropped = self.unload_guard();
        replaced.and(dropped)
    }

    fn patch(&mut self, patch: &Patch) -> Result<(), KernelError> {
        if !patch.is_elements_only() {
            self.move_structure(patch, &Counts::new())?;
        } else if !patch.is_empty() {
            self.activate(patch)?;
        }
        // Whoever changes something all the time never comes to tidy up.
        if self.left.is_empty() || self.tried.elapsed() < self.left_alone {
            return Ok(());
        }
        match self.tidy() {
            Err(KernelError::Busy(_)) => Ok(()),
            other => other,
        }
    }

    fn raise_guard(&mut self, guard: &Program) -> Result<(), KernelError> {
        self.load_guard(guard)
    }

    fn drop_guard(&mut self) -> Result<(), KernelError> {
        self.unload_guard()
    }

    fn has_guard(&mut self) -> Result<bool, KernelError> {
        self.exists(GUARD)
    }

    fn tidy(&mut self) -> Result<(), KernelError> {
        if self.left.is_empty() {
            return Ok(());
        }
        self.tried = Instant::now();
        if self.grace.settled() < self.left_since {
            self.grace.wait(self.left_since);
        }
        self.clear()
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
        self.unload_guard()?;
        let removed = self.change(ToldBy::Either, |linux| {
            let removed =
                linux.talk("cannot remove our table", |socket| tables::change(socket, DELETE_TABLE, TABLE));
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
