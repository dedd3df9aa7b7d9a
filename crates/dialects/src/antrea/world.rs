//! What Antrea asks of several objects together: tiers that exist and do not collide, groups that are not nested.
//!
//! [`among`] answers a request, as the webhook does: the new object is held against those that are there. [`check`] asks
//! the same of a set of files, in which nothing comes first.

use std::collections::{BTreeMap, BTreeSet};

use palisade_model::diagnostic::{Code, Diagnostic, Location, Subject};
use palisade_model::group::Members;
use palisade_model::nearest::nearest;
use palisade_model::policy::{Placement, Tier};
use smol_str::SmolStr;

use super::tiers::{self, built_in, built_in_of, in_use, tier_name, written};
use super::{GROUP, GROUP_2020, codes, priority};
use crate::admission::Request;
use crate::apimachinery::field::Path;
use crate::decode::Reader;
use crate::definition::schema::{items, written as field};
use crate::object::{Header, Key, Loaded, Lowered};
use crate::source::tree::Node;
use crate::world::World;

/// As many names are guessed at; each takes a look at all that there are.
const MOST_GUESSES: usize = 50;

/// There are not more tiers, the built-in ones included.
const MOST_TIERS: usize = 20;

/// The place of the upstream ClusterNetworkPolicy of tier Admin.
const UPSTREAM_ADMIN: u8 = 220;

/// What the other objects have to say to a request.
pub fn among(request: Request<'_>, header: &Header, world: &World, reader: &mut Reader<'_>) {
    let antrea = super::is_ours(&header.group);
    match (&*header.kind, request) {
        ("Tier", Request::Create(new)) if antrea => create_tier(header, new, world, reader),
        ("Tier", Request::Delete(_)) if antrea => delete_tier(header, world, reader),
        ("ClusterNetworkPolicy" | "NetworkPolicy", Request::Create(new) | Request::Update(_, new))
            if antrea =>
        {
            place_policy(header, new, world, reader);
        }
        ("ClusterGroup" | "Group", Request::Create(new) | Request::Update(_, new)) if antrea => {
            nest_group(header, new, world, reader);
        }
        ("ClusterNetworkPolicy", Request::Create(_)) if header.group == "policy.networking.k8s.io" => {
            let in_the_way = written(world).find(|(_, priority)| *priority == Some(UPSTREAM_ADMIN));
            if let Some((tier, _)) = in_the_way {
                let message = format!(
                    "tier {} has priority {UPSTREAM_ADMIN}, which is reserved for ClusterNetworkPolicy",
                    tier.key.name
                );
                reader.report(&codes::TIER_220, &Path::new("spec").child("tier"), message);
            }
        }
        _ => {}
    }
}

/// What is wrong with the objects of a world together.
pub fn check(world: &World, found: &mut Vec<Diagnostic>) {
    missing_tiers(world, found);
    tier_values(world, found);
    tier_count(world, found);
    nested_groups(world, found);
    both_groups(world, found);
}

fn create_tier(header: &Header, new: &Node<'_>, world: &World, reader: &mut Reader<'_>) {
    let tiers = in_force(header, world);
    let (spec, metadata) = (Path::new("spec"), Path::new("metadata"));
    if tiers.len() >= MOST_TIERS {
        let message = format!("maximum number of Tiers supported: {MOST_TIERS}");
        reader.report(&codes::TIER_COUNT, &metadata.child("name"), message);
    }
    let priority = priority(new);
    if let Some((name, priority)) = tiers.iter().find(|(_, other)| Some(i64::from(*other)) == priority) {
        let message = format!("tier {} priority {priority} overlaps with existing Tier", header.name);
        reader.report(&codes::TIER_OVERLAP, &spec.child("priority"), message).help =
            Some(format!("it is the priority of {name}"));
    } else if built_in_of(&header.group).iter().any(|(name, _)| *name == header.name) {
        let message = format!("tiers.{} \"{}\" already exists", header.group, header.name);
        reader.report(&codes::TIER_BUILT_IN, &metadata.child("name"), message);
    }
}

/// The tiers that a new one meets. It brings the built-in ones of its own API group along.
fn in_force(header: &Header, world: &World) -> Vec<(SmolStr, u8)> {
    tiers::with(world, &header.group).into_iter().collect()
}

fn delete_tier(header: &Header, world: &World, reader: &mut Reader<'_>) {
    let path = Path::new("metadata");
    let path = path.child("name");
    let name = &header.name;
    if built_in_of(&header.group).iter().any(|(built_in, _)| built_in == name) {
        reader.report(&codes::TIER_BUILT_IN, &path, format!("cannot delete reserved tier {name}"));
        return;
    }
    let kinds = [
        ("ClusterNetworkPolicy", "Antrea ClusterNetworkPolicies"),
        ("NetworkPolicy", "Antrea NetworkPolicies"),
    ];
    for (kind, plural) in kinds {
        let users: Vec<String> = policies(world)
            .filter(|(loaded, tier)| loaded.key.kind == kind && *tier == name)
            .map(|(loaded, _)| full_name(loaded))
            .collect();
        if !users.is_empty() {
            let message = format!("tier {name} is referenced by {} {plural}", users.len());
            reader.report(&codes::TIER_IN_USE, &path, message).help =
                Some(format!("by {}", users.join(", ")));
        }
    }
}

fn place_policy(header: &Header, new: &Node<'_>, world: &World, reader: &mut Reader<'_>) {
    let Some(written) = field(new, "spec").and_then(|spec| spec.get("tier")).and_then(Node::as_str) else {
        return;
    };
    let (name, tiers) = (tier_name(written), in_force(header, world));
    if !tiers.iter().any(|(tier, _)| *tier == name) {
        let help = near(&name, tiers.iter().map(|(name, _)| name.as_str()));
        reader.report(&codes::NO_TIER, &Path::new("spec").child("tier"), no_tier(written)).help = help;
    }
}

fn nest_group(header: &Header, new: &Node<'_>, world: &World, reader: &mut Reader<'_>) {
    let children = field(new, "spec").map_or(&[][..], |spec| items(spec, "childGroups"));
    if children.is_empty() {
        return;
    }
    let full = |name: &str| match &header.namespace {
        Some(namespace) => format!("Group {namespace}/{name}"),
        None => format!("ClusterGroup {name}"),
    };
    let spec = Path::new("spec");
    let path = spec.child("childGroups");
    let siblings = || {
        let same =
            |loaded: &&Loaded| loaded.key.kind == header.kind && loaded.key.namespace == header.namespace;
        world.iter().filter(same).filter(|loaded| loaded.key.name != header.name)
    };
    let parents = siblings().filter(|loaded| children_of(loaded).contains(&header.name)).count();
    if parents > 0 {
        let message = format!("cannot set childGroups for {}, who has {parents} parents", full(&header.name));
        reader.report(&codes::GROUP_NESTING, &path, message);
    }
    let mut nested: BTreeMap<&str, usize> = BTreeMap::new();
    for loaded in siblings() {
        nested.entry(&loaded.key.name).or_insert(children_of(loaded).len());
    }
    for (index, child) in children.iter().enumerate() {
        let Some(child) = child.as_str() else { continue };
        let nested = nested.get(child).copied().unwrap_or(0);
        if nested > 0 {
            reader.report(&codes::GROUP_NESTING, &path.index(index), nesting(&full(child), nested));
        }
    }
}

fn nesting(child: &str, nested: usize) -> String {
    format!("cannot set {child} as childGroup, who has {nested} childGroups itself")
}

fn no_tier(written: &str) -> String {
    format!("tier {written} does not exist")
}

fn missing_tiers(world: &World, found: &mut Vec<Diagnostic>) {
    let tiers = tiers::tiers(world);
    let there: BTreeSet<&SmolStr> = written(world).map(|(loaded, _)| &loaded.key.name).collect();
    let mut help: BTreeMap<&SmolStr, Option<String>> = BTreeMap::new();
    for (loaded, tier) in policies(world) {
        // A tier that is there without a priority has been reported.
        if !tiers.contains_key(tier) && !there.contains(tier) {
            let mut diagnostic = about(&codes::NO_TIER, loaded, "tier", no_tier(tier));
            let near = || near(tier, tiers.keys().map(SmolStr::as_str));
            diagnostic.help = help.entry(tier).or_insert_with(near).clone();
            found.push(diagnostic);
        }
    }
}

fn tier_values(world: &World, found: &mut Vec<Diagnostic>) {
    let tiers = tiers::tiers(world);
    let built_in = built_in(world);
    // The first of each priority, and the first under another name than that one's.
    let mut seen: BTreeMap<u8, Vec<&Loaded>> = BTreeMap::new();
    for (loaded, priority) in written(world) {
        let (name, Some(priority)) = (&loaded.key.name, priority) else { continue };
        let usual = built_in_of(&loaded.key.group).iter().find(|(built_in, _)| built_in == name);
        if let Some((_, usual)) = usual.filter(|(_, usual)| *usual != priority) {
            let message = format!("{name} is a built-in tier, with priority {usual} instead of {priority}");
            found.push(about(&codes::TIER_VALUE, loaded, "priority", message));
        }
        let alike = seen.entry(priority).or_default();
        let other = alike.iter().find(|other| other.key.name != *name);
        let other = other.map(|other| format!("{}, at {}", other.key.name, other.at));
        let unwritten = built_in.iter().find(|(built_in, value)| {
            *value == priority && built_in != name && tiers.get(*built_in) == Some(value)
        });
        if let Some(other) = other.or(unwritten.map(|(name, _)| format!("{name}, which is built in"))) {
            let message = format!("tier {name} priority {priority} overlaps with existing Tier");
            let diagnostic = about(&codes::TIER_OVERLAP, loaded, "priority", message);
            found.push(diagnostic.help(format!("it is the priority of {other}")));
        }
        if alike.len() < 2 {
            alike.push(loaded);
        }
    }
}

fn tier_count(world: &World, found: &mut Vec<Diagnostic>) {
    let mut names: Vec<&str> = built_in(world).iter().map(|(name, _)| *name).collect();
    names.extend(written(world).map(|(loaded, _)| loaded.key.name.as_str()));
    names.sort_unstable();
    names.dedup();
    if let Some((last, _)) = written(world).last().filter(|_| names.len() > MOST_TIERS) {
        let message = format!("maximum number of Tiers supported: {MOST_TIERS}");
        let help = format!("there are {} with the built-in ones", names.len());
        found.push(about(&codes::TIER_COUNT, last, "priority", message).help(help));
    }
}

/// Reports child groups that do not exist. They may be created later: nothing keeps the parent from being evaluated or
/// enforced, so that this is no part of [`check`].
pub fn missing_children(world: &World, found: &mut Vec<Diagnostic>) {
    let groups = groups(world);
    let mut helped = 0;
    for (loaded, name) in with_children(&groups) {
        if groups.contains_key(&Key { name: name.clone(), ..loaded.key.clone() }) {
            continue;
        }
        let message = format!("{} {name} does not exist: it has no members", loaded.key.kind);
        let mut diagnostic = about(&codes::NO_GROUP, loaded, "childGroups", message);
        // A world without most of its groups is not helped by a guess for each.
        helped += 1;
        if helped <= MOST_GUESSES {
            let beside = groups
                .keys()
                .filter(|key| key.kind == loaded.key.kind && key.namespace == loaded.key.namespace);
            diagnostic.help = near(name, beside.map(|key| key.name.as_str()));
        }
        found.push(diagnostic);
    }
}

fn nested_groups(world: &World, found: &mut Vec<Diagnostic>) {
    let groups = groups(world);
    for (loaded, name) in with_children(&groups) {
        // That a group is its own child, it was told when it was read.
        if let Some(child) = groups.get(&Key { name: name.clone(), ..loaded.key.clone() })
            && child.key != loaded.key
            && !children_of(child).is_empty()
        {
            let full = format!("{} {}", child.key.kind, full_name(child));
            let message = nesting(&full, children_of(child).len());
            found.push(about(&codes::GROUP_NESTING, loaded, "childGroups", message));
        }
    }
}

fn groups(world: &World) -> BTreeMap<&Key, &Loaded> {
    let is_group = |loaded: &&Loaded| matches!(loaded.lowered, Lowered::Group(_));
    world.iter().filter(is_group).map(|loaded| (&loaded.key, loaded)).collect()
}

/// Pairs of a group and the name of a child, each child once.
fn with_children<'w>(
    groups: &BTreeMap<&'w Key, &'w Loaded>,
) -> impl Iterator<Item = (&'w Loaded, &'w SmolStr)> {
    groups.values().flat_map(|loaded| {
        let children: BTreeSet<&SmolStr> = children_of(loaded).iter().collect();
        children.into_iter().map(|child| (*loaded, child))
    })
}

fn both_groups(world: &World, found: &mut Vec<Diagnostic>) {
    let older = world.iter().find(|loaded| loaded.key.group == GROUP_2020);
    if let (true, Some(older)) = (in_use(world).0, older) {
        let message = format!("there are objects of {GROUP}, too: its built-in tiers hold for all policies");
        found.push(about(&codes::BOTH_APIS, older, "tier", message));
    }
}

/// The policies of Antrea, each with its tier.
fn policies(world: &World) -> impl Iterator<Item = (&Loaded, &SmolStr)> {
    world.iter().filter_map(|loaded| match &loaded.lowered {
        Lowered::Policy(policy) => match &policy.placement {
            Placement::Tier { tier: Tier::Named(tier), .. } => Some((loaded, tier)),
            _ => None,
        },
        _ => None,
    })
}

fn children_of(loaded: &Loaded) -> &[SmolStr] {
    match &loaded.lowered {
        Lowered::Group(group) => match &group.members {
            Members::Children(children) => children,
            _ => &[],
        },
        _ => &[],
    }
}

fn full_name(loaded: &Loaded) -> String {
    match &loaded.key.namespace {
        Some(namespace) => format!("{namespace}/{}", loaded.key.name),
        None => loaded.key.name.to_string(),
    }
}

fn near<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<String> {
    nearest(name, names).first().map(|near| format!("did you mean {near}?"))
}

/// A finding about a field of an object's spec, or about the object if the field is not written.
fn about(code: &'static Code, loaded: &Loaded, field: &str, message: String) -> Diagnostic {
    let key = &loaded.key;
    let subject =
        Subject { kind: key.kind.clone(), namespace: key.namespace.clone(), name: key.name.clone() };
    let place: Option<&Location> = loaded.places.iter().find(|(name, _)| *name == field).map(|(_, at)| at);
    let diagnostic = Diagnostic::new(code, message).about(subject);
    match place {
        Some(at) => diagnostic.field(format!("spec.{field}")).at(Some(at.clone())),
        None => diagnostic.at(Some(loaded.at.clone())),
    }
}
