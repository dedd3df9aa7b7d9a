//! Whether two sets of policies give the same verdicts: for the pods that there are, and for pods that there could be.
//!
//! [`compare`] answers it for one cluster. Here that is asked about clusters that are made up ([`universe`]): policies tell
//! endpoints apart by labels, namespaces, accounts, addresses and names, and by nothing else. So for everything that any
//! policy of either side asks for, there is an endpoint in these that has it, one that has something else there and one
//! that has nothing. Where that would be too many, the proof says so.

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

use super::verdicts::compare_within;
use super::{Compared, Diff, Differing, Differs};
use mentions::Mentions;
use universe::Universe;

use crate::work::Work;

/// Both sides say the same, of every connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Proof {
    /// Between so many endpoints, and with every address outside.
    pub endpoints: usize,
    /// Whether there were too many combinations of labels to have an endpoint for each, or too many source ports.
    pub bounded: bool,
    /// Sorts of endpoints of the cluster itself that were not compared with all others, because that takes too much work:
    /// nothing is claimed about them.
    pub left_out: usize,
    /// The same of endpoints that were made up.
    pub left_out_made_up: usize,
}

/// Steps of one proof: some seconds. The pods that are there get half of it.
const MOST_STEPS: u64 = 8_000_000_000;

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

/// What two sets of policies say otherwise of pods that are not there.
#[derive(Debug, Clone, Default)]
pub struct Beyond {
    /// What was compared, where nothing differs.
    pub proof: Option<Proof>,
    /// A connection that opens.
    pub opened: Option<Counterexample>,
    /// A connection that closes.
    pub closed: Option<Counterexample>,
    /// Where nothing opens or closes: a connection that is refused otherwise.
    pub refused: Option<Counterexample>,
    /// A rule whose conditions on layer 7 differ, which no verdict tells of.
    pub conditions: Option<String>,
    /// What opens for pods that are there, towards a name whose addresses are not known.
    pub named_opened: Option<Counterexample>,
    /// And what closes.
    pub named_closed: Option<Counterexample>,
}

// === impl Beyond ===

impl Beyond {
    /// Of two sides; of the policies, tiers, groups and services of either, and of whoever is there.
    pub fn of(before: &Objects, after: &Objects, there: Option<&Objects>) -> Self {
        let mut work = Work::new(MOST_STEPS);
        let mut beyond = Beyond::of_anybody(before, after, &mut work);
        if beyond.proof.is_none()
            && let Some(there) = there
            && is_about_names([before, after])
        {
            let mut differs = |differs| {
                proven_in(before, after, Some(there), false, differs, work.share(2)).err().map(|found| *found)
            };
            beyond.named_opened = differs(Differs::InWhatOpens);
            beyond.named_closed = differs(Differs::InWhatCloses);
        }
        beyond
    }

    /// Whether something opens: for pods that are there, towards names; where nobody is, for whoever could be.
    pub fn opens(&self, diff: &Diff<'_>) -> bool {
        self.named_opened.is_some() || (diff.is_about_nobody() && self.opened.is_some())
    }

    /// Whether something closes, in the same way.
    pub fn closes(&self, diff: &Diff<'_>) -> bool {
        self.named_closed.is_some() || (diff.is_about_nobody() && self.closed.is_some())
    }

    /// A connection that opens or closes, if there is one.
    pub fn first(&self) -> Option<&Counterexample> {
        let all = [&self.named_opened, &self.named_closed, &self.opened, &self.closed];
        all.into_iter().flatten().next()
    }

    /// Without what closes, or is refused otherwise.
    #[must_use]
    pub fn of_what_opens(self) -> Self {
        Beyond { closed: None, named_closed: None, refused: None, ..self }
    }

    fn of_anybody(before: &Objects, after: &Objects, work: &mut Work) -> Self {
        let conditions = other_conditions(before, after);
        let share = work.share(2);
        let differs =
            |differs, share| proven_in(before, after, None, true, differs, share).err().map(|found| *found);
        match proven_in(before, after, None, true, Differs::InAnyVerdict, share) {
            Ok(proof) => Beyond { proof: Some(proof), conditions, ..Beyond::default() },
            Err(first) => {
                let opened = differs(Differs::InWhatOpens, work.share(3));
                let closed = differs(Differs::InWhatCloses, work.share(2));
                let refused = (opened.is_none() && closed.is_none()).then_some(*first);
                Beyond { opened, closed, refused, conditions, ..Beyond::default() }
            }
        }
    }
}

/// What of a side policies are, without anybody they could be about.
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

/// Whether a rule is about DNS names.
pub fn is_about_names<'o>(sides: impl IntoIterator<Item = &'o Objects>) -> bool {
    let named = |peers: &Peers| match peers {
        Peers::Of(peers) => peers.iter().any(|peer| matches!(peer, Peer::Names(_))),
        Peers::Any => false,
    };
    let rules = sides.into_iter().flat_map(|side| &side.policies).flat_map(|policy| &policy.rules);
    rules.into_iter().any(|rule| named(&rule.peers))
}

/// The first rule that has other conditions on one side than on the other.
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
    /// Whether the endpoints that it is about were all compared.
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

/// Compares two sides, which differ in their policies, for the pods of the first and for pods there could be.
pub fn proven(before: &Objects, after: &Objects) -> Result<Proof, Box<Counterexample>> {
    proven_in(before, after, Some(before), true, Differs::InAnyVerdict, Work::new(MOST_STEPS))
}

/// Compares two sets of policies for the pods that are there, and, if asked, for pods there could be. Of either side policies,
/// tiers, groups and services count.
fn proven_in(
    before: &Objects,
    after: &Objects,
    there: Option<&Objects>,
    anybody: bool,
    differs: Differs,
    mut work: Work,
) -> Result<Proof, Box<Counterexample>> {
    let mentions = Mentions::of([before, after]);
    let universe = Universe::of(&mentions);
    let with = |cluster: &Objects, policies: &Objects| {
        let Objects { policies, tiers, groups, services, .. } = policies_of(policies);
        Snapshot::new(Objects { policies, tiers, groups, services, ..cluster.clone() })
    };
    // Names that are not known stand for something all the same.
    let there = there.map(|there| {
        let mut there = there.clone();
        for (name, addresses) in &universe.names {
            there.names.entry(name.clone()).or_insert_with(|| addresses.clone());
        }
        there
    });
    let worlds = there.iter().map(|there| (there, false));
    let worlds: Vec<(&Objects, bool)> =
        worlds.chain(universe.clusters.iter().filter(|_| anybody).map(|cluster| (cluster, true))).collect();
    // Shares are fixed beforehand, so that it does not matter which is done first.
    let made_up = universe.clusters.len() as u64;
    let own = if there.is_some() { work.share(2) } else { Work::new(0) };
    let each = work.share(made_up);
    let compared: Result<Vec<(Compared, bool)>, Box<Counterexample>> = worlds
        .into_par_iter()
        .map(|(cluster, made_up)| {
            let (before, after) = (with(cluster, before), with(cluster, after));
            let share = if made_up { each.clone() } else { own.clone() };
            let compared = compare_within(&before, &after, &Options::default(), differs, share);
            compared.map(|compared| (compared, made_up)).map_err(|differing| {
                let Differing { flow, before: one, after: other } = *differing;
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

/// A connection in words. Of pods that are made up, the labels are told, not the names.
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
