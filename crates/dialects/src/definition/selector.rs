//! A label selector as the CRDs have it.

use palisade_model::label::Selector;

use super::typed::{LabelMap, List, Text, Texts, broken};
use crate::decode::fields;
use crate::meta;

fields! {
    /// A selector, as written.
    pub struct LabelSelector {
        "matchLabels" => match_labels: LabelMap,
        "matchExpressions" => match_expressions: List<LabelSelectorRequirement>,
    }

    /// One requirement of a selector, as written.
    pub struct LabelSelectorRequirement {
        "key" => key: Text,
        "operator" => operator: Text,
        "values" => values: Texts,
    }
}

broken! { LabelSelector LabelSelectorRequirement }

// === impl LabelSelector ===

impl LabelSelector {
    /// What it selects; the words for what cannot be read when that cannot be said. Nobody has checked these selectors
    /// before they get here.
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

impl LabelSelectorRequirement {
    fn plain(&self) -> meta::LabelSelectorRequirement {
        meta::LabelSelectorRequirement {
            key: self.key.clone().map(|key| key.0),
            operator: self.operator.clone().map(|operator| operator.0),
            values: self.values.clone().map(|values| values.0),
            unreadable: self.unreadable.clone(),
        }
    }
}
