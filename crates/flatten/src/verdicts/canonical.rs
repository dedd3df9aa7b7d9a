//! The canonical form of a table: columns that need not be distinguished become one.

use palisade_model::traffic::{PortRange, Protocol};
use palisade_model::traffic_set::Addressing;

use super::{Column, FlatVerdicts, Run, Scope};

// === impl FlatVerdicts ===

impl FlatVerdicts {
    /// Joins equal columns, and removes protocols whose columns all have the decision of the rest.
    pub(super) fn make_canonical(&mut self) {
        let mut columns: Vec<Column> = Vec::with_capacity(self.columns.len());
        let mut igmp = Vec::new();
        for column in std::mem::take(&mut self.columns) {
            match (column.scope, columns.last_mut()) {
                (Scope::Igmp(_), _) => igmp.push(column),
                (Scope::Ports { protocol, sources }, Some(last)) => match &mut last.scope {
                    Scope::Ports { protocol: own, sources: range }
                        if *own == protocol && last.runs == column.runs =>
                    {
                        *range = PortRange { first: range.first, last: sources.last };
                    }
                    _ => columns.push(column),
                },
                _ => columns.push(column),
            }
        }
        columns.extend(joined_igmp(igmp));
        let is_rest =
            |column: &Column| matches!(column.runs[..], [Run { decision, .. }] if decision == self.rest);
        let differs = |protocol: Protocol| {
            columns.iter().any(|column| column.scope.protocol() == protocol && !is_rest(column))
        };
        let kept: Vec<bool> = columns.iter().map(|column| differs(column.scope.protocol())).collect();
        let mut kept = kept.into_iter();
        columns.retain(|_| kept.next().unwrap_or(true));
        // Protocols keep their order: that of the layout.
        columns.sort_by_key(|column| column.scope.protocol());
        self.columns = columns;
    }
}

/// A group whose messages get what those of other groups get needs no column, and without groups neither does a host that gets
/// the same.
fn joined_igmp(mut columns: Vec<Column>) -> Vec<Column> {
    let is = |column: &Column, addressing| column.scope == Scope::Igmp(Some(addressing));
    let Some(other) = columns.iter().find(|column| is(column, Addressing::OtherGroup)) else {
        return columns;
    };
    let other = other.runs.clone();
    columns.retain(|column| {
        !matches!(column.scope, Scope::Igmp(Some(Addressing::Group(_)))) || column.runs != other
    });
    match &columns[..] {
        [one, two] if one.runs == two.runs => vec![Column { scope: Scope::Igmp(None), runs: other }],
        _ => columns,
    }
}
