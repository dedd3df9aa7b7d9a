//! The second table that stands beside ours while it changes ([`crate::guard`]).

use crate::kernel::KernelError;
use crate::kernel::netlink::Socket;
use crate::kernel::tables::{self, DELETE_TABLE};
use crate::program::Program;
use crate::text::GUARD;

use super::Linux;
use super::apply::{count_elements, wait_for_packets};
use super::talk::ToldBy;

// === impl Linux ===

impl Linux {
    /// Loads a guard and waits until every packet that began before it is through.
    pub(super) fn load_guard(&mut self, guard: &Program) -> Result<(), KernelError> {
        let elements = count_elements(&guard.sets);
        let loaded = guard.guard_texts().iter().try_for_each(|text| self.transaction(text, elements));
        if let Err(error) = loaded {
            // The first of two may be there. It leads nowhere, and the next guard takes its place if it cannot go.
            let _ = self.unload_guard();
            return Err(match error {
                // A guard begins with nothing, so that it is not the table that is another: something is missing that it needs.
                KernelError::Drifted(said) => KernelError::Refused(said),
                error => error,
            });
        }
        wait_for_packets();
        Ok(())
    }

    /// Removes the guard, if there is one.
    pub(super) fn unload_guard(&mut self) -> Result<(), KernelError> {
        if !self.exists(GUARD)? {
            return Ok(());
        }
        let removed = self.change(ToldBy::Either, |linux| {
            let removed =
                linux.talk("cannot remove the guard", |socket| tables::change(socket, DELETE_TABLE, GUARD));
            (linux.socket.as_ref().map_or(0, Socket::port), removed)
        });
        match removed {
            // It is gone, whoever did it.
            Err(KernelError::Drifted(_)) => Ok(()),
            other => other,
        }
    }
}
