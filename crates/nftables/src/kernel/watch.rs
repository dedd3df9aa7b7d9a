//! Whether somebody else changes our table.
//!
//! The kernel tells whoever listens about every change of any table, and through which socket it was made: by its number, which is
//! ours for what we do ourselves. For what nft does for us it is the number of that process, nearly always; another socket of this network may
//! have it already, for processes of other containers have the same numbers. So there is a second way: each
//! transaction raises the generation of all tables by one, and if it rose by one while nft worked, then that was nft.
//!
//! The kernel writes a message for each element that comes or goes while somebody listens, which takes it longer than the change itself.
//! So nobody listens during a large change of ours, and the generation alone says whether there was another.
//!
//! What is lost because too much happened counts as somebody else's, unless the generation says otherwise. It only ever costs
//! another look at the table.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;

use crate::kernel::message::{self, Message};
use crate::kernel::netlink::Socket;
use crate::kernel::tables::{NEW_TABLE, SUBSYSTEM, is_ours};

/// The group of listeners to nftables, which has the number 7, as a bit.
const GROUP: u32 = 1 << 6;
/// What is said at the end of each transaction, and how to ask for it.
const NEW_GENERATION: u16 = NEW_TABLE | 15;
const GET_GENERATION: u16 = NEW_TABLE | 16;
const GENERATION: u16 = 1;

/// Listens.
#[derive(Debug)]
pub(crate) struct Watch(Socket);

/// What was heard since the last time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// The sockets through which our table was changed, without repetition in a row.
    ports: Vec<u32>,
    /// Whether something was lost.
    lost: bool,
}

// === impl Watch ===

impl Watch {
    pub(crate) fn open() -> Result<Watch, Errno> {
        Ok(Watch(Socket::listening(GROUP)?))
    }

    /// Does not listen for a while. The socket is the same, for those who wait for it.
    pub(crate) fn pause(&self) -> Result<(), Errno> {
        self.0.listen_to(0)
    }

    /// Listens again.
    pub(crate) fn resume(&self) -> Result<(), Errno> {
        self.0.listen_to(GROUP)
    }

    /// What there is to hear now.
    pub(crate) fn listen(&mut self) -> Result<Heard, Errno> {
        let mut heard = Heard::default();
        loop {
            match self.0.receive() {
                Ok(bytes) => heard.take(bytes),
                Err(Errno::AGAIN) => return Ok(heard),
                // The kernel says this once, and goes on with what it has kept.
                Err(Errno::NOBUFS | Errno::MSGSIZE) => heard.lost = true,
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

// === impl Heard ===

impl Heard {
    /// Whether our table may have been changed through another socket than this.
    pub(crate) fn is_of_others(&self, own: Option<u32>) -> bool {
        self.lost || self.ports.iter().any(|port| Some(*port) != own)
    }

    fn take(&mut self, bytes: &[u8]) {
        for message in message::read(bytes) {
            match message {
                Ok(message) if !is_about_ours(&message) || self.ports.last() == Some(&message.port) => {}
                Ok(message) => self.ports.push(message.port),
                Err(_) => self.lost = true,
            }
        }
    }
}

fn is_about_ours(message: &Message<'_>) -> bool {
    // Whatever a message is about, its first attribute is the table's name; but for generations, which are about all of them.
    message.kind >> 8 == SUBSYSTEM && message.kind != NEW_GENERATION && is_ours(message)
}

/// The generation of all tables of this network.
pub(crate) fn generation(socket: &mut Socket) -> Result<u32, Errno> {
    socket.get(GET_GENERATION, 0, |_| {}, |message| message.attributes().number(GENERATION))
}
