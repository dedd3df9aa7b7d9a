//! What holds for one tool of Thorium's, as JSON.

#![allow(missing_docs, reason = "comments on fields are descriptions in docs/schemas")]

use palisade_dialects::thorium::effective;
use palisade_dialects::thorium::instance::Why;
use serde::Serialize;

/// What `thorium effective --output json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Effective {
    pub group: String,
    pub tool: String,
    /// Whether Kubernetes runs it; no policy holds for another.
    pub kubernetes: bool,
    /// The policies that the image's info lists.
    pub shown: Vec<String>,
    /// The policies that hold for its pods.
    pub applied: Vec<EffectivePolicy>,
    pub ingress: EffectiveSide,
    pub egress: EffectiveSide,
    /// What of the image cannot be read: it is isolated in both directions then.
    pub unreadable: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct EffectivePolicy {
    pub name: String,
    /// `base`, `forced` or `attached`.
    pub because: String,
    /// Why Thorium's program does not have it in force, with `--thorium program`.
    pub not_in_force: Option<String>,
    /// What of it cannot be read: it allows nobody then.
    pub unreadable: Option<String>,
    /// Null for the default base policy.
    pub file: Option<String>,
    pub line: Option<u32>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct EffectiveSide {
    /// Whether only what is listed is allowed. If not, everything is.
    pub restricted: bool,
    /// The names of the policies that restrict it.
    pub restricted_by: Vec<String>,
    pub allowed: Vec<EffectiveLine>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct EffectiveLine {
    /// The other end, in words; `nobody` where the rule allows nobody.
    pub who: String,
    pub traffic: String,
    /// What of the rule cannot be read: it allows nobody then.
    pub unreadable: Option<String>,
    pub origins: Vec<EffectiveOrigin>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct EffectiveOrigin {
    pub policy: String,
    /// The rule's index in its direction.
    pub rule: usize,
    pub file: Option<String>,
    pub line: Option<u32>,
}

impl Effective {
    pub fn new(group: &str, tool: &str, held: &effective::Effective) -> Self {
        let name =
            |index: usize| held.applied.get(index).map(|policy| policy.name.to_string()).unwrap_or_default();
        let side = |side: &effective::EffectiveSide| EffectiveSide {
            restricted: !side.restricted_by.is_empty() || held.unreadable.is_some(),
            restricted_by: side.restricted_by.iter().map(|index| name(*index)).collect(),
            allowed: side
                .allowed
                .iter()
                .map(|line| EffectiveLine {
                    who: line.who.clone(),
                    traffic: line.traffic.clone(),
                    unreadable: line.unreadable.clone(),
                    origins: line
                        .origins
                        .iter()
                        .map(|origin| EffectiveOrigin {
                            policy: name(origin.policy),
                            rule: origin.rule,
                            file: origin.at.as_ref().map(|at| at.file.to_string()),
                            line: origin.at.as_ref().map(|at| at.line),
                        })
                        .collect(),
                })
                .collect(),
        };
        let policy = |policy: &effective::Applied| EffectivePolicy {
            name: policy.name.to_string(),
            because: match policy.why {
                Why::Base => "base",
                Why::Forced => "forced",
                Why::Attached => "attached",
            }
            .to_owned(),
            not_in_force: policy.refused.clone(),
            unreadable: policy.unreadable.clone(),
            file: policy.at.as_ref().map(|at| at.file.to_string()),
            line: policy.at.as_ref().map(|at| at.line),
        };
        let [ingress, egress] = &held.sides;
        Effective {
            group: group.to_owned(),
            tool: tool.to_owned(),
            kubernetes: held.kubernetes,
            shown: held.shown.iter().map(ToString::to_string).collect(),
            applied: held.applied.iter().map(policy).collect(),
            ingress: side(ingress),
            egress: side(egress),
            unreadable: held.unreadable.clone(),
        }
    }
}
