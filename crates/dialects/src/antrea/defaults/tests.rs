//! Names that Antrea gives to rules, as its own tests have them, and the bytes they are made of.

use palisade_model::policy::Direction::{self, Egress, Ingress};

use super::{json, rule_name, sha1};
use crate::antrea::types::Rule;
use crate::apimachinery::field::Path;
use crate::decode::{Decode, Reader};
use crate::source::{Limits, Source, documents};

fn rule(text: &str) -> Rule {
    let source = Source::new("rule.yaml", text.to_owned());
    let limits = Limits::default();
    let node = documents(&source, &limits).next().unwrap().unwrap();
    let mut found = Vec::new();
    Rule::decode(&node, &Path::root(), &mut Reader::new(&source, &node, &mut found)).unwrap()
}

#[test]
fn hashes() {
    assert_eq!(sha1::hex(b""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    assert_eq!(sha1::hex(b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    let long = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    assert_eq!(sha1::hex(long.as_bytes()), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    assert_eq!(sha1::hex(&[b'a'; 1_000_000]), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

#[test]
fn names_are_those_of_antrea() {
    let named = |direction: Direction, text: &str| rule_name(direction, &rule(text)).unwrap();
    let from = "{action: Allow, from: [{podSelector: {matchLabels: {foo1: bar1}}}]}";
    assert_eq!(named(Ingress, from), "ingress-allow-c4f16d3");
    let from = "{action: Allow, from: [{podSelector: {matchLabels: {foo2: bar2}}}]}";
    assert_eq!(named(Ingress, from), "ingress-allow-be87b58");
    let to = "{action: Allow, to: [{podSelector: {matchLabels: {foo2: bar2}}}]}";
    assert_eq!(named(Egress, to), "egress-allow-44b2575");
    assert_eq!(named(Egress, "{action: Drop, name: mine}"), "mine");
}

#[test]
fn a_rule_that_cannot_be_read_has_no_name() {
    for text in ["{}", "{action: 1}", "{action: Drop, frm: []}", "{action: Drop, ports: [{port: true}]}"] {
        assert_eq!(rule_name(Ingress, &rule(text)), None, "{text}");
    }
}

macro_rules! written {
    ($($name:ident: $text:literal => $want:literal;)*) => {$(
        #[test]
        fn $name() {
            assert_eq!(json::rule(&rule($text)).unwrap(), $want);
        }
    )*};
}

written! {
    empty_lists_and_texts_are_left_out: r#"{action: Drop, name: "", logLabel: "", from: [], ports: []}"#
        => r#"{"action":"Drop","enableLogging":false}"#;
    the_order_is_that_of_the_types:
        "{appliedTo: [{group: g}], enableLogging: true, logLabel: l, from: [{scope: Cluster, namespaces: {match: Self}, \
          ipBlock: {except: [10.1.0.0/16], cidr: 10.0.0.0/8}}], ports: [{endPort: 90, port: 80, protocol: TCP}, \
          {port: web}], action: Allow}"
        => r#"{"action":"Allow","ports":[{"protocol":"TCP","port":80,"endPort":90},{"port":"web"}],"from":[{"ipBlock":{"cidr":"10.0.0.0/8","except":["10.1.0.0/16"]},"namespaces":{"match":"Self"},"scope":"Cluster"}],"enableLogging":true,"logLabel":"l","appliedTo":[{"group":"g"}]}"#;
    labels_are_sorted_and_empty_selectors_stay:
        "{action: Drop, to: [{podSelector: {matchLabels: {b: '2', a: '1'}, matchExpressions: [{key: c, operator: Exists}]}, \
          namespaceSelector: {}}]}"
        => r#"{"action":"Drop","to":[{"podSelector":{"matchLabels":{"a":"1","b":"2"},"matchExpressions":[{"key":"c","operator":"Exists"}]},"namespaceSelector":{}}],"enableLogging":false}"#;
    go_escapes_what_html_could_mistake: r#"{action: Allow, l7Protocols: [{http: {path: "/a?b=<1>&c", host: "é\u2028"}}]}"#
        => r#"{"action":"Allow","l7Protocols":[{"http":{"host":"é\u2028","path":"/a?b=\u003c1\u003e\u0026c"}}],"enableLogging":false}"#;
    zero_is_something_behind_a_pointer: "{action: Allow, protocols: [{icmp: {icmpType: 8, icmpCode: 0}}, {igmp: {}}]}"
        => r#"{"action":"Allow","protocols":[{"icmp":{"icmpType":8,"icmpCode":0}},{"igmp":{}}],"enableLogging":false}"#;
}
