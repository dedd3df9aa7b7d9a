//! From a policy as written to its meaning, with everything that is wrong said at once, in its place.

use ipnet::IpNet;
use palisade_model::address::Block;
use palisade_model::diagnostic::{Code, Diagnostic, Location};
use palisade_model::traffic::{PortRange, Protocol};
use smol_str::SmolStr;

use super::codes;
use super::policy::{Home, Meaning, Null, Peer, Policy, Ports, Rule, Side, Sort, Spot, Who};
use super::program;
use super::types::{self, RuleList};
use crate::apimachinery::field::Path;
use crate::apimachinery::names;
use crate::decode::Reader;
use crate::source::tree::Node;

/// RFC 1918 and unique local addresses: what `allowed_local` means.
const LOCAL: [&str; 4] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"];
/// Everything: `allowed_internet` is that without the local addresses.
const ALL: [&str; 2] = ["0.0.0.0/0", "::/0"];

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
        Checks { reader, sort, null, differences: Vec::new(), refused: None, before }
    }

    /// Says where the program differs, and what it makes of all that was found: what is an error here the program, or
    /// Kubernetes after it, refuses too, except for what it does not look at.
    pub fn finish(mut self, policy: &mut Policy) {
        self.reader.subject = policy.subject();
        let refuses =
            |finding: &&Diagnostic| finding.is_error() && !program::GOES_OVER.contains(&finding.code.id);
        let error = self.reader.found().get(self.before..).unwrap_or_default().iter().find(refuses);
        let error = error.map(|finding| format!("{}: {}", finding.field, finding.message));
        policy.refused = policy.refused.take().or(self.refused.take()).or(error);
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
            let written = head.groups.map(|groups| groups.0.as_slice()).unwrap_or_default();
            let there = node.get("groups").is_some_and(|node| !node.is_null());
            if written.is_empty() && (head.groups.is_some() || !there) {
                self.error(&codes::MISSING_FIELD, &path, "a policy needs at least one group");
            }
            groups =
                written.iter().enumerate().map(|(index, name)| self.spot(name, &path.index(index))).collect();
        }
        Policy {
            name: name.unwrap_or_default(),
            sort: self.sort,
            groups,
            ingress: Side::default(),
            egress: Side::default(),
            forced: false,
            default: false,
            unreadable: head.unreadable.cloned(),
            lost: false,
            refused: None,
            at: Some(at),
        }
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
            }
            return Side { rules: None, null: null.then_some(self.null) };
        };
        if list.single {
            let message = format!("{key} is one rule, not a list of rules: it is read as a list of one");
            self.reader.report(&codes::SINGLE_RULE, &path, message).help =
                Some("put a dash before the rule".to_owned());
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
        let mut peers = Vec::new();
        for (index, block) in rule.allowed_ips.iter().flatten().enumerate() {
            match self.block(block, &path.child("allowed_ips").index(index)) {
                Ok(block) => peers.extend(block.map(Peer::Addresses)),
                Err(what) => drop(unreadable.get_or_insert(what)),
            }
        }
        for (index, group) in rule.allowed_groups.iter().flatten().enumerate() {
            let path = path.child("allowed_groups");
            let path = path.index(index);
            self.name(group, &path, "group", &mut unreadable);
            peers.push(Peer::Group(self.spot(group, &path)));
        }
        self.tools(rule, path, &mut peers, &mut unreadable);
        let local = rule.allowed_local == Some(true);
        let internet = rule.allowed_internet == Some(true);
        peers.extend(local.then(local_blocks).into_iter().flatten());
        peers.extend(internet.then(internet_blocks).into_iter().flatten());
        for (flag, key) in [(local, "allowed_local"), (internet, "allowed_internet")] {
            if flag {
                let message = format!("{key} also opens cluster DNS in Thorium's program");
                self.differs(&codes::DIFFERS_DNS, &path.child(key), &message);
            }
        }
        for (index, custom) in rule.allowed_custom.iter().flatten().enumerate() {
            match self.custom(custom, &path.child("allowed_custom").index(index)) {
                Ok(peer) => peers.push(peer),
                Err(what) => drop(unreadable.get_or_insert(what)),
            }
        }
        let everybody = rule.allowed_all == Some(true);
        let names_somebody = everybody || !peers.is_empty() || local || internet || written(rule);
        if !names_somebody && unreadable.is_none() {
            let message = "the rule names nobody: it allows nobody";
            self.reader.report(&codes::NO_PEER, path, message).help = Some(
                "Thorium's program takes it for everybody; write allowed_all: true to mean that".to_owned(),
            );
        }
        let program = Meaning { who: program::who(rule, &peers), ports: program_ports };
        let who = if everybody { Who::Everybody } else { Who::Of(peers) };
        let at = Some(self.reader.locate(path));
        Rule { document: Meaning { who, ports }, program, unreadable, at }
    }

    /// `ports`, as the document and as the program have them.
    fn ports(
        &mut self,
        rule: &types::Rule,
        path: &Path<'_>,
        unreadable: &mut Option<String>,
    ) -> (Vec<Ports>, Vec<Ports>) {
        let (mut all, mut program) = (Vec::new(), Vec::new());
        for (index, port) in rule.ports.iter().flatten().enumerate() {
            let path = path.child("ports");
            let path = path.index(index);
            let range = self.range(port, &path);
            let protocol = self.protocol(port, &path);
            match (range, protocol, &port.unreadable) {
                (Some(range), Some(protocols), None) => {
                    all.extend(protocols.iter().map(|protocol| Ports { protocol: *protocol, range }));
                    program.extend(protocols.first().map(|protocol| Ports { protocol: *protocol, range }));
                }
                _ => drop(unreadable.get_or_insert(format!("{path} cannot be read"))),
            }
        }
        (all, program)
    }

    fn range(&mut self, port: &types::Port, path: &Path<'_>) -> Option<PortRange> {
        let mut number = |value: Option<i64>, key: &str| -> Option<u16> {
            let value = value?;
            let number = u16::try_from(value).ok().filter(|number| *number > 0);
            if number.is_none() {
                let path = path.child(key);
                let message = format!("{value} is not a port: they go from 1 to 65535");
                self.error(&codes::PORT, &path, &message);
            }
            number
        };
        let (first, last) = (number(port.port, "port"), number(port.end_port, "end_port"));
        if port.port.is_none() && port.unreadable.is_none() {
            self.error(&codes::MISSING_FIELD, &path.child("port"), "a port needs its number");
        }
        let first = first?;
        let last = if port.end_port.is_some() { last? } else { first };
        if last < first {
            let message = format!("end_port {last} is below port {first}");
            self.error(&codes::PORT_RANGE, &path.child("end_port"), &message);
            return None;
        }
        Some(PortRange { first, last })
    }

    /// The protocols of a port; the first is the one that the program takes.
    fn protocol(&mut self, port: &types::Port, path: &Path<'_>) -> Option<Vec<Protocol>> {
        let Some(name) = port.protocol.as_deref() else {
            let message = "no protocol means TCP, UDP and SCTP; in Thorium's program it is TCP only";
            self.differs(&codes::DIFFERS_PROTOCOL, path, message);
            return Some(vec![Protocol::Tcp, Protocol::Udp, Protocol::Sctp]);
        };
        let protocol = Protocol::from_kubernetes(name);
        if protocol.is_none() {
            let message = format!("{name:?} is not TCP, UDP or SCTP");
            let capitals = Protocol::from_kubernetes(&name.to_ascii_uppercase());
            self.error(&codes::PROTOCOL, &path.child("protocol"), &message).help =
                capitals.map(|protocol| format!("write {}", protocol.as_kubernetes()));
        }
        protocol.map(|protocol| vec![protocol])
    }

    /// A block; `None` when its exceptions leave nothing of it.
    fn block(&mut self, block: &types::IpBlock, path: &Path<'_>) -> Result<Option<Block>, String> {
        let unreadable = format!("{path} cannot be read");
        let cidr_path = path.child("cidr");
        let Some(text) = &block.cidr else {
            if block.unreadable.is_none() {
                self.error(&codes::MISSING_FIELD, &cidr_path, "an address block needs its cidr");
            }
            return Err(unreadable);
        };
        let network = self.network(text, &cidr_path);
        let written = block.except.as_deref().unwrap_or_default();
        let except_path = path.child("except");
        let mut fine = block.unreadable.is_none();
        if network.is_some() && !text.contains('/') {
            let message =
                format!("Thorium's program writes {text} without a length: Kubernetes refuses the policy");
            self.differs(&codes::DIFFERS_ADDRESS, &cidr_path, &message);
            self.refuse(format!("the single address {text}"));
            if !written.is_empty() {
                let message = format!("{text} is a single address: there is nothing to except");
                self.error(&codes::EXCEPT_ON_ADDRESS, &except_path, &message);
                return Err(unreadable);
            }
        }
        let mut except = Vec::new();
        let mut nothing_left = false;
        for (index, text) in written.iter().enumerate() {
            let path = except_path.index(index);
            let Some(net) = self.network(text, &path) else {
                fine = false;
                continue;
            };
            let Some(network) = network else { continue };
            if network.addr().is_ipv4() != net.addr().is_ipv4() {
                let message = format!("{text} is of the other address family than {network}");
                self.error(&codes::EXCEPT_FAMILY, &path, &message);
                fine = false;
            } else if !network.contains(&net) {
                let message = format!("{text} is not inside {network}");
                self.error(&codes::EXCEPT_OUTSIDE, &path, &message).label =
                    Some(format!("not inside {network}"));
                fine = false;
            } else if net == network {
                let message = format!("{text} excepts all of {network}: nothing of it is allowed");
                self.reader.report(&codes::EMPTY_BLOCK, &path, message);
                self.refuse(format!("the exception {text}, which is all of its block"));
                nothing_left = true;
            }
            except.push(net);
        }
        match network.filter(|_| fine) {
            None => Err(unreadable),
            Some(_) if nothing_left => Ok(None),
            Some(network) => Ok(Some(Block::new(network, except))),
        }
    }

    /// An address or a block without bits beyond its length.
    fn network(&mut self, text: &str, path: &Path<'_>) -> Option<IpNet> {
        if let Some(network) = network(text) {
            return Some(network);
        }
        let lax = text.parse::<IpNet>().ok();
        let message = match lax {
            Some(_) => format!("{text} has bits beyond its length"),
            None => format!("{text:?} is not an address or an address block"),
        };
        self.error(&codes::CIDR, path, &message).help =
            lax.map(|lax| format!("write {} for the block, or {} for the address", lax.trunc(), lax.addr()));
        None
    }

    fn tools(
        &mut self,
        rule: &types::Rule,
        path: &Path<'_>,
        peers: &mut Vec<Peer>,
        unreadable: &mut Option<String>,
    ) {
        let lists = [("allowed_tools", &rule.allowed_tools), ("tools", &rule.tools)];
        if let [(_, Some(_)), (_, Some(_))] = lists {
            let message = "tools and allowed_tools are one field: the rule allows nobody";
            self.error(&codes::BOTH_TOOLS, &path.child("tools"), message).help =
                Some("put all tools into allowed_tools".to_owned());
            unreadable.get_or_insert("tools and allowed_tools in one rule".to_owned());
        } else if rule.tools.is_some() {
            let message = "tools is read as allowed_tools; Thorium's program ignores it";
            self.reader.report(&codes::TOOLS_SPELLING, &path.child("tools"), message).help =
                Some("write allowed_tools".to_owned());
        }
        for (key, list) in lists {
            let path = path.child(key);
            for (index, tool) in list.iter().flatten().enumerate() {
                self.name(tool, &path.index(index), "tool", unreadable);
                peers.push(Peer::Tool(tool.clone()));
            }
        }
    }

    /// The name of a group or a tool, which must be the value of a label.
    fn name(&mut self, name: &str, path: &Path<'_>, what: &str, unreadable: &mut Option<String>) {
        let wrong = if name.is_empty() { Some(String::new()) } else { names::label_value(name).pop() };
        if let Some(why) = wrong {
            let message =
                format!("{name:?} is no name of a {what}{}{why}", if why.is_empty() { "" } else { ": " });
            self.error(&codes::LABEL, path, &message);
            unreadable.get_or_insert(format!("{path} cannot be read"));
        } else if self.sort == Sort::Regular && !program::takes_name(name) {
            self.refused_name(name, path);
        }
    }

    fn custom(&mut self, custom: &types::Custom, path: &Path<'_>) -> Result<Peer, String> {
        let unreadable = format!("{path} cannot be read");
        let namespaces = self.labels(custom.namespace_labels.as_deref(), &path.child("namespace_labels"));
        let pods = self.labels(custom.pod_labels.as_deref(), &path.child("pod_labels"));
        if custom.unreadable.is_some() {
            return Err(unreadable);
        }
        let (Some(namespaces), Some(pods)) = (namespaces, pods) else { return Err(unreadable) };
        match (namespaces.is_empty(), pods.is_empty()) {
            (true, true) => {
                let message = "a custom rule needs namespace_labels, pod_labels or both";
                self.error(&codes::CUSTOM, path, message);
                return Err(unreadable);
            }
            (true, false) => {
                let message = "pods of any namespace; in Thorium's program of the tool's own group only";
                self.differs(&codes::DIFFERS_POD_LABELS, path, message);
            }
            _ => {}
        }
        let namespaces = if namespaces.is_empty() { Home::Any } else { Home::Labels(namespaces) };
        Ok(Peer::Labels { namespaces, pods })
    }

    /// The labels of a list; `None` when one of them cannot be read.
    fn labels(
        &mut self,
        labels: Option<&[types::Label]>,
        path: &Path<'_>,
    ) -> Option<Vec<(SmolStr, SmolStr)>> {
        let mut read = Vec::new();
        let mut fine = true;
        for (index, label) in labels.unwrap_or_default().iter().enumerate() {
            let path = path.index(index);
            let parts = [
                (&label.key, "key", names::qualified_name as fn(&str) -> Vec<String>),
                (&label.value, "value", names::label_value),
            ];
            fine &= label.unreadable.is_none();
            for (part, key, check) in parts {
                let path = path.child(key);
                let Some(text) = part else {
                    if label.unreadable.is_none() {
                        self.error(&codes::MISSING_FIELD, &path, &format!("a label needs its {key}"));
                    }
                    fine = false;
                    continue;
                };
                if let Some(why) = check(text).pop() {
                    self.error(&codes::LABEL, &path, &format!("{text:?} is no {key} of a label: {why}"));
                    fine = false;
                } else if self.sort == Sort::Regular && !program::takes_name(text) {
                    self.refused_name(text, &path);
                }
            }
            if let (Some(key), Some(value)) = (&label.key, &label.value) {
                read.push((key.clone(), value.clone()));
            }
        }
        fine.then_some(read)
    }

    fn refused_name(&mut self, text: &str, path: &Path<'_>) {
        let message = format!("{text:?} is refused by Thorium's API, and the whole policy with it");
        self.differs(&codes::DIFFERS_LABEL, path, &message);
        self.refuse(format!("{text:?}, which its API refuses"));
    }

    /// Reports an error.
    fn error(&mut self, code: &'static Code, path: &Path<'_>, message: &str) -> &mut Diagnostic {
        self.reader.report(code, path, message)
    }

    fn refuse(&mut self, why: String) {
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

/// Whether somebody is named, although nobody may be left of it.
fn written(rule: &types::Rule) -> bool {
    let some = |list: usize| list > 0;
    some(rule.allowed_ips.as_ref().map_or(0, Vec::len))
        || some(rule.allowed_custom.as_ref().map_or(0, Vec::len))
}

/// An address or a block without bits beyond its length.
fn network(text: &str) -> Option<IpNet> {
    match text.parse::<std::net::IpAddr>() {
        Ok(address) => Some(address.into()),
        Err(_) => text.parse::<IpNet>().ok().filter(|network| network.trunc() == *network),
    }
}

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

fn local_blocks() -> Vec<Peer> {
    nets(&LOCAL).into_iter().map(|net| Peer::Addresses(Block::new(net, []))).collect()
}

fn internet_blocks() -> Vec<Peer> {
    nets(&ALL).into_iter().map(|all| Peer::Addresses(Block::new(all, nets(&LOCAL)))).collect()
}
