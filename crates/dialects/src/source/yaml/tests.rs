//! What the YAML reader promises.

use std::borrow::Cow;

use super::*;
use crate::source::syntax::SyntaxErrorKind;
use crate::source::testing::{at, plain};
use crate::source::tree::{Span, Value};

fn read_with(text: &str, limits: &Limits) -> Vec<Result<String, (SyntaxErrorKind, u32, u32)>> {
    let source = Source::new("f.yaml", text);
    documents(&source, limits)
        .map(|result| match result {
            Ok(node) => {
                check_spans(&node, text);
                Ok(plain(&node))
            }
            Err(error) => {
                assert!(
                    error.span.start <= error.span.end && error.span.end as usize <= text.len(),
                    "{error:?}"
                );
                let location = source.location(error.span);
                Err((error.kind, location.line, location.column))
            }
        })
        .collect()
}

fn read(text: &str) -> Vec<Result<String, (SyntaxErrorKind, u32, u32)>> {
    read_with(text, &Limits::default())
}

/// Whatever is read, every span is inside the text and between characters.
fn check_spans(node: &Node<'_>, text: &str) {
    let check = |span: Span| {
        assert!(text.get(span.start as usize..span.end as usize).is_some(), "{span:?}");
    };
    check(node.span);
    match &node.value {
        Value::List(items) => {
            assert!(node.span.end > node.span.start);
            items.iter().for_each(|item| check_spans(item, text));
        }
        Value::Map(entries) => {
            assert!(node.span.end > node.span.start);
            for entry in entries {
                check(entry.key_span);
                check_spans(&entry.value, text);
            }
        }
        _ => {}
    }
}

/// The places of everything in a text: line, column and the text itself, keys and values in order.
fn places(text: &str) -> Vec<(u32, u32, String)> {
    let source = Source::new("f.yaml", text);
    let limits = Limits::default();
    let mut found = Vec::new();
    for document in documents(&source, &limits) {
        at(&document.unwrap(), &source, &mut found);
    }
    found
}

fn place(line: u32, column: u32, text: &str) -> (u32, u32, String) {
    (line, column, text.to_owned())
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
    block: "a:\n  b: 1\n  c:\n  - x\n  - y: 2\n    z: 3\n" => "{a: {b: 1, c: ['x', {y: 2, z: 3}]}}";
    flow: "{a: [1, {b: c}], d: }" => "{a: [1, {b: 'c'}], d: null}";
    implicit_pair: "[a: 1, b]" => "[{a: 1}, 'b']";
    empty_collections: "a: {}\nb: []\n" => "{a: {}, b: []}";
    quotes: "a: \"1\"\nb: 'it''s'\nc: \"x\\ny\\u00e4\"\n" => "{a: '1', b: 'it's', c: 'x\nyä'}";
    blocks: "a: |\n  x\n  y\nb: >-\n  x\n  y\n" => "{a: 'x\ny\n', b: 'x y'}";
    several_lines: "a: x\n  y\nb: \"x\n  y\"\n" => "{a: 'x y', b: 'x y'}";
    keys_are_text: "y: 1\n80: 2\n\"no\": 3\n~: 4\n010: 5\n" => "{y: 1, 80: 2, no: 3, ~: 4, 010: 5}";
    twice: "a: 1\nb: 2\na: 3\n" => "{a: 1, b: 2, a: 3}";
    tag_string: "a: !!str 80\nb: !!str yes\nc: !!str\n" => "{a: '80', b: 'yes', c: ''}";
    tag_plain: "a: !!int \"80\"\nb: !!bool 'yes'\nc: !!float '8'\nd: !!null ''\n" => "{a: 80, b: true, c: 8.0, d: null}";
    tag_verbatim: "a: !<tag:yaml.org,2002:str> 80\nb: !<x> 80\n" => "{a: '80', b: 80}";
    tag_other: "a: !mine 80\nb: !mine \"80\"\nc: !!binary aGk=\nd: !mine [1]\n" => "{a: 80, b: '80', c: 'aGk=', d: [1]}";
    complex_key: "? [a]\n: b\n" =>  ! Syntax 1:3;
    explicit_scalar_key: "? a\n: b\n? c\n" => "{a: 'b', c: null}";
    anchors: "a: &x 1\nb: *x\nc: &y [*x, z]\nd: *y\n" => "{a: 1, b: 1, c: [1, 'z'], d: [1, 'z']}";
    anchor_again: "a: &x 1\nb: *x\nc: &x 2\nd: *x\n" => "{a: 1, b: 1, c: 2, d: 2}";
    anchored_key: "&k 80: a\nb: *k\n*k : c\n" => "{80: 'a', b: 80, 80: 'c'}";
    alias_inside_itself: "a: &x\n  b: *x\n" =>  ! Syntax 2:6;
    alias_of_nothing: "a: 1\nb: *x\n" =>  ! Syntax 2:4;
    alias_across_documents: "a: &x 1\n...\nb: *x\n" => "{a: 1}" ! Syntax 3:4;
    alias_across_markers: "a: &x 1\n---\nb: *x\n" => "{a: 1}" ! Syntax 3:4;
    merge_alias: "a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  b: 3\n" => "{a: {b: 1, c: 2}, d: {b: 3, c: 2}}";
    merge_list: "<<: [{a: 1, b: 1}, {b: 2, c: 2}]\nc: 3\n" => "{c: 3, a: 1, b: 1}";
    merge_quoted: "\"<<\": {a: 1}\n" => "{<<: {a: 1}}";
    merge_scalar: "a: 1\n<<: b\n" =>  ! Syntax 2:5;
    merge_list_of_scalars: "<<: [{a: 1}, 2]\n" =>  ! Syntax 1:14;
    documents_by_marker: "a\n---\nb\n--- c\n" => "'a'", "'b'", "'c'";
    documents_by_end: "a\n...\nb\n...\n" => "'a'", "'b'";
    empty_documents: "---\n---\n# c\n---\na\n---\n...\n---\n" => "'a'";
    null_document: "--- ~\n--- !!str\n" => "null", "''";
    nothing: "" => ;
    only_comments: "# a\n\n  # b\n" => ;
    only_mark: "\u{feff}" => ;
    only_directive: "%YAML 1.2\n---\n" => ;
    directives: "%YAML 1.1\n---\na\n...\n%TAG !e! tag:e,2000:\n---\n!e!x b\n" => "'a'", "'b'";
    byte_order_mark: "\u{feff}a: 1\n" => "{a: 1}";
    byte_order_marks: "\u{feff}---\na\n...\n\u{feff}---\nb\n" => "'a'", "'b'";
    windows: "a: 1\r\nb:\r\n- c\r\n---\r\nd\r\n" => "{a: 1, b: ['c']}", "'d'";
    old_mac: "a: 1\r---\rb\r" => "{a: 1}", "'b'";
    marker_in_block: "--- |\nx\n---\nz\n" => "'x\n'", "'z'";
    tabs: "a:\n\tb: 1\n" =>  ! Syntax 2:2;
    nul: "a: b\0c\n" =>  ! Syntax 1:5;
    nul_alone: "\0" =>  ! Syntax 1:1;
    stray_bracket: "a: ]\n" =>  ! Syntax 1:4;
    list_as_key_at_the_end: "?\n-" => ! Syntax 2:2;
    two_values: "a: b: c\n" =>  ! Syntax 1:5;
}

#[test]
fn errors_hide_no_other_document() {
    let found = read("a: 1\n---\nb: [\n---\nc: \"open\n---\n\td: : x\n---\ne: 5\n");
    let kinds: Vec<bool> = found.iter().map(Result::is_ok).collect();
    assert_eq!(kinds, [true, false, false, false, true], "{found:?}");
    assert_eq!(found[4], Ok("{e: 5}".to_owned()));
    // A marker is one even inside quotes.
    assert_eq!(read("a: \"x\n---\nb\n"), [Err((SyntaxErrorKind::Syntax, 1, 4)), Ok("'b'".to_owned())]);
}

#[test]
fn places_in_blocks() {
    assert_eq!(
        places("a: 1\nbc:\n  d: xyz # c\n  e:\n\nf: g\n"),
        [
            place(1, 1, "a: 1\nbc:\n  d: xyz # c\n  e:\n\nf: g"),
            place(1, 1, "a"),
            place(1, 4, "1"),
            place(2, 1, "bc"),
            place(3, 3, "d: xyz # c\n  e"),
            place(3, 3, "d"),
            place(3, 6, "xyz"),
            place(4, 3, "e"),
            place(4, 4, ""),
            place(6, 1, "f"),
            place(6, 4, "g"),
        ]
    );
}

#[test]
fn places_in_lists() {
    assert_eq!(
        places("a:\n- b\n-\n- - c\n  - d: e\n    f: g\n# c\nh:\n  - i\n"),
        [
            place(1, 1, "a:\n- b\n-\n- - c\n  - d: e\n    f: g\n# c\nh:\n  - i"),
            place(1, 1, "a"),
            place(2, 1, "- b\n-\n- - c\n  - d: e\n    f: g"),
            place(2, 3, "b"),
            place(3, 2, ""),
            place(4, 3, "- c\n  - d: e\n    f: g"),
            place(4, 5, "c"),
            place(5, 5, "d: e\n    f: g"),
            place(5, 5, "d"),
            place(5, 8, "e"),
            place(6, 5, "f"),
            place(6, 8, "g"),
            place(8, 1, "h"),
            place(9, 3, "- i"),
            place(9, 5, "i"),
        ]
    );
    // The first item begins like the list: only the line tells them apart.
    assert_eq!(places("a:\n- - b\n")[2..], [place(2, 1, "- - b"), place(2, 3, "- b"), place(2, 5, "b")]);
    assert_eq!(places("a:\n- [b]\n")[2..], [place(2, 1, "- [b]"), place(2, 3, "[b]"), place(2, 4, "b")]);
}

#[test]
fn places_in_flow() {
    assert_eq!(
        places("a: { b: [c , d], e,\n  f: } # }\n"),
        [
            place(1, 1, "a: { b: [c , d], e,\n  f: }"),
            place(1, 1, "a"),
            place(1, 4, "{ b: [c , d], e,\n  f: }"),
            place(1, 6, "b"),
            place(1, 9, "[c , d]"),
            place(1, 10, "c"),
            place(1, 14, "d"),
            place(1, 18, "e"),
            place(1, 19, ""),
            place(2, 3, "f"),
            place(2, 4, ""),
        ]
    );
    assert_eq!(places("[]  # c\n"), [place(1, 1, "[]")]);
    assert_eq!(places("[a: , b: c]")[1..3], [place(1, 2, "a"), place(1, 2, "a")]);
}

#[test]
fn places_of_quoted_and_block_text() {
    assert_eq!(
        places("\"a b\" : 'c''d'  # it's\ne: \"f\\\"g\"   \nh: |\n  i\n  j\n\nk: |\nl: >- # |\n\nm: n\n")
            [1..],
        [
            place(1, 1, "\"a b\""),
            place(1, 9, "'c''d'"),
            place(2, 1, "e"),
            place(2, 4, "\"f\\\"g\""),
            place(3, 1, "h"),
            place(4, 3, "i\n  j"),
            place(7, 1, "k"),
            place(7, 4, "|"),
            place(8, 1, "l"),
            place(8, 9, "|"),
            place(10, 1, "m"),
            place(10, 4, "n"),
        ]
    );
}

#[test]
fn places_behind_wide_characters_and_in_later_documents() {
    let text = "# ü\nä: \"你好\" # ö\nb: 你 # x\n---\nc: ß\nd:\n- é\n- x\n";
    for text in [text.to_owned(), format!("\u{feff}{text}"), text.replace('\n', "\r\n")] {
        let found = places(&text);
        let lines: Vec<_> = found.iter().filter(|(_, _, text)| !text.contains('\n')).cloned().collect();
        // A byte order mark counts as a character of its line, which here is a comment.
        assert_eq!(
            lines,
            [
                place(2, 1, "ä"),
                place(2, 4, "\"你好\""),
                place(3, 1, "b"),
                place(3, 4, "你"),
                place(5, 1, "c"),
                place(5, 4, "ß"),
                place(6, 1, "d"),
                place(7, 3, "é"),
                place(8, 3, "x"),
            ]
        );
        assert_eq!(
            found.iter().find(|found| found.2.starts_with("- é")).map(|found| (found.0, found.1)),
            Some((7, 1))
        );
    }
    // A lone carriage return is a line break to YAML only: one chunk, two documents.
    let texts: Vec<String> = places("---\rä: ö\r---\rü: x\r").into_iter().map(|found| found.2).collect();
    assert_eq!(texts, ["ä: ö", "ä", "ö", "ü: x", "ü", "x"]);
    assert_eq!(places("%ä ö\n---\nü: x\n")[1..], [place(3, 1, "ü"), place(3, 4, "x")]);
}

#[test]
fn places_behind_properties() {
    assert_eq!(
        places("a: &x !!str b\nc: &y\n  d: e\nf: &z\n- g\nh: !!str\ni: *y\n")[1..],
        [
            place(1, 1, "a"),
            place(1, 13, "b"),
            place(2, 1, "c"),
            place(3, 3, "d: e"),
            place(3, 3, "d"),
            place(3, 6, "e"),
            place(4, 1, "f"),
            place(5, 1, "- g"),
            place(5, 3, "g"),
            place(6, 1, "h"),
            place(6, 4, "!!str"),
            place(7, 1, "i"),
            place(7, 4, "*y"),
            // What is inside an alias stands where it is written.
            place(3, 3, "d"),
            place(3, 6, "e"),
        ]
    );
}

#[test]
fn text_is_borrowed_where_it_can_be() {
    let source = Source::new("f.yaml", "a: plain\nb: 'single'\nc: \"double 你\"\n\"d\": \"esc\\n\"\n");
    let limits = Limits::default();
    let node = documents(&source, &limits).next().unwrap().unwrap();
    let Value::Map(entries) = node.value else { panic!() };
    let borrowed: Vec<bool> =
        entries.iter().map(|entry| matches!(entry.value.value, Value::String(Cow::Borrowed(_)))).collect();
    assert_eq!(borrowed, [true, true, true, false]);
    assert!(entries.iter().all(|entry| matches!(entry.key, Cow::Borrowed(_))));
}

fn refused(text: &str) {
    let started = std::time::Instant::now();
    assert!(matches!(read(text)[..], [Err((SyntaxErrorKind::Limit, _, _))]), "{:?}", read(&text[..60]));
    assert!(started.elapsed().as_millis() < 900, "{:?}", started.elapsed());
}

#[test]
fn alias_bombs_are_refused() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    let mut merges = "a0: &a0 {x0: 1}\n".to_owned();
    for level in 1..=9 {
        let below = vec![format!("*a{}", level - 1); 9].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{below}]\n"));
        merges.push_str(&format!("a{level}: &a{level} {{<<: [{below}], b: [{below}]}}\n"));
    }
    refused(&text);
    refused(&merges);
    // Many aliases of one large value.
    let large = format!("a: &a [{}]\nb:\n{}", "x, ".repeat(50_000), "- *a\n".repeat(1000));
    refused(&large);
    // Anchors inside anchors, each of which would be kept whole.
    let nested = format!("{}[{}]{}\n", "&a [".repeat(100), "x, ".repeat(60_000), "]".repeat(100));
    assert!(read(&nested)[0].is_ok());
}

#[test]
fn aliases_of_long_texts_are_refused() {
    let long = "y".repeat(200_000);
    // A block is kept apart from the file, plain text is borrowed from it until it is decoded.
    for text in [format!("|\n  {long}\n"), format!("\"\\x41{long}\"\n"), format!("{long}\n")] {
        refused(&format!("a: &a {text}b:\n{}", "- *a\n".repeat(1_000)));
        // As keys, and behind aliases of aliases.
        refused(&format!("a: &a {text}b:\n{}", "- *a : 1\n".repeat(1_000)));
        refused(&format!("a: &a {text}b: &b [*a, *a, *a]\nc: &c [*b, *b, *b]\nd:\n{}", "- *c\n".repeat(100)));
        // Merged.
        let deeper = text.replace("\n  ", "\n    ");
        refused(&format!("a: &a\n  k: {deeper}b:\n{}", "- <<: *a\n".repeat(1_000)));
    }
    // Some are what people write.
    assert!(read(&format!("a: &a {long}\nb: [{}]\n", "*a, ".repeat(100)))[0].is_ok());
    // An anchor that no alias names costs nothing.
    let nested = format!("{}\"\\x41{long}\"{}\n", "&a [".repeat(100), "]".repeat(100));
    assert!(read(&nested)[0].is_ok());
}

#[test]
fn the_documents_of_a_text_share_what_aliases_may_copy() {
    let limits = Limits { alias_bytes: 3_000, ..Limits::default() };
    let document = format!("a: &a {}\nb: *a\n", "y".repeat(900));
    let found = read_with(&vec![document; 5].join("---\n"), &limits);
    assert_eq!(found.iter().filter(|result| result.is_ok()).count(), 3);
    assert_eq!(found[3], Err((SyntaxErrorKind::Limit, 11, 4)));
}

#[test]
fn aliases_do_not_get_around_the_depth() {
    let mut text = format!("a0: &a0 {}{}\n", "[".repeat(60), "]".repeat(60));
    for level in 1..=40 {
        let (open, close) = ("[".repeat(60), "]".repeat(60));
        text.push_str(&format!("a{level}: &a{level} {open}*a{}{close}\n", level - 1));
    }
    assert_eq!(read(&text), [Err((SyntaxErrorKind::Limit, 3, 69))]);
}

#[test]
fn deep_nesting_is_refused() {
    for open in ["[", "{a: ", "- ", "? ", "[{a: ", "a:\n"] {
        let text = match open {
            "a:\n" => (0..2000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect(),
            _ => open.repeat(100_000),
        };
        if open == "? " {
            assert!(read(&text)[0].is_err());
        } else {
            refused(&text);
        }
    }
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(read(&nested(128))[0].is_ok());
    assert_eq!(read(&nested(129)), [Err((SyntaxErrorKind::Limit, 1, 129))]);
}

#[test]
fn limits_hold() {
    let limits =
        Limits { nodes: 5, alias_nodes: 2, documents: 3, depth: 2, stretch: 30, ..Limits::default() };
    let kinds = |text: &str| {
        read_with(text, &limits)
            .into_iter()
            .map(|result| result.map(drop).map_err(|e| e.0))
            .collect::<Vec<_>>()
    };
    assert_eq!(kinds("[1, 2, 3, 4]\n"), [Ok(())]);
    assert_eq!(kinds("[1, 2, 3, 4, 5]\n---\na"), [Err(SyntaxErrorKind::Limit), Ok(())]);
    assert_eq!(kinds("[&a 1, *a, *a]"), [Ok(())]);
    assert_eq!(kinds("[&a 1, *a, *a, *a]"), [Err(SyntaxErrorKind::Limit)]);
    assert_eq!(kinds("a\n---\nb\n---\nc\n"), [Ok(()), Ok(()), Ok(())]);
    assert_eq!(
        kinds("a\n---\nb\n---\nc\n---\nd\n---\ne"),
        [Ok(()), Ok(()), Ok(()), Err(SyntaxErrorKind::Limit)]
    );
}

#[test]
fn long_stretches_are_refused_where_they_begin() {
    let limits = Limits { stretch: 50, ..Limits::default() };
    let read = |text: &str| read_with(text, &limits);
    let limit = |line, column| Err((SyntaxErrorKind::Limit, line, column));
    // The parser keeps all of these until they end, with commas and without.
    for unit in ["a, ", "[] ", "*a ", "&a ", "a #\n   , "] {
        assert_eq!(
            read(&format!("x\n---\n - [{}", unit.repeat(100))),
            [Ok("'x'".to_owned()), limit(3, 4)],
            "{unit}"
        );
        assert_eq!(read(&format!("k: [{{}}, {{{}\n---\nx", unit.repeat(100)))[0], limit(1, 9), "{unit}");
    }
    assert_eq!(read(&format!("k: \"{}\"\n---\nx", "a".repeat(100))), [limit(1, 4), Ok("'x'".to_owned())]);
    assert_eq!(read(&format!("k: |\n  {}\n", "a".repeat(100))), [limit(1, 4)]);
    // What comes piece by piece may be as long as it likes, and so may comments.
    for text in
        ["- a\n".repeat(100), format!("k: [{}]", "a, ".repeat(100)), format!("# {}\n", "x".repeat(100))]
    {
        assert!(read(&text).iter().all(Result::is_ok), "{text}");
    }
}

#[test]
fn many_tiny_documents() {
    let found = read(&"---\na: 1\n".repeat(100_000));
    assert_eq!(found.len(), 100_000);
    assert!(found.iter().all(|result| result.as_deref() == Ok("{a: 1}")));
}
