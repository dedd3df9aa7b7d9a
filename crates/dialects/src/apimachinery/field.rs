//! Where a field is, and what the API server says about it: paths, and the bodies of field errors.
//!
//! A body is the text after the path in `spec.ports[0].port: Invalid value: 0: must be …`. [`Path`] is a linked list
//! of borrowed segments on the stack of whoever walks the object, so that extending it costs nothing and it becomes a
//! text only when there is something to report.

use std::fmt;

/// The path of a field in an object, as the API writes it: `spec.ingress[0].from[1]`.
#[derive(Debug, Clone, Copy)]
pub struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    segment: Segment<'p>,
}

/// One step of a path.
#[derive(Debug, Clone, Copy)]
pub enum Segment<'p> {
    /// The object itself.
    Root,
    /// A field of an object.
    Field(&'p str),
    /// An element of a list, from 0.
    Index(usize),
    /// An entry of a map.
    Key(&'p str),
}

/// Who takes what a check finds: the field and the body of the error.
pub type Sink<'s> = dyn FnMut(&Path<'_>, String) + 's;

/// The value a field error shows. How it is written depends on its type in the API server, not only on its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'v> {
    /// A plain string, quoted as Go quotes it.
    Text(&'v str),
    /// A string of a type of its own (a protocol, an operator, a policy type), quoted as in JSON.
    Named(&'v str),
    /// A list of such strings, as a JSON array.
    Names(&'v [&'v str]),
    /// A number.
    Number(i64),
    /// A truth value.
    Bool(bool),
    /// Any other value, already written as compact JSON.
    Json(&'v str),
    /// Not shown.
    Omitted,
}

/// `Required value`, with the detail if there is one.
pub fn required(detail: &str) -> String {
    body("Required value", Value::Omitted, detail)
}

/// `Invalid value: "x": detail`.
pub fn invalid<'v>(value: impl Into<Value<'v>>, detail: &str) -> String {
    body("Invalid value", value.into(), detail)
}

/// A value of the wrong type; reads like [`invalid`].
pub fn type_invalid<'v>(value: impl Into<Value<'v>>, detail: &str) -> String {
    invalid(value, detail)
}

/// `Unsupported value: "x": supported values: "A", "B"`, in the order given: the API server does not sort them.
pub fn not_supported<'v>(value: impl Into<Value<'v>>, supported: &[&str]) -> String {
    let mut detail = String::new();
    for (i, one) in supported.iter().enumerate() {
        detail.push_str(if i == 0 { "supported values: " } else { ", " });
        detail.push_str(&quoted(one));
    }
    body("Unsupported value", value.into(), &detail)
}

/// `Forbidden: detail`.
pub fn forbidden(detail: &str) -> String {
    body("Forbidden", Value::Omitted, detail)
}

/// `Duplicate value: "x"`.
pub fn duplicate<'v>(value: impl Into<Value<'v>>) -> String {
    body("Duplicate value", value.into(), "")
}

/// `Too long: may not be more than 253 bytes`. CRDs count characters for `maxLength`, and still say bytes.
pub fn too_long(max: usize) -> String {
    let unit = if max == 1 { "byte" } else { "bytes" };
    body("Too long", Value::Omitted, &format!("may not be more than {max} {unit}"))
}

/// `Too many: 3: must have at most 2 items`.
pub fn too_many(actual: usize, max: usize) -> String {
    let unit = if max == 1 { "item" } else { "items" };
    format!("Too many: {actual}: must have at most {max} {unit}")
}

fn body(what: &str, value: Value<'_>, detail: &str) -> String {
    let mut out = String::from(what);
    if value != Value::Omitted {
        out.push_str(": ");
        out.push_str(&value.to_string());
    }
    if !detail.is_empty() {
        out.push_str(": ");
        out.push_str(detail);
    }
    out
}

/// A text in quotes, as Go's `%q` writes it.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0b' => out.push_str("\\v"),
            '\x0c' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            '\0'..='\x7f' => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            _ if printable(c) => out.push(c),
            '\u{80}'..='\u{ffff}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => out.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    out.push('"');
    out
}

/// Whether Go would print a character as it is. `escape_debug` has the same notion of it, except that it escapes
/// combining marks at the start of a text: hence the letter in front.
fn printable(c: char) -> bool {
    let text: String = ['a', c].into_iter().collect();
    text.escape_debug().nth(1) == Some(c)
}

/// A text in quotes, as Go writes it in JSON: with `<`, `>` and `&` escaped.
pub fn json_quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\0'..='\x1f' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

// === impl Path ===

impl<'p> Path<'p> {
    /// A path of one field.
    pub fn new(field: &'p str) -> Self {
        Path { parent: None, segment: Segment::Field(field) }
    }

    /// The object itself: a path that writes nothing, to start from.
    pub fn root() -> Path<'static> {
        Path { parent: None, segment: Segment::Root }
    }

    /// Follows the path from the object down to the field, step by step.
    pub fn follow<T>(&self, start: T, step: &mut dyn FnMut(T, Segment<'p>) -> T) -> T {
        let above = match self.parent {
            Some(parent) => parent.follow(start, step),
            None => start,
        };
        step(above, self.segment)
    }

    /// The field below: `spec.ingress`.
    pub fn child<'c>(&'c self, field: &'c str) -> Path<'c> {
        Path { parent: Some(self), segment: Segment::Field(field) }
    }

    /// The element of a list, from 0: `ingress[0]`.
    pub fn index(&self, index: usize) -> Path<'_> {
        Path { parent: Some(self), segment: Segment::Index(index) }
    }

    /// The entry of a map: `annotations[example.com/a]`.
    pub fn key<'c>(&'c self, key: &'c str) -> Path<'c> {
        Path { parent: Some(self), segment: Segment::Key(key) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.segment {
            Segment::Root => Ok(()),
            Segment::Field(field) => match self.parent {
                None | Some(Path { segment: Segment::Root, .. }) => f.write_str(field),
                Some(_) => write!(f, ".{field}"),
            },
            Segment::Index(index) => write!(f, "[{index}]"),
            Segment::Key(key) => write!(f, "[{key}]"),
        }
    }
}

// === impl Value ===

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Value::Text(text) => f.write_str(&quoted(text)),
            Value::Named(text) => f.write_str(&json_quoted(text)),
            Value::Names(names) => {
                f.write_str("[")?;
                for (i, name) in names.iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    write!(f, "{comma}{}", json_quoted(name))?;
                }
                f.write_str("]")
            }
            Value::Number(number) => write!(f, "{number}"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Json(json) => f.write_str(json),
            Value::Omitted => Ok(()),
        }
    }
}

impl<'v> From<&'v str> for Value<'v> {
    fn from(text: &'v str) -> Self {
        Value::Text(text)
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Value::Number(number)
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! bodies {
        ($($name:ident: $got:expr => $want:expr;)*) => {
            $(#[test] fn $name() { assert_eq!($got, $want); })*
        };
    }

    bodies! {
        required_alone: required("") => "Required value";
        required_with_detail: required("must specify a peer") => "Required value: must specify a peer";
        invalid_text: invalid("x", "must be a strict subset of `cidr`")
            => r#"Invalid value: "x": must be a strict subset of `cidr`"#;
        invalid_empty: invalid("", "no") => r#"Invalid value: "": no"#;
        invalid_number: invalid(-1, "no") => "Invalid value: -1: no";
        invalid_bool: invalid(true, "no") => "Invalid value: true: no";
        invalid_without_detail: invalid("x", "") => r#"Invalid value: "x""#;
        invalid_object: invalid(Value::Json(r#"{"a":1}"#), "no") => r#"Invalid value: {"a":1}: no"#;
        invalid_omitted: invalid(Value::Omitted, "no") => "Invalid value: no";
        invalid_names: invalid(Value::Names(&["foo", "bar", "baz"]), "may not specify more than two policyTypes")
            => r#"Invalid value: ["foo","bar","baz"]: may not specify more than two policyTypes"#;
        type_invalid_text: type_invalid("x", "must be of type integer: \"string\"")
            => r#"Invalid value: "x": must be of type integer: "string""#;
        not_supported_keeps_order: not_supported(Value::Named("ICMP"), &["TCP", "UDP", "SCTP"])
            => r#"Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP""#;
        not_supported_without_list: not_supported("x", &[]) => r#"Unsupported value: "x""#;
        forbidden_peer: forbidden("may not specify both ipBlock and another peer")
            => "Forbidden: may not specify both ipBlock and another peer";
        duplicate_text: duplicate("x") => r#"Duplicate value: "x""#;
        too_long_bytes: too_long(262_144) => "Too long: may not be more than 262144 bytes";
        too_long_byte: too_long(1) => "Too long: may not be more than 1 byte";
        too_many_items: too_many(3, 2) => "Too many: 3: must have at most 2 items";
        too_many_item: too_many(2, 1) => "Too many: 2: must have at most 1 item";
        endport_below_port: invalid(80, "must be greater than or equal to `port`")
            => "Invalid value: 80: must be greater than or equal to `port`";
        endport_on_a_name: invalid(80, "may not be specified when `port` is non-numeric")
            => "Invalid value: 80: may not be specified when `port` is non-numeric";
        endport_alone: invalid(80, "may not be specified when `port` is not specified")
            => "Invalid value: 80: may not be specified when `port` is not specified";
        quoted_controls: quoted("\u{0}\u{7}\u{8}\t\n\u{b}\u{c}\r\u{1b}\u{7f}") => r#""\x00\a\b\t\n\v\f\r\x1b\x7f""#;
        quoted_marks: quoted(r#"a"b\c'd<e>"#) => r#""a\"b\\c'd<e>""#;
        quoted_unicode: quoted("é\u{301}日\u{a0}\u{ad}\u{85}\u{200b}\u{2028}\u{e000}\u{10ffff}😀")
            => "\"é\u{301}日\\u00a0\\u00ad\\u0085\\u200b\\u2028\\ue000\\U0010ffff😀\"";
        named_is_json: Value::Named("<a>&\"\u{7}\u{7f}\u{2028}é").to_string()
            => "\"\\u003ca\\u003e\\u0026\\\"\\u0007\u{7f}\\u2028é\"";
        path_of_a_peer: Path::new("spec").child("ingress").index(0).child("from").index(1).to_string()
            => "spec.ingress[0].from[1]";
        path_of_an_annotation: Path::new("metadata").child("annotations").key("example.com/a").to_string()
            => "metadata.annotations[example.com/a]";
    }

    #[test]
    fn a_path_is_extended_while_walking() {
        let spec = Path::new("spec");
        let rules = spec.child("ingress");
        let all: Vec<String> = (0..2).map(|i| rules.index(i).child("from").to_string()).collect();
        assert_eq!(all, ["spec.ingress[0].from", "spec.ingress[1].from"]);
    }
}
