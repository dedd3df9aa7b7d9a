//! Proof that two sets of policies have equal verdicts, for existing pods and for pods that could exist.
//!
//! [`compare`](super::compare) decides it for one cluster. Here it is applied to synthetic clusters ([`universe`]): policies
//! distinguish endpoints by labels, namespaces, accounts, addresses and names only. So for every value that a policy of either
//! side mentions there is an endpoint that has it, one with another value, and one without. Where these are too many, the
//! proof is bounded.

mod mentions;
mod universe;

use std::collections::BTreeMap;
use std::fmt;

use palisade_model::flow::{Flow, Party, Who};
use palisade_model::options::Options;
use palisade_model::policy::{Layer7, Peer, Peers, Policy, Rule};
use palisade_model::snapshot::{Objects, Snapshot};
use palisade_model::trace::Verdict;
use rayon::prelude::*;

use super::equality::compare_within;
use super::{ComparisonExtent, Diff, DifferenceKind, DivergentFlow};
use mentions::Mentions;
use universe::Universe;

use crate::work::Work;

/// Extent of a proof that both sides have equal verdicts for every connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Proof {
    /// Number of endpoints compared with each other and with every outside address.
    pub endpoints: usize,
    /// Whether some combinations of labels have no endpoint, or source ports are not distinguished, because of limits.
    pub bounded: bool,
    /// Number of classes of existing endpoints that were not compared with all others, because of a limit: nothing is claimed
    /// about them.
    pub left_out: usize,
    /// Number of such classes of synthetic endpoints.
    pub left_out_made_up: usize,
}

/// Work of one proof: some seconds. Existing pods get half of it.
const MAX_STEPS: u64 = 8_000_000_000;

/// A connection with different verdicts on the two sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counterexample {
    /// Description of the connection.
    pub flow: String,
    /// Verdict of the first side.
    pub before: Verdict,
    /// Verdict of the second side.
    pub after: Verdict,
}

/// Differences between two sets of policies for pods that could exist.
#[derive(Debug, Clone, Default)]
pub struct PotentialDifferences {
    /// Extent of the proof, where nothing differs.
    pub proof: Option<Proof>,
    /// Example of a connection that opens.
    pub opened: Option<Counterexample>,
    /// Example of a connection that closes.
    pub closed: Option<Counterexample>,
    /// Where nothing opens or closes, example of a connection that is refused in another way.
    pub refused: Option<Counterexample>,
    /// A rule whose layer-7 conditions differ, which verdicts do not show.
    pub conditions: Option<String>,
    /// Example of a connection that opens for existing pods, to an unresolved name.
    pub named_opened: Option<Counterexample>,
    /// Example of a connection that closes for existing pods, to an unresolved name.
    pub named_closed: Option<Counterexample>,
}

// === impl PotentialDifferences ===

impl PotentialDifferences {
    /// Compares policies, tiers, groups and services of two sides, for possible pods and for those of `there`.
    pub fn of(before: &Objects, after: &Objects, there: Option<&Objects>) -> Self {
        let mut work = Work::new(MAX_STEPS);
        let mut beyond = PotentialDifferences::of_anybody(before, after, &mut work);
        if beyond.proof.is_none()
            && let Some(there) = there
            && is_about_names([before, after])
        {
            let mut differs = |differs| {
                proven_in(before, after, Some(there), false, differs, work.share(2)).err().map(|found| *found)
            };
            beyond.named_opened = differs(DifferenceKind::InWhatOpens);
            beyond.named_closed = differs(DifferenceKind::InWhatCloses);
        }
        beyond
    }

    /// Whether traffic opens: to names for existing pods; without workloads, for possible pods.
    pub fn opens(&self, diff: &Diff<'_>) -> bool {
        self.named_opened.is_some() || (diff.has_no_workloads() && self.opened.is_some())
    }

    /// Whether traffic closes: to names for existing pods; without workloads, for possible pods.
    pub fn closes(&self, diff: &Diff<'_>) -> bool {
        self.named_closed.is_some() || (diff.has_no_workloads() && self.closed.is_some())
    }

    /// Returns an example that opens or closes, if there is one.
    pub fn first(&self) -> Option<&Counterexample> {
        let all = [&self.named_opened, &self.named_closed, &self.opened, &self.closed];
        all.into_iter().flatten().next()
    }

    /// Removes examples that close, or are refused in another way.
    #[must_use]
    pub fn of_what_opens(self) -> Self {
        PotentialDifferences { closed: None, named_closed: None, refused: None, ..self }
    }

    fn of_anybody(before: &Objects, after: &Objects, work: &mut Work) -> Self {
        let conditions = other_conditions(before, after);
        let share = work.share(2);
        let differs =
            |differs, share| proven_in(before, after, None, true, differs, share).err().map(|found| *found);
        match proven_in(before, after, None, true, DifferenceKind::InAnyVerdict, share) {
            Ok(proof) => {
                PotentialDifferences { proof: Some(proof), conditions, ..PotentialDifferences::default() }
            }
            Err(first) => {
                let opened = differs(DifferenceKind::InWhatOpens, work.share(3));
                let closed = differs(DifferenceKind::InWhatCloses, work.share(2));
                let refused = (opened.is_none() && closed.is_none()).then_some(*first);
                PotentialDifferences {
                    opened,
                    closed,
                    refused,
                    conditions,
                    ..PotentialDifferences::default()
                }
            }
        }
    }
}

/// Returns the objects of a side without endpoints and namespaces.
pub fn policies_of(objects: &Objects) -> Objects {
    Objects {
        policies: objects.policies.clone(),
        tiers: objects.tiers.clone(),
        groups: objects.groups.clone(),
        // A group may be the pods behind a service.
        services: objects.services.clone(),
        ..Objects::default()
    }
}

/// Whether some rule has DNS names as peers.
pub fn is_about_names<'o>(sides: impl IntoIterator<Item = &'o Objects>) -> bool {
    let named = |peers: &Peers| match peers {
        Peers::Of(peers) => peers.iter().any(|peer| matches!(peer, Peer::Names(_))),
        Peers::Any => false,
    };
    let rules = sides.into_iter().flat_map(|side| &side.policies).flat_map(|policy| &policy.rules);
    rules.into_iter().any(|rule| named(&rule.peers))
}

/// Returns the first rule whose layer-7 conditions differ.
fn other_conditions(before: &Objects, after: &Objects) -> Option<String> {
    let of = |side: &'_ Objects| -> BTreeMap<String, Vec<Layer7>> {
        let rules =
            side.policies.iter().flat_map(|policy| policy.rules.iter().map(move |rule| (policy, rule)));
        let conditional = rules.filter(|(_, rule)| !rule.layer7.is_empty());
        let named = |(policy, rule): (&Policy, &Rule)| {
            let name = format!("{} rule {} of {}", rule.direction.as_str(), rule.index, policy.object);
            (name, rule.layer7.clone())
        };
        conditional.map(named).collect()
    };
    let (before, after) = (of(before), of(after));
    before.keys().chain(after.keys()).find(|name| before.get(*name) != after.get(*name)).cloned()
}

// === impl Proof ===

impl Proof {
    /// Whether all classes were compared.
    pub fn is_complete(&self) -> bool {
        self.left_out + self.left_out_made_up == 0
    }
}

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
        match self.left_out + self.left_out_made_up {
            0 => Ok(()),
            count => write!(f, "; {count} sorts of endpoints were not compared, which takes too much work"),
        }
    }
}

// === impl Counterexample ===

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counterexample { flow, before, after } = self;
        let word = |verdict: &Verdict| match verdict {
            Verdict::Allow => "allowed",
            Verdict::Deny => "denied",
            Verdict::Reject => "rejected",
        };
        write!(f, "{flow} is {} before and {} after", word(before), word(after))
    }
}

/// Proves that two sides have equal verdicts, for the pods of the first and for pods that could exist.
pub fn proven(before: &Objects, after: &Objects) -> Result<Proof, Box<Counterexample>> {
    proven_in(before, after, Some(before), true, DifferenceKind::InAnyVerdict, Work::new(MAX_STEPS))
}

/// Compares policies, tiers, groups and services of two sides, for the pods of `there` and, with `with_synthetic`, for pods that
/// could exist.
fn proven_in(
    before: &Objects,
    after: &Objects,
    there: Option<&Objects>,
    with_synthetic: bool,
    differs: DifferenceKind,
    mut work: Work,
) -> Result<Proof, Box<Counterexample>> {
    let mentions = Mentions::of([before, after]);
    let universe = Universe::of(&mentions);
    let with = |cluster: &Objects, policies: &Objects| {
        let Objects { policies, tiers, groups, services, .. } = policies_of(policies);
        Snapshot::new(Objects { policies, tiers, groups, services, ..cluster.clone() })
    };
    // Unresolved names get synthetic addresses.
    let there = there.map(|there| {
        let mut there = there.clone();
        for (name, addresses) in &universe.names {
            there.names.entry(name.clone()).or_insert_with(|| addresses.clone());
        }
        there
    });
    let worlds = there.iter().map(|there| (there, false));
    let worlds: Vec<(&Objects, bool)> = worlds
        .chain(universe.clusters.iter().filter(|_| with_synthetic).map(|cluster| (cluster, true)))
        .collect();
    // Shares of work are fixed beforehand, so that results do not depend on scheduling.
    let made_up = universe.clusters.len() as u64;
    let own = if there.is_some() { work.share(2) } else { Work::new(0) };
    let each = work.share(made_up);
    let compared: Result<Vec<(ComparisonExtent, bool)>, Box<Counterexample>> = worlds
        .into_par_iter()
        .map(|(cluster, made_up)| {
            let (before, after) = (with(cluster, before), with(cluster, after));
            let share = if made_up { each.clone() } else { own.clone() };
            let compared = compare_within(&before, &after, &Options::default(), differs, share);
            compared.map(|compared| (compared, made_up)).map_err(|differing| {
                let DivergentFlow { flow, before: one, after: other } = *differing;
                Box::new(Counterexample {
                    flow: describe(&before, &flow, made_up),
                    before: one,
                    after: other,
                })
            })
        })
        .collect();
    let compared = compared?;
    let left_out = |wanted: bool| {
        compared.iter().filter(|(_, made_up)| *made_up == wanted).map(|(one, _)| one.left_out).sum()
    };
    Ok(Proof {
        endpoints: compared.iter().map(|(compared, _)| compared.endpoints).sum(),
        bounded: universe.bounded || compared.iter().any(|(compared, _)| compared.coarse),
        left_out: left_out(false),
        left_out_made_up: left_out(true),
    })
}

/// Describes a connection; synthetic pods by their labels instead of their names.
fn describe(snapshot: &Snapshot, flow: &Flow, made_up: bool) -> String {
    let end = |party: Party| match (party.who, party.address) {
        (Who::Pod(pod), address) if made_up => universe::describe(snapshot, pod, address),
        (Who::Outside, Some(address)) => match snapshot.names_of(address).next() {
            Some(name) => name.to_owned(),
            None => snapshot.describe(party),
        },
        _ => snapshot.describe(party),
    };
    format!("{} -> {} {}", end(flow.source), end(flow.destination), flow.traffic)
}
