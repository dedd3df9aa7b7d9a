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

use super::findings::{Findings, in_body, join, number};
use super::typed::whole;
use crate::apimachinery::field::{self, Path};
use crate::codes;
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
    Object { fields: Fields, required: &'static [&'static str], properties: (usize, usize) },
    Labels,
    List { of: &'static Schema, items: (usize, usize), set: bool },
    Text { length: usize, supported: &'static [&'static str], pattern: Option<Pattern> },
    Integer { range: (i64, i64) },
}

/// An object with these fields; others are somebody else's business.
pub const fn object(fields: Fields) -> Schema {
    Schema::of(Shape::Object { fields, required: &[], properties: (0, usize::MAX) })
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
    Schema::of(Shape::Text { length, supported: &[], pattern: None })
}

/// One of these texts.
pub const fn one_of(supported: &'static [&'static str]) -> Schema {
    Schema::of(Shape::Text { length: usize::MAX, supported, pattern: None })
}

/// A text of this form.
pub const fn pattern(pattern: Pattern) -> Schema {
    Schema::of(Shape::Text { length: usize::MAX, supported: &[], pattern: Some(pattern) })
}

/// A whole number, both ends included.
pub const fn integer(min: i64, max: i64) -> Schema {
    Schema::of(Shape::Integer { range: (min, max) })
}

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
            (Shape::Object { fields, required, properties: (min, max) }, Value::Map(_)) => {
                let count = fields.iter().filter(|(name, _)| written(node, name).is_some()).count();
                if count < *min {
                    let body =
                        in_body(number(count), path, &format!("should have at least {min} properties"));
                    findings.say(&codes::ADMIN_ONE_OF, path, body).help =
                        Some(format!("expected {}", join(fields.iter().map(|(name, _)| *name), "or")));
                }
                if count > *max {
                    let body = field::too_many(count, *max);
                    findings.say(&codes::ADMIN_ONE_OF, path, body).help =
                        Some("write each of them as an entry of its own".to_owned());
                    findings.blocked = true;
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
                            findings.say(&codes::ADMIN_NULL_LABEL, &path, message).help =
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
                        findings.say(&codes::ADMIN_ITEMS, &path, field::duplicate(text));
                    }
                }
            }
            (Shape::Text { length, supported, pattern }, Value::String(text)) => {
                if text.chars().count() > *length {
                    findings.say(&codes::ADMIN_ITEMS, path, field::too_long(*length));
                    findings.blocked = true;
                }
                if !supported.is_empty() && !supported.contains(&text.as_ref()) {
                    findings.unsupported(path, text, supported);
                    findings.blocked = true;
                }
                if let Some(pattern) = pattern.filter(|pattern| !(pattern.matches)(text)) {
                    let body = in_body(text.as_ref(), path, &format!("should match '{}'", pattern.text));
                    findings.say(&codes::ADMIN_NAME_FORM, path, body);
                }
            }
            (Shape::Integer { range: (min, max) }, value) if whole(value).is_some() => {
                let number = whole(value).unwrap_or_default();
                let wrong = match number {
                    number if number < *min => format!("should be greater than or equal to {min}"),
                    number if number > *max => format!("should be less than or equal to {max}"),
                    _ => String::new(),
                };
                if !wrong.is_empty() {
                    findings.say(&codes::ADMIN_RANGE, path, in_body(number, path, &wrong));
                }
            }
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

// === impl Shape ===

impl Shape {
    fn name(&self) -> &'static str {
        match self {
            Shape::Object { .. } | Shape::Labels => "object",
            Shape::List { .. } => "array",
            Shape::Text { .. } => "string",
            Shape::Integer { .. } => "integer",
        }
    }
}
