//! The tiers of a world: those that Antrea brings along, and those that are written.

use std::collections::BTreeMap;

use smol_str::SmolStr;

use super::defaults::DEFAULT_TIER;
use super::{GROUP, GROUP_2020};
use crate::object::{Key, Loaded, Lowered};
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

/// What the tiers of a world depend on, kept while its objects change one by one.
#[derive(Debug, Clone, Default)]
pub struct TierIndex {
    /// Number of objects of `crd.antrea.io`, and of the group of 2020.
    in_use: (usize, usize),
    written: BTreeMap<Key, Option<u8>>,
}

/// The tiers that hold for a world, by name: the built-in ones with the priorities of the API group in use (the newer
/// one, if both are), and those that are written, which go before.
pub fn tiers(world: &World) -> BTreeMap<SmolStr, u8> {
    put_together(&written_by_key(world), built_in(world))
}

/// The same with an object of this API group in it.
pub(super) fn with(world: &World, group: &str) -> BTreeMap<SmolStr, u8> {
    let newer = group == GROUP || in_use(world).0;
    put_together(&written_by_key(world), if newer { BUILT_IN } else { BUILT_IN_2020 })
}

/// Returns the built-in tiers of the API group in use, overridden by those that are written: each with the object's key,
/// and `None` where its priority is invalid.
fn put_together<'t>(
    written: &(impl Iterator<Item = (&'t Key, Option<u8>)> + Clone),
    built_in: &[(&'static str, u8)],
) -> BTreeMap<SmolStr, u8> {
    let mut tiers: BTreeMap<SmolStr, u8> =
        built_in.iter().map(|(name, priority)| (SmolStr::new_static(name), *priority)).collect();
    // Both groups may have a tier of one name; the newer one counts.
    for group in [GROUP_2020, GROUP] {
        for (key, priority) in written.clone().filter(|(key, _)| key.group == group) {
            match priority {
                Some(priority) => tiers.insert(key.name.clone(), priority),
                // Its priority is unknown, and that of the built-in tier would be a guess.
                None => tiers.remove(&key.name),
            };
        }
    }
    tiers
}

/// The built-in tiers of the API group in use.
pub(super) fn built_in(world: &World) -> &'static [(&'static str, u8)] {
    built_in_for(in_use(world))
}

fn built_in_for((newer, older): (bool, bool)) -> &'static [(&'static str, u8)] {
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
pub(super) fn written(world: &World) -> impl Iterator<Item = (&Loaded, Option<u8>)> + Clone {
    world.iter().filter_map(|loaded| match &loaded.lowered {
        Lowered::Tier(tier) => Some((loaded, tier.priority)),
        _ => None,
    })
}

fn written_by_key(world: &World) -> impl Iterator<Item = (&Key, Option<u8>)> + Clone {
    written(world).map(|(loaded, priority)| (&loaded.key, priority))
}

// === impl TierIndex ===

impl TierIndex {
    /// Notes that an object exists with this content, or does not exist. Returns whether the tiers may be different now.
    pub fn update(&mut self, key: &Key, before: Option<&Lowered>, now: Option<&Lowered>) -> bool {
        let count = match &*key.group {
            GROUP => &mut self.in_use.0,
            GROUP_2020 => &mut self.in_use.1,
            _ => return false,
        };
        let was = *count;
        *count = was + usize::from(now.is_some()) - usize::from(before.is_some());
        let toggled = (was == 0) != (*count == 0);
        let written = match now {
            Some(Lowered::Tier(tier)) => {
                self.written.insert(key.clone(), tier.priority) != Some(tier.priority)
            }
            _ => self.written.remove(key).is_some(),
        };
        toggled || written
    }

    /// Returns the tiers, as [`tiers`] does, while there is an object of Antrea that could name one. The built-in tiers of
    /// a world without Antrea are of no use to a consumer of events.
    pub fn tiers(&self) -> BTreeMap<SmolStr, u8> {
        let in_use = (self.in_use.0 > 0, self.in_use.1 > 0);
        if in_use == (false, false) {
            return BTreeMap::new();
        }
        put_together(&self.written.iter().map(|(key, priority)| (key, *priority)), built_in_for(in_use))
    }
}

/// The tier that a policy means: the default if it names none, and today's name for an old one.
pub fn tier_name(written: &str) -> SmolStr {
    match LEGACY.iter().find(|(old, _)| *old == written) {
        Some((_, name)) => SmolStr::new_static(name),
        None if written.is_empty() => SmolStr::new_static(DEFAULT_TIER),
        None => written.into(),
    }
}
