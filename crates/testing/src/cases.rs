//! One rule at a time: every form of each part, in every stage, in either direction, with every action.

use std::sync::Arc;

use palisade_model::policy::{
    Action, Direction, Isolation, Layer7, Peers, Placement, Policy, Priority, Rule, Subject, Tier,
    TrafficMatches,
};

use crate::forms;
use crate::universe::object;

/// A policy of one rule or isolation, and what stands behind it so that one sees what the rule does.
#[derive(Debug, Clone)]
pub struct Case {
    /// The policy.
    pub policy: Policy,
    /// Policies that refuse what the rule does not let through.
    pub background: Vec<Policy>,
    /// Which part of the rule takes every form.
    pub about: About,
}

/// The part of a rule that a case is about; the others match everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// Who: its subjects or peers. Ask about all ends.
    Ends,
    /// What: its traffic, or conditions on it. Ask about all traffic.
    Traffic,
}

/// The parts of a rule that take forms.
#[derive(Debug, Clone)]
pub struct Parts {
    /// Whom it applies to.
    pub subjects: Vec<Subject>,
    /// The other end.
    pub peers: Peers,
    /// What a connection carries.
    pub traffic: TrafficMatches,
    /// What holds inside of it.
    pub layer7: Vec<Layer7>,
}

impl Parts {
    /// A rule that applies to everything and matches everything.
    pub fn everything() -> Self {
        Parts {
            subjects: forms::everybody(),
            peers: Peers::Any,
            traffic: TrafficMatches::Any,
            layer7: Vec::new(),
        }
    }

    /// The rule of these parts.
    pub fn rule(self, direction: Direction, index: u32, action: Action) -> Rule {
        let Parts { subjects, peers, traffic, layer7 } = self;
        let subjects: Arc<[Subject]> = subjects.into();
        // Names and logging change no verdict: every other rule has them.
        let named = index % 2 == 1;
        let name = named.then(|| "named".into());
        let log = named.then(|| "logged".into());
        Rule { direction, index, name, subjects, action, peers, traffic, layer7, log, at: None }
    }
}

/// A policy of some rules.
pub fn policy(name: &str, placement: Placement, rules: Vec<Rule>) -> Policy {
    Policy { object: object("Policy", name), placement, isolations: Vec::new(), rules, unreadable: None }
}

/// A policy that isolates, and allows nothing.
pub fn isolation(name: &str, subjects: Vec<Subject>, direction: Direction) -> Policy {
    let isolations = vec![Isolation { subjects: subjects.into(), direction }];
    Policy { isolations, ..policy(name, Placement::Union, Vec::new()) }
}

/// Every form of every part of a rule, with `turns` stages and actions for each of them in either direction: of the 21
/// combinations of stage and action each form gets others. And every form of whom a policy isolates.
pub fn cases(turns: usize) -> Vec<Case> {
    let combinations: Vec<(Placement, Action)> = forms::placements()
        .into_iter()
        .flat_map(|placement| {
            let actions: &[Action] = match placement {
                // NetworkPolicies only allow.
                Placement::Union => &[Action::Allow],
                Placement::Tier { .. } => &forms::ACTIONS,
            };
            actions.iter().map(move |action| (placement.clone(), *action))
        })
        .collect();
    let mut cases: Vec<Case> = forms::subjects()
        .into_iter()
        .flat_map(|subjects| Direction::BOTH.map(|direction| isolation("case", subjects.clone(), direction)))
        .map(|policy| Case { policy, background: Vec::new(), about: About::Ends })
        .collect();
    for (at, (about, parts)) in parts().into_iter().enumerate() {
        for turn in 0..turns {
            // 8 and 21 have no common factor: neighbouring turns are of other stages and actions.
            let (placement, action) = &combinations[(at + 8 * turn) % combinations.len()];
            for direction in Direction::BOTH {
                let rule = parts.clone().rule(direction, u32::try_from(at % 2).unwrap(), *action);
                cases.push(Case {
                    background: background(placement, *action, direction),
                    policy: policy("case", placement.clone(), vec![rule]),
                    about,
                });
            }
        }
    }
    cases
}

/// Every form of every part, the others matching everything.
fn parts() -> Vec<(About, Parts)> {
    let all = Parts::everything;
    let subjects = forms::subjects().into_iter().map(|subjects| (About::Ends, Parts { subjects, ..all() }));
    let peers = forms::peers().into_iter().map(|peers| (About::Ends, Parts { peers, ..all() }));
    let traffic = forms::traffic().into_iter().map(|traffic| (About::Traffic, Parts { traffic, ..all() }));
    let layer7 = forms::layer7().into_iter().map(|layer7| (About::Traffic, Parts { layer7, ..all() }));
    subjects.chain(peers).chain(traffic).chain(layer7).collect()
}

/// What refuses everything behind a rule that lets go or passes, with another answer in each stage.
fn background(placement: &Placement, action: Action, direction: Direction) -> Vec<Policy> {
    let refuses = |name: &'static str, number, action| {
        let tier = Tier::Fixed(number, name);
        let placement = Placement::Tier { tier, priority: Priority(1000.0) };
        policy(name, placement, vec![Parts::everything().rule(direction, 0, action)])
    };
    match (placement, action) {
        (Placement::Union, _) => vec![isolation("isolate", forms::everybody(), direction)],
        (Placement::Tier { .. }, Action::Deny | Action::Reject) => Vec::new(),
        (Placement::Tier { tier: Tier::Fixed(252.., _), .. }, Action::Allow | Action::Pass) => {
            vec![refuses("end", 254, Action::Deny)]
        }
        (Placement::Tier { .. }, Action::Allow | Action::Pass) => {
            vec![refuses("refuse", 251, Action::Reject), refuses("end", 254, Action::Deny)]
        }
    }
}
