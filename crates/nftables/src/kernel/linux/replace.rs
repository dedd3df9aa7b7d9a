//! A whole program in the place of whatever is in our table.
//!
//! A table that is deleted and made again in one transaction lets packets through: a base chain is hooked before its rules are in force,
//! and the one before loses its rules before it is unhooked, so that a packet can pass the one too early and the other too late. So
//! what is there is looked at and patched ([`super::apply`]): base chains stay, every chain gets its rules, sets what they lack, and
//! what else is there goes. Only where something cannot be as ours is, another hook or a set of another sort, is the table made again.

use std::mem;

use crate::kernel::shape::Shape;
use crate::kernel::{Counts, Kernel, KernelError, elements, listing};
use crate::patch::Patch;
use crate::program::{Chain, Elements, Hook, Name, Program, Set};
use crate::text::{TABLE, hook_text, write_set};

use super::apply::count_elements;
use super::{Linux, TRIES};

// === impl Linux ===

impl Linux {
    /// Makes the table the one for a program, in place if that can be.
    pub(super) fn replace_behind_guard(
        &mut self,
        program: &Program,
        counts: &Counts,
    ) -> Result<(), KernelError> {
        for _ in 0..TRIES {
            match self.replace_in_place(program, counts) {
                // It is another than the one that was looked at.
                Err(KernelError::Drifted(_)) => {}
                Ok(false) => break,
                other => return other.map(|_| ()),
            }
        }
        self.replace_table(program, counts)
    }

    /// Makes the table that is there the one for a program. Says whether that can be.
    fn replace_in_place(&mut self, program: &Program, counts: &Counts) -> Result<bool, KernelError> {
        let Some(found) = self.found(program)? else { return Ok(false) };
        let mut patch = Patch::between(&found, program);
        // Which rules they have is not known.
        let there = program.chains.iter().filter(|(name, _)| found.chains.contains_key(*name));
        patch.changed = there.map(|(name, chain)| (name.clone(), chain.clone())).collect();
        // What was left behind is part of what was found, and may be needed again.
        let left = mem::take(&mut self.left);
        self.wait_for_packets();
        self.shapes = None;
        if let Err(error) = self.move_structure(&patch, counts) {
            self.left.take_away(left);
            return Err(error);
        }
        self.know(program);
        match self.tidy() {
            Ok(()) | Err(KernelError::Busy(_)) => Ok(true),
            // Something holds what should go: only with the table it does.
            Err(KernelError::Refused(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes the table anew.
    fn replace_table(&mut self, program: &Program, counts: &Counts) -> Result<(), KernelError> {
        let done = self.transaction(&program.replace_with(counts), count_elements(&program.sets));
        self.shapes = None;
        self.grace.begin(self.settling.replaced(program));
        match done {
            Ok(()) => {
                self.know(program);
                self.left = Patch::default();
                Ok(())
            }
            // Nothing that was there before can be missing, or in the way: all of it is new.
            Err(KernelError::Drifted(said)) if said.contains("No such file or directory") => Err(
                KernelError::Missing(format!("this kernel lacks something that the program needs: {said}")),
            ),
            Err(KernelError::Drifted(said)) => Err(KernelError::Refused(said)),
            Err(error) => Err(error),
        }
    }

    fn know(&mut self, program: &Program) {
        self.settling.observe(program);
        let shapes = program.sets.iter().map(|(name, set)| (name.clone(), Some(Shape::of(set))));
        self.shapes = Some(shapes.collect());
    }

    /// What is in our table, as far as it matters for this program: chains without their rules, and elements of the sets that stay.
    /// Nothing if there is no table, or one that cannot become the one for this program.
    fn found(&mut self, program: &Program) -> Result<Option<Program>, KernelError> {
        if !self.exists(TABLE)? {
            return Ok(None);
        }
        let listing = match self.listing() {
            Ok(listing) => listing,
            Err(error @ (KernelError::Forbidden(_) | KernelError::Missing(_) | KernelError::Busy(_))) => {
                return Err(error);
            }
            // What cannot be listed can be deleted.
            Err(_) => return Ok(None),
        };
        let Some(mut found) = skeleton(&listing, program) else { return Ok(None) };
        for (name, set) in &mut found.sets {
            let Some(wanted) = program.sets.get(name) else { continue };
            let shape = Shape::of(wanted);
            match self.talk("cannot read elements", |socket| elements::read(socket, name, &shape))? {
                Some(elements) => set.elements = elements,
                None => return Ok(None),
            }
        }
        Ok(Some(found))
    }
}

/// What a listing says there is, without rules and elements; nothing if some of it is in the way of a program.
fn skeleton(listing: &str, program: &Program) -> Option<Program> {
    let mut found = Program::default();
    for part in listing::parts(listing)? {
        let name = Name::new(part.name);
        match part.kind {
            "chain" => {
                let hook = match part.lines.first().filter(|line| line.starts_with("type ")) {
                    Some(line) => Some(hook(line)?),
                    None => None,
                };
                if program.chains.get(&name).is_some_and(|chain| chain.hook != hook) {
                    return None;
                }
                found.chains.insert(name, Chain { hook, rules: Vec::new() });
            }
            "set" | "map" => {
                let set = match program.sets.get(&name) {
                    Some(set) => Some(Set { elements: Elements::new(), ..set.clone() })
                        .filter(|set| is_said_of(set, &part))?,
                    // It goes, whatever it is.
                    None => Set {
                        key: Vec::new(),
                        elements: Elements::new(),
                        is_map: part.kind == "map",
                        interval: false,
                        comment: String::new(),
                    },
                };
                found.sets.insert(name, set);
            }
            "counter" => drop(found.counters.insert(name)),
            _ => return None,
        }
    }
    Some(found)
}

fn hook(line: &str) -> Option<Hook> {
    [Hook::Input, Hook::Forward, Hook::Output].into_iter().find(|hook| hook_text(*hook) == line)
}

/// Whether what is listed is this set.
fn is_said_of(set: &Set, part: &listing::Part<'_>) -> bool {
    let mut text = String::new();
    let kind = if set.is_map { "map" } else { "set" };
    // Writing to a string cannot fail.
    let _ = write_set(&mut text, "", part.name, set);
    let said = text.lines().skip(1).map(str::trim).take_while(|line| *line != "}");
    part.kind == kind && said.eq(part.lines.iter().copied())
}
