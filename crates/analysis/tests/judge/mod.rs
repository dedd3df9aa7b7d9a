//! The plain evaluator as the judge of whatever is symbolic: every pair of endpoints, every place on the line of traffic
//! that some set begins or ends at.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_analysis::reach::Reach;
use palisade_analysis::reach::cells::{CellId, Cells};
use palisade_analysis::reach::cuts::Cuts;
use palisade_model::address::Family;
use palisade_model::evaluate::evaluate;
use palisade_model::flow::{Flow, Party, Who};
use palisade_model::options::Options;
use palisade_model::policy::Direction;
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::Verdict;
use palisade_model::traffic::Protocol;
use palisade_model::traffic_set::TrafficSpace;
use palisade_model::verdicts::Verdicts;

/// How thoroughly to ask.
#[derive(Clone, Copy)]
pub enum Ask {
    /// The evaluator itself.
    Plainly,
    /// The fast verdicts, which are held to the evaluator elsewhere.
    Fast,
}

/// One end: who, its class, and the address it uses.
type End = (Who, u32, Option<IpAddr>);

/// Compares every pair, and says how many connections that were.
pub fn agrees(snapshot: &Snapshot, options: &Options, ask: Ask) -> usize {
    let cuts = Cuts::of([snapshot]);
    let mut cells = Cells::new(cuts.space().clone());
    let verdicts = Verdicts::new(snapshot, options);
    let verdict = |flow: &Flow| match ask {
        Ask::Plainly => evaluate(snapshot, flow, options).verdict,
        Ask::Fast => verdicts.verdict(flow),
    };
    let mut asked = 0;
    // New sets may have new edges.
    let (mut known, mut edges) = (0, BTreeSet::new());
    for family in [Family::V4, Family::V6] {
        let reach = Reach::new(snapshot, options, family, &cuts, &mut cells);
        let ends = ends(&reach, &cuts);
        for source in &ends {
            for destination in &ends {
                // What addresses outside do among themselves is not the cluster's business.
                if source.0 == Who::Outside && destination.0 == Who::Outside {
                    continue;
                }
                // Without any address there is no family to be in.
                if source.2.is_none() && destination.2.is_none() && family == Family::V6 {
                    continue;
                }
                let cell = match (source.0, destination.0) {
                    (Who::Outside, _) | (_, Who::Outside) => reach.cell(source.1, destination.1, &mut cells),
                    // By another address somebody is still who it is.
                    (from, to) if reach.is_itself(from, to) => CellId::ALL,
                    (from, to) if reach.is_own_node(from, to) => {
                        reach.side(Direction::Egress, source.1, destination.1)
                    }
                    _ => reach.cell(source.1, destination.1, &mut cells),
                };
                let cell = cells.get(cell);
                let (allow, reject) = (cells.traffics.set(cell.allow), cells.traffics.set(cell.reject));
                if cells.traffics.len() != known {
                    (known, edges) = (cells.traffics.len(), places(&cells));
                }
                for place in edges.iter().copied() {
                    let traffic = cells.traffics.space().traffic(place);
                    // Neighbour discovery is no connection between two endpoints.
                    if family == Family::V6 && matches!(traffic.icmp, Some((133..=137, _))) {
                        continue;
                    }
                    let party = |end: &End| Party { who: end.0, address: end.2 };
                    let flow =
                        Flow { source: party(source), destination: party(destination), traffic, via: None };
                    let said = match (allow.contains(place), reject.contains(place)) {
                        (true, false) => Verdict::Allow,
                        (false, true) => Verdict::Reject,
                        (false, false) => Verdict::Deny,
                        (true, true) => panic!("allowed and rejected: {flow:?}"),
                    };
                    let plain = verdict(&flow);
                    if said != plain {
                        let all = evaluate(snapshot, &flow, options);
                        panic!("{said:?} is {plain:?}, {family}\n{all:#?}");
                    }
                    asked += 1;
                }
                reasons_hold(&reach, &mut cells, source, destination);
            }
        }
    }
    asked
}

/// What was decided is all traffic, each part by one.
fn reasons_hold(reach: &Reach<'_>, cells: &mut Cells, source: &End, destination: &End) {
    for (direction, own, peer) in
        [(Direction::Egress, source, destination), (Direction::Ingress, destination, source)]
    {
        let mut about = cells.traffics.intern(Default::default());
        for reason in reach.reasons(direction, own.1, peer.1, cells) {
            about = cells.traffics.union(about, reason.about);
        }
        assert_eq!(about, palisade_analysis::reach::traffics::Traffics::ALL);
    }
}

pub fn ends(reach: &Reach<'_>, cuts: &Cuts) -> Vec<End> {
    let snapshot = reach.snapshot();
    let mut ends: Vec<End> = Vec::new();
    let pods = (0..snapshot.pods().len()).map(Who::Pod);
    for who in pods.chain((0..snapshot.nodes().len()).map(Who::Node)) {
        ends.extend(reach.classes_of(who).map(|(class, address)| (who, class, address)));
    }
    let hosts: BTreeSet<IpAddr> =
        snapshot.pods().iter().flat_map(|pod| pod.host_addresses.iter().copied()).collect();
    for (interval, class) in reach.outside().enumerate() {
        let (first, last) = cuts.interval(reach.family(), interval);
        for address in BTreeSet::from([first, last]) {
            // The address of a pod's own node is not outside to that pod.
            if !hosts.contains(&address) {
                ends.push((Who::Outside, class, Some(address)));
            }
        }
    }
    ends
}

/// Where some set begins, and one before: every stretch that sets tell apart has one of them in it.
pub fn places(cells: &Cells) -> BTreeSet<u32> {
    // How many sets have an edge at a place, or beside it.
    let mut edges: BTreeMap<u32, usize> = BTreeMap::new();
    for at in 0..cells.traffics.len() {
        for (first, last) in cells.traffics.set(palisade_analysis::reach::traffics::TrafficId(at)).intervals()
        {
            let beside = [Some(*first), Some(*last), first.checked_sub(1), Some(last + 1), Some(first + 1)];
            beside.into_iter().flatten().for_each(|place| *edges.entry(place).or_default() += 1);
        }
    }
    let mut places = without_like_types(&edges, cells.traffics.space());
    // Places that stand for no traffic: IGMP has 257, and sports are for protocols with ports.
    let space = cells.traffics.space();
    // Nobody connects to port 0.
    places.retain(|place| {
        let traffic = space.traffic(*place);
        space.offset(traffic, false) == *place && !(traffic.protocol.has_ports() && traffic.port == 0)
    });
    places
}

/// The places but those of ICMP types that have the same edges as the types before and after: a code of every type has an edge at each
/// of 256 types, and no rule tells most of them from their neighbours.
fn without_like_types(edges: &BTreeMap<u32, usize>, space: &TrafficSpace) -> BTreeSet<u32> {
    let icmp =
        |place: u32| space.traffic(place).icmp.filter(|_| space.traffic(place).protocol == Protocol::Icmp);
    let mut of_type: BTreeMap<u8, Vec<(Option<u8>, usize)>> = BTreeMap::new();
    for (place, count) in edges {
        if let Some((kind, code)) = icmp(*place) {
            of_type.entry(kind).or_default().push((code, *count));
        }
    }
    let same =
        |one: u8, other: Option<u8>| other.is_some_and(|other| of_type.get(&one) == of_type.get(&other));
    let is_like = |kind: u8| same(kind, kind.checked_sub(1)) && same(kind, kind.checked_add(1));
    edges.keys().copied().filter(|place| icmp(*place).is_none_or(|(kind, _)| !is_like(kind))).collect()
}
