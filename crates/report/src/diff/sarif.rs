//! Diff as SARIF for code scanning: a result for each finding, at the rule that decides after the change.

use palisade_analysis::diff::{DiffFinding, grouped};
use palisade_analysis::map::connections;
use palisade_analysis::reach::cells::Cells;
use serde_json::{Value, json};

use super::{DiffContext, phrases};
use crate::sarif::{document, location};
use crate::text::Text;

/// Prints a diff as SARIF.
pub fn sarif(context: &DiffContext<'_, '_>, cells: &Cells) -> Text {
    let rules = [
        rule(
            "palisade/opens",
            "A connection opens",
            "The change lets traffic through that was refused before.",
        ),
        rule(
            "palisade/closes",
            "A connection closes",
            "The change refuses traffic that was let through before.",
        ),
    ];
    let results: Vec<Value> =
        context.findings.list.iter().flat_map(|finding| results(finding, context, cells)).collect();
    document(&rules, &results)
}

fn rule(id: &str, title: &str, text: &str) -> Value {
    json!({
        "id": id,
        "shortDescription": {"text": title},
        "fullDescription": {"text": text},
        "defaultConfiguration": {"level": "warning"},
    })
}

fn results(finding: &DiffFinding, context: &DiffContext<'_, '_>, cells: &Cells) -> Vec<Value> {
    let traffic = connections(finding.part, cells).to_string();
    // A location that can be edited: the decider after the change, else the one before, in files of after.
    let deciders = finding.after.iter().chain(&finding.before);
    let place = deciders
        .filter_map(phrases::location_of)
        .find(|at| !at.file.starts_with(&format!("{}:", context.names.0)));
    let why = |when: &str, deciders| -> String {
        let all: Vec<String> = phrases::decided(deciders).into_iter().map(|(words, _)| words).collect();
        if all.is_empty() { String::new() } else { format!(" {when}: {}.", all.join("; ")) }
    };
    let result = |(sources, destinations): (Vec<_>, Vec<_>)| {
        let (verb, id, index) =
            if finding.opens { ("opens", "palisade/opens", 0) } else { ("closes", "palisade/closes", 1) };
        let (from, to) = (phrases::ends(&sources, context.diff), phrases::ends(&destinations, context.diff));
        let text = format!(
            "{from} → {to} {verb}: {traffic}.{}{}",
            why("Now", &finding.after),
            why("Before", &finding.before)
        );
        let mut result = json!({
            "ruleId": id,
            "ruleIndex": index,
            "level": "warning",
            "message": {"text": text},
        });
        if let Some(at) = &place {
            result["locations"] = json!([location(at)]);
        }
        result
    };
    grouped(&finding.pairs).into_iter().map(result).collect()
}
