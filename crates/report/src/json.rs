//! The JSON forms of `explain`, `check`, `test` and `thorium effective`; the others stand beside their
//! printers. Their schemas are in docs/schemas, and a test holds them together.
//!
//! These are types of their own, and not the model's with a derive: the model may change, what other programs read may not.

#![allow(missing_docs, reason = "comments on fields are descriptions in docs/schemas")]

use palisade_model::diagnostic;
use serde::Serialize;

pub use self::effective::Effective;
pub use self::explanation::{Explanation, Flow, OtherFlow, Verdict};
pub use self::test_report::TestReport;

mod effective;
mod explanation;
mod test_report;

/// What `check --output json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Check {
    /// In the order of the files.
    pub diagnostics: Vec<Diagnostic>,
    pub summary: Summary,
}

#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Summary {
    pub errors: usize,
    pub warnings: usize,
    pub notes: usize,
    pub objects: usize,
    pub files: usize,
}

#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Diagnostic {
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

impl From<&diagnostic::Diagnostic> for Diagnostic {
    fn from(diagnostic: &diagnostic::Diagnostic) -> Self {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let subject = diagnostic.subject.as_ref();
        let at = diagnostic.location.as_ref();
        Diagnostic {
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

pub use super::text::documents::json as print;

#[cfg(test)]
mod tests {
    use super::*;

    use crate::schema::same_schema;

    #[test]
    fn the_schema_of_explain_is_the_one_in_docs() {
        same_schema::<Explanation>("explain");
    }

    #[test]
    fn the_schema_of_check_is_the_one_in_docs() {
        same_schema::<Check>("check");
    }

    #[test]
    fn the_schema_of_effective_is_the_one_in_docs() {
        same_schema::<Effective>("effective");
    }

    #[test]
    fn the_schema_of_map_is_the_one_in_docs() {
        same_schema::<crate::map::Document>("map");
    }

    #[test]
    fn the_schemas_of_diff_query_and_exposure_are_the_ones_in_docs() {
        same_schema::<crate::diff::Document>("diff");
        same_schema::<crate::query::Document>("query");
        same_schema::<crate::exposure::Document>("exposure");
    }

    #[test]
    fn the_schema_of_test_is_the_one_in_docs() {
        same_schema::<TestReport>("test");
    }
}
