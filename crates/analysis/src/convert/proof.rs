//! Whether two sets of policies give the same verdicts: the question before anything converted is printed.
//!
//! Policies tell endpoints apart by labels, namespaces, accounts, addresses and names, and traffic by protocol and port,
//! and by nothing else. So for everything that any policy of either side asks for, there is an endpoint that has it, one
//! that has something else there and one that has nothing ([`universe`]), and every connection between any two of
//! them is asked of both sides, with traffic at every boundary of every range; and so are the endpoints of the world
//! itself. What no policy tells apart is asked about once. Where that would be too much, a part is asked about, evenly
//! spread, and the proof says so.

mod mentions;
mod universe;

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use palisade_model::address::Family;
use palisade_model::flow::{Flow, Party, Who};
use palisade_model::options::Options;
use palisade_model::snapshot::{Objects, Snapshot};
use palisade_model::trace::Verdict;
use palisade_model::traffic::Traffic;
use palisade_model::verdicts::Verdicts;
use rayon::prelude::*;

use mentions::Mentions;
use universe::Universe;

/// As many connections are asked about, unless somebody says otherwise.
pub const MOST_FLOWS: usize = 8_000_000;

/// Both sides say the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proof {
    /// The connections that were asked about.
    pub flows: usize,
    /// Between so many endpoints.
    pub endpoints: usize,
    /// The connections that were left out, because there were too many.
    pub left_out: usize,
    /// Whether there were too many combinations of labels to have an endpoint for each.
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

/// Who is asked about in one cluster.
struct Asked {
    sources: Vec<Party>,
    destinations: Vec<Party>,
    traffic: Vec<Traffic>,
}

// === impl Proof ===

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the same verdicts for {} connections between {} endpoints", self.flows, self.endpoints)?;
        if self.left_out > 0 {
            write!(f, ", of {} that policies could tell apart", self.flows.saturating_add(self.left_out))?;
        }
        if self.bounded {
            f.write_str(", without every combination of labels")?;
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

/// Compares two sides, which differ in their policies, on so many connections at most.
pub fn proven(before: &Objects, after: &Objects, most: usize) -> Result<Proof, Box<Counterexample>> {
    let mentions = Mentions::of([before, after]);
    let universe = Universe::of(&mentions);
    let mut proof = Proof { bounded: universe.bounded, ..Proof::default() };
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
    let outside = |cluster: &Objects| {
        let named = cluster.names.values().flatten().copied();
        universe.addresses.iter().copied().chain(named).collect::<BTreeSet<IpAddr>>()
    };
    let share = most / (universe.clusters.len() + 1);
    let worlds = std::iter::once(before).chain(&universe.clusters);
    for cluster in worlds {
        let sides = [with(cluster, before), with(cluster, after)];
        let asked = Asked::of(&sides[0], &outside(cluster), &universe.traffic);
        asked.compare(&sides, share, &mut proof)?;
    }
    Ok(proof)
}

// === impl Asked ===

impl Asked {
    /// Every sort of endpoint of a cluster, and addresses outside of it.
    fn of(snapshot: &Snapshot, outside: &BTreeSet<IpAddr>, traffic: &[Traffic]) -> Self {
        let mut seen = BTreeSet::new();
        let mut parties = Vec::new();
        for (index, pod) in snapshot.pods().iter().enumerate() {
            // Of pods that no policy can tell apart one is enough.
            let ports = pod.ports.iter().map(|port| (port.name.clone(), port.protocol, port.number));
            let sort = (
                (&pod.namespace, &pod.labels, &pod.account, pod.external, pod.host_network),
                (&pod.node, ports.collect::<Vec<_>>(), pod.addresses.len()),
                // Addresses that blocks tell apart, by those of them they could be told apart from.
                pod.addresses.iter().map(|address| outside.range(..=address).count()).collect::<Vec<_>>(),
            );
            // What is only an address and has none is nobody.
            let nobody = pod.terminated || (pod.host_network || pod.external) && pod.addresses.is_empty();
            if !nobody && seen.insert(sort) {
                parties.extend(addresses(Who::Pod(index), &pod.addresses));
            }
        }
        for (index, node) in
            snapshot.nodes().iter().enumerate().filter(|(_, node)| !node.addresses.is_empty())
        {
            parties.extend(addresses(Who::Node(index), &node.addresses));
        }
        let strangers = outside.iter().map(|address| (snapshot.who_has(*address), Some(*address)));
        parties.extend(
            strangers.filter(|(who, _)| *who == Who::Outside).map(|(who, address)| Party { who, address }),
        );
        // Ports with names matter where a connection goes to.
        let names = |party: &Party| matches!(party.who, Who::Pod(pod) if universe::is_only_receiving(&snapshot.pods()[pod]));
        let sources = parties.iter().copied().filter(|party| !names(party)).collect();
        Asked { sources, destinations: parties, traffic: traffic.to_vec() }
    }

    fn compare(
        &self,
        sides: &[Snapshot; 2],
        most: usize,
        proof: &mut Proof,
    ) -> Result<(), Box<Counterexample>> {
        let options = Options::default();
        let [before, after] = [Verdicts::new(&sides[0], &options), Verdicts::new(&sides[1], &options)];
        let width = self.destinations.len() * self.traffic.len();
        let all = self.sources.len() * width;
        // Evenly thinned: a step without a factor in common with a row goes through all of its columns.
        let least = all.div_ceil(most.max(1)).max(1);
        let step = (least..).find(|step| common(*step, width) == 1).unwrap_or(1);
        let results: Vec<Result<usize, Box<Counterexample>>> = (0..self.sources.len())
            .into_par_iter()
            .map(|at| {
                let first = (step - at * width % step) % step;
                let mut asked = 0;
                for index in (first..width).step_by(step) {
                    let source = self.sources[at];
                    let destination = self.destinations[index / self.traffic.len()];
                    let Some(flow) = flow(source, destination, self.traffic[index % self.traffic.len()])
                    else {
                        continue;
                    };
                    asked += 1;
                    let verdicts = (before.verdict(&flow), after.verdict(&flow));
                    if verdicts.0 != verdicts.1 {
                        return Err(Box::new(Counterexample {
                            flow: describe(&sides[0], &flow),
                            before: verdicts.0,
                            after: verdicts.1,
                        }));
                    }
                }
                Ok(asked)
            })
            .collect();
        for result in results {
            proof.flows += result?;
        }
        proof.endpoints += self.destinations.len();
        proof.left_out += all - all.div_ceil(step);
        Ok(())
    }
}

/// The greatest factor in common.
fn common(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common(b, a % b) }
}

/// The ways to be at an end of a connection: by each address, or by none.
fn addresses(who: Who, addresses: &[IpAddr]) -> Vec<Party> {
    match addresses {
        [] => vec![Party { who, address: None }],
        all => all.iter().map(|address| Party { who, address: Some(*address) }).collect(),
    }
}

/// A connection, unless nobody is concerned or the ends have no address family in common.
fn flow(source: Party, destination: Party, traffic: Traffic) -> Option<Flow> {
    let families = (source.address.map(Family::of), destination.address.map(Family::of));
    let apart = matches!(families, (Some(a), Some(b)) if a != b);
    let strangers = source.who == Who::Outside && destination.who == Who::Outside;
    (!apart && !strangers).then_some(Flow { source, destination, traffic, via: None })
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
