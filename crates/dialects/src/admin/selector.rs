//! A label selector as the CRDs have it.

use palisade_model::label::Selector;

use super::typed::{LabelMap, List, Text, Texts, broken};
use crate::apimachinery::field::Path;
use crate::apimachinery::selector as labels;
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
    /// What it selects; the words for what cannot be read when that cannot be said.
    ///
    /// Nobody has checked these selectors before they get here. A label that no object can have is read as a mistake
    /// and not as "nothing", which in a rule that denies would leave everything open.
    pub fn lower(&self) -> Result<Selector, String> {
        let plain = meta::LabelSelector {
            match_labels: self.match_labels.clone().map(|labels| labels.0),
            match_expressions: self
                .match_expressions
                .as_ref()
                .map(|list| list.iter().map(|one| one.plain()).collect()),
            unreadable: self.unreadable.clone(),
        };
        let selector = plain.lower()?;
        let mut wrong = None;
        let sink = &mut |_: &Path<'_>, body: String| {
            wrong.get_or_insert(body);
        };
        let path = Path::root();
        for (key, value) in plain.match_labels.iter().flatten() {
            labels::label(&path, key, value, sink);
        }
        for one in plain.match_expressions.iter().flatten() {
            let requirement = labels::Requirement {
                key: one.key.as_deref().unwrap_or(""),
                operator: one.operator.as_deref().unwrap_or(""),
                values: one.values.as_deref().unwrap_or(&[]),
            };
            labels::requirement(&path, &requirement, labels::Options::default(), sink);
        }
        match wrong {
            Some(wrong) => Err(format!("a label that cannot be: {wrong}")),
            None => Ok(selector),
        }
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
