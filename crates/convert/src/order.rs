//! Order: where policies stand, and how rules that are asked one after the other stay in their order elsewhere.
//!
//! Policies of one place take turns by the index of their rules, subjects may differ from rule to rule, and objects of the
//! target hold so many rules and one subject. So rules are put in the order in which they are asked, cut into
//! [`Piece`]s that one object can hold, and each piece gets a number of its own ([`super::numbers`]). Where nothing of this is
//! needed, one policy is one piece and keeps its number.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use palisade_analysis::disjoint::are_disjoint;
use palisade_dialects::written::Written;
use palisade_model::policy::{Dialect, Direction, Placement, Policy, Priority, Rule, Subject};
use palisade_model::snapshot::Stage;

use super::conversion::{Conversion, Origin};
use super::numbers::Wanted;
use super::speech::{Said, Speech};
use super::{codes, ends, union};

/// Subjects that are compared with others, in all.
const MOST_COMPARED: usize = 20_000_000;
/// Crossings that are named.
const MOST_CROSSINGS: usize = 10_000;

/// Where a policy stands: its tier, and its priority there. Those that add up stand where tier 252 would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub tier: u8,
    pub priority: Priority,
}

/// The words of a target, as far as rules in order need them.
pub(super) trait Tongue {
    /// So many rules of one direction an object can hold.
    const MOST_RULES: usize;
    /// Whether an object has one subject only.
    const ONE_SUBJECT: bool;

    /// Whom an object applies to; what cannot be said is noted.
    fn subjects(
        &self,
        conversion: &Conversion<'_>,
        origin: usize,
        subjects: &[Subject],
        speech: &mut Speech,
    ) -> Vec<Written>;

    /// A rule, as one or more, or as none when it matches nothing; what cannot be said is noted.
    fn rule(
        &self,
        conversion: &Conversion<'_>,
        origin: usize,
        rule: &Rule,
        stage: Stage,
        speech: &mut Speech,
    ) -> Vec<Written>;

    /// A rule that denies everything to everybody; `None` when there are no words for that.
    fn deny_all(&self, direction: Direction) -> Option<Written>;

    /// Whether policies of this dialect that stand at one place may stand at one place here.
    fn may_tie(&self, dialect: Dialect) -> bool;

    /// The number that a policy should have.
    fn wanted(&self, origin: &Origin) -> Wanted;
}

/// A rule in the target's words.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub origin: usize,
    pub direction: Direction,
    pub index: u32,
    pub subjects: Arc<[Subject]>,
    pub words: Vec<Written>,
}

/// What one object holds.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub origin: usize,
    pub subjects: Vec<Written>,
    pub ingress: Vec<Written>,
    pub egress: Vec<Written>,
    /// Whether it denies what no other piece of the policy allows.
    pub isolates: bool,
}

/// Pieces that stand at one place, and where that was before.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub from: Place,
    pub wanted: Wanted,
    pub pieces: Vec<Piece>,
}

// === impl Place ===

impl Place {
    /// Where NetworkPolicies stand.
    pub const UNION: Place = Place { tier: 252, priority: Priority(0.0) };

    pub fn new(tier: u8, priority: f64) -> Self {
        Place { tier, priority: Priority(priority) }
    }

    pub fn stage(self) -> Stage {
        if self.tier <= Stage::LAST_TIER { Stage::Tiers } else { Stage::Baseline }
    }
}

/// Everything that is to be said in rules that are asked in order.
pub(super) fn slots<T: Tongue>(conversion: &Conversion<'_>, tongue: &T, speech: &mut Speech) -> Vec<Slot> {
    let mut levels: BTreeMap<Place, Vec<usize>> = BTreeMap::new();
    for (index, origin) in conversion.origins.iter().enumerate() {
        if let (Some(place), Placement::Tier { .. }) = (origin.place, &origin.policy.placement)
            && !speech.failed.contains(&index)
        {
            levels.entry(place).or_default().push(index);
        }
    }
    let mut slots = Vec::new();
    for (place, level) in levels.range(..Place::UNION) {
        slots.extend(of_level(conversion, tongue, *place, level, speech));
    }
    slots.extend(union::slots(conversion, tongue, speech));
    for (place, level) in levels.range(Place::UNION..) {
        slots.extend(of_level(conversion, tongue, *place, level, speech));
    }
    slots
}

/// The policies of one place.
fn of_level<T: Tongue>(
    conversion: &Conversion<'_>,
    tongue: &T,
    place: Place,
    level: &[usize],
    speech: &mut Speech,
) -> Vec<Slot> {
    let lines: Vec<Vec<Line>> =
        level.iter().map(|origin| lines(conversion, tongue, *origin, place.stage(), speech)).collect();
    let whom = |at: &usize| &conversion.origins[*at].concerned;
    let tied = level
        .iter()
        .enumerate()
        .any(|(at, a)| level[at + 1..].iter().any(|b| !whom(a).are_disjoint(whom(b), &conversion.compared)));
    let wanted = level.first().map_or(Wanted::Next, |first| tongue.wanted(&conversion.origins[*first]));
    let may_tie = level.iter().all(|origin| tongue.may_tie(conversion.origins[*origin].dialect));
    if !tied || may_tie {
        let apart: Vec<Vec<Piece>> =
            lines.iter().map(|lines| pieces(conversion, tongue, lines, speech)).collect();
        // Rules take turns by their index: only one for one do they keep it.
        let one_for_one = |lines: &Vec<Line>| {
            lines.iter().all(|line| line.words.len() == 1)
                && lines.windows(2).all(|pair| pair[0].subjects == pair[1].subjects)
        };
        let subjects =
            |pieces: &Vec<Piece>| pieces.windows(2).all(|pair| pair[0].subjects == pair[1].subjects);
        if level.len() > 1 && lines.iter().all(one_for_one) && apart.iter().all(subjects) {
            return side_by_side(place, wanted, apart);
        }
        if !tied {
            return one_by_one(place, wanted, apart.into_iter().flatten());
        }
    }
    let mut all: Vec<Line> = lines.into_iter().flatten().collect();
    // They are sorted by policy already, which is what is asked next where the index is the same.
    all.sort_by_key(|line| line.index);
    let pieces = pieces(conversion, tongue, &all, speech);
    one_by_one(place, wanted, pieces)
}

/// The rules of a policy in the target's words.
fn lines<T: Tongue>(
    conversion: &Conversion<'_>,
    tongue: &T,
    origin: usize,
    stage: Stage,
    speech: &mut Speech,
) -> Vec<Line> {
    let rules = &conversion.origins[origin].policy.rules;
    let line = |rule: &Rule, speech: &mut Speech| Line {
        origin,
        direction: rule.direction,
        index: rule.index,
        subjects: Arc::clone(&rule.subjects),
        words: tongue.rule(conversion, origin, rule, stage, speech),
    };
    rules.iter().map(|rule| line(rule, speech)).collect()
}

/// Cuts rules, in the order in which they are asked, into what objects can hold.
pub(super) fn pieces<T: Tongue>(
    conversion: &Conversion<'_>,
    tongue: &T,
    lines: &[Line],
    speech: &mut Speech,
) -> Vec<Piece> {
    let of = |direction| segments(lines.iter().filter(move |line| line.direction == direction));
    let (mut ingress, mut egress) = (of(Direction::Ingress), of(Direction::Egress));
    ingress.reverse();
    egress.reverse();
    let mut pieces = Vec::new();
    // The directions do not know of each other: where both have rules for the same pods, one object holds both.
    loop {
        let same = matches!((ingress.last(), egress.last()), (Some(a), Some(b)) if a.is_like(b));
        let waits = |list: &[Segment<'_>], one: &Segment<'_>| list.iter().any(|other| other.is_like(one));
        let (a, b) = match (ingress.pop(), egress.pop()) {
            (None, None) => break,
            (Some(a), Some(b)) if !same => {
                if waits(&ingress, &b) {
                    egress.push(b);
                    (Some(a), None)
                } else {
                    ingress.push(a);
                    (None, Some(b))
                }
            }
            both => both,
        };
        let Some(key) = a.as_ref().or(b.as_ref()) else { break };
        let (origin, whom) = (key.origin, key.subjects);
        let words = |segment: Option<&Segment<'_>>| segment.map(|one| one.words.clone()).unwrap_or_default();
        let (ingress, egress) = (words(a.as_ref()), words(b.as_ref()));
        // Whom it applies to is looked at also where the rules cannot be said: everything is named at once.
        if ingress.is_empty() && egress.is_empty() && !speech.failed.contains(&origin) {
            continue;
        }
        let subjects = tongue.subjects(conversion, origin, whom, speech);
        let groups: Vec<Vec<Written>> = match T::ONE_SUBJECT {
            true => subjects.into_iter().map(|one| vec![one]).collect(),
            false => vec![subjects],
        };
        let rules: usize = ingress.iter().chain(&egress).map(ends::weight).sum();
        if !ends::affords(conversion, groups.len().saturating_mul(rules)) {
            let why = "its rules for each of its subjects are too much to write, with all others".to_owned();
            speech.cannot(&codes::TOO_MUCH, conversion, origin, None, "", why);
            continue;
        }
        // Whoever is in two of them is asked the same rules twice, which changes nothing.
        for subjects in groups {
            let parts = ingress.len().max(egress.len()).div_ceil(T::MOST_RULES);
            let part = |rules: &[Written], at: usize| -> Vec<Written> {
                rules.iter().skip(at.saturating_mul(T::MOST_RULES)).take(T::MOST_RULES).cloned().collect()
            };
            pieces.extend((0..parts).map(|at| Piece {
                origin,
                subjects: subjects.clone(),
                ingress: part(&ingress, at),
                egress: part(&egress, at),
                isolates: false,
            }));
        }
    }
    pieces
}

/// Rules of a policy for the same subjects that nothing comes between.
struct Segment<'l> {
    origin: usize,
    subjects: &'l Arc<[Subject]>,
    words: Vec<Written>,
}

impl Segment<'_> {
    fn is_like(&self, other: &Segment<'_>) -> bool {
        self.origin == other.origin && self.subjects == other.subjects
    }
}

fn segments<'l>(lines: impl Iterator<Item = &'l Line>) -> Vec<Segment<'l>> {
    let mut all: Vec<Segment<'l>> = Vec::new();
    for line in lines {
        match all.last_mut() {
            Some(last) if last.origin == line.origin && *last.subjects == line.subjects => {
                last.words.extend(line.words.iter().cloned());
            }
            _ => {
                let words = line.words.clone();
                all.push(Segment { origin: line.origin, subjects: &line.subjects, words });
            }
        }
    }
    all
}

/// All at one place: the first of each, the second of each, and so on.
pub(super) fn side_by_side(from: Place, wanted: Wanted, apart: Vec<Vec<Piece>>) -> Vec<Slot> {
    let most = apart.iter().map(Vec::len).max().unwrap_or(0);
    let mut slots: Vec<Slot> = (0..most)
        .map(|at| Slot { from, wanted: if at == 0 { wanted } else { Wanted::Next }, pieces: Vec::new() })
        .collect();
    for pieces in apart {
        for (slot, piece) in slots.iter_mut().zip(pieces) {
            slot.pieces.push(piece);
        }
    }
    slots
}

/// Each at a place of its own.
fn one_by_one(from: Place, wanted: Wanted, pieces: impl IntoIterator<Item = Piece>) -> Vec<Slot> {
    let slot =
        |(at, piece)| Slot { from, wanted: if at == 0 { wanted } else { Wanted::Next }, pieces: vec![piece] };
    pieces.into_iter().enumerate().map(slot).collect()
}

/// Refuses whatever would come before or after a policy that stays, and did not.
pub(super) fn crossings(conversion: &Conversion<'_>, speech: &mut Speech) {
    let mut wrong: Vec<(usize, String)> = Vec::new();
    for said in &speech.said {
        let origin = &conversion.origins[said.origin];
        let Some(from) = origin.place else { continue };
        for stays in &conversion.staying {
            let Some(place) = stays.place else { continue };
            if from.cmp(&place) == said.place.cmp(&place)
                || origin.concerned.are_disjoint(&stays.concerned, &conversion.compared)
            {
                continue;
            }
            let side = if said.place < place { "before" } else { "after" };
            let why = format!("it would come {side} {}, which stays as it is", stays.policy.object);
            wrong.push((said.origin, why));
            if wrong.len() >= MOST_CROSSINGS {
                break;
            }
        }
    }
    // The same among those that are converted: they may come to stand in other tiers.
    let froms: Vec<Option<Place>> =
        speech.said.iter().map(|said| conversion.origins[said.origin].place).collect();
    for (at, said) in speech.said.iter().enumerate() {
        for (other, from) in speech.said[..at].iter().zip(&froms) {
            let (Some(own), Some(from)) = (froms[at], *from) else { continue };
            // NetworkPolicies have no order, and their target has looked at every pair already.
            let union = said.place == Place::UNION && other.place == Place::UNION;
            // In one object rules have their order.
            let union = union || said.object.is_none();
            let ordered = own.cmp(&from) == said.place.cmp(&other.place) || own == from || union;
            let origin = |said: &Said| &conversion.origins[said.origin];
            if !ordered
                && !origin(said).concerned.are_disjoint(&origin(other).concerned, &conversion.compared)
            {
                let side = if said.place < other.place { "before" } else { "after" };
                let why = format!("it would come {side} {}, and does not now", origin(other).policy.object);
                wrong.push((said.origin, why));
                if wrong.len() >= MOST_CROSSINGS {
                    break;
                }
            }
        }
    }
    for (origin, why) in wrong {
        speech.cannot(&codes::ORDER, conversion, origin, None, "", why);
    }
}

/// Whom a policy says something about, by direction.
#[derive(Debug, Clone)]
pub(super) struct Concerned([Vec<Subject>; 2]);

// === impl Concerned ===

impl Concerned {
    pub fn by(policy: &Policy) -> Self {
        Concerned(
            Direction::BOTH.map(|direction| subjects_of(policy, direction).into_iter().cloned().collect()),
        )
    }

    /// Whether two policies can never have a say about the same side of a connection.
    ///
    /// All policies compared with all others is quadratic, and so are their subjects: where a conversion's bound is reached, they
    /// are taken to meet, which refuses or cuts apart more than is necessary, and never less.
    pub fn are_disjoint(&self, other: &Concerned, compared: &Cell<usize>) -> bool {
        let pairs = || self.0.iter().zip(&other.0);
        let count: usize = pairs().map(|(one, other)| one.len().saturating_mul(other.len())).sum();
        compared.set(compared.get().saturating_add(count + 1));
        compared.get() < MOST_COMPARED
            && pairs().all(|(one, other)| one.iter().all(|a| other.iter().all(|b| are_disjoint(a, b))))
    }
}

/// Everybody whom a policy says something about in a direction.
fn subjects_of(policy: &Policy, direction: Direction) -> Vec<&Subject> {
    let rules = policy.rules.iter().filter(|rule| rule.direction == direction).map(|rule| &rule.subjects);
    let isolations = policy.isolations.iter().filter(|isolation| isolation.direction == direction);
    let mut all: Vec<&Subject> =
        rules.chain(isolations.map(|isolation| &isolation.subjects)).flat_map(|list| list.iter()).collect();
    all.sort_unstable();
    all.dedup();
    all
}
