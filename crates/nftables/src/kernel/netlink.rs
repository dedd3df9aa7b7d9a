//! The netfilter part of netlink: sockets, messages and attributes, as bytes.
//!
//! Every answer is taken for what it is, bytes from elsewhere: lengths are checked, what does not parse is an error of its own
//! (`EBADMSG`), and nothing here panics. Errors are the kernel's own numbers, which [`crate::kernel::KernelError::of`] sorts.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, getsockname, recvfrom, sendto,
    socket_with, sockopt,
};

/// A message that asks for something.
pub(crate) const REQUEST: u16 = 0x0001;
/// And wants to hear that it was done.
pub(crate) const ACK: u16 = 0x0004;
/// And wants all there is.
pub(crate) const DUMP: u16 = 0x0300;
/// What comes must not be there yet.
pub(crate) const EXCLUSIVE: u16 = 0x0200;
/// What is not there is made.
pub(crate) const CREATE: u16 = 0x0400;

/// An answer of several messages.
const MULTI: u16 = 0x0002;
/// Something changed while the answer was being written.
const INTERRUPTED: u16 = 0x0010;
/// The kinds of messages that are netlink's own.
const NOOP: u16 = 1;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const OVERRUN: u16 = 4;

/// How long a message's and an attribute's head are.
const HEAD: usize = 16;
const ATTRIBUTE: usize = 4;
/// Behind the head of every netfilter message: family, version, resource.
const GENERIC: usize = 4;
/// The bit of an attribute's kind that says that it holds others, and all that are no part of the kind.
const NESTED: u16 = 0x8000;
const FLAGS: u16 = 0xc000;

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

/// Messages to be sent together.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    bytes: Vec<u8>,
    began: usize,
    too_long: bool,
}

/// A message that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    /// The subsystem and what it says.
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    /// The socket that it is about, or whose change it tells of.
    pub(crate) port: u32,
    /// What is behind the head.
    pub(crate) payload: &'a [u8],
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
            for message in read(received) {
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
            for message in read(self.receive()?) {
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
            for message in read(self.receive()?) {
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
        let answer = self.answers(sequence, &mut |message, all| {
            all.push(each(message).ok_or(Errno::BADMSG)?);
            Ok(())
        })?;
        answer.and_then(|mut all| all.pop()).ok_or(Errno::BADMSG)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

// === impl Messages ===

impl Messages {
    /// Begins the next message; `resource` is in the byte order of the network.
    pub(crate) fn begin(&mut self, kind: u16, flags: u16, sequence: u32, family: u8, resource: u16) {
        self.end();
        self.began = self.bytes.len();
        self.bytes.extend([0; 4]);
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(flags.to_ne_bytes());
        self.bytes.extend(sequence.to_ne_bytes());
        self.bytes.extend([0; 4]);
        self.bytes.extend([family, 0]);
        self.bytes.extend(resource.to_be_bytes());
    }

    /// How long the message is that was begun last.
    pub(crate) fn length(&self) -> usize {
        self.bytes.len() - self.began
    }

    /// An attribute of the message.
    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) {
        let at = self.open(kind);
        self.bytes.extend_from_slice(value);
        self.close(at);
    }

    /// A name, which the kernel wants to end with a zero.
    pub(crate) fn name(&mut self, kind: u16, name: &str) {
        let at = self.open(kind);
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.close(at);
    }

    /// An attribute that holds others.
    pub(crate) fn nested(&mut self, kind: u16, inner: impl FnOnce(&mut Messages)) {
        let at = self.open(kind | NESTED);
        inner(self);
        self.close(at);
    }

    /// Begins an attribute that others are put into; [`Messages::close`] ends it.
    pub(crate) fn open(&mut self, kind: u16) -> usize {
        let at = self.bytes.len();
        self.bytes.extend([0; 2]);
        self.bytes.extend(kind.to_ne_bytes());
        at
    }

    /// Ends an attribute.
    pub(crate) fn close(&mut self, at: usize) {
        let length = u16::try_from(self.bytes.len() - at).ok();
        match (length, self.bytes.get_mut(at..at + 2)) {
            (Some(length), Some(place)) => place.copy_from_slice(&length.to_ne_bytes()),
            _ => self.too_long = true,
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Ends an attribute that is begun as one that holds others.
    pub(crate) fn open_nested(&mut self, kind: u16) -> usize {
        self.open(kind | NESTED)
    }

    fn end(&mut self) {
        let length = u32::try_from(self.bytes.len() - self.began).ok();
        match (length, self.bytes.get_mut(self.began..self.began + 4)) {
            (Some(length), Some(place)) => place.copy_from_slice(&length.to_ne_bytes()),
            (None, _) => self.too_long = true,
            // There is none yet.
            (Some(_), None) => {}
        }
    }

    pub(crate) fn finish(mut self) -> Result<Vec<u8>, Errno> {
        self.end();
        if self.too_long { Err(Errno::MSGSIZE) } else { Ok(self.bytes) }
    }
}

// === impl Message ===

impl<'a> Message<'a> {
    /// The error that a message of that sort carries; none is an acknowledgement.
    fn error(&self) -> Result<Option<Errno>, Errno> {
        let code = self.payload.first_chunk().ok_or(Errno::BADMSG)?;
        let code = i32::from_ne_bytes(*code).checked_neg().ok_or(Errno::BADMSG)?;
        Ok((code > 0).then(|| Errno::from_raw_os_error(code)))
    }

    /// The family of a netfilter message.
    pub(crate) fn family(&self) -> Option<u8> {
        self.payload.first().copied()
    }

    /// The attributes of a netfilter message.
    pub(crate) fn attributes(&self) -> &'a [u8] {
        self.payload.get(GENERIC..).unwrap_or_default()
    }
}

/// The messages in what was received; an error, and no more, where they end too early.
pub(crate) fn read(mut bytes: &[u8]) -> impl Iterator<Item = Result<Message<'_>, Errno>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let Some((message, rest)) = first_message(bytes) else {
            bytes = &[];
            return Some(Err(Errno::BADMSG));
        };
        bytes = rest;
        Some(Ok(message))
    })
}

fn first_message(bytes: &[u8]) -> Option<(Message<'_>, &[u8])> {
    let length = usize::try_from(u32::from_ne_bytes(*bytes.first_chunk()?)).ok()?;
    let payload = bytes.get(HEAD..length)?;
    let message = Message {
        kind: u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?),
        flags: u16::from_ne_bytes(bytes.get(6..8)?.try_into().ok()?),
        sequence: u32::from_ne_bytes(bytes.get(8..12)?.try_into().ok()?),
        port: u32::from_ne_bytes(bytes.get(12..16)?.try_into().ok()?),
        payload,
    };
    Some((message, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// Attributes by kind; what is left over and is none is not looked at.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
        let value = bytes.get(ATTRIBUTE..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & !FLAGS, value))
    })
}

/// The attribute of a kind.
pub(crate) fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

/// A number of 32 bits in the byte order of the network, as nearly all are.
pub(crate) fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// A name, without the zero that it ends with.
pub(crate) fn name(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes.split(|byte| *byte == 0).next()?).ok()
}
