//! Packets of protocols that have no sockets of their own here: SCTP (whether or not the kernel knows it), ICMP of any type,
//! IGMP.
//!
//! SCTP is as much of it as a firewall sees: an INIT that opens an association, and the INIT ACK that answers it. Packets of the
//! others carry a number in their payload, by which the receiver tells them apart.

/// How our payloads begin.
const MAGIC: [u8; 8] = *b"palisade";

/// The chunk that opens an association, and the one that answers.
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;

/// An INIT from a port to another.
pub fn sctp_init(from: u16, to: u16, tag: u32) -> Vec<u8> {
    sctp(from, to, 0, INIT, tag)
}

/// The answer to an INIT; nothing if it is none.
pub fn sctp_answer(packet: &[u8]) -> Option<Vec<u8>> {
    let (from, to) = ports(packet)?;
    if packet.get(12) != Some(&INIT) {
        return None;
    }
    let tag = u32::from_be_bytes(packet.get(16..20)?.try_into().ok()?);
    Some(sctp(to, from, tag, INIT_ACK, tag ^ 1))
}

/// Whether this is the answer to an INIT from one port to another.
pub fn is_sctp_answer(packet: &[u8], from: u16, to: u16) -> bool {
    ports(packet) == Some((to, from)) && packet.get(12) == Some(&INIT_ACK)
}

/// The destination's port of a packet of SCTP.
pub fn ports(packet: &[u8]) -> Option<(u16, u16)> {
    let from = u16::from_be_bytes(packet.get(0..2)?.try_into().ok()?);
    let to = u16::from_be_bytes(packet.get(2..4)?.try_into().ok()?);
    Some((from, to))
}

fn sctp(from: u16, to: u16, verification: u32, chunk: u8, tag: u32) -> Vec<u8> {
    let mut packet = Vec::with_capacity(32);
    packet.extend(from.to_be_bytes());
    packet.extend(to.to_be_bytes());
    packet.extend(verification.to_be_bytes());
    packet.extend([0; 4]);
    packet.extend([chunk, 0, 0, 20]);
    packet.extend(tag.to_be_bytes());
    packet.extend(65536u32.to_be_bytes());
    packet.extend([0, 1, 0, 1]);
    packet.extend(1u32.to_be_bytes());
    let sum = crc32c(&packet).to_le_bytes();
    packet[8..12].copy_from_slice(&sum);
    packet
}

/// A message of ICMP with a number; its checksum for IPv4 (of IPv6 the kernel writes it).
pub fn icmp(kind: u8, code: u8, number: u64) -> Vec<u8> {
    let mut packet = vec![kind, code, 0, 0, 0, 0, 0, 0];
    packet.extend(MAGIC);
    packet.extend(number.to_be_bytes());
    let sum = internet_sum(&packet).to_be_bytes();
    packet[2..4].copy_from_slice(&sum);
    packet
}

/// A message of IGMP with a number.
pub fn igmp(kind: u8, number: u64) -> Vec<u8> {
    icmp(kind, 0, number)
}

/// The number that a message carries.
pub fn number(packet: &[u8]) -> Option<u64> {
    let at = packet.windows(MAGIC.len()).position(|window| window == MAGIC)? + MAGIC.len();
    Some(u64::from_be_bytes(packet.get(at..at + 8)?.try_into().ok()?))
}

/// What is behind the header of IPv4, which raw sockets of that family see.
pub fn behind_header(packet: &[u8], four: bool) -> &[u8] {
    let length = match packet.first() {
        Some(first) if four => usize::from(first & 0x0f) * 4,
        _ => 0,
    };
    packet.get(length..).unwrap_or_default()
}

fn internet_sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(0)
}

/// Castagnoli's checksum, bit by bit: packets here are short.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut sum = !0u32;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ 0x82f6_3b78 } else { sum >> 1 };
        }
    }
    !sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_the_known_ones() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(internet_sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }

    #[test]
    fn an_init_is_answered_to_whoever_sent_it() {
        let answer = sctp_answer(&sctp_init(40000, 9003, 7)).unwrap();
        assert!(is_sctp_answer(&answer, 40000, 9003));
        assert!(!is_sctp_answer(&answer, 40001, 9003));
        assert_eq!(sctp_answer(&answer), None);
    }

    #[test]
    fn a_message_carries_its_number() {
        assert_eq!(number(&icmp(8, 0, 77)), Some(77));
        assert_eq!(number(b"palisade"), None);
    }
}
