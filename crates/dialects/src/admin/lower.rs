//! What both versions share on the way to the rule language. Lowering never fails: what cannot be read fails closed.
//!
//! A rule in which something cannot be read has one peer, the unknown one: a rule that allows allows nobody then, and any
//! other denies everybody. So does every rule of a policy whose subject, place or spec cannot be read, and a subject
//! that cannot be read is everybody.

use std::sync::Arc;

use palisade_model::address::Block;
use palisade_model::label::Selector;
use palisade_model::policy::{
    Action, Dialect, Direction, DomainName, Namespaces, Peer, Peers, Placement, PodSet, Policy, Priority,
    Rule, Subject, Tier, TrafficMatch, TrafficMatches,
};
use palisade_model::traffic::{PortRange, Protocol};
use smol_str::SmolStr;

use super::crd::{is_cidr, is_domain_name};
use crate::apimachinery::cidr;
use crate::apimachinery::field::Path;
use crate::decode::Reader;
use crate::definition::selector::LabelSelector;
use crate::definition::typed::{Text, Texts, Whole};
use crate::object::Header;

/// A policy of any of the kinds, in parts.
#[derive(Debug)]
pub struct Draft {
    /// What cannot be read in the object or its spec.
    pub unreadable: Option<String>,
    /// Its tier.
    pub tier: Tier,
    /// Its place in the tier.
    pub priority: Result<Priority, String>,
    /// Whom it applies to.
    pub subject: Result<PodSet, String>,
    /// The rules for what comes in.
    pub ingress: Vec<RuleDraft>,
    /// The rules for what goes out.
    pub egress: Vec<RuleDraft>,
}

/// A rule, in parts.
#[derive(Debug)]
pub struct RuleDraft {
    /// Its name.
    pub name: Option<SmolStr>,
    /// What it does, or the words for what it says instead.
    pub action: Result<Action, String>,
    /// Who is at the other end.
    pub peers: Vec<Peer>,
    /// What is carried.
    pub traffic: TrafficMatches,
    /// What cannot be read in the rule itself.
    pub unreadable: Option<String>,
}

/// A rule of any of the kinds, which name their fields alike: `draft!(rule, ACTIONS, from: ingress_peer, ports: port)`.
macro_rules! draft {
    ($rule:expr, $words:expr, $peers:ident: $peer:expr, $traffic:ident: $one:expr) => {
        $crate::admin::lower::RuleDraft {
            name: $rule.name.clone().map(|name| name.0),
            action: $crate::admin::lower::action($rule.action.as_ref(), $words),
            peers: $crate::admin::lower::peers($rule.$peers.as_deref(), stringify!($peers), |peer| {
                $peer(peer)
            }),
            traffic: $crate::admin::lower::traffic($rule.$traffic.as_deref(), stringify!($traffic), |one| {
                $one(one)
            }),
            unreadable: $rule.unreadable.clone(),
        }
    };
}
pub(crate) use draft;

// === impl Draft ===

impl Draft {
    /// The policy.
    pub fn finish(mut self, dialect: Dialect, header: &Header, reader: &Reader<'_>) -> Policy {
        let mut unreadable = self.unreadable;
        // What cannot be read may be the rules of a direction that seems to have none (`ingres:`), and those may have
        // denied anything.
        if let Some(why) = &unreadable {
            for list in [&mut self.ingress, &mut self.egress] {
                if list.is_empty() {
                    list.push(RuleDraft::unreadable(why.clone()));
                }
            }
        }
        let subject = self.subject.unwrap_or_else(|why| {
            unreadable.get_or_insert(why);
            PodSet::everything()
        });
        // Without a place it comes first, so that nothing comes before what it denies.
        let priority = self.priority.unwrap_or_else(|why| {
            unreadable.get_or_insert(why);
            Priority(0.0)
        });
        let subjects: Arc<[Subject]> = Arc::new([subject.into()]);
        let mut rules = Vec::with_capacity(self.ingress.len() + self.egress.len());
        let spec = Path::new("spec");
        for (direction, drafts) in [(Direction::Ingress, self.ingress), (Direction::Egress, self.egress)] {
            let path = spec.child(direction.as_str());
            for (index, draft) in drafts.into_iter().enumerate() {
                let unreadable = unreadable.clone().or(draft.unreadable).or(draft.action.clone().err());
                let (peers, traffic) = match unreadable {
                    Some(why) => (vec![Peer::Unknown(why)], TrafficMatches::Any),
                    None => (draft.peers, draft.traffic),
                };
                rules.push(Rule {
                    direction,
                    index: u32::try_from(index).unwrap_or(u32::MAX),
                    name: draft.name,
                    subjects: Arc::clone(&subjects),
                    action: draft.action.unwrap_or(Action::Deny),
                    peers: Peers::Of(peers),
                    traffic,
                    layer7: Vec::new(),
                    log: None,
                    at: Some(reader.locate(&path.index(index))),
                });
            }
        }
        let placement = Placement::Tier { tier: self.tier, priority };
        Policy { object: header.origin(dialect), placement, isolations: Vec::new(), rules, unreadable }
    }
}

// === impl RuleDraft ===

impl RuleDraft {
    /// A rule that stands for all that may have been written where nothing can be read.
    pub fn unreadable(why: String) -> Self {
        RuleDraft {
            name: None,
            action: Ok(Action::Deny),
            peers: Vec::new(),
            traffic: TrafficMatches::Any,
            unreadable: Some(why),
        }
    }
}

/// The one alternative that is written; the words for it when there is none, or more than one.
pub fn one_of<T>(
    what: &str,
    unreadable: &Option<String>,
    alternatives: impl IntoIterator<Item = Option<T>>,
) -> Result<T, String> {
    if let Some(why) = unreadable {
        return Err(why.clone());
    }
    let mut written = alternatives.into_iter().flatten();
    match (written.next(), written.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(format!("{what} without any field")),
        (Some(_), Some(_)) => Err(format!("{what} with more than one field")),
    }
}

/// Priority of a policy in its tier. One that is missing is 0, as decoders have it, which the API allows.
pub fn priority(written: Option<&Whole>) -> Result<Priority, String> {
    match written.map_or(0, |Whole(number)| *number) {
        number @ 0..=1000 => Ok(Priority(number as f64)),
        number => Err(format!("priority {number}")),
    }
}

/// What a rule does: one of the words of its API.
pub fn action(written: Option<&Text>, words: &[(&str, Action)]) -> Result<Action, String> {
    let word = written.map_or("", |text| text.as_str());
    let known = words.iter().find(|(known, _)| *known == word);
    known.map(|(_, action)| *action).ok_or_else(|| format!("action {word:?}"))
}

/// Lowers the selector of field `name`. One that is missing is the empty selector, whether the API requires it or not:
/// that is what decoders make of it, and failing closed is for what has no reading.
pub fn selector(written: Option<&LabelSelector>, name: &str) -> Result<Selector, String> {
    let lower = |selector: &LabelSelector| selector.lower().map_err(|why| format!("{name}: {why}"));
    written.map_or(Ok(Selector::everything()), lower)
}

/// The one peer that is written, or the unknown one.
pub fn one_peer<const N: usize>(
    unreadable: &Option<String>,
    alternatives: [Option<Vec<Peer>>; N],
) -> Vec<Peer> {
    one_of("a peer", unreadable, alternatives).unwrap_or_else(|why| vec![Peer::Unknown(why)])
}

/// Pods of namespaces, as a peer.
pub fn pods(set: Result<PodSet, String>) -> Vec<Peer> {
    vec![set.map_or_else(Peer::Unknown, Peer::Pods)]
}

/// All pods of these namespaces.
pub fn all_pods(namespaces: Namespaces) -> PodSet {
    PodSet::new(namespaces, Selector::everything())
}

/// `nodes`.
pub fn nodes(written: &LabelSelector) -> Vec<Peer> {
    vec![written.lower().map_or_else(Peer::Unknown, Peer::Nodes)]
}

/// `networks`, each a peer. What the API does not take for a CIDR is not read, even where it could be guessed.
pub fn networks(written: &Texts) -> Vec<Peer> {
    let block = |text: &SmolStr| match cidr::network(text).filter(|_| is_cidr(text)) {
        Some(network) => Peer::Addresses(Block::new(network, [])),
        None => Peer::Unknown(format!("{text:?} is no CIDR")),
    };
    some(written.0.iter().map(block).collect(), "networks")
}

/// `domainNames`.
pub fn domain_names(written: &Texts) -> Vec<Peer> {
    let (good, bad): (Vec<&SmolStr>, Vec<&SmolStr>) = written.0.iter().partition(|text| is_domain_name(text));
    let mut peers: Vec<Peer> =
        bad.iter().map(|text| Peer::Unknown(format!("{text:?} is no DNS name"))).collect();
    if !good.is_empty() {
        peers.push(Peer::Names(good.iter().map(|text| DomainName::new(text)).collect()));
    }
    some(peers, "domainNames")
}

/// The peers of a list that may not be empty: nobody is not what an empty one was written for.
pub fn some(peers: Vec<Peer>, name: &str) -> Vec<Peer> {
    if peers.is_empty() { vec![Peer::Unknown(format!("no {name}"))] } else { peers }
}

/// The peers of a rule.
pub fn peers<P>(written: Option<&[P]>, name: &str, peer: impl Fn(&P) -> Vec<Peer>) -> Vec<Peer> {
    some(written.unwrap_or_default().iter().flat_map(peer).collect(), name)
}

/// The traffic of a rule: any when nothing is said. An empty list is neither that nor the opposite.
pub fn traffic<P>(
    written: Option<&[P]>,
    name: &str,
    entry: impl Fn(&P) -> Result<TrafficMatch, String>,
) -> TrafficMatches {
    match written {
        None => TrafficMatches::Any,
        Some([]) => TrafficMatches::Of(vec![TrafficMatch::Unknown(format!("no {name}"))]),
        Some(list) => {
            let lower = |one| entry(one).unwrap_or_else(TrafficMatch::Unknown);
            TrafficMatches::Of(list.iter().map(lower).collect())
        }
    }
}

/// Ports of a protocol, both ends included.
pub fn ports(
    protocol: Protocol,
    first: Option<&Whole>,
    last: Option<&Whole>,
) -> Result<TrafficMatch, String> {
    let (Some(Whole(first)), Some(Whole(last))) = (first, last) else { return Err("no port".to_owned()) };
    match (u16::try_from(*first), u16::try_from(*last)) {
        (Ok(first), Ok(last)) if 0 < first && first <= last => {
            Ok(TrafficMatch::Ports(protocol, PortRange { first, last }))
        }
        _ => Err(format!("ports {first} to {last}")),
    }
}
