//! Lists that are denied everything because there was no room for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use palisade_engine::delta::{CompiledRule as ViewRule, PolicyId};
use palisade_engine::view::View;
use palisade_flatten::{Layer7Support, RuleList};
use palisade_model::policy::Direction;

use super::{CompiledList, PART};
use crate::compile::compiler::Compiler;
use crate::compile::names::direction_prefix;
use crate::program::Name;

// === impl Compiler ===

impl Compiler {
    /// Returns the list of endpoints for whose rules no budget is left: it denies everything.
    pub(in crate::compile) fn closed_list(&mut self, direction: Direction) -> Name {
        let name = closed_name(direction);
        if let Some(listed) = self.lists.get_mut(&name) {
            listed.users += 1;
            return name;
        }
        self.close(name, direction, 0, String::new())
    }

    /// Adds a list that denies everything, because `granted` steps were not enough for it.
    pub(super) fn close(&mut self, name: Name, direction: Direction, granted: u64, message: String) -> Name {
        let listed = CompiledList {
            list: Arc::new(RuleList::new(Vec::new(), direction, Layer7Support::None)),
            via: None,
            shared: Vec::new(),
            classes: None,
            chains: BTreeMap::new(),
            services: Vec::new(),
            users: 1,
            cost: 0,
            chain_cost: 0,
            closed_with: Some(granted),
        };
        self.lists.insert(name.clone(), listed);
        self.closed.insert(name.clone(), message);
        self.stale.insert(name.clone());
        name
    }

    /// Returns the closed lists that are worth another attempt: there is twice the room that there was for them.
    pub(in crate::compile) fn worth_retrying(&self) -> BTreeSet<Name> {
        let room = self.budget.left() / PART;
        let closed = self.closed.keys().filter_map(|name| Some((name, self.lists.get(name)?.closed_with?)));
        let worth = closed.filter(|(_, with)| room >= self.limit.least_retry() && room / 2 >= *with);
        let mut worth: BTreeSet<Name> = worth.map(|(name, _)| name.clone()).collect();
        // Lists for connections to services are compiled with the lists that lead to them.
        let leads = |listed: &CompiledList| listed.services.iter().any(|(_, list)| worth.contains(list));
        let leading: Vec<Name> =
            self.lists.iter().filter(|(_, listed)| leads(listed)).map(|(name, _)| name.clone()).collect();
        worth.extend(leading);
        worth
    }

    /// Updates the messages about endpoints that are denied everything because no budget was left for their rules.
    pub(in crate::compile) fn report_closed(&mut self) {
        for direction in Direction::BOTH {
            let name = closed_name(direction);
            if !self.lists.contains_key(&name) {
                continue;
            }
            let pods = self.pod_lists.iter().filter(|(_, lists)| lists.get(&direction) == Some(&name));
            let mut endpoints: Vec<String> =
                pods.map(|(pod, _)| format!("pod {}/{}", pod.namespace, pod.name)).collect();
            endpoints.extend((self.node_lists.get(&direction) == Some(&name)).then(|| "the node".to_owned()));
            if endpoints.is_empty() {
                // The list is for connections to services only.
                let leads = |listed: &&CompiledList| listed.services.iter().any(|(_, list)| *list == name);
                let Some(listed) = self.lists.values().find(leads) else { continue };
                let rules = listed.list.rules().iter().map(|rule| &**rule);
                let message = too_much(&self.view, rules, direction);
                self.closed.insert(name, message);
                continue;
            }
            let more = endpoints.len().saturating_sub(3);
            endpoints.truncate(3);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let message = format!(
                "{}{more}: the policies of this node tell more apart than can be put into a kernel: everything is \
                 denied in {direction}",
                endpoints.join(", ")
            );
            self.closed.insert(name, message);
        }
    }
}

/// Returns the message about a list that distinguishes too much.
pub(super) fn too_much<'r>(
    view: &View,
    rules: impl Iterator<Item = &'r ViewRule>,
    direction: Direction,
) -> String {
    // Rules of a policy follow each other.
    let mut ids: Vec<PolicyId> = rules.map(|rule| rule.policy).collect();
    ids.dedup();
    let more = ids.len().saturating_sub(3);
    let origins = ids.iter().take(3).filter_map(|policy| view.policies().get(policy));
    let policies: Vec<String> = origins.map(|origin| origin.object.to_string()).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(
        "{}{more}: together they tell more ports and peers apart than can be put into a kernel: what they cannot is denied in {}",
        policies.join(", "),
        direction
    )
}

/// Returns the chain of endpoints for whose rules no budget is left.
fn closed_name(direction: Direction) -> Name {
    format!("{}_closed", direction_prefix(direction)).into()
}
