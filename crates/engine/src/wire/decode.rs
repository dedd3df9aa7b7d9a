//! Bytes to views and deltas, without trust in the sender.

use std::collections::BTreeSet;
use std::net::IpAddr;
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
use smallvec::SmallVec;
use smol_str::SmolStr;

use super::protobuf::{Fields, Value};
use super::{DecodeError, Frame, MAX_FRAME, VERSION};
use crate::delta::{
    Change, CompiledRule, Delta, Directions, Member, MemberKind, Moved, Need, Origin, Part, PolicyId,
    RuleEffect, RuleId, RuleOrigin, SetId,
};
use crate::selection::Selection;
use crate::view::View;

type Result<T> = std::result::Result<T, DecodeError>;

/// The members of a delta, by index.
type Members = [Arc<Member>];

// === impl Frame ===

impl Frame {
    /// Reads a frame.
    pub fn decode(bytes: &[u8]) -> Result<Frame> {
        if bytes.len() > MAX_FRAME {
            return Err(DecodeError::TooLarge(bytes.len()));
        }
        let mut fields = Fields::of("frame", bytes);
        let (mut version, mut body) = (0, None);
        while let Some((field, value)) = fields.next(&[])? {
            match field {
                1 => {
                    version = value.narrow("version")?;
                    if version != VERSION {
                        return Err(DecodeError::Version(version));
                    }
                }
                2 | 3 if body.is_none() => body = Some((field, delta(value.bytes("delta")?)?)),
                2 | 3 => return Err(DecodeError::Malformed("frame")),
                _ => return Err(fields.unknown(field)),
            }
        }
        if version != VERSION {
            return Err(DecodeError::Missing("version"));
        }
        match body {
            Some((2, whole)) => Ok(Frame::Whole(View::try_from(&whole)?)),
            Some((_, delta)) => Ok(Frame::Delta(delta)),
            None => Err(DecodeError::Missing("body of the frame")),
        }
    }
}

fn delta(bytes: &[u8]) -> Result<Delta> {
    let mut fields = Fields::of("delta", bytes);
    let (mut epoch, mut members, mut changes) = (0, Vec::new(), Vec::new());
    while let Some((field, value)) = fields.next(&[2, 3])? {
        match field {
            1 => epoch = value.number("epoch")?,
            2 => members.push(Arc::new(member(value.bytes("member")?)?)),
            3 => changes.push(change(value.bytes("change")?, &members)?),
            _ => return Err(fields.unknown(field)),
        }
    }
    let distinct: BTreeSet<&Member> = members.iter().map(|member| &**member).collect();
    if distinct.len() < members.len() {
        return Err(DecodeError::Malformed("members"));
    }
    Ok(Delta { epoch, changes })
}

fn change(bytes: &[u8], members: &Members) -> Result<Change> {
    let mut fields = Fields::of("change", bytes);
    let (field, value) = fields.next(&[])?.ok_or(DecodeError::Missing("kind of change"))?;
    let change = match field {
        1 => policy_applied(value.bytes("policy")?)?,
        2 => set_added(value.bytes("set")?, members)?,
        3 => rule_added(value.bytes("rule")?)?,
        4 => Change::NeedAdded(need(value.bytes("need")?)?),
        5 => members_moved(value.bytes("moves")?, members)?,
        6 => Change::NeedRemoved(need(value.bytes("need")?)?),
        7 => Change::RuleRemoved(RuleId::new(identifier(value, "rule")?)),
        8 => Change::SetRemoved(SetId::new(identifier(value, "set")?)),
        9 => Change::PolicyRemoved(PolicyId::new(identifier(value, "policy")?)),
        _ => return Err(fields.unknown(field)),
    };
    end(fields, change, "change")
}

/// Refuses a `oneof` with a second member.
fn end<T>(mut fields: Fields<'_>, value: T, what: &'static str) -> Result<T> {
    match fields.next(&[])? {
        None => Ok(value),
        Some(_) => Err(DecodeError::Malformed(what)),
    }
}

fn policy_applied(bytes: &[u8]) -> Result<Change> {
    let mut fields = Fields::of("policy", bytes);
    let (mut id, mut policy, mut rules) = (None, None, Vec::new());
    while let Some((field, value)) = fields.next(&[3])? {
        match field {
            1 => id = Some(PolicyId::new(identifier(value, "policy")?)),
            2 => policy = Some(Arc::new(object(value.bytes("object")?)?)),
            3 => rules.push(rule_origin(value.bytes("origin of a rule")?)?),
            _ => return Err(fields.unknown(field)),
        }
    }
    let object = policy.ok_or(DecodeError::Missing("object of a policy"))?;
    let origin = Origin { object, rules: rules.into() };
    Ok(Change::PolicyApplied(id.ok_or(DecodeError::Missing("number of a policy"))?, Arc::new(origin)))
}

fn object(bytes: &[u8]) -> Result<Object> {
    let mut fields = Fields::of("object", bytes);
    let (mut kind, mut name, mut group, mut version) =
        (SmolStr::default(), SmolStr::default(), SmolStr::default(), SmolStr::default());
    let (mut namespace, mut generation, mut at, mut dialect) = (None, 0, None, None);
    while let Some((field, value)) = fields.next(&[])? {
        match field {
            1 => kind = text(value)?,
            2 => namespace = Some(text(value)?),
            3 => name = text(value)?,
            4 => group = text(value)?,
            5 => version = text(value)?,
            6 => generation = value.number("generation")?.cast_signed(),
            7 => at = Some(location(value.bytes("location")?)?),
            8 => {
                dialect = Some(match value.number("dialect")? {
                    1 => Dialect::NetworkPolicy,
                    2 => Dialect::NetworkPolicy2016,
                    3 => Dialect::AdminNetworkPolicy,
                    4 => Dialect::ClusterNetworkPolicy,
                    5 => Dialect::Antrea,
                    6 => Dialect::Antrea2020,
                    7 => Dialect::Thorium,
                    value => return Err(DecodeError::UnknownValue { what: "dialect", value }),
                });
            }
            _ => return Err(fields.unknown(field)),
        }
    }
    let dialect = dialect.ok_or(DecodeError::Missing("dialect"))?;
    Ok(Object { kind, namespace, name, group, version, generation, at, dialect })
}

fn location(bytes: &[u8]) -> Result<Location> {
    let mut fields = Fields::of("location", bytes);
    let mut at = Location { file: "".into(), line: 0, column: 0, width: 0 };
    while let Some((field, value)) = fields.next(&[])? {
        match field {
            1 => at.file = value.text("file")?.into(),
            2 => at.line = value.narrow("line")?,
            3 => at.column = value.narrow("column")?,
            4 => at.width = value.narrow("width")?,
            _ => return Err(fields.unknown(field)),
        }
    }
    Ok(at)
}

fn rule_origin(bytes: &[u8]) -> Result<RuleOrigin> {
    let mut fields = Fields::of("origin of a rule", bytes);
    let (mut direction, mut index, mut name, mut at) = (None, 0, None, None);
    while let Some((field, value)) = fields.next(&[])? {
        match field {
            1 => {
                direction = Some(match value.number("direction")? {
                    1 => Direction::Egress,
                    2 => Direction::Ingress,
                    value => return Err(DecodeError::UnknownValue { what: "direction", value }),
                });
            }
            2 => index = value.narrow("index of a rule")?,
            3 => name = Some(text(value)?),
            4 => at = Some(location(value.bytes("location")?)?),
            _ => return Err(fields.unknown(field)),
        }
    }
    Ok(RuleOrigin { direction: direction.ok_or(DecodeError::Missing("direction"))?, index, name, at })
}

fn set_added(bytes: &[u8], members: &Members) -> Result<Change> {
    let mut fields = Fields::of("set", bytes);
    let (mut id, mut selection, mut own) = (None, None, Vec::new());
    while let Some((field, value)) = fields.next(&[])? {
        match field {
            1 => id = Some(SetId::new(identifier(value, "set")?)),
            2 => {
                let decoded = Selection::decode(value.bytes("selection")?);
                selection = Some(Arc::new(decoded.ok_or(DecodeError::Selection)?));
            }
            3 => own = referred(value, members)?.into_vec(),
            _ => return Err(fields.unknown(field)),
        }
    }
    let selection = selection.ok_or(DecodeError::Missing("selection"))?;
    Ok(Change::SetAdded(id.ok_or(DecodeError::Missing("number of a set"))?, selection, own))
}

fn members_moved(bytes: &[u8], members: &Members) -> Result<Change> {
    let mut fields = Fields::of("moves", bytes);
    let mut moves = Vec::new();
    while let Some((field, value)) = fields.next(&[1])? {
        match field {
            1 => moves.push(moved(value.bytes("move")?, members)?),
            _ => return Err(fields.unknown(field)),
        }
    }
    Ok(Change::MembersMoved(moves))
}

fn moved(bytes: &[u8], members: &Members) -> Result<Moved> {
    let mut fields = Fields::of("move", bytes);
    let mut moved = Moved { members: SmallVec::new(), joined: SmallVec::new(), left: SmallVec::new() };
    while let Some((field, value)) = fields.next(&[])? {
        match field {
            1 => moved.members = referred(value, members)?,
            2 => moved.joined = sets(value)?,
            3 => moved.left = sets(value)?,
            _ => return Err(fields.unknown(field)),
        }
    }
    Ok(moved)
}

/// Returns the members that indices refer to.
fn referred(value: Value<'_>, members: &Members) -> Result<crate::delta::Members> {
    let indices = value.packed("members")?;
    let distinct: BTreeSet<u32> = indices.iter().copied().collect();
    if distinct.len() < indices.len() {
        return Err(DecodeError::Malformed("members"));
    }
    let member = |index: u32| members.get(index as usize).map(Arc::clone);
    let found = indices.into_iter().map(|index| member(index).ok_or(DecodeError::OutOfRange("member")));
    found.collect()
}

fn sets<const N: usize>(value: Value<'_>) -> Result<SmallVec<[SetId; N]>> {
    let set = |number: u32| NonZeroU32::new(number).map(SetId::new).ok_or(DecodeError::OutOfRange("set"));
    value.packed("sets")?.into_iter().map(set).collect()
}

fn member(bytes: &[u8]) -> Result<Member> {
    let mut fields = Fields::of("member", bytes);
    let (mut code, mut workload) = (None, None);
    let (mut namespace, mut name) = (SmolStr::default(), SmolStr::default());
    let (mut addresses, mut node) = (SmallVec::new(), None);
    while let Some((field, value)) = fields.next(&[5])? {
        match field {
            1 => code = Some(value.number("kind of a member")?),
            2 => workload = Some(text(value)?),
            3 => namespace = text(value)?,
            4 => name = text(value)?,
            5 => addresses.push(address(value)?),
            6 => node = Some(text(value)?),
            _ => return Err(fields.unknown(field)),
        }
    }
    let kind = match (code.ok_or(DecodeError::Missing("kind of a member"))?, workload) {
        (1, None) => MemberKind::Pod,
        (2, Some(workload)) => MemberKind::Template(workload),
        (3, None) => MemberKind::Entity,
        (4, None) => MemberKind::Node,
        (5, None) => MemberKind::Service,
        (6, None) => MemberKind::Address,
        (1..=6, _) => return Err(DecodeError::Malformed("member")),
        (value, _) => return Err(DecodeError::UnknownValue { what: "kind of a member", value }),
    };
    Ok(Member { kind, namespace, name, addresses, node })
}

fn address(value: Value<'_>) -> Result<IpAddr> {
    let bytes = value.bytes("address")?;
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let v6 = || <[u8; 16]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| v6()).map_err(|_| DecodeError::OutOfRange("address"))
}

fn rule_added(bytes: &[u8]) -> Result<Change> {
    let mut fields = Fields::of("rule", bytes);
    let (mut id, mut row) = (None, None);
    while let Some((field, value)) = fields.next(&[])? {
        match field {
            1 => id = Some(RuleId::new(identifier(value, "rule")?)),
            2 => row = Some(rule(value.bytes("rule")?)?),
            _ => return Err(fields.unknown(field)),
        }
    }
    let row = row.ok_or(DecodeError::Missing("rule"))?;
    Ok(Change::RuleAdded(id.ok_or(DecodeError::Missing("number of a rule"))?, Arc::new(row)))
}

fn rule(bytes: &[u8]) -> Result<CompiledRule> {
    let mut fields = Fields::of("rule", bytes);
    let (mut policy, mut index, mut directions) = (None, None, Directions::default());
    let (mut order, mut effect, mut subject, mut peers) = (None, None, None, None);
    let (mut destination, mut traffic, mut layer7, mut log) = (None, None, Vec::new(), None);
    while let Some((field, value)) = fields.next(&[11])? {
        match field {
            1 => policy = Some(PolicyId::new(identifier(value, "policy")?)),
            2 => index = Some(value.narrow("index of a rule")?),
            3 => directions.ingress = value.truth("direction")?,
            4 => directions.egress = value.truth("direction")?,
            5 => order = Some(rank(value.bytes("rank")?)?),
            6 => effect = Some(rule_effect(value)?),
            7 => subject = Some(SetId::new(identifier(value, "set")?)),
            8 => peers = Some(rule_peers(value.bytes("peers")?)?),
            9 => destination = Some(SetId::new(identifier(value, "set")?)),
            10 => traffic = Some(rule_traffic(value.bytes("traffic")?)?),
            11 => layer7.push(condition(value.bytes("condition")?)?),
            12 => log = Some(text(value)?),
            _ => return Err(fields.unknown(field)),
        }
    }
    if directions == Directions::default() {
        return Err(DecodeError::Missing("direction of a rule"));
    }
    Ok(CompiledRule {
        policy: policy.ok_or(DecodeError::Missing("policy of a rule"))?,
        rule: index,
        directions,
        rank: order.ok_or(DecodeError::Missing("rank of a rule"))?,
        effect: effect.ok_or(DecodeError::Missing("effect of a rule"))?,
        subject: subject.ok_or(DecodeError::Missing("subject of a rule"))?,
        peers: peers.ok_or(DecodeError::Missing("peers of a rule"))?,
        destination,
        traffic: traffic.ok_or(DecodeError::Missing("traffic of a rule"))?,
        layer7,
        log,
    })
}

fn rule_effect(value: Value<'_>) -> Result<RuleEffect> {
    Ok(match value.number("effect")? {
        1 => RuleEffect::Isolate,
        2 => RuleEffect::Decide(Effect::Allow),
        3 => RuleEffect::Decide(Effect::AllowTcp),
        4 => RuleEffect::Decide(Effect::Deny),
        5 => RuleEffect::Decide(Effect::Reject),
        6 => RuleEffect::Decide(Effect::Pass),
        value => return Err(DecodeError::UnknownValue { what: "effect", value }),
    })
}

fn rank(bytes: &[u8]) -> Result<Rank> {
    let mut fields = Fields::of("rank", bytes);
    let (mut stage, mut placed, mut tier, mut priority, mut index) = (None, false, 0, 0.0, 0);
    while let Some((field, value)) = fields.next(&[])? {
        match field {
            1 => {
                stage = Some(match value.number("stage")? {
                    1 => Stage::Tiers,
                    2 => Stage::NetworkPolicy,
                    3 => Stage::Baseline,
                    value => return Err(DecodeError::UnknownValue { what: "stage", value }),
                });
            }
            2 => placed = value.truth("tier")?,
            3 => tier = value.narrow("tier")?,
            4 => priority = value.double("priority")?,
            5 => index = value.narrow("index of a rule")?,
            _ => return Err(fields.unknown(field)),
        }
    }
    if !priority.is_finite() {
        return Err(DecodeError::OutOfRange("priority"));
    }
    let stage = stage.ok_or(DecodeError::Missing("stage"))?;
    Ok(Rank { stage, placed, tier, priority: Priority(priority), index })
}

fn rule_peers(bytes: &[u8]) -> Result<Option<SmallVec<[SetId; 2]>>> {
    let mut fields = Fields::of("peers", bytes);
    let (mut any, mut listed) = (false, None);
    while let Some((field, value)) = fields.next(&[])? {
        match field {
            1 => any = value.truth("peers")?,
            2 => listed = Some(sets(value)?),
            _ => return Err(fields.unknown(field)),
        }
    }
    match (any, listed) {
        (true, None) => Ok(None),
        (true, Some(_)) => Err(DecodeError::Malformed("peers")),
        (false, listed) => Ok(Some(listed.unwrap_or_default())),
    }
}

fn rule_traffic(bytes: &[u8]) -> Result<TrafficMatches> {
    let mut fields = Fields::of("traffic", bytes);
    let (mut any, mut all) = (false, Vec::new());
    while let Some((field, value)) = fields.next(&[2])? {
        match field {
            1 => any = value.truth("traffic")?,
            2 => all.push(traffic_match(value.bytes("traffic")?)?),
            _ => return Err(fields.unknown(field)),
        }
    }
    match (any, all.is_empty()) {
        (true, true) => Ok(TrafficMatches::Any),
        (true, false) => Err(DecodeError::Malformed("traffic")),
        (false, _) => Ok(TrafficMatches::Of(all)),
    }
}

fn traffic_match(bytes: &[u8]) -> Result<TrafficMatch> {
    let mut fields = Fields::of("traffic", bytes);
    let (field, value) = fields.next(&[])?.ok_or(DecodeError::Missing("kind of traffic"))?;
    let traffic = match field {
        1 => ports(value.bytes("ports")?)?,
        2 => icmp(value.bytes("ICMP")?)?,
        3 => igmp(value.bytes("IGMP")?)?,
        4 => named_port(value.bytes("port")?)?,
        5 => TrafficMatch::Unknown(value.text("traffic")?.to_owned()),
        _ => return Err(fields.unknown(field)),
    };
    end(fields, traffic, "traffic")
}

fn ports(bytes: &[u8]) -> Result<TrafficMatch> {
    let mut fields = Fields::of("ports", bytes);
    let (mut own, mut range, mut source) = (None, None, None);
    while let Some((field, value)) = fields.next(&[])? {
        match field {
            1 => own = Some(protocol(value)?),
            2 => range = Some(port_range(value.bytes("ports")?)?),
            3 => source = Some(port_range(value.bytes("ports")?)?),
            _ => return Err(fields.unknown(field)),
        }
    }
    let own = own.ok_or(DecodeError::Missing("protocol"))?;
    Ok(from(source, PortMatch::Numbers(own, range.ok_or(DecodeError::Missing("ports"))?)))
}

fn named_port(bytes: &[u8]) -> Result<TrafficMatch> {
    let mut fields = Fields::of("port", bytes);
    let (mut own, mut name, mut source) = (None, SmolStr::default(), None);
    while let Some((field, value)) = fields.next(&[])? {
        match field {
            1 => own = Some(protocol(value)?),
            2 => name = text(value)?,
            3 => source = Some(port_range(value.bytes("ports")?)?),
            _ => return Err(fields.unknown(field)),
        }
    }
    Ok(from(source, PortMatch::Named(own, name)))
}

fn from(source: Option<PortRange>, port: PortMatch) -> TrafficMatch {
    match source {
        Some(source) => TrafficMatch::From(source, Box::new(port)),
        None => port.into(),
    }
}

fn protocol(value: Value<'_>) -> Result<Protocol> {
    Ok(match value.number("protocol")? {
        1 => Protocol::Tcp,
        2 => Protocol::Udp,
        3 => Protocol::Sctp,
        4 => Protocol::Icmp,
        5 => Protocol::Igmp,
        value => return Err(DecodeError::UnknownValue { what: "protocol", value }),
    })
}

fn port_range(bytes: &[u8]) -> Result<PortRange> {
    let mut fields = Fields::of("ports", bytes);
    let mut range = PortRange { first: 0, last: 0 };
    while let Some((field, value)) = fields.next(&[])? {
        match field {
            1 => range.first = value.narrow("port")?,
            2 => range.last = value.narrow("port")?,
            _ => return Err(fields.unknown(field)),
        }
    }
    if range.first > range.last {
        return Err(DecodeError::OutOfRange("ports"));
    }
    Ok(range)
}

fn icmp(bytes: &[u8]) -> Result<TrafficMatch> {
    let mut fields = Fields::of("ICMP", bytes);
    let mut icmp = IcmpMatch { kind: None, code: None };
    while let Some((field, value)) = fields.next(&[])? {
        match field {
            1 => icmp.kind = Some(value.narrow("type of ICMP")?),
            2 => icmp.code = Some(value.narrow("code of ICMP")?),
            _ => return Err(fields.unknown(field)),
        }
    }
    Ok(TrafficMatch::Icmp(icmp))
}

fn igmp(bytes: &[u8]) -> Result<TrafficMatch> {
    let mut fields = Fields::of("IGMP", bytes);
    let (mut kind, mut group) = (None, None);
    while let Some((field, value)) = fields.next(&[])? {
        match field {
            1 => kind = Some(value.narrow("type of IGMP")?),
            2 => group = Some(address(value)?),
            _ => return Err(fields.unknown(field)),
        }
    }
    Ok(TrafficMatch::Igmp(kind, group))
}

fn condition(bytes: &[u8]) -> Result<Layer7> {
    let mut fields = Fields::of("condition", bytes);
    let (field, value) = fields.next(&[])?.ok_or(DecodeError::Missing("kind of condition"))?;
    let condition = match field {
        1 => {
            let [host, method, path] = texts("HTTP", value.bytes("HTTP")?)?;
            Layer7::Http { host, method, path }
        }
        2 => {
            let [sni] = texts("TLS", value.bytes("TLS")?)?;
            Layer7::Tls { sni }
        }
        _ => return Err(fields.unknown(field)),
    };
    end(fields, condition, "condition")
}

/// Reads a message with nothing but optional texts in its fields from 1.
fn texts<const N: usize>(message: &'static str, bytes: &[u8]) -> Result<[Option<SmolStr>; N]> {
    let mut fields = Fields::of(message, bytes);
    let mut texts = [const { None }; N];
    while let Some((field, value)) = fields.next(&[])? {
        let slot = (field as usize).checked_sub(1).and_then(|at| texts.get_mut(at));
        *slot.ok_or_else(|| fields.unknown(field))? = Some(text(value)?);
    }
    Ok(texts)
}

fn need(bytes: &[u8]) -> Result<Need> {
    let mut fields = Fields::of("need", bytes);
    let (mut set, mut part, mut node) = (None, None, None);
    while let Some((field, value)) = fields.next(&[])? {
        match field {
            1 => set = Some(SetId::new(identifier(value, "set")?)),
            2 => {
                part = Some(match value.number("part")? {
                    1 => Part::Subject,
                    2 => Part::Addresses,
                    value => return Err(DecodeError::UnknownValue { what: "part", value }),
                });
            }
            3 => node = Some(Some(text(value)?)),
            4 if node.is_none() && value.truth("node")? => node = Some(None),
            4 => return Err(DecodeError::Malformed("need")),
            _ => return Err(fields.unknown(field)),
        }
    }
    Ok(Need {
        set: set.ok_or(DecodeError::Missing("set of a need"))?,
        part: part.ok_or(DecodeError::Missing("part of a need"))?,
        node: node.ok_or(DecodeError::Missing("node of a need"))?,
    })
}

fn identifier(value: Value<'_>, what: &'static str) -> Result<NonZeroU32> {
    NonZeroU32::new(value.narrow(what)?).ok_or(DecodeError::OutOfRange(what))
}

fn text(value: Value<'_>) -> Result<SmolStr> {
    Ok(value.text("text")?.into())
}
