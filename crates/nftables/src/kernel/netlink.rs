//! A socket to netfilter: questions, answers of any length, acknowledgements, and what is told to those who listen.
//!
//! Errors are the kernel's own numbers, which [`crate::kernel::KernelError::of`] sorts.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, getsockname, recvfrom, sendto,
    socket_with, sockopt,
};

use crate::kernel::message::{
    self, DONE, DUMP, ERROR, INTERRUPTED, MULTI, Message, Messages, NOOP, OVERRUN, REQUEST,
};

/// The kernel writes at most 32 KiB at once, and with an error sends back what the error is about.
const BUFFER: usize = 256 * 1024;
/// What a socket may hold for us, where we may choose.
const ROOM: usize = 16 * 1024 * 1024;
/// The kernel answers at once, or something is wrong.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a listing is begun again because something changed meanwhile.
const TRIES: usize = 10;

/// A socket to netfilter, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Socket {
    socket: OwnedFd,
    sequence: u32,
    port: u32,
    room: usize,
    buffer: Vec<u8>,
}

// === impl Socket ===

impl Socket {
    /// A socket that asks, and waits for answers.
    pub(crate) fn open() -> Result<Socket, Errno> {
        let socket = Socket::with(SocketFlags::CLOEXEC, 0)?;
        sockopt::set_socket_timeout(&socket.socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
        Ok(socket)
    }

    /// A socket that is told of changes, and never waits. Groups are bits.
    pub(crate) fn listening(groups: u32) -> Result<Socket, Errno> {
        Socket::with(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, groups)
    }

    fn with(flags: SocketFlags, groups: u32) -> Result<Socket, Errno> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(NETFILTER))?;
        bind(&socket, &SocketAddrNetlink::new(0, groups))?;
        let port = SocketAddrNetlink::try_from(getsockname(&socket)?)?.pid();
        // Only the administrator of the machine may go beyond its limits; others get what these allow.
        if sockopt::set_socket_recv_buffer_size_force(&socket, ROOM).is_err() {
            sockopt::set_socket_recv_buffer_size(&socket, ROOM)?;
        }
        let room = sockopt::socket_send_buffer_size(&socket)?;
        Ok(Socket { socket, sequence: 0, port, room, buffer: vec![0; BUFFER] })
    }

    /// Is told of other changes than before.
    pub(crate) fn listen_to(&self, groups: u32) -> Result<(), Errno> {
        bind(&self.socket, &SocketAddrNetlink::new(self.port, groups))
    }

    /// The number that changes made through it carry.
    pub(crate) fn port(&self) -> u32 {
        self.port
    }

    /// A number for the next message.
    pub(crate) fn next(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    /// Sends messages, all in one piece.
    pub(crate) fn send(&mut self, messages: Messages) -> Result<(), Errno> {
        let bytes = messages.finish()?;
        // The kernel wants room for the whole, and some for itself.
        let wanted = bytes.len().saturating_add(4096);
        if wanted > self.room {
            let force = sockopt::set_socket_send_buffer_size_force(&self.socket, wanted);
            force.or_else(|_| sockopt::set_socket_send_buffer_size(&self.socket, wanted))?;
            self.room = sockopt::socket_send_buffer_size(&self.socket)?;
        }
        loop {
            match sendto(&self.socket, &bytes, SendFlags::empty(), &SocketAddrNetlink::new(0, 0)) {
                Err(Errno::INTR) => {}
                other => return other.map(|_| ()),
            }
        }
    }

    /// What the kernel sent next: any number of messages. `EAGAIN` if there is nothing.
    pub(crate) fn receive(&mut self) -> Result<&[u8], Errno> {
        loop {
            let asked = recvfrom(&self.socket, self.buffer.as_mut_slice(), RecvFlags::TRUNC);
            let (_, length, from) = match asked {
                Err(Errno::INTR) => continue,
                other => other?,
            };
            // Others may send to our socket too; they are not the kernel, which has the number 0.
            let from = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
            if from.is_none_or(|from| from.pid() != 0) {
                continue;
            }
            return self.buffer.get(..length).ok_or(Errno::MSGSIZE);
        }
    }

    /// Sends messages, the last of which is to be acknowledged, and waits for that; an error about any of them is an error.
    /// `first` and `last` are their numbers.
    pub(crate) fn ask(&mut self, messages: Messages, first: u32, last: u32) -> Result<(), Errno> {
        self.send(messages)?;
        let mut failed = None;
        loop {
            let received = match self.receive() {
                // Only errors are many: whoever cannot hold them all was refused.
                Err(error) => return Err(failed.unwrap_or(error)),
                Ok(bytes) => bytes,
            };
            for message in message::read(received) {
                let message = message?;
                // Numbers go round, so that they are compared by how far they are from the first.
                let at = message.sequence.wrapping_sub(first);
                if message.kind != ERROR || at > last.wrapping_sub(first) {
                    continue;
                }
                let error = message.error()?;
                failed = failed.or(error);
                // An error about the first means that the rest was not looked at.
                if message.sequence == last || (message.sequence == first && error.is_some()) {
                    return failed.map_or(Ok(()), Err);
                }
            }
        }
    }

    /// Sends messages that are each to be acknowledged, and says what became of them; `first` and `count` are their numbers.
    pub(crate) fn ask_each(
        &mut self,
        messages: Messages,
        first: u32,
        count: usize,
    ) -> Result<Vec<Option<Errno>>, Errno> {
        self.send(messages)?;
        let mut all: Vec<Option<Option<Errno>>> = vec![None; count];
        let mut missing = count;
        while missing > 0 {
            for message in message::read(self.receive()?) {
                let message = message?;
                let at = usize::try_from(message.sequence.wrapping_sub(first)).map_err(|_| Errno::BADMSG)?;
                let Some(place) = all.get_mut(at).filter(|place| place.is_none() && message.kind == ERROR)
                else {
                    continue;
                };
                *place = Some(message.error()?);
                missing -= 1;
            }
        }
        Ok(all.into_iter().flatten().collect())
    }

    /// Everything of a sort, made into something by `each`; once more when it changed while it was being told.
    pub(crate) fn dump<T>(
        &mut self,
        kind: u16,
        family: u8,
        attributes: impl Fn(&mut Messages),
        mut each: impl FnMut(&Message<'_>, &mut Vec<T>) -> Result<(), Errno>,
    ) -> Result<Vec<T>, Errno> {
        for _ in 0..TRIES {
            let sequence = self.next();
            let mut request = Messages::default();
            request.begin(kind, REQUEST | DUMP, sequence, family, 0);
            attributes(&mut request);
            self.send(request)?;
            if let Some(all) = self.answers(sequence, &mut each)? {
                return Ok(all);
            }
        }
        Err(Errno::INTR)
    }

    /// The answers to a request; nothing if they do not fit together.
    fn answers<T>(
        &mut self,
        sequence: u32,
        each: &mut impl FnMut(&Message<'_>, &mut Vec<T>) -> Result<(), Errno>,
    ) -> Result<Option<Vec<T>>, Errno> {
        let mut all = Vec::new();
        let mut interrupted = false;
        // An answer is read to its end even if it is of no use, so that the next one begins with itself.
        let mut failed = None;
        loop {
            for message in message::read(self.receive()?) {
                let message = message?;
                if message.sequence != sequence {
                    continue;
                }
                interrupted |= message.flags & INTERRUPTED != 0;
                match message.kind {
                    NOOP => {}
                    OVERRUN => failed = failed.or(Some(Errno::NOBUFS)),
                    ERROR | DONE => {
                        failed = failed.or(message.error()?);
                        return match failed {
                            Some(Errno::INTR) => Ok(None),
                            Some(error) => Err(error),
                            None => Ok((!interrupted).then_some(all)),
                        };
                    }
                    _ if failed.is_some() => {}
                    _ => {
                        failed = each(&message, &mut all).err();
                        if message.flags & MULTI == 0 {
                            return failed.map_or(Ok(Some(all)), Err);
                        }
                    }
                }
            }
        }
    }

    /// The one answer to a question.
    pub(crate) fn get<T>(
        &mut self,
        kind: u16,
        family: u8,
        attributes: impl Fn(&mut Messages),
        each: impl Fn(&Message<'_>) -> Option<T>,
    ) -> Result<T, Errno> {
        let sequence = self.next();
        let mut request = Messages::default();
        request.begin(kind, REQUEST, sequence, family, 0);
        attributes(&mut request);
        self.send(request)?;
        loop {
            // Some answers say that others follow, and none does: the first is the answer.
            for message in message::read(self.receive()?) {
                let message = message?;
                match message.kind {
                    _ if message.sequence != sequence => {}
                    NOOP => {}
                    ERROR | DONE => return Err(message.error()?.unwrap_or(Errno::BADMSG)),
                    _ => return each(&message).ok_or(Errno::BADMSG),
                }
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
