//! What a plain scalar means, as kubectl reads it.
//!
//! `sigs.k8s.io/yaml` reads YAML with go-yaml v2, whose rules are neither quite YAML 1.1 nor 1.2: `yes` and `y` are
//! true, `010` is eight and `08` is the float eight, `1_000` is a thousand, a date is text. A policy must mean here
//! what it means to the cluster, so this follows that reader's order of attempts, not a specification.

use std::borrow::Cow;

use saphyr_parser::{ScalarStyle, Tag};

use super::super::tree::Value;

/// The value of a scalar.
pub(super) fn resolve<'s>(text: Cow<'s, str>, style: ScalarStyle, tag: Option<&Tag>) -> Value<'s> {
    let Some(tag) = tag else {
        return if style == ScalarStyle::Plain { plain(text) } else { Value::String(text) };
    };
    // `!<tag:yaml.org,2002:int>` comes with all of it in the suffix.
    let name = tag.suffix.strip_prefix("tag:yaml.org,2002:").unwrap_or(&tag.suffix);
    let core = tag.is_yaml_core_schema() || name.len() < tag.suffix.len();
    match name {
        "str" if core => Value::String(text),
        "float" if core => match plain(text) {
            #[expect(clippy::cast_precision_loss, reason = "as Go converts it")]
            Value::Integer(number) => Value::Float(number as f64),
            other => other,
        },
        "int" | "bool" | "null" if core => plain(text),
        _ if style == ScalarStyle::Plain => plain(text),
        _ => Value::String(text),
    }
}

/// The value of a scalar without quotes.
fn plain(text: Cow<'_, str>) -> Value<'_> {
    let Some(first) = text.bytes().next() else { return Value::Null };
    // The first byte rules out nearly every text.
    let value = match first {
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => word(&text),
        b'.' => dotted(&text),
        b'0'..=b'9' => number(&text),
        b'+' | b'-' => dotted(&text).or_else(|| number(&text)),
        _ => None,
    };
    value.unwrap_or(Value::String(text))
}

fn word(text: &str) -> Option<Value<'static>> {
    Some(match text {
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "y" | "Y" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "n" | "N" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        "null" | "Null" | "NULL" | "~" => Value::Null,
        _ => return None,
    })
}

fn dotted(text: &str) -> Option<Value<'static>> {
    match text {
        ".nan" | ".NaN" | ".NAN" => Some(Value::Float(f64::NAN)),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Some(Value::Float(f64::INFINITY)),
        "-.inf" | "-.Inf" | "-.INF" => Some(Value::Float(f64::NEG_INFINITY)),
        _ if text.starts_with('.') => {
            // Behind a leading point Go takes underscores only between digits; behind a digit, anywhere.
            let between =
                |parts: &[u8]| !matches!(parts, [b'_', other] | [other, b'_'] if !other.is_ascii_digit());
            let fair = !text.ends_with('_') && text.as_bytes().windows(2).all(between);
            if fair { float(&dense(text)) } else { None }
        }
        _ => None,
    }
}

fn number(text: &str) -> Option<Value<'static>> {
    let dense = dense(text);
    integer(&dense).or_else(|| float(&dense))
}

fn dense(text: &str) -> Cow<'_, str> {
    if text.contains('_') { Cow::Owned(text.replace('_', "")) } else { Cow::Borrowed(text) }
}

/// A whole number the way of Go's `ParseInt` with base 0; none if it does not fit 64 bits.
fn integer(text: &str) -> Option<Value<'static>> {
    let (negative, unsigned) = match text.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let (base, digits) = match unsigned {
        [b'0', b'x' | b'X', rest @ ..] => (16, rest),
        [b'0', b'o' | b'O', rest @ ..] => (8, rest),
        [b'0', b'b' | b'B', rest @ ..] => (2, rest),
        [b'0', rest @ ..] if !rest.is_empty() => (8, rest),
        rest => (10, rest),
    };
    if digits.is_empty() {
        return None;
    }
    let mut magnitude: u64 = 0;
    for byte in digits {
        let digit = char::from(*byte).to_digit(base)?;
        magnitude = magnitude.checked_mul(u64::from(base))?.checked_add(u64::from(digit))?;
    }
    let value = if negative { 0_i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() };
    match value {
        Some(value) => Some(Value::Integer(value)),
        // Go goes on to an unsigned number, which takes no sign.
        #[expect(clippy::cast_precision_loss, reason = "the tree has no unsigned number")]
        None if unsigned.len() == text.len() => Some(Value::Float(magnitude as f64)),
        None => None,
    }
}

/// A decimal number with or without a point and an exponent; none if it is too large.
fn float(text: &str) -> Option<Value<'static>> {
    // Keeps out the words that Rust takes for numbers, and ends soon on addresses.
    let allowed = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
    if !text.bytes().all(allowed) {
        return None;
    }
    text.parse().ok().filter(|number: &f64| number.is_finite()).map(Value::Float)
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! plain_scalars {
        ($($name:ident: $($text:literal)+ => $value:expr;)+) => {$(
            #[test]
            fn $name() {
                for text in [$($text),+] {
                    assert_eq!(plain(Cow::Borrowed(text)), $value, "{text}");
                }
            }
        )+};
    }

    plain_scalars! {
        nothing: "" "~" "null" "Null" "NULL" => Value::Null;
        yes: "true" "True" "TRUE" "yes" "Yes" "YES" "y" "Y" "on" "On" "ON" => Value::Bool(true);
        no: "false" "False" "FALSE" "no" "No" "NO" "n" "N" "off" "Off" "OFF" => Value::Bool(false);
        eight: "8" "+8" "010" "0o10" "0O10" "0x8" "0X8" "0b1000" "0B1000" "8_" => Value::Integer(8);
        minus_eight: "-8" "-010" "-0x8" "-0b1000" "-0o10" => Value::Integer(-8);
        zero: "0" "00" "-0" "+0" => Value::Integer(0);
        thousand: "1_000" "1000" "1__000" => Value::Integer(1000);
        largest: "9223372036854775807" "0x7fffffffffffffff" => Value::Integer(i64::MAX);
        smallest: "-9223372036854775808" => Value::Integer(i64::MIN);
        unsigned: "18446744073709551615" "0xFFFFFFFFFFFFFFFF" => Value::Float(18_446_744_073_709_551_615.0);
        beyond: "100000000000000000000" "1e20" "+1e20" => Value::Float(1e20);
        not_octal: "08" "8.0" "8." "8e0" "80e-1" "0.8e1" "+8." => Value::Float(8.0);
        half: ".5" ".5_0" "0.5" "0_.5" "5e-1" "+.5" "+0.5" => Value::Float(0.5);
        minus_half: "-.5" "-0.5" => Value::Float(-0.5);
        infinity: ".inf" ".Inf" ".INF" "+.inf" "+.Inf" "+.INF" => Value::Float(f64::INFINITY);
        minus_infinity: "-.inf" "-.Inf" "-.INF" => Value::Float(f64::NEG_INFINITY);
    }

    macro_rules! plain_texts {
        ($($name:ident: $($text:literal)+;)+) => {$(
            #[test]
            fn $name() {
                for text in [$($text),+] {
                    assert_eq!(plain(Cow::Borrowed(text)), Value::String(Cow::Borrowed(text)), "{text}");
                }
            }
        )+};
    }

    plain_texts! {
        almost_words: "yEs" "tRUE" "nULL" "oN" "truee" "nil" "none" "~~" "<<" "t" "f" "o";
        addresses: "10.0.0.0/8" "10.0.0.1" "::1" "fe80::1" "1.2.3.4" "1::" "0.0.0.0/0";
        dates: "2001-01-01" "2001-12-14t21:59:43Z" "12:30:45";
        almost_numbers: "._5" ".5_" ".5__0" "0x" "0b" "0o" "0b2" "0xg" "1e" "1e+" "." ".." "-" "+" "--1" "+-1" "1e999" "-1e999";
        rust_words: "inf" "+inf" "-inf" "nan" "NaN" "infinity" ".infinity" "-.infinity" "+.nan";
        large_with_prefix: "0x10000000000000000" "-0xFFFFFFFFFFFFFFFF";
        units: "_8" "80/TCP" "1Gi" "5s" "100m" "1.5.0" "v1";
    }

    #[test]
    fn not_a_number() {
        for text in [".nan", ".NaN", ".NAN"] {
            assert!(matches!(plain(Cow::Borrowed(text)), Value::Float(number) if number.is_nan()));
        }
    }
}
