//! A view as text: for tests that hold two of them together, and for people who look at why they differ.

use std::fmt;

use palisade_model::policy::TrafficMatches;

use super::View;
use crate::delta::{Member, MemberKind};
use crate::id::SetId;

// === impl View ===

/// In words and in a fixed order, without numbers: two views that say the same are the same text.
impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |set: &SetId| match self.sets.get(set) {
            Some(set) => set.selection.to_string(),
            None => format!("set {set}"),
        };
        let mut lines: Vec<String> = Vec::new();
        for set in self.sets.values() {
            let members: Vec<String> = set.members.iter().map(ToString::to_string).collect();
            lines.push(format!("set {}: [{}]", set.selection, members.join(", ")));
        }
        for rule in self.rules.values() {
            let peers = rule.peers.as_ref().map(|sets| {
                let mut names: Vec<String> = sets.iter().map(name).collect();
                names.sort();
                names.join(" or ")
            });
            let origin = self.policies.get(&rule.policy);
            let origin = origin.map(|origin| origin.object.to_string()).unwrap_or_default();
            let traffic = match &rule.traffic {
                TrafficMatches::Any => String::new(),
                TrafficMatches::Of(all) => {
                    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
                    format!(" {}", all.join(" or "))
                }
            };
            lines.push(format!(
                "rule {:?} {} {:?}: {} with {}{traffic}{}{} of {origin} {:?}",
                rule.rank,
                rule.directions,
                rule.effect,
                name(&rule.subject),
                peers.unwrap_or_else(|| "anybody".to_owned()),
                rule.destination.map(|set| format!(" to {}", name(&set))).unwrap_or_default(),
                if rule.layer7.is_empty() { String::new() } else { format!(" if {:?}", rule.layer7) },
                rule.rule,
            ));
        }
        for origin in self.policies.values() {
            lines.push(format!("policy {origin:?}"));
        }
        for need in &self.needs {
            let node = need.node.as_deref().unwrap_or("every node");
            lines.push(format!("need {node} {:?} of {}", need.part, name(&need.set)));
        }
        lines.sort();
        lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

// === impl Member ===

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            MemberKind::Pod => write!(f, "{}/{}", self.namespace, self.name)?,
            MemberKind::Template(kind) => write!(f, "{kind} {}/{}", self.namespace, self.name)?,
            MemberKind::Entity => write!(f, "entity {}/{}", self.namespace, self.name)?,
            MemberKind::Node => write!(f, "node {}", self.name)?,
            MemberKind::Service => write!(f, "service {}/{}", self.namespace, self.name)?,
            MemberKind::Address => {}
        }
        for address in &self.addresses {
            write!(f, " {address}")?;
        }
        match &self.node {
            Some(node) if self.kind != MemberKind::Node => write!(f, " on {node}"),
            _ => Ok(()),
        }
    }
}
