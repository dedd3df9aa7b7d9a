//! What is wrong with a custom resource, in the API server's words with help of ours.

use palisade_model::diagnostic::{Code, Diagnostic};
use palisade_model::nearest::nearest;

use crate::apimachinery::field::{self, Path};
use crate::codes;
use crate::decode::Reader;
use crate::source::tree::Value;

/// The codes of a dialect for what every definition can ask for.
#[derive(Debug)]
pub struct Codes {
    /// A field that must be there is not.
    pub required: &'static Code,
    /// A number out of range.
    pub range: &'static Code,
    /// A value that is none of those supported.
    pub supported: &'static Code,
    /// Too many or too few items, the same one twice, or a text that is too long.
    pub items: &'static Code,
    /// Not exactly one of the alternatives.
    pub one_of: &'static Code,
    /// A text of the wrong form.
    pub form: &'static Code,
    /// A label that is null.
    pub null_label: &'static Code,
    /// A selector that selects nothing that could be.
    pub selector: &'static Code,
    /// Metadata that the API server refuses.
    pub metadata: &'static Code,
}

/// What is wrong with an object, collected before it is reported: an update is judged by the difference.
pub struct Findings<'r, 'a> {
    reader: &'r Reader<'a>,
    /// The dialect's codes.
    pub codes: &'static Codes,
    /// All of it.
    pub found: Vec<Diagnostic>,
    /// Whether there is something among them that keeps the API server from looking at rules across fields.
    pub blocked: bool,
}

// === impl Findings ===

impl<'r, 'a> Findings<'r, 'a> {
    /// Nothing yet.
    pub fn new(reader: &'r Reader<'a>, codes: &'static Codes) -> Self {
        Findings { reader, codes, found: Vec::new(), blocked: false }
    }

    /// One more.
    pub fn say(
        &mut self,
        code: &'static Code,
        path: &Path<'_>,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        let at = self.reader.locate(path);
        self.found.push(Diagnostic::new(code, message).field(path.to_string()).at(Some(at)));
        let last = self.found.len() - 1;
        &mut self.found[last]
    }

    /// Who takes what a check of apimachinery finds, under one code.
    pub fn sink(&mut self, code: &'static Code) -> impl FnMut(&Path<'_>, String) {
        move |path, body| {
            self.say(code, path, body);
        }
    }

    /// One more about something further down.
    pub fn say_below(&mut self, code: &'static Code, path: &Path<'_>, below: &[&str], message: String) {
        match below {
            [] => {
                self.say(code, path, message);
            }
            [next, rest @ ..] => self.say_below(code, &path.child(next), rest, message),
        }
    }

    /// A field that must be there is not.
    pub fn required(&mut self, path: &Path<'_>) {
        self.say(self.codes.required, path, field::required(""));
        self.blocked = true;
    }

    /// A text is none of those supported.
    pub fn unsupported(&mut self, path: &Path<'_>, text: &str, supported: &[&str]) {
        let help = meant(text, supported);
        self.say(self.codes.supported, path, field::not_supported(text, supported)).help = help;
    }

    /// A list has too few or too many items.
    pub fn count(&mut self, path: &Path<'_>, count: usize, (min, max): (usize, usize)) {
        if count < min {
            let body = in_body(counted(count), path, &format!("should have at least {min} items"));
            self.say(self.codes.items, path, body);
        }
        if count > max {
            self.say(self.codes.items, path, field::too_many(count, max));
            self.blocked = true;
        }
    }

    /// A value has the wrong type.
    pub fn wrong_type(&mut self, path: &Path<'_>, expected: &str, found: &Value<'_>) {
        let name = type_name(found);
        let detail = format!("must be of type {expected}: {}", field::quoted(name));
        let help = match (expected, found) {
            ("string", Value::Integer(number)) => Some(format!("write it in quotes, \"{number}\"")),
            ("string", Value::Float(_) | Value::Bool(_)) => {
                Some(format!("YAML reads this as {}: write it in quotes", found.kind()))
            }
            ("integer" | "number", Value::String(text)) if text.parse::<f64>().is_ok() => {
                Some(format!("write it without quotes, {text}"))
            }
            ("boolean", Value::String(_)) => Some("write true or false, without quotes".to_owned()),
            ("array", _) => Some("each item of a list begins with \"- \"".to_owned()),
            _ => None,
        };
        self.say(&codes::WRONG_TYPE, path, in_body(name, path, &detail)).help = help;
        self.blocked = true;
    }
}

/// `Invalid value: 0: spec.subject in body should …`.
pub fn in_body<'v>(value: impl Into<field::Value<'v>>, path: &Path<'_>, detail: &str) -> String {
    field::invalid(value, &format!("{path} in body {detail}"))
}

/// A count as a number that can be shown.
pub fn counted(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn type_name(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Integer(_) => "integer",
        Value::Float(_) => "number",
        Value::String(_) => "string",
        Value::List(_) => "array",
        Value::Map(_) => "object",
    }
}

/// What somebody may have meant who wrote something else.
fn meant(text: &str, supported: &[&str]) -> Option<String> {
    let other_case = supported.iter().find(|one| one.eq_ignore_ascii_case(text)).copied();
    let other_api = match text.to_ascii_lowercase().as_str() {
        "allow" | "accept" => supported.iter().find(|one| matches!(**one, "Allow" | "Accept")).copied(),
        "drop" | "reject" | "deny" => supported.iter().find(|one| matches!(**one, "Deny" | "Drop")).copied(),
        _ => None,
    };
    let near = || nearest(text, supported.iter().copied()).first().copied();
    if text.eq_ignore_ascii_case("icmp") && supported.contains(&"TCP") {
        return Some("ICMP has no ports: where the API has it, write protocols: [{icmp: {}}]".to_owned());
    }
    other_case.or(other_api).or_else(near).map(|word| format!("did you mean {word}?"))
}

/// `a, b or c`.
pub fn join<'n>(names: impl Iterator<Item = &'n str>, word: &str) -> String {
    let names: Vec<&str> = names.collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} {word} {last}", rest.join(", ")),
        _ => names.concat(),
    }
}
