//! Printers of diffs: text, JSON, Markdown and SARIF.
//!
//! All print the same facts in the same order: numbers of opened and closed connections, each finding with its deciders
//! before and after, added and removed workloads.

mod causes;
mod json;
mod markdown;
mod phrases;
mod sarif;
mod text;

#[cfg(any(test, feature = "schema"))]
pub use json::DiffJson;
pub use json::json;
pub use markdown::markdown;
pub use phrases::{beyond, ends};
pub use sarif::sarif;
pub use text::text;

use palisade_analysis::diff::{ChangeFilter, Diff, DiffFindings, PotentialDifferences};
use palisade_analysis::reach::cuts::Cuts;
use palisade_model::diagnostic::Diagnostic;

/// A diff with everything that its printers need.
#[derive(Debug)]
pub struct DiffContext<'d, 's> {
    /// The two sides compared.
    pub diff: &'d Diff<'s>,
    /// Opened and closed connections.
    pub findings: &'d DiffFindings,
    /// Differences for pods that could exist, where there is none for existing ones.
    pub beyond: &'d PotentialDifferences,
    /// Problems of the input that make the answer less certain.
    pub problems: &'d [Diagnostic],
    /// Filter of the changes to print.
    pub select: &'d ChangeFilter,
    /// Boundaries of the address intervals of both sides.
    pub cuts: &'d Cuts,
    /// Names of the sides before and after.
    pub names: (String, String),
    /// Maximum number of findings in text; all when `None`.
    pub most: Option<usize>,
}

impl DiffContext<'_, '_> {
    /// Number of workloads on either side.
    fn workloads(&self) -> usize {
        self.diff.written().count()
    }

    /// Whether the comparison covered everything.
    pub fn is_complete(&self) -> bool {
        let proven = self.beyond.proof.is_none_or(|proof| proof.is_complete());
        // Without workloads the comparison of possible pods counts.
        let compared = proven || !self.diff.has_no_workloads();
        self.diff.left_out.is_empty() && self.findings.unseen == 0 && compared && !self.cuts.coarse
    }

    /// Number of pairs of workloads.
    fn pairs(&self) -> usize {
        self.workloads().saturating_mul(self.workloads())
    }
}
