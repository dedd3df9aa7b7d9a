//! Policies of several rules, by chance, out of all forms there are.

use std::sync::Arc;

use palisade_model::policy::{
    Action, Direction, Isolation, Peers, Placement, Policy, Priority, Rule, Subject, Tier, TrafficMatches,
};

use crate::cases::{Parts, policy};
use crate::dice::Dice;
use crate::forms;

/// Draws policies from the forms.
#[derive(Debug)]
pub struct Generator {
    dice: Dice,
    subjects: Vec<Vec<Subject>>,
    peers: Vec<Peers>,
    traffic: Vec<TrafficMatches>,
}

impl Generator {
    /// The same seed draws the same policies.
    pub fn new(seed: u64) -> Self {
        Generator {
            dice: Dice(seed),
            subjects: forms::subjects(),
            peers: forms::peers(),
            traffic: forms::traffic(),
        }
    }

    /// The chance that the policies are drawn with.
    pub fn dice(&mut self) -> &mut Dice {
        &mut self.dice
    }

    /// Up to so many policies, of all stages.
    pub fn policies(&mut self, most: usize) -> Vec<Policy> {
        (0..=self.dice.roll(most)).map(|at| self.policy(&format!("p{at}"))).collect()
    }

    /// A policy of up to four rules.
    pub fn policy(&mut self, name: &str) -> Policy {
        // Few tiers and priorities, so that policies tie and interleave.
        let placement = match self.dice.one(&forms::placements()) {
            Placement::Tier { tier, .. } => {
                let tier = if self.dice.roll(3) == 0 { Tier::Fixed(100, "early") } else { tier };
                Placement::Tier { tier, priority: Priority(self.dice.one(&[1.0, 1.5, 5.0])) }
            }
            union @ Placement::Union => union,
        };
        let mut next = [0; 2];
        let rules = (0..=self.dice.roll(4)).map(|_| self.rule(&placement, &mut next)).collect();
        let mut policy = policy(name, placement, rules);
        if policy.placement == Placement::Union {
            let isolation =
                |rule: &Rule| Isolation { subjects: Arc::clone(&rule.subjects), direction: rule.direction };
            policy.isolations = policy.rules.iter().map(isolation).collect();
            // The API of 2016 has rules without isolation, and today's isolation without rules.
            match self.dice.roll(6) {
                0 => policy.isolations.clear(),
                1 => policy.rules.clear(),
                _ => {}
            }
        }
        policy
    }

    /// A rule; most apply to everybody or match all ends, so that they meet.
    fn rule(&mut self, placement: &Placement, next: &mut [u32; 2]) -> Rule {
        let mut parts = Parts::everything();
        if self.dice.roll(2) == 0 {
            parts.subjects = self.dice.one(&self.subjects);
        }
        if self.dice.roll(2) == 0 {
            parts.peers = self.peers();
        }
        if self.dice.roll(3) != 0 {
            parts.traffic = self.traffic();
        }
        if self.dice.roll(6) == 0 {
            parts.layer7 = self.dice.one(&forms::layer7());
        }
        let action = match placement {
            Placement::Union => Action::Allow,
            Placement::Tier { .. } => self.dice.one(&forms::ACTIONS),
        };
        let direction = self.dice.one(&Direction::BOTH);
        let index = &mut next[direction as usize];
        *index += 1;
        parts.rule(direction, *index - 1, action)
    }

    fn peers(&mut self) -> Peers {
        match (self.dice.one(&self.peers), self.dice.one(&self.peers)) {
            (Peers::Of(one), Peers::Of(other)) if self.dice.roll(2) == 0 => {
                Peers::Of(one.into_iter().chain(other).collect())
            }
            (peers, _) => peers,
        }
    }

    fn traffic(&mut self) -> TrafficMatches {
        match (self.dice.one(&self.traffic), self.dice.one(&self.traffic)) {
            (TrafficMatches::Of(one), TrafficMatches::Of(other)) if self.dice.roll(2) == 0 => {
                TrafficMatches::Of(one.into_iter().chain(other).collect())
            }
            (traffic, _) => traffic,
        }
    }
}
