//! Whether two sets of policies give the same verdicts: the question before anything converted is printed.
//!
//! It is answered by [`diff`](crate::diff::compare), for every connection between any two endpoints and every address outside:
//! in the cluster that there is, and in clusters that there could be ([`universe`]). Policies tell endpoints apart by
//! labels, namespaces, accounts, addresses and names, and by nothing else. So for everything that any policy of either
//! side asks for, there is an endpoint in these that has it, one that has something else there and one that has nothing.
//! Where that would be too many, the proof says so.

mod mentions;
mod universe;

use std::fmt;

use palisade_model::flow::{Flow, Party, Who};
use palisade_model::options::Options;
use palisade_model::snapshot::{Objects, Snapshot};
use palisade_model::trace::Verdict;
use rayon::prelude::*;

use crate::diff;
use mentions::Mentions;
use universe::Universe;

/// Both sides say the same, of every connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Proof {
    /// Between so many endpoints, and with every address outside.
    pub endpoints: usize,
    /// Whether there were too many combinations of labels to have an endpoint for each, or too many source ports.
    pub bounded: bool,
}

/// A connection about which the two sides disagree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counterexample {
    /// The connection, in words.
    pub flow: String,
    /// What becomes of it by the first side.
    pub before: Verdict,
    /// What becomes of it by the second.
    pub after: Verdict,
}

// === impl Proof ===

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the same verdict for every connection among {} endpoints and the outside",
            self.endpoints
        )?;
        if self.bounded {
            f.write_str(", without every combination of labels there could be")?;
        }
        Ok(())
    }
}

// === impl Counterexample ===

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counterexample { flow, before, after } = self;
        write!(
            f,
            "the converted policies mean something else: {flow} is {} before and {} after",
            before.as_str(),
            after.as_str()
        )
    }
}

/// Compares two sides, which differ in their policies.
pub fn proven(before: &Objects, after: &Objects) -> Result<Proof, Box<Counterexample>> {
    let mentions = Mentions::of([before, after]);
    let universe = Universe::of(&mentions);
    let with = |cluster: &Objects, policies: &Objects| {
        Snapshot::new(Objects {
            policies: policies.policies.clone(),
            tiers: policies.tiers.clone(),
            groups: policies.groups.clone(),
            // A group may be the pods behind a service.
            services: policies.services.clone(),
            ..cluster.clone()
        })
    };
    let worlds: Vec<&Objects> = std::iter::once(before).chain(&universe.clusters).collect();
    let compared: Result<Vec<diff::Compared>, Box<Counterexample>> = worlds
        .into_par_iter()
        .map(|cluster| {
            let (before, after) = (with(cluster, before), with(cluster, after));
            diff::compare(&before, &after, &Options::default()).map_err(|differing| {
                let diff::Differing { flow, before: one, after: other } = *differing;
                Box::new(Counterexample { flow: describe(&before, &flow), before: one, after: other })
            })
        })
        .collect();
    let compared = compared?;
    Ok(Proof {
        endpoints: compared.iter().map(|compared| compared.endpoints).sum(),
        bounded: universe.bounded || compared.iter().any(|compared| compared.coarse),
    })
}

/// A connection in words, with the labels of its ends: their names mean nothing where they were made up.
fn describe(snapshot: &Snapshot, flow: &Flow) -> String {
    let end = |party: Party| match party.who {
        Who::Pod(pod) => {
            let (own, home) = (&snapshot.pods()[pod], snapshot.namespace_of(pod));
            let labels = |labels: &palisade_model::label::Labels| {
                labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
            };
            let address = party.address.map(|address| format!(" at {address}")).unwrap_or_default();
            format!(
                "{}/{} ({{{}}} in {{{}}}{address})",
                own.namespace,
                own.name,
                labels(&own.labels),
                labels(&home.labels)
            )
        }
        _ => snapshot.describe(party),
    };
    format!("{} -> {} {}", end(flow.source), end(flow.destination), flow.traffic)
}
