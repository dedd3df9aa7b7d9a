//! The tiers of a world: those that Antrea brings along, and those that are written.

use std::collections::BTreeMap;

use smol_str::SmolStr;

use super::defaults::DEFAULT_TIER;
use super::{GROUP, GROUP_2020};
use crate::object::{Loaded, Lowered};
use crate::world::World;

/// The tiers of `crd.antrea.io`.
const BUILT_IN: &[(&str, u8)] = &[
    ("emergency", 50),
    ("securityops", 100),
    ("networkops", 150),
    ("platform", 200),
    ("application", 250),
    ("baseline", 253),
];

/// The static tiers of 2020.
const BUILT_IN_2020: &[(&str, u8)] =
    &[("emergency", 5), ("securityops", 50), ("networkops", 100), ("platform", 150), ("application", 250)];

/// Names from the time when tiers were no objects.
const LEGACY: &[(&str, &str)] = &[
    ("Emergency", "emergency"),
    ("SecurityOps", "securityops"),
    ("NetworkOps", "networkops"),
    ("Platform", "platform"),
    ("Application", "application"),
    ("Baseline", "baseline"),
];

/// The tiers that hold for a world, by name: the built-in ones with the priorities of the API group in use (the newer
/// one, if both are), and those that are written, which go before.
pub fn tiers(world: &World) -> BTreeMap<SmolStr, u8> {
    put_together(world, built_in(world))
}

/// The same with an object of this API group in it.
pub(super) fn with(world: &World, group: &str) -> BTreeMap<SmolStr, u8> {
    let newer = group == GROUP || in_use(world).0;
    put_together(world, if newer { BUILT_IN } else { BUILT_IN_2020 })
}

fn put_together(world: &World, built_in: &[(&'static str, u8)]) -> BTreeMap<SmolStr, u8> {
    let mut tiers: BTreeMap<SmolStr, u8> =
        built_in.iter().map(|(name, priority)| (SmolStr::new_static(name), *priority)).collect();
    // Both groups may have a tier of one name; the newer one counts.
    for group in [GROUP_2020, GROUP] {
        for (loaded, priority) in written(world).filter(|(loaded, _)| loaded.key.group == group) {
            match priority {
                Some(priority) => tiers.insert(loaded.key.name.clone(), priority),
                // Where it stands nobody can say, and the built-in place would be a guess.
                None => tiers.remove(&loaded.key.name),
            };
        }
    }
    tiers
}

/// The built-in tiers of the API group in use.
pub(super) fn built_in(world: &World) -> &'static [(&'static str, u8)] {
    let (newer, older) = in_use(world);
    if older && !newer { BUILT_IN_2020 } else { BUILT_IN }
}

/// The built-in tiers of an API group.
pub(super) fn built_in_of(group: &str) -> &'static [(&'static str, u8)] {
    if group == GROUP_2020 { BUILT_IN_2020 } else { BUILT_IN }
}

/// Whether there are objects of `crd.antrea.io`, and whether there are any of 2020.
pub(super) fn in_use(world: &World) -> (bool, bool) {
    let has = |group| world.iter().any(|loaded| loaded.key.group == group);
    (has(GROUP), has(GROUP_2020))
}

/// The tiers that are written, with their priorities as far as these can be read.
pub(super) fn written(world: &World) -> impl Iterator<Item = (&Loaded, Option<u8>)> {
    world.iter().filter_map(|loaded| match &loaded.lowered {
        Lowered::Tier(tier) => Some((loaded, tier.priority)),
        _ => None,
    })
}

/// The tier that a policy means: the default if it names none, and today's name for an old one.
pub fn tier_name(written: &str) -> SmolStr {
    match LEGACY.iter().find(|(old, _)| *old == written) {
        Some((_, name)) => SmolStr::new_static(name),
        None if written.is_empty() => SmolStr::new_static(DEFAULT_TIER),
        None => written.into(),
    }
}
