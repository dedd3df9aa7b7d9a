//! Who peers are to a list of rules: addresses by which of the rules' sets they are in.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_engine::delta::{Content, Rule, SetId};
use palisade_engine::view::View;
use palisade_model::address::{next, previous};
use palisade_model::ranges::Ranges;

/// Addresses that rules tell apart, by the sets they are in. Whoever is not there is in none.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    /// Those who are members of a set. They come before ranges, which may hold them too.
    pub(crate) exact: BTreeMap<IpAddr, Vec<SetId>>,
    /// Ranges of addresses that do not overlap.
    pub(crate) ranges: Vec<(IpAddr, IpAddr, Vec<SetId>)>,
}

/// The sets that rules name at their other end.
pub(crate) fn named(rules: &[&Rule]) -> BTreeSet<SetId> {
    rules
        .iter()
        .flat_map(|rule| rule.sets().filter(|set| *set != rule.subject || names(rule, *set)))
        .collect()
}

fn names(rule: &Rule, set: SetId) -> bool {
    rule.peers.iter().flatten().any(|peer| *peer == set) || rule.destination == Some(set)
}

impl Peers {
    /// Those that these sets tell apart; `via` is the service that all of them go to, if it is one.
    pub(crate) fn of(view: &View, sets: &BTreeSet<SetId>, via: Option<SetId>) -> Self {
        let mut ranges: Vec<(SetId, &Ranges)> = Vec::new();
        let mut exact: BTreeMap<IpAddr, Vec<SetId>> = BTreeMap::new();
        for (id, set) in sets.iter().filter_map(|id| Some((*id, view.sets().get(id)?))) {
            match &*set.content {
                Content::Addresses(all) => ranges.push((id, all)),
                // What goes to a service is told by the address before translation.
                Content::Service(_) => {}
                Content::Pods(..) | Content::Nodes(_) | Content::Names(_) => {
                    for address in set.members.iter().flat_map(|member| &member.addresses) {
                        let own = exact.entry(*address).or_default();
                        if own.last() != Some(&id) {
                            own.push(id);
                        }
                    }
                }
            }
        }
        for (address, own) in &mut exact {
            own.extend(ranges.iter().filter(|(_, all)| all.contains(*address)).map(|(id, _)| *id));
            own.extend(via);
            own.sort_unstable();
            own.dedup();
        }
        let mut peers = Peers { exact, ranges: cut(&ranges) };
        for (.., own) in &mut peers.ranges {
            own.extend(via);
            own.sort_unstable();
            own.dedup();
        }
        peers
    }
}

/// Ranges cut where one of them begins or ends, with those that hold each piece.
fn cut(sets: &[(SetId, &Ranges)]) -> Vec<(IpAddr, IpAddr, Vec<SetId>)> {
    let mut pieces = Vec::new();
    for v4 in [true, false] {
        let mut starts: BTreeSet<IpAddr> = BTreeSet::new();
        for (first, last) in
            sets.iter().flat_map(|(_, all)| all.iter()).filter(|(first, _)| first.is_ipv4() == v4)
        {
            starts.insert(first);
            starts.extend(next(last));
        }
        let starts: Vec<IpAddr> = starts.into_iter().collect();
        for (at, first) in starts.iter().enumerate() {
            let own: Vec<SetId> =
                sets.iter().filter(|(_, all)| all.contains(*first)).map(|(id, _)| *id).collect();
            if !own.is_empty() {
                let last = starts.get(at + 1).and_then(|next| previous(*next)).unwrap_or_else(|| end(v4));
                pieces.push((*first, last, own));
            }
        }
    }
    pieces
}

fn end(v4: bool) -> IpAddr {
    if v4 { IpAddr::from([255; 4]) } else { IpAddr::from([255; 16]) }
}
