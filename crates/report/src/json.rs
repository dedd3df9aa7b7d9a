//! JSON forms of the answers of `explain`, `check`, `test` and `thorium effective`; others are beside their printers.
//!
//! JSON forms are types of their own, named `…Json`, instead of the model's with a derive: the model may change, what other
//! programs parse may not. A schema keeps the name that a type had in its first version (`schemars(rename)`). The tests below
//! compare the schemas with docs/schemas.

#![allow(missing_docs, reason = "comments on fields are descriptions in docs/schemas")]

use palisade_model::diagnostic::{self, Location};
use serde::Serialize;

pub use self::effective::EffectiveJson;
pub use self::explanation::{ExplanationJson, FlowJson, OtherFlowJson, VerdictJson};
pub use self::test_report::TestReport;

mod effective;
mod explanation;
mod test_report;

/// What `check --output json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Check"))]
pub struct CheckJson {
    /// In the order of the files.
    pub diagnostics: Vec<DiagnosticJson>,
    pub summary: CheckSummaryJson,
}

#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Summary"))]
pub struct CheckSummaryJson {
    pub errors: usize,
    pub warnings: usize,
    pub notes: usize,
    pub objects: usize,
    pub files: usize,
}

#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Diagnostic"))]
pub struct DiagnosticJson {
    pub code: String,
    /// `error`, `warning` or `note`.
    pub severity: String,
    pub message: String,
    pub kind: Option<String>,
    pub namespace: Option<String>,
    pub name: Option<String>,
    /// The path of the field, as the API writes it.
    pub field: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub column: Option<u32>,
    pub help: Option<String>,
}

// === from the model ===

impl From<&diagnostic::Diagnostic> for DiagnosticJson {
    fn from(diagnostic: &diagnostic::Diagnostic) -> Self {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let subject = diagnostic.subject.as_ref();
        let at = diagnostic.location.as_ref();
        DiagnosticJson {
            code: diagnostic.code.id.to_owned(),
            severity: diagnostic.severity().to_string(),
            message: diagnostic.message.clone(),
            kind: subject.and_then(|subject| text(&subject.kind)),
            namespace: subject.and_then(|subject| subject.namespace.as_ref()).map(ToString::to_string),
            name: subject.and_then(|subject| text(&subject.name)),
            field: text(&diagnostic.field),
            file: at.map(|at| at.file.to_string()),
            line: at.map(|at| at.line),
            column: at.map(|at| at.column),
            help: diagnostic.help.clone(),
        }
    }
}

/// Splits a location into the two fields that JSON forms have for it.
fn file_and_line(at: Option<&Location>) -> (Option<String>, Option<u32>) {
    (at.map(|at| at.file.to_string()), at.map(|at| at.line))
}

pub use super::text::documents::json as print;

#[cfg(test)]
mod tests {
    use super::*;

    use crate::schema::same_schema;

    #[test]
    fn the_schema_of_explain_is_the_one_in_docs() {
        same_schema::<ExplanationJson>("explain");
    }

    #[test]
    fn the_schema_of_check_is_the_one_in_docs() {
        same_schema::<CheckJson>("check");
    }

    #[test]
    fn the_schema_of_effective_is_the_one_in_docs() {
        same_schema::<EffectiveJson>("effective");
    }

    #[test]
    fn the_schema_of_map_is_the_one_in_docs() {
        same_schema::<crate::map::MapJson>("map");
    }

    #[test]
    fn the_schemas_of_diff_query_and_exposure_are_the_ones_in_docs() {
        same_schema::<crate::diff::DiffJson>("diff");
        same_schema::<crate::query::QueryJson>("query");
        same_schema::<crate::exposure::ExposureJson>("exposure");
    }

    #[test]
    fn the_schema_of_test_is_the_one_in_docs() {
        same_schema::<TestReport>("test");
    }
}
