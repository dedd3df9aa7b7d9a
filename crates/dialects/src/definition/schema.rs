//! A custom resource definition as data.
//!
//! The definitions themselves (`crd.rs` in each version's folder) are tables; this is everything a table can ask for.
//! [`Schema::check`] holds an object against one.

use palisade_model::diagnostic::Code;

use super::findings::Findings;
use crate::apimachinery::field::{Path, Segment};
use crate::source::tree::{Node, Value};

pub use self::conform::{go_refusal, is_cidr};

mod conform;

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
