//! What the members of two ends may do, class by class.

use std::collections::{HashMap, HashSet};

use palisade_model::address::Family;
use palisade_model::flow::{Party, Who};
use palisade_model::policy::{Action, Direction};

use super::Answer;
use super::members::Members;
use crate::caveats::is_conditional;
use crate::reach::cells::{CellId, Cells};
use crate::reach::{Decider, Reach, RuleAt};

/// Steps to ask about a pair of classes, or of endpoints.
const PAIR: u64 = 200;

/// Every pair of classes, over a family of addresses.
pub(super) struct Between<'r, 's> {
    reach: &'r Reach<'s>,
    /// Whether a class has rules that allow on condition, in a direction.
    conditional: HashMap<(Direction, u32), bool>,
}

// === impl Between ===

impl<'r, 's> Between<'r, 's> {
    pub fn new(reach: &'r Reach<'s>) -> Self {
        Between { reach, conditional: HashMap::new() }
    }

    /// Asks about every source with every destination.
    pub fn ask(&mut self, sources: &Members, destinations: &Members, cells: &mut Cells, answer: &mut Answer) {
        let reach = self.reach;
        let outside = |class: u32| reach.outside().contains(&class);
        for (from, source) in sources {
            for (to, destination) in destinations {
                // What addresses outside do among themselves is not the cluster's business.
                if outside(*from) && outside(*to) {
                    continue;
                }
                if !reach.is_known(*from) || !reach.is_known(*to) || cells.work().is_spent() {
                    answer.left_out += 1;
                    continue;
                }
                cells.work().take(PAIR);
                // A node and the pods it runs are near: each pair is asked about.
                if !outside(*from) && !outside(*to) && !reach.is_pods(*from) {
                    let pairs =
                        source.iter().flat_map(|one| destination.iter().map(move |other| (*one, *other)));
                    for ends in pairs.filter(|ends| is_pair(reach, ends)) {
                        if cells.work().is_spent() {
                            answer.left_out += 1;
                            break;
                        }
                        cells.work().take(PAIR);
                        let itself = reach.is_itself(ends.0.who, ends.1.who);
                        let own_node = reach.is_own_node(ends.0.who, ends.1.who);
                        let cell = match (itself, own_node) {
                            (true, _) => CellId::ALL,
                            (_, true) => reach.side(Direction::Egress, *from, *to),
                            _ => reach.cell(*from, *to, cells),
                        };
                        answer.add(cell, ends, 1, cells);
                        let sides =
                            [(Direction::Egress, !itself), (Direction::Ingress, !itself && !own_node)];
                        self.conditions((*from, *to), sides, cell, ends, cells, answer);
                    }
                    continue;
                }
                let Some((ends, count)) = self.pairs(source, destination, from == to) else { continue };
                let cell = reach.cell(*from, *to, cells);
                answer.add(cell, ends, count, cells);
                let sides = [(Direction::Egress, true), (Direction::Ingress, true)];
                self.conditions((*from, *to), sides, cell, ends, cells, answer);
            }
        }
    }

    /// Two that stand for all pairs of two classes, and how many these are.
    fn pairs(
        &self,
        sources: &[Party],
        destinations: &[Party],
        same: bool,
    ) -> Option<((Party, Party), usize)> {
        let unaddressed = |parties: &[Party]| parties.iter().filter(|one| one.address.is_none()).count();
        let mut count = sources.len() * destinations.len();
        if self.reach.family() == Family::V6 {
            count -= unaddressed(sources) * unaddressed(destinations);
        }
        if same {
            let own: HashSet<Who> = sources.iter().map(|one| one.who).collect();
            let both = destinations.iter().filter(|one| own.contains(&one.who));
            let alone = both.filter(|one| !stands_for_several(self.reach, one));
            count -= alone.filter(|one| self.is_counted(one)).count();
        }
        // Where a class meets itself, two of it stand for it; with an address, if it takes one.
        let first = sources.iter().take(2).chain(sources.iter().filter(|one| one.address.is_some()).take(2));
        let mut two = first.flat_map(|one| destinations.iter().map(move |other| (*one, *other)));
        two.find(|ends| is_pair(self.reach, ends)).map(|ends| (ends, count))
    }

    /// Whether somebody and itself were counted as a pair of members.
    fn is_counted(&self, one: &Party) -> bool {
        one.address.is_some() || self.reach.family() == Family::V4
    }

    /// Tells the answer what of what a pair may do is allowed on condition, on the sides that are asked.
    fn conditions(
        &mut self,
        (from, to): (u32, u32),
        sides: [(Direction, bool); 2],
        cell: CellId,
        ends: (Party, Party),
        cells: &mut Cells,
        answer: &mut Answer,
    ) {
        let reach = self.reach;
        let rule = |at: RuleAt| &reach.snapshot().policies()[at.policy].rules[at.rule];
        let allowed = cells.get(cell).allow;
        for (direction, _) in sides.into_iter().filter(|(_, asked)| *asked) {
            let (class, peer) = match direction {
                Direction::Egress => (from, to),
                Direction::Ingress => (to, from),
            };
            let known = self.conditional.entry((direction, class));
            if !*known.or_insert_with(|| reach.rules(direction, class).any(|at| is_conditional(rule(at)))) {
                continue;
            }
            for reason in reach.reasons(direction, class, peer, cells) {
                let allows = matches!(reason.decider, Decider::Rule(_, Action::Allow));
                if allows && reason.rule.is_some_and(|at| is_conditional(rule(at))) {
                    let part = cells.traffics.intersection(reason.about, allowed);
                    answer.add_conditional(part, ends, cells);
                }
            }
        }
    }
}

/// Whether two can meet over a family. A wildcard never stands for a pod and itself, but for two of those that a template
/// stands for; and two without any address, which could have either, are asked about once.
fn is_pair(reach: &Reach<'_>, (one, other): &(Party, Party)) -> bool {
    let nowhere = one.address.is_none() && other.address.is_none();
    (one.who != other.who || stands_for_several(reach, one)) && !(nowhere && reach.family() == Family::V6)
}

/// Whether somebody may be more than one: an address that stands for others, or a template.
fn stands_for_several(reach: &Reach<'_>, party: &Party) -> bool {
    match party.who {
        Who::Outside => true,
        Who::Pod(pod) => reach.snapshot().pods()[pod].stand_in.is_some(),
        Who::Node(_) => false,
    }
}
