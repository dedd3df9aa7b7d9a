//! A label selector as Antrea's definitions have it.
//!
//! It differs from the one of the admin policies in a single point. Antrea's definitions leave `matchLabels` alone, so
//! that a label without a value reaches Antrea, which takes it for the empty value; elsewhere the API server drops it.

use palisade_model::label::Selector;

use crate::decode::fields;
use crate::definition::selector::LabelSelectorRequirement;
use crate::definition::typed::{FullLabelMap, List, broken};
use crate::meta;

fields! {
    /// A selector, as written.
    pub struct LabelSelector {
        "matchLabels" => match_labels: FullLabelMap,
        "matchExpressions" => match_expressions: List<LabelSelectorRequirement>,
    }
}

broken! { LabelSelector }

// === impl LabelSelector ===

impl LabelSelector {
    /// What it selects; the words for what cannot be read when that cannot be said. Antrea does not check expressions,
    /// and takes a selector that it cannot read for one that selects everything.
    pub fn lower(&self) -> Result<Selector, String> {
        let plain = meta::LabelSelector {
            match_labels: self.match_labels.clone().map(|labels| labels.0),
            match_expressions: self
                .match_expressions
                .as_ref()
                .map(|list| list.iter().map(|one| one.plain()).collect()),
            unreadable: self.unreadable.clone(),
        };
        plain.lower()
    }
}
