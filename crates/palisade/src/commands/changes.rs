//! What a change of the manifests opens and closes: what the plain evaluator says about the flows that a lab would ask about,
//! before and after.

use std::collections::BTreeMap;

use palisade_lab::matrix::{Matrix, Topics};
use palisade_lab::place::Placed;
use palisade_model::options::Options;
use palisade_model::trace::Verdict;
use palisade_model::verdicts::Verdicts;

use crate::print::diagnostics::plural;
use crate::print::lab::flow_text;
use crate::print::style::Look;
use crate::print::text::Text;

/// Flows that are open now and were not, and the other way round.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Changed {
    pub opened: Vec<String>,
    pub closed: Vec<String>,
}

/// How many flows of a change are listed in a line.
const LISTED: usize = 10;

/// What the plain evaluator says about each flow.
pub fn predict(placed: &Placed, matrix: &Matrix) -> Vec<Verdict> {
    let options = Options::default();
    let verdicts = Verdicts::new(&placed.snapshot, &options);
    matrix.flows.iter().map(|flow| verdicts.verdict(&placed.flow(flow))).collect()
}

/// What is another in the second world than in the first, of the flows that both have; whatever the policies of either mention
/// is asked about. So many flows of each at most, thinned out evenly.
pub fn between(before: &Placed, now: &Placed, most: usize) -> Changed {
    let topics = Topics::of(&before.given).and(Topics::of(&now.given));
    let verdicts = |placed: &Placed| -> BTreeMap<String, Verdict> {
        let matrix = Matrix::about(placed, &topics, most);
        let texts = matrix.flows.iter().map(|flow| flow_text(&placed.snapshot, &placed.flow(flow)));
        texts.zip(predict(placed, &matrix)).collect()
    };
    let (before, now) = (verdicts(before), verdicts(now));
    let mut changed = Changed::default();
    for (flow, verdict) in &now {
        match (before.get(flow), verdict) {
            (Some(Verdict::Allow), Verdict::Allow) | (None, _) => {}
            (Some(Verdict::Allow), _) => changed.closed.push(flow.clone()),
            (Some(_), Verdict::Allow) => changed.opened.push(flow.clone()),
            _ => {}
        }
    }
    changed
}

// === impl Changed ===

impl Changed {
    /// In a line.
    pub fn words(&self, look: Look) -> Text {
        let listed = |flows: &[String]| {
            let more = flows.len().saturating_sub(LISTED);
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            format!("{}{more}", flows.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", "))
        };
        let parts: Vec<Text> = [(&self.opened, "opens", "open"), (&self.closed, "closes", "close")]
            .into_iter()
            .filter(|(flows, ..)| !flows.is_empty())
            .map(|(flows, one, many)| {
                let word = if flows.len() == 1 { one } else { many };
                text!("{} {} ({})", plural(flows.len(), "connection"), look.strong(word), listed(flows))
            })
            .collect();
        match parts.as_slice() {
            [] => Text::own("no connection opens or closes"),
            [only] => only.clone(),
            [first, rest @ ..] => rest.iter().fold(first.clone(), |all, part| text!("{all}; {part}")),
        }
    }
}
