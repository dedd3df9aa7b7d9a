//! A kernel in memory, for tests of whatever drives one.
//!
//! It refuses what the real one refuses, with the same sort of error; `tests/contract.rs` holds both to that. Beyond the trait it does
//! what tests need: it fails when told to, others change its table, packets are counted, connections are there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;

use crate::kernel::shape::is_of;
use crate::kernel::{Connection, Count, Counts, InForce, Kernel, KernelError};
use crate::patch::Patch;
use crate::program::{Elements, FieldType, Key, Name, Program, Set, Value, Verdict};

/// The kernel's limit of jumps inside of jumps, from a base chain.
const DEEPEST: usize = 16;

/// A kernel in memory.
#[derive(Debug, Default)]
pub struct Fake {
    program: Option<Program>,
    guard: Option<Program>,
    counts: Counts,
    connections: BTreeSet<Connection>,
    failures: VecDeque<KernelError>,
    disturbed: bool,
}

// === impl Fake ===

impl Fake {
    /// One without our table.
    pub fn new() -> Fake {
        Fake::default()
    }

    /// What is in our table.
    pub fn program(&self) -> Option<&Program> {
        self.program.as_ref()
    }

    /// What is in the table beside ours.
    pub fn guard(&self) -> Option<&Program> {
        self.guard.as_ref()
    }

    /// The next calls fail, one with each of these, and do nothing.
    pub fn fail(&mut self, errors: impl IntoIterator<Item = KernelError>) {
        self.failures.extend(errors);
    }

    /// Somebody else changes our table. What comes out is not checked.
    pub fn disturb(&mut self, change: impl FnOnce(&mut Option<Program>)) {
        change(&mut self.program);
        let counters = self.program.iter().flat_map(|program| &program.counters);
        let counts = counters.map(|name| (name.clone(), self.counts.get(name).copied().unwrap_or_default()));
        self.counts = counts.collect();
        self.disturbed = true;
    }

    /// Something is counted, if there is such a counter.
    pub fn count(&mut self, counter: &str, packets: u64, bytes: u64) {
        if let Some(count) = self.counts.get_mut(counter) {
            count.packets = count.packets.saturating_add(packets);
            count.bytes = count.bytes.saturating_add(bytes);
        }
    }

    /// A connection is opened.
    pub fn connect(&mut self, connection: Connection) {
        self.connections.insert(connection);
    }

    fn fails(&mut self) -> Result<(), KernelError> {
        self.failures.pop_front().map_or(Ok(()), Err)
    }
}

impl Kernel for Fake {
    fn replace(&mut self, program: &Program, counts: &Counts) -> Result<(), KernelError> {
        self.fails()?;
        check(program)?;
        let count = |name: &Name| self.counts.get(name).or(counts.get(name)).copied().unwrap_or_default();
        self.counts = program.counters.iter().map(|name| (name.clone(), count(name))).collect();
        self.program = Some(program.clone());
        self.guard = None;
        Ok(())
    }

    fn patch(&mut self, patch: &Patch) -> Result<(), KernelError> {
        self.fails()?;
        if patch.is_empty() {
            return Ok(());
        }
        let program =
            self.program.as_ref().ok_or_else(|| KernelError::Drifted("there is no table".to_owned()))?;
        self.program = Some(patched(program.clone(), patch)?);
        self.counts.extend(patch.counters.iter().map(|name| (name.clone(), Count::default())));
        self.counts.retain(|name, _| !patch.no_counters.contains(name));
        Ok(())
    }

    fn raise_guard(&mut self, guard: &Program) -> Result<(), KernelError> {
        self.fails()?;
        check(guard)?;
        self.guard = Some(guard.clone());
        Ok(())
    }

    fn drop_guard(&mut self) -> Result<(), KernelError> {
        self.fails()?;
        self.guard = None;
        Ok(())
    }

    fn has_guard(&mut self) -> Result<bool, KernelError> {
        self.fails()?;
        Ok(self.guard.is_some())
    }

    fn read(&mut self) -> Result<Option<InForce>, KernelError> {
        self.fails()?;
        let Some(program) = &self.program else { return Ok(None) };
        let elements = program.sets.iter().map(|(name, set)| (name.clone(), set.elements.clone())).collect();
        let mut bare = program.clone();
        for set in bare.sets.values_mut() {
            set.elements = Elements::new();
        }
        Ok(Some(InForce { structure: bare.to_string(), elements }))
    }

    fn counts(&mut self) -> Result<Counts, KernelError> {
        self.fails()?;
        Ok(self.counts.clone())
    }

    fn remove(&mut self) -> Result<bool, KernelError> {
        self.fails()?;
        self.counts.clear();
        self.guard = None;
        Ok(self.program.take().is_some())
    }

    fn connections(&mut self) -> Result<Vec<Connection>, KernelError> {
        self.fails()?;
        Ok(self.connections.iter().copied().collect())
    }

    fn cut(&mut self, connections: &[Connection]) -> Result<usize, KernelError> {
        self.fails()?;
        Ok(connections.iter().filter(|connection| self.connections.remove(connection)).count())
    }

    fn is_disturbed(&mut self) -> Result<bool, KernelError> {
        self.fails()?;
        Ok(mem::take(&mut self.disturbed))
    }
}

/// Whether the kernel would take a whole program.
fn check(program: &Program) -> Result<(), KernelError> {
    if let Some(dangling) = program.dangling() {
        return Err(KernelError::Refused(dangling));
    }
    check_sets(&program.sets)?;
    check_depth(program)
}

/// A program after a patch, or why the kernel would not take it.
fn patched(mut program: Program, patch: &Patch) -> Result<Program, KernelError> {
    let drifted = |what: &str, name: &Name| KernelError::Drifted(format!("{what} {name}"));
    if let Some(name) = patch.counters.iter().find(|name| program.counters.contains(*name)) {
        return Err(drifted("there is already a counter", name));
    }
    if let Some(name) = patch.sets.keys().find(|name| program.sets.contains_key(*name)) {
        return Err(drifted("there is already a set", name));
    }
    check_sets(&patch.sets)?;
    program.counters.extend(patch.counters.iter().cloned());
    program.sets.extend(patch.sets.clone());
    for (name, chain) in &patch.chains {
        if program.chains.insert(name.clone(), chain.clone()).is_some() {
            return Err(drifted("there is already a chain", name));
        }
    }
    for (name, chain) in &patch.changed {
        let before = program.chains.insert(name.clone(), chain.clone());
        let before = before.ok_or_else(|| drifted("there is no chain", name))?;
        if before.hook != chain.hook {
            return Err(KernelError::Refused(format!("another hook has the chain {name}")));
        }
    }
    for (name, elements) in &patch.leave {
        let set = program.sets.get_mut(name).ok_or_else(|| drifted("there is no set", name))?;
        for key in elements.keys() {
            // With which verdict it is there, the kernel does not ask.
            set.elements.remove(key).ok_or_else(|| drifted("what leaves is not in the set", name))?;
        }
    }
    for (name, elements) in &patch.join {
        let set = program.sets.get_mut(name).ok_or_else(|| drifted("there is no set", name))?;
        for (key, verdict) in elements {
            check_element(name, set, key, verdict.as_ref())?;
            if is_taken(set, key) {
                return Err(drifted("what joins is in the set already:", name));
            }
            set.elements.insert(key.clone(), verdict.clone());
        }
    }
    if let Some(dangling) = program.dangling() {
        return Err(KernelError::Drifted(dangling));
    }
    for name in &patch.no_chains {
        program.chains.remove(name).ok_or_else(|| drifted("there is no chain", name))?;
    }
    for name in &patch.no_sets {
        program.sets.remove(name).ok_or_else(|| drifted("there is no set", name))?;
    }
    for name in &patch.no_counters {
        if !program.counters.remove(name) {
            return Err(drifted("there is no counter", name));
        }
    }
    if let Some(dangling) = program.dangling() {
        return Err(KernelError::Refused(format!("what should go is in use: {dangling}")));
    }
    check_depth(&program)?;
    Ok(program)
}

fn check_sets(sets: &BTreeMap<Name, Set>) -> Result<(), KernelError> {
    for (name, set) in sets {
        let mut seen = Set { elements: Elements::new(), ..set.clone() };
        for (key, verdict) in &set.elements {
            check_element(name, set, key, verdict.as_ref())?;
            if is_taken(&seen, key) {
                return Err(KernelError::Refused(format!("elements of {name} overlap")));
            }
            seen.elements.insert(key.clone(), verdict.clone());
        }
    }
    Ok(())
}

/// Whether an element can be in a set at all.
fn check_element(name: &Name, set: &Set, key: &Key, verdict: Option<&Verdict>) -> Result<(), KernelError> {
    let refused = |what: &str| Err(KernelError::Refused(format!("{what} in {name}")));
    let fits = |(field, (first, last)): (&FieldType, &(Value, Value))| {
        is_of(*field, *first) && is_of(*field, *last) && first <= last
    };
    if key.len() != set.key.len() || !set.key.iter().zip(key).all(fits) {
        return refused("a key of another sort");
    }
    if !set.interval && key.iter().any(|(first, last)| first != last) {
        return refused("a range");
    }
    match verdict {
        None if set.is_map => refused("a key without verdict"),
        Some(_) if !set.is_map => refused("a verdict"),
        Some(Verdict::Reject | Verdict::Map(..)) => refused("a verdict that maps cannot have"),
        _ => Ok(()),
    }
}

/// Whether an element is in the way of another. Of those with several fields the kernel compares only where they begin and end.
fn is_taken(set: &Set, key: &Key) -> bool {
    if set.elements.contains_key(key) {
        return true;
    }
    if !set.interval {
        return false;
    }
    let holds = |other: &Key, at: fn(&(Value, Value)) -> Value| {
        other.iter().zip(key).all(|((first, last), part)| *first <= at(part) && at(part) <= *last)
    };
    if let [(first, last)] = key.as_slice() {
        // Those that are there do not overlap, so that only the neighbours can.
        let before = set.elements.range(..key.clone()).next_back();
        let after = set.elements.range(key.clone()..).next();
        let overlaps = |other: &Key| other.iter().all(|(from, to)| from <= last && first <= to);
        return before.into_iter().chain(after).any(|(other, _)| overlaps(other));
    }
    set.elements.keys().any(|other| holds(other, |part| part.0) || holds(other, |part| part.1))
}

/// Chains that lead to each other too deep, or in a circle, or into a base chain.
fn check_depth(program: &Program) -> Result<(), KernelError> {
    let mut deepest: BTreeMap<&Name, usize> = BTreeMap::new();
    for (name, chain) in &program.chains {
        if chain.hook.is_some() {
            depth(program, name, 0, &mut deepest)?;
        }
        for to in targets(program, name) {
            if program.chains.get(to).is_some_and(|chain| chain.hook.is_some()) {
                return Err(KernelError::Refused(format!("{name} leads to the base chain {to}")));
            }
        }
    }
    Ok(())
}

fn depth<'a>(
    program: &'a Program,
    name: &'a Name,
    at: usize,
    deepest: &mut BTreeMap<&'a Name, usize>,
) -> Result<(), KernelError> {
    if at >= DEEPEST {
        return Err(KernelError::Refused(format!("jumps too deep at {name}")));
    }
    if deepest.get(name).is_some_and(|before| *before >= at) {
        return Ok(());
    }
    deepest.insert(name, at);
    targets(program, name).into_iter().try_for_each(|to| depth(program, to, at + 1, deepest))
}

/// The chains that a chain leads to.
fn targets<'a>(program: &'a Program, name: &Name) -> BTreeSet<&'a Name> {
    let rules = program.chains.get(name).into_iter().flat_map(|chain| &chain.rules);
    let mut all = BTreeSet::new();
    for rule in rules {
        all.extend(rule.verdict.chain());
        if let Verdict::Map(_, map) = &rule.verdict {
            let elements = program.sets.get(map).into_iter().flat_map(|set| set.elements.values());
            all.extend(elements.flatten().filter_map(Verdict::chain));
        }
    }
    all
}
