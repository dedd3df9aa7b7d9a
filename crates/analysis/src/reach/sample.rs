//! Sample endpoints of classes, for example connections.

use std::net::IpAddr;

use palisade_model::address::{Family, next};
use palisade_model::flow::{Party, Who};

use super::Reach;
use super::combinations::example_outside_address;
use super::cuts::Cuts;
use super::groups::GroupKind;

/// Returns an address of a range for an example: the documentation address or the second, else the first that is accepted.
/// All addresses that `accepts` refuses may be checked, so it should refuse few.
pub(super) fn example_address(
    first: IpAddr,
    last: IpAddr,
    accepts: impl Fn(&IpAddr) -> bool,
) -> Option<IpAddr> {
    let known =
        Some(example_outside_address(Family::of(first))).filter(|known| first <= *known && *known <= last);
    let second = next(first).filter(|next| *next <= last);
    let found = known.into_iter().chain(second).find(&accepts);
    found.or_else(|| first_address(first, last, accepts))
}

/// Returns the first address of a range that is accepted.
pub(crate) fn first_address(
    first: IpAddr,
    last: IpAddr,
    accepts: impl Fn(&IpAddr) -> bool,
) -> Option<IpAddr> {
    let mut all = std::iter::successors(Some(first), |address| next(*address).filter(|next| *next <= last));
    all.find(accepts)
}

impl Reach<'_> {
    /// Returns an endpoint of a class; another than `but`, if there is one.
    pub fn sample(&self, class: u32, but: Option<Party>, cuts: &Cuts) -> Party {
        let snapshot = self.snapshot();
        if self.outside.contains(&class) {
            let at = (class - self.outside.start) as usize;
            let (first, last) = cuts.interval(self.family(), at);
            let free = |address: &IpAddr| snapshot.who_has(*address) == Who::Outside;
            let address = example_address(first, last, free).unwrap_or(first);
            return Party { who: Who::Outside, address: Some(address) };
        }
        let party = |who: Who, addresses: &[IpAddr]| {
            let own = |address: &&IpAddr| Family::of(**address) == self.family();
            Party { who, address: addresses.iter().find(own).copied() }
        };
        let pod = |at: usize| party(Who::Pod(at), &snapshot.pods()[at].addresses);
        let first = match self.groups.get(self.classes[class as usize].group).kind {
            GroupKind::Pods(sample, _) => Some(pod(sample)),
            GroupKind::Host(Some(node)) => Some(party(Who::Node(node), &snapshot.nodes()[node].addresses)),
            _ => None,
        };
        // Traffic between related endpoints is allowed regardless of policies.
        let far = |party: &Party| {
            but.is_none_or(|but| {
                but.who != party.who
                    && !self.is_own_node(but.who, party.who)
                    && !self.is_own_node(party.who, but.who)
            })
        };
        if let Some(first) = first.filter(far) {
            return first;
        }
        let others = (0..snapshot.pods().len()).filter(|at| self.of_pod(*at) == Some(class)).map(pod);
        let other = others.clone().find(far).or_else(|| others.clone().find(|party| but != Some(*party)));
        other.or(first).unwrap_or(Party { who: Who::Outside, address: None })
    }
}
