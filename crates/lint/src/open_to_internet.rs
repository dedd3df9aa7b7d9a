//! Lint for rules that allow every port from or to the whole internet.
//!
//! One public port is a server's purpose; every port from everywhere undoes the isolation of its pods.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use palisade_analysis::reach::RuleAt;
use palisade_analysis::reach::cells::CellId;
use palisade_analysis::reach::traffics::TrafficId;
use palisade_model::address::Block;
use palisade_model::diagnostic::{Code, Diagnostic, Location, Severity};
use palisade_model::policy::{Action, Direction, Peer, Peers, Placement, Rule};
use palisade_model::ranges::Ranges;
use palisade_model::resolve::GroupMember;
use palisade_model::snapshot::Snapshot;
use palisade_model::traffic::Protocol;

use super::about_rule;
use super::rule_decisions::Decisions;

/// Ingress from the whole internet on every port.
pub static OPEN_INGRESS: Code = Code {
    id: "L0123",
    severity: Severity::Warning,
    title: "a rule that lets the whole internet in on every port",
    explanation: "The rule allows every TCP port from the whole internet: its peers are anybody, or hold `0.0.0.0/0`, `::/0`, or blocks that together are all public addresses of a family (`0.0.0.0/1` and `128.0.0.0/1`), by themselves or in a group, and it has no ports. The pods are isolated, and this rule undoes it; what else their policies allow does not matter any more. An empty `from` is easily written by accident: `from: []` and a missing `from` mean everybody. Name the ports that are meant for the public, or the peers.\n\nA rule for some ports is not reported: a public server has one.",
};

/// Egress to the whole internet on every port.
pub static OPEN_EGRESS: Code = Code {
    id: "L0124",
    severity: Severity::Note,
    title: "a rule that lets pods send anything to the whole internet",
    explanation: "The rule allows every TCP port to the whole internet: its peers are anybody, or hold all public addresses of a family as for L0123, and it has no ports. The pods are isolated for egress, and this rule undoes it. That may be meant, where it is there to say so; whoever gets into such a pod can send what it finds anywhere.",
};

/// IPv4 blocks that are not routed on the internet.
static NOT_PUBLIC_IPV4: LazyLock<Vec<Block>> = LazyLock::new(|| {
    let nets = [
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "224.0.0.0/3",
    ];
    nets.iter().filter_map(|net| Some(Block::new(net.parse().ok()?, []))).collect()
});
/// IPv6 range that is routed on the internet: `2000::/3`.
const PUBLIC_IPV6: (IpAddr, IpAddr) =
    (IpAddr::V6(Ipv6Addr::from_bits(1 << 125)), IpAddr::V6(Ipv6Addr::from_bits((1 << 126) - 1)));

pub(super) fn check(decisions: &mut Decisions<'_>, found: &mut Vec<Diagnostic>) {
    let opens = |at: &RuleAt| {
        let rule = decisions.rule(*at).1;
        rule.action == Action::Allow
            && covers_internet(decisions.snapshot, rule)
            && decisions.is_fully_modelled(*at)
    };
    let all = decisions.rules.iter().filter(|(at, facts)| facts.deciding.is_some() && opens(at));
    let all: Vec<(RuleAt, Vec<u32>)> = all.map(|(at, facts)| (*at, facts.combinations.clone())).collect();
    let tcp = decisions.cells.traffics.space().protocol(Protocol::Tcp);
    let tcp = decisions.cells.traffics.intern(tcp);
    // A Thorium policy is lowered once for every group that has it: reported once by location.
    let mut reported: BTreeSet<(Direction, Option<Location>)> = BTreeSet::new();
    for (at, combinations) in all {
        let (policy, rule) = decisions.rule(at);
        if rule.at.is_some() && reported.contains(&(rule.direction, rule.at.clone())) {
            continue;
        }
        let Some(flow) =
            combinations.into_iter().find_map(|combination| example(decisions, combination, at, tcp))
        else {
            continue;
        };
        reported.insert((rule.direction, rule.at.clone()));
        let (code, message) = match rule.direction {
            Direction::Ingress => {
                (&OPEN_INGRESS, format!("the rule lets the whole internet in on every port, e.g. {flow}"))
            }
            Direction::Egress => (
                &OPEN_EGRESS,
                format!("the rule lets its pods send anything to the whole internet, e.g. {flow}"),
            ),
        };
        let help = match rule.direction {
            Direction::Ingress => {
                "list in `ports` what is meant for the public, or in `from` who may reach them"
            }
            Direction::Egress => "list in `ports` what is needed, or in `to` who may be reached",
        };
        found.push(about_rule(code, policy, rule, "", message).help(help));
    }
}

/// Whether the peers of a rule are any, or hold all public addresses of a family: in one block, except for its exceptions,
/// or in several together.
fn covers_internet(snapshot: &Snapshot, rule: &Rule) -> bool {
    let Peers::Of(peers) = &rule.peers else { return true };
    let mut blocks: Vec<&Block> = Vec::new();
    for peer in peers {
        match peer {
            Peer::Addresses(block) => blocks.push(block),
            Peer::Group(group) => {
                for member in snapshot.group(group).unwrap_or_default() {
                    if let GroupMember::Addresses(own) = member {
                        blocks.extend(own);
                    }
                }
            }
            _ => {}
        }
    }
    if blocks.iter().any(|block| block.cidr().prefix_len() == 0) {
        return true;
    }
    let own = Ranges::of(blocks.iter().copied());
    let four = Ranges::of(blocks.into_iter().chain(&*NOT_PUBLIC_IPV4));
    let covers = |ranges: &Ranges, (first, last): (IpAddr, IpAddr)| {
        ranges.iter().any(|range| range.0 <= first && last <= range.1 && range.1.is_ipv4() == last.is_ipv4())
    };
    covers(&four, (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::BROADCAST.into())) || covers(&own, PUBLIC_IPV6)
}

/// Describes a connection with the internet that is allowed only because of the rule, where it allows all of TCP.
fn example(decisions: &mut Decisions<'_>, combination: u32, at: RuleAt, tcp: TrafficId) -> Option<String> {
    let met = &decisions.combinations[combination as usize];
    let reach = &decisions.reach[met.family as usize];
    // Only the class of addresses that no rule distinguishes is the internet.
    let world = reach.of_address(
        palisade_analysis::reach::combinations::example_outside_address(met.family),
        &decisions.cuts,
    );
    if met.combination.outside.map(|pair| pair.other.0) != Some(world) {
        return None;
    }
    let isolated = reach.is_isolated(&met.combination);
    if !decisions.affords(combination) {
        return None;
    }
    let (_, decided) = decisions.decide(combination, |_| false);
    let own = decided.iter().find(|(_, rule, _)| *rule == Some(at))?.2;
    if decisions.cells.traffics.intersection(own, tcp) != tcp {
        return None;
    }
    // A rule of a tier opens only traffic that later rules would refuse.
    let closed = match decisions.rule(at).0.placement {
        Placement::Union => isolated,
        Placement::Tier { .. } => {
            let (without, _) = decisions.decide(combination, |rule| rule == at);
            without.cell() != CellId::ALL
        }
    };
    if closed { decisions.flow(combination, own, true) } else { None }
}
