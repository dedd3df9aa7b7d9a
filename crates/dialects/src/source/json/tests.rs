//! What the JSON reader promises, and that the YAML reader agrees.

use proptest::prelude::*;

use super::*;
use crate::source::syntax::SyntaxErrorKind;
use crate::source::testing::{at, plain, same};
use crate::source::yaml;

fn read(text: &str) -> Vec<Result<String, (SyntaxErrorKind, u32, u32)>> {
    let source = Source::new("f.json", text);
    documents(&source, &Limits::default())
        .map(|result| {
            result.map(|node| plain(&node)).map_err(|error| {
                assert!(error.span.end as usize <= text.len(), "{error:?}");
                let location = source.location(error.span);
                (error.kind, location.line, location.column)
            })
        })
        .collect()
}

macro_rules! reads {
    ($($name:ident: $text:expr => $($tree:literal),* $(! $error:ident $line:literal:$column:literal)?;)+) => {$(
        #[test]
        fn $name() {
            let expected: Vec<Result<String, (SyntaxErrorKind, u32, u32)>> = vec![
                $(Ok($tree.to_owned()),)* $(Err((SyntaxErrorKind::$error, $line, $column)))?
            ];
            assert_eq!(read($text), expected);
        }
    )+};
}

reads! {
    nested: r#"{"a": [1, {"b": null}], "c": {}, "d": []}"# => "{a: [1, {b: null}], c: {}, d: []}";
    twice: r#"{"a": 1, "a": 2}"# => "{a: 1, a: 2}";
    integers: "[0, -0, 12, -7, 9223372036854775807, -9223372036854775808]"
        => "[0, 0, 12, -7, 9223372036854775807, -9223372036854775808]";
    floats: "[1.5, 1e3, -2E-2, 9223372036854775808, 0.0]" => "[1.5, 1000.0, -0.02, 9.223372036854776e18, 0.0]";
    escapes: r#""\"\\\/\b\f\n\r\t\u00e4x""# => "'\"\\/\u{8}\u{c}\n\r\täx'";
    pair: r#""a\ud83d\ude00b""# => "'a😀b'";
    lone_surrogates: r#"["\ud83d", "\ude00x", "\ud83d\u0041", "\ud83d\ud83d\ude00"]"#
        => "['\u{fffd}', '\u{fffd}x', '\u{fffd}A', '\u{fffd}😀']";
    concatenated: "{}[]\n1 2\n\"a\"\"b\"\r\n" => "{}", "[]", "1", "2", "'a'", "'b'";
    mark: "\u{feff}[1]" => "[1]";
    nothing: "" => ;
    blank: " \r\n\t" => ;
    leading_zero: "[01]" =>  ! Syntax 1:2;
    leading_zero_alone: "-01" =>  ! Syntax 1:1;
    no_digits: "[1.]" =>  ! Syntax 1:4;
    no_exponent: "1e" =>  ! Syntax 1:3;
    plus: "+1" =>  ! Syntax 1:1;
    huge: "1e999" =>  ! Syntax 1:1;
    glued: "[]\nnullnull" => "[]" ! Syntax 2:5;
    word: "nul" =>  ! Syntax 1:1;
    trailing_comma: "[1,]" =>  ! Syntax 1:4;
    trailing_comma_in_map: "{\"a\":1,}" =>  ! Syntax 1:8;
    bare_key: "{a: 1}" =>  ! Syntax 1:2;
    missing_colon: "{\"a\" 1}" =>  ! Syntax 1:6;
    comment: "[1] // c" => "[1]" ! Syntax 1:5;
    garbage: "{\"a\": 1}\n  ?\n" => "{a: 1}" ! Syntax 2:3;
    open_string: "[\"a" =>  ! Syntax 1:2;
    open_list: "[1\n\n" =>  ! Syntax 1:3;
    open_map: "{\n\"ä\":\n" =>  ! Syntax 2:5;
    line_in_string: "\"a\nb\"" =>  ! Syntax 1:3;
    nul_in_string: "\"a\0\"" =>  ! Syntax 1:3;
    nul: "\0" =>  ! Syntax 1:1;
    bad_escape: "\"\\x\"" =>  ! Syntax 1:3;
    bad_hex: "\"\\u12g4\"" =>  ! Syntax 1:6;
    wide_garbage: "[ü]" =>  ! Syntax 1:2;
}

#[test]
fn places() {
    let source = Source::new("f.json", "{\n  \"ä\": [ 12, \"b\" ],\r\n  \"c\": {} }\n");
    let mut found = Vec::new();
    at(&documents(&source, &Limits::default()).next().unwrap().unwrap(), &source, &mut found);
    let expected = [
        (1, 1, source.text().trim_end()),
        (2, 3, "\"ä\""),
        (2, 8, "[ 12, \"b\" ]"),
        (2, 10, "12"),
        (2, 14, "\"b\""),
        (3, 3, "\"c\""),
        (3, 8, "{}"),
    ];
    assert_eq!(found, expected.map(|(line, column, text)| (line, column, text.to_owned())));
}

#[test]
fn limits_hold() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(read(&nested(128))[0].is_ok());
    assert_eq!(read(&nested(129)), [Err((SyntaxErrorKind::Limit, 1, 129))]);
    assert_eq!(read(&"[".repeat(100_000)), [Err((SyntaxErrorKind::Limit, 1, 129))]);
    assert_eq!(read(&"{\"\":".repeat(100_000)), [Err((SyntaxErrorKind::Limit, 1, 513))]);
    let limits = Limits { nodes: 3, documents: 2, ..Limits::default() };
    let kinds = |text: &str| {
        let source = Source::new("f.json", text);
        let kind = |error: SyntaxError| error.kind;
        documents(&source, &limits).map(|result| result.map(drop).map_err(kind)).collect::<Vec<_>>()
    };
    assert_eq!(kinds("[1,2] [3]"), [Ok(()), Ok(())]);
    assert_eq!(kinds("[1,2,3] [3]"), [Err(SyntaxErrorKind::Limit)]);
    assert_eq!(kinds("1 2 3 4"), [Ok(()), Ok(()), Err(SyntaxErrorKind::Limit)]);
    assert_eq!(read(&"{}\n".repeat(100_000)).len(), 100_000);
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value as Json;
    // `\PC` leaves out control characters, which JSON escapes in ways that YAML reads too, and a byte order mark
    // inside a text, which the YAML parser refuses.
    let text = || {
        "\\PC{0,12}|[a-z\"\\\\ \n\t:#,\\[\\]{}'&*!-]{0,9}"
            .prop_filter("mark", |text| !text.contains('\u{feff}'))
    };
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        (-1e9..1e9).prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        text().prop_map(Json::String),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::Array),
            prop::collection::btree_map(text(), inner, 0..6)
                .prop_map(|map| Json::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_serde_writes_both_readers_read(value in any_json()) {
        for text in [value.to_string(), format!("{value:#}")] {
            let source = Source::new("f", text);
            let limits = Limits::default();
            let ours: Vec<_> = documents(&source, &limits).collect();
            prop_assert!(matches!(&ours[..], [Ok(node)] if same(node, &value)), "JSON: {ours:?}");
            let ours: Vec<_> = yaml::documents(&source, &limits).collect();
            prop_assert!(matches!(&ours[..], [Ok(node)] if same(node, &value)), "YAML: {ours:?}");
        }
    }

    #[test]
    fn no_text_is_too_strange(text in "[\\[\\]{}:,\"\\\\a0.\n -]{0,40}|\\PC{0,40}|[ua&*!|>%#?'\"\n\r\t:\\[\\]{}, \0\u{feff}ä-]{0,40}") {
        let source = Source::new("f", text);
        let limits = Limits::default();
        for result in documents(&source, &limits).chain(yaml::documents(&source, &limits)) {
            let span = match result { Ok(node) => node.span, Err(error) => error.span };
            prop_assert!(span.start <= span.end && span.end as usize <= source.text().len());
        }
    }
}
