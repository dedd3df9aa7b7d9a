//! ThoriumCases: Thorium's specification as data (`suites/thorium`), run through the dialect's own core.
//!
//! A case is a rules file, a policy request, a configuration, or steps on an instance. Its expectations are whether it is
//! accepted, the reason and the field of a refusal, the Kubernetes objects, and the policies that each image shows and has
//! applied.

use std::collections::{BTreeMap, BTreeSet};

use palisade_dialects::apimachinery::field::Path;
use palisade_dialects::apimachinery::names::dns1123_subdomain;
use palisade_dialects::codes::BAD_TEST;
use palisade_dialects::decode::{Decode, Reader};
use palisade_dialects::kubernetes::NetworkPolicy;
use palisade_dialects::kubernetes::write::Written;
use palisade_dialects::source::tree::{Node, Source, Value};
use palisade_dialects::thorium::codes::reason;
use palisade_dialects::thorium::compile::{ORIGIN, compile};
use palisade_dialects::thorium::instance::{Actor, Change, Image, Instance, Step, Why};
use palisade_dialects::thorium::policy::{Policy, Spot};
use palisade_dialects::thorium::{read_base, read_request, read_rules};
use palisade_model::diagnostic::Diagnostic;
use smol_str::SmolStr;

use super::report::{CaseFailure, CaseResult};

/// Names of policies by image (`group/tool`).
type PoliciesByImage = BTreeMap<String, BTreeSet<String>>;

/// Diagnostics and state of the instance after a case.
#[derive(Default)]
struct ObservedState {
    found: Vec<Diagnostic>,
    objects: Vec<NetworkPolicy>,
    shown: PoliciesByImage,
    applied: PoliciesByImage,
}

/// Runs every case of a document.
pub(super) fn run(source: &Source, node: &Node<'_>) -> Result<Vec<CaseResult>, Box<Diagnostic>> {
    let Some(cases) = node.get("cases").map(items).filter(|cases| !cases.is_empty()) else {
        let at = source.location(node.span);
        return Err(Box::new(Diagnostic::new(&BAD_TEST, "ThoriumCases needs cases").at(Some(at))));
    };
    let name = node.get("name").and_then(Node::as_str).unwrap_or("ThoriumCases");
    Ok(cases.iter().map(|case| run_case(source, node, name, case)).collect())
}

fn run_case(source: &Source, document: &Node<'_>, test: &str, node: &Node<'_>) -> CaseResult {
    let at = source.location(node.span);
    let name = node.get("name").and_then(Node::as_str).unwrap_or_default().to_owned();
    let observed = execute(source, document, node);
    let mut failures = Vec::new();
    for (expected, got_words) in differences(source, node, &observed) {
        failures.push(CaseFailure {
            subject: name.clone(),
            expected,
            got: got_words,
            at: at.clone(),
            evaluation: None,
            diagnostics: observed.found.clone(),
        });
    }
    CaseResult { test: test.to_owned(), name, at, flows: 1, failures, notes: Vec::new() }
}

/// Executes a case on a fresh instance.
fn execute(source: &Source, document: &Node<'_>, node: &Node<'_>) -> ObservedState {
    let mut observed = ObservedState::default();
    let given = node.get("instance").or(document.get("instance"));
    let text = |key: &str| given.and_then(|given| given.get(key)).and_then(Node::as_str);
    let mut instance = text("thoriumNamespace").map_or_else(Instance::default, |ns| Instance::new(ns.into()));
    let groups = given.and_then(|given| given.get("groups")).map(items).unwrap_or_default();
    instance.groups.extend(groups.iter().filter_map(Node::as_str).map(SmolStr::from));
    let actor = match node.get("actor").and_then(Node::as_str) {
        Some("developer") => Actor::Developer,
        _ => Actor::Admin,
    };
    if let Some(config) = node.get("config") {
        if let Some(base) = read_base(source, config, &mut observed.found).base {
            instance.configure(base);
        }
        for policy in instance.base() {
            observed.found.extend(instance.review(policy));
        }
    }
    for policy in node.get("policies").map(items).unwrap_or_default() {
        let policy = read_request(source, policy, &mut observed.found);
        collect_refusals(
            policy.map_or(Ok(()), |policy| instance.create_policy(Actor::Admin, policy)),
            &mut observed.found,
        );
    }
    let requested = match (node.get("rules"), node.get("request")) {
        (Some(rules), _) => read_rules(source, rules, &mut observed.found).map(|body| Policy {
            name: "p".into(),
            groups: vec![spot(source, rules, "corn", "groups[0]")],
            ..body
        }),
        (_, Some(request)) => read_request(source, request, &mut observed.found),
        _ => None,
    };
    collect_refusals(
        requested.map_or(Ok(()), |policy| instance.create_policy(actor, policy)),
        &mut observed.found,
    );
    for entry in node.get("steps").map(items).unwrap_or_default() {
        collect_refusals(step(source, entry, actor, &mut instance), &mut observed.found);
    }
    let about_base = node.get("config").is_some();
    let of =
        |object: &NetworkPolicy| object.metadata.as_ref().and_then(|meta| meta.annotation(ORIGIN).cloned());
    let wanted = |object: &NetworkPolicy| of(object).is_some_and(|of| of.starts_with("base:")) == about_base;
    observed.objects = compile(&instance).into_iter().filter(wanted).collect();
    for (group, tool, _) in instance.images() {
        let key = format!("{group}/{tool}");
        let shown = instance.shown(group, tool).into_iter().map(ToString::to_string).collect();
        observed.shown.insert(key.clone(), shown);
        let word = |(why, policy): (Why, &Policy)| match why {
            Why::Base => format!("base:{}", policy.name),
            _ => policy.name.to_string(),
        };
        observed.applied.insert(key, instance.applied(group, tool).into_iter().map(word).collect());
    }
    observed
}

fn collect_refusals(step: Step, found: &mut Vec<Diagnostic>) {
    if let Err(refused) = step {
        found.extend(refused);
    }
}

fn step(source: &Source, node: &Node<'_>, actor: Actor, instance: &mut Instance) -> Step {
    let Value::Map(entries) = &node.value else { return Ok(()) };
    for entry in entries {
        let what = &entry.value;
        let text = |key: &str| what.get(key).and_then(Node::as_str).unwrap_or_default();
        let flag = |key: &str| match what.get(key).map(|node| &node.value) {
            Some(Value::Bool(flag)) => Some(*flag),
            _ => None,
        };
        let (group, tool) = (text("group"), text("tool"));
        match &*entry.key {
            "createImage" => {
                let names = what.get("network_policies").map(items);
                let names: Option<Vec<Spot>> = names.map(|names| {
                    let texts = names.iter().filter_map(|name| Some((name, name.as_str()?)));
                    texts.map(|(node, name)| spot(source, node, name, "network_policies")).collect()
                });
                let kubernetes = matches!(text("scaler"), "" | "K8s");
                let image = Image { kubernetes, ..Image::default() };
                let group = spot(source, what, group, "group");
                instance.create_image(&group, tool, image, names.as_deref())?;
            }
            "addPolicy" => {
                instance.add_policy(group, tool, &spot(source, what, text("policy"), "policy"))?;
            }
            "updatePolicy" => {
                let change = Change { forced: flag("forced_policy"), default: flag("default_policy") };
                instance.update_policy(actor, text("name"), change)?;
            }
            "deletePolicy" => instance.delete_policy(actor, text("name"))?,
            other => {
                let message =
                    format!("no step {other:?}: createImage, addPolicy, updatePolicy, deletePolicy");
                let at = source.location(entry.key_span);
                return Err(vec![Diagnostic::new(&BAD_TEST, message).at(Some(at))]);
            }
        }
    }
    Ok(())
}

fn spot(source: &Source, node: &Node<'_>, name: &str, field: &str) -> Spot {
    Spot { name: name.into(), field: field.to_owned(), at: source.location(node.span) }
}

/// Returns expected and actual values, wherever they differ.
fn differences(source: &Source, node: &Node<'_>, observed: &ObservedState) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let Some(expect) = node.get("expect") else {
        return vec![("something".to_owned(), "the case expects nothing".to_owned())];
    };
    let text = |key: &str| expect.get(key).and_then(Node::as_str);
    let errors: Vec<&Diagnostic> = observed.found.iter().filter(|finding| finding.is_error()).collect();
    let words = |finding: &Diagnostic| {
        let reason = reason(finding.code).unwrap_or(finding.code.id);
        format!("{reason} at {:?}: {}", finding.field, finding.message)
    };
    if text("result") == Some("reject") {
        let hit = errors.iter().any(|error| {
            text("reason").is_none_or(|wanted| reason(error.code) == Some(wanted))
                && text("field").is_none_or(|wanted| error.field == wanted)
        });
        if !hit {
            let expected = format!("rejected for {:?} at {:?}", text("reason"), text("field"));
            let refusals: Vec<String> = errors.iter().map(|error| words(error)).collect();
            let none = refusals.is_empty().then(|| "accepted".to_owned());
            all.push((expected, none.unwrap_or_else(|| refusals.join("; "))));
        }
        return all;
    }
    if let Some(error) = errors.first() {
        all.push(("accepted".to_owned(), words(error)));
    }
    let warnings: BTreeSet<&str> = observed
        .found
        .iter()
        .filter(|finding| !finding.is_error())
        .filter_map(|finding| reason(finding.code))
        .collect();
    let wanted: BTreeSet<&str> = text("warning").into_iter().collect();
    if warnings != wanted {
        all.push((format!("warnings {wanted:?}"), format!("{warnings:?}")));
    }
    if let Some(objects) = expect.get("objects") {
        all.extend(compare_objects(source, items(objects), &observed.objects));
    }
    for (key, actual) in [("shown", &observed.shown), ("applied", &observed.applied)] {
        if let Some(wanted) = expect.get(key).map(lists)
            && wanted != *actual
        {
            all.push((format!("{key} {wanted:?}"), format!("{actual:?}")));
        }
    }
    all
}

/// Compares without names and selectors; the names must be legal and distinct.
fn compare_objects(
    source: &Source,
    expected: &[Node<'_>],
    observed: &[NetworkPolicy],
) -> Vec<(String, String)> {
    let bare = |object: &NetworkPolicy| -> Written {
        let mut object = object.clone();
        if let Some(meta) = &mut object.metadata {
            (meta.name, meta.labels, meta.annotations) = (None, None, None);
        }
        if let Some(spec) = &mut object.spec {
            spec.pod_selector = None;
        }
        object.written().sorted()
    };
    let read = |node: &Node<'_>| {
        let mut found = Vec::new();
        let mut reader = Reader::new(source, node, &mut found);
        NetworkPolicy::decode(node, &Path::root(), &mut reader).map(|object| bare(&object))
    };
    let mut wanted: Vec<Written> = expected.iter().filter_map(read).collect();
    let mut actual: Vec<Written> = observed.iter().map(bare).collect();
    wanted.sort();
    actual.sort();
    let mut all = Vec::new();
    if wanted != actual {
        all.push((format!("{wanted:?}"), format!("{actual:?}")));
    }
    let mut names = BTreeSet::new();
    for meta in observed.iter().filter_map(|object| object.metadata.as_ref()) {
        let name = meta.name.as_deref().unwrap_or_default();
        if !dns1123_subdomain(name).is_empty() || !names.insert((&meta.namespace, name)) {
            all.push(("objects with legal and distinct names".to_owned(), name.to_owned()));
        }
    }
    all
}

fn lists(node: &Node<'_>) -> PoliciesByImage {
    let Value::Map(entries) = &node.value else { return PoliciesByImage::new() };
    let names =
        |node: &Node<'_>| items(node).iter().filter_map(Node::as_str).map(ToOwned::to_owned).collect();
    entries.iter().map(|entry| (entry.key.to_string(), names(&entry.value))).collect()
}

fn items<'n, 's>(node: &'n Node<'s>) -> &'n [Node<'s>] {
    match &node.value {
        Value::List(items) => items,
        _ => &[],
    }
}
