//! Names stay what they are: a new version of the program finds the objects of the old one in the kernel.

use palisade_flatten::Digest;
use palisade_model::address::Family;
use palisade_model::policy::Direction;

use super::*;
use crate::program::{Field, Match, Value, Verdict};

/// Worked out without this program: SHA-256 of the text that the module specifies, the first 24 digits.
#[test]
fn names_are_pinned() {
    let empty = Digest::of_list([]);
    assert_eq!(list_chain(Direction::Ingress, empty, None), "in_95f353d18e00f17ae720a3d3");
    assert_eq!(peer_classes(Direction::Egress, empty, None).to_string(), "42466f1bea624ab05af43eda");
    assert_eq!(class_set(empty, Family::V6, empty), "s_a73fcf10807fd37401fc7a90");
    assert_eq!(shared_set(empty, Family::V4), "s_41c94cb59505e972537872c1");
    assert_eq!(peer_map(&"in_x".into(), Family::V4), "m_5eda341473d421abc89e064f");
    let number = Value::Number;
    let matches =
        [Match::Is(Field::Protocol, number(6)), Match::Between(Field::Port, number(80), number(90))];
    let counted =
        NftRule { counter: Some("c".into()), ..NftRule::new(matches, Verdict::Accept).comment("why") };
    assert_eq!(verdict_chain(&[counted, NftRule::new([], Verdict::Drop)]), "pr_a59c498a50c62457b56a1c79");
    let address = Value::Address([10, 0, 0, 1].into());
    let elements = [(vec![(address, address)], None)].into();
    assert_eq!(content(&[FieldType::Address(Family::V4)], &elements, false), "s_ea9ebafd055fdd0154eb6930");
    let key = vec![(number(6), number(6)), (number(80), number(90))];
    let elements = [(key, Some(Verdict::Goto("x".into())))].into();
    assert_eq!(
        content(&[FieldType::Protocol, FieldType::Port], &elements, true),
        "m_097a53ee305a9ec79ff1b94f"
    );
}

#[test]
fn readable_names_are_never_equal_for_different_parts() {
    assert_eq!(
        readable(&["ingress", "allowed", "NetworkPolicy", "x", "web", "0"]),
        "ingress/allowed/NetworkPolicy/x/web/0"
    );
    let names =
        [readable(&["a/b", "c"]), readable(&["a", "b/c"]), readable(&["a", "b", "c"]), readable(&["a b c"])];
    for (index, name) in names.iter().enumerate() {
        assert!(!names[..index].contains(name), "{names:?}");
    }
    assert_eq!(readable(&["a b"]), "a_b_46e96ccd34968d7a7df79ce0");
    assert!(readable(&[&"x".repeat(500)]).len() <= LONGEST);
}
