//! The API server's checks of an object against its definition, each error in the server's words. The order of errors is ours, the
//! server has none.
//!
//! As there, rules across fields (`x-kubernetes-validations`) are looked at only when nothing is missing, of the wrong type,
//! unsupported, too long or too many: they may count on all of that. Checks run on the tree, not on the types: what has the wrong
//! type is still *written*, and must not be reported as missing too. A null counts as not written, except in a list.

use std::collections::HashSet;

use super::super::findings::{Findings, counted, in_body, join};
use super::super::typed::{self, whole};
use super::{Format, Schema, Shape, written};
use crate::apimachinery::cidr;
use crate::apimachinery::field::{self, Path};
use crate::source::tree::{Node, Value};

/// What the API server says about `oneOf`.
const ONE_OF: &str = "must validate one and only one schema (oneOf).";

// === impl Schema ===

impl Schema {
    /// Everything that is wrong with a value.
    pub fn check(&self, node: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
        self.structure(node, path, findings);
        if !findings.blocked {
            self.rules(node, path, findings);
        }
    }

    fn structure(&self, node: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
        match (&self.shape, &node.value) {
            (Shape::Object { fields, required, properties: (min, max), alternatives }, Value::Map(_)) => {
                let count = fields.iter().filter(|(name, _)| written(node, name).is_some()).count();
                if count < *min {
                    let body =
                        in_body(counted(count), path, &format!("should have at least {min} properties"));
                    findings.say(findings.codes.one_of, path, body).help =
                        Some(format!("expected {}", join(fields.iter().map(|(name, _)| *name), "or")));
                }
                if count > *max {
                    let body = field::too_many(count, *max);
                    findings.say(findings.codes.one_of, path, body).help =
                        Some("write each of them as an entry of its own".to_owned());
                    findings.blocked = true;
                }
                let chosen = alternatives.iter().filter(|name| written(node, name).is_some()).count();
                if !alternatives.is_empty() && chosen != 1 {
                    let count = match chosen {
                        0 => "Found none valid".to_owned(),
                        _ => format!("Found {chosen} valid alternatives"),
                    };
                    let body = format!("\"{path}\" {ONE_OF} {count}");
                    findings.say(findings.codes.one_of, path, field::invalid("", &body)).help =
                        Some(format!("write exactly one of {}", join(alternatives.iter().copied(), "and")));
                }
                for name in required.iter().filter(|name| written(node, name).is_none()) {
                    findings.required(&path.child(name));
                }
                for (name, schema) in *fields {
                    if let Some(value) = written(node, name) {
                        schema.structure(value, &path.child(name), findings);
                    }
                }
            }
            (Shape::Labels, Value::Map(entries)) => {
                for entry in entries.iter().filter(|entry| entry.value.as_str().is_none()) {
                    let path = path.child(&entry.key);
                    match entry.value.value {
                        Value::Null => {
                            let message = format!("the label {} has no value: it is dropped", entry.key);
                            findings.say(findings.codes.null_label, &path, message).help =
                                Some("write \"\" for the empty value".to_owned());
                        }
                        _ => findings.wrong_type(&path, "string", &entry.value.value),
                    }
                }
            }
            (Shape::List { of, items: limits, set }, Value::List(items)) => {
                findings.count(path, items.len(), *limits);
                let mut seen = HashSet::new();
                for (index, item) in items.iter().enumerate() {
                    let path = path.index(index);
                    of.structure(item, &path, findings);
                    if let Some(text) = item.as_str().filter(|text| *set && !seen.insert(*text)) {
                        findings.say(findings.codes.items, &path, field::duplicate(text));
                    }
                }
            }
            (Shape::Text { length, supported, pattern, format }, Value::String(text)) => {
                if text.chars().count() > *length {
                    findings.say(findings.codes.items, path, field::too_long(*length));
                    findings.blocked = true;
                }
                if !supported.is_empty() && !supported.contains(&text.as_ref()) {
                    findings.unsupported(path, text, supported);
                    findings.blocked = true;
                }
                if let Some(pattern) = pattern.filter(|pattern| !(pattern.matches)(text)) {
                    let body = in_body(text.as_ref(), path, &format!("should match '{}'", pattern.text));
                    findings.say(findings.codes.form, path, body);
                }
                if let Some(format) = format.filter(|format| !format.holds(text)) {
                    findings.say(findings.codes.form, path, format.refusal(text, path));
                }
            }
            (Shape::Integer { range, supported }, value) if whole(value).is_some() => {
                let number = whole(value).unwrap_or_default();
                if !supported.is_empty() && !supported.contains(&number) {
                    let supported: Vec<String> = supported.iter().map(i64::to_string).collect();
                    let supported: Vec<&str> = supported.iter().map(String::as_str).collect();
                    let body = field::not_supported(number, &supported);
                    findings.say(findings.codes.supported, path, body);
                }
                if let Some(wrong) = outside(&number, *range) {
                    findings.say(findings.codes.range, path, in_body(number, path, &wrong));
                }
            }
            (Shape::Number { range }, value @ (Value::Integer(_) | Value::Float(_))) => {
                match typed::number(value) {
                    Some(number) => {
                        if let Some(wrong) = outside(&number, *range) {
                            let body = in_body(field::Value::Json(&number.to_string()), path, &wrong);
                            findings.say(findings.codes.range, path, body);
                        }
                    }
                    // JSON has no such numbers: they come from YAML, or are larger than any.
                    None => {
                        let body = field::invalid(field::Value::Omitted, "must be a finite number");
                        findings.say(findings.codes.range, path, body);
                        findings.blocked = true;
                    }
                }
            }
            (Shape::IntegerOrText, Value::String(_)) | (Shape::Truth, Value::Bool(_)) => {}
            (Shape::IntegerOrText, value) if whole(value).is_some() => {}
            (shape, value) => {
                findings.wrong_type(path, shape.name(), value);
                return;
            }
        }
        if let Some(check) = self.beyond {
            check(node, path, findings);
        }
    }

    /// The rules, from the outside in.
    fn rules(&self, node: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
        if let Some(rule) = self.rule.filter(|rule| !(rule.holds)(node)) {
            let body = match node.as_str() {
                Some(text) => field::invalid(text, rule.message),
                None => field::invalid(field::Value::Omitted, rule.message),
            };
            findings.say_below(rule.code, path, rule.below, body);
        }
        match (&self.shape, &node.value) {
            (Shape::Object { fields, .. }, _) => {
                for (name, schema) in *fields {
                    if let Some(value) = written(node, name) {
                        schema.rules(value, &path.child(name), findings);
                    }
                }
            }
            (Shape::List { of, .. }, Value::List(items)) => {
                for (index, item) in items.iter().enumerate() {
                    of.rules(item, &path.index(index), findings);
                }
            }
            _ => {}
        }
    }
}

/// What a range says to a number outside of it.
fn outside<T: PartialOrd + std::fmt::Display>(number: &T, (min, max): (T, T)) -> Option<String> {
    if *number < min {
        return Some(format!("should be greater than or equal to {min}"));
    }
    (*number > max).then(|| format!("should be less than or equal to {max}"))
}

// === impl Format ===

impl Format {
    fn holds(self, text: &str) -> bool {
        match self {
            // The server reads them laxly.
            Format::Cidr => cidr::network(text).is_some(),
            Format::Address => text.parse::<std::net::IpAddr>().is_ok(),
        }
    }

    /// What the API server says, and behind it what it or a webhook has to add.
    fn refusal(self, text: &str, path: &Path<'_>) -> String {
        let (format, more) = match self {
            Format::Cidr => ("cidr", go_refusal(text)),
            Format::Address => ("ipv4", format!("\"{path}\" {ONE_OF} Found none valid")),
        };
        in_body(text, path, &format!("must be of type {format}: {}: {more}", field::quoted(text)))
    }
}

/// What Go says to a text that is no CIDR.
pub fn go_refusal(text: &str) -> String {
    format!("invalid CIDR address: {text}")
}

/// What Go takes for a CIDR: with any host bits, but without leading zeros in the address and without a zone.
pub fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Ok(address) = address.parse::<std::net::IpAddr>() else { return false };
    let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    digits && length.parse::<u8>().is_ok_and(|length| length <= if address.is_ipv4() { 32 } else { 128 })
}
