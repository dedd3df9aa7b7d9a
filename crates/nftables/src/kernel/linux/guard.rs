//! The second table that stands beside ours while it changes ([`crate::guard`]).

use crate::kernel::KernelError;
use crate::kernel::netlink::Socket;
use crate::kernel::tables::{self, DELETE_TABLE};
use crate::program::Program;
use crate::text::GUARD;

use super::Linux;
use super::apply::count_elements;
use super::talk::ToldBy;

// === impl Linux ===

impl Linux {
    /// Loads a guard and waits until every packet that began before it is through.
    pub(super) fn load_guard(&mut self, guard: &Program) -> Result<(), KernelError> {
        let (first, rest) = guard.guard_steps();
        let mut loaded = self.load_guard_step(&first, true);
        if let (Ok(()), Some(rest)) = (&loaded, &rest) {
            loaded = self.load_guard_step(rest, false);
        }
        if let Err(error) = loaded {
            // The first step may be there. It leads nowhere, and the next guard takes its place if it cannot be removed.
            let _ = self.unload_guard();
            return Err(match error {
                // A guard begins with nothing, so that it is not the table that is another: something is missing that it needs.
                KernelError::Drifted(said) => KernelError::Refused(said),
                error => error,
            });
        }
        self.wait_for_packets();
        Ok(())
    }

    fn load_guard_step(&mut self, step: &Program, is_first: bool) -> Result<(), KernelError> {
        let elements = count_elements(&step.sets);
        let is_loaded =
            self.netlink_transaction("cannot load the guard", GUARD, elements, |transaction| {
                if is_first {
                    transaction.replace_table();
                }
                transaction.program(step)
            })?;
        if is_loaded {
            return Ok(());
        }
        let text = if is_first { step.guard_text() } else { step.guard_addition_text() };
        self.transaction(&text, elements)
    }

    /// Removes the guard, if there is one.
    pub(super) fn unload_guard(&mut self) -> Result<(), KernelError> {
        if !self.exists(GUARD)? {
            return Ok(());
        }
        let removed = self.change(ToldBy::Socket, |linux| {
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
