//! From a tree to the types as written, field by field, with everything that is wrong reported and nothing guessed.
//!
//! Each dialect states its types once with [`fields!`], in the API's own names. The macro writes the struct and its
//! [`Decode`]: absent and `null` are both `None`, as in the API server's pointer types; a field nobody knows, one
//! written twice and one of the wrong type are reported and remembered in `unreadable`, so that lowering can fail
//! closed instead of going on with half an object.
//!
//! Types carry no places. A place is looked up by path in the tree when there is something to say about it, which is
//! rare, and never while a correct object is read.

use smol_str::SmolStr;

use self::reader::Seen;
use crate::apimachinery::field::Path;
use crate::source::tree::{Entry, Node, Value};

pub use self::reader::Reader;

mod reader;

/// Reads itself from a tree.
pub trait Decode: Sized {
    /// `None` when it cannot be read; that has been reported then.
    fn decode(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<Self>;
}

/// A number or a string, as ports are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IntOrString {
    /// A number.
    Int(i64),
    /// A string.
    String(SmolStr),
}

/// A mapping of strings, in the order written.
pub type StringMap = Vec<(SmolStr, SmolStr)>;

/// The labels or annotations of an object. A value that is no text (`version: 1.0`) is reported and read as it is
/// written: which object is meant, and what it is called, is clear enough, and an object without its labels would be
/// missed by the policies that select it.
#[derive(Debug, Clone, Default)]
pub struct MetaMap(pub StringMap);

/// Notes that a key is there, and says whether it was before: its object cannot be read then. `at` is its place among the
/// known ones, `seen` has a bit for each. [`Reader::duplicates`] reports it.
pub(crate) fn twice(seen: &mut u64, at: usize, entry: &Entry<'_>, unreadable: &mut Option<String>) -> bool {
    let before = *seen & (1 << at) != 0;
    if before {
        unreadable.get_or_insert_with(|| format!("{} is written twice", entry.key));
    }
    *seen |= 1 << at;
    before
}

/// States the types of an API in its own names, and writes their decoding.
///
/// Every field is optional in the struct, because in the text it may be missing; whether that is right is validation's
/// business. Keys behind `skip` are part of the API and of no interest here.
macro_rules! fields {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[$field_meta:meta])* $key:literal => $field:ident: $type:ty, )*
            $( skip $($skip:literal)* )?
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Default)]
        pub struct $name {
            $( #[doc = concat!("`", $key, "`")] $(#[$field_meta])* pub $field: Option<$type>, )*
            /// What in it could not be read, if anything: lowering fails closed then.
            pub unreadable: Option<String>,
        }

        impl $crate::decode::Decode for $name {
            fn decode(
                node: &$crate::source::tree::Node<'_>,
                path: &$crate::apimachinery::field::Path<'_>,
                reader: &mut $crate::decode::Reader<'_>,
            ) -> Option<Self> {
                const KNOWN: &[&str] = &[$($key,)* $($($skip,)*)?];
                const { assert!(KNOWN.len() <= 64, "a bit for each") };
                let mut object = $name::default();
                let mut seen = 0;
                let here = reader.fields_at(path);
                for entry in reader.mapping(node, path)? {
                    let known = KNOWN.iter().position(|known| *known == entry.key).filter(|_| {
                        here.is_none_or(|fields| fields.iter().any(|(name, _)| *name == entry.key))
                    });
                    let Some(at) = known else {
                        reader.unknown(entry, path, KNOWN, here, &mut object.unreadable);
                        continue;
                    };
                    let twice = $crate::decode::twice(&mut seen, at, entry, &mut object.unreadable);
                    match &*entry.key {
                        // Which of the two counts nobody can say.
                        $( $key if twice => object.$field = None,
                           $key => reader.field(&mut object.$field, entry, path, &mut object.unreadable), )*
                        _ => {}
                    }
                }
                Some(object)
            }
        }
    )*};
}
pub(crate) use fields;

// === impl Decode ===

impl Decode for SmolStr {
    fn decode(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::String(text) => Some(SmolStr::new(text)),
            other => reader.wrong_type(path, "a string", other, node),
        }
    }
}

impl Decode for i64 {
    fn decode(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::Integer(number) => Some(*number),
            other => reader.wrong_type(path, "a whole number", other, node),
        }
    }
}

impl Decode for bool {
    fn decode(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::Bool(truth) => Some(*truth),
            other => reader.wrong_type(path, "true or false", other, node),
        }
    }
}

impl Decode for IntOrString {
    fn decode(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::Integer(number) => Some(IntOrString::Int(*number)),
            Value::String(text) => Some(IntOrString::String(SmolStr::new(text))),
            other => reader.wrong_type(path, "a number or a string", other, node),
        }
    }
}

impl<T: Decode> Decode for Vec<T> {
    /// All items that can be read; none if one of them cannot, because a shorter list may say something else.
    fn decode(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let items = reader.list(node, path)?;
        let decoded: Vec<Option<T>> = items
            .iter()
            .enumerate()
            .map(|(index, item)| T::decode(item, &path.index(index), reader))
            .collect();
        decoded.into_iter().collect()
    }
}

impl Decode for StringMap {
    fn decode(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let (map, whole) = string_map(node, path, reader)?;
        whole.then_some(map)
    }
}

impl Decode for MetaMap {
    fn decode(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        string_map(node, path, reader).map(|(map, _)| MetaMap(map))
    }
}

/// The entries that can be read, and whether those are all.
fn string_map(node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<(StringMap, bool)> {
    let entries = reader.mapping(node, path)?;
    let mut map: StringMap = Vec::with_capacity(entries.len());
    let mut whole = true;
    let mut seen = Seen::new(entries.len());
    for (index, entry) in entries.iter().enumerate() {
        let path = path.key(&entry.key);
        whole &= !seen.twice(entries, index);
        match &entry.value.value {
            // kubectl drops keys without a value from maps of strings no more than the server does: "" it is.
            Value::Null => map.push((SmolStr::new(&entry.key), SmolStr::default())),
            _ => {
                whole &= SmolStr::decode(&entry.value, &path, reader).is_some();
                let value = reader.scalar(&entry.value).map(SmolStr::new);
                map.extend(value.map(|value| (SmolStr::new(&entry.key), value)));
            }
        }
    }
    Some((map, whole))
}
