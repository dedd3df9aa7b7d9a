//! Two sets of objects compared: what opens and closes from one to the other. `diff` prints it in full; changes.rs puts it into a line for
//! `enforce` and `lab`.

use std::sync::Arc;

use palisade_analysis::diff::{
    ChangeFilter, Diff, DiffFindings, PotentialDifferences, Proof, is_about_names, policies_of,
};
use palisade_analysis::map::{Level, with_ingress_controller};
use palisade_analysis::reach::cells::Cells;
use palisade_analysis::reach::cuts::Cuts;
use palisade_model::options::Options;
use palisade_model::policy::Policy;
use palisade_model::snapshot::{Objects, Snapshot};

use super::reading::families;
use crate::cli::Families;

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
    /// The endpoints that names without known addresses are asked about, if a rule has names.
    there: Option<Objects>,
    /// Whether both sides are known to have the same policies.
    same_policies: bool,
}

/// How two sides are compared.
#[derive(Debug)]
pub struct Comparison {
    pub options: Options,
    pub level: Level,
    pub family: Families,
    /// Without what workloads send themselves.
    pub ignore_self: bool,
}

// === impl Sides ===

impl Sides {
    /// Gathers both sides, with the ingress controller where there are entrances.
    pub fn new(mut before: Objects, mut after: Objects) -> Self {
        with_ingress_controller(&mut before);
        with_ingress_controller(&mut after);
        let same_policies = same_policies(&before, &after);
        let policies = [&before, &after].map(policies_of);
        let there = is_about_names(&policies).then(|| before.clone());
        let (before, after) = (Snapshot::new(before), Snapshot::new(after));
        let cuts = Cuts::of([&before, &after]);
        Sides { before, after, cuts, policies, there, same_policies }
    }

    /// Compares every pair of workloads, and every workload with all addresses. The cells must be on the line of the cuts.
    pub fn findings<'s>(
        &'s self,
        how: &Comparison,
        cells: &mut Cells,
    ) -> (Diff<'s>, ChangeFilter, DiffFindings) {
        let cuts = &self.cuts;
        let diff = Diff::new(&self.before, &self.after, &how.options, how.level, cuts, cells);
        let families = families(how.family, [&diff.before, &diff.after], cuts);
        let mut select = ChangeFilter { ignore_self: how.ignore_self, families };
        let findings = match how.family {
            Families::Auto => DiffFindings::of_either_family(&diff, &mut select, cuts, cells),
            _ => DiffFindings::of(&diff, &select, cuts, cells),
        };
        (diff, select, findings)
    }

    /// Compares the policies for pods that are not there, where nothing opens or closes for those that are.
    pub fn beyond(&self, findings: &DiffFindings) -> PotentialDifferences {
        match findings.list.is_empty() {
            true if self.same_policies => {
                PotentialDifferences { proof: Some(Proof::default()), ..PotentialDifferences::default() }
            }
            true => PotentialDifferences::of(&self.policies[0], &self.policies[1], self.there.as_ref()),
            false => PotentialDifferences::default(),
        }
    }
}

/// Whether policies are the same because they were read once: their files did not change. Groups and tiers count as policies here.
fn same_policies(before: &Objects, after: &Objects) -> bool {
    let same = |(one, other): (&Policy, &Policy)| Arc::ptr_eq(&one.object, &other.object);
    before.groups.is_empty()
        && after.groups.is_empty()
        && before.tiers == after.tiers
        && before.policies.len() == after.policies.len()
        && before.policies.iter().zip(&after.policies).all(same)
}
