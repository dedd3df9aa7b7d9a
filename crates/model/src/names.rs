//! Which texts Kubernetes accepts as names of objects and as keys and values of labels.
//!
//! Predicates only: the API server's messages about a refused text are in `palisade-dialects`. Lengths count bytes.

/// Largest length of a DNS label, of a label value and of the name part of a label key.
pub const LABEL_MAX: usize = 63;
/// Largest length of a DNS subdomain.
pub const SUBDOMAIN_MAX: usize = 253;

/// Returns whether `name` is a DNS label (RFC 1123) in lower case: the name of a namespace.
pub fn is_dns_label(name: &str) -> bool {
    name.len() <= LABEL_MAX && !name.contains('.') && has_subdomain_form(name.bytes())
}

/// Returns whether `name` is a DNS subdomain (RFC 1123) in lower case: the name of most objects.
pub fn is_dns_subdomain(name: &str) -> bool {
    name.len() <= SUBDOMAIN_MAX && has_subdomain_form(name.bytes())
}

/// Returns whether `key` is a label key: a name, or a DNS subdomain, a slash and a name.
pub fn is_label_key(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    prefix.is_none_or(is_dns_subdomain) && name.len() <= LABEL_MAX && has_label_form(name)
}

/// Returns whether `value` is a label value; an empty one is.
pub fn is_label_value(value: &str) -> bool {
    value.len() <= LABEL_MAX && (value.is_empty() || has_label_form(value))
}

/// Returns whether `bytes` are DNS labels in lower case, joined by dots, of any length.
pub fn has_subdomain_form(bytes: impl Iterator<Item = u8>) -> bool {
    let mut before = b'.';
    for byte in bytes {
        let fits = match byte {
            b'-' => before != b'.',
            b'.' => is_lower_alphanumeric(before),
            _ => is_lower_alphanumeric(byte),
        };
        if !fits {
            return false;
        }
        before = byte;
    }
    is_lower_alphanumeric(before)
}

/// Returns whether `name` consists of letters, digits, `-`, `_` and `.`, with a letter or digit at both ends, of any length.
pub fn has_label_form(name: &str) -> bool {
    let outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    let inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    outer(bytes.first()) && outer(bytes.last()) && bytes.iter().all(inner)
}

fn is_lower_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}
