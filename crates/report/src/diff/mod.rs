//! A semantic difference: for people, for programs, for a pull request, for code scanning.
//!
//! All of them say the same facts in the same order: how much opens and closes, then each of it with who decides now and
//! who decided before, then workloads that came and went.

mod causes;
mod json;
mod markdown;
mod sarif;
mod text;
mod words;

#[cfg(any(test, feature = "schema"))]
pub use json::Document;
pub use json::json;
pub use markdown::markdown;
pub use sarif::sarif;
pub use text::text;
pub use words::{beyond, ends};

use palisade_analysis::diff::{Beyond, Diff, Findings, Select};
use palisade_analysis::reach::cuts::Cuts;
use palisade_model::diagnostic::Diagnostic;

/// What is printed.
#[derive(Debug)]
pub struct Facts<'d, 's> {
    /// Both sides.
    pub diff: &'d Diff<'s>,
    /// What opens and closes.
    pub findings: &'d Findings,
    /// What would become of pods that are not there, where nothing opens or closes for those that are.
    pub beyond: &'d Beyond,
    /// What of the input makes the answer less sure.
    pub problems: &'d [Diagnostic],
    /// Which changes are told.
    pub select: &'d Select,
    /// The boundaries of addresses.
    pub cuts: &'d Cuts,
    /// What the two sides are called.
    pub names: (String, String),
    /// How many findings are printed for people; all where it is `None`.
    pub most: Option<usize>,
}

impl Facts<'_, '_> {
    /// How many workloads there are, on either side.
    fn workloads(&self) -> usize {
        self.diff.written().count()
    }

    /// Whether everything was compared that is there.
    pub fn is_complete(&self) -> bool {
        let proven = self.beyond.proof.is_none_or(|proof| proof.is_complete());
        // Where there is nobody, it is pods that could be there that count.
        let compared = proven || !self.diff.is_about_nobody();
        self.diff.left_out.is_empty() && self.findings.unseen == 0 && compared && !self.cuts.coarse
    }

    /// How many pairs of them.
    fn pairs(&self) -> usize {
        self.workloads().saturating_mul(self.workloads())
    }
}
