//! From a policy as written to its meaning, with everything that is wrong said at once, in its place.

mod addresses;
mod peers;
mod ports;

use std::ops::Range;

use palisade_model::diagnostic::{Code, Diagnostic, Location};
use smol_str::SmolStr;

use super::codes;
use super::policy::{Meaning, Null, Peer, Policy, Rule, Side, Sort, Spot, Who};
use super::program;
use super::types::{self, RuleList};
use crate::apimachinery::field::Path;
use crate::apimachinery::names;
use crate::decode::Reader;
use crate::source::tree::Node;

/// The checks of one policy.
pub(super) struct Checks<'r, 'a> {
    pub reader: &'r mut Reader<'a>,
    pub sort: Sort,
    /// What the program makes of a direction with nothing behind it.
    pub null: Null,
    /// Where the program does something else: the first place of each, and how many there are.
    differences: Vec<Difference>,
    /// Why the program or Kubernetes refuses the policy.
    refused: Option<String>,
    /// How much had been found before.
    before: usize,
    /// Whether the rule at hand allows everybody: its peers are not written then, so nothing is wrong with them.
    all: bool,
    /// The findings about peers of such rules.
    beside_all: Vec<Range<usize>>,
}

/// One way in which the program differs.
struct Difference {
    code: &'static Code,
    field: String,
    message: String,
    at: Location,
    places: usize,
}

/// What a policy consists of besides its rules.
pub(super) struct Head<'w> {
    pub name: Option<&'w types::Name>,
    pub groups: Option<&'w types::Names>,
    pub unreadable: Option<&'w String>,
}

impl<'r, 'a> Checks<'r, 'a> {
    pub fn new(reader: &'r mut Reader<'a>, sort: Sort, null: Null) -> Self {
        let before = reader.found().len();
        let (differences, beside_all) = (Vec::new(), Vec::new());
        Checks { reader, sort, null, differences, refused: None, before, all: false, beside_all }
    }

    /// Whether the program would not even start, this being a part of its configuration.
    pub fn does_not_start(&self) -> bool {
        let fatal = |finding: &Diagnostic| program::DOES_NOT_START.contains(&finding.code.id);
        self.reader.found().get(self.before..).unwrap_or_default().iter().any(fatal)
    }

    /// The same for a policy whose rules stand elsewhere: there is nothing to say about directions.
    pub fn finish_head(self, policy: &mut Policy) {
        let (at, ingress) = (policy.at.take(), policy.ingress.rules.replace(Vec::new()));
        self.finish(policy);
        (policy.at, policy.ingress.rules) = (at, ingress);
    }

    /// Says where the program differs, and what it makes of all that was found: what is an error here the program, or
    /// Kubernetes after it, refuses too, except for what it does not look at.
    pub fn finish(mut self, policy: &mut Policy) {
        self.reader.subject = policy.subject();
        let refuses = |(index, finding): &(usize, &Diagnostic)| {
            let id = finding.code.id;
            let unwritten = self.beside_all.iter().any(|range| range.contains(index));
            let harmless = unwritten && program::NOT_BESIDE_ALL.contains(&id);
            finding.is_error() && !program::GOES_OVER.contains(&id) && !harmless
        };
        let error = self.reader.found().iter().enumerate().skip(self.before).find(refuses);
        let error = error
            .map(|(_, finding)| finding)
            .map(|finding| format!("{}: {}", finding.field, finding.message));
        policy.refused = policy.refused.take().or(self.refused.take()).or(error);
        if self.sort == Sort::Regular && policy.name.contains(program::BREAKS_PATHS) && policy.at.is_some() {
            let message = format!("Thorium's client cannot ask for a policy called {:?}", policy.name);
            let at = policy.at.clone();
            self.note(&codes::DIFFERS_NAME, "name".to_owned(), message, at);
        }
        let nothing = policy.ingress.is_missing() && policy.egress.is_missing();
        if nothing && policy.unreadable.is_none() && policy.at.is_some() {
            let message = "the policy says nothing; in Thorium's program it denies all ingress".to_owned();
            let at = policy.at.clone();
            self.note(&codes::DIFFERS_MISSING, String::new(), message, at);
        }
        for difference in std::mem::take(&mut self.differences) {
            let more = match difference.places {
                1 => String::new(),
                places => format!(" (here and in {} more places of the policy)", places - 1),
            };
            let message = difference.message + &more;
            self.note(difference.code, difference.field, message, Some(difference.at));
        }
    }

    fn note(&mut self, code: &'static Code, field: String, message: String, at: Option<Location>) {
        let Some(at) = at else { return };
        let path = Path::root();
        self.reader.report_at(code, &path, at, message).field = field;
    }

    /// The policy without its rules. `None` when it has no name that anybody could refer to.
    pub fn head(&mut self, head: &Head<'_>, node: &Node<'_>, path: &Path<'_>) -> Policy {
        let at = self.reader.location(node.span);
        let name = head.name.map(|name| name.0.clone());
        match name.as_deref() {
            None if node.get("name").is_none_or(Node::is_null) => {
                self.error(&codes::MISSING_FIELD, &path.child("name"), "a policy needs a name");
            }
            Some("") => {
                self.error(&codes::EMPTY_NAME, &path.child("name"), "a policy's name cannot be empty");
            }
            _ => {}
        }
        let mut groups = Vec::new();
        if self.sort == Sort::Regular {
            let path = path.child("groups");
            let there = node.get("groups").is_some_and(|node| !node.is_null());
            if head.groups.map_or(!there, |groups| groups.0.is_empty()) {
                self.error(&codes::MISSING_FIELD, &path, "a policy needs at least one group");
            }
            let written = || head.groups.into_iter().flat_map(types::Names::read);
            for (index, name) in written() {
                if let Some(why) = names::dns1123_label(name).pop() {
                    let message = format!("{name:?} cannot be a namespace: {why}");
                    self.error(&codes::GROUP_NAME, &path.index(index), &message);
                }
            }
            groups = written().map(|(index, name)| self.spot(name, &path.index(index))).collect();
        }
        let mut policy = Policy {
            name: name.unwrap_or_default(),
            sort: self.sort,
            groups,
            ingress: Side::default(),
            egress: Side::default(),
            forced: false,
            perhaps_forced: false,
            everywhere: false,
            default: false,
            unreadable: head.unreadable.cloned(),
            lost: false,
            refused: None,
            at: Some(at),
        };
        if self.sort == Sort::Regular {
            // Which policy it is, or in which groups, nobody can say: it closes all that it may have been about.
            if policy.groups.is_empty() || !head.groups.is_some_and(types::Names::is_whole) {
                policy.everywhere = true;
                policy.unreadable.get_or_insert("nobody can say in which groups it is".to_owned());
            }
            if policy.name.is_empty() {
                policy.name = policy.at.as_ref().map(ToString::to_string).unwrap_or_default().into();
                policy.unreadable.get_or_insert("it has no name".to_owned());
            }
        }
        policy
    }

    /// Whether a policy is forced and default.
    pub fn flags(
        &mut self,
        policy: &mut Policy,
        forced: Option<bool>,
        default: Option<bool>,
        node: &Node<'_>,
        path: &Path<'_>,
    ) {
        for key in ["forced_policy", "default_policy"] {
            if node.get(key).is_some_and(Node::is_null) {
                types::nothing(
                    &path.child(key),
                    self.reader,
                    "the policy holds for all tools and allows nobody",
                );
                policy.unreadable.get_or_insert(format!("nothing is behind {key}"));
                self.refuse(format!("{key} with nothing behind it"));
            }
        }
        policy.forced = forced == Some(true);
        policy.default = default == Some(true);
        // What cannot be read may have said that it is forced.
        policy.perhaps_forced = policy.unreadable.is_some();
    }

    pub fn spot(&self, name: &SmolStr, path: &Path<'_>) -> Spot {
        Spot { name: name.clone(), field: path.to_string(), at: self.reader.locate(path) }
    }

    /// One direction. `node` is the policy.
    pub fn side(
        &mut self,
        written: Option<&RuleList>,
        key: &'static str,
        node: &Node<'_>,
        path: &Path<'_>,
    ) -> Side {
        let path = path.child(key);
        let Some(list) = written else {
            let null = node.get(key).is_some_and(Node::is_null);
            if null {
                let message = format!("nothing is behind {key}: it denies everything here");
                self.error(&codes::NULL_DIRECTION, &path, &message).help = Some(format!(
                    "write {key}: [] to deny everything, or leave {key} out to say nothing about it"
                ));
                // Only thorctl reads rules files, and it wants a list; with nothing at all it takes an empty one.
                let literal = node.get(key).is_some_and(|value| !self.reader.written(value).is_empty());
                if literal && self.null == Null::Empty {
                    self.refuse(format!("{key}: null, which is no list"));
                }
            }
            return Side { rules: None, null: null.then_some(self.null) };
        };
        if list.single {
            let message = format!("{key} is one rule, not a list of rules: it is read as a list of one");
            self.reader.report(&codes::SINGLE_RULE, &path, message).help =
                Some("put a dash before the rule".to_owned());
            if self.sort == Sort::Regular {
                self.refuse(format!("{key}, which is no list"));
            }
            let rules = list.rules.iter().map(|rule| self.rule(rule, &path)).collect();
            return Side { rules: Some(rules), null: None };
        }
        let rules =
            list.rules.iter().enumerate().map(|(index, rule)| self.rule(rule, &path.index(index))).collect();
        Side { rules: Some(rules), null: None }
    }

    fn rule(&mut self, rule: &types::Rule, path: &Path<'_>) -> Rule {
        let mut unreadable = rule.unreadable.clone();
        let (ports, program_ports) = self.ports(rule, path, &mut unreadable);
        self.all = rule.allowed_all == Some(true);
        let before = self.reader.found().len();
        let mut peers = Vec::new();
        // What the program has of them besides: it goes over fields that it does not know.
        let mut only_program = Vec::new();
        for (index, block) in rule.allowed_ips.iter().flatten().enumerate() {
            match self.block(block, &path.child("allowed_ips").index(index)) {
                Ok(network) if block.unreadable.is_some() => {
                    only_program.extend(network.map(Peer::Addresses));
                    let what = format!("{path}.allowed_ips[{index}] cannot be read");
                    unreadable.get_or_insert(what);
                }
                Ok(network) => peers.extend(network.map(Peer::Addresses)),
                Err(what) => drop(unreadable.get_or_insert(what)),
            }
        }
        for (index, group) in rule.allowed_groups.iter().flatten().enumerate() {
            let path = path.child("allowed_groups");
            let path = path.index(index);
            self.name(group, &path, "group", &mut unreadable);
            peers.push(Peer::Group(self.spot(group, &path)));
        }
        let groups: Vec<Spot> = peers
            .iter()
            .filter_map(|peer| if let Peer::Group(spot) = peer { Some(spot.clone()) } else { None })
            .collect();
        self.tools(rule, path, &mut peers, &mut unreadable);
        let local = rule.allowed_local == Some(true);
        let internet = rule.allowed_internet == Some(true);
        peers.extend(local.then(addresses::local).into_iter().flatten());
        peers.extend(internet.then(addresses::internet).into_iter().flatten());
        for (flag, key) in [(local, "allowed_local"), (internet, "allowed_internet")] {
            if flag {
                let message = format!("{key} also opens cluster DNS in Thorium's program");
                self.differs(&codes::DIFFERS_DNS, &path.child(key), &message);
            }
        }
        for (index, custom) in rule.allowed_custom.iter().flatten().enumerate() {
            match self.custom(custom, &path.child("allowed_custom").index(index)) {
                Ok(peer) if custom_doubt(custom) => {
                    only_program.push(peer);
                    let what = format!("{path}.allowed_custom[{index}] cannot be read");
                    unreadable.get_or_insert(what);
                }
                Ok(peer) => peers.push(peer),
                Err(what) => drop(unreadable.get_or_insert(what)),
            }
        }
        if self.all {
            self.beside_all.push(before..self.reader.found().len());
            self.all = false;
        }
        let everybody = rule.allowed_all == Some(true);
        let names_somebody = everybody || !peers.is_empty() || local || internet || written(rule);
        if !names_somebody && unreadable.is_none() {
            let message = "the rule names nobody: it allows nobody";
            self.reader.report(&codes::NO_PEER, path, message).help = Some(
                "Thorium's program takes it for everybody; write allowed_all: true to mean that".to_owned(),
            );
        }
        only_program.extend(peers.iter().cloned());
        let program = Meaning { who: program::who(rule, &only_program), ports: program_ports };
        let who = if everybody { Who::Everybody } else { Who::Of(peers) };
        let at = Some(self.reader.locate(path));
        Rule { document: Meaning { who, ports }, program, unreadable, lost: false, groups, at }
    }

    pub(super) fn refused_name(&mut self, text: &str, path: &Path<'_>) {
        let message = format!("{text:?} is refused by Thorium's API, and the whole policy with it");
        self.differs(&codes::DIFFERS_LABEL, path, &message);
        self.refuse(format!("{text:?}, which its API refuses"));
    }

    /// Reports an error.
    pub(super) fn error(&mut self, code: &'static Code, path: &Path<'_>, message: &str) -> &mut Diagnostic {
        self.reader.report(code, path, message)
    }

    pub(super) fn refuse(&mut self, why: String) {
        self.refused.get_or_insert(why);
    }

    /// Notes that the program does something else.
    pub fn differs(&mut self, code: &'static Code, path: &Path<'_>, message: &str) {
        match self.differences.iter_mut().find(|known| known.code.id == code.id) {
            Some(known) => known.places += 1,
            None => self.differences.push(Difference {
                code,
                field: path.to_string(),
                message: message.to_owned(),
                at: self.reader.locate(path),
                places: 1,
            }),
        }
    }
}

/// Whether a custom rule has a field that nobody knows.
fn custom_doubt(custom: &types::Custom) -> bool {
    let mut labels = [&custom.namespace_labels, &custom.pod_labels].into_iter().flatten().flatten();
    custom.unreadable.is_some() || labels.any(|label| label.unreadable.is_some())
}

/// Whether somebody is named, although nobody may be left of it.
fn written(rule: &types::Rule) -> bool {
    let some = |list: usize| list > 0;
    some(rule.allowed_ips.as_ref().map_or(0, Vec::len))
        || some(rule.allowed_custom.as_ref().map_or(0, Vec::len))
}
