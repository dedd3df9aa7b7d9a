//! A node's part of the view as a program.
//!
//! ```text
//!   forward ─► from_pod: whose packet is it? ─jump─► eg_…: who is the peer? ─goto─► pr_…: what does it carry? ─goto─► ok_…, no_…
//!           └► to_pod: who gets it?          ─goto─► in_…: the same                                                 the verdict,
//!                                                                                                                   counted
//! ```
//!
//! Pods to which the same rules apply share their chains. A chain tells peers apart by what they may do: whoever may do the
//! same is in one set, whatever policies that comes from. So a packet is looked up three times in each direction, however many
//! policies, pods and peers there are.
//!
//! Names are made of what a thing says, not of when it came: the same policies are the same program, to the byte.

mod chains;
mod decide;
pub mod live;
mod names;
mod peers;

use std::collections::{BTreeMap, BTreeSet};

use palisade_engine::delta::{Content, Does, Member, MemberKind, Rule as ViewRule, SetId};
use palisade_engine::view::View;
use palisade_model::address::Family;
use palisade_model::policy::{Action, Direction};

use self::decide::{List, is_about_some_igmp};
use self::names::Names;
use self::peers::{Peers, named};
use crate::program::{Chain, Field, Hook, Key, Match, Name, Program, Rule, Set, Value, Verdict};

/// A program, and what of the policies it cannot do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiled {
    /// The program.
    pub program: Program,
    /// What the kernel cannot do, each once, in words: it is done in the nearest way that allows less, or, where it says so, not
    /// at all.
    pub lacks: BTreeSet<String>,
}

/// The program for a node, from its part of the view.
pub fn compile(part: &View, node: &str) -> Compiled {
    let mut compiler = Compiler {
        view: part,
        names: Names::new(part),
        program: Program::default(),
        lacks: BTreeSet::new(),
        lists: BTreeMap::new(),
    };
    compiler.pods(node);
    compiler.node(node);
    compiler.base();
    compiler.missing();
    Compiled { program: compiler.program, lacks: compiler.lacks }
}

struct Compiler<'v> {
    view: &'v View,
    names: Names,
    program: Program,
    lacks: BTreeSet<String>,
    /// The chain for each list of rules.
    lists: BTreeMap<(Direction, Vec<String>, Option<SetId>), Name>,
}

impl<'v> Compiler<'v> {
    /// Dispatch by the addresses of pods.
    fn pods(&mut self, node: &str) {
        let mut pods: BTreeMap<&Member, BTreeSet<SetId>> = BTreeMap::new();
        for (id, set) in self.view.sets() {
            if self.view.rules_of(*id).next().is_some() {
                for member in set.members.iter().filter(|member| member.is_on(node)) {
                    if matches!(member.kind, MemberKind::Pod) {
                        pods.entry(member).or_default().insert(*id);
                    }
                }
            }
        }
        for family in [Family::V4, Family::V6] {
            for direction in Direction::BOTH {
                let field = match direction {
                    Direction::Egress => Field::Source(family),
                    Direction::Ingress => Field::Destination(family),
                };
                let comment = match direction {
                    Direction::Egress => "pods of this node, by whose packets are judged",
                    Direction::Ingress => "pods of this node, by who gets them",
                };
                let map = Set {
                    key: vec![field.is_of()],
                    elements: BTreeMap::new(),
                    is_map: true,
                    interval: false,
                    comment: comment.to_owned(),
                };
                self.program.sets.insert(dispatch(direction, family), map);
            }
        }
        for (member, subjects) in pods {
            for direction in Direction::BOTH {
                let rules = self.rules(&subjects, direction);
                let Some(chain) = self.list(&rules, direction, None) else { continue };
                for address in &member.addresses {
                    let verdict = match direction {
                        Direction::Egress => Verdict::Jump(chain.clone()),
                        Direction::Ingress => Verdict::Goto(chain.clone()),
                    };
                    let map = self.program.sets.get_mut(&dispatch(direction, Family::of(*address)));
                    if let Some(map) = map {
                        map.elements.insert(vec![single(Value::Address(*address))], Some(verdict));
                    }
                }
            }
        }
    }

    /// The rules that apply to these sets, in their order.
    fn rules(&self, subjects: &BTreeSet<SetId>, direction: Direction) -> Vec<&'v ViewRule> {
        let rules = subjects.iter().flat_map(|set| self.view.rules_of(*set));
        let mut rules: Vec<&ViewRule> = rules.filter(|rule| rule.directions.contains(direction)).collect();
        rules.sort_by(|one, other| {
            // Rows of one rule are alike in what they do; their order is only for the name of the chain.
            let by_content = || self.names.rule(self.view, one).cmp(&self.names.rule(self.view, other));
            self.view.compare(one, other).then_with(by_content)
        });
        rules
    }

    /// The chain of a list of rules; none if it has nothing to say.
    fn list(&mut self, rules: &[&ViewRule], direction: Direction, via: Option<SetId>) -> Option<Name> {
        if rules.is_empty() {
            return None;
        }
        let content: Vec<String> = rules.iter().map(|rule| self.names.rule(self.view, rule)).collect();
        let key = (direction, content, via);
        if let Some(name) = self.lists.get(&key) {
            return Some(name.clone());
        }
        let prefix = if direction == Direction::Egress { "eg" } else { "in" };
        let via_text = via.map(|via| self.names.set(via)).unwrap_or_default();
        let name = names::hashed(prefix, &format!("{:?} {via_text}", key.1));
        self.lists.insert(key, name.clone());
        let sets = named(rules);
        let mut chain = Chain::default();
        if via.is_none() {
            chain.rules.push(
                Rule::new([Match::LooseTcp], Verdict::Drop)
                    .comment("what is left of a connection that was cut"),
            );
            self.services(rules, direction, &sets, &mut chain);
        }
        let list = List { rules: rules.to_vec() };
        let peers = Peers::of(self.view, &sets, via);
        let nobody: Vec<SetId> = via.into_iter().collect();
        let default = list.behaviour(&nobody);
        self.tell_apart(&list, &peers, &default, direction, &mut chain);
        let rest = self.behaviour(&default, direction);
        chain.rules.push(Rule::new([], Verdict::Goto(rest)).comment("anybody else"));
        self.program.chains.insert(name.clone(), chain);
        Some(name)
    }

    /// What goes to a service that rules name has chains of its own.
    fn services(
        &mut self,
        rules: &[&ViewRule],
        direction: Direction,
        sets: &BTreeSet<SetId>,
        chain: &mut Chain,
    ) {
        for id in sets {
            let Some(set) = self.view.sets().get(id) else { continue };
            if !matches!(&*set.content, Content::Service(_)) {
                continue;
            }
            let Some(to) = self.list(rules, direction, Some(*id)) else { continue };
            for family in [Family::V4, Family::V6] {
                let addresses = set.members.iter().flat_map(|member| &member.addresses).copied();
                let addresses: Vec<Key> = addresses
                    .filter(|address| Family::of(*address) == family)
                    .map(|address| vec![single(Value::Address(address))])
                    .collect();
                if addresses.is_empty() {
                    continue;
                }
                let field = Field::OriginalDestination(family);
                let text = self.names.set(*id);
                let name = self.set(vec![field.is_of()], addresses, &text);
                chain.rules.push(Rule::new([Match::In(vec![field], name)], Verdict::Goto(to.clone())));
            }
        }
    }

    /// The rules for the node itself.
    fn node(&mut self, node: &str) {
        let mut subjects = BTreeSet::new();
        for (id, set) in self.view.sets() {
            let own = |member: &Member| member.kind == MemberKind::Node && member.name == node;
            if set.members.iter().any(|member| own(member)) && self.view.rules_of(*id).next().is_some() {
                subjects.insert(*id);
            }
        }
        for (direction, name) in [(Direction::Ingress, "in_node"), (Direction::Egress, "eg_node")] {
            let rules = self.rules(&subjects, direction);
            if let Some(chain) = self.list(&rules, direction, None) {
                let rule = Rule::new([], Verdict::Goto(chain));
                self.program.chains.insert(name.into(), Chain { hook: None, rules: vec![rule] });
            }
        }
    }

    /// Where packets come in.
    fn base(&mut self) {
        let loopback = |way: Match| Rule::new([way], Verdict::Accept).comment("this machine with itself");
        let always = [
            Rule::new([Match::NeighbourDiscovery], Verdict::Accept).comment("neighbour discovery"),
            Rule::new([Match::Established], Verdict::Accept).comment("connections that are known"),
        ];
        let pods = |direction: Direction| {
            [Family::V4, Family::V6].map(|family| {
                let field = match direction {
                    Direction::Egress => Field::Source(family),
                    Direction::Ingress => Field::Destination(family),
                };
                Rule::new([], Verdict::Map(vec![field], dispatch(direction, family)))
            })
        };
        let mut forward = always.to_vec();
        forward.extend(pods(Direction::Egress));
        forward.extend(pods(Direction::Ingress));
        let mut input = vec![loopback(Match::LoopbackIn)];
        input.extend(always.clone());
        input.extend(pods(Direction::Egress));
        if self.program.chains.contains_key("in_node") {
            input.push(Rule::new([], Verdict::Goto("in_node".into())));
        }
        // A pod's own node always reaches it.
        let mut output = vec![loopback(Match::LoopbackOut)];
        output.extend(always);
        if self.program.chains.contains_key("eg_node") {
            output.push(Rule::new([], Verdict::Jump("eg_node".into())));
        }
        for (name, hook, rules) in [
            ("forward", Hook::Forward, forward),
            ("input", Hook::Input, input),
            ("output", Hook::Output, output),
        ] {
            self.program.chains.insert(name.into(), Chain { hook: Some(hook), rules });
        }
    }

    /// What the kernel cannot do of these rules.
    fn missing(&mut self) {
        for rule in self.view.rules().values() {
            let who = self.who(Some((rule.policy, rule.rule)));
            if !rule.layer7.is_empty() && rule.does == Does::Act(Action::Allow) {
                self.lacks
                    .insert(format!("{who}: conditions on layer 7 cannot be checked, so it allows nothing"));
            }
            if is_about_some_igmp(rule) {
                let way = match rule.does {
                    Does::Act(Action::Allow) => "allows none of it",
                    _ => "refuses all of it",
                };
                self.lacks.insert(format!("{who}: types and groups of IGMP are not told apart, so it {way}"));
            }
            let gate = self.view.sets().get(&rule.subject);
            if gate.is_some_and(|set| matches!(&*set.content, Content::Service(_))) {
                self.lacks.insert(format!("{who}: applies to a service, which is not enforced here"));
            }
        }
    }
}

fn dispatch(direction: Direction, family: Family) -> Name {
    let number = if family == Family::V4 { "4" } else { "6" };
    match direction {
        Direction::Egress => format!("from_pod{number}").into(),
        Direction::Ingress => format!("to_pod{number}").into(),
    }
}

fn single(value: Value) -> (Value, Value) {
    (value, value)
}
