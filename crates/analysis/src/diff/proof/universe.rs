//! Synthetic clusters: an endpoint for every combination of values that policies mention.
//!
//! A label has each value that is mentioned, another one, or is absent. Combinations that no selector distinguishes count
//! once. A namespace has one set of labels in a cluster, so that namespaces mentioned by name may need several clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_model::address::{next, previous};
use palisade_model::cluster::{ContainerPort, NAMESPACE_NAME_LABEL, Namespace, Node, Pod};
use palisade_model::label::{Labels, Operator, Selector};
use palisade_model::policy::DomainName;
use palisade_model::ranges::Ranges;
use palisade_model::snapshot::{Objects, Snapshot};
use palisade_model::traffic::Protocol;
use smol_str::{SmolStr, format_smolstr};

use super::mentions::{MentionedLabels, Mentions};
use crate::reach::mark;

/// Maximum number of label combinations tried.
const MAX_COMBINATIONS: usize = 20_000;
/// Maximum number of comparisons of a combination with a selector.
const MAX_COMPARED: usize = 4_000_000;
/// Maximum number of distinct namespaces in a cluster.
const MAX_SORTS: usize = 200;
/// Maximum number of pods: every label combination in every namespace with every account; some combinations in any case.
const MAX_PODS: usize = 10_000;
const LEAST_SORTS: usize = 20;
/// Maximum number of rules times pods: with many rules there are fewer pods.
const MAX_APPLIED: usize = 8_000_000;
/// Maximum number of service accounts.
const MAX_ACCOUNTS: usize = 100;
/// Maximum number of ports of all pods with named ports together.
const MAX_PORTS: usize = 1_000_000;
/// Maximum number of DNS names: their addresses differ in two bytes.
const MAX_NAMES: usize = 50_000;
/// Maximum number of distinct nodes: their addresses differ in one byte.
const MAX_NODES: usize = 200;
/// Maximum number of clusters.
const MAX_CLUSTERS: usize = 16;
/// Prefix of namespaces that are not mentioned by name.
const MADE_UP: &str = "palisade-";
/// Values that no policy mentions.
const OTHERS: [&str; 2] = ["palisade-other", "palisade-another"];
/// A service account that no policy mentions.
const OTHER_ACCOUNT: &str = "palisade-other";
/// First number of named ports.
const FIRST_NAMED: u16 = 61_000;

/// Maximum number of port names with numbers.
const MAX_NAMED: usize = 1000;

const WITH_PORTS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

/// Synthetic clusters for a comparison.
#[derive(Debug)]
pub struct Universe {
    /// Clusters, without policies.
    pub clusters: Vec<Objects>,
    /// A DNS name for each pattern that is mentioned, with addresses.
    pub names: BTreeMap<String, Vec<IpAddr>>,
    /// Whether some combinations are missing, because of limits.
    pub bounded: bool,
}

/// Describes a pod of a synthetic cluster: `a pod with app=db of shop`.
pub fn describe(snapshot: &Snapshot, pod: usize, address: Option<IpAddr>) -> String {
    let (own, home) = (&snapshot.pods()[pod], snapshot.namespace_of(pod));
    let listed = |labels: &Labels| {
        let told = labels.iter().filter(|(key, _)| *key != NAMESPACE_NAME_LABEL);
        let told = told.map(|(key, value)| match OTHERS.contains(&value) {
            true => format!("another {key}"),
            false => format!("{key}={value}"),
        });
        told.collect::<Vec<_>>().join(", ")
    };
    let what = if own.external { "an external entity" } else { "a pod" };
    let labels = match listed(&own.labels) {
        none if none.is_empty() => "without labels".to_owned(),
        some => format!("with {some}"),
    };
    let namespace = match (home.name.starts_with(MADE_UP), listed(&home.labels)) {
        (false, none) if none.is_empty() => home.name.to_string(),
        (false, some) => format!("{} with {some}", home.name),
        (true, none) if none.is_empty() => "another namespace".to_owned(),
        (true, some) => format!("a namespace with {some}"),
    };
    let address = address.map(|address| format!(" at {address}")).unwrap_or_default();
    format!("{what} {labels} of {namespace}{address}")
}

// === impl Universe ===

impl Universe {
    /// Creates clusters for all values that are mentioned.
    pub fn of(mentions: &Mentions) -> Self {
        let mut bounded = false;
        let names = names(mentions, &mut bounded);
        let addresses = addresses(mentions, &names);
        let none = BTreeSet::new();
        let homes = sorts(&mentions.namespaces, &mentions.compared, MAX_SORTS, &mut bounded);
        bounded |= mentions.accounts.len() > MAX_ACCOUNTS;
        let accounts = mentions.accounts.len().min(MAX_ACCOUNTS) + 1;
        let copies = homes.len().max(1).saturating_mul(accounts);
        let most = MAX_PODS.min(MAX_APPLIED / mentions.rules.max(1));
        let most = (most / copies).max(LEAST_SORTS.min(MAX_PODS.div_ceil(copies)));
        let pods = sorts(&mentions.pods, &none, most, &mut bounded);
        let entities = match mentions.entities.selectors.is_empty() {
            true => Vec::new(),
            false => sorts(&mentions.entities, &none, most, &mut bounded),
        };
        // Namespaces mentioned by name alternate between clusters, others are in every cluster.
        let mut named: BTreeMap<SmolStr, Vec<Labels>> = BTreeMap::new();
        let mut nameless = Vec::new();
        for labels in homes {
            match labels.get(NAMESPACE_NAME_LABEL).filter(|name| !OTHERS.contains(name)) {
                Some(name) => named.entry(name.into()).or_default().push(labels),
                None => nameless.push(labels),
            }
        }
        let rounds = named.values().map(Vec::len).max().unwrap_or(1).max(1);
        bounded |= rounds > MAX_CLUSTERS || mentions.named_ports.len() > MAX_NAMED;
        let nodes = nodes(mentions, &mut bounded);
        // Pods with named ports: each has all names.
        let named_ports = WITH_PORTS.len() * mentions.named_ports.len().min(MAX_NAMED);
        let all = 2 * copies.saturating_mul(pods.len());
        let receiving = all.saturating_mul(named_ports).div_ceil(MAX_PORTS).max(1);
        bounded |= receiving > 1;
        let cluster = |round: usize| {
            let mut namespaces: Vec<(SmolStr, Labels)> = Vec::new();
            for (name, all) in &named {
                namespaces.push((name.clone(), all[round % all.len()].clone()));
            }
            for (at, labels) in nameless.iter().enumerate() {
                namespaces.push((format_smolstr!("{MADE_UP}{at}"), labels.clone()));
                if mentions.own {
                    namespaces.push((format_smolstr!("{MADE_UP}{at}-twin"), labels.clone()));
                }
            }
            Objects {
                pods: inhabitants(mentions, &namespaces, &pods, &entities, &addresses, receiving),
                nodes: nodes.clone(),
                namespaces: namespaces
                    .into_iter()
                    .map(|(name, labels)| Namespace { name, labels, at: None })
                    .collect(),
                names: names.clone(),
                ..Objects::default()
            }
        };
        let clusters = (0..rounds.min(MAX_CLUSTERS)).map(cluster).collect();
        Universe { clusters, names, bounded }
    }
}

/// Returns label combinations that selectors distinguish.
fn sorts(
    labelled: &MentionedLabels,
    compared: &BTreeSet<SmolStr>,
    sorts_at_most: usize,
    bounded: &mut bool,
) -> Vec<Labels> {
    let keys: BTreeSet<&SmolStr> = labelled.values.keys().chain(compared).collect();
    let none = BTreeSet::new();
    let options: Vec<(SmolStr, Vec<Option<SmolStr>>)> = keys
        .into_iter()
        .map(|key| {
            let mentioned = labelled.values.get(key).unwrap_or(&none).iter().cloned().map(Some);
            let others = OTHERS.iter().take(1 + usize::from(compared.contains(key)));
            let others = others.map(|other| Some(SmolStr::new_static(other)));
            // A namespace always has the label of its name.
            let absent = (key != NAMESPACE_NAME_LABEL).then_some(None);
            (key.clone(), absent.into_iter().chain(others).chain(mentioned).collect())
        })
        .collect();
    let count = options.iter().try_fold(1_usize, |all, (_, options)| all.checked_mul(options.len()));
    // Every combination has every key, and is matched with every selector.
    let asked = labelled.selectors.len() + options.len();
    let most = MAX_COMBINATIONS.min(MAX_COMPARED / asked.max(1)).max(sorts_at_most);
    let exact = count.is_some_and(|count| count <= most);
    let mut seen = BTreeSet::new();
    let mut sorts = Vec::new();
    let mut add_labels = |labels: Labels| {
        let told: Vec<bool> = labelled.selectors.iter().map(|selector| selector.matches(&labels)).collect();
        let values: Vec<Option<SmolStr>> =
            compared.iter().map(|key| labels.get(key).map(SmolStr::from)).collect();
        // Namespaces of different names are distinct, also where no selector distinguishes them.
        let name = labels.get(NAMESPACE_NAME_LABEL).map(SmolStr::from);
        if seen.insert((told, values, name)) {
            sorts.push(labels);
        }
    };
    // Combinations that selectors match come first, and are included regardless of limits.
    for selector in labelled.selectors.iter().take(sorts_at_most) {
        add_labels(asked_for(selector, compared));
    }
    let own = labelled.selectors.len().min(sorts_at_most);
    let mut add = |choice: &dyn Fn(usize) -> usize| {
        let labels = options
            .iter()
            .enumerate()
            .filter_map(|(at, (key, options))| Some((key.clone(), options[choice(at)].clone()?)));
        add_labels(Labels::new(labels));
    };
    if exact {
        for number in 0..count.unwrap_or(0) {
            let digit = |at: usize| {
                let below: usize = options[..at].iter().map(|(_, options)| options.len()).product();
                number / below % options[at].1.len()
            };
            add(&digit);
        }
    } else {
        // Any two labels together, all others absent or with another value; an evenly spread part where these are too many.
        *bounded = true;
        add(&|_| 0);
        let sizes: Vec<usize> = options.iter().map(|(_, options)| options.len()).collect();
        // For each key the number of values of it and of later keys.
        let mut behind: Vec<usize> = vec![0; sizes.len() + 1];
        for at in (0..sizes.len()).rev() {
            behind[at] = behind[at + 1].saturating_add(sizes[at]);
        }
        let all = (0..sizes.len())
            .fold(0_usize, |all, at| all.saturating_add(sizes[at].saturating_mul(behind[at])));
        let step = all.div_ceil(most).max(1);
        let (mut a, mut before) = (0, 0_usize);
        for number in (0..all).step_by(step) {
            while number - before >= sizes[a].saturating_mul(behind[a]) {
                before += sizes[a].saturating_mul(behind[a]);
                a += 1;
            }
            // The value of the first key, and the offset of the second's among the values of later keys.
            let (own, other) = ((number - before) / behind[a], (number - before) % behind[a]);
            let b = a + behind[a..].partition_point(|left| behind[a] - *left <= other) - 1;
            let other = other - (behind[a] - behind[b]);
            add(&|at| match at {
                _ if at == a => own,
                _ if at == b => other,
                _ => 0,
            });
        }
    }
    if sorts.len() > sorts_at_most {
        *bounded = true;
        let rest = sorts.split_off(own.min(sorts.len()));
        let step = rest.len().div_ceil(sorts_at_most.saturating_sub(sorts.len()).max(1));
        sorts.extend(rest.into_iter().step_by(step.max(1)));
    }
    sorts
}

/// Returns the fewest labels that a selector matches, unless it contradicts itself.
fn asked_for(selector: &Selector, compared: &BTreeSet<SmolStr>) -> Labels {
    let mut labels: BTreeMap<SmolStr, SmolStr> = BTreeMap::new();
    let other = SmolStr::new_static(OTHERS[0]);
    for requirement in selector.requirements() {
        let value = match &requirement.operator {
            Operator::In(values) => values.iter().next().cloned(),
            Operator::Exists => Some(other.clone()),
            _ => None,
        };
        if let Some(value) = value {
            labels.entry(requirement.key.clone()).or_insert(value);
        }
    }
    for key in compared {
        labels.entry(key.clone()).or_insert_with(|| other.clone());
    }
    Labels::new(labels)
}

/// Creates pods of every combination in every namespace: without an address, with one, and some with named ports.
fn inhabitants(
    mentions: &Mentions,
    namespaces: &[(SmolStr, Labels)],
    pods: &[Labels],
    entities: &[Labels],
    addresses: &[IpAddr],
    receiving: usize,
) -> Vec<Pod> {
    let ports: Vec<ContainerPort> = mentions
        .named_ports
        .iter()
        .take(MAX_NAMED)
        .zip((FIRST_NAMED..).step_by(WITH_PORTS.len()))
        .flat_map(|(name, first)| {
            WITH_PORTS.into_iter().zip(first..).map(|(protocol, number)| ContainerPort {
                name: Some(name.clone()),
                protocol,
                number,
            })
        })
        .collect();
    let accounts =
        mentions.accounts.iter().take(MAX_ACCOUNTS).cloned().chain([SmolStr::new_static(OTHER_ACCOUNT)]);
    let accounts: Vec<SmolStr> = accounts.collect();
    let (mut all, mut count) = (Vec::new(), 0_usize);
    let mut turns = addresses.iter().copied().cycle();
    for (namespace, _) in namespaces {
        for (at, labels) in pods.iter().enumerate() {
            for (which, account) in accounts.iter().enumerate() {
                let pod = Pod {
                    namespace: namespace.clone(),
                    name: format_smolstr!("pod-{at}-{which}"),
                    labels: labels.clone(),
                    account: account.clone(),
                    ready: true,
                    ..Pod::default()
                };
                if let Some(address) = turns.next() {
                    let name = format_smolstr!("{}-at", pod.name);
                    all.push(Pod { name, addresses: vec![address], ..pod.clone() });
                }
                count += 1;
                if !ports.is_empty() && count % receiving == 0 {
                    let name = format_smolstr!("{}-receiving", pod.name);
                    all.push(Pod { name, ports: ports.clone(), ..pod.clone() });
                }
                all.push(pod);
            }
        }
        for (at, labels) in entities.iter().enumerate() {
            all.push(Pod {
                namespace: namespace.clone(),
                name: format_smolstr!("entity-{at}"),
                labels: labels.clone(),
                addresses: turns.next().into_iter().collect(),
                external: true,
                ready: true,
                ..Pod::default()
            });
        }
    }
    all
}

/// Creates nodes of every combination.
fn nodes(mentions: &Mentions, bounded: &mut bool) -> Vec<Node> {
    let all = sorts(&mentions.nodes, &BTreeSet::new(), MAX_NODES, bounded);
    let node = |(at, labels): (u8, Labels)| Node {
        name: format_smolstr!("node-{at}"),
        labels,
        addresses: vec![
            IpAddr::from([192, 0, 2, at]),
            IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(at)]),
        ],
        at: None,
    };
    (1..).zip(all).map(node).collect()
}

/// Creates a DNS name for each pattern, and one that no pattern matches, with an address each.
fn names(mentions: &Mentions, bounded: &mut bool) -> BTreeMap<String, Vec<IpAddr>> {
    if mentions.names.is_empty() {
        return BTreeMap::new();
    }
    let concrete = |name: &DomainName| match name {
        DomainName::Exact(name) => vec![name.to_string()],
        DomainName::Below(parent) => vec![format!("a.{parent}"), format!("a.b.{parent}"), parent.to_string()],
        DomainName::Form(form) => {
            vec![form.replace('*', "a"), form.replace('*', "a.b"), form.replace('*', "")]
        }
    };
    let names: BTreeSet<String> = mentions
        .names
        .iter()
        .flat_map(concrete)
        .chain(["palisade.invalid".to_owned()])
        // A pattern may match no valid name.
        .filter(|name| !name.split('.').any(str::is_empty))
        .collect();
    let address = |at: u16| {
        let [high, low] = at.to_be_bytes();
        vec![IpAddr::from([198, 18, high, low]), IpAddr::from([0x2001, 0x2, 0, 0, 0, 0, 0, at])]
    };
    *bounded |= names.len() > MAX_NAMES;
    names.into_iter().take(MAX_NAMES).zip(1..).map(|(name, at)| (name, address(at))).collect()
}

/// Returns addresses that blocks and names distinguish.
fn addresses(mentions: &Mentions, names: &BTreeMap<String, Vec<IpAddr>>) -> Vec<IpAddr> {
    let nets = mentions
        .blocks
        .iter()
        .flat_map(|block| std::iter::once(block.cidr()).chain(block.except().iter().copied()));
    let borders = nets.flat_map(|net| {
        let (first, last) = (net.network(), net.broadcast());
        [previous(first), Some(first), Some(last), next(last)].into_iter().flatten()
    });
    let somewhere = [IpAddr::from([203, 0, 113, 7]), IpAddr::from([0x2001, 0xdb8, 0, 7, 0, 0, 0, 7])];
    // The blocks that hold an address are one sum: a block's number is added where it begins, and subtracted behind its end.
    let mut ends: BTreeMap<IpAddr, u128> = BTreeMap::new();
    for (at, block) in (0..).zip(&mentions.blocks) {
        for (first, last) in Ranges::of([block]).iter() {
            let begin = ends.entry(first).or_default();
            *begin = begin.wrapping_add(mark(at));
            if let Some(end) = next(last) {
                let end = ends.entry(end).or_default();
                *end = end.wrapping_sub(mark(at));
            }
        }
    }
    let mut sum = [0_u128; 2];
    for (address, change) in &mut ends {
        let sum = &mut sum[usize::from(address.is_ipv6())];
        *sum = sum.wrapping_add(*change);
        *change = *sum;
    }
    let mut seen = BTreeSet::new();
    let told = |address: &IpAddr| {
        let before =
            ends.range(..=*address).next_back().filter(|(start, _)| start.is_ipv4() == address.is_ipv4());
        seen.insert((address.is_ipv4(), before.map_or(0, |(_, sum)| *sum)))
    };
    let borders: Vec<IpAddr> = somewhere.into_iter().chain(borders).filter(told).collect();
    borders.into_iter().chain(names.values().flatten().copied()).collect()
}
