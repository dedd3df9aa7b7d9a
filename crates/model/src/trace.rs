//! The reasoning behind a verdict, as data: every stage, what applied there, which rule decided, and why the ones
//! before it did not match.
//!
//! Nothing here decides anything: the evaluator has already said no when a reason is looked for. Reasons are finished
//! sentences with a [`Cause`] beside them, so that people and programs read the same facts.

use std::sync::Arc;

use smol_str::SmolStr;

use crate::diagnostic::Location;
use crate::flow::Flow;
use crate::policy::{Action, Direction, Layer7, Object, Rule};

mod reasons;

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
