//! One custom resource against its definition: what is wrong with it, and what an update is refused for.

use palisade_model::diagnostic::Diagnostic;

use super::check;
use super::findings::{Codes, Findings};
use super::schema::Schema;
use crate::apimachinery::field::Path;
use crate::apimachinery::meta::immutable;
use crate::codes;
use crate::decode::Reader;
use crate::meta::ObjectMeta;
use crate::source::tree::Node;

/// Everything that the definition has to say to an object.
pub fn findings(
    schema: &'static Schema,
    codes: &'static Codes,
    metadata: Option<&ObjectMeta>,
    node: &Node<'_>,
    reader: &Reader<'_>,
) -> Vec<Diagnostic> {
    let mut findings = Findings::new(reader, codes);
    check::metadata(metadata, &mut findings);
    schema.check(node, &Path::root(), &mut findings);
    findings.found
}

/// Checks that an update leaves the name as it is.
pub fn same_name(new: Option<&ObjectMeta>, old: Option<&ObjectMeta>, reader: &mut Reader<'_>) {
    let name = |meta: Option<&ObjectMeta>| meta.and_then(|meta| meta.name.clone()).unwrap_or_default();
    let path = Path::new("metadata");
    immutable(&path.child("name"), &name(new), &name(old), &mut reader.sink(&codes::IMMUTABLE));
}

/// Without the errors that the stored object has already: the API server tolerates them in what does not change.
pub fn news(found: Vec<Diagnostic>, stored: &[Diagnostic]) -> impl Iterator<Item = Diagnostic> {
    let known = |one: &Diagnostic| {
        stored.iter().any(|other| other.field == one.field && other.message == one.message)
    };
    found.into_iter().filter(move |finding| !(finding.is_error() && known(finding)))
}

/// Reports what was found.
pub fn report(found: impl IntoIterator<Item = Diagnostic>, reader: &mut Reader<'_>) {
    for finding in found {
        let path = Path::new(&finding.field);
        if let Some(at) = finding.location {
            reader.report_at(finding.code, &path, at, finding.message).help = finding.help;
        }
    }
}
