//! Round trips of every form, and hostile bytes.
//!
//! `tests/wire_form.rs` holds the encoding to `feed.proto`, to the released versions, and to random worlds.

use std::num::NonZeroU32;
use std::sync::Arc;

use palisade_model::diagnostic::Location;
use palisade_model::pipeline::Effect;
use palisade_model::policy::{
    Dialect, Direction, IcmpMatch, Layer7, Object, PortMatch, Priority, TrafficMatch, TrafficMatches,
};
use palisade_model::resolve::Rank;
use palisade_model::snapshot::Stage;
use palisade_model::traffic::{PortRange, Protocol};

use super::{DecodeError, Frame, VERSION};
use crate::delta::{
    Change, CompiledRule, Delta, Directions, Member, MemberKind, Moved, Need, Origin, Part, PolicyId,
    RuleEffect, RuleId, RuleOrigin, SetId,
};
use crate::selection::tests::of_every_form;
use crate::view::View;

const PORTS: PortRange = PortRange { first: 80, last: 443 };

fn id(number: usize) -> NonZeroU32 {
    NonZeroU32::new(u32::try_from(number).unwrap()).unwrap()
}

fn set(number: usize) -> SetId {
    SetId::new(id(number))
}

fn member(kind: MemberKind, addresses: &[&str], node: Option<&str>) -> Arc<Member> {
    let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
    Arc::new(Member {
        kind,
        namespace: "shop".into(),
        name: "web".into(),
        addresses,
        node: node.map(Into::into),
    })
}

fn members() -> Vec<Arc<Member>> {
    vec![
        member(MemberKind::Pod, &["10.0.0.1", "2001:db8::1"], Some("n1")),
        member(MemberKind::Template("Deployment".into()), &[], None),
        member(MemberKind::Entity, &["192.0.2.1"], None),
        member(MemberKind::Node, &["192.0.2.2"], Some("web")),
        member(MemberKind::Service, &["10.96.0.1"], None),
        member(MemberKind::Address, &["::1"], None),
    ]
}

fn policies() -> impl Iterator<Item = Change> {
    let dialects = [
        Dialect::NetworkPolicy,
        Dialect::NetworkPolicy2016,
        Dialect::AdminNetworkPolicy,
        Dialect::ClusterNetworkPolicy,
        Dialect::Antrea,
        Dialect::Antrea2020,
        Dialect::Thorium,
    ];
    (1..).zip(dialects).map(|(number, dialect)| {
        let at = Location { file: "a.yaml".into(), line: 3, column: 5, width: 7 };
        let object = Object {
            kind: "NetworkPolicy".into(),
            namespace: (number > 1).then(|| "shop".into()),
            name: "p".into(),
            group: "networking.k8s.io".into(),
            version: "v1".into(),
            generation: if number == 1 { -1 } else { 7 },
            at: (number > 2).then(|| at.clone()),
            dialect,
        };
        let rules = Direction::BOTH.map(|direction| RuleOrigin {
            direction,
            index: 300,
            name: Some("first".into()),
            at: Some(at.clone()),
        });
        Change::PolicyApplied(
            PolicyId::new(id(number)),
            Arc::new(Origin { object: Arc::new(object), rules: rules.into() }),
        )
    })
}

fn traffic() -> Vec<TrafficMatch> {
    let protocols = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp, Protocol::Icmp, Protocol::Igmp];
    let source = PortRange { first: 1024, last: 65535 };
    let mut all: Vec<TrafficMatch> =
        protocols.iter().map(|protocol| TrafficMatch::Ports(*protocol, PORTS)).collect();
    all.extend([
        TrafficMatch::Named(None, "http".into()),
        TrafficMatch::Named(Some(Protocol::Udp), "dns".into()),
        TrafficMatch::From(source, Box::new(PortMatch::Numbers(Protocol::Tcp, PORTS))),
        TrafficMatch::From(source, Box::new(PortMatch::Named(None, "http".into()))),
        TrafficMatch::Icmp(IcmpMatch { kind: None, code: None }),
        TrafficMatch::Icmp(IcmpMatch { kind: Some(0), code: Some(255) }),
        TrafficMatch::Igmp(None, None),
        TrafficMatch::Igmp(Some(17), Some("224.0.0.1".parse().unwrap())),
        TrafficMatch::Unknown("?".to_owned()),
    ]);
    all
}

fn rules() -> Vec<CompiledRule> {
    let rank =
        Rank { stage: Stage::NetworkPolicy, placed: false, tier: 0, priority: Priority(0.0), index: 0 };
    let plain = CompiledRule {
        policy: PolicyId::new(id(1)),
        rule: None,
        directions: Directions { ingress: true, egress: true },
        rank,
        effect: RuleEffect::Isolate,
        subject: set(1),
        peers: None,
        destination: None,
        traffic: TrafficMatches::Any,
        layer7: Vec::new(),
        log: None,
    };
    let effects = [Effect::Allow, Effect::AllowTcp, Effect::Deny, Effect::Reject, Effect::Pass];
    let stages = [Stage::Tiers, Stage::NetworkPolicy, Stage::Baseline];
    let mut all = vec![plain.clone()];
    for (at, effect) in effects.into_iter().enumerate() {
        let stage = stages[at % 3];
        all.push(CompiledRule {
            rule: Some(u32::try_from(at).unwrap()),
            directions: Direction::BOTH[at % 2].into(),
            rank: Rank { stage, placed: true, tier: 255, priority: Priority(-1.5), index: 9 },
            effect: RuleEffect::Decide(effect),
            peers: Some([set(2), set(3)].into_iter().take(at).collect()),
            destination: (at > 1).then(|| set(4)),
            traffic: TrafficMatches::Of(if at == 0 { Vec::new() } else { traffic() }),
            layer7: vec![
                Layer7::Http { host: None, method: Some("GET".into()), path: Some("/a*".into()) },
                Layer7::Http { host: Some("".into()), method: None, path: None },
                Layer7::Tls { sni: Some("example.com".into()) },
                Layer7::Tls { sni: None },
            ],
            log: (at > 2).then(|| "".into()),
            ..plain.clone()
        });
    }
    all
}

/// A delta with every variant of everything that travels; `tests/wire_form.rs` counts them off against `feed.proto`.
fn of_every_variant() -> Delta {
    let mut changes: Vec<Change> = policies().collect();
    for (at, selection) in of_every_form().into_iter().enumerate() {
        let own = if at == 0 { members() } else { members().into_iter().skip(at % 6).collect() };
        changes.push(Change::SetAdded(set(at + 1), Arc::new(selection), own));
    }
    for (at, rule) in rules().into_iter().enumerate() {
        changes.push(Change::RuleAdded(RuleId::new(id(at + 1)), Arc::new(rule)));
    }
    for part in [Part::Subject, Part::Addresses] {
        for node in [None, Some("n1".into())] {
            changes.push(Change::NeedAdded(Need { set: set(1), part, node }));
        }
    }
    Delta { epoch: 1 << 40, changes }
}

/// Changes that a whole view has none of.
fn of_every_removal() -> Delta {
    let own = |at: usize| members().into_iter().skip(at).collect();
    Delta {
        epoch: 2,
        changes: vec![
            Change::MembersMoved(vec![
                Moved { members: own(0), joined: [set(200)].into_iter().collect(), left: Default::default() },
                Moved {
                    members: own(4),
                    joined: Default::default(),
                    left: [set(1), set(70_000)].into_iter().collect(),
                },
            ]),
            Change::NeedRemoved(Need { set: set(1), part: Part::Addresses, node: None }),
            Change::RuleRemoved(RuleId::new(id(1))),
            Change::SetRemoved(set(1)),
            Change::PolicyRemoved(PolicyId::new(NonZeroU32::MAX)),
        ],
    }
}

fn frames() -> Vec<(&'static str, Vec<u8>)> {
    let view = View::try_from(&of_every_variant()).unwrap();
    vec![
        ("delta.bin", of_every_variant().encode()),
        ("removals.bin", of_every_removal().encode()),
        ("view.bin", view.encode()),
        ("empty.bin", View::default().encode()),
    ]
}

#[test]
fn every_variant_returns_as_it_was() {
    for delta in [of_every_variant(), of_every_removal()] {
        assert_eq!(Frame::decode(&delta.encode()), Ok(Frame::Delta(delta)));
    }
    let view = View::try_from(&of_every_variant()).unwrap();
    assert_eq!(Frame::decode(&view.encode()), Ok(Frame::Whole(view.clone())));
    let again = View::try_from(&view.as_delta()).unwrap();
    assert_eq!(again.encode(), view.encode(), "equal views are equal bytes");
}

#[test]
fn selections_return_with_their_digests() {
    for selection in of_every_form() {
        let decoded = crate::selection::Selection::decode(&selection.encode()).unwrap();
        assert_eq!((decoded.digest(), decoded.to_string()), (selection.digest(), selection.to_string()));
        let mut longer = selection.encode();
        longer.push(0);
        assert_eq!(crate::selection::Selection::decode(&longer), None);
    }
}

/// The files of a released version are never written again: they are what older controllers and agents send.
#[test]
fn released_frames_stay_readable() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/wire/v{VERSION}"));
    for (name, frame) in frames() {
        let released = std::fs::read(folder.join(name)).unwrap();
        assert!(Frame::decode(&released) == Frame::decode(&frame), "{name} means something else");
        assert!(released == frame, "{name} is encoded in another way");
    }
}

/// Writes the files, for a new version only: `WRITE_WIRE=1 cargo test -p palisade-engine write_frames -- --ignored`.
#[test]
#[ignore = "writes the files of a version before its release"]
fn write_frames() {
    assert!(std::env::var_os("WRITE_WIRE").is_some());
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/wire/v{VERSION}"));
    for (name, frame) in frames() {
        std::fs::write(folder.join(name), frame).unwrap();
    }
}

#[test]
fn truncated_and_damaged_bytes_are_refused_or_mean_something_and_never_panic() {
    let mut accepted = 0;
    for (_, frame) in frames() {
        for length in 0..frame.len() {
            // The body is one field: no beginning of a frame is a frame.
            assert!(Frame::decode(&frame[..length]).is_err(), "{length}");
        }
        for at in 0..frame.len() {
            for bit in 0..8 {
                let mut damaged = frame.clone();
                damaged[at] ^= 1 << bit;
                if let Ok(Frame::Delta(delta)) = Frame::decode(&damaged) {
                    accepted += 1;
                    assert_eq!(Frame::decode(&delta.encode()), Ok(Frame::Delta(delta)));
                }
            }
        }
    }
    assert!(accepted > 100, "damage inside of texts is not noticed: {accepted}");
}

#[test]
fn what_a_newer_sender_adds_is_refused() {
    let unknown = |message, field| Err(DecodeError::UnknownField { message, field });
    assert_eq!(Frame::decode(b"\x08\x02"), Err(DecodeError::Version(2)));
    assert_eq!(Frame::decode(b""), Err(DecodeError::Missing("version")));
    assert_eq!(Frame::decode(b"\x08\x01"), Err(DecodeError::Missing("body of the frame")));
    assert_eq!(Frame::decode(b"\x08\x01\x1a\x00"), Ok(Frame::Delta(Delta { epoch: 0, changes: Vec::new() })));
    assert_eq!(Frame::decode(b"\x08\x01\x1a\x00\x20\x01"), unknown("frame", 4));
    assert_eq!(Frame::decode(b"\x08\x01\x1a\x02\x20\x01"), unknown("delta", 4));
    assert_eq!(Frame::decode(b"\x08\x01\x1a\x04\x1a\x02\x50\x01"), unknown("change", 10));
    assert_eq!(Frame::decode(b"\x08\x01\x1a\x02\x1a\x00"), Err(DecodeError::Missing("kind of change")));
    // A member of kind 7.
    let kind = DecodeError::UnknownValue { what: "kind of a member", value: 7 };
    assert_eq!(Frame::decode(b"\x08\x01\x1a\x04\x12\x02\x08\x07"), Err(kind));
    // A change that removes set 0, or two sets, or is given twice.
    assert_eq!(Frame::decode(b"\x08\x01\x1a\x04\x1a\x02\x40\x00"), Err(DecodeError::OutOfRange("set")));
    assert_eq!(
        Frame::decode(b"\x08\x01\x1a\x06\x1a\x04\x40\x01\x48\x01"),
        Err(DecodeError::Malformed("change"))
    );
    assert_eq!(Frame::decode(b"\x08\x01\x1a\x00\x1a\x00"), Err(DecodeError::Malformed("frame")));
}

#[test]
fn a_whole_view_that_contradicts_itself_is_refused() {
    let removal = Delta { epoch: 1, changes: vec![Change::SetRemoved(set(1))] };
    let mut bytes = removal.encode();
    // Field 3 of the frame, a delta, becomes field 2, a whole view.
    bytes[2] = 0x12;
    assert!(matches!(Frame::decode(&bytes), Err(DecodeError::Contradiction(_))));
}
