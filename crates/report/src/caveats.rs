//! What an answer about all connections cannot tell, in words: rules that depend on names or on what a connection carries.

use palisade_analysis::caveats::Caveat;
use palisade_model::snapshot::Snapshot;

use super::style::{Look, wrap};
use crate::text::{NL, Text};

/// One of them, without a line break.
pub fn words(snapshot: &Snapshot, caveat: &Caveat) -> String {
    let at = caveat.rule();
    let policy = &snapshot.policies()[at.policy];
    let rule = &policy.rules[at.rule];
    let name = rule.name.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default();
    let place = rule.at.as_ref().or(policy.object.at.as_ref());
    let place = place.map(|at| format!(" ({at})")).unwrap_or_default();
    let which = format!("{} rule {}{name} of {}{place}", rule.direction, rule.index, policy.object);
    let list = |words: Vec<String>, with: &str| words.join(with);
    match caveat {
        Caveat::Names { names, .. } => {
            let names = list(names.iter().map(ToString::to_string).collect(), ", ");
            format!(
                "{which} is about names whose addresses are not known, and matches nothing here: {names}; --dns NAME=IP tells them"
            )
        }
        Caveat::Layer7 { .. } => {
            let conditions = list(rule.layer7.iter().map(ToString::to_string).collect(), ", or ");
            format!("{which} allows only {conditions}; anything else that it matches is dropped")
        }
    }
}

/// All of them, a note each, below an answer that is indented so far.
pub fn notes(snapshot: &Snapshot, caveats: &[Caveat], indent: usize, look: Look) -> Text {
    let mut out = Text::new();
    for caveat in caveats {
        let width = look.width.saturating_sub(indent + 6);
        for (index, line) in wrap(&words(snapshot, caveat), width).iter().enumerate() {
            let head = if index == 0 { look.warning("note:") } else { Text::own("     ") };
            write_text!(out, "{}{head} {line}{NL}", " ".repeat(indent));
        }
    }
    out
}
