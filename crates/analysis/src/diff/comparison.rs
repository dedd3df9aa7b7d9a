//! Two sets of objects compared: what opens and closes from one to the other, and what would for pods that could exist.

use std::sync::Arc;

use palisade_model::address::Family;
use palisade_model::options::Options;
use palisade_model::policy::Policy;
use palisade_model::snapshot::{Objects, Snapshot};

use super::{ChangeFilter, Diff, DiffFindings, PotentialDifferences, Proof, is_about_names, policies_of};
use crate::map::{Level, with_ingress_controller};
use crate::reach::cells::Cells;
use crate::reach::cuts::Cuts;

/// Both sides of a comparison.
#[derive(Debug)]
pub struct Sides {
    /// The cluster before the change.
    pub before: Snapshot,
    /// The cluster after the change.
    pub after: Snapshot,
    /// The boundaries of addresses and source ports of both.
    pub cuts: Cuts,
    policies: [Objects; 2],
    /// The endpoints that names without known addresses are evaluated for, if a rule has names.
    endpoints: Option<Objects>,
    /// Whether both sides are known to have the same policies.
    same_policies: bool,
}

/// How two sides are compared.
#[derive(Debug)]
pub struct Comparison {
    /// The options of evaluation.
    pub options: Options,
    /// What is compared: pods, or workloads.
    pub level: Level,
    /// The families of addresses outside the cluster; `None` for those that the cluster uses and that differ.
    pub families: Option<Vec<Family>>,
    /// Leaves out the traffic from a workload to itself.
    pub ignore_self: bool,
}

// === impl Sides ===

impl Sides {
    /// Prepares both sides, with an ingress controller where there are entrances.
    pub fn new(mut before: Objects, mut after: Objects) -> Self {
        with_ingress_controller(&mut before);
        with_ingress_controller(&mut after);
        let same_policies = same_policies(&before, &after);
        let policies = [&before, &after].map(policies_of);
        let endpoints = is_about_names(&policies).then(|| before.clone());
        let (before, after) = (Snapshot::new(before), Snapshot::new(after));
        let cuts = Cuts::of([&before, &after]);
        Sides { before, after, cuts, policies, endpoints, same_policies }
    }

    /// Compares every pair of workloads, and every workload with all addresses. The cells must be on the line of the cuts.
    pub fn findings<'s>(
        &'s self,
        how: &Comparison,
        cells: &mut Cells,
    ) -> (Diff<'s>, ChangeFilter, DiffFindings) {
        let cuts = &self.cuts;
        let diff = Diff::new(&self.before, &self.after, &how.options, how.level, cuts, cells);
        let speak_six = || [&diff.before, &diff.after].iter().any(|map| map.uses_ipv6(cuts));
        let families = match &how.families {
            Some(families) => families.clone(),
            None if speak_six() => vec![Family::V4, Family::V6],
            None => vec![Family::V4],
        };
        let mut select = ChangeFilter { ignore_self: how.ignore_self, families };
        let findings = match how.families {
            None => DiffFindings::of_either_family(&diff, &mut select, cuts, cells),
            Some(_) => DiffFindings::of(&diff, &select, cuts, cells),
        };
        (diff, select, findings)
    }

    /// Compares the policies for pods that are not there, where nothing opens or closes for those that are.
    pub fn beyond(&self, findings: &DiffFindings) -> PotentialDifferences {
        match findings.list.is_empty() {
            true if self.same_policies => {
                PotentialDifferences { proof: Some(Proof::default()), ..PotentialDifferences::default() }
            }
            true => PotentialDifferences::of(&self.policies[0], &self.policies[1], self.endpoints.as_ref()),
            false => PotentialDifferences::default(),
        }
    }
}

/// Returns whether policies are known to be the same because both sides share them. Groups and tiers count as policies here.
fn same_policies(before: &Objects, after: &Objects) -> bool {
    let same = |(one, other): (&Policy, &Policy)| Arc::ptr_eq(&one.object, &other.object);
    before.groups.is_empty()
        && after.groups.is_empty()
        && before.tiers == after.tiers
        && before.policies.len() == after.policies.len()
        && before.policies.iter().zip(&after.policies).all(same)
}
