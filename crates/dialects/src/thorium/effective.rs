//! Everything that holds for one tool, merged, each line with where it comes from.

use palisade_model::diagnostic::Location;
use palisade_model::policy::Direction;
use palisade_model::traffic::{PortRange, Protocol};
use smol_str::SmolStr;

use super::instance::{Instance, Why};
use super::policy::{Peer, Policy, Ports, Rule, Who};

/// What holds for a tool.
#[derive(Debug)]
pub struct Effective {
    /// Whether Kubernetes runs it; policies hold for no other.
    pub kubernetes: bool,
    /// The policies that its image shows.
    pub shown: Vec<SmolStr>,
    /// The policies that apply.
    pub applied: Vec<Applied>,
    /// Ingress, then egress.
    pub sides: [EffectiveSide; 2],
    /// What of the image cannot be read, if anything: it is isolated then.
    pub unreadable: Option<String>,
}

/// A policy that applies.
#[derive(Debug)]
pub struct Applied {
    /// Why.
    pub why: Why,
    /// Whether it would hold without being attached, too.
    pub forced: bool,
    /// Its name.
    pub name: SmolStr,
    /// Where it is written; nowhere for the default base policy.
    pub at: Option<Location>,
    /// Why Thorium's program does not have it in force, if it has not.
    pub refused: Option<String>,
    /// What of it cannot be read, if anything.
    pub unreadable: Option<String>,
}

/// One direction.
#[derive(Debug)]
pub struct EffectiveSide {
    /// Which one.
    pub direction: Direction,
    /// The policies that restrict it, by their place in [`Effective::applied`].
    pub restricted_by: Vec<usize>,
    /// What is allowed. When nothing restricts the direction everything is.
    pub allowed: Vec<Line>,
}

/// Somebody who may be reached or may reach the tool.
#[derive(Debug)]
pub struct Line {
    /// Who, in words.
    pub who: String,
    /// On what, in words.
    pub traffic: String,
    /// The rules that say so.
    pub origins: Vec<Origin>,
    /// What of the rule cannot be read, if anything: it allows nobody then.
    pub unreadable: Option<String>,
}

/// A rule.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The policy, by its place in [`Effective::applied`].
    pub policy: usize,
    /// The rule's place in its list.
    pub rule: usize,
    /// Where it is written.
    pub at: Option<Location>,
}

/// Everything that holds for a tool; `None` when there is no such tool.
pub fn effective(instance: &Instance, group: &str, tool: &str) -> Option<Effective> {
    let image = instance.image(group, tool)?;
    let reading = instance.reading;
    let all = instance.applied(group, tool);
    let applied = all
        .iter()
        .map(|(why, policy)| Applied {
            why: *why,
            forced: policy.is_forced(reading),
            name: policy.name.clone(),
            at: policy.at.clone(),
            refused: policy.refused.clone().filter(|_| !policy.in_force(reading)),
            unreadable: policy.unreadable(reading).map(ToOwned::to_owned),
        })
        .collect();
    let policies: Vec<(usize, &Policy)> = (all.iter().enumerate())
        .map(|(index, (_, policy))| (index, *policy))
        .filter(|(_, policy)| policy.in_force(reading))
        .collect();
    let sides = [Direction::Ingress, Direction::Egress].map(|direction| {
        let mut side = EffectiveSide { direction, restricted_by: Vec::new(), allowed: Vec::new() };
        for (index, policy) in &policies {
            let Some(rules) = policy.rules(direction, reading) else { continue };
            side.restricted_by.push(*index);
            let closed = policy.unreadable(reading);
            for (place, rule) in rules.iter().enumerate() {
                let origin = Origin { policy: *index, rule: place, at: rule.at.clone() };
                let unreadable = closed.or(rule.unreadable(reading));
                for (who, traffic) in lines(rule, instance, unreadable) {
                    merge(&mut side.allowed, who, traffic, &origin, unreadable);
                }
            }
        }
        side
    });
    let shown = instance.shown(group, tool).into_iter().cloned().collect();
    let unreadable = image.unreadable.clone();
    Some(Effective { kubernetes: image.kubernetes, shown, applied, sides, unreadable })
}

fn lines(rule: &Rule, instance: &Instance, unreadable: Option<&str>) -> Vec<(String, String)> {
    if unreadable.is_some() {
        return vec![("nobody".to_owned(), "fails closed".to_owned())];
    }
    let meaning = rule.meaning(instance.reading);
    let traffic = traffic(&meaning.ports);
    let Who::Of(peers) = &meaning.who else { return vec![("anybody".to_owned(), traffic)] };
    if peers.is_empty() {
        return vec![("nobody".to_owned(), "the rule names nobody".to_owned())];
    }
    // Address blocks of one rule read best together.
    let blocks: Vec<String> =
        peers.iter().filter(|peer| matches!(peer, Peer::Addresses(_))).map(ToString::to_string).collect();
    let others = peers.iter().filter(|peer| !matches!(peer, Peer::Addresses(_))).map(ToString::to_string);
    let blocks = (!blocks.is_empty()).then(|| blocks.join("; "));
    blocks.into_iter().chain(others).map(|who| (who, traffic.clone())).collect()
}

/// Adds a line, or an origin to the line that says the same.
fn merge(lines: &mut Vec<Line>, who: String, traffic: String, origin: &Origin, unreadable: Option<&str>) {
    match lines.iter_mut().find(|line| line.who == who && line.traffic == traffic && unreadable.is_none()) {
        Some(line) => line.origins.push(origin.clone()),
        None => lines.push(Line {
            who,
            traffic,
            origins: vec![origin.clone()],
            unreadable: unreadable.map(ToOwned::to_owned),
        }),
    }
}

/// `tcp/80`, `tcp, udp, sctp 1000-1006`, `all traffic`.
fn traffic(ports: &[Ports]) -> String {
    if ports.is_empty() {
        return "all traffic".to_owned();
    }
    let mut ranges: Vec<(PortRange, Vec<Protocol>)> = Vec::new();
    for port in ports {
        match ranges.iter_mut().find(|(range, _)| *range == port.range) {
            Some((_, protocols)) if !protocols.contains(&port.protocol) => protocols.push(port.protocol),
            Some(_) => {}
            None => ranges.push((port.range, vec![port.protocol])),
        }
    }
    let one = |(range, protocols): &(PortRange, Vec<Protocol>)| match protocols.as_slice() {
        [only] => format!("{only}/{range}"),
        several => {
            let names: Vec<String> = several.iter().map(ToString::to_string).collect();
            format!("{} {range}", names.join("+"))
        }
    };
    ranges.iter().map(one).collect::<Vec<_>>().join(", ")
}
