//! Conversion to AdminNetworkPolicy and BaselineAdminNetworkPolicy, `policy.networking.k8s.io/v1alpha1`, for clusters that
//! do not have the newer kind yet.
//!
//! AdminNetworkPolicies stand in tier 251, the last before NetworkPolicy. A cluster has one BaselineAdminNetworkPolicy,
//! named `default`, with one subject and without a priority: hardly more than one baseline policy can be converted.

use palisade_dialects::admin::GROUP;
use palisade_dialects::admin::write::{self, Version};
use palisade_model::policy::{Dialect, Priority};
use palisade_model::snapshot::Stage;

use super::conversion::Conversion;
use super::network_policy_api::{PRIORITIES, PolicyApiWriter, cluster_name};
use super::output::{ConversionOutput, EmittedObject};
use super::precedence::Precedence;
use super::slots::{PolicyDraft, PrioritySlot, slots};
use super::{codes, priorities};

const ADMIN: u8 = 251;
/// Before every policy of tier 254: a BaselineAdminNetworkPolicy has no priority.
const BASELINE: Precedence = Precedence { tier: 254, priority: Priority(-1.0) };
/// The only name that a BaselineAdminNetworkPolicy can have.
const BASELINE_NAME: &str = "default";

const WRITER: PolicyApiWriter = PolicyApiWriter {
    max_entries: 100,
    version: Version::V1Alpha1,
    full_baseline: false,
    named_ports_in_standard: false,
    counterpart: Dialect::ClusterNetworkPolicy,
};

/// Emits the policies to convert as AdminNetworkPolicies and, behind NetworkPolicy, as the one baseline.
pub(super) fn emit(conversion: &Conversion<'_>, output: &mut ConversionOutput) {
    let slots = slots(conversion, &WRITER, output);
    let mut taken = conversion.taken_names(GROUP, "AdminNetworkPolicy");
    let admin: Vec<&PrioritySlot> = slots.iter().filter(|slot| slot.from.stage() == Stage::Tiers).collect();
    for (slot, priority) in priorities::assign(conversion, &admin, ADMIN, PRIORITIES, output) {
        for draft in &slot.drafts {
            let name = cluster_name(&mut output.scope(conversion, draft.origin), &mut taken);
            let metadata = conversion.metadata(&conversion.origins[draft.origin], &name, None);
            let rules = (draft.ingress.clone(), draft.egress.clone());
            let subject = draft.subjects.first().cloned();
            let object = write::admin_network_policy(metadata, priority as i64, subject, rules);
            let precedence = Precedence::new(ADMIN, priority);
            output.emitted.push(EmittedObject { object: Some(object), origin: draft.origin, precedence });
        }
    }
    let baseline: Vec<&PrioritySlot> =
        slots.iter().filter(|slot| slot.from.stage() == Stage::Baseline).collect();
    emit_baseline(conversion, &baseline, output);
}

/// Emits the baseline, or refuses all of its policies where one object cannot hold them.
fn emit_baseline(conversion: &Conversion<'_>, slots: &[&PrioritySlot], output: &mut ConversionOutput) {
    let exists =
        conversion.staying.iter().any(|stays| stays.policy.object.kind == "BaselineAdminNetworkPolicy");
    match (merged(slots), exists) {
        (Some(draft), false) => {
            let metadata = conversion.metadata(&conversion.origins[draft.origin], BASELINE_NAME, None);
            let rules = (draft.ingress.clone(), draft.egress.clone());
            let subject = draft.subjects.first().cloned();
            let mut object = Some(write::baseline_admin_network_policy(metadata, subject, rules));
            let mut origins: Vec<usize> =
                slots.iter().flat_map(|slot| &slot.drafts).map(|draft| draft.origin).collect();
            origins.dedup();
            for origin in origins {
                if conversion.origins[origin].policy.object.name != BASELINE_NAME {
                    let message =
                        format!("it becomes {BASELINE_NAME}, the only name that a baseline can have");
                    output.scope(conversion, origin).report(&codes::NAME, None, "", message);
                }
                // One object holds the rules of all: the first policy brings it.
                output.emitted.push(EmittedObject { object: object.take(), origin, precedence: BASELINE });
            }
        }
        _ => {
            let reason =
                "a cluster has one BaselineAdminNetworkPolicy with one subject, and more would be needed";
            for draft in slots.iter().flat_map(|slot| &slot.drafts) {
                output.scope(conversion, draft.origin).refuse(&codes::LIMIT, None, "", reason.to_owned());
            }
        }
    }
}

/// Merges the rules of all slots into one draft; `None` where their subjects differ, they are too many, or they share a
/// priority and so interleave.
fn merged(slots: &[&PrioritySlot]) -> Option<PolicyDraft> {
    let each: Option<Vec<&PolicyDraft>> = slots
        .iter()
        .map(|slot| match &slot.drafts[..] {
            [draft] => Some(draft),
            _ => None,
        })
        .collect();
    let each = each?;
    let mut all = (*each.first()?).clone();
    for draft in &each[1..] {
        all.ingress.extend(draft.ingress.iter().cloned());
        all.egress.extend(draft.egress.iter().cloned());
    }
    let same_subjects = each.iter().all(|draft| draft.subjects == all.subjects);
    let fits = all.ingress.len().max(all.egress.len()) <= WRITER.max_entries;
    (same_subjects && fits).then_some(all)
}
