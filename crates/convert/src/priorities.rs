//! Priorities for slots: the preferred ones where they fit, others between those that are taken.

use std::collections::BTreeSet;
use std::ops;

use super::codes;
use super::conversion::Conversion;
use super::output::ConversionOutput;
use super::precedence::Precedence;
use super::slots::PrioritySlot;

/// The priority that a slot should get.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum PreferredPriority {
    /// This one, or the next whole number that is free.
    Exactly(f64),
    /// The next whole number.
    Next,
    /// The next multiple of ten, so that there is room for policies to come.
    Anywhere,
}

/// Priorities that a dialect allows.
#[derive(Debug, Clone, Copy)]
pub(super) struct PriorityRange {
    pub min: f64,
    pub max: f64,
    /// Whether priorities may be fractions: then there is always one between two.
    pub fractions: bool,
}

/// Distances between neighbouring priorities, the preferred one first.
const STEPS: [f64; 4] = [10.0, 5.0, 2.0, 1.0];

/// Assigns priorities to the slots of a tier, between those of the policies that stay there. Refuses the policies of slots
/// for which none is left.
pub(super) fn assign<'s>(
    conversion: &Conversion<'_>,
    slots: &[&'s PrioritySlot],
    tier: u8,
    range: PriorityRange,
    output: &mut ConversionOutput,
) -> Vec<(&'s PrioritySlot, f64)> {
    let taken: Vec<(Precedence, f64)> = conversion
        .staying
        .iter()
        .filter_map(|stays| stays.precedence)
        .filter(|precedence| precedence.tier == tier)
        .map(|precedence| (precedence, precedence.priority.0))
        .collect();
    match allocate(slots, &taken, range) {
        Ok(priorities) => slots.iter().copied().zip(priorities).collect(),
        Err(these) => {
            refuse_all(conversion, &slots[these], output);
            Vec::new()
        }
    }
}

fn refuse_all(conversion: &Conversion<'_>, slots: &[&PrioritySlot], output: &mut ConversionOutput) {
    let origins: BTreeSet<usize> =
        slots.iter().flat_map(|slot| slot.drafts.iter().map(|draft| draft.origin)).collect();
    for origin in origins {
        let reason = "no priority is left for it between the policies that are there already".to_owned();
        output.scope(conversion, origin).refuse(&codes::ORDER, None, ".priority", reason);
        if let Some(last) = output.diagnostics.list.last_mut() {
            last.help = Some("give those of the tier that it comes to other priorities first".to_owned());
        }
    }
}

/// Returns a priority for each slot, in order, between those that are taken: the precedence of each and its priority.
///
/// Fails with the range of the first slots for which none is left.
fn allocate(
    slots: &[&PrioritySlot],
    taken: &[(Precedence, f64)],
    range: PriorityRange,
) -> Result<Vec<f64>, ops::Range<usize>> {
    let bounds = |slot: &PrioritySlot| {
        let before = taken.iter().filter(|(other, _)| *other < slot.from).map(|(_, priority)| *priority);
        let after = taken.iter().filter(|(other, _)| *other > slot.from).map(|(_, priority)| *priority);
        (before.fold(range.min - 1.0, f64::max), after.fold(range.max + 1.0, f64::min))
    };
    let mut priorities: Vec<f64> = Vec::with_capacity(slots.len());
    while let Some(first) = slots.get(priorities.len()) {
        let (lower, upper) = bounds(first);
        let run: Vec<PreferredPriority> = slots[priorities.len()..]
            .iter()
            .take_while(|slot| bounds(slot) == (lower, upper))
            .map(|slot| slot.preferred)
            .collect();
        let lower = priorities.last().copied().unwrap_or(lower).max(lower);
        let found = as_preferred(&run, lower, upper, range)
            .or_else(|| spaced(run.len(), lower, upper, range))
            .ok_or(priorities.len()..priorities.len() + run.len())?;
        priorities.extend(found);
    }
    Ok(priorities)
}

/// Returns the preferred priorities, or `None` where they do not lie between the bounds (exclusive).
fn as_preferred(run: &[PreferredPriority], lower: f64, upper: f64, range: PriorityRange) -> Option<Vec<f64>> {
    let mut last = lower;
    let one = |preferred: &PreferredPriority| {
        last = match preferred {
            PreferredPriority::Exactly(priority) if *priority > last => *priority,
            PreferredPriority::Exactly(_) | PreferredPriority::Next => last.floor() + 1.0,
            PreferredPriority::Anywhere => ((last.max(0.0) / STEPS[0]).floor() + 1.0) * STEPS[0],
        };
        (last >= range.min && last < upper).then_some(last)
    };
    run.iter().map(one).collect()
}

/// Returns equally spaced priorities between the bounds (exclusive), as far apart as there is room.
fn spaced(count: usize, lower: f64, upper: f64, range: PriorityRange) -> Option<Vec<f64>> {
    let fits = |step: &f64| {
        let first = (lower.floor() + step).max(range.min);
        let all: Vec<f64> = (0..count).map(|at| first + at as f64 * step).collect();
        all.last().is_none_or(|last| *last < upper).then_some(all)
    };
    STEPS.iter().find_map(fits).or_else(|| {
        let (lower, upper) = (lower.max(range.min), upper.min(range.max));
        let between = |at: usize| lower + (upper - lower) * (at + 1) as f64 / (count + 1) as f64;
        (range.fractions && lower < upper).then(|| (0..count).map(between).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(tier: u8, priority: f64, preferred: PreferredPriority) -> PrioritySlot {
        PrioritySlot { from: Precedence::new(tier, priority), preferred, drafts: Vec::new() }
    }

    const WHOLE: PriorityRange = PriorityRange { min: 0.0, max: 1000.0, fractions: false };

    fn given(
        slots: &[PrioritySlot],
        taken: &[(Precedence, f64)],
        range: PriorityRange,
    ) -> Result<Vec<f64>, ops::Range<usize>> {
        allocate(&slots.iter().collect::<Vec<_>>(), taken, range)
    }

    #[test]
    fn numbers_are_kept_where_they_can_be() {
        let slots = [
            slot(251, 0.0, PreferredPriority::Exactly(0.0)),
            slot(251, 7.0, PreferredPriority::Exactly(7.0)),
            slot(251, 7.0, PreferredPriority::Next),
            slot(251, 8.0, PreferredPriority::Exactly(8.0)),
        ];
        assert_eq!(given(&slots, &[], WHOLE), Ok(vec![0.0, 7.0, 8.0, 9.0]));
    }

    #[test]
    fn they_come_between_those_that_are_there() {
        let taken = [(Precedence::new(220, 0.0), 0.0), (Precedence::new(220, 30.0), 30.0)];
        let slots = [
            slot(251, 10.0, PreferredPriority::Exactly(10.0)),
            slot(251, 40.0, PreferredPriority::Exactly(40.0)),
        ];
        assert_eq!(given(&slots, &taken, WHOLE), Ok(vec![31.0, 40.0]));
        let slots = [slot(100, 5.0, PreferredPriority::Anywhere)];
        assert_eq!(given(&slots, &taken, WHOLE), Err(0..1));
        let taken = [(Precedence::new(220, 3.0), 3.0)];
        assert_eq!(given(&slots, &taken, WHOLE), Ok(vec![1.0]));
    }

    #[test]
    fn fractions_make_room() {
        let range = PriorityRange { min: 1.0, max: 10000.0, fractions: true };
        let taken = [(Precedence::new(253, 2.0), 2.0)];
        let slots = [slot(252, 0.0, PreferredPriority::Next), slot(252, 0.0, PreferredPriority::Next)];
        let found = given(&slots, &taken, range).unwrap();
        assert!(1.0 <= found[0] && found[0] < found[1] && found[1] < 2.0, "{found:?}");
        assert_eq!(given(&slots, &[(Precedence::new(253, 1.0), 1.0)], range), Err(0..2));
        assert_eq!(given(&slots, &[(Precedence::new(200, 10000.0), 10000.0)], range), Err(0..2));
    }

    #[test]
    fn too_many_do_not_fit() {
        let slots: Vec<PrioritySlot> =
            (0..1002).map(|_| slot(100, 5.0, PreferredPriority::Anywhere)).collect();
        assert_eq!(given(&slots[..1001], &[], WHOLE).map(|all| all.len()), Ok(1001));
        assert!(given(&slots, &[], WHOLE).is_err());
    }
}
