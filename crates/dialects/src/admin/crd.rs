//! What the definitions of both versions share.

use crate::codes;
use crate::definition::check;
use crate::definition::findings::Codes;
use crate::definition::schema::{
    Pattern, Rule, Schema, TEXTS, integer, labels, list, object, pattern, set, text,
};
use crate::source::tree::Node;

pub use crate::definition::schema::TEXT;

/// The codes of these kinds.
pub static CODES: Codes = Codes {
    required: &codes::ADMIN_REQUIRED,
    range: &codes::ADMIN_RANGE,
    supported: &codes::ADMIN_ENUM,
    items: &codes::ADMIN_ITEMS,
    one_of: &codes::ADMIN_ONE_OF,
    form: &codes::ADMIN_NAME_FORM,
    null_label: &codes::ADMIN_NULL_LABEL,
    selector: &codes::ADMIN_SELECTOR,
    metadata: &codes::ADMIN_METADATA,
};

/// The name of a rule.
pub static RULE_NAME: Schema = text(100);

/// A priority.
pub static PRIORITY: Schema = integer(0, 1000);

/// A port.
pub static PORT: Schema = integer(1, 65535);

/// A label selector.
pub static SELECTOR: Schema =
    object(&[("matchLabels", &LABELS), ("matchExpressions", &EXPRESSIONS)]).beyond(check::selector);

/// `matchLabels`.
pub static LABELS: Schema = labels();

/// `matchExpressions`.
pub static EXPRESSIONS: Schema = list(&EXPRESSION, 0, usize::MAX);

static EXPRESSION: Schema =
    object(&[("key", &TEXT), ("operator", &TEXT), ("values", &TEXTS)]).required(&["key", "operator"]);

/// `networks`.
pub static NETWORKS: Schema = set(&CIDR, 1, 25);

static CIDR: Schema = text(43).rule(Rule {
    holds: |node| node.as_str().is_some_and(is_cidr),
    message: "Invalid CIDR format provided",
    code: &codes::ADMIN_CIDR,
    below: &[],
});

/// `domainNames`.
pub static DOMAIN_NAMES: Schema = set(&DOMAIN_NAME, 1, 25);

static DOMAIN_NAME: Schema = pattern(Pattern {
    text: r"^(\*\.)?([a-zA-z0-9]([-a-zA-Z0-9_]*[a-zA-Z0-9])?\.)+[a-zA-z0-9]([-a-zA-Z0-9_]*[a-zA-Z0-9])?\.?$",
    matches: is_domain_name,
});

/// Whether a range begins before it ends.
pub fn begins_before_it_ends(range: &Node<'_>) -> bool {
    let port = |key| range.get(key).and_then(|port| crate::definition::typed::whole(&port.value));
    matches!((port("start"), port("end")), (Some(start), Some(end)) if start < end)
}

/// What the definitions take for a CIDR: with any host bits, but no leading zeros, no zone and no IPv4 inside IPv6.
pub fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Ok(address) = address.parse::<std::net::IpAddr>() else { return false };
    let (bits, mapped) = match address {
        std::net::IpAddr::V4(_) => (32, false),
        std::net::IpAddr::V6(address) => (128, address.to_ipv4_mapped().is_some()),
    };
    let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let plain = digits && (length == "0" || !length.starts_with('0'));
    !mapped && plain && length.parse::<u8>().is_ok_and(|length| length <= bits)
}

/// The definitions' pattern for names. Its `A-z` lets `[`, `\`, `]`, `^`, `_` and the backtick begin a label.
pub fn is_domain_name(text: &str) -> bool {
    let text = text.strip_prefix("*.").unwrap_or(text);
    let text = text.strip_suffix('.').unwrap_or(text);
    let label = |label: &str| {
        let bytes = label.as_bytes();
        let begins =
            bytes.first().is_some_and(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'z'));
        let middle =
            bytes.iter().skip(1).all(|byte| matches!(byte, b'-' | b'_') || byte.is_ascii_alphanumeric());
        let ends = bytes.len() == 1 || bytes.last().is_some_and(u8::is_ascii_alphanumeric);
        begins && middle && ends
    };
    text.contains('.') && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cidrs() {
        for text in ["0.0.0.0/0", "10.1.2.3/8", "::/0", "2001:db8::1/128", "64:ff9b::1.2.3.4/96"] {
            assert!(is_cidr(text), "{text}");
        }
        for text in [
            "",
            "/",
            "10.0.0.0",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/08",
            "10.0.0.0/00",
            "010.0.0.0/8",
            "10.0.0/8",
            "::ffff:10.0.0.0/104",
            "fe80::1%eth0/64",
            "::/129",
            "::/256",
            "10.0.0.0/8/8",
            " ::/0",
        ] {
            assert!(!is_cidr(text), "{text}");
        }
    }

    #[test]
    fn domain_names() {
        for text in ["a.b", "*.a.b", "A.b.", "_dmarc.example.com", "a_b.c-d.e1", "1.2"] {
            assert!(is_domain_name(text), "{text}");
        }
        for text in [
            "", ".", "a", "a.", "*", "*.a", "a..b", ".a.b", "a.b..", "a.*.b", "*a.b", "-a.b", "a-.b", "a_.b",
            "ä.b",
        ] {
            assert!(!is_domain_name(text), "{text}");
        }
    }
}
