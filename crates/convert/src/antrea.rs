//! To Antrea, `crd.antrea.io/v1beta1`: policies of the cluster become ClusterNetworkPolicies, those of a namespace
//! NetworkPolicies.
//!
//! ClusterNetworkPolicy's tier Admin stands at 220 and AdminNetworkPolicy at 251, where Antrea lets nobody have a tier. So
//! they go to the last tier before, behind everything that is there: `platform` and `application`, unless there are
//! others. Whatever stands behind NetworkPolicy, and NetworkPolicies themselves, goes to `baseline`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use palisade_dialects::antrea::{GROUP, GROUP_2020, tiers, write};
use palisade_dialects::object::Lowered;
use palisade_dialects::written::Written;
use palisade_model::policy::{Action, Dialect, Direction, Namespaces, Peer, Placement, Rule, Subject, Tier};
use palisade_model::snapshot::Stage;
use smol_str::SmolStr;

use super::cluster::no_room;
use super::conversion::{Conversion, Origin};
use super::numbers::{Range, Wanted, numbers};
use super::order::{self, Piece, Place, Slot, Tongue};
use super::speech::{Said, Speech, Taken, distinct, suffixed};
use super::{codes, ends, lists};

/// The tiers that are always there.
const BUILT_IN: [(&str, u8); 6] = [
    ("emergency", 50),
    ("securityops", 100),
    ("networkops", 150),
    ("platform", 200),
    ("application", 250),
    ("baseline", 253),
];
/// The priorities there are.
const PRIORITIES: Range = Range { least: 1.0, most: 10000.0, fractions: true };
/// Between a priority of `policy.networking.k8s.io`, which begins at 0, and one here.
const SHIFT: f64 = 1.0;

struct Antrea;

pub(super) fn say(conversion: &Conversion<'_>, speech: &mut Speech) {
    let known = known_tiers(conversion, speech);
    let slots = order::slots(conversion, &Antrea, speech);
    let mut by_tier: BTreeMap<(u8, SmolStr), Vec<&Slot>> = BTreeMap::new();
    for slot in &slots {
        let origin = slot.pieces.first().map(|piece| &conversion.origins[piece.origin]);
        if let Some((name, number)) = origin.and_then(|origin| tier_for(origin, slot.from, &known)) {
            by_tier.entry((number, name)).or_default().push(slot);
        }
    }
    let mut taken =
        (conversion.taken(GROUP, "ClusterNetworkPolicy"), conversion.taken(GROUP, "NetworkPolicy"));
    for ((number, tier), slots) in by_tier {
        let there: Vec<(Place, f64)> = conversion
            .staying
            .iter()
            .filter_map(|stays| stays.place)
            .filter(|place| place.tier == number)
            .map(|place| (place, place.priority.0))
            .collect();
        let priorities = match numbers(&slots, &there, PRIORITIES) {
            Ok(priorities) => priorities,
            Err(these) => {
                no_room(conversion, &slots[these], speech);
                continue;
            }
        };
        for (slot, priority) in slots.into_iter().zip(priorities) {
            for piece in &slot.pieces {
                let object = object(conversion, piece, &tier, priority, &mut taken, speech);
                let (object, place) = (Some(object), Place::new(number, priority));
                speech.said.push(Said { object, origin: piece.origin, place });
            }
        }
    }
}

/// The tiers by name, with those of 2020 as they will be; and these as objects of today.
fn known_tiers(conversion: &Conversion<'_>, speech: &mut Speech) -> BTreeMap<SmolStr, u8> {
    let built_in = |name: &str| BUILT_IN.iter().any(|(known, _)| *known == name);
    let mut known: BTreeMap<SmolStr, u8> =
        BUILT_IN.iter().map(|(name, number)| (SmolStr::new_static(name), *number)).collect();
    let written = tiers(conversion.world).into_iter().filter(|(name, _)| !built_in(name));
    known.extend(written);
    if !conversion.origins.iter().any(|origin| origin.dialect == Dialect::Antrea2020) {
        return known;
    }
    for loaded in conversion.world.iter().filter(|loaded| loaded.key.group == GROUP_2020) {
        let Lowered::Tier(tier) = &loaded.lowered else { continue };
        speech.gone.push(Arc::clone(&tier.object));
        let name = &tier.object.name;
        let today = conversion
            .world
            .iter()
            .any(|other| other.key.group == GROUP && other.key.kind == "Tier" && other.key.name == *name);
        if let Some(number) = tier.priority.filter(|_| !built_in(name) && !today) {
            speech.beside.push(write::tier(name, number));
            // Two tiers of one number cannot be: the built-in ones have others today.
            if known.iter().any(|(other, taken)| other != name && *taken == number) {
                for (index, origin) in conversion.origins.iter().enumerate() {
                    if matches!(&origin.policy.placement, Placement::Tier { tier: Tier::Named(own), .. } if own == name)
                    {
                        let why =
                            format!("tier {name} has the number {number}, which another tier has today");
                        speech.cannot(&codes::ORDER, conversion, index, None, ".tier", why);
                    }
                }
            }
        }
    }
    known
}

/// The tier to say a policy in.
fn tier_for(origin: &Origin, from: Place, known: &BTreeMap<SmolStr, u8>) -> Option<(SmolStr, u8)> {
    if origin.dialect == Dialect::Antrea2020 {
        let Placement::Tier { tier: Tier::Named(name), .. } = &origin.policy.placement else { return None };
        return known.get(name).map(|number| (name.clone(), *number));
    }
    let before = match from.stage() {
        Stage::Tiers => from.tier,
        _ => return Some((SmolStr::new_static("baseline"), 253)),
    };
    let last = known.iter().filter(|(_, number)| **number < before).max_by_key(|(_, number)| **number);
    last.map(|(name, number)| (name.clone(), *number))
}

fn object(
    conversion: &Conversion<'_>,
    piece: &Piece,
    tier: &SmolStr,
    priority: f64,
    taken: &mut (Taken, Taken),
    speech: &mut Speech,
) -> Written {
    let origin = &conversion.origins[piece.origin];
    let home = origin.home();
    let (kind, taken) = match home {
        None => ("ClusterNetworkPolicy", &mut taken.0),
        Some(_) => ("NetworkPolicy", &mut taken.1),
    };
    // What denies the rest stands apart from what is allowed, because every policy's allowing comes first.
    let alone = !piece.isolates || origin.policy.rules.is_empty();
    let wanted = if alone { origin.name() } else { suffixed(&origin.name(), "-isolation") };
    let name = distinct(home, &wanted, taken);
    if alone && name != origin.policy.object.name {
        speech.note(&codes::NAME, conversion, piece.origin, None, "", format!("it becomes {name}"));
    }
    let (mut ingress, mut egress) = (piece.ingress.clone(), piece.egress.clone());
    distinct_names(&mut ingress, &mut egress);
    let metadata = conversion.metadata(origin, &name, home.map(SmolStr::as_str));
    write::policy(kind, metadata, (tier, priority), piece.subjects.clone(), (ingress, egress))
}

/// Names of rules are distinct in a policy; one without a name gets one from its content, so that no two may be alike.
fn distinct_names(ingress: &mut [Written], egress: &mut [Written]) {
    let mut taken = Taken::default();
    let mut unnamed: BTreeSet<Written> = BTreeSet::new();
    for (word, rules) in [("ingress", ingress), ("egress", egress)] {
        unnamed.clear();
        for (index, rule) in rules.iter_mut().enumerate() {
            let twin = rule.get("name").is_none() && unnamed.contains(rule);
            if rule.get("name").is_none() && !twin {
                unnamed.insert(rule.clone());
                continue;
            }
            let wanted = match rule.get("name") {
                Some(Written::Text(name)) => name.clone(),
                _ => format!("{word}-{index}"),
            };
            let name = Written::text(distinct(None, &wanted, &mut taken).as_str());
            if let Written::Map(fields) = rule {
                match fields.iter_mut().find(|(key, _)| key == "name") {
                    Some(field) => field.1 = name,
                    None => fields.insert(0, ("name".to_owned(), name)),
                }
            }
        }
    }
}

fn peer(peer: &Peer, home: Option<&SmolStr>) -> Result<Vec<Written>, String> {
    match peer {
        Peer::Pods(set) if matches!(set.namespaces, Namespaces::NotSameLabels(_)) => {
            Err(format!("{set}: namespaces can be like the subject's there, and not unlike"))
        }
        Peer::Pods(set) => Ok(vec![write::pods(set, home)]),
        Peer::Addresses(block) if block.cidr().addr().is_multicast() => {
            Err(format!("{block}: multicast cannot stand beside other peers there"))
        }
        Peer::Addresses(block) => Ok(vec![write::ip_block(block)]),
        Peer::Nodes(selector) => Ok(vec![write::nodes(selector)]),
        Peer::Names(names) => names
            .iter()
            .map(|name| match write::fqdn(name) {
                Some(peer) => Ok(peer),
                None => Err(format!("{name}: not a name, or names, that can be written there")),
            })
            .collect(),
        other => Err(format!("{other}: there are no words for it there")),
    }
}

// === impl Tongue ===

impl Tongue for Antrea {
    const MOST_RULES: usize = usize::MAX;
    const ONE_SUBJECT: bool = false;

    fn subjects(
        &self,
        conversion: &Conversion<'_>,
        origin: usize,
        subjects: &[Subject],
        speech: &mut Speech,
    ) -> Vec<Written> {
        let home = conversion.origins[origin].home();
        let mut said = Vec::new();
        for subject in subjects {
            match subject {
                Subject::Pods(set) if ends::beyond_labels(set).is_none() => said.push(write::pods(set, home)),
                other => {
                    let why = format!("cannot apply to {other}");
                    speech.cannot(&codes::SUBJECT, conversion, origin, None, "", why);
                }
            }
        }
        said
    }

    fn rule(
        &self,
        conversion: &Conversion<'_>,
        origin: usize,
        rule: &Rule,
        stage: Stage,
        speech: &mut Speech,
    ) -> Vec<Written> {
        let home = conversion.origins[origin].home();
        let Some((peers, ports)) = lists::said(conversion, origin, rule, |one| peer(one, home), speech)
        else {
            return Vec::new();
        };
        // Past the baseline comes the end, where everything is allowed; Pass is refused in that tier.
        let action = match rule.action {
            Action::Pass if stage == Stage::Baseline => Action::Allow,
            action => action,
        };
        vec![write::rule(rule, action, peers, ports)]
    }

    fn deny_all(&self, _: Direction) -> Option<Written> {
        Some(write::drop_all())
    }

    fn may_tie(&self, _: Dialect) -> bool {
        true
    }

    fn wanted(&self, origin: &Origin) -> Wanted {
        match (origin.dialect, origin.place) {
            (Dialect::Antrea2020, Some(place)) => Wanted::Exactly(place.priority.0),
            (_, Some(place)) => Wanted::Exactly(place.priority.0 + SHIFT),
            _ => Wanted::Anywhere,
        }
    }
}
