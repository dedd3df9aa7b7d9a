//! Programs of two nodes, walked by the packets of all connections between all endpoints and held against the plain evaluator.

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_model::evaluate::evaluate;
use palisade_model::flow::{Flow, Who};
use palisade_model::matching::Context;
use palisade_model::options::Options;
use palisade_model::policy::Direction;
use palisade_model::snapshot::{Objects, Snapshot};
use palisade_model::trace::Verdict;
use palisade_model::traffic::{Protocol, Traffic};
use palisade_nftables::program::Program;

use crate::packets::{home, hook, one_way, packet, said};
use crate::written;

/// The nodes that programs are compiled for.
pub const NODES: [&str; 2] = ["n0", "n1"];

/// Returns the objects of manifests without errors.
pub fn objects(text: &str) -> Objects {
    let (objects, found) = written::loaded(text);
    // A policy with an error would be missing; warnings do not matter here.
    let wrong: Vec<_> = found.iter().filter(|one| one.is_error()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}\n{text}");
    objects
}

/// Fails where a program disagrees with the evaluator. Returns the number of packets, and of those that are refused.
pub fn agree(snapshot: &Snapshot, programs: [&Program; 2], what: &str) -> (usize, usize) {
    let options = Options::default();
    let context = Context { snapshot, options };
    let mut claims: BTreeMap<IpAddr, usize> = BTreeMap::new();
    for address in snapshot.pods().iter().flat_map(|pod| &pod.addresses) {
        *claims.entry(*address).or_default() += 1;
    }
    let mut ends: Vec<(Who, IpAddr)> = Vec::new();
    for (at, pod) in snapshot.pods().iter().enumerate() {
        ends.extend(pod.addresses.iter().filter(|own| claims[*own] == 1).map(|own| (Who::Pod(at), *own)));
    }
    for (at, node) in snapshot.nodes().iter().enumerate() {
        ends.extend(node.addresses.iter().map(|own| (Who::Node(at), *own)));
    }
    ends.extend(
        ["203.0.113.7", "10.0.0.3", "fd00::3", "2001:db8::7"]
            .map(|text| (Who::Outside, text.parse().unwrap())),
    );
    ends.retain(|(who, address)| *who != Who::Outside || !claims.contains_key(address));
    let traffic = [
        Traffic::new(Protocol::Tcp, 80),
        Traffic::new(Protocol::Tcp, 81),
        Traffic::new(Protocol::Udp, 81),
        Traffic::new(Protocol::Icmp, 0),
        Traffic { icmp: Some((13, Some(1))), ..Traffic::new(Protocol::Icmp, 0) },
    ];
    let ways =
        [Direction::Egress, Direction::Ingress].map(|way| programs.map(|program| one_way(program, way)));
    let (mut checked, mut denied) = (0, 0);
    for (source, from) in &ends {
        for (destination, to) in &ends {
            if source == destination || from.is_ipv4() != to.is_ipv4() {
                continue;
            }
            let vias =
                (0..snapshot.services().len()).map(Some).filter(|_| matches!(destination, Who::Pod(_)));
            for via in [None].into_iter().chain(vias) {
                for traffic in &traffic[..if via.is_some() { 1 } else { 4 }] {
                    let flow = snapshot.flow((*source, Some(*from)), (*destination, Some(*to)), *traffic);
                    let flow = Flow { via, ..flow };
                    let Some(packet) = packet(snapshot, &flow) else { continue };
                    let plain = evaluate(snapshot, &flow, &options);
                    for ((direction, side), programs) in
                        [(Direction::Egress, &plain.egress), (Direction::Ingress, &plain.ingress)]
                            .into_iter()
                            .zip(&ways)
                    {
                        let (own, _) = Context::ends(&flow, direction);
                        let Some(node) = home(snapshot, own, &NODES) else { continue };
                        let Some(hook) = hook(&context, &flow, direction, NODES[node]) else { continue };
                        let walked = programs[node].walk(hook, &packet).unwrap();
                        let expected = said(side.verdict);
                        assert_eq!(
                            walked.verdict, expected,
                            "{what}: {direction} at {} {hook:?}: {packet:?}\n{side:#?}\n{}",
                            NODES[node], programs[node]
                        );
                        checked += 1;
                        denied += usize::from(side.verdict != Verdict::Allow);
                    }
                }
            }
        }
    }
    (checked, denied)
}
