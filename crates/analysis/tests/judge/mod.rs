//! The plain evaluator as the judge of whatever is symbolic: every pair of endpoints, every place on the line of traffic
//! that some set begins or ends at.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::collections::BTreeSet;
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
    let mut cells = Cells::new(cuts.line().clone());
    let verdicts = Verdicts::new(snapshot, options);
    let verdict = |flow: &Flow| match ask {
        Ask::Plainly => evaluate(snapshot, flow, options).verdict,
        Ask::Fast => verdicts.verdict(flow),
    };
    let mut asked = 0;
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
                for place in places(&cells) {
                    let traffic = cells.traffics.line().traffic(place);
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
            about = cells.traffics.or(about, reason.about);
        }
        assert_eq!(about, palisade_analysis::reach::traffic_set::Traffics::ALL);
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
    let mut places = BTreeSet::new();
    for at in 0..cells.traffics.len() {
        for (first, last) in cells.traffics.set(palisade_analysis::reach::traffic_set::TrafficId(at)).pieces()
        {
            places.extend([*first, *last]);
            places.extend(first.checked_sub(1));
            places.insert(last + 1);
            places.insert(first + 1);
        }
    }
    // Places that stand for no traffic: IGMP has 257, and sports are for protocols with ports.
    let line = cells.traffics.line();
    // Nobody connects to port 0.
    places.retain(|place| {
        let traffic = line.traffic(*place);
        line.place(traffic, false) == *place && !(traffic.protocol.has_ports() && traffic.port == 0)
    });
    places
}
