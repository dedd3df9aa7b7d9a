//! Reports on the emitted objects as a whole: changed priorities, and policies for which no object was emitted.

use std::collections::{BTreeMap, BTreeSet};

use palisade_model::policy::{Placement, Priority};

use super::codes;
use super::conversion::{Conversion, OriginPolicy};
use super::output::ConversionOutput;
use super::precedence::Precedence;

/// Maximum number of new priorities of one policy in a message.
const MAX_LISTED: usize = 3;

/// Reports policies whose priority changes, and policies left out without a reason reported so far.
pub(super) fn report_changes(conversion: &Conversion<'_>, output: &mut ConversionOutput) {
    report_priorities(conversion, output);
    report_left_out(conversion, output);
}

fn report_priorities(conversion: &Conversion<'_>, output: &mut ConversionOutput) {
    let mut given: BTreeMap<usize, BTreeSet<Priority>> = BTreeMap::new();
    for emitted in output.emitted.iter().filter(|emitted| emitted.precedence != Precedence::UNION) {
        given.entry(emitted.origin).or_default().insert(emitted.precedence.priority);
    }
    for (index, given) in given {
        let origin = &conversion.origins[index];
        let (Placement::Tier { .. }, Some(old)) = (&origin.policy.placement, origin.precedence) else {
            continue;
        };
        // A BaselineAdminNetworkPolicy has none: its priority here is negative.
        let has_one = old.priority.0 >= 0.0 && given.iter().all(|one| one.0 >= 0.0);
        if !has_one || given.iter().all(|one| *one == old.priority) {
            continue;
        }
        let mut numbers: Vec<String> = given.iter().take(MAX_LISTED).map(ToString::to_string).collect();
        if given.len() > MAX_LISTED {
            numbers.extend(given.last().map(|last| format!("… {last}")));
        }
        let message = format!("priority {} becomes {}", old.priority, numbers.join(", "));
        output.scope(conversion, index).report(&codes::PRIORITY, None, ".priority", message);
    }
}

fn report_left_out(conversion: &Conversion<'_>, output: &mut ConversionOutput) {
    let emitted: BTreeSet<usize> = output.emitted.iter().map(|emitted| emitted.origin).collect();
    for (index, origin) in conversion.origins.iter().enumerate() {
        if emitted.contains(&index) || output.failed.contains(&index) {
            continue;
        }
        let message = why_left_out(origin).to_owned();
        output.scope(conversion, index).report(&codes::NO_EFFECT, None, "", message);
    }
}

fn why_left_out(origin: &OriginPolicy) -> &'static str {
    match (&origin.policy.placement, origin.policy.isolations.is_empty(), origin.policy.rules.is_empty()) {
        (Placement::Tier { .. }, _, true) => "the policy has no rules, does nothing, and is left out",
        (_, true, true) => "the policy isolates nobody and allows nothing, and is left out",
        (_, false, true) => "whom the policy isolates another isolates already: it is left out",
        _ => "nothing that the policy says is needed: it is left out",
    }
}
