//! Views and deltas to bytes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_model::diagnostic::Location;
use palisade_model::pipeline::Effect;
use palisade_model::policy::{Dialect, Direction, Layer7, Object, PortMatch, TrafficMatch, TrafficMatches};
use palisade_model::resolve::Rank;
use palisade_model::snapshot::Stage;
use palisade_model::traffic::{PortRange, Protocol};

use super::VERSION;
use super::protobuf::Writer;
use crate::delta::{
    Change, CompiledRule, Delta, Member, MemberKind, Need, Origin, Part, RuleEffect, RuleOrigin, SetId,
};
use crate::endpoints::number;
use crate::view::View;

impl View {
    /// Returns the frame of the whole view. Equal views have equal frames.
    pub fn encode(&self) -> Vec<u8> {
        frame(2, &self.as_delta())
    }
}

impl Delta {
    /// Returns the frame of the delta. Equal deltas have equal frames.
    pub fn encode(&self) -> Vec<u8> {
        frame(3, self)
    }
}

fn frame(body: u32, delta: &Delta) -> Vec<u8> {
    let mut out = Writer::default();
    out.number(1, u64::from(VERSION));
    out.message(body, |out| put_delta(out, delta));
    out.into_bytes()
}

/// The members of a delta, each once, by their first use.
#[derive(Default)]
struct Members<'a> {
    indices: BTreeMap<&'a Member, u32>,
    list: Vec<&'a Member>,
}

impl<'a> Members<'a> {
    fn of(delta: &'a Delta) -> Self {
        let mut members = Members::default();
        for change in &delta.changes {
            match change {
                Change::SetAdded(_, _, own) => own.iter().for_each(|member| members.add(member)),
                Change::MembersMoved(moves) => {
                    moves.iter().flat_map(|moved| &moved.members).for_each(|member| members.add(member));
                }
                _ => {}
            }
        }
        members
    }

    fn add(&mut self, member: &'a Member) {
        let next = number(self.list.len());
        self.indices.entry(member).or_insert_with(|| {
            self.list.push(member);
            next
        });
    }

    fn index(&self, member: &Member) -> u32 {
        self.indices.get(member).copied().unwrap_or_default()
    }
}

fn put_delta(out: &mut Writer, delta: &Delta) {
    let members = Members::of(delta);
    out.number(1, delta.epoch);
    for member in &members.list {
        out.message(2, |out| put_member(out, member));
    }
    for change in &delta.changes {
        out.message(3, |out| put_change(out, change, &members));
    }
}

fn put_change(out: &mut Writer, change: &Change, members: &Members<'_>) {
    match change {
        Change::PolicyApplied(id, origin) => out.message(1, |out| {
            out.number(1, id.get().into());
            put_origin(out, origin);
        }),
        Change::SetAdded(id, selection, own) => out.message(2, |out| {
            out.number(1, id.get().into());
            out.bytes(2, &selection.encode());
            out.packed(3, own.iter().map(|member| members.index(member)));
        }),
        Change::RuleAdded(id, rule) => out.message(3, |out| {
            out.number(1, id.get().into());
            out.message(2, |out| put_rule(out, rule));
        }),
        Change::NeedAdded(need) => out.message(4, |out| put_need(out, need)),
        Change::MembersMoved(moves) => out.message(5, |out| {
            for moved in moves {
                out.message(1, |out| {
                    out.packed(1, moved.members.iter().map(|member| members.index(member)));
                    out.packed(2, moved.joined.iter().copied().map(SetId::get));
                    out.packed(3, moved.left.iter().copied().map(SetId::get));
                });
            }
        }),
        Change::NeedRemoved(need) => out.message(6, |out| put_need(out, need)),
        Change::RuleRemoved(id) => out.present(7, id.get().into()),
        Change::SetRemoved(id) => out.present(8, id.get().into()),
        Change::PolicyRemoved(id) => out.present(9, id.get().into()),
    }
}

fn put_origin(out: &mut Writer, Origin { object, rules }: &Origin) {
    out.message(2, |out| put_object(out, object));
    for RuleOrigin { direction, index, name, at } in rules {
        out.message(3, |out| {
            out.number(1, direction_code(*direction));
            out.number(2, u64::from(*index));
            out.optional(3, name.as_deref());
            put_location(out, 4, at.as_ref());
        });
    }
}

fn put_object(out: &mut Writer, object: &Object) {
    let Object { kind, namespace, name, group, version, generation, at, dialect } = object;
    out.text(1, kind);
    out.optional(2, namespace.as_deref());
    out.text(3, name);
    out.text(4, group);
    out.text(5, version);
    out.number(6, generation.cast_unsigned());
    put_location(out, 7, at.as_ref());
    out.number(
        8,
        match dialect {
            Dialect::NetworkPolicy => 1,
            Dialect::NetworkPolicy2016 => 2,
            Dialect::AdminNetworkPolicy => 3,
            Dialect::ClusterNetworkPolicy => 4,
            Dialect::Antrea => 5,
            Dialect::Antrea2020 => 6,
            Dialect::Thorium => 7,
        },
    );
}

fn put_location(out: &mut Writer, field: u32, at: Option<&Location>) {
    if let Some(Location { file, line, column, width }) = at {
        out.message(field, |out| {
            out.text(1, file);
            out.number(2, u64::from(*line));
            out.number(3, u64::from(*column));
            out.number(4, u64::from(*width));
        });
    }
}

fn put_member(out: &mut Writer, Member { kind, namespace, name, addresses, node }: &Member) {
    let (code, workload) = match kind {
        MemberKind::Pod => (1, None),
        MemberKind::Template(workload) => (2, Some(workload.as_str())),
        MemberKind::Entity => (3, None),
        MemberKind::Node => (4, None),
        MemberKind::Service => (5, None),
        MemberKind::Address => (6, None),
    };
    out.number(1, code);
    out.optional(2, workload);
    out.text(3, namespace);
    out.text(4, name);
    for address in addresses {
        put_address(out, 5, *address);
    }
    out.optional(6, node.as_deref());
}

fn put_address(out: &mut Writer, field: u32, address: IpAddr) {
    match address {
        IpAddr::V4(address) => out.bytes(field, &address.octets()),
        IpAddr::V6(address) => out.bytes(field, &address.octets()),
    }
}

fn put_rule(out: &mut Writer, rule: &CompiledRule) {
    let CompiledRule {
        policy,
        rule: index,
        directions,
        rank,
        effect,
        subject,
        peers,
        destination,
        traffic,
        layer7,
        log,
    } = rule;
    out.number(1, policy.get().into());
    if let Some(index) = index {
        out.present(2, u64::from(*index));
    }
    out.number(3, u64::from(directions.ingress));
    out.number(4, u64::from(directions.egress));
    out.message(5, |out| put_rank(out, *rank));
    out.number(
        6,
        match effect {
            RuleEffect::Isolate => 1,
            RuleEffect::Decide(Effect::Allow) => 2,
            RuleEffect::Decide(Effect::AllowTcp) => 3,
            RuleEffect::Decide(Effect::Deny) => 4,
            RuleEffect::Decide(Effect::Reject) => 5,
            RuleEffect::Decide(Effect::Pass) => 6,
        },
    );
    out.number(7, subject.get().into());
    out.message(8, |out| match peers {
        None => out.number(1, 1),
        Some(sets) => out.packed(2, sets.iter().copied().map(SetId::get)),
    });
    if let Some(set) = destination {
        out.present(9, set.get().into());
    }
    out.message(10, |out| match traffic {
        TrafficMatches::Any => out.number(1, 1),
        TrafficMatches::Of(all) => all.iter().for_each(|one| out.message(2, |out| put_traffic(out, one))),
    });
    for condition in layer7 {
        out.message(11, |out| put_condition(out, condition));
    }
    out.optional(12, log.as_deref());
}

fn put_rank(out: &mut Writer, Rank { stage, placed, tier, priority, index }: Rank) {
    out.number(
        1,
        match stage {
            Stage::Tiers => 1,
            Stage::NetworkPolicy => 2,
            Stage::Baseline => 3,
        },
    );
    out.number(2, u64::from(placed));
    out.number(3, u64::from(tier));
    out.double(4, priority.0);
    out.number(5, u64::from(index));
}

fn put_traffic(out: &mut Writer, traffic: &TrafficMatch) {
    match traffic {
        TrafficMatch::Ports(protocol, ports) => put_ports(out, *protocol, *ports, None),
        TrafficMatch::Named(protocol, name) => put_named(out, *protocol, name, None),
        TrafficMatch::From(source, port) => match &**port {
            PortMatch::Numbers(protocol, ports) => put_ports(out, *protocol, *ports, Some(*source)),
            PortMatch::Named(protocol, name) => put_named(out, *protocol, name, Some(*source)),
        },
        TrafficMatch::Icmp(icmp) => out.message(2, |out| {
            for (field, value) in [(1, icmp.kind), (2, icmp.code)] {
                if let Some(value) = value {
                    out.present(field, u64::from(value));
                }
            }
        }),
        TrafficMatch::Igmp(kind, group) => out.message(3, |out| {
            if let Some(kind) = kind {
                out.present(1, u64::from(*kind));
            }
            if let Some(group) = group {
                put_address(out, 2, *group);
            }
        }),
        TrafficMatch::Unknown(text) => out.bytes(5, text.as_bytes()),
    }
}

fn put_ports(out: &mut Writer, protocol: Protocol, ports: PortRange, source: Option<PortRange>) {
    out.message(1, |out| {
        out.number(1, protocol_code(protocol));
        put_range(out, 2, ports);
        source.into_iter().for_each(|source| put_range(out, 3, source));
    });
}

fn put_named(out: &mut Writer, protocol: Option<Protocol>, name: &str, source: Option<PortRange>) {
    out.message(4, |out| {
        protocol.into_iter().for_each(|protocol| out.present(1, protocol_code(protocol)));
        out.text(2, name);
        source.into_iter().for_each(|source| put_range(out, 3, source));
    });
}

fn put_range(out: &mut Writer, field: u32, PortRange { first, last }: PortRange) {
    out.message(field, |out| {
        out.number(1, u64::from(first));
        out.number(2, u64::from(last));
    });
}

fn put_condition(out: &mut Writer, condition: &Layer7) {
    match condition {
        Layer7::Http { host, method, path } => out.message(1, |out| {
            out.optional(1, host.as_deref());
            out.optional(2, method.as_deref());
            out.optional(3, path.as_deref());
        }),
        Layer7::Tls { sni } => out.message(2, |out| out.optional(1, sni.as_deref())),
    }
}

fn put_need(out: &mut Writer, Need { set, part, node }: &Need) {
    out.number(1, set.get().into());
    out.number(
        2,
        match part {
            Part::Subject => 1,
            Part::Addresses => 2,
        },
    );
    match node {
        Some(node) => out.bytes(3, node.as_bytes()),
        None => out.present(4, 1),
    }
}

fn direction_code(direction: Direction) -> u64 {
    match direction {
        Direction::Egress => 1,
        Direction::Ingress => 2,
    }
}

fn protocol_code(protocol: Protocol) -> u64 {
    match protocol {
        Protocol::Tcp => 1,
        Protocol::Udp => 2,
        Protocol::Sctp => 3,
        Protocol::Icmp => 4,
        Protocol::Igmp => 5,
    }
}
