//! Signatures in words: which predicates to name so that exactly these pods are meant.
//!
//! What is to be told apart are the signatures there are, so that whatever follows from something else need not be said.
//! The fewest words are hard to find; here each predicate is taken that rules out most of what is not meant, and what
//! turns out not to be needed is left out again. Each word is looked for among all predicates and signatures: this is for
//! hundreds of them, not for all of a large cluster at once.

use std::collections::BTreeMap;
use std::fmt;

use super::bits::Bits;
use super::predicate::Predicate;
use super::signatures::Signature;

/// The pods that are in all of some predicates and in none of others. Of nothing at all, every pod.
#[derive(Debug, Clone)]
pub struct Described<'p> {
    /// In all of these.
    pub within: Vec<&'p Predicate>,
    /// In none of these.
    pub except: Vec<&'p Predicate>,
}

/// Some pods, in words.
#[derive(Debug, Clone)]
pub enum Description<'p> {
    /// Any of these; nobody when there are none.
    Any(Vec<Described<'p>>),
    /// Whoever was not described before.
    Others,
}

/// For each predicate, which of the signatures are in it.
struct Columns<'p> {
    predicates: &'p [&'p Predicate],
    columns: Vec<Bits>,
    signatures: usize,
}

/// A predicate, and whether to be in it or not to be.
type Literal = (usize, bool);

/// Those of the signatures that are at `chosen`, among all of these predicates: together these pods and no others.
pub fn describe<'p>(
    predicates: &'p [&'p Predicate],
    signatures: &[Signature],
    chosen: &[usize],
) -> Vec<Described<'p>> {
    Columns::new(predicates, signatures).cover(chosen)
}

/// The same for every group of signatures, where `group` says which each of them is in, ordered by group. The group of
/// the pods that are in no predicate comes last and is all others, if there is another one.
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
        let mut columns = vec![Bits::none(signatures.len()); predicates.len()];
        for (at, signature) in signatures.iter().enumerate() {
            signature.members.iter().for_each(|predicate| columns[predicate].insert(at));
        }
        Columns { predicates, columns, signatures: signatures.len() }
    }

    /// Terms that hold all of the chosen signatures and none of the others.
    fn cover(&self, chosen: &[usize]) -> Vec<Described<'p>> {
        let mut wanted = Bits::none(self.signatures);
        chosen.iter().for_each(|at| wanted.insert(*at));
        let mut unwanted = Bits::all(self.signatures);
        unwanted.remove(&wanted);
        let mut terms: Vec<(Vec<Literal>, Bits)> = Vec::new();
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
        // A later term may hold all that an earlier one was for.
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

    /// A term that holds one signature and none that are unwanted; of those that do equally well, one that holds more
    /// of what is left to describe, and rather one that names who is meant than one that names who is not.
    fn term(&self, signature: usize, left: &Bits, unwanted: &Bits) -> Vec<Literal> {
        let (mut term, mut wrong, mut right) = (Vec::new(), unwanted.clone(), left.clone());
        while !wrong.is_empty() {
            let literals = (0..self.columns.len()).map(|at| (at, self.columns[at].has(signature)));
            let rates = literals.map(|literal| {
                let (wrong, right) = (self.ruled_out(literal, &wrong), self.ruled_out(literal, &right));
                ((wrong, std::cmp::Reverse(right), literal.1, std::cmp::Reverse(literal.0)), literal)
            });
            // Signatures differ in something, so that something always can be ruled out.
            let Some(((1.., ..), literal)) = rates.max_by_key(|(rate, _)| *rate) else { break };
            self.narrow(&mut wrong, literal);
            self.narrow(&mut right, literal);
            term.push(literal);
        }
        // The first were taken before it was known what others would rule out. Who is not meant goes first.
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

    fn held(&self, term: &[Literal]) -> Bits {
        let mut held = Bits::all(self.signatures);
        term.iter().for_each(|literal| self.narrow(&mut held, *literal));
        held
    }

    fn narrow(&self, bits: &mut Bits, (at, is_in): Literal) {
        if is_in { bits.keep(&self.columns[at]) } else { bits.remove(&self.columns[at]) }
    }

    fn ruled_out(&self, (at, is_in): Literal, bits: &Bits) -> usize {
        let shared = bits.shared(&self.columns[at]);
        if is_in { bits.len() - shared } else { shared }
    }

    fn described(&self, term: &[Literal]) -> Described<'p> {
        let named = |wanted: bool| {
            let of = term.iter().filter(move |(_, is_in)| *is_in == wanted);
            of.map(|(at, _)| self.predicates[*at]).collect()
        };
        Described { within: named(true), except: named(false) }
    }
}

// === impl Described ===

impl Described<'_> {
    /// Whether it is every pod.
    pub fn is_everybody(&self) -> bool {
        self.within.is_empty() && self.except.is_empty()
    }
}

impl fmt::Display for Described<'_> {
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
