//! Conversion to ClusterNetworkPolicy, `policy.networking.k8s.io/v1alpha2`.
//!
//! The kind has two tiers: Admin at 220, between Antrea's tiers, and Baseline at 254, behind everything. The API does not
//! define the order of two policies of one priority. So policies of Antrea that interleave are cut into several, and
//! AdminNetworkPolicies, which have the same gap, stay as undefined as they were.

use palisade_dialects::admin::GROUP;
use palisade_dialects::admin::write::{self, Version};
use palisade_model::policy::Dialect;
use palisade_model::snapshot::Stage;

use super::conversion::Conversion;
use super::network_policy_api::{PRIORITIES, PolicyApiWriter, cluster_name};
use super::output::{ConversionOutput, EmittedObject};
use super::precedence::Precedence;
use super::priorities;
use super::slots::{PrioritySlot, slots};

const ADMIN: u8 = 220;
const BASELINE: u8 = 254;

const WRITER: PolicyApiWriter = PolicyApiWriter {
    max_entries: 25,
    version: Version::V1Alpha2,
    full_baseline: true,
    named_ports_in_standard: true,
    counterpart: Dialect::AdminNetworkPolicy,
};

/// Emits the policies to convert as ClusterNetworkPolicies.
pub(super) fn emit(conversion: &Conversion<'_>, output: &mut ConversionOutput) {
    let slots = slots(conversion, &WRITER, output);
    let mut taken = conversion.taken_names(GROUP, "ClusterNetworkPolicy");
    for (stage, tier, tier_name) in [(Stage::Tiers, ADMIN, "Admin"), (Stage::Baseline, BASELINE, "Baseline")]
    {
        let slots: Vec<&PrioritySlot> = slots.iter().filter(|slot| slot.from.stage() == stage).collect();
        for (slot, priority) in priorities::assign(conversion, &slots, tier, PRIORITIES, output) {
            for draft in &slot.drafts {
                let name = cluster_name(&mut output.scope(conversion, draft.origin), &mut taken);
                let metadata = conversion.metadata(&conversion.origins[draft.origin], &name, None);
                let rules = (draft.ingress.clone(), draft.egress.clone());
                let subject = draft.subjects.first().cloned();
                let object =
                    write::cluster_network_policy(metadata, tier_name, priority as i64, subject, rules);
                let precedence = Precedence::new(tier, priority);
                output.emitted.push(EmittedObject { object: Some(object), origin: draft.origin, precedence });
            }
        }
    }
}
