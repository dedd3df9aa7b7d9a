//! The types that the CRDs are made of, read so that nothing that was written gets lost.
//!
//! They differ from the plain ones in [`crate::decode`] in two ways. They say nothing about a wrong type, because
//! [`super::schema`] says it in the API server's words. And a wrong thing in the place of an object leaves a broken
//! object behind instead of none: a list of rules stays as long as it was written, so that a rule that denies does not
//! vanish and leave open what it closed.

use std::ops::Deref;

use smol_str::SmolStr;

use crate::apimachinery::field::Path;
use crate::decode::{Decode, Reader, StringMap};
use crate::source::tree::{Node, Value};

/// A text.
#[derive(Debug, Clone)]
pub struct Text(pub SmolStr);

/// Texts.
#[derive(Debug, Clone)]
pub struct Texts(pub Vec<SmolStr>);

/// A whole number. `10.0` is one: JSON has only one kind of number.
#[derive(Debug, Clone, Copy)]
pub struct Whole(pub i64);

/// A number.
#[derive(Debug, Clone, Copy)]
pub struct Number(pub f64);

/// A whole number or a text, as ports are.
#[derive(Debug, Clone)]
pub enum NumberOrText {
    /// A number.
    Number(i64),
    /// A text.
    Text(SmolStr),
}

/// A truth value.
#[derive(Debug, Clone, Copy)]
pub struct Truth(pub bool);

/// Labels to match. One that is null is none: the API server drops it before anybody sees it.
#[derive(Debug, Clone)]
pub struct LabelMap(pub StringMap);

/// An object, or what is left of it.
#[derive(Debug, Clone)]
pub struct Object<T>(T);

/// A list of objects. What should be a list and is not holds one broken object.
#[derive(Debug, Clone)]
pub struct List<T>(Vec<Object<T>>);

/// Can be left behind where something else was written.
pub trait Broken: Decode {
    /// Itself without content, with the words for what is wrong.
    fn broken(why: String) -> Self;
}

/// Makes types of [`crate::decode::fields!`] ones that can be broken.
macro_rules! broken {
    ($($name:ident)*) => {$(
        impl $crate::definition::typed::Broken for $name {
            fn broken(why: String) -> Self {
                $name { unreadable: Some(why), ..$name::default() }
            }
        }
    )*};
}
pub(crate) use broken;

/// The whole number that a value is, if it is one.
pub fn whole(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Integer(number) => Some(*number),
        // Numbers too large for a whole number are out of every range, and stay so at the end of this one.
        Value::Float(number) if number.fract() == 0.0 => Some(*number as i64),
        _ => None,
    }
}

/// The number that a value is, if it is one. Neither infinity nor what is no number at all is.
pub fn number(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Float(number) if number.is_finite() => Some(*number),
        _ => None,
    }
}

// === impl Decode ===

impl Decode for Text {
    fn decode(node: &Node<'_>, _: &Path<'_>, _: &mut Reader<'_>) -> Option<Self> {
        node.as_str().map(|text| Text(text.into()))
    }
}

impl Decode for Texts {
    fn decode(node: &Node<'_>, _: &Path<'_>, _: &mut Reader<'_>) -> Option<Self> {
        let Value::List(items) = &node.value else { return None };
        items.iter().map(|item| item.as_str().map(SmolStr::new)).collect::<Option<_>>().map(Texts)
    }
}

impl Decode for Whole {
    fn decode(node: &Node<'_>, _: &Path<'_>, _: &mut Reader<'_>) -> Option<Self> {
        whole(&node.value).map(Whole)
    }
}

impl Decode for Number {
    fn decode(node: &Node<'_>, _: &Path<'_>, _: &mut Reader<'_>) -> Option<Self> {
        number(&node.value).map(Number)
    }
}

impl Decode for NumberOrText {
    fn decode(node: &Node<'_>, _: &Path<'_>, _: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::String(text) => Some(NumberOrText::Text(text.as_ref().into())),
            value => whole(value).map(NumberOrText::Number),
        }
    }
}

impl Decode for Truth {
    fn decode(node: &Node<'_>, _: &Path<'_>, _: &mut Reader<'_>) -> Option<Self> {
        match node.value {
            Value::Bool(truth) => Some(Truth(truth)),
            _ => None,
        }
    }
}

impl Decode for LabelMap {
    fn decode(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let Value::Map(entries) = &node.value else { return None };
        if !entries.iter().all(|entry| matches!(entry.value.value, Value::String(_) | Value::Null)) {
            return None;
        }
        // One for each entry, and none at all if a key is there twice.
        let labels = StringMap::decode(node, path, reader)?;
        let written = labels.into_iter().zip(entries).filter(|(_, entry)| !entry.value.is_null());
        Some(LabelMap(written.map(|(label, _)| label).collect()))
    }
}

impl<T: Broken> Decode for Object<T> {
    fn decode(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::Map(_) => T::decode(node, path, reader).map(Object),
            other => Some(Object(T::broken(format!("{} in the place of an object", other.kind())))),
        }
    }
}

impl<T: Broken> Decode for List<T> {
    fn decode(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let Value::List(items) = &node.value else {
            let why = format!("{} in the place of a list", node.value.kind());
            return Some(List(vec![Object(T::broken(why))]));
        };
        let decode = |(index, item)| Object::decode(item, &path.index(index), reader);
        items.iter().enumerate().map(decode).collect::<Option<_>>().map(List)
    }
}

// === impl Deref ===

impl Deref for Text {
    type Target = SmolStr;

    fn deref(&self) -> &SmolStr {
        &self.0
    }
}

impl<T> Deref for Object<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Deref for List<T> {
    type Target = [Object<T>];

    fn deref(&self) -> &[Object<T>] {
        &self.0
    }
}
