//! To ClusterNetworkPolicy, `policy.networking.k8s.io/v1alpha2`.
//!
//! It has two tiers. Tier Admin stands at 220, between Antrea's tiers; tier Baseline at 254, behind everything. Both have
//! whole priorities, and what two policies of one priority mean is not defined: policies of Antrea that take turns are
//! cut apart, those of the same API stay as they are, and so does what nobody defined.

use std::collections::BTreeSet;

use palisade_dialects::admin::GROUP;
use palisade_dialects::admin::write::{self, Version};
use palisade_dialects::written::Written;
use palisade_model::policy::{Dialect, Direction, Rule, Subject};
use palisade_model::snapshot::Stage;
use smol_str::SmolStr;

use super::codes;
use super::conversion::{Conversion, Origin};
use super::numbers::{Range, Wanted, numbers};
use super::order::{self, Piece, Place, Slot, Tongue};
use super::speech::{Said, Speech, Taken, distinct, suffixed};
use super::upstream::{self, Shape};

const ADMIN: u8 = 220;
const BASELINE: u8 = 254;
/// The priorities there are.
pub(super) const PRIORITIES: Range = Range { least: 0.0, most: 1000.0, fractions: false };

const SHAPE: Shape =
    Shape { most: 25, version: Version::V1Alpha2, full_baseline: true, standard_names: true };

struct Cluster;

pub(super) fn say(conversion: &Conversion<'_>, speech: &mut Speech) {
    let slots = order::slots(conversion, &Cluster, speech);
    let mut taken = conversion.taken(GROUP, "ClusterNetworkPolicy");
    for (stage, tier, word) in [(Stage::Tiers, ADMIN, "Admin"), (Stage::Baseline, BASELINE, "Baseline")] {
        let slots: Vec<&Slot> = slots.iter().filter(|slot| slot.from.stage() == stage).collect();
        for (slot, number) in placed(conversion, &slots, tier, speech) {
            for piece in &slot.pieces {
                let origin = &conversion.origins[piece.origin];
                let name = name(conversion, piece, &mut taken, speech);
                let metadata = conversion.metadata(origin, &name, None);
                let rules = (piece.ingress.clone(), piece.egress.clone());
                let subject = piece.subjects.first().cloned();
                let object = write::cluster_network_policy(metadata, word, number as i64, subject, rules);
                let (object, place) = (Some(object), Place::new(tier, number));
                speech.said.push(Said { object, origin: piece.origin, place });
            }
        }
    }
}

/// The slots with their numbers in a tier; those that there is no number for are refused.
pub(super) fn placed<'s>(
    conversion: &Conversion<'_>,
    slots: &[&'s Slot],
    tier: u8,
    speech: &mut Speech,
) -> Vec<(&'s Slot, f64)> {
    let there: Vec<(Place, f64)> = conversion
        .staying
        .iter()
        .filter_map(|stays| stays.place)
        .filter(|place| place.tier == tier)
        .map(|place| (place, place.priority.0))
        .collect();
    match numbers(slots, &there, PRIORITIES) {
        Ok(numbers) => slots.iter().copied().zip(numbers).collect(),
        Err(these) => {
            no_room(conversion, &slots[these], speech);
            Vec::new()
        }
    }
}

/// Says that there is no number left.
pub(super) fn no_room(conversion: &Conversion<'_>, slots: &[&Slot], speech: &mut Speech) {
    let origins: BTreeSet<usize> =
        slots.iter().flat_map(|slot| slot.pieces.iter().map(|piece| piece.origin)).collect();
    for origin in origins {
        let why = "no priority is left for it between the policies that are there already".to_owned();
        speech.cannot(&codes::ORDER, conversion, origin, None, ".priority", why);
        if let Some(last) = speech.found.list.last_mut() {
            last.help = Some("give those of the tier that it comes to other priorities first".to_owned());
        }
    }
}

/// A name in the cluster for a piece, and a word about it where it is another.
pub(super) fn name(
    conversion: &Conversion<'_>,
    piece: &Piece,
    taken: &mut Taken,
    speech: &mut Speech,
) -> SmolStr {
    let origin = &conversion.origins[piece.origin];
    let wanted = match origin.home() {
        Some(home) => suffixed(&format!("{home}-{}", origin.name()), ""),
        None => origin.name(),
    };
    let name = distinct(None, &wanted, taken);
    if name != origin.policy.object.name {
        let message = format!("it becomes {name}");
        speech.note(&codes::NAME, conversion, piece.origin, None, "", message);
    }
    name
}

// === impl Tongue ===

impl Tongue for Cluster {
    const MOST_RULES: usize = 25;
    const ONE_SUBJECT: bool = true;

    fn subjects(
        &self,
        conversion: &Conversion<'_>,
        origin: usize,
        subjects: &[Subject],
        speech: &mut Speech,
    ) -> Vec<Written> {
        upstream::subjects(conversion, origin, subjects, speech)
    }

    fn rule(
        &self,
        conversion: &Conversion<'_>,
        origin: usize,
        rule: &Rule,
        stage: Stage,
        speech: &mut Speech,
    ) -> Vec<Written> {
        upstream::rule(SHAPE, conversion, origin, rule, stage, speech)
    }

    fn deny_all(&self, direction: Direction) -> Option<Written> {
        write::deny_all(direction)
    }

    fn may_tie(&self, dialect: Dialect) -> bool {
        dialect == Dialect::AdminNetworkPolicy
    }

    fn wanted(&self, origin: &Origin) -> Wanted {
        match (origin.dialect, origin.place) {
            (Dialect::AdminNetworkPolicy, Some(place)) if place.priority.0 >= 0.0 => {
                Wanted::Exactly(place.priority.0)
            }
            _ => Wanted::Anywhere,
        }
    }
}
