//! What a change of the manifests opens and closes: what the plain evaluator says about the flows that a lab would ask about,
//! before and after.

use std::collections::BTreeMap;

use palisade_lab::matrix::Matrix;
use palisade_lab::place::Placed;
use palisade_model::options::Options;
use palisade_model::trace::Verdict;
use palisade_model::verdicts::Verdicts;

use crate::print::diagnostics::plural;
use crate::print::lab::flow_text;
use crate::print::style::Look;

/// The flows of a world in words, and what becomes of them.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Predicted(BTreeMap<String, Verdict>);

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

// === impl Predicted ===

impl Predicted {
    /// The flows of a matrix.
    pub fn of(placed: &Placed, matrix: &Matrix) -> Self {
        let texts = matrix.flows.iter().map(|flow| flow_text(&placed.snapshot, &placed.flow(flow)));
        Predicted(texts.zip(predict(placed, matrix)).collect())
    }

    /// What is another than before, of the flows that were there then.
    pub fn since(&self, before: &Predicted) -> Changed {
        let mut changed = Changed::default();
        for (flow, verdict) in &self.0 {
            match (before.0.get(flow), verdict) {
                (Some(Verdict::Allow), Verdict::Allow) | (None, _) => {}
                (Some(Verdict::Allow), _) => changed.closed.push(flow.clone()),
                (Some(_), Verdict::Allow) => changed.opened.push(flow.clone()),
                _ => {}
            }
        }
        changed
    }
}

// === impl Changed ===

impl Changed {
    /// In a line.
    pub fn words(&self, look: Look) -> String {
        let listed = |flows: &[String]| {
            let more = flows.len().saturating_sub(LISTED);
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            format!("{}{more}", flows.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", "))
        };
        let parts: Vec<String> = [(&self.opened, "opens", "open"), (&self.closed, "closes", "close")]
            .into_iter()
            .filter(|(flows, ..)| !flows.is_empty())
            .map(|(flows, one, many)| {
                let word = if flows.len() == 1 { one } else { many };
                format!("{} {} ({})", plural(flows.len(), "connection"), look.strong(word), listed(flows))
            })
            .collect();
        if parts.is_empty() { "no connection opens or closes".to_owned() } else { parts.join("; ") }
    }
}
