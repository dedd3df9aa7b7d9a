//! How we talk to the kernel, and notice when others do.
//!
//! Sockets are opened when they are first needed, and closed when anything goes wrong with them, so that no answer is ever taken for
//! another's.

use std::time::Duration;

use rustix::io::Errno;

use crate::kernel::KernelError;
use crate::kernel::netlink::Socket;
use crate::kernel::transaction::Transaction;
use crate::kernel::watch::{self, Heard, Watch};

use super::Linux;

/// How often what the kernel has no room for is tried again, and how long to wait at first.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(2);
/// From so many elements on, telling about each takes the kernel longer than the change itself.
pub(super) const MANY: usize = 1000;
const ASK_GENERATION: &str = "cannot ask for the generation of tables";

/// How a change of ours is told from those of others ([`watch`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToldBy {
    /// By the socket, which is ours.
    Socket,
    /// By the socket, which is probably that of a process of ours; if it is another, by the generation.
    Either,
    /// By the generation, while nobody listens.
    Generation,
}

// === impl Linux ===

impl Linux {
    /// Opens what is not open. Listening begins before anything else, so that nothing is missed.
    pub(super) fn open(&mut self) -> Result<(), KernelError> {
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
    pub(super) fn talk<T>(
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
    pub(super) fn change<T>(
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
    pub(super) fn look(&mut self) -> Result<(), KernelError> {
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

    /// Commits a transaction on a table over netlink, with about this number of elements. Returns whether `write` could express it; if
    /// not, nothing was done.
    pub(super) fn netlink_transaction(
        &mut self,
        what: &str,
        table: &'static str,
        elements: usize,
        write: impl Fn(&mut Transaction<'_>) -> Option<()>,
    ) -> Result<bool, KernelError> {
        let told_by = if elements > MANY { ToldBy::Generation } else { ToldBy::Socket };
        self.change(told_by, |linux| {
            let committed = linux.talk(what, |socket| {
                let mut transaction = Transaction::begin(socket, table);
                match write(&mut transaction) {
                    Some(()) => transaction.commit().map(|()| true),
                    None => Ok(false),
                }
            });
            (linux.socket.as_ref().map_or(0, Socket::port), committed)
        })
    }

    /// A text with so many elements, as one transaction of nft.
    pub(super) fn transaction(&mut self, text: &str, elements: usize) -> Result<(), KernelError> {
        let told_by = if elements > MANY { ToldBy::Generation } else { ToldBy::Either };
        self.change(told_by, |linux| match linux.nft.transaction(text) {
            Ok(ran) => (ran.process, ran.said.map(|_| ())),
            // It may have been done or not: if it was, that counts as somebody else's.
            Err(error) => (0, Err(error)),
        })
    }
}
