//! A custom resource definition as data, and the API server's checks of an object against it.
//!
//! The definitions themselves (`crd.rs` in each version's folder) are tables; this is everything a table can ask for, each
//! error in the API server's words. The order of errors is ours, the server has none. As there, rules across fields
//! (`x-kubernetes-validations`) are looked at only when nothing is missing, of the wrong type, unsupported, too long
//! or too many: they may count on all of that.
//!
//! Checks run on the tree, not on the types: what has the wrong type is still *written*, and must not be reported
//! as missing too. A null counts as not written, except in a list.

use std::collections::HashSet;

use palisade_model::diagnostic::Code;

use super::findings::{Findings, counted, in_body, join};
use super::typed::{self, whole};
use crate::apimachinery::cidr;
use crate::apimachinery::field::{self, Path, Segment};
use crate::source::tree::{Node, Value};

/// What a value may be.
#[derive(Clone, Copy)]
pub struct Schema {
    shape: Shape,
    rule: Option<Rule>,
    beyond: Option<Check>,
}

/// The fields of an object.
pub type Fields = &'static [(&'static str, &'static Schema)];

/// A check that the definition does not make and we do, on a value that has the right type.
pub type Check = fn(&Node<'_>, &Path<'_>, &mut Findings<'_, '_>);

/// A rule of the definition across fields, or one that a table cannot say.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Whether it holds.
    pub holds: fn(&Node<'_>) -> bool,
    /// What the definition says when it does not.
    pub message: &'static str,
    /// The code for it.
    pub code: &'static Code,
    /// What the finding is about: the value itself, or a field below it.
    pub below: &'static [&'static str],
}

/// A form of text, in words and as a function.
#[derive(Clone, Copy)]
pub struct Pattern {
    /// The regular expression of the definition, for the message.
    pub text: &'static str,
    /// Whether a text has the form.
    pub matches: fn(&str) -> bool,
}

#[derive(Clone, Copy)]
enum Shape {
    Object {
        fields: Fields,
        required: &'static [&'static str],
        properties: (usize, usize),
        alternatives: &'static [&'static str],
    },
    Labels,
    List {
        of: &'static Schema,
        items: (usize, usize),
        set: bool,
    },
    Text {
        length: usize,
        supported: &'static [&'static str],
        pattern: Option<Pattern>,
        format: Option<Format>,
    },
    Integer {
        range: (i64, i64),
        supported: &'static [i64],
    },
    Number {
        range: (f64, f64),
    },
    IntegerOrText,
    Truth,
}

/// A format of texts, as definitions name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// An address block.
    Cidr,
    /// An address of either family.
    Address,
}

/// An object with these fields; others are somebody else's business.
pub const fn object(fields: Fields) -> Schema {
    Schema::of(Shape::Object { fields, required: &[], properties: (0, usize::MAX), alternatives: &[] })
}

/// A map of labels.
pub const fn labels() -> Schema {
    Schema::of(Shape::Labels)
}

/// A list of so many items.
pub const fn list(of: &'static Schema, min: usize, max: usize) -> Schema {
    Schema::of(Shape::List { of, items: (min, max), set: false })
}

/// A list of so many texts, each at most once.
pub const fn set(of: &'static Schema, min: usize, max: usize) -> Schema {
    Schema::of(Shape::List { of, items: (min, max), set: true })
}

/// A text of at most so many characters.
pub const fn text(length: usize) -> Schema {
    Schema::of(Shape::Text { length, supported: &[], pattern: None, format: None })
}

/// One of these texts.
pub const fn one_of(supported: &'static [&'static str]) -> Schema {
    Schema::of(Shape::Text { length: usize::MAX, supported, pattern: None, format: None })
}

/// A text of this form.
pub const fn pattern(pattern: Pattern) -> Schema {
    Schema::of(Shape::Text { length: usize::MAX, supported: &[], pattern: Some(pattern), format: None })
}

/// A text of this format.
pub const fn format(format: Format) -> Schema {
    Schema::of(Shape::Text { length: usize::MAX, supported: &[], pattern: None, format: Some(format) })
}

/// A whole number, both ends included.
pub const fn integer(min: i64, max: i64) -> Schema {
    Schema::of(Shape::Integer { range: (min, max), supported: &[] })
}

/// One of these whole numbers.
pub const fn one_number_of(supported: &'static [i64]) -> Schema {
    Schema::of(Shape::Integer { range: (i64::MIN, i64::MAX), supported })
}

/// A number, both ends included.
pub const fn number(min: f64, max: f64) -> Schema {
    Schema::of(Shape::Number { range: (min, max) })
}

/// A whole number or a text.
pub const fn integer_or_text() -> Schema {
    Schema::of(Shape::IntegerOrText)
}

/// A truth value.
pub const fn truth() -> Schema {
    Schema::of(Shape::Truth)
}

/// A text of any length.
pub static TEXT: Schema = text(usize::MAX);

/// Any number of texts.
pub static TEXTS: Schema = list(&TEXT, 0, usize::MAX);

/// What the API server says about `oneOf`.
const ONE_OF: &str = "must validate one and only one schema (oneOf).";

/// A field that is written, which a null is not.
pub fn written<'n, 's>(node: &'n Node<'s>, key: &str) -> Option<&'n Node<'s>> {
    node.get(key).filter(|value| !value.is_null())
}

/// The items of a list that is written; none where there is no list.
pub fn items<'n, 's>(node: &'n Node<'s>, key: &str) -> &'n [Node<'s>] {
    match written(node, key).map(|value| &value.value) {
        Some(Value::List(items)) => items,
        _ => &[],
    }
}

// === impl Schema ===

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Schema({})", self.shape.name())
    }
}

impl Schema {
    const fn of(shape: Shape) -> Schema {
        Schema { shape, rule: None, beyond: None }
    }

    /// The same with fields that must be there.
    pub const fn required(mut self, names: &'static [&'static str]) -> Schema {
        if let Shape::Object { required, .. } = &mut self.shape {
            *required = names;
        }
        self
    }

    /// The same with at least and at most so many fields.
    pub const fn properties(mut self, min: usize, max: usize) -> Schema {
        if let Shape::Object { properties, .. } = &mut self.shape {
            *properties = (min, max);
        }
        self
    }

    /// The same with exactly one of these fields, in the way of `oneOf` with `required`.
    pub const fn alternatives(mut self, names: &'static [&'static str]) -> Schema {
        if let Shape::Object { alternatives, .. } = &mut self.shape {
            *alternatives = names;
        }
        self
    }

    /// The fields of the object that it describes, if it describes one.
    pub fn fields(&self) -> Option<Fields> {
        match self.shape {
            Shape::Object { fields, .. } => Some(fields),
            _ => None,
        }
    }

    /// What it says about a field, or about the items of a list.
    pub fn below(&self, step: Segment<'_>) -> Option<&'static Schema> {
        match (&self.shape, step) {
            (Shape::Object { fields, .. }, Segment::Field(key) | Segment::Key(key)) => {
                fields.iter().find(|(name, _)| *name == key).map(|(_, schema)| *schema)
            }
            (Shape::List { of, .. }, Segment::Index(_)) => Some(of),
            _ => None,
        }
    }

    /// The same with a rule.
    pub const fn rule(mut self, rule: Rule) -> Schema {
        self.rule = Some(rule);
        self
    }

    /// The same with a check of our own.
    pub const fn beyond(mut self, check: Check) -> Schema {
        self.beyond = Some(check);
        self
    }

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

// === impl Shape ===

impl Shape {
    fn name(&self) -> &'static str {
        match self {
            Shape::Object { .. } | Shape::Labels => "object",
            Shape::List { .. } => "array",
            Shape::Text { .. } => "string",
            Shape::Integer { .. } => "integer",
            Shape::Number { .. } => "number",
            Shape::IntegerOrText => "integer,string",
            Shape::Truth => "boolean",
        }
    }
}
