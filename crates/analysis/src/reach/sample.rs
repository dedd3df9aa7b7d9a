//! Somebody who stands for a class, for answers that show one connection.

use std::net::IpAddr;

use palisade_model::address::{Family, next};
use palisade_model::flow::{Party, Who};

use super::Reach;
use super::cuts::Cuts;
use super::decisions::somewhere;
use super::groups::Whose;

impl Reach<'_> {
    /// Somebody of a class; another than this one, if there is another.
    pub fn sample(&self, class: u32, but: Option<Party>, cuts: &Cuts) -> Party {
        let snapshot = self.snapshot();
        if self.outside.contains(&class) {
            let at = (class - self.outside.start) as usize;
            let (first, last) = cuts.interval(self.family(), at);
            let known = somewhere(self.family());
            let known = Some(known).filter(|known| first <= *known && *known <= last);
            let tried = [known, next(first).filter(|next| *next <= last), Some(first), Some(last)];
            let free = |address: &IpAddr| snapshot.who_has(*address) == Who::Outside;
            let address = tried.into_iter().flatten().find(free).unwrap_or(first);
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
