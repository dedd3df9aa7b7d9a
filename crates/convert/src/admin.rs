//! To AdminNetworkPolicy and BaselineAdminNetworkPolicy, `policy.networking.k8s.io/v1alpha1`: the way back, for clusters
//! that do not have the newer kind yet.
//!
//! AdminNetworkPolicies stand at tier 251, the last before NetworkPolicy. There is one BaselineAdminNetworkPolicy, called
//! `default`, with one subject and without a priority, so that hardly more than one baseline policy can be said.

use palisade_dialects::admin::GROUP;
use palisade_dialects::admin::write::{self, Version};
use palisade_dialects::written::Written;
use palisade_model::policy::{Dialect, Direction, Rule, Subject};
use palisade_model::snapshot::Stage;

use super::cluster::{name, placed};
use super::codes;
use super::conversion::{Conversion, Origin};
use super::numbers::Wanted;
use super::order::{self, Piece, Place, Slot, Tongue};
use super::speech::{Said, Speech};
use super::upstream::{self, Shape};

const ADMIN: u8 = 251;
const BASELINE: Place = Place { tier: 254, priority: palisade_model::policy::Priority(-1.0) };
/// The only name that a BaselineAdminNetworkPolicy can have.
const BASELINE_NAME: &str = "default";

const SHAPE: Shape =
    Shape { most: 100, version: Version::V1Alpha1, full_baseline: false, standard_names: false };

struct Admin;

pub(super) fn say(conversion: &Conversion<'_>, speech: &mut Speech) {
    let slots = order::slots(conversion, &Admin, speech);
    let mut taken = conversion.taken(GROUP, "AdminNetworkPolicy");
    let first: Vec<&Slot> = slots.iter().filter(|slot| slot.from.stage() == Stage::Tiers).collect();
    for (slot, number) in placed(conversion, &first, ADMIN, speech) {
        for piece in &slot.pieces {
            let name = name(conversion, piece, &mut taken, speech);
            let metadata = conversion.metadata(&conversion.origins[piece.origin], &name, None);
            let rules = (piece.ingress.clone(), piece.egress.clone());
            let subject = piece.subjects.first().cloned();
            let object = write::admin_network_policy(metadata, number as i64, subject, rules);
            let (object, place) = (Some(object), Place::new(ADMIN, number));
            speech.said.push(Said { object, origin: piece.origin, place });
        }
    }
    let last: Vec<&Slot> = slots.iter().filter(|slot| slot.from.stage() == Stage::Baseline).collect();
    let there =
        conversion.staying.iter().any(|stays| stays.policy.object.kind == "BaselineAdminNetworkPolicy");
    match (together(&last), there) {
        (Some(piece), false) => {
            let metadata = conversion.metadata(&conversion.origins[piece.origin], BASELINE_NAME, None);
            let rules = (piece.ingress.clone(), piece.egress.clone());
            let subject = piece.subjects.first().cloned();
            let mut object = Some(write::baseline_admin_network_policy(metadata, subject, rules));
            let mut origins: Vec<usize> =
                last.iter().flat_map(|slot| &slot.pieces).map(|piece| piece.origin).collect();
            origins.dedup();
            for origin in origins {
                if conversion.origins[origin].policy.object.name != BASELINE_NAME {
                    let message =
                        format!("it becomes {BASELINE_NAME}, the only name that a baseline can have");
                    speech.note(&codes::NAME, conversion, origin, None, "", message);
                }
                // Rules that one object holds in their order: the first brings it.
                speech.said.push(Said { object: object.take(), origin, place: BASELINE });
            }
        }
        _ => {
            let why =
                "a cluster has one BaselineAdminNetworkPolicy with one subject, and more would be needed";
            for piece in last.iter().flat_map(|slot| &slot.pieces) {
                speech.cannot(&codes::LIMIT, conversion, piece.origin, None, "", why.to_owned());
            }
        }
    }
}

/// The rules of all in one object; `None` where they are for different pods, are too many, or stand at one place and so
/// take turns.
fn together(slots: &[&Slot]) -> Option<Piece> {
    let each: Option<Vec<&Piece>> = slots
        .iter()
        .map(|slot| match &slot.pieces[..] {
            [piece] => Some(piece),
            _ => None,
        })
        .collect();
    let each = each?;
    let mut all = (*each.first()?).clone();
    for piece in &each[1..] {
        all.ingress.extend(piece.ingress.iter().cloned());
        all.egress.extend(piece.egress.iter().cloned());
    }
    let alike = each.iter().all(|piece| piece.subjects == all.subjects);
    let fits = all.ingress.len().max(all.egress.len()) <= Admin::MOST_RULES;
    (alike && fits).then_some(all)
}

// === impl Tongue ===

impl Tongue for Admin {
    const MOST_RULES: usize = 100;
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
        dialect == Dialect::ClusterNetworkPolicy
    }

    fn wanted(&self, origin: &Origin) -> Wanted {
        match (origin.dialect, origin.place) {
            (Dialect::ClusterNetworkPolicy, Some(place)) => Wanted::Exactly(place.priority.0),
            _ => Wanted::Anywhere,
        }
    }
}
