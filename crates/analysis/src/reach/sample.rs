//! Somebody who stands for a class, for answers that show one connection.

use std::net::IpAddr;

use palisade_model::address::{Family, next};
use palisade_model::flow::{Party, Who};

use super::Reach;
use super::cuts::Cuts;
use super::decisions::somewhere;
use super::groups::Whose;

/// An address of a range, such as people would write: one that they know to be outside, or the second. Else the first that will do.
/// Whoever says what will do refuses few: all of those may be looked at.
pub(super) fn plain_address(
    first: IpAddr,
    last: IpAddr,
    will_do: impl Fn(&IpAddr) -> bool,
) -> Option<IpAddr> {
    let known = Some(somewhere(Family::of(first))).filter(|known| first <= *known && *known <= last);
    let second = next(first).filter(|next| *next <= last);
    let found = known.into_iter().chain(second).find(&will_do);
    found.or_else(|| first_address(first, last, will_do))
}

/// The first address of a range that will do.
pub(crate) fn first_address(
    first: IpAddr,
    last: IpAddr,
    will_do: impl Fn(&IpAddr) -> bool,
) -> Option<IpAddr> {
    let mut all = std::iter::successors(Some(first), |address| next(*address).filter(|next| *next <= last));
    all.find(will_do)
}

impl Reach<'_> {
    /// Somebody of a class; another than this one, if there is another.
    pub fn sample(&self, class: u32, but: Option<Party>, cuts: &Cuts) -> Party {
        let snapshot = self.snapshot();
        if self.outside.contains(&class) {
            let at = (class - self.outside.start) as usize;
            let (first, last) = cuts.interval(self.family(), at);
            let free = |address: &IpAddr| snapshot.who_has(*address) == Who::Outside;
            let address = plain_address(first, last, free).unwrap_or(first);
            return Party { who: Who::Outside, address: Some(address) };
        }
        let party = |who: Who, addresses: &[IpAddr]| {
            let own = |address: &&IpAddr| Family::of(**address) == self.family();
            Party { who, address: addresses.iter().find(own).copied() }
        };
        let pod = |at: usize| party(Who::Pod(at), &snapshot.pods()[at].addresses);
        let first = match self.groups.get(self.classes[class as usize].group).whose {
            Whose::Pods(sample, _) => Some(pod(sample)),
            Whose::Host(Some(node)) => Some(party(Who::Node(node), &snapshot.nodes()[node].addresses)),
            _ => None,
        };
        // One that is near may be let through whatever policies say.
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
