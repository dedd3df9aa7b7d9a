//! Evaluation of a query for each pair of classes.

use std::collections::{HashMap, HashSet};

use palisade_model::address::Family;
use palisade_model::flow::{Party, Who};
use palisade_model::policy::{Action, Direction};

use super::QueryAnswer;
use super::members::PartiesByClass;
use crate::caveats::is_conditional;
use crate::reach::cells::{CellId, Cells};
use crate::reach::{Decider, Reach, RuleAt};

/// Work of a pair of classes, or of endpoints.
const PAIR_WORK: u64 = 200;

/// Evaluator of pairs of classes, over one address family.
pub(super) struct PairEvaluator<'r, 's> {
    reach: &'r Reach<'s>,
    /// Cache: whether a class has rules with layer-7 conditions, in a direction.
    conditional: HashMap<(Direction, u32), bool>,
}

// === impl PairEvaluator ===

impl<'r, 's> PairEvaluator<'r, 's> {
    pub fn new(reach: &'r Reach<'s>) -> Self {
        PairEvaluator { reach, conditional: HashMap::new() }
    }

    /// Adds every pair of a source and a destination to the answer.
    pub fn evaluate(
        &mut self,
        sources: &PartiesByClass,
        destinations: &PartiesByClass,
        cells: &mut Cells,
        answer: &mut QueryAnswer,
    ) {
        let reach = self.reach;
        let outside = |class: u32| reach.outside().contains(&class);
        for (from, source) in sources {
            for (to, destination) in destinations {
                // Traffic between outside addresses is not the cluster's.
                if outside(*from) && outside(*to) {
                    continue;
                }
                if !reach.is_known(*from) || !reach.is_known(*to) || cells.work().is_spent() {
                    answer.left_out += 1;
                    continue;
                }
                cells.work().take(PAIR_WORK);
                // A node and its own pods are exempt from policies: each pair of endpoints is evaluated.
                if !outside(*from) && !outside(*to) && !reach.is_pods(*from) {
                    let pairs =
                        source.iter().flat_map(|one| destination.iter().map(move |other| (*one, *other)));
                    for ends in pairs.filter(|ends| is_pair(reach, ends)) {
                        if cells.work().is_spent() {
                            answer.left_out += 1;
                            break;
                        }
                        cells.work().take(PAIR_WORK);
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

    /// Returns two endpoints that represent all pairs of two classes, and the number of pairs.
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
        // A pair of one class needs two endpoints of it; with an address, if that is required.
        let first = sources.iter().take(2).chain(sources.iter().filter(|one| one.address.is_some()).take(2));
        let mut two = first.flat_map(|one| destinations.iter().map(move |other| (*one, *other)));
        two.find(|ends| is_pair(self.reach, ends)).map(|ends| (ends, count))
    }

    /// Whether an endpoint was counted as a pair with itself.
    fn is_counted(&self, one: &Party) -> bool {
        one.address.is_some() || self.reach.family() == Family::V4
    }

    /// Adds the traffic of a pair that is allowed on a layer-7 condition, on the given sides.
    fn conditions(
        &mut self,
        (from, to): (u32, u32),
        sides: [(Direction, bool); 2],
        cell: CellId,
        ends: (Party, Party),
        cells: &mut Cells,
        answer: &mut QueryAnswer,
    ) {
        let reach = self.reach;
        let rule = |at: RuleAt| &reach.snapshot().policies()[at.policy].rules[at.rule];
        let allowed = cells.get(cell).allow;
        for (direction, _) in sides.into_iter().filter(|(_, queried)| *queried) {
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

/// Whether two endpoints can connect over a family. A pod never pairs with itself, except for a template that stands in for
/// several; two without any address, which could have either family, count once.
fn is_pair(reach: &Reach<'_>, (one, other): &(Party, Party)) -> bool {
    let nowhere = one.address.is_none() && other.address.is_none();
    (one.who != other.who || stands_for_several(reach, one)) && !(nowhere && reach.family() == Family::V6)
}

/// Whether a party represents several endpoints: outside addresses, or pods of a template.
fn stands_for_several(reach: &Reach<'_>, party: &Party) -> bool {
    match party.who {
        Who::Outside => true,
        Who::Pod(pod) => reach.snapshot().pods()[pod].stand_in.is_some(),
        Who::Node(_) => false,
    }
}
