//! A node's part of the view as a program.
//!
//! ```text
//!   forward ─► from_pod: whose packet is it? ─jump─► eg_…: who is the peer? ─goto─► pr_…: what does it carry? ─goto─► the verdict,
//!           └► to_pod: who gets it?          ─goto─► in_…: the same                                                   counted
//! ```
//!
//! Pods to which the same rules apply share their chains. A chain tells peers apart by what they may do: whoever may do the
//! same is in one set, whatever policies that comes from. So a packet is looked up three times in each direction, however many
//! policies, pods and peers there are.
//!
//! Names are made of what a thing says, not of when it came: the same policies are the same program, to the byte. The name of a
//! set says who belongs there, not who is in it, so that somebody who comes is an element and not another set.
//!
//! ```text
//!   view ─► live (what has changed?) ─► lists (which rules?) ─► classify (who is the peer?) ─► decide (what becomes of it?)
//!                                           └───────────────────► chains, base ─► edit ─► program, patch
//! ```

pub(crate) mod base;
mod budget;
mod chains;
mod classify;
mod decide;
mod edit;
mod index;
mod layers;
mod lists;
pub mod live;
mod mixture;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use palisade_engine::delta::{CompiledRule as ViewRule, RuleEffect};
use palisade_engine::selection::SetKind;
use palisade_engine::view::View;
use palisade_model::address::Family;
use palisade_model::pipeline::Effect;
use palisade_model::policy::Direction;
use palisade_model::trace::Verdict;

pub use self::base::FORGED;
use self::decide::Final;
use self::live::{Live, Wiring};
use crate::program::{Name, Program};

/// A program, and what of the policies it cannot do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiled {
    /// The program.
    pub program: Program,
    /// What the kernel cannot do, each once, in words: it is done in the nearest way that allows less, or, where it says so, not
    /// at all.
    pub lacks: BTreeSet<String>,
    /// What its counters count.
    pub counted: BTreeMap<Name, Counted>,
}

/// What a counter counts: connections that somebody's rule decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// The direction.
    pub direction: Direction,
    /// What became of them.
    pub verdict: Verdict,
    /// The policy that decided; none if none had anything to say.
    pub policy: Option<String>,
    /// Which of its rules of the direction; none if it was that it isolates.
    pub rule: Option<u32>,
}

/// The program for a node, from its part of the view.
pub fn compile(part: &View, node: &str) -> Compiled {
    let live = Live::new(part.clone(), node, Wiring::new());
    Compiled { program: live.program().clone(), lacks: live.lacks().clone(), counted: live.counted().clone() }
}

/// Each has its own sets.
const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// What the kernel cannot do of these rules.
fn lacks(view: &View) -> BTreeSet<String> {
    let mut lacks = BTreeSet::new();
    for rule in view.rules().values() {
        if rule.effect == RuleEffect::Decide(Effect::AllowTcp) {
            let who = who(view, rule);
            lacks.insert(format!("{who}: conditions on layer 7 cannot be checked, so it allows nothing"));
        }
        let subject = view.sets().get(&rule.subject);
        if subject.is_some_and(|set| set.selection.kind() == SetKind::Service) {
            lacks.insert(format!("{}: applies to a service, which is not enforced here", who(view, rule)));
        }
    }
    lacks
}

fn who(view: &View, rule: &ViewRule) -> String {
    let policy = view.policies().get(&rule.policy).map(|origin| origin.object.to_string());
    described(policy.as_deref(), rule.rule)
}

fn described(policy: Option<&str>, rule: Option<u32>) -> String {
    match (policy, rule) {
        (None, _) => "no policy".to_owned(),
        (Some(policy), Some(rule)) => format!("{policy}, rule {rule}"),
        (Some(policy), None) => format!("{policy}, which isolates"),
    }
}

// === impl Counted ===

impl Counted {
    /// What became of them, in a word.
    pub fn said(&self) -> &'static str {
        match self.verdict {
            Verdict::Allow => "allowed",
            Verdict::Deny => "denied",
            Verdict::Reject => "rejected",
        }
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.policy.is_none() && self.verdict != Verdict::Allow {
            return write!(f, "{} {}: its rules tell too much apart", self.direction, self.said());
        }
        write!(f, "{} {} by {}", self.direction, self.said(), described(self.policy.as_deref(), self.rule))
    }
}

// === impl Final ===

impl From<Final> for Verdict {
    fn from(verdict: Final) -> Verdict {
        match verdict {
            Final::Allow => Verdict::Allow,
            Final::Deny => Verdict::Deny,
            Final::Reject => Verdict::Reject,
        }
    }
}
