//! JSON form of the effective policies of one Thorium tool.

#![allow(missing_docs, reason = "comments on fields are descriptions in docs/schemas")]

use palisade_dialects::thorium::effective;
use palisade_dialects::thorium::instance::Why;
use serde::Serialize;

use super::file_and_line;

/// What `thorium effective --output json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Effective"))]
pub struct EffectiveJson {
    pub group: String,
    pub tool: String,
    /// Whether Kubernetes runs it; no policy holds for another.
    pub kubernetes: bool,
    /// The policies that the image's info lists.
    pub shown: Vec<String>,
    /// The policies that hold for its pods.
    pub applied: Vec<EffectivePolicyJson>,
    pub ingress: EffectiveSideJson,
    pub egress: EffectiveSideJson,
    /// What of the image cannot be read: it is isolated in both directions then.
    pub unreadable: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "EffectivePolicy"))]
#[serde(rename_all = "camelCase")]
pub struct EffectivePolicyJson {
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
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "EffectiveSide"))]
#[serde(rename_all = "camelCase")]
pub struct EffectiveSideJson {
    /// Whether only what is listed is allowed. If not, everything is.
    pub restricted: bool,
    /// The names of the policies that restrict it.
    pub restricted_by: Vec<String>,
    pub allowed: Vec<EffectiveRuleJson>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "EffectiveLine"))]
pub struct EffectiveRuleJson {
    /// The other end, in words; `nobody` where the rule allows nobody.
    pub who: String,
    pub traffic: String,
    /// What of the rule cannot be read: it allows nobody then.
    pub unreadable: Option<String>,
    pub origins: Vec<EffectiveOriginJson>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "EffectiveOrigin"))]
pub struct EffectiveOriginJson {
    pub policy: String,
    /// The rule's index in its direction.
    pub rule: usize,
    pub file: Option<String>,
    pub line: Option<u32>,
}

impl EffectiveJson {
    pub fn new(group: &str, tool: &str, effective: &effective::Effective) -> Self {
        let name = |index: usize| {
            effective.applied.get(index).map(|policy| policy.name.to_string()).unwrap_or_default()
        };
        let side = |side: &effective::EffectiveSide| EffectiveSideJson {
            restricted: !side.restricted_by.is_empty() || effective.unreadable.is_some(),
            restricted_by: side.restricted_by.iter().map(|index| name(*index)).collect(),
            allowed: side
                .allowed
                .iter()
                .map(|line| EffectiveRuleJson {
                    who: line.who.clone(),
                    traffic: line.traffic.clone(),
                    unreadable: line.unreadable.clone(),
                    origins: line
                        .origins
                        .iter()
                        .map(|origin| {
                            let (file, line) = file_and_line(origin.at.as_ref());
                            EffectiveOriginJson { policy: name(origin.policy), rule: origin.rule, file, line }
                        })
                        .collect(),
                })
                .collect(),
        };
        let policy = |policy: &effective::Applied| {
            let (file, line) = file_and_line(policy.at.as_ref());
            EffectivePolicyJson {
                name: policy.name.to_string(),
                because: match policy.why {
                    Why::Base => "base",
                    Why::Forced => "forced",
                    Why::Attached => "attached",
                }
                .to_owned(),
                not_in_force: policy.refused.clone(),
                unreadable: policy.unreadable.clone(),
                file,
                line,
            }
        };
        let [ingress, egress] = &effective.sides;
        EffectiveJson {
            group: group.to_owned(),
            tool: tool.to_owned(),
            kubernetes: effective.kubernetes,
            shown: effective.shown.iter().map(ToString::to_string).collect(),
            applied: effective.applied.iter().map(policy).collect(),
            ingress: side(ingress),
            egress: side(egress),
            unreadable: effective.unreadable.clone(),
        }
    }
}
