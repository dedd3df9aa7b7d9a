//! Descriptions of signatures: predicates that hold exactly these pods.
//!
//! Only existing signatures have to be distinguished, so that implied predicates are omitted. A shortest description is hard
//! to find; a greedy cover takes the predicate that excludes most, and removes those that turn out redundant. The cost is
//! predicates times signatures for each term: for hundreds of them, not for a large cluster at once.

use std::collections::BTreeMap;
use std::fmt;

use super::bits::BitSet;
use super::predicate::Predicate;
use super::signatures::Signature;

/// Pods in all of some predicates and in none of others; without any, every pod.
#[derive(Debug, Clone)]
pub struct PodDescription<'p> {
    /// Predicates that hold all of the pods.
    pub within: Vec<&'p Predicate>,
    /// Predicates that hold none of the pods.
    pub except: Vec<&'p Predicate>,
}

/// Description of some pods.
#[derive(Debug, Clone)]
pub enum Description<'p> {
    /// The union of these; no pod when empty.
    Any(Vec<PodDescription<'p>>),
    /// All pods that other descriptions do not cover.
    Others,
}

/// Matrix of predicates and signatures, by predicate.
struct Columns<'p> {
    predicates: &'p [&'p Predicate],
    columns: Vec<BitSet>,
    signatures: usize,
}

/// Index of a predicate, and whether it is positive.
type Literal = (usize, bool);

/// Describes the signatures with the indices `chosen`: their pods and no others.
pub fn describe<'p>(
    predicates: &'p [&'p Predicate],
    signatures: &[Signature],
    chosen: &[usize],
) -> Vec<PodDescription<'p>> {
    Columns::new(predicates, signatures).cover(chosen)
}

/// Describes every group of signatures, sorted by group. The group of the pods that are in no predicate comes last, as the
/// others, if there is another group.
pub fn describe_groups<'p, G: Ord + Clone>(
    predicates: &'p [&'p Predicate],
    signatures: &[Signature],
    group: impl Fn(usize) -> G,
) -> Vec<(G, Description<'p>)> {
    let columns = Columns::new(predicates, signatures);
    let mut groups: BTreeMap<G, Vec<usize>> = BTreeMap::new();
    (0..signatures.len()).for_each(|at| groups.entry(group(at)).or_default().push(at));
    let in_none = signatures.iter().position(|signature| signature.members.is_empty()).map(group);
    let last = in_none.filter(|_| groups.len() > 1).map(|group| (group, Description::Others));
    let named = groups.iter().filter(|(group, _)| last.as_ref().is_none_or(|(last, _)| last != *group));
    let named = named.map(|(group, chosen)| (group.clone(), Description::Any(columns.cover(chosen))));
    named.chain(last.clone()).collect()
}

// === impl Columns ===

impl<'p> Columns<'p> {
    fn new(predicates: &'p [&'p Predicate], signatures: &[Signature]) -> Self {
        let mut columns = vec![BitSet::none(signatures.len()); predicates.len()];
        for (at, signature) in signatures.iter().enumerate() {
            signature.members.iter().for_each(|predicate| columns[predicate].insert(at));
        }
        Columns { predicates, columns, signatures: signatures.len() }
    }

    /// Returns terms that hold all of the chosen signatures and none of the others.
    fn cover(&self, chosen: &[usize]) -> Vec<PodDescription<'p>> {
        let mut wanted = BitSet::none(self.signatures);
        chosen.iter().for_each(|at| wanted.insert(*at));
        let mut unwanted = BitSet::all(self.signatures);
        unwanted.remove(&wanted);
        let mut terms: Vec<(Vec<Literal>, BitSet)> = Vec::new();
        let mut left = wanted.clone();
        for at in chosen.iter().copied() {
            if !left.has(at) {
                continue;
            }
            let term = self.term(at, &left, &unwanted);
            let held = self.held(&term);
            left.remove(&held);
            terms.push((term, held));
        }
        // A later term may cover an earlier one.
        let mut at = 0;
        while at < terms.len() {
            let mut only_here = wanted.clone();
            let others = terms.iter().enumerate().filter(|(other, _)| *other != at);
            others.for_each(|(_, (_, held))| only_here.remove(held));
            if only_here.is_empty() && terms.len() > 1 {
                terms.remove(at);
            } else {
                at += 1;
            }
        }
        terms.into_iter().map(|(term, _)| self.described(&term)).collect()
    }

    /// Returns a term that holds one signature and no unwanted one; among equals, one that holds more of the remaining
    /// signatures, and with positive literals.
    fn term(&self, signature: usize, left: &BitSet, unwanted: &BitSet) -> Vec<Literal> {
        let (mut term, mut wrong, mut right) = (Vec::new(), unwanted.clone(), left.clone());
        while !wrong.is_empty() {
            let literals = (0..self.columns.len()).map(|at| (at, self.columns[at].has(signature)));
            let rates = literals.map(|literal| {
                let (wrong, right) = (self.ruled_out(literal, &wrong), self.ruled_out(literal, &right));
                ((wrong, std::cmp::Reverse(right), literal.1, std::cmp::Reverse(literal.0)), literal)
            });
            // Distinct signatures differ in some predicate, so that some literal always excludes one.
            let Some(((1.., ..), literal)) = rates.max_by_key(|(rate, _)| *rate) else { break };
            self.narrow(&mut wrong, literal);
            self.narrow(&mut right, literal);
            term.push(literal);
        }
        // Earlier literals may be redundant now. Negative ones are removed first.
        for leave in [false, true] {
            let mut at = 0;
            while at < term.len() {
                let without: Vec<Literal> = [&term[..at], &term[at + 1..]].concat();
                if term[at].1 == leave && !self.held(&without).meets(unwanted) {
                    term = without;
                } else {
                    at += 1;
                }
            }
        }
        term.sort_unstable();
        term
    }

    fn held(&self, term: &[Literal]) -> BitSet {
        let mut held = BitSet::all(self.signatures);
        term.iter().for_each(|literal| self.narrow(&mut held, *literal));
        held
    }

    fn narrow(&self, bits: &mut BitSet, (at, is_in): Literal) {
        if is_in { bits.keep(&self.columns[at]) } else { bits.remove(&self.columns[at]) }
    }

    fn ruled_out(&self, (at, is_in): Literal, bits: &BitSet) -> usize {
        let shared = bits.shared(&self.columns[at]);
        if is_in { bits.len() - shared } else { shared }
    }

    fn described(&self, term: &[Literal]) -> PodDescription<'p> {
        let named = |wanted: bool| {
            let of = term.iter().filter(move |(_, is_in)| *is_in == wanted);
            of.map(|(at, _)| self.predicates[*at]).collect()
        };
        PodDescription { within: named(true), except: named(false) }
    }
}

// === impl PodDescription ===

impl PodDescription<'_> {
    /// Whether it describes every pod.
    pub fn is_every_pod(&self) -> bool {
        self.within.is_empty() && self.except.is_empty()
    }
}

impl fmt::Display for PodDescription<'_> {
    /// `pods with app=web of namespace shop that are also pods with tier=a anywhere, except pods with old anywhere`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |predicates: &[&Predicate], with: &str| {
            predicates.iter().map(ToString::to_string).collect::<Vec<_>>().join(with)
        };
        match self.within.as_slice() {
            [] if self.except.iter().any(|predicate| predicate.set().external) => {
                f.write_str("any external entity")?;
            }
            [] => f.write_str("any pod")?,
            within => f.write_str(&join(within, " that are also "))?,
        }
        match self.except.as_slice() {
            [] => Ok(()),
            except => write!(f, ", except {}", join(except, " and ")),
        }
    }
}

// === impl Description ===

impl fmt::Display for Description<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Description::Others => f.write_str("any other pod"),
            Description::Any(terms) if terms.is_empty() => f.write_str("no pod"),
            Description::Any(terms) => {
                f.write_str(&terms.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
            }
        }
    }
}
