//! JSON form of an evaluation: a flow, its verdict, and the trace of both sides.

#![allow(missing_docs, reason = "comments on fields are descriptions in docs/schemas")]

use palisade_model::flow::{self, Who};
use palisade_model::policy::Object;
use palisade_model::snapshot;
use palisade_model::trace::{self, Because, Exemption, StageName, StageOutcome, StepResult};
use serde::Serialize;

use super::{DiagnosticJson, file_and_line};

/// What `explain --output json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Explanation"))]
#[serde(rename_all = "camelCase")]
pub struct ExplanationJson {
    /// The connection.
    pub flow: FlowJson,
    /// What becomes of it.
    pub verdict: VerdictJson,
    /// Whether an allowance depends on what the connection carries (layer 7): see the conditions of its sides.
    pub conditional: bool,
    /// What the source's side says.
    pub egress: SideJson,
    /// What the destination's side says.
    pub ingress: SideJson,
    /// What would let a refused connection through, where one change is the obvious one.
    pub advice: Option<String>,
    /// The same connection over the other address family, where that gets another verdict.
    pub other_family: Option<OtherFlowJson>,
    /// When the question stands for several connections: the others, with their verdicts.
    pub others: Vec<OtherFlowJson>,
    /// How many more there are than are listed.
    pub others_left_out: usize,
    /// What of the input makes the answer less sure: errors, and what was left out or read as something else.
    pub input_problems: Vec<DiagnosticJson>,
}

/// Another connection that the question stands for.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "OtherFlow"))]
pub struct OtherFlowJson {
    pub flow: FlowJson,
    pub verdict: VerdictJson,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Verdict"))]
#[serde(rename_all = "lowercase")]
pub enum VerdictJson {
    Allow,
    Deny,
    Reject,
}

#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Flow"))]
#[serde(rename_all = "camelCase")]
pub struct FlowJson {
    pub source: EndpointJson,
    /// After service translation.
    pub destination: EndpointJson,
    /// `tcp`, `udp`, `sctp` or `icmp`.
    pub protocol: String,
    /// The destination's port after service translation; null for ICMP.
    pub port: Option<u16>,
    pub source_port: Option<u16>,
    pub icmp_type: Option<u8>,
    pub icmp_code: Option<u8>,
    /// The service it goes through, as `namespace/name`.
    pub via: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Endpoint"))]
#[serde(rename_all = "camelCase")]
pub struct EndpointJson {
    /// `pod`, `node` or `outside`.
    pub kind: String,
    pub namespace: Option<String>,
    pub name: Option<String>,
    /// The kind of the workload whose template stands for the pod, if there is no pod.
    pub stands_for: Option<String>,
    pub address: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Side"))]
#[serde(rename_all = "camelCase")]
pub struct SideJson {
    pub verdict: VerdictJson,
    /// `rule`, `isolation`, `default`, `outside`, `node`, `hostNetwork`, `ownAddress`, `ownNode` or
    /// `neighbourDiscovery`.
    pub because: String,
    /// The rule that decided; for a deny by isolation the first policy that isolates, with a null rule.
    pub decided_by: Option<DeciderJson>,
    /// What the connection must carry for an allowance to hold: one of these, or anything when there is none.
    pub conditions: Vec<String>,
    pub stages: Vec<StageJson>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Decider"))]
#[serde(rename_all = "camelCase")]
pub struct DeciderJson {
    pub kind: String,
    pub namespace: Option<String>,
    pub name: String,
    /// The rule's index in its direction.
    pub rule: Option<u32>,
    pub rule_name: Option<String>,
    pub stage: String,
    pub file: Option<String>,
    pub line: Option<u32>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Stage"))]
#[serde(rename_all = "camelCase")]
pub struct StageJson {
    /// `NetworkPolicy`, or the tier as `name (number)`.
    pub stage: String,
    pub tier: Option<u8>,
    /// `no-match`, `not-isolated`, `passed`, `allow`, `deny` or `reject`.
    pub outcome: String,
    /// In the NetworkPolicy stage: the policies that isolate the pod.
    pub isolated_by: Vec<PolicyRefJson>,
    /// The rules that were asked, in order.
    pub rules: Vec<RuleJson>,
    /// Policies of the stage that do not apply to the pod.
    pub does_not_apply: Vec<BystanderJson>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Rule"))]
#[serde(rename_all = "camelCase")]
pub struct RuleJson {
    pub kind: String,
    pub namespace: Option<String>,
    pub name: String,
    pub rule: u32,
    pub rule_name: Option<String>,
    /// `Allow`, `Deny`, `Reject` or `Pass`.
    pub action: String,
    /// `matched`, `not-matched` or `failed-closed`.
    pub result: String,
    /// Why it did not match: `peer`, `family`, `protocol` or `port`.
    pub cause: Option<String>,
    /// The same in words.
    pub why: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Ref"))]
pub struct PolicyRefJson {
    pub kind: String,
    pub namespace: Option<String>,
    pub name: String,
    /// What of the policy as a whole cannot be read, if anything.
    pub unreadable: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Bystander"))]
#[serde(rename_all = "camelCase")]
pub struct BystanderJson {
    pub kind: String,
    pub namespace: Option<String>,
    pub name: String,
    pub applies_to: String,
}

// === from the model ===

impl ExplanationJson {
    pub fn new(snapshot: &snapshot::Snapshot, evaluation: &trace::Evaluation) -> Self {
        ExplanationJson {
            flow: FlowJson::new(snapshot, &evaluation.flow),
            verdict: evaluation.verdict.into(),
            conditional: !evaluation.conditions().is_empty(),
            egress: SideJson::new(&evaluation.egress),
            ingress: SideJson::new(&evaluation.ingress),
            advice: crate::explain::advice(snapshot, evaluation),
            other_family: None,
            others: Vec::new(),
            others_left_out: 0,
            input_problems: Vec::new(),
        }
    }
}

impl OtherFlowJson {
    pub fn new(snapshot: &snapshot::Snapshot, flow: &flow::Flow, verdict: trace::Verdict) -> Self {
        OtherFlowJson { flow: FlowJson::new(snapshot, flow), verdict: verdict.into() }
    }
}

impl From<trace::Verdict> for VerdictJson {
    fn from(verdict: trace::Verdict) -> Self {
        match verdict {
            trace::Verdict::Allow => VerdictJson::Allow,
            trace::Verdict::Deny => VerdictJson::Deny,
            trace::Verdict::Reject => VerdictJson::Reject,
        }
    }
}

impl FlowJson {
    pub fn new(snapshot: &snapshot::Snapshot, flow: &flow::Flow) -> Self {
        let traffic = flow.traffic;
        let via = flow.via.map(|service| &snapshot.services()[service]);
        FlowJson {
            source: EndpointJson::new(snapshot, flow.source),
            destination: EndpointJson::new(snapshot, flow.destination),
            protocol: traffic.protocol.to_string(),
            port: traffic.protocol.has_ports().then_some(traffic.port),
            source_port: traffic.source_port,
            icmp_type: traffic.icmp.map(|(kind, _)| kind),
            icmp_code: traffic.icmp.and_then(|(_, code)| code),
            via: via.map(|service| format!("{}/{}", service.namespace, service.name)),
        }
    }
}

impl EndpointJson {
    fn new(snapshot: &snapshot::Snapshot, party: flow::Party) -> Self {
        let (kind, namespace, name, stands_for) = match party.who {
            Who::Pod(pod) => {
                let pod = &snapshot.pods()[pod];
                let stands_for = pod.stand_in.as_ref().map(ToString::to_string);
                ("pod", Some(pod.namespace.to_string()), Some(pod.name.to_string()), stands_for)
            }
            Who::Node(node) => ("node", None, Some(snapshot.nodes()[node].name.to_string()), None),
            Who::Outside => ("outside", None, None, None),
        };
        let address = party.address.map(|address| address.to_string());
        EndpointJson { kind: kind.to_owned(), namespace, name, stands_for, address }
    }
}

impl SideJson {
    fn new(side: &trace::Side) -> Self {
        let (because, decided_by) = match &side.because {
            Because::Exempt(Exemption::Outside) => ("outside", None),
            Because::Exempt(Exemption::Node) => ("node", None),
            Because::Exempt(Exemption::HostNetwork) => ("hostNetwork", None),
            Because::Exempt(Exemption::OwnAddress) => ("ownAddress", None),
            Because::Exempt(Exemption::OwnNode) => ("ownNode", None),
            Because::Exempt(Exemption::NeighbourDiscovery) => ("neighbourDiscovery", None),
            Because::Default => ("default", None),
            Because::Isolation { by } => (
                "isolation",
                by.first().map(|object| DeciderJson::new(object, None, &StageName::NetworkPolicy)),
            ),
            Because::Rule(decision) => {
                ("rule", Some(DeciderJson::new(&decision.object, Some(&decision.rule), &decision.stage)))
            }
        };
        SideJson {
            verdict: side.verdict.into(),
            because: because.to_owned(),
            decided_by,
            conditions: side.because.conditions().iter().map(ToString::to_string).collect(),
            stages: side.stages.iter().map(StageJson::new).collect(),
        }
    }
}

impl DeciderJson {
    fn new(object: &Object, rule: Option<&trace::RuleRef>, stage: &StageName) -> Self {
        let (file, line) = file_and_line(rule.and_then(|rule| rule.at.as_ref()).or(object.at.as_ref()));
        DeciderJson {
            kind: object.kind.to_string(),
            namespace: object.namespace.as_ref().map(ToString::to_string),
            name: object.name.to_string(),
            rule: rule.map(|rule| rule.index),
            rule_name: rule.and_then(|rule| rule.name.as_ref()).map(ToString::to_string),
            stage: stage.to_string(),
            file,
            line,
        }
    }
}

impl StageJson {
    fn new(stage: &trace::StageTrace) -> Self {
        let outcome = match stage.outcome {
            StageOutcome::NoMatch => "no-match",
            StageOutcome::NotIsolated => "not-isolated",
            StageOutcome::Passed => "passed",
            StageOutcome::Decided(verdict) => verdict.as_str(),
        };
        StageJson {
            stage: stage.stage.to_string(),
            tier: match &stage.stage {
                StageName::Tier(number, _) => Some(*number),
                StageName::NoTier(_) | StageName::NetworkPolicy => None,
            },
            outcome: outcome.to_owned(),
            isolated_by: stage.isolated_by.iter().map(|object| PolicyRefJson::new(object, stage)).collect(),
            rules: stage.steps.iter().map(RuleJson::new).collect(),
            does_not_apply: stage.bystanders.iter().map(BystanderJson::new).collect(),
        }
    }
}

impl PolicyRefJson {
    fn new(object: &Object, stage: &trace::StageTrace) -> Self {
        let unreadable = stage.unreadable.iter().find(|(unreadable, _)| **unreadable == *object);
        let (file, line) = file_and_line(object.at.as_ref());
        PolicyRefJson {
            unreadable: unreadable.map(|(_, what)| what.clone()),
            kind: object.kind.to_string(),
            namespace: object.namespace.as_ref().map(ToString::to_string),
            name: object.name.to_string(),
            file,
            line,
        }
    }
}

impl BystanderJson {
    fn new(bystander: &trace::Bystander) -> Self {
        BystanderJson {
            kind: bystander.object.kind.to_string(),
            namespace: bystander.object.namespace.as_ref().map(ToString::to_string),
            name: bystander.object.name.to_string(),
            applies_to: bystander.applies_to.clone(),
        }
    }
}

impl RuleJson {
    fn new(step: &trace::Step) -> Self {
        let (result, cause, why) = match &step.result {
            StepResult::Matched => ("matched", None, None),
            StepResult::NotMatched { cause, why, .. } => ("not-matched", Some(cause.as_str()), Some(why)),
            StepResult::FailedClosed { why } => ("failed-closed", None, Some(why)),
        };
        let (file, line) = file_and_line(step.rule.at.as_ref());
        RuleJson {
            kind: step.object.kind.to_string(),
            namespace: step.object.namespace.as_ref().map(ToString::to_string),
            name: step.object.name.to_string(),
            rule: step.rule.index,
            rule_name: step.rule.name.as_ref().map(ToString::to_string),
            action: step.action.to_string(),
            result: result.to_owned(),
            cause: cause.map(ToOwned::to_owned),
            why: why.cloned(),
            file,
            line,
        }
    }
}
