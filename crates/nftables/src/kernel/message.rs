//! Messages of netlink and their attributes, as bytes.
//!
//! Every answer is taken for what it is, bytes from elsewhere: lengths are checked, what does not parse is an error of its own
//! (`EBADMSG`), and nothing here panics.

use rustix::io::Errno;

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
/// A rule is added after those of its chain, not before them.
pub(crate) const APPEND: u16 = 0x0800;

/// An answer of several messages.
pub(crate) const MULTI: u16 = 0x0002;
/// Something changed while the answer was being written.
pub(crate) const INTERRUPTED: u16 = 0x0010;
/// The kinds of messages that are netlink's own.
pub(crate) const NOOP: u16 = 1;
pub(crate) const ERROR: u16 = 2;
pub(crate) const DONE: u16 = 3;
pub(crate) const OVERRUN: u16 = 4;

/// How long a message's and an attribute's head are.
const HEAD: usize = 16;
const ATTRIBUTE: usize = 4;
/// Behind the head of every netfilter message: family, version, resource.
const GENERIC: usize = 4;
/// The bit of an attribute's kind that says that it holds others, and all that are no part of the kind.
const NESTED: u16 = 0x8000;
const FLAGS: u16 = 0xc000;

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

/// Attributes of a message, or of an attribute that holds others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes<'a>(&'a [u8]);

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

    /// Adds flags to the message that was begun last.
    pub(crate) fn add_flags(&mut self, flags: u16) {
        if let Some([low, high]) = self.bytes.get_mut(self.began + 6..self.began + 8) {
            let all = u16::from_ne_bytes([*low, *high]) | flags;
            [*low, *high] = all.to_ne_bytes();
        }
    }

    /// Writes a number of 32 bits in network byte order.
    pub(crate) fn number(&mut self, kind: u16, number: u32) {
        self.attribute(kind, &number.to_be_bytes());
    }

    /// Writes a length as a number of 32 bits.
    pub(crate) fn length_of(&mut self, kind: u16, length: usize) {
        match u32::try_from(length) {
            Ok(length) => self.number(kind, length),
            Err(_) => self.too_long = true,
        }
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
        let at = self.open_nested(kind);
        inner(self);
        self.close(at);
    }

    /// Begins an attribute that others are put into; [`Messages::close`] ends it.
    pub(crate) fn open_nested(&mut self, kind: u16) -> usize {
        self.open(kind | NESTED)
    }

    fn open(&mut self, kind: u16) -> usize {
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
    pub(crate) fn error(&self) -> Result<Option<Errno>, Errno> {
        let code = self.payload.first_chunk().ok_or(Errno::BADMSG)?;
        let code = i32::from_ne_bytes(*code).checked_neg().ok_or(Errno::BADMSG)?;
        Ok((code > 0).then(|| Errno::from_raw_os_error(code)))
    }

    /// The family of a netfilter message.
    pub(crate) fn family(&self) -> Option<u8> {
        self.payload.first().copied()
    }

    /// The attributes of a netfilter message.
    pub(crate) fn attributes(&self) -> Attributes<'a> {
        Attributes(self.payload.get(GENERIC..).unwrap_or_default())
    }
}

// === impl Attributes ===

impl<'a> Attributes<'a> {
    /// All of them by kind; what is left over and is none is not looked at.
    pub(crate) fn all(self) -> impl Iterator<Item = (u16, &'a [u8])> {
        let mut bytes = self.0;
        std::iter::from_fn(move || {
            let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
            let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
            let value = bytes.get(ATTRIBUTE..length)?;
            bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
            Some((kind & !FLAGS, value))
        })
    }

    /// The attribute of a kind.
    pub(crate) fn get(self, wanted: u16) -> Option<&'a [u8]> {
        self.all().find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
    }

    /// The one that holds others.
    pub(crate) fn inside(self, wanted: u16) -> Option<Attributes<'a>> {
        self.get(wanted).map(Attributes)
    }

    /// What each of a list holds.
    pub(crate) fn list(self, wanted: u16) -> impl Iterator<Item = Attributes<'a>> {
        self.inside(wanted).into_iter().flat_map(Attributes::all).map(|(_, element)| Attributes(element))
    }

    /// A name.
    pub(crate) fn name(self, wanted: u16) -> Option<&'a str> {
        self.get(wanted).and_then(name)
    }

    /// A number of 32 bits in the byte order of the network, as nearly all are.
    pub(crate) fn number(self, wanted: u16) -> Option<u32> {
        Some(u32::from_be_bytes(self.get(wanted)?.try_into().ok()?))
    }

    /// One of 16 bits.
    pub(crate) fn short(self, wanted: u16) -> Option<u16> {
        Some(u16::from_be_bytes(self.get(wanted)?.try_into().ok()?))
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

/// A name, without the zero that it ends with.
pub(crate) fn name(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes.split(|byte| *byte == 0).next()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vec<u8> {
        let mut messages = Messages::default();
        messages.begin(7, REQUEST, 1, 2, 10);
        messages.name(1, "abc");
        messages.nested(2, |inner| {
            inner.attribute(3, &[1, 2, 3, 4, 5]);
            inner.attribute(4, &[]);
        });
        messages.begin(8, ACK, 2, 1, 0);
        messages.finish().unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = some();
        let read: Vec<Message<'_>> = read(&bytes).map(Result::unwrap).collect();
        let [first, second] = read.as_slice() else { panic!("{read:?}") };
        assert_eq!((first.kind, first.sequence, first.family()), (7, 1, Some(2)));
        assert_eq!((second.kind, second.flags, second.attributes()), (8, ACK, Attributes(&[])));
        assert_eq!(first.attributes().name(1), Some("abc"));
        let inner = first.attributes().inside(2).unwrap();
        assert_eq!(inner.all().collect::<Vec<_>>(), [(3, &[1, 2, 3, 4, 5][..]), (4, &[][..])]);
    }

    #[test]
    fn what_is_too_long_is_not_sent() {
        let mut messages = Messages::default();
        messages.begin(7, REQUEST, 1, 2, 10);
        messages.attribute(1, &vec![0; 70_000]);
        assert_eq!(messages.finish(), Err(Errno::MSGSIZE));
    }

    #[test]
    fn broken_bytes_end_in_an_error_or_nothing() {
        let whole = some();
        // Every byte changed in some ways, and every beginning: nothing panics, nothing goes on for ever.
        for at in 0..whole.len() {
            for other in [0, 1, 3, 4, 0x7f, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = other;
                for message in read(&bytes).flatten() {
                    for (kind, value) in message.attributes().all() {
                        let all = message.attributes();
                        let _ = (name(value), all.number(kind), all.short(kind), all.list(kind).count());
                    }
                    let _ = (message.error(), message.family());
                }
            }
            assert!(read(&whole[..at]).count() <= 2, "{at}");
        }
    }
}
