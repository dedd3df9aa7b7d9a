//! Numbers for what is put in order: those that are wished for where they fit, and others between those that are taken.

use super::order::{Place, Slot};

/// The number that is wished for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Wanted {
    /// This one.
    Exactly(f64),
    /// The one after the last.
    Next,
    /// Any, with room before it.
    Anywhere,
}

/// Numbers that a target has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub least: f64,
    pub most: f64,
    /// Whether there is always one between two.
    pub fractions: bool,
}

/// Room that is left between two policies for others to come.
const STEPS: [f64; 4] = [10.0, 5.0, 2.0, 1.0];

/// A number for each slot, in order, between those that are there already: where each stood before, and its number.
/// The slots that there are no numbers for, when there are none.
pub(super) fn numbers(
    slots: &[&Slot],
    there: &[(Place, f64)],
    range: Range,
) -> Result<Vec<f64>, std::ops::Range<usize>> {
    let bounds = |slot: &Slot| {
        let before = there.iter().filter(|(place, _)| *place < slot.from).map(|(_, number)| *number);
        let after = there.iter().filter(|(place, _)| *place > slot.from).map(|(_, number)| *number);
        (before.fold(range.least - 1.0, f64::max), after.fold(range.most + 1.0, f64::min))
    };
    let mut numbers: Vec<f64> = Vec::with_capacity(slots.len());
    while let Some(first) = slots.get(numbers.len()) {
        let (lower, upper) = bounds(first);
        let run: Vec<Wanted> = slots[numbers.len()..]
            .iter()
            .take_while(|slot| bounds(slot) == (lower, upper))
            .map(|slot| slot.wanted)
            .collect();
        let lower = numbers.last().copied().unwrap_or(lower).max(lower);
        let found = as_wanted(&run, lower, upper, range)
            .or_else(|| spaced(run.len(), lower, upper, range))
            .ok_or(numbers.len()..numbers.len() + run.len())?;
        numbers.extend(found);
    }
    Ok(numbers)
}

fn as_wanted(run: &[Wanted], lower: f64, upper: f64, range: Range) -> Option<Vec<f64>> {
    let mut last = lower;
    let one = |wanted: &Wanted| {
        last = match wanted {
            Wanted::Exactly(number) if *number > last => *number,
            Wanted::Exactly(_) | Wanted::Next => last.floor() + 1.0,
            Wanted::Anywhere => ((last.max(0.0) / STEPS[0]).floor() + 1.0) * STEPS[0],
        };
        (last >= range.least && last < upper).then_some(last)
    };
    run.iter().map(one).collect()
}

fn spaced(count: usize, lower: f64, upper: f64, range: Range) -> Option<Vec<f64>> {
    let fits = |step: &f64| {
        let first = (lower.floor() + step).max(range.least);
        let all: Vec<f64> = (0..count).map(|at| first + at as f64 * step).collect();
        all.last().is_none_or(|last| *last < upper).then_some(all)
    };
    STEPS.iter().find_map(fits).or_else(|| {
        let (lower, upper) = (lower.max(range.least), upper.min(range.most));
        let between = |at: usize| lower + (upper - lower) * (at + 1) as f64 / (count + 1) as f64;
        (range.fractions && lower < upper).then(|| (0..count).map(between).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(tier: u8, priority: f64, wanted: Wanted) -> Slot {
        Slot { from: Place::new(tier, priority), wanted, pieces: Vec::new() }
    }

    const WHOLE: Range = Range { least: 0.0, most: 1000.0, fractions: false };

    fn given(
        slots: &[Slot],
        there: &[(Place, f64)],
        range: Range,
    ) -> Result<Vec<f64>, std::ops::Range<usize>> {
        numbers(&slots.iter().collect::<Vec<_>>(), there, range)
    }

    #[test]
    fn numbers_are_kept_where_they_can_be() {
        let slots = [
            slot(251, 0.0, Wanted::Exactly(0.0)),
            slot(251, 7.0, Wanted::Exactly(7.0)),
            slot(251, 7.0, Wanted::Next),
            slot(251, 8.0, Wanted::Exactly(8.0)),
        ];
        assert_eq!(given(&slots, &[], WHOLE), Ok(vec![0.0, 7.0, 8.0, 9.0]));
    }

    #[test]
    fn they_come_between_those_that_are_there() {
        let there = [(Place::new(220, 0.0), 0.0), (Place::new(220, 30.0), 30.0)];
        let slots = [slot(251, 10.0, Wanted::Exactly(10.0)), slot(251, 40.0, Wanted::Exactly(40.0))];
        assert_eq!(given(&slots, &there, WHOLE), Ok(vec![31.0, 40.0]));
        let slots = [slot(100, 5.0, Wanted::Anywhere)];
        assert_eq!(given(&slots, &there, WHOLE), Err(0..1));
        let there = [(Place::new(220, 3.0), 3.0)];
        assert_eq!(given(&slots, &there, WHOLE), Ok(vec![1.0]));
    }

    #[test]
    fn fractions_make_room() {
        let range = Range { least: 1.0, most: 10000.0, fractions: true };
        let there = [(Place::new(253, 2.0), 2.0)];
        let slots = [slot(252, 0.0, Wanted::Next), slot(252, 0.0, Wanted::Next)];
        let found = given(&slots, &there, range).unwrap();
        assert!(1.0 <= found[0] && found[0] < found[1] && found[1] < 2.0, "{found:?}");
        assert_eq!(given(&slots, &[(Place::new(253, 1.0), 1.0)], range), Err(0..2));
        assert_eq!(given(&slots, &[(Place::new(200, 10000.0), 10000.0)], range), Err(0..2));
    }

    #[test]
    fn too_many_do_not_fit() {
        let slots: Vec<Slot> = (0..1002).map(|_| slot(100, 5.0, Wanted::Anywhere)).collect();
        assert_eq!(given(&slots[..1001], &[], WHOLE).map(|all| all.len()), Ok(1001));
        assert!(given(&slots, &[], WHOLE).is_err());
    }
}
