//! The JSON forms of `explain`, `check`, `test` and `thorium effective`; the others stand beside their
//! printers. Their schemas are in docs/schemas, and a test holds them together.
//!
//! These are types of their own, and not the model's with a derive: the model may change, what other programs read may not.

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
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Check {
    /// In the order of the files.
    pub diagnostics: Vec<Diagnostic>,
    pub summary: Summary,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Summary {
    pub errors: usize,
    pub warnings: usize,
    pub notes: usize,
    pub objects: usize,
    pub files: usize,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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

    /// The schema in docs/ must be that of the types. With UPDATE_SCHEMAS set it is written instead.
    fn same_schema<T: schemars::JsonSchema>(name: &str) {
        let path = format!("{}/../../docs/schemas/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let schema = schemars::generate::SchemaSettings::draft2020_12()
            .for_serialize()
            .into_generator()
            .into_root_schema_for::<T>();
        let now = print(&schema).to_string();
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            std::fs::write(&path, &now).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(written == now, "docs/schemas/{name}.json is stale: run `make docs`");
    }

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
    fn the_schemas_of_lab_are_the_ones_in_docs() {
        same_schema::<crate::print::lab::LabReport>("lab");
        same_schema::<crate::print::lab::PacketTests>("lab-test");
    }

    #[test]
    fn the_schema_of_enforce_status_is_the_one_in_docs() {
        same_schema::<crate::print::enforce::Status>("enforce-status");
    }

    #[test]
    fn the_schema_of_map_is_the_one_in_docs() {
        same_schema::<crate::print::map::Document>("map");
    }

    #[test]
    fn the_schemas_of_diff_query_and_exposure_are_the_ones_in_docs() {
        same_schema::<crate::print::diff::Document>("diff");
        same_schema::<crate::print::query::Document>("query");
        same_schema::<crate::print::exposure::Document>("exposure");
    }

    #[test]
    fn the_schema_of_test_is_the_one_in_docs() {
        same_schema::<TestReport>("test");
    }
}
