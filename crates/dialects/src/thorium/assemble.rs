//! The documents of an input put together: an instance, and what is wrong between them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use palisade_model::diagnostic::{Diagnostic, Location, Subject};
use palisade_model::nearest::nearest;
use smol_str::SmolStr;

use super::codes;
use super::document::{Part, RulesFile};
use super::instance::{Image, Instance, THORIUM_NAMESPACE, is_namespace};
use super::manifest::{Image as Written, Manifest};
use super::policy::{Policy, Reading, Spot};

/// Puts the parts together. `seen` are the namespaces in which pods of tools were seen, each with one of them: where
/// nobody says which groups there are they are groups, too.
pub fn assemble(
    parts: &[Arc<Part>],
    seen: BTreeMap<SmolStr, Option<Location>>,
    reading: Reading,
) -> (Instance, Vec<Diagnostic>) {
    let mut found = Vec::new();
    let manifests: Vec<&Manifest> = parts.iter().filter_map(|part| part.manifest()).collect();
    let configs =
        || parts.iter().filter_map(|part| if let Part::Config(c) = &**part { Some(c) } else { None });
    let namespace = (manifests.iter().find_map(|manifest| manifest.namespace.clone()))
        .or_else(|| configs().find_map(|config| config.namespace.clone()));
    let mut instance =
        Instance::new(namespace.filter(|ns| is_namespace(ns)).unwrap_or(THORIUM_NAMESPACE.into()));
    instance.reading = reading;
    instance.described = !manifests.is_empty();
    // Only where nobody is in doubt about the groups are those that are listed all there are.
    instance.closed = manifests.iter().any(|manifest| manifest.groups.is_some())
        && !manifests.iter().any(|manifest| manifest.doubtful);
    let listed = manifests.iter().filter_map(|manifest| manifest.groups.as_ref()).flatten();
    instance.groups = listed.map(|spot| spot.name.clone()).collect();
    if !instance.closed {
        instance.groups.extend(seen.keys().cloned());
    }
    // What cannot be a namespace has no pods; it has been reported.
    instance.groups.retain(|group| is_namespace(group));

    let mut homes =
        manifests.iter().filter_map(|manifest| Some((manifest.namespace.as_ref()?, &manifest.at)));
    if let Some((first, _)) = homes.next()
        && let Some((other, at)) = homes.find(|(other, _)| *other != first)
    {
        let message =
            format!("Thorium runs in {first} according to one manifest, in {other} according to this one");
        found.push(Diagnostic::new(&codes::TWO_HOMES, message).at(Some(at.clone())));
    }
    let mut base: Vec<Policy> = Vec::new();
    for (index, config) in configs().enumerate() {
        if index > 0 {
            let message = "another configuration is among the input: the base policies of both count";
            found.push(Diagnostic::new(&codes::TWO_CONFIGS, message).at(Some(config.at.clone())));
        }
        let doubtful = config.doubtful.iter().filter(|_| reading == Reading::Document);
        for policy in config.base.iter().flatten().chain(doubtful) {
            let mut policy = policy.clone();
            found.extend(instance.review(&policy));
            instance.close_rules(&mut policy);
            if base.iter().any(|other| other.name == policy.name && policy.unreadable.is_none()) {
                let message = format!("another base policy is called {}", policy.name);
                let finding = Diagnostic::new(&codes::DUPLICATE_BASE, message).about(policy.subject());
                found.push(finding.at(policy.at.clone()));
                policy.unreadable = Some("another base policy has its name".to_owned());
            }
            base.push(policy);
        }
    }
    if !base.is_empty() || configs().any(|config| config.base.is_some()) {
        instance.configure(base);
    }
    policies(parts, &mut instance, &mut found);
    for image in manifests.iter().flat_map(|manifest| &manifest.images) {
        add_image(image, &mut instance, &mut found);
    }
    for (namespace, at) in seen {
        if !instance.groups.contains(&namespace) {
            let message =
                format!("pods of tools run in {namespace}, which is no group: no policy holds for them");
            let subject = Subject { kind: "Namespace".into(), namespace: None, name: namespace };
            found.push(Diagnostic::new(&codes::TOOLS_ELSEWHERE, message).about(subject).at(at));
        }
    }
    let speaks = configs().next().map(|config| &config.at).or(manifests.first().map(|manifest| &manifest.at));
    if let (true, true, Some(at)) = (instance.has_default_base(), !instance.groups.is_empty(), speaks) {
        let message = "no base policy is given: Thorium's default one applies to every tool";
        found.push(Diagnostic::new(&codes::DEFAULT_BASE, message).at(Some(at.clone())));
    }
    (instance, found)
}

/// Adds the policies of requests and manifests.
fn policies(parts: &[Arc<Part>], instance: &mut Instance, found: &mut Vec<Diagnostic>) {
    let files: Vec<&RulesFile> = parts
        .iter()
        .filter_map(|part| if let Part::Rules(rules) = &**part { Some(rules) } else { None })
        .collect();
    let mut used: BTreeSet<&str> = BTreeSet::new();
    for part in parts {
        match &**part {
            Part::Policy(policy) => add_policy(policy.clone(), instance, found),
            Part::Maybe(policy, said) if is_known(policy, parts) => {
                found.extend(said.iter().cloned());
                add_policy(policy.clone(), instance, found);
            }
            Part::Manifest(manifest) => {
                for (policy, rules) in &manifest.policies {
                    let mut policy = policy.clone();
                    if let Some(spot) = rules {
                        let file = with_rules(&mut policy, spot, &files, found);
                        if let Some(file) = file.filter(|file| used.insert(&file.at.file)) {
                            found.extend(file.found.iter().cloned());
                        }
                    }
                    add_policy(policy, instance, found);
                }
            }
            Part::Config(_) | Part::Rules(_) | Part::Maybe(..) => {}
        }
    }
    for file in files.into_iter().filter(|file| file.certain && !used.contains(&*file.at.file)) {
        let message = "no policy uses these rules: nothing of them is in force";
        found.push(Diagnostic::new(&codes::UNUSED_RULES, message).at(Some(file.at.clone())));
    }
}

/// Whether somebody knows a policy that has only a name and groups: an image has it, or a manifest lists its groups.
fn is_known(policy: &Policy, parts: &[Arc<Part>]) -> bool {
    let mut manifests = parts.iter().filter_map(|part| part.manifest());
    let listed = |manifest: &Manifest, group: &Spot| {
        manifest.groups.iter().flatten().any(|listed| listed.name == group.name)
    };
    manifests.any(|manifest| {
        let mut asked = manifest.images.iter().flat_map(|image| image.policies.iter().flatten());
        asked.any(|asked| asked.name == policy.name)
            || !policy.groups.is_empty() && policy.groups.iter().all(|group| listed(manifest, group))
    })
}

fn add_policy(mut policy: Policy, instance: &mut Instance, found: &mut Vec<Diagnostic>) {
    let against = instance.review(&policy);
    if let Some(first) = against.first() {
        policy.refused.get_or_insert(first.message.clone());
    }
    instance.close_rules(&mut policy);
    if against.iter().any(|finding| finding.code.id == codes::DUPLICATE_POLICY.id) {
        policy.unreadable.get_or_insert("another policy of its group has its name".to_owned());
    } else if let Some(other) = instance.named(&policy.name).next().filter(|_| !policy.everywhere) {
        let message = format!("another policy is called {}, in other groups", policy.name);
        let finding = Diagnostic::new(&codes::DIFFERS_SAME_NAME, message).about(policy.subject());
        let help = other.at.as_ref().map(|at| format!("the other one is at {at}"));
        found.push(Diagnostic { help, ..finding.at(policy.at.clone()) });
    }
    found.extend(against);
    instance.insert_policy(policy);
}

/// Gives a policy the rules of the file it names.
fn with_rules<'p>(
    policy: &mut Policy,
    spot: &Spot,
    files: &[&'p RulesFile],
    found: &mut Vec<Diagnostic>,
) -> Option<&'p RulesFile> {
    let file = find(spot, files);
    match file {
        Some(file) => {
            policy.ingress = file.body.ingress.clone();
            policy.egress = file.body.egress.clone();
            policy.unreadable = policy.unreadable.take().or_else(|| file.body.unreadable.clone());
            policy.refused = policy.refused.take().or_else(|| file.body.refused.clone());
            let same = |other: &&&RulesFile| other.at.file == file.at.file && other.at != file.at;
            if let Some(other) = files.iter().find(same) {
                let message = format!("{} holds more than one rules document", spot.name);
                let finding = Diagnostic::new(&codes::TWO_RULES, message).about(policy.subject());
                let finding = finding.field(&spot.field).at(Some(spot.at.clone()));
                found.push(finding.help(format!("they are at {} and {}", file.at, other.at)));
                policy.unreadable.get_or_insert(format!("{} holds two sets of rules", spot.name));
                policy.lost = true;
            }
        }
        None => {
            let message = format!("{} is not among the rules files that were read", spot.name);
            let near = nearest(&spot.name, files.iter().map(|file| &*file.at.file));
            let finding = Diagnostic::new(&codes::UNKNOWN_RULES, message).about(policy.subject());
            let help = match near.first() {
                Some(near) => format!("did you mean {near}?"),
                None => "name the file, or its folder, with -f, too".to_owned(),
            };
            found.push(finding.field(&spot.field).at(Some(spot.at.clone())).help(help));
            policy.unreadable.get_or_insert(format!("there is no rules file {}", spot.name));
            policy.lost = true;
        }
    }
    file
}

/// The rules file of that name: beside the manifest, as named on the command line, or the only one that ends so.
fn find<'p>(spot: &Spot, files: &[&'p RulesFile]) -> Option<&'p RulesFile> {
    let folder = spot.at.file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let beside = tidy(&format!("{folder}/{}", spot.name));
    let plain = tidy(&spot.name);
    let named = |name: &str| files.iter().find(|file| tidy(&file.at.file) == name).copied();
    named(&beside).or_else(|| named(&plain)).or_else(|| {
        let tail = format!("/{plain}");
        let mut ends = files.iter().filter(|file| tidy(&file.at.file).ends_with(&tail));
        match (ends.next(), ends.next()) {
            (Some(only), None) => Some(*only),
            _ => None,
        }
    })
}

/// A path without `.` and without steps back that can be undone.
fn tidy(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" if !parts.is_empty() => {}
            "." => {}
            ".." if parts.last().is_some_and(|last| !last.is_empty() && *last != "..") => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    // An empty folder in front is that of a manifest without one.
    let parts = if parts.first() == Some(&"") && !path.starts_with("//") { &parts[1..] } else { &parts[..] };
    parts.join("/")
}

fn add_image(written: &Written, instance: &mut Instance, found: &mut Vec<Diagnostic>) {
    let mut image = Image {
        kubernetes: written.kubernetes,
        policies: BTreeSet::new(),
        unreadable: written.unreadable.clone(),
        at: Some(written.at.clone()),
    };
    let policies = written.policies.as_deref();
    let against = instance.review_image(&written.group, &written.tool.name, &image, policies);
    if against.iter().any(|finding| finding.code.id == codes::UNKNOWN_GROUP.id) {
        // No base policy holds where there is no group: nothing else would close it.
        image.unreadable.get_or_insert(format!("there is no group {}", written.group.name));
    }
    let twice = against.iter().any(|finding| finding.code.id == codes::IMAGE.id);
    found.extend(against);
    if !is_namespace(&written.group.name) {
        return;
    }
    if twice {
        instance.doubt_image(&written.group.name, &written.tool.name, "it is written twice");
    } else {
        instance.insert_image(&written.group, &written.tool.name, image, policies);
    }
}

impl Part {
    fn manifest(&self) -> Option<&Manifest> {
        match self {
            Part::Manifest(manifest) => Some(manifest),
            _ => None,
        }
    }

    /// Whether it is Thorium's whatever else there is.
    pub fn is_certain(&self) -> bool {
        match self {
            Part::Maybe(..) => false,
            Part::Rules(rules) => rules.certain,
            Part::Config(_) | Part::Policy(_) | Part::Manifest(_) => true,
        }
    }

    /// What it is, for a summary.
    pub fn subject(&self) -> Subject {
        let kind = match self {
            Part::Config(_) => "ThoriumConfig",
            Part::Policy(policy) | Part::Maybe(policy, _) => return policy.subject(),
            Part::Rules(_) => "ThoriumRules",
            Part::Manifest(_) => "ThoriumInstance",
        };
        Subject { kind: kind.into(), namespace: None, name: SmolStr::default() }
    }
}
