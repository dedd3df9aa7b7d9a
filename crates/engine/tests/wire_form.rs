//! The wire form against its description, and over random worlds.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod pool;

use std::collections::{BTreeMap, BTreeSet};

use palisade_engine::Engine;
use palisade_engine::view::View;
use palisade_engine::wire::{Frame, VERSION};
use palisade_model::event::{Event, Item};
use sha2::{Digest, Sha256};

use pool::{Dice, pool};

const PROTO: &str = include_str!("../proto/palisade/feed/v1/feed.proto");

/// SHA-256 of what a version of `feed.proto` says, comments aside. A version that was released never changes: what is added
/// goes into a new version, with its own line here and its own folder of frames in `tests/wire`.
const DESCRIPTIONS: [(u32, &str); 1] =
    [(1, "824d47dbede6ef6a726fee6630d0cb5108222ea857e21938c18abceae48c9452")];

/// The messages and enums of the description, by name.
#[derive(Default)]
struct Description {
    /// Name and type of each field, by number.
    messages: BTreeMap<String, BTreeMap<u64, (String, String)>>,
    enums: BTreeMap<String, BTreeSet<u64>>,
}

/// The description without comments, in single spaces.
fn code() -> String {
    let lines = PROTO.lines().map(|line| line.split("//").next().unwrap());
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

fn description() -> Description {
    let mut all = Description::default();
    let code = code().replace('{', " { ").replace('}', " } ").replace(';', " ; ");
    // The messages and oneofs that are open.
    let mut open: Vec<(String, String)> = Vec::new();
    for statement in code.split_inclusive(['{', '}', ';']) {
        let words: Vec<&str> = statement.split_whitespace().collect();
        match words.as_slice() {
            [kind @ ("message" | "enum" | "oneof"), name, "{"] => {
                if *kind == "message" {
                    all.messages.entry((*name).to_owned()).or_default();
                }
                open.push(((*kind).to_owned(), (*name).to_owned()));
            }
            [] => {}
            ["}"] => drop(open.pop()),
            ["syntax" | "package", ..] => {}
            [words @ .., name, "=", number, ";"] => {
                let number = number.parse().unwrap();
                let (_, owner) = open.iter().rfind(|(kind, _)| kind != "oneof").unwrap();
                match words {
                    [] if number > 0 => drop(all.enums.entry(owner.clone()).or_default().insert(number)),
                    [] => {}
                    [.., kind] => {
                        let field = ((*name).to_owned(), (*kind).to_owned());
                        let twice = all.messages.get_mut(owner).unwrap().insert(number, field);
                        assert!(twice.is_none(), "{owner} {number}");
                    }
                }
            }
            other => panic!("{other:?}"),
        }
    }
    all
}

/// Reads bytes by the description alone, and notes which fields and values of enums it meets.
struct Reader {
    description: Description,
    met: BTreeSet<(String, u64)>,
}

impl Reader {
    fn message(&mut self, name: &str, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let (number, wire) = (tag >> 3, tag & 7);
            let field = self.description.messages[name].get(&number);
            let (_, kind) = field.unwrap_or_else(|| panic!("{name} has no field {number}")).clone();
            self.met.insert((name.to_owned(), number));
            match (wire, kind.as_str()) {
                (0, "uint32" | "uint64" | "int64") => drop(varint(&mut bytes)),
                (0, "bool") => assert_eq!(varint(&mut bytes), 1),
                (0, other) => {
                    let value = varint(&mut bytes);
                    assert!(self.description.enums[other].contains(&value), "{other} has no value {value}");
                    self.met.insert((other.to_owned(), value));
                }
                (1, "double") => bytes = &bytes[8..],
                (2, other) => {
                    let length = usize::try_from(varint(&mut bytes)).unwrap();
                    let (mut inner, rest) = bytes.split_at(length);
                    bytes = rest;
                    match other {
                        "string" => assert!(std::str::from_utf8(inner).is_ok()),
                        "bytes" => {}
                        "uint32" => {
                            while !inner.is_empty() {
                                varint(&mut inner);
                            }
                        }
                        message => self.message(message, inner),
                    }
                }
                other => panic!("{name} {number}: {other:?}"),
            }
        }
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

#[test]
fn a_description_changes_with_a_new_version_only() {
    let digest: String = Sha256::digest(code().as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(DESCRIPTIONS.last(), Some(&(VERSION, digest.as_str())));
    for (version, _) in DESCRIPTIONS {
        let folder = format!("{}/tests/wire/v{version}", env!("CARGO_MANIFEST_DIR"));
        assert!(std::fs::read_dir(&folder).unwrap().count() >= 4, "{folder}");
    }
}

/// Together with the encoder, which does not compile without every variant: each has its field, and each is in a file.
#[test]
fn released_frames_have_every_field_and_value_that_is_described() {
    let mut reader = Reader { description: description(), met: BTreeSet::new() };
    let folder = format!("{}/tests/wire/v{VERSION}", env!("CARGO_MANIFEST_DIR"));
    for file in std::fs::read_dir(folder).unwrap() {
        reader.message("Frame", &std::fs::read(file.unwrap().path()).unwrap());
    }
    let Reader { description, met } = reader;
    let fields =
        description.messages.iter().flat_map(|(name, fields)| fields.keys().map(move |at| (name, *at)));
    let values = description.enums.iter().flat_map(|(name, values)| values.iter().map(move |at| (name, *at)));
    let missing: Vec<_> =
        fields.chain(values).filter(|(name, at)| !met.contains(&((*name).clone(), *at))).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(met.len() > 120, "{}", met.len());
}

#[test]
fn random_worlds_travel() {
    let pool = pool();
    let mut dice = Dice(7);
    let mut engine = Engine::default();
    let (mut sent, mut received) = (engine.view(), View::default());
    let mut bytes = 0;
    for turn in 0..600 {
        let versions = &pool[dice.roll(pool.len())];
        let item: Item = versions[dice.roll(versions.len())].clone();
        let event = if dice.roll(4) == 0 { Event::Delete(item.key()) } else { Event::Apply(item) };
        let delta = engine.apply(event);
        let frame = delta.encode();
        bytes += frame.len();
        let Ok(Frame::Delta(decoded)) = Frame::decode(&frame) else { panic!("turn {turn}") };
        assert_eq!(decoded, delta, "turn {turn}");
        assert_eq!(decoded.encode(), frame, "turn {turn}");
        sent.follow(&delta).unwrap();
        received.follow(&decoded).unwrap();
        assert_eq!(received, sent, "turn {turn}");
        if turn % 20 == 0 {
            let whole = sent.encode();
            assert_eq!(Frame::decode(&whole), Ok(Frame::Whole(received.clone())), "turn {turn}");
            assert_eq!(received.encode(), whole, "turn {turn}");
            for node in ["n0", "n1", "nowhere"] {
                let part = sent.part_of(node);
                assert_eq!(Frame::decode(&part.encode()), Ok(Frame::Whole(part)), "turn {turn}");
            }
        }
    }
    assert!(bytes > 10_000, "{bytes}");
}
