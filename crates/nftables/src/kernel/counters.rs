//! What the counters of our table say.

use rustix::io::Errno;

use crate::kernel::Count;
use crate::kernel::message::{Message, Messages};
use crate::kernel::netlink::Socket;
use crate::kernel::tables::{INET, NEW_TABLE, OF_TABLE, is_ours};
use crate::program::Name;
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

/// All of them; none if there is no table.
pub(crate) fn list(socket: &mut Socket) -> Result<Vec<(Name, Count)>, Errno> {
    let ours = |request: &mut Messages| {
        request.name(OF_TABLE, TABLE);
        request.attribute(OBJECT_KIND, &COUNTER.to_be_bytes());
    };
    socket.dump(GET_OBJECT, INET, ours, |message, all| {
        all.extend(count(message));
        Ok(())
    })
}

fn count(message: &Message<'_>) -> Option<(Name, Count)> {
    let attributes = message.attributes();
    let name = attributes.name(OBJECT_NAME)?;
    let data = attributes.inside(OBJECT_DATA)?;
    let number = |kind| Some(u64::from_be_bytes(data.get(kind)?.try_into().ok()?));
    let count = Count { packets: number(PACKETS)?, bytes: number(BYTES)? };
    // Kernels that do not choose tell of everything.
    let wanted = is_ours(message) && attributes.number(OBJECT_KIND) == Some(COUNTER);
    wanted.then(|| (Name::new(name), count))
}
