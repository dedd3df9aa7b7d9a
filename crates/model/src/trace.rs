//! The reasoning behind a verdict, as data: every stage, what applied there, which rule decided, and why the ones
//! before it did not match.
//!
//! Nothing here decides anything: the evaluator has already said no when a reason is looked for. Reasons are finished
//! sentences with a [`Cause`] beside them, so that people and programs read the same facts.

use std::sync::Arc;

use smol_str::SmolStr;

use crate::address::{Family, NotInBlock};
use crate::diagnostic::Location;
use crate::flow::{Flow, Party, Who};
use crate::matching::{Context, Endpoint};
use crate::policy::{Action, Direction, Layer7, Object, Peer, Peers, Rule, TrafficMatch, TrafficMatches};
use crate::traffic::PortRange;

/// What becomes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// It is let through.
    Allow,
    /// It is dropped silently.
    Deny,
    /// It is refused with an answer.
    Reject,
}

/// A verdict with all of its reasons.
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// The connection.
    pub flow: Flow,
    /// What becomes of it.
    pub verdict: Verdict,
    /// What the source's side says.
    pub egress: Side,
    /// What the destination's side says.
    pub ingress: Side,
}

/// One direction of one endpoint.
#[derive(Debug, Clone)]
pub struct Side {
    /// Which direction.
    pub direction: Direction,
    /// What this side says.
    pub verdict: Verdict,
    /// Why.
    pub because: Because,
    /// The stages that were asked, in order.
    pub stages: Vec<StageTrace>,
}

/// What decided a side.
#[derive(Debug, Clone)]
pub enum Because {
    /// Policies have no say.
    Exempt(Exemption),
    /// A rule.
    Rule(Decision),
    /// The pod is isolated and no rule allows it.
    Isolation {
        /// Who isolates it; at least one.
        by: Vec<Arc<Object>>,
    },
    /// No policy had anything to say.
    Default,
}

/// Why policies have no say about one end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exemption {
    /// It is an address outside the cluster.
    Outside,
    /// It is a node.
    Node,
    /// It is a pod in its node's network.
    HostNetwork,
    /// It is a pod that reaches its own address.
    OwnAddress,
    /// It is a pod that its own node reaches.
    OwnNode,
    /// It is IPv6 neighbour discovery, without which there is no IPv6.
    NeighbourDiscovery,
}

/// A rule that decided.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The policy.
    pub object: Arc<Object>,
    /// The rule.
    pub rule: RuleRef,
    /// What it did. A Deny that came from failing closed says so in `failed_closed`.
    pub action: Action,
    /// Set when the rule could not be read and was taken for a deny: what could not be read.
    pub failed_closed: Option<String>,
    /// What the connection must carry, on layer 7, for an Allow to hold: any of these, or anything when there is none.
    pub conditions: Vec<Layer7>,
    /// In union stages: the other policies that allow it as well.
    pub also: Vec<Arc<Object>>,
    /// The stage it stands in.
    pub stage: StageName,
}

/// A rule of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleRef {
    /// Its direction's list and place there.
    pub direction: Direction,
    /// Its place in that list.
    pub index: u32,
    /// Its name.
    pub name: Option<SmolStr>,
    /// Where it is written.
    pub at: Option<Location>,
}

/// A stage as people know it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum StageName {
    /// A tier: number and name.
    Tier(u8, SmolStr),
    /// No tier: policies name one that does not exist.
    NoTier(SmolStr),
    /// The NetworkPolicy stage.
    NetworkPolicy,
}

/// What happened in a stage.
#[derive(Debug, Clone)]
pub struct StageTrace {
    /// Which stage.
    pub stage: StageName,
    /// How it ended.
    pub outcome: StageOutcome,
    /// In the NetworkPolicy stage: who isolates the pod.
    pub isolated_by: Vec<Arc<Object>>,
    /// Those of them that cannot be read as a whole, and what of them cannot.
    pub unreadable: Vec<(Arc<Object>, String)>,
    /// The rules that were asked, in order.
    pub steps: Vec<Step>,
    /// Policies that stand here and do not apply to the pod.
    pub bystanders: Vec<Bystander>,
}

/// How a stage ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageOutcome {
    /// Nothing matched: on to the next stage.
    NoMatch,
    /// The pod is not isolated: on to the next stage.
    NotIsolated,
    /// A Pass rule matched: the other tiers before the next stage are left out.
    Passed,
    /// The stage decided.
    Decided(Verdict),
}

/// One rule that was asked.
#[derive(Debug, Clone)]
pub struct Step {
    /// The policy.
    pub object: Arc<Object>,
    /// The rule.
    pub rule: RuleRef,
    /// Its action.
    pub action: Action,
    /// What came of it.
    pub result: StepResult,
}

/// What came of asking a rule.
#[derive(Debug, Clone)]
pub enum StepResult {
    /// It matched.
    Matched,
    /// It did not.
    NotMatched {
        /// On which count.
        cause: Cause,
        /// In words.
        why: String,
        /// Whether it is the only count: everything else about the rule fits.
        only: bool,
    },
    /// It holds something that cannot be read: an Allow rule then matches nothing, any other denies.
    FailedClosed {
        /// What cannot be read.
        why: String,
    },
}

/// On which count a rule does not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The other end is not one of the peers.
    Peer,
    /// The other end's address is of another family than all the blocks.
    Family,
    /// The protocol.
    Protocol,
    /// The port.
    Port,
}

/// A policy that does not apply to the pod.
#[derive(Debug, Clone)]
pub struct Bystander {
    /// The policy.
    pub object: Arc<Object>,
    /// Whom it applies to, in words.
    pub applies_to: String,
}

// === impl Verdict ===

impl Verdict {
    /// `allow`, `deny` or `reject`.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Allow => "allow",
            Verdict::Deny => "deny",
            Verdict::Reject => "reject",
        }
    }

    /// Of both sides: the source's refusal comes first, as the packet meets it first.
    pub fn of_both(egress: Verdict, ingress: Verdict) -> Verdict {
        if egress == Verdict::Allow { ingress } else { egress }
    }
}

// === impl Evaluation ===

impl Evaluation {
    /// What the connection must carry, on layer 7, for an allowance to hold; each side has a list of its own, of which one
    /// must hold. Empty when the verdict holds whatever it carries.
    pub fn conditions(&self) -> Vec<&[Layer7]> {
        let sides = [&self.egress, &self.ingress].into_iter().filter(|_| self.verdict == Verdict::Allow);
        sides.map(|side| side.because.conditions()).filter(|conditions| !conditions.is_empty()).collect()
    }

    /// The objects that decided it, on either side: of the rule that hit and of all that would have in a union, or of
    /// all that isolate.
    pub fn decided_by(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.egress.because.objects().chain(self.ingress.because.objects())
    }
}

// === impl Because ===

impl Because {
    /// What the connection must carry, on layer 7, for an allowance to hold: any of these.
    pub fn conditions(&self) -> &[Layer7] {
        match self {
            Because::Rule(decision) => &decision.conditions,
            _ => &[],
        }
    }

    /// The objects that decided.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        let (first, rest): (Option<&Arc<Object>>, &[Arc<Object>]) = match self {
            Because::Rule(decision) => (Some(&decision.object), &decision.also),
            Because::Isolation { by } => (None, by),
            _ => (None, &[]),
        };
        first.into_iter().chain(rest)
    }
}

// === impl StageName ===

impl std::fmt::Display for StageName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StageName::Tier(number, name) => write!(f, "{name} ({number})"),
            StageName::NoTier(name) => write!(f, "{name} (no such tier)"),
            StageName::NetworkPolicy => f.write_str("NetworkPolicy"),
        }
    }
}

// === impl RuleRef ===

impl From<&Rule> for RuleRef {
    fn from(rule: &Rule) -> Self {
        RuleRef { direction: rule.direction, index: rule.index, name: rule.name.clone(), at: rule.at.clone() }
    }
}

impl std::fmt::Display for RuleRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} rule {}", self.direction, self.index)?;
        match &self.name {
            Some(name) => write!(f, " {name:?}"),
            None => Ok(()),
        }
    }
}

// === impl Cause ===

impl Cause {
    /// `peer`, `family`, `protocol` or `port`.
    pub fn as_str(self) -> &'static str {
        match self {
            Cause::Peer => "peer",
            Cause::Family => "family",
            Cause::Protocol => "protocol",
            Cause::Port => "port",
        }
    }
}

// === reasons ===

impl Context<'_> {
    /// Why a rule does not match a connection, or what in it cannot be read.
    pub(crate) fn reason(&self, rule: &Rule, subject: Endpoint, peer: Party, flow: &Flow) -> StepResult {
        if let Some(what) = self.unknown(rule) {
            return StepResult::FailedClosed { why: what.to_owned() };
        }
        if !self.peers(&rule.peers, peer, subject, flow) {
            let (cause, why) = self.why_not_peer(&rule.peers, peer, subject);
            return StepResult::NotMatched { cause, why, only: self.traffics(&rule.traffic, flow) };
        }
        if !self.traffics(&rule.traffic, flow) {
            let (cause, why) = self.why_not_traffic(&rule.traffic, flow);
            return StepResult::NotMatched { cause, why, only: true };
        }
        StepResult::Matched
    }

    fn why_not_peer(&self, peers: &Peers, party: Party, subject: Endpoint) -> (Cause, String) {
        let peers = match peers {
            Peers::Any => &[],
            Peers::Of(peers) => peers.as_slice(),
        };
        let who = self.snapshot.describe(party);
        match peers {
            [] => (Cause::Peer, "its list of peers is empty, so it matches nobody".to_owned()),
            [only] => self.why_not_one_peer(only, party, subject),
            several => {
                let blocks = several.iter().filter(|peer| matches!(peer, Peer::Addresses(_)));
                let other_family =
                    |peer: &Peer| self.why_not_one_peer(peer, party, subject).0 == Cause::Family;
                let cause = if several.len() == blocks.count() && several.iter().all(other_family) {
                    Cause::Family
                } else {
                    Cause::Peer
                };
                (cause, format!("{who} is none of {}", listed(several, "peers")))
            }
        }
    }

    fn why_not_one_peer(&self, peer: &Peer, party: Party, subject: Endpoint) -> (Cause, String) {
        let who = self.snapshot.describe(party);
        let reason = match (peer, party.who) {
            (Peer::Addresses(block), _) => return self.why_not_block(block, party, &who),
            (Peer::Pods(_), Who::Outside) => format!("{who} is outside the cluster, not {peer}"),
            (Peer::Pods(_), Who::Node(_)) => format!("{who} is not among {peer}"),
            (Peer::Pods(_), Who::Pod(pod)) if self.snapshot.pods()[pod].host_network => {
                format!("{who} is in its node's network, where no pod selector finds it")
            }
            (Peer::Pods(set), Who::Pod(pod)) => {
                let labels = &self.snapshot.pods()[pod].labels;
                let in_namespace = crate::policy::PodSet { pods: Default::default(), ..set.clone() };
                if self.holds(&in_namespace, pod, subject)
                    && let Some(unmet) = set.pods.unmet(labels)
                {
                    let has = match labels.get(&unmet.key) {
                        Some(value) => format!("its {} is {value}", unmet.key),
                        None => format!("it has no label {}", unmet.key),
                    };
                    format!("{who} is not among {set}: {has}")
                } else {
                    format!("{who} is not among {set}")
                }
            }
            (Peer::Nodes(_), Who::Node(_)) => format!("{who} is not among {peer}"),
            (Peer::Nodes(_), _) => format!("{who} is no node"),
            (Peer::Names(_), _) => {
                format!("{who} is not known to be {peer}")
            }
            (Peer::Service(_), _) => format!("the connection does not go through {peer}"),
            (Peer::Group(_), _) => format!("{who} is not in {peer}"),
            (Peer::Unknown(what), _) => format!("unknown peer: {what}"),
        };
        (Cause::Peer, reason)
    }

    fn why_not_block(&self, block: &crate::address::Block, party: Party, who: &str) -> (Cause, String) {
        let Some(address) = party.address else {
            return (Cause::Peer, format!("{who} has no address yet, so no block holds it"));
        };
        if self.is_pod(party) && !self.options.ip_block_matches_pods {
            return (
                Cause::Peer,
                format!("{who} is a pod, and blocks are for the outside (ipBlockMatchesPods: false)"),
            );
        }
        match block.misses(address) {
            Some(NotInBlock::Family) => {
                let (own, other) = (Family::of(address), block.family());
                (Cause::Family, format!("{address} is {own}, {} is {other}", block.cidr()))
            }
            Some(NotInBlock::Excepted(net)) => {
                (Cause::Peer, format!("{address} is excepted: {} except {net}", block.cidr()))
            }
            _ => (Cause::Peer, format!("{address} is not in {block}")),
        }
    }

    fn why_not_traffic(&self, matches: &TrafficMatches, flow: &Flow) -> (Cause, String) {
        let matches: &[TrafficMatch] = match matches {
            TrafficMatches::Any => &[],
            TrafficMatches::Of(matches) => matches,
        };
        let traffic = flow.traffic;
        let same_protocol = |one: &TrafficMatch| one.is_about(traffic.protocol);
        let cause = if matches.iter().any(same_protocol) { Cause::Port } else { Cause::Protocol };
        let named = matches.iter().find_map(|one| match one {
            TrafficMatch::Named(_, name) if matches.len() == 1 && same_protocol(one) => Some(name),
            _ => None,
        });
        let why = match named {
            Some(name) => {
                let pod = self.snapshot.describe(flow.destination);
                match self.named_port(flow.destination, name, traffic) {
                    Some(number) => {
                        format!("port {name} of {pod} is {}/{number}, not {traffic}", traffic.protocol)
                    }
                    None => format!("{pod} has no {} port named {name}", traffic.protocol),
                }
            }
            None if matches.is_empty() => "its list of ports is empty, so it matches no traffic".to_owned(),
            None if needs_a_source_port(matches, traffic.source_port) => {
                let all = PortRange::EPHEMERAL;
                format!(
                    "{traffic} may come from any port of {all}, and the rule is for {}",
                    listed(matches, "ports")
                )
            }
            None if matches.len() == 1 => format!("{traffic} is not {}", in_words(&matches[0])),
            None => format!("{traffic} is none of {}", listed(matches, "ports")),
        };
        (cause, why)
    }
}

/// Whether the question would have to name a source port to be answered by these.
fn needs_a_source_port(matches: &[TrafficMatch], given: Option<u16>) -> bool {
    given.is_none() && matches.iter().all(|one| matches!(one, TrafficMatch::From(..)))
}

fn in_words(one: &TrafficMatch) -> String {
    match one {
        TrafficMatch::Ports(_, range) if *range != PortRange::ALL && range.first != range.last => {
            format!("in {one}")
        }
        other => other.to_string(),
    }
}

/// Up to four of them, then how many more.
fn listed<T: std::fmt::Display>(all: &[T], what: &str) -> String {
    let shown: Vec<String> = all.iter().take(4).map(ToString::to_string).collect();
    let more = all.len() - shown.len();
    if more == 0 { shown.join("; ") } else { format!("{} and {more} more {what}", shown.join("; ")) }
}
