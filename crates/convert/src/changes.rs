//! What is said otherwise, as seen when all is said: priorities that are others, and policies of which nothing is left.

use std::collections::{BTreeMap, BTreeSet};

use palisade_model::policy::{Placement, Priority};

use super::codes;
use super::conversion::{Conversion, Origin};
use super::order::Place;
use super::speech::Speech;

/// As many new priorities of one policy are named.
const MOST_NAMED: usize = 3;

/// Notes what is said otherwise.
pub(super) fn changes(conversion: &Conversion<'_>, speech: &mut Speech) {
    priorities(conversion, speech);
    left_out(conversion, speech);
}

/// Priorities that a policy of a tier does not have any more.
fn priorities(conversion: &Conversion<'_>, speech: &mut Speech) {
    let mut given: BTreeMap<usize, BTreeSet<Priority>> = BTreeMap::new();
    for said in speech.said.iter().filter(|said| said.place != Place::UNION) {
        given.entry(said.origin).or_default().insert(said.place.priority);
    }
    for (index, given) in given {
        let origin = &conversion.origins[index];
        let (Placement::Tier { .. }, Some(place)) = (&origin.policy.placement, origin.place) else {
            continue;
        };
        // A baseline of the admin policies has none, and stands before all others.
        let has_one = place.priority.0 >= 0.0 && given.iter().all(|one| one.0 >= 0.0);
        if !has_one || given.iter().all(|one| *one == place.priority) {
            continue;
        }
        let mut numbers: Vec<String> = given.iter().take(MOST_NAMED).map(ToString::to_string).collect();
        if given.len() > MOST_NAMED {
            numbers.extend(given.last().map(|last| format!("… {last}")));
        }
        let message = format!("priority {} becomes {}", place.priority, numbers.join(", "));
        speech.note(&codes::PRIORITY, conversion, index, None, ".priority", message);
    }
}

/// Policies that no object says, and nothing has been said about that yet.
fn left_out(conversion: &Conversion<'_>, speech: &mut Speech) {
    let said: BTreeSet<usize> = speech.said.iter().map(|said| said.origin).collect();
    for (index, origin) in conversion.origins.iter().enumerate() {
        if said.contains(&index) || speech.failed.contains(&index) {
            continue;
        }
        speech.note(&codes::NO_EFFECT, conversion, index, None, "", why(origin).to_owned());
    }
}

fn why(origin: &Origin) -> &'static str {
    match (&origin.policy.placement, origin.policy.isolations.is_empty(), origin.policy.rules.is_empty()) {
        (Placement::Tier { .. }, _, true) => "the policy has no rules, does nothing, and is left out",
        (_, true, true) => "the policy isolates nobody and allows nothing, and is left out",
        (_, false, true) => "whom the policy isolates another isolates already: it is left out",
        _ => "nothing that the policy says is needed: it is left out",
    }
}
