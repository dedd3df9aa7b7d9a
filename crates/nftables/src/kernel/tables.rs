//! What every message about tables has in common: numbers, whose table it is about, and how several are one transaction.

use rustix::io::Errno;

use crate::kernel::message::{ACK, Message, Messages, REQUEST};
use crate::kernel::netlink::Socket;
use crate::text::TABLE;

/// The family `inet`.
pub(crate) const INET: u8 = 1;
/// The subsystem of nftables, and its first message; others are counted from that.
pub(crate) const SUBSYSTEM: u16 = 10;
pub(crate) const NEW_TABLE: u16 = SUBSYSTEM << 8;
pub(crate) const GET_TABLE: u16 = NEW_TABLE | 1;
pub(crate) const DELETE_TABLE: u16 = NEW_TABLE | 2;
/// In every message, the table's name.
pub(crate) const OF_TABLE: u16 = 1;
/// What begins and ends a transaction.
const BEGIN: u16 = 0x10;
const END: u16 = 0x11;

/// Whether a message is about our table. Some kernels, asked for one table, tell of all.
pub(crate) fn is_ours(message: &Message<'_>) -> bool {
    message.family() == Some(INET) && message.attributes().name(OF_TABLE) == Some(TABLE)
}

/// Begins a transaction; the number of its first message.
pub(crate) fn begin(socket: &mut Socket, messages: &mut Messages) -> u32 {
    let first = socket.next();
    messages.begin(BEGIN, REQUEST, first, 0, SUBSYSTEM);
    first
}

/// Ends it.
pub(crate) fn end(socket: &mut Socket, messages: &mut Messages) {
    messages.begin(END, REQUEST, socket.next(), 0, SUBSYSTEM);
}

/// Does something to one of our tables as a whole, if it is there.
pub(crate) fn change(socket: &mut Socket, kind: u16, table: &str) -> Result<(), Errno> {
    let mut messages = Messages::default();
    let first = begin(socket, &mut messages);
    let last = socket.next();
    messages.begin(kind, REQUEST | ACK, last, INET, 0);
    messages.name(OF_TABLE, table);
    end(socket, &mut messages);
    socket.ask(messages, first, last)
}
