//! Caveats of answers about all connections: rules that depend on unresolved DNS names or on layer 7.

use palisade_analysis::caveats::Caveat;
use palisade_model::snapshot::Snapshot;

use super::style::{Look, wrap};
use crate::text::{NL, Text};

/// Describes a caveat in one line.
pub fn describe(snapshot: &Snapshot, caveat: &Caveat) -> String {
    let at = caveat.rule();
    let policy = &snapshot.policies()[at.policy];
    let rule = &policy.rules[at.rule];
    let name = rule.name.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default();
    let location = rule.at.as_ref().or(policy.object.at.as_ref());
    let location = location.map(|at| format!(" ({at})")).unwrap_or_default();
    let rule_name = format!("{} rule {}{name} of {}{location}", rule.direction, rule.index, policy.object);
    let list = |texts: Vec<String>, with: &str| texts.join(with);
    match caveat {
        Caveat::Names { names, .. } => {
            let names = list(names.iter().map(ToString::to_string).collect(), ", ");
            format!(
                "{rule_name} is about names whose addresses are not known, and matches nothing here: {names}; --dns NAME=IP tells them"
            )
        }
        Caveat::Layer7 { .. } => {
            let conditions = list(rule.layer7.iter().map(ToString::to_string).collect(), ", or ");
            format!("{rule_name} allows only {conditions}; anything else that it matches is dropped")
        }
    }
}

/// Prints a note for each caveat, wrapped and indented by `indent`.
pub fn notes(snapshot: &Snapshot, caveats: &[Caveat], indent: usize, look: Look) -> Text {
    let mut out = Text::new();
    for caveat in caveats {
        let width = look.width.saturating_sub(indent + 6);
        for (index, line) in wrap(&describe(snapshot, caveat), width).iter().enumerate() {
            let head = if index == 0 { look.warning("note:") } else { Text::own("     ") };
            write_text!(out, "{}{head} {line}{NL}", " ".repeat(indent));
        }
    }
    out
}
