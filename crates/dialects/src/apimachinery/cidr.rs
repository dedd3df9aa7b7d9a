//! CIDRs as the API server reads them: laxly, as Go did before 1.17, with a stricter check on top.
//!
//! The lax reading takes leading zeros as decimal and an IPv4 address inside an IPv6 one. It decides what a stored
//! object means, so it stays even where the strict check (the default since 1.36) refuses such values in new objects.
//! One parser serves both: it notes the leading zeros while it reads.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::field::quoted;

/// What [`parse`] finds.
struct Parsed {
    address: IpAddr,
    prefix: u8,
    leading_zeros: bool,
}

/// The network a CIDR stands for, read laxly: without its host bits, and in IPv4 if what is left is IPv4-mapped
/// (`::ffff:10.0.0.0/104` is `10.0.0.0/8`, but `::ffff:10.0.0.0/24` is `::/24`).
pub fn network(value: &str) -> Option<IpNet> {
    parse(value).and_then(|parsed| parsed.network())
}

/// The messages for a CIDR, at most one.
pub fn validate_cidr(value: &str, strict: bool) -> Vec<String> {
    let message = match parse(value) {
        None => "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        Some(_) if !strict => return Vec::new(),
        Some(parsed) if parsed.leading_zeros => "must not have leading 0s in IP or prefix length",
        Some(parsed) if parsed.is_mapped() => "must not have an IPv4-mapped IPv6 address",
        Some(parsed) if parsed.has_host_bits() => "must not have bits set beyond the prefix length",
        Some(_) => return Vec::new(),
    };
    vec![message.to_owned()]
}

/// Whether `inner` lies in `outer` and is smaller, as the API server asks of an exception; `None` if one of them is
/// no CIDR. Prefix lengths are compared as written: an IPv4 range is never smaller than an IPv4-mapped one.
pub fn is_strict_subset(inner: &str, outer: &str) -> Option<bool> {
    let (inner, outer) = (parse(inner)?, parse(outer)?);
    let (inner_net, outer_net) = (inner.network()?, outer.network()?);
    Some(outer_net.contains(&inner_net.network()) && inner.prefix > outer.prefix)
}

/// The warnings the API server adds to its answer, without the path in front; none for what is no CIDR.
pub fn warnings(value: &str) -> Vec<String> {
    let Some((parsed, network)) = parse(value).and_then(|p| p.network().map(|n| (p, n))) else {
        return Vec::new();
    };
    let mut warnings = Vec::new();
    if parsed.has_host_bits() {
        // The length is that of the family as written, the address is not: upstream's way with IPv4-mapped ones.
        let single = format!("{}/{}", parsed.address.to_canonical(), parsed.bits());
        warnings.push(format!(
            "CIDR value {} is ambiguous in this context (should be {} or {}?)",
            quoted(value),
            quoted(&network.to_string()),
            quoted(&single)
        ));
    }
    if parsed.leading_zeros || parsed.is_mapped() {
        warnings.push(format!(
            "non-standard CIDR value {} is invalid: use {}",
            quoted(value),
            quoted(&network.to_string())
        ));
    }
    if warnings.is_empty() && parsed.address.is_ipv6() && network.to_string() != value {
        warnings.push(format!(
            "IPv6 CIDR value {} should be in RFC 5952 canonical format ({})",
            quoted(value),
            quoted(&network.to_string())
        ));
    }
    warnings
}

fn parse(value: &str) -> Option<Parsed> {
    let (address, length) = value.split_once('/')?;
    let mut leading_zeros = false;
    let address = if address.contains(':') {
        IpAddr::V6(parse_ipv6(address, &mut leading_zeros)?)
    } else {
        IpAddr::V4(parse_ipv4(address, &mut leading_zeros)?)
    };
    let prefix = decimal(length, &mut leading_zeros)?;
    let parsed = Parsed { address, prefix, leading_zeros };
    (prefix <= parsed.bits()).then_some(parsed)
}

fn parse_ipv4(text: &str, leading_zeros: &mut bool) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        *octet = decimal(parts.next()?, leading_zeros)?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

fn parse_ipv6(text: &str, leading_zeros: &mut bool) -> Option<Ipv6Addr> {
    let mut groups = [0; 8];
    match text.split_once("::") {
        None => {
            let count = parse_groups(text, true, &mut groups, leading_zeros)?;
            (count == groups.len()).then(|| Ipv6Addr::from(groups))
        }
        Some((head, tail)) => {
            let count = parse_groups(head, false, &mut groups, leading_zeros)?;
            let mut last = [0; 8];
            let count_last = parse_groups(tail, true, &mut last, leading_zeros)?;
            // "::" stands for at least one group.
            if count + count_last >= groups.len() {
                return None;
            }
            let from = groups.len() - count_last;
            groups[from..].copy_from_slice(&last[..count_last]);
            Some(Ipv6Addr::from(groups))
        }
    }
}

/// Reads groups with colons between them, the last perhaps an IPv4 address; returns how many there are.
fn parse_groups(text: &str, ends: bool, groups: &mut [u16; 8], leading_zeros: &mut bool) -> Option<usize> {
    if text.is_empty() {
        return Some(0);
    }
    let mut count = 0;
    let mut parts = text.split(':').peekable();
    while let Some(part) = parts.next() {
        if ends && parts.peek().is_none() && part.contains('.') {
            let [a, b, c, d] = parse_ipv4(part, leading_zeros)?.octets();
            *groups.get_mut(count + 1)? = u16::from_be_bytes([c, d]);
            *groups.get_mut(count)? = u16::from_be_bytes([a, b]);
            return Some(count + 2);
        }
        *groups.get_mut(count)? = hexadecimal(part, leading_zeros)?;
        count += 1;
    }
    Some(count)
}

/// Digits only, any number of leading zeros.
fn decimal(text: &str, leading_zeros: &mut bool) -> Option<u8> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    *leading_zeros |= text.len() > 1 && text.starts_with('0');
    text.parse().ok()
}

/// Hexadecimal digits only. Up to four of them zeros are part of the normal form, so only longer ones count.
fn hexadecimal(text: &str, leading_zeros: &mut bool) -> Option<u16> {
    if !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    *leading_zeros |= text.len() > 4;
    u16::from_str_radix(text, 16).ok()
}

// === impl Parsed ===

impl Parsed {
    /// The length of an address of the family as written.
    fn bits(&self) -> u8 {
        if self.address.is_ipv4() { 32 } else { 128 }
    }

    fn is_mapped(&self) -> bool {
        matches!(self.address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
    }

    fn has_host_bits(&self) -> bool {
        IpNet::new(self.address, self.prefix).is_ok_and(|net| net.network() != self.address)
    }

    fn network(&self) -> Option<IpNet> {
        match self.address {
            IpAddr::V4(address) => Some(Ipv4Net::new(address, self.prefix).ok()?.trunc().into()),
            IpAddr::V6(address) => {
                let net = Ipv6Net::new(address, self.prefix).ok()?.trunc();
                match (net.network().to_ipv4_mapped(), self.prefix.checked_sub(96)) {
                    (Some(mapped), Some(prefix)) => Some(Ipv4Net::new(mapped, prefix).ok()?.into()),
                    _ => Some(net.into()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
