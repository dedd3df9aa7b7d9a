//! Who is meant by an end of a query, by class.

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_model::address::Family;
use palisade_model::flow::{Party, Who};
use palisade_model::snapshot::Snapshot;

use super::Ends;
use crate::reach::cuts::Cuts;
use crate::reach::{Reach, first_address};

/// The members of each class.
pub(super) type Members = BTreeMap<u32, Vec<Party>>;

/// Who is meant, over the family of the reach. An address that a pod or a node has is that pod or node; addresses that are
/// told apart from others only because pods and nodes have them are not outside.
pub(super) fn members(reach: &Reach<'_>, ends: &Ends, cuts: &Cuts) -> Members {
    let snapshot = reach.snapshot();
    let mut members = Members::new();
    let mut add = |class: Option<u32>, who: Who, address: Option<IpAddr>| {
        if let Some(class) = class {
            members.entry(class).or_default().push(Party { who, address });
        }
    };
    match ends {
        Ends::Pods { namespace, name, selector } => {
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
        Ends::Node(name) => {
            if let Some(node) = snapshot.node(name) {
                for (class, address) in reach.classes_of(Who::Node(node)) {
                    add(Some(class), Who::Node(node), address);
                }
            }
        }
        Ends::Internet => {
            for class in reach.outside() {
                let (first, last) = cuts.interval(reach.family(), (class - reach.outside().start) as usize);
                if let Some(address) = nobodys(snapshot, first, last) {
                    add(Some(class), Who::Outside, Some(address));
                }
            }
        }
        Ends::Addresses(first, last) if Family::of(*first) != reach.family() || first > last => {}
        Ends::Addresses(only, last) if only == last && snapshot.who_has(*only) != Who::Outside => {
            let who = snapshot.who_has(*only);
            // Whoever has several addresses is, by each, what that address makes of it.
            let by = |address: &Option<IpAddr>| {
                address.is_some_and(|own| cuts.interval_of(own) == cuts.interval_of(*only))
            };
            let class = reach.classes_of(who).find(|(_, address)| by(address)).map(|(class, _)| class);
            add(class.or(reach.class(who)), who, Some(*only));
        }
        Ends::Addresses(first, last) => {
            for class in reach.of_address(*first, cuts)..=reach.of_address(*last, cuts) {
                let (start, end) = cuts.interval(reach.family(), (class - reach.outside().start) as usize);
                if let Some(address) = nobodys(snapshot, start.max(*first), end.min(*last)) {
                    add(Some(class), Who::Outside, Some(address));
                }
            }
        }
    }
    members
}

/// The first address that neither a pod nor a node has. Every address that one has is looked at once, at most.
fn nobodys(snapshot: &Snapshot, first: IpAddr, last: IpAddr) -> Option<IpAddr> {
    first_address(first, last, |address| snapshot.who_has(*address) == Who::Outside)
}
