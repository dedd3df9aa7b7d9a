//! Endpoints of an end of a query, by class.

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_model::address::Family;
use palisade_model::flow::{Party, Who};
use palisade_model::snapshot::Snapshot;

use super::QueryEndpoints;
use crate::reach::cuts::Cuts;
use crate::reach::{Reach, first_address};

/// Endpoints by class.
pub(super) type PartiesByClass = BTreeMap<u32, Vec<Party>>;

/// Returns the endpoints that an end selects, over the family of the reach. An address of a pod or a node is that pod or node,
/// and never outside.
pub(super) fn members(reach: &Reach<'_>, ends: &QueryEndpoints, cuts: &Cuts) -> PartiesByClass {
    let snapshot = reach.snapshot();
    let mut members = PartiesByClass::new();
    let mut add = |class: Option<u32>, who: Who, address: Option<IpAddr>| {
        if let Some(class) = class {
            members.entry(class).or_default().push(Party { who, address });
        }
    };
    match ends {
        QueryEndpoints::Pods { namespace, name, selector } => {
            for (at, pod) in snapshot.pods().iter().enumerate() {
                let named = || {
                    name.matches(&pod.name)
                        || snapshot.makers(pod).iter().any(|maker| name.matches(&maker.name))
                };
                let plain = name.is_open() && name.matches("") && pod.external;
                if !pod.terminated
                    && !plain
                    && namespace.matches(&pod.namespace)
                    && selector.matches(&pod.labels)
                    && named()
                {
                    for (class, address) in reach.classes_of(Who::Pod(at)) {
                        add(Some(class), Who::Pod(at), address);
                    }
                }
            }
        }
        QueryEndpoints::Node(name) => {
            if let Some(node) = snapshot.node(name) {
                for (class, address) in reach.classes_of(Who::Node(node)) {
                    add(Some(class), Who::Node(node), address);
                }
            }
        }
        QueryEndpoints::Internet => {
            for class in reach.outside() {
                let (first, last) = cuts.interval(reach.family(), (class - reach.outside().start) as usize);
                if let Some(address) = first_free_address(snapshot, first, last) {
                    add(Some(class), Who::Outside, Some(address));
                }
            }
        }
        QueryEndpoints::Addresses(first, last) if Family::of(*first) != reach.family() || first > last => {}
        QueryEndpoints::Addresses(only, last) if only == last && snapshot.who_has(*only) != Who::Outside => {
            let who = snapshot.who_has(*only);
            // An endpoint with several addresses may have another class by each.
            let by = |address: &Option<IpAddr>| {
                address.is_some_and(|own| cuts.interval_of(own) == cuts.interval_of(*only))
            };
            let class = reach.classes_of(who).find(|(_, address)| by(address)).map(|(class, _)| class);
            add(class.or(reach.class(who)), who, Some(*only));
        }
        QueryEndpoints::Addresses(first, last) => {
            for class in reach.of_address(*first, cuts)..=reach.of_address(*last, cuts) {
                let (start, end) = cuts.interval(reach.family(), (class - reach.outside().start) as usize);
                if let Some(address) = first_free_address(snapshot, start.max(*first), end.min(*last)) {
                    add(Some(class), Who::Outside, Some(address));
                }
            }
        }
    }
    members
}

/// Returns the first address that neither a pod nor a node has. Checks each address of pods and nodes at most once.
fn first_free_address(snapshot: &Snapshot, first: IpAddr, last: IpAddr) -> Option<IpAddr> {
    first_address(first, last, |address| snapshot.who_has(*address) == Who::Outside)
}
