//! Reasons of a row of a map, as text and JSON.

use palisade_analysis::map::reasons::{DecidedBy, TrafficReason};
use palisade_model::diagnostic::Location;
use palisade_model::policy::{Action, Direction, Policy};
use serde::Serialize;

use crate::diagnostics::plural;
use crate::peers::AllowedJson;

/// A reason of a row, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowReason {
    /// `egress` or `ingress`, with the family where the two differ.
    pub side: String,
    /// Traffic that it decides.
    pub part: String,
    /// Decider and action.
    pub text: String,
    /// Location of the decider.
    pub at: Option<Location>,
    /// Action on the traffic.
    pub action: Action,
}

/// A reason for programs.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Because"))]
#[serde(rename_all = "camelCase")]
pub struct ReasonJson {
    /// Whose side: `egress` of the source or `ingress` of the destination.
    pub side: &'static str,
    /// `IPv4` or `IPv6`, where the two get different answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// About which traffic.
    pub part: AllowedJson,
    /// What becomes of it: `Allow`, `Deny`, `Reject`, or `Pass` (a later stage decides).
    pub action: String,
    /// `rule`, `isolation`, `default`, `outside`, `node`, `ownAddress` or `ownNode`.
    pub because: &'static str,
    /// The rule that decided, or the policies that isolate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decided_by: Vec<DecidingPolicyJson>,
    /// What a connection must carry, on layer 7, for an allowance to hold: one of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<String>,
}

/// A policy, or a rule of it.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "By"))]
#[serde(rename_all = "camelCase")]
pub struct DecidingPolicyJson {
    /// The policy's kind.
    pub kind: String,
    /// Its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The rule's index in its direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<u32>,
    /// The rule's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule_name: Option<String>,
    /// Where it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line there, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// Describes all reasons of a row.
pub fn reasons(why: &[TrafficReason<'_>]) -> Vec<RowReason> {
    why.iter().map(reason).collect()
}

fn reason(why: &TrafficReason<'_>) -> RowReason {
    let family = why.family.map(|family| format!(" over {family}")).unwrap_or_default();
    let (text, at) = describe(why);
    RowReason {
        side: format!("{}{family}", why.direction),
        part: why.part.to_string(),
        text,
        at: at.cloned(),
        action: why.action(),
    }
}

fn describe<'w>(why: &'w TrafficReason<'_>) -> (String, Option<&'w Location>) {
    match &why.decided {
        DecidedBy::Rule { policy, rule, action } => {
            let name = rule.name.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default();
            let does = match action {
                Action::Allow => "allowed by",
                Action::Deny => "denied by",
                Action::Reject => "rejected by",
                Action::Pass => "passed on by",
            };
            let mut text = format!("{does} rule {}{name} of {}", rule.index, policy.object);
            if let Some(unknown) = rule.unknown() {
                text.push_str(&format!(", which fails closed: it cannot be read ({unknown})"));
            } else if *action == Action::Allow && !rule.layer7.is_empty() {
                text.push_str(&format!(", on condition: {}", conditions(rule).join(", or ")));
            }
            (text, rule.at.as_ref().or(policy.object.at.as_ref()))
        }
        DecidedBy::Isolated { by } => {
            let who = match &by[..] {
                [] => "a policy isolates it".to_owned(),
                [only] => format!("{} isolates it", only.object),
                [first, rest @ ..] => {
                    format!("{} and {} isolate it", first.object, plural(rest.len(), "other"))
                }
            };
            let at = by.first().and_then(|policy| policy.object.at.as_ref());
            (format!("denied: {who}, and no rule allows it"), at)
        }
        DecidedBy::Nobody => ("allowed: nothing restricts it".to_owned(), None),
        DecidedBy::Outside => {
            let text = match why.direction {
                Direction::Egress => "comes from outside of the cluster",
                Direction::Ingress => "leaves the cluster",
            };
            (text.to_owned(), None)
        }
        DecidedBy::Host => {
            ("allowed: it is a node, or in its node's network, and no policy is about it".to_owned(), None)
        }
        DecidedBy::Itself => ("allowed: nobody is cut off from itself".to_owned(), None),
        DecidedBy::OwnNode => ("allowed where it is the pod's own node".to_owned(), None),
    }
}

fn conditions(rule: &palisade_model::policy::Rule) -> Vec<String> {
    rule.layer7.iter().map(ToString::to_string).collect()
}

// === impl ReasonJson ===

impl From<&TrafficReason<'_>> for ReasonJson {
    fn from(why: &TrafficReason<'_>) -> Self {
        let (because, decided_by, conditions) = match &why.decided {
            DecidedBy::Rule { policy, rule, action } => {
                let mut by = DecidingPolicyJson::from(*policy);
                by.rule = Some(rule.index);
                by.rule_name = rule.name.as_ref().map(ToString::to_string);
                if let Some(at) = &rule.at {
                    (by.file, by.line) = (Some(at.file.to_string()), Some(at.line));
                }
                let allows = *action == Action::Allow;
                ("rule", vec![by], if allows { conditions(rule) } else { Vec::new() })
            }
            DecidedBy::Isolated { by } => {
                ("isolation", by.iter().map(|policy| DecidingPolicyJson::from(*policy)).collect(), Vec::new())
            }
            DecidedBy::Nobody => ("default", Vec::new(), Vec::new()),
            DecidedBy::Outside => ("outside", Vec::new(), Vec::new()),
            DecidedBy::Host => ("node", Vec::new(), Vec::new()),
            DecidedBy::Itself => ("ownAddress", Vec::new(), Vec::new()),
            DecidedBy::OwnNode => ("ownNode", Vec::new(), Vec::new()),
        };
        ReasonJson {
            side: why.direction.as_str(),
            family: why.family.map(|family| family.to_string()),
            part: AllowedJson::from(&why.part),
            action: why.action().to_string(),
            because,
            decided_by,
            conditions,
        }
    }
}

// === impl DecidingPolicyJson ===

impl From<&Policy> for DecidingPolicyJson {
    fn from(policy: &Policy) -> Self {
        let object = &policy.object;
        DecidingPolicyJson {
            kind: object.full_kind().to_string(),
            namespace: object.namespace.as_ref().map(ToString::to_string),
            name: object.name.to_string(),
            rule: None,
            rule_name: None,
            file: object.at.as_ref().map(|at| at.file.to_string()),
            line: object.at.as_ref().map(|at| at.line),
        }
    }
}
