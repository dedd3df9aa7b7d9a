//! A Thorium instance as far as policies go: groups, policies, images, and the steps that change them.
//!
//! Pure and synchronous: a step changes the instance or says, all at once, why it is refused. Reading a folder, running
//! the cases of `suites/thorium` and, one day, a service all work on this.

use std::collections::{BTreeMap, BTreeSet};

use palisade_model::diagnostic::{Code, Diagnostic, Location, Subject};
use palisade_model::nearest::nearest;
use smol_str::SmolStr;

use super::codes;
use super::default_base::default_base;
use super::policy::{Policy, Reading, Sort, Spot};
use crate::apimachinery::names::dns1123_label;

/// Groups, policies and images.
#[derive(Debug, Clone)]
pub struct Instance {
    /// The groups; each is a namespace.
    pub groups: BTreeSet<SmolStr>,
    /// Whether those are all: without a manifest nobody says, and every group that is named exists.
    pub closed: bool,
    /// Whether a manifest describes it, with a Thorium API and cluster DNS around.
    pub described: bool,
    /// Where Thorium itself runs.
    pub namespace: SmolStr,
    /// Who is right where document and program differ.
    pub reading: Reading,
    /// The base policies that are given; `None` when the configuration does not speak about them.
    base: Option<Vec<Policy>>,
    default_base: Policy,
    policies: Vec<Policy>,
    /// Their places by name: an instance may have thousands.
    by_name: BTreeMap<SmolStr, Vec<usize>>,
    images: BTreeMap<(SmolStr, SmolStr), Image>,
}

/// A tool.
#[derive(Debug, Clone, Default)]
pub struct Image {
    /// Whether Kubernetes runs it: policies hold for no other.
    pub kubernetes: bool,
    /// The policies it shows, by name.
    pub policies: BTreeSet<SmolStr>,
    /// What of it cannot be read, if anything: it is isolated then.
    pub unreadable: Option<String>,
    /// Where it is written.
    pub at: Option<Location>,
}

/// Who asks for a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Actor {
    /// May do everything.
    #[default]
    Admin,
    /// Creates images and adds policies to them.
    Developer,
}

/// Why a policy holds for a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It holds for every tool.
    Base,
    /// It holds for every tool of its groups.
    Forced,
    /// It was added to the image.
    Attached,
}

/// What is to change in a policy; what is `None` stays.
#[derive(Debug, Clone, Copy, Default)]
pub struct Change {
    /// Whether it applies to all tools of its groups.
    pub forced: Option<bool>,
    /// Whether new images get it.
    pub default: Option<bool>,
}

/// Done, or everything that speaks against it.
pub type Step = Result<(), Vec<Diagnostic>>;

/// A name that does not exist is compared with as many: each that is wrong would cost a walk over all.
const COMPARED: usize = 1000;

/// The namespace Thorium runs in where nobody says otherwise.
pub const THORIUM_NAMESPACE: &str = "thorium";

impl Default for Instance {
    fn default() -> Self {
        Instance::new(THORIUM_NAMESPACE.into())
    }
}

impl Instance {
    /// An instance without groups, Thorium itself running in a namespace.
    pub fn new(namespace: SmolStr) -> Self {
        Instance {
            groups: BTreeSet::new(),
            closed: true,
            described: false,
            default_base: default_base(&namespace),
            namespace,
            reading: Reading::default(),
            base: None,
            policies: Vec::new(),
            by_name: BTreeMap::new(),
            images: BTreeMap::new(),
        }
    }

    /// Adds the base policies of a configuration; an empty list is one, too.
    pub fn configure(&mut self, base: Vec<Policy>) {
        self.base.get_or_insert_default().extend(base);
    }

    /// The base policies that hold: those given, or the default one.
    pub fn base(&self) -> Vec<&Policy> {
        match (&self.base, self.reading) {
            // In the program an empty list is no reason for the default.
            (Some(base), Reading::Program) => {
                let last = |(index, policy): &(usize, &Policy)| {
                    !base[index + 1..].iter().any(|later| later.name == policy.name)
                };
                base.iter().enumerate().filter(last).map(|(_, policy)| policy).collect()
            }
            (Some(base), Reading::Document) if !base.is_empty() => base.iter().collect(),
            _ => vec![&self.default_base],
        }
    }

    /// Whether the default base policy is the one that holds.
    pub fn has_default_base(&self) -> bool {
        self.base().first().is_some_and(|policy| policy.at.is_none())
    }

    /// All policies that are not base policies.
    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    /// All tools, by group and name.
    pub fn images(&self) -> impl Iterator<Item = (&SmolStr, &SmolStr, &Image)> {
        self.images.iter().map(|((group, tool), image)| (group, tool, image))
    }

    /// A tool.
    pub fn image(&self, group: &str, tool: &str) -> Option<&Image> {
        self.images.get(&(group.into(), tool.into()))
    }

    /// A policy by its name in a group.
    pub fn policy(&self, group: &str, name: &str) -> Option<&Policy> {
        self.named(name).find(|policy| policy.is_in(group))
    }

    /// The policies of a name, in any group.
    pub fn named(&self, name: &str) -> impl Iterator<Item = &Policy> {
        self.by_name.get(name).into_iter().flatten().filter_map(|at| self.policies.get(*at))
    }

    /// What an image's info lists.
    pub fn shown(&self, group: &str, tool: &str) -> Vec<&SmolStr> {
        self.image(group, tool).map(|image| image.policies.iter().collect()).unwrap_or_default()
    }

    /// What holds for the pods of a tool when next started, each with why.
    pub fn applied(&self, group: &str, tool: &str) -> Vec<(Why, &Policy)> {
        let Some(image) = self.image(group, tool).filter(|image| image.kubernetes) else { return Vec::new() };
        let base = self.base().into_iter().map(|policy| (Why::Base, policy));
        let own = self.policies.iter().filter(|policy| policy.is_in(group)).filter_map(|policy| {
            let attached = image.policies.contains(&policy.name).then_some(Why::Attached);
            attached.or(policy.is_forced(self.reading).then_some(Why::Forced)).map(|why| (why, policy))
        });
        base.chain(own).collect()
    }

    /// What speaks against a policy, besides what was found while reading it.
    pub fn review(&self, policy: &Policy) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        for spot in policy.groups.iter().filter(|spot| !self.exists(&spot.name)) {
            found.push(self.unknown_group(spot, policy));
        }
        for spot in policy.all_rules().flat_map(|rule| &rule.groups) {
            if !self.exists(&spot.name) {
                found.push(self.unknown_group(spot, policy));
            }
        }
        if policy.sort == Sort::Base {
            return found;
        }
        for spot in &policy.groups {
            if let Some(other) = self.policy(&spot.name, &policy.name) {
                let message = format!("group {} has a policy {} already", spot.name, policy.name);
                let finding = refusal(&codes::DUPLICATE_POLICY, message, policy.subject()).field(&spot.field);
                let other = other.at.as_ref().map(|at| format!("the other one is at {at}"));
                found.push(Diagnostic { help: other, ..finding.at(Some(spot.at.clone())) });
            }
        }
        found
    }

    /// Takes away from rules what they cannot say: one that allows a group which does not exist allows nobody.
    pub fn close_rules(&self, policy: &mut Policy) {
        for rule in policy.all_rules_mut() {
            if let Some(spot) = rule.groups.iter().find(|spot| !self.exists(&spot.name)) {
                rule.unreadable.get_or_insert_with(|| format!("there is no group {}", spot.name));
            }
        }
    }

    /// Creates a policy.
    pub fn create_policy(&mut self, actor: Actor, policy: Policy) -> Step {
        admins_only(actor, "create", &policy.name)?;
        let found = self.review(&policy);
        if !found.is_empty() {
            return Err(found);
        }
        self.insert_policy(policy);
        Ok(())
    }

    /// Adds a policy whatever speaks against it.
    pub fn insert_policy(&mut self, policy: Policy) {
        if !self.closed {
            let names = policy.groups.iter().map(|spot| spot.name.clone());
            self.groups.extend(names.filter(|name| is_namespace(name)));
        }
        self.by_name.entry(policy.name.clone()).or_default().push(self.policies.len());
        self.policies.push(policy);
    }

    /// Changes whether a policy is forced or default. Images keep what they have.
    pub fn update_policy(&mut self, actor: Actor, name: &str, change: Change) -> Step {
        admins_only(actor, "change", name)?;
        let mut there = false;
        for policy in self.policies.iter_mut().filter(|policy| policy.name == name) {
            there = true;
            policy.forced = change.forced.unwrap_or(policy.forced);
            policy.default = change.default.unwrap_or(policy.default);
        }
        if there { Ok(()) } else { Err(vec![self.unknown_policy(name)]) }
    }

    /// Deletes a policy, and takes it off the images that have it.
    pub fn delete_policy(&mut self, actor: Actor, name: &str) -> Step {
        admins_only(actor, "delete", name)?;
        let before = self.policies.len();
        self.policies.retain(|policy| policy.name != name);
        if self.policies.len() == before {
            return Err(vec![self.unknown_policy(name)]);
        }
        self.by_name.clear();
        for (at, policy) in self.policies.iter().enumerate() {
            self.by_name.entry(policy.name.clone()).or_default().push(at);
        }
        for image in self.images.values_mut() {
            image.policies.remove(name);
        }
        Ok(())
    }

    /// Creates an image. One that brings no policies (`None`) gets the default ones of its group.
    pub fn create_image(
        &mut self,
        group: &Spot,
        tool: &str,
        image: Image,
        policies: Option<&[Spot]>,
    ) -> Step {
        let found = self.review_image(group, tool, &image, policies);
        if !found.is_empty() {
            return Err(found);
        }
        self.insert_image(group, tool, image, policies);
        Ok(())
    }

    /// What speaks against an image.
    pub fn review_image(
        &self,
        group: &Spot,
        tool: &str,
        image: &Image,
        policies: Option<&[Spot]>,
    ) -> Vec<Diagnostic> {
        let subject = image_subject(&group.name, tool);
        let mut found = Vec::new();
        if !self.exists(&group.name) {
            let message = format!("there is no group {}", group.name);
            let finding = refusal(&codes::UNKNOWN_GROUP, message, subject.clone()).field(&group.field);
            found.push(self.near_groups(finding.at(Some(group.at.clone())), &group.name));
        }
        if self.image(&group.name, tool).is_some() {
            let message = format!("group {} has an image {tool} already", group.name);
            found.push(refusal(&codes::IMAGE, message, subject.clone()).at(image.at.clone()));
        }
        let policies = policies.unwrap_or_default();
        if let (false, Some(first)) = (image.kubernetes, policies.first()) {
            let message = "network policies hold only for images of the scaler K8s".to_owned();
            let finding = refusal(&codes::SCALER, message, subject.clone()).field(&first.field);
            found.push(finding.at(Some(first.at.clone())));
        }
        let missing = policies.iter().filter(|spot| self.policy(&group.name, &spot.name).is_none());
        found.extend(missing.map(|spot| self.not_in_group(spot, &group.name, &subject)));
        found
    }

    /// Adds an image whatever speaks against it, with the policies that there are.
    pub fn insert_image(&mut self, group: &Spot, tool: &str, mut image: Image, policies: Option<&[Spot]>) {
        if !self.closed {
            self.groups.insert(group.name.clone());
        }
        match policies {
            _ if !image.kubernetes => {}
            Some(policies) => {
                for spot in policies {
                    if self.policy(&group.name, &spot.name).is_some() {
                        image.policies.insert(spot.name.clone());
                    } else {
                        let what = format!("no policy {} in its group", spot.name);
                        image.unreadable.get_or_insert(what);
                    }
                }
            }
            // What it brought cannot be read: then it is not known that it brought none.
            None if image.unreadable.is_some() => {}
            None => {
                let default = |policy: &&Policy| policy.default && policy.is_in(&group.name);
                image.policies.extend(self.policies.iter().filter(default).map(|policy| policy.name.clone()));
            }
        }
        self.images.insert((group.name.clone(), tool.into()), image);
    }

    /// Notes that nobody knows what an image is: it is isolated.
    pub fn doubt_image(&mut self, group: &str, tool: &str, why: &str) {
        if let Some(image) = self.images.get_mut(&(group.into(), tool.into())) {
            image.unreadable.get_or_insert(why.to_owned());
            // One of the two may be a tool like the others.
            image.kubernetes = true;
        }
    }

    /// Adds a policy to an image.
    pub fn add_policy(&mut self, group: &str, tool: &str, policy: &Spot) -> Step {
        let subject = image_subject(group, tool);
        let Some(image) = self.image(group, tool) else {
            let message = format!("there is no image {group}/{tool}");
            return Err(vec![refusal(&codes::IMAGE, message, subject)]);
        };
        if !image.kubernetes {
            let message = "network policies hold only for images of the scaler K8s".to_owned();
            return Err(vec![refusal(&codes::SCALER, message, subject)]);
        }
        if self.policy(group, &policy.name).is_none() {
            return Err(vec![self.not_in_group(policy, group, &subject)]);
        }
        if let Some(image) = self.images.get_mut(&(group.into(), tool.into())) {
            image.policies.insert(policy.name.clone());
        }
        Ok(())
    }

    fn exists(&self, group: &str) -> bool {
        !self.closed || self.groups.contains(group)
    }

    fn unknown_group(&self, spot: &Spot, policy: &Policy) -> Diagnostic {
        let message = format!("there is no group {}", spot.name);
        let finding = refusal(&codes::UNKNOWN_GROUP, message, policy.subject()).field(&spot.field);
        self.near_groups(finding.at(Some(spot.at.clone())), &spot.name)
    }

    fn near_groups(&self, finding: Diagnostic, name: &str) -> Diagnostic {
        let near = nearest(name, self.groups.iter().map(SmolStr::as_str).take(COMPARED));
        let help = match near.first() {
            Some(near) => format!("did you mean {near}?"),
            None => "the groups are those that ThoriumInstance manifests list".to_owned(),
        };
        finding.help(help)
    }

    fn not_in_group(&self, spot: &Spot, group: &str, subject: &Subject) -> Diagnostic {
        let message = format!("no policy {} in group {group}", spot.name);
        let finding = refusal(&codes::POLICY_NOT_IN_GROUP, message, subject.clone()).field(&spot.field);
        let elsewhere = self.named(&spot.name).next();
        let here = self.policies.iter().filter(|policy| policy.is_in(group)).take(COMPARED);
        let help = match (elsewhere, nearest(&spot.name, here.map(|policy| policy.name.as_str())).first()) {
            (Some(policy), _) => {
                let groups: Vec<&str> = policy.groups.iter().map(|spot| spot.name.as_str()).collect();
                Some(format!(
                    "it is in {}; only policies of the tool's own group can be added",
                    groups.join(", ")
                ))
            }
            (None, Some(near)) => Some(format!("did you mean {near}?")),
            (None, None) => None,
        };
        Diagnostic { help, ..finding.at(Some(spot.at.clone())) }
    }

    fn unknown_policy(&self, name: &str) -> Diagnostic {
        let subject = Subject { kind: "ThoriumPolicy".into(), namespace: None, name: name.into() };
        refusal(&codes::UNKNOWN_POLICY, format!("there is no policy {name}"), subject)
    }
}

/// Whether a group can be: its tools run in the namespace of its name.
pub(super) fn is_namespace(name: &str) -> bool {
    dns1123_label(name).is_empty()
}

fn refusal(code: &'static Code, message: String, subject: Subject) -> Diagnostic {
    Diagnostic::new(code, message).about(subject)
}

fn image_subject(group: &str, tool: &str) -> Subject {
    Subject { kind: "ThoriumImage".into(), namespace: Some(group.into()), name: tool.into() }
}

fn admins_only(actor: Actor, what: &str, name: &str) -> Step {
    if actor == Actor::Admin {
        return Ok(());
    }
    let subject = Subject { kind: "ThoriumPolicy".into(), namespace: None, name: name.into() };
    Err(vec![refusal(&codes::NOT_ADMIN, format!("only admins {what} network policies"), subject)])
}
