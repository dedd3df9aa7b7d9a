//! The words of a trace where a rule of Antrea's names something that nothing is in: a group that does not exist, a Service
//! that has no cluster address.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::panic)]

use palisade_dialects::load::load;
use palisade_dialects::source::{Limits, Source};
use palisade_dialects::world::World;
use palisade_model::evaluate::evaluate;
use palisade_model::options::Options;
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::{StepResult, Verdict};

const WORLD: &str = "
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x, labels: {app: a}}, status: {podIP: 10.0.0.1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: x, labels: {app: b}}, status: {podIP: 10.0.0.2}}
---
{apiVersion: v1, kind: Service, metadata: {name: headless, namespace: x}, spec: {clusterIP: None, selector: {app: b}, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: x}, spec: {clusterIP: 10.96.0.1, selector: {app: b}, ports: [{port: 80}]}}
---
";

/// The verdict, why the rule of the source's side does not match, and the Service it goes through.
fn asked(rule: &str, flow: &str) -> (Verdict, Option<String>, Option<String>) {
    let policy = format!(
        "{{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {{name: p}}, spec: {{priority: 1, appliedTo: [{{podSelector: {{}}}}], egress: [{{action: Drop, {rule}}}]}}}}"
    );
    let (mut world, mut found) = (World::default(), Vec::new());
    load(&Source::new("f.yaml", format!("{WORLD}{policy}")), &Limits::default(), &mut world, &mut found);
    assert!(found.is_empty(), "{found:?}");
    let snapshot = Snapshot::new(world.into_objects());
    let flows = snapshot.flows(&flow.parse().unwrap()).unwrap();
    let [flow] = flows.as_slice() else { panic!("{flows:?}") };
    let evaluation = evaluate(&snapshot, flow, &Options::default());
    let why =
        evaluation.egress.stages.iter().flat_map(|stage| &stage.steps).find_map(|step| match &step.result {
            StepResult::NotMatched { why, .. } => Some(why.clone()),
            StepResult::FailedClosed { why } => Some(format!("failed closed: {why}")),
            StepResult::Matched => None,
        });
    let via = flow.via.map(|via| snapshot.services()[via].name.to_string());
    (evaluation.verdict, why, via)
}

#[test]
fn a_group_that_does_not_exist_has_no_members() {
    let why = "group gone does not exist, so it has no members".to_owned();
    assert_eq!(asked("to: [{group: gone}]", "x/a -> x/b tcp/80"), (Verdict::Allow, Some(why), None));
}

#[test]
fn no_connection_goes_through_a_headless_service() {
    let rule = "toServices: [{name: headless, namespace: x}]";
    let why = "service x/headless has no cluster address: no connection goes through it".to_owned();
    assert_eq!(asked(rule, "x/a -> svc:x/headless tcp/80"), (Verdict::Allow, Some(why), None));
    let through = Some("web".to_owned());
    let rule = "toServices: [{name: web, namespace: x}]";
    assert_eq!(asked(rule, "x/a -> svc:x/web tcp/80"), (Verdict::Deny, None, through));
}
