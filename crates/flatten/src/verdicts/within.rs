//! Whether one table allows no more than another.

use palisade_model::trace::Verdict;
use palisade_model::traffic::{PortRange, Protocol};
use palisade_model::traffic_set::Addressing;

use super::{Column, FlatVerdicts, Run, Scope};

/// Maximum number of runs that are compared: about a millisecond.
const MOST: usize = 1 << 18;

/// Runs that may still be compared.
struct Comparison {
    left: usize,
}

// === impl FlatVerdicts ===

impl FlatVerdicts {
    /// Returns whether the other table allows everything that this one allows. False as well if that takes too long to find out:
    /// callers take a precaution then.
    pub fn is_within(&self, other: &FlatVerdicts) -> bool {
        if self.allows_nothing() {
            return true;
        }
        let mut comparison = Comparison { left: MOST };
        let rests = [self, other].map(|table| vec![Run { first: 0, decision: table.rest }]);
        is_fine(&rests[0][0], &rests[1][0])
            && [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].into_iter().all(|protocol| {
                let [own, theirs] = [self, other].map(|table| table.of(protocol));
                comparison.ports_within((own, &rests[0]), (theirs, &rests[1]))
            })
            && {
                let [own, theirs] = [self, other].map(|table| table.of(Protocol::Icmp).first());
                let own = own.map_or(&rests[0], |column| &column.runs);
                comparison.runs_within(own, theirs.map_or(&rests[1], |column| &column.runs))
            }
            && self.igmp_within(other, &mut comparison)
    }

    fn allows_nothing(&self) -> bool {
        let mut decisions = self.columns.iter().flat_map(|column| &column.runs).map(|run| run.decision);
        self.rest.verdict != Verdict::Allow && decisions.all(|decision| decision.verdict != Verdict::Allow)
    }

    fn igmp_within(&self, other: &FlatVerdicts, comparison: &mut Comparison) -> bool {
        let columns = || self.of(Protocol::Igmp).iter().chain(other.of(Protocol::Igmp));
        let named = columns().filter_map(|column| match column.scope {
            Scope::Igmp(addressing) => addressing,
            Scope::Ports { .. } | Scope::Icmp => None,
        });
        let mut all = named.chain([Addressing::OtherGroup, Addressing::Host]);
        all.all(|addressing| {
            let [own, theirs] = [self, other].map(|table| table.igmp_runs(addressing));
            comparison.runs_within(&own, &theirs)
        })
    }

    /// Returns the runs of IGMP messages that are addressed so.
    fn igmp_runs(&self, addressing: Addressing) -> Vec<Run> {
        let addressing = self.igmp_column(addressing);
        let wanted = |column: &&Column| matches!(column.scope, Scope::Igmp(own) if own.is_none_or(|own| own == addressing));
        let column = self.of(Protocol::Igmp).iter().find(wanted);
        column.map_or_else(|| vec![Run { first: 0, decision: self.rest }], |column| column.runs.clone())
    }
}

// === impl Comparison ===

impl Comparison {
    /// Compares the columns of a protocol with ports, each pair whose source ports meet. A table without columns has its rest.
    fn ports_within(
        &mut self,
        (own, own_rest): (&[Column], &[Run]),
        (theirs, their_rest): (&[Column], &[Run]),
    ) -> bool {
        let (mut at, mut other_at) = (0, 0);
        loop {
            let (sources, runs) = column_at(own, at, own_rest);
            let (other_sources, other_runs) = column_at(theirs, other_at, their_rest);
            if !self.runs_within(runs, other_runs) {
                return false;
            }
            let end = sources.last.min(other_sources.last);
            if end == u16::MAX {
                return true;
            }
            at += usize::from(sources.last == end);
            other_at += usize::from(other_sources.last == end);
        }
    }

    fn runs_within(&mut self, own: &[Run], theirs: &[Run]) -> bool {
        let steps = own.len() + theirs.len();
        if steps > self.left {
            return false;
        }
        self.left -= steps;
        let (mut at, mut other_at) = (0, 0);
        while let (Some(one), Some(other)) = (own.get(at), theirs.get(other_at)) {
            if !is_fine(one, other) {
                return false;
            }
            // The run that ends first goes on; where both end, both do.
            let end = |runs: &[Run], at: usize| {
                runs.get(at + 1).map_or(u32::from(u16::MAX) + 1, |run| run.first.into())
            };
            let (ends, other_ends) = (end(own, at), end(theirs, other_at));
            at += usize::from(ends <= other_ends);
            other_at += usize::from(other_ends <= ends);
        }
        true
    }
}

fn is_fine(own: &Run, other: &Run) -> bool {
    own.decision.verdict != Verdict::Allow || other.decision.verdict == Verdict::Allow
}

fn column_at<'c>(columns: &'c [Column], at: usize, rest: &'c [Run]) -> (PortRange, &'c [Run]) {
    columns.get(at).map_or((PortRange::ALL, rest), |column| (column.scope.sources(), &column.runs))
}
