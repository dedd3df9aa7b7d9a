//! Names and numbers as Kubernetes wants them: DNS names, label keys and values, ports.
//!
//! Each check returns the messages in the API server's order, none if the value is right; they are the detail of an
//! [`invalid`](super::field::invalid). Lengths count bytes. What the messages call them depends on where upstream
//! keeps the check: names of objects and ports have "characters", label keys and values have "bytes".

use std::fmt;

use palisade_model::names::{LABEL_MAX, SUBDOMAIN_MAX, has_label_form, has_subdomain_form};

const DNS_LABEL: Pattern = Pattern {
    says: "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
           and must start and end with an alphanumeric character",
    examples: "'my-name',  or '123-abc', ",
    regex: "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
};

const DNS_SUBDOMAIN: Pattern = Pattern {
    says: "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
           and must start and end with an alphanumeric character",
    examples: "'example.com', ",
    regex: r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
};

const LABEL_KEY: Pattern = Pattern {
    says: "must consist of alphanumeric characters, '-', '_' or '.', \
           and must start and end with an alphanumeric character",
    examples: "'MyName',  or 'my.name',  or '123-abc', ",
    regex: "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
};

const LABEL_VALUE: Pattern = Pattern {
    says: "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
           and must start and end with an alphanumeric character",
    examples: "'MyValue',  or 'my_value',  or '12345', ",
    regex: "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
};

const PORT_NAME_MAX: usize = 15;
/// What the API server keeps of a `generateName`, before it appends five random characters.
const GENERATED_BASE_MAX: usize = 58;

/// How a kind wants its objects named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// Labels joined by dots, at most 253 bytes: most kinds, and every custom resource.
    Subdomain,
    /// A single label, at most 63 bytes: namespaces.
    Label,
}

/// A message about the form of a value. It prints as `says (e.g. 'a', or 'b', regex used for validation is 're')`,
/// with upstream's spacing between the examples.
struct Pattern {
    says: &'static str,
    examples: &'static str,
    regex: &'static str,
}

/// A DNS subdomain (RFC 1123), in lower case.
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    subdomain(value.bytes(), value.len(), "characters")
}

/// A single label of a DNS name (RFC 1123), in lower case.
pub fn dns1123_label(value: &str) -> Vec<String> {
    label(value.bytes(), value.len())
}

/// The key of a label: a name, or a DNS subdomain, a slash and a name.
pub fn qualified_name(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, name)) if name.contains('/') => {
            let with_prefix = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {LABEL_KEY} {with_prefix}")];
        }
        Some(("", name)) => {
            messages.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            let wrong = subdomain(prefix.bytes(), prefix.len(), "bytes");
            messages.extend(wrong.into_iter().map(|message| format!("prefix part {message}")));
            name
        }
    };
    if name.is_empty() {
        messages.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        messages.push(format!("name part must be no more than {LABEL_MAX} bytes"));
    }
    if !has_label_form(name) {
        messages.push(format!("name part {LABEL_KEY}"));
    }
    messages
}

/// The key of an annotation: that of a label, except that the prefix may have capitals.
pub fn annotation_key(value: &str) -> Vec<String> {
    let lowered = |c: char| c.is_ascii_uppercase() || !c.is_ascii();
    if value.contains(lowered) { qualified_name(&go_lowercase(value)) } else { qualified_name(value) }
}

/// The value of a label; may be empty.
pub fn label_value(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > LABEL_MAX {
        messages.push(format!("must be no more than {LABEL_MAX} bytes"));
    }
    if !value.is_empty() && !has_label_form(value) {
        messages.push(LABEL_VALUE.to_string());
    }
    messages
}

/// The name of a port.
pub fn port_name(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > PORT_NAME_MAX {
        messages.push(format!("must be no more than {PORT_NAME_MAX} characters"));
    }
    if value.is_empty() || !value.bytes().all(|b| is_lower_alphanumeric(b) || b == b'-') {
        messages.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !value.bytes().any(|b| b.is_ascii_lowercase()) {
        messages.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        messages.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        messages.push("must not begin or end with a hyphen".to_owned());
    }
    messages
}

/// The number of a port.
pub fn port_number(value: i64) -> Vec<String> {
    if (1..=65535).contains(&value) {
        Vec::new()
    } else {
        vec!["must be between 1 and 65535, inclusive".to_owned()]
    }
}

fn subdomain(bytes: impl Iterator<Item = u8>, len: usize, unit: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if len > SUBDOMAIN_MAX {
        messages.push(format!("must be no more than {SUBDOMAIN_MAX} {unit}"));
    }
    if !has_subdomain_form(bytes) {
        messages.push(DNS_SUBDOMAIN.to_string());
    }
    messages
}

fn label(bytes: impl Iterator<Item = u8> + Clone, len: usize) -> Vec<String> {
    let mut messages = Vec::new();
    if len > LABEL_MAX {
        messages.push(format!("must be no more than {LABEL_MAX} characters"));
    }
    match has_subdomain_form(bytes.clone()) {
        true if bytes.into_iter().any(|b| b == b'.') => messages.push("must not contain dots".to_owned()),
        true => {}
        false => messages.push(DNS_LABEL.to_string()),
    }
    messages
}

fn is_lower_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Lower case as Go makes it: one character for one character.
fn go_lowercase(text: &str) -> String {
    text.chars().map(|c| c.to_lowercase().next().unwrap_or(c)).collect()
}

// === impl NameRule ===

impl NameRule {
    /// The messages for a name.
    pub fn check(self, name: &str) -> Vec<String> {
        self.check_bytes(name.bytes(), name.len())
    }

    /// The messages for a `generateName`. As upstream does, a final hyphen is set aside together with the character
    /// before it, whatever that is; [`NameRule::generated`] shows what comes of such a prefix.
    pub fn check_prefix(self, prefix: &str) -> Vec<String> {
        let bytes = prefix.as_bytes();
        match bytes.split_last_chunk::<2>() {
            Some((kept, [_, b'-'])) => {
                self.check_bytes(kept.iter().copied().chain(std::iter::once(b'a')), kept.len() + 1)
            }
            _ => self.check(prefix),
        }
    }

    /// A name the API server may make of a `generateName`: `xxxxx` stands for the five random characters.
    pub fn generated(prefix: &str) -> String {
        let kept = prefix.floor_char_boundary(GENERATED_BASE_MAX);
        format!("{}xxxxx", &prefix[..kept])
    }

    fn check_bytes(self, bytes: impl Iterator<Item = u8> + Clone, len: usize) -> Vec<String> {
        match self {
            NameRule::Subdomain => subdomain(bytes, len, "characters"),
            NameRule::Label => label(bytes, len),
        }
    }
}

// === impl Pattern ===

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pattern { says, examples, regex } = self;
        write!(f, "{says} (e.g. {examples}regex used for validation is '{regex}')")
    }
}

#[cfg(test)]
mod tests;
