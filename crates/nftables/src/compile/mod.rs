//! A node's part of the view as a program.
//!
//! ```text
//!   forward ─► from_pod: the sender's list ───jump─► eg_…: the peer's class ─goto─► pr_…: traffic ─goto─► verdict, counted
//!           └► to_pod: the receiver's list ───goto─► in_…: the same
//! ```
//!
//! Pods with the same rules share their chains. A list distinguishes peers by their verdicts: those with equal verdicts are in
//! one set, whichever policies these come from. So a packet is looked up three times in each direction, however many policies,
//! pods and peers there are.
//!
//! Names are digests of what an object is for ([`names`]), not of when it was made: the same policies are the same program, to
//! the byte. The name of a set depends on what it selects, not on its members, so that a new member is an element and not another
//! set.
//!
//! ```text
//!   view ─► compiler (what has changed) ─► lists (rules of each endpoint) ─► flatten (peer classes, verdicts)
//!                                              └──► render, chains, base ─► edit ─► program, patch
//! ```

pub(crate) mod base;
mod chains;
mod compiler;
mod edit;
mod index;
mod lists;
mod mixture;
mod names;
mod shared_sets;

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
pub use self::compiler::{Compiler, Wiring};
use crate::program::{Name, Program};

/// A program, and the parts of policies that it does not enforce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiled {
    /// The program.
    pub program: Program,
    /// Messages about what the kernel cannot do: it is replaced by the nearest thing that allows less or, where the message says
    /// so, not enforced.
    pub lacks: BTreeSet<String>,
    /// What each counter counts.
    pub counted: BTreeMap<Name, Counted>,
}

/// What a counter counts: connections that one rule, isolation or default decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// The direction of the rule, seen from its subject.
    pub direction: Direction,
    /// What became of the connections.
    pub verdict: Verdict,
    /// The policy that decided; `None` if no policy did.
    pub policy: Option<String>,
    /// Index of the rule among those of the policy and direction; `None` for an isolation.
    pub rule: Option<u32>,
}

/// Compiles a node's part of the view.
pub fn compile(part: &View, node: &str) -> Compiled {
    let compiler = Compiler::new(part.clone(), node, Wiring::new());
    Compiled {
        program: compiler.program().clone(),
        lacks: compiler.lacks().clone(),
        counted: compiler.counted().clone(),
    }
}

/// Families of addresses: each has its own sets.
const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// Returns messages about rules that the kernel cannot enforce as they are.
fn lacks(view: &View) -> BTreeSet<String> {
    let mut lacks = BTreeSet::new();
    for rule in view.rules().values() {
        if rule.effect == RuleEffect::Decide(Effect::AllowTcp) {
            let origin = origin(view, rule);
            lacks.insert(format!("{origin}: conditions on layer 7 cannot be checked, so it allows nothing"));
        }
        let subject = view.sets().get(&rule.subject);
        if subject.is_some_and(|set| set.selection.kind() == SetKind::Service) {
            lacks.insert(format!("{}: applies to a service, which is not enforced here", origin(view, rule)));
        }
    }
    lacks
}

fn origin(view: &View, rule: &ViewRule) -> String {
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
    /// Returns the verdict as a participle: the counted connections were allowed, denied or rejected.
    pub fn verdict_name(&self) -> &'static str {
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
            return write!(f, "{} {}: its rules tell too much apart", self.direction, self.verdict_name());
        }
        write!(
            f,
            "{} {} by {}",
            self.direction,
            self.verdict_name(),
            described(self.policy.as_deref(), self.rule)
        )
    }
}
