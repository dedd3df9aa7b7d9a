//! A plan as namespaces, links and routes; a changed plan by what is different.
//!
//! Every link is between two ends that know each other's hardware address, so nobody ever asks for one: whoever is at the
//! other end is [`PEER4`] and [`PEER6`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::IpAddr;

use smol_str::SmolStr;

use crate::error::LabError;
use crate::namespace::{self, Run};
use crate::plan::{Plan, PodKey, PodPlan, Spot};
use crate::tool;

/// The other end of every link.
pub(crate) const PEER4: &str = "169.254.1.1";
/// The same of IPv6.
const PEER6: &str = "fe80::1";

/// The most pods that one machine shall hold.
pub const MOST_PODS: usize = 1000;

/// What there is.
#[derive(Debug)]
pub struct Cluster {
    run: Run,
    plan: Plan,
    /// The numbers of nodes and pods, which make the names of namespaces and links.
    nodes: BTreeMap<SmolStr, u32>,
    pods: BTreeMap<PodKey, u32>,
    next: u32,
    /// Whether the outside is there.
    begun: bool,
}

/// What changed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Namespaces that are gone.
    pub gone: Vec<String>,
    /// Nodes that are new.
    pub new_nodes: Vec<SmolStr>,
    /// How many pods are new.
    pub new_pods: usize,
}

/// Set in every namespace: pings for everybody, and no limit to how many errors are sent.
const ANYWHERE: [(&str, &str); 6] = [
    ("ipv4/ping_group_range", "0 2147483647"),
    ("ipv4/icmp_ratelimit", "0"),
    ("ipv4/icmp_msgs_per_sec", "1000000"),
    ("ipv4/icmp_msgs_burst", "1000000"),
    ("ipv6/icmp/ratelimit", "0"),
    ("ipv4/ip_unprivileged_port_start", "0"),
];

/// Set where packets pass through.
const ROUTER: [(&str, &str); 6] = [
    ("ipv4/ip_forward", "1"),
    ("ipv6/conf/all/forwarding", "1"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/conf/all/send_redirects", "0"),
    ("ipv4/conf/default/send_redirects", "0"),
];

// === impl Cluster ===

impl Cluster {
    /// Nothing yet.
    pub fn new(run: Run) -> Cluster {
        Cluster {
            run,
            plan: Plan::default(),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            next: 0,
            begun: false,
        }
    }

    /// What there is.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The namespace of somebody.
    pub fn namespace(&self, spot: &Spot) -> Option<String> {
        match spot {
            Spot::Outside => Some(self.outside()),
            Spot::Node(node) => self.nodes.get(node).map(|number| self.node_name(*number)),
            Spot::Pod(pod) => self.pods.get(pod).map(|number| self.pod_name(*number)),
        }
    }

    /// The namespaces of all nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = (&SmolStr, String)> {
        self.nodes.iter().map(|(node, number)| (node, self.node_name(*number)))
    }

    /// The namespaces of all pods.
    pub fn pods(&self) -> impl Iterator<Item = (&PodKey, String)> {
        self.pods.iter().map(|(pod, number)| (pod, self.pod_name(*number)))
    }

    /// The namespace of the outside.
    pub fn outside(&self) -> String {
        self.run.name("outside")
    }

    /// Makes it so.
    pub fn reach(&mut self, plan: Plan) -> Result<Changed, LabError> {
        if plan.pods.len() + plan.nodes.len() > MOST_PODS {
            return Err(LabError::TooLarge(format!(
                "{} pods on {} nodes are too many for one machine: at most {MOST_PODS} together",
                plan.pods.len(),
                plan.nodes.len()
            )));
        }
        let mut changed = Changed::default();
        let mut outside = String::new();
        self.begin()?;
        self.remove(&plan, &mut changed)?;
        self.add(&plan, &mut outside, &mut changed)?;
        for address in self.plan.outside.difference(&plan.outside) {
            let _ = writeln!(outside, "address del {} dev lo", whole(*address));
        }
        for address in plan.outside.difference(&self.plan.outside) {
            let _ = writeln!(outside, "address replace {} dev lo{}", whole(*address), at_once(*address));
        }
        // What goes from outside to a service is translated after its way is chosen, so there must be one.
        for address in self.plan.services.difference(&plan.services) {
            let _ = writeln!(outside, "route delete {} dev lo", whole(*address));
        }
        for address in plan.services.difference(&self.plan.services) {
            let _ = writeln!(outside, "route replace {} dev lo", whole(*address));
        }
        tool::ip(Some(&self.outside()), &outside)?;
        self.plan = plan;
        Ok(changed)
    }

    fn begin(&mut self) -> Result<(), LabError> {
        if self.begun {
            return Ok(());
        }
        let name = self.outside();
        tool::ip(None, &format!("netns add {name}\n"))?;
        self.begun = true;
        namespace::set(&name, &ANYWHERE)?;
        namespace::set(&name, &ROUTER)?;
        tool::ip(Some(&name), "link set lo up\n")
    }

    /// Whoever is not in the plan, or there in another way, goes.
    fn remove(&mut self, plan: &Plan, changed: &mut Changed) -> Result<(), LabError> {
        let other = |name: &SmolStr| plan.nodes.get(name) != self.plan.nodes.get(name);
        let nodes: BTreeSet<SmolStr> = self.nodes.keys().filter(|name| other(name)).cloned().collect();
        let goes = |key: &&PodKey| {
            let old = self.plan.pods.get(*key);
            old != plan.pods.get(*key) || old.is_some_and(|old| nodes.contains(&old.node))
        };
        let pods: Vec<PodKey> = self.pods.keys().filter(goes).cloned().collect();
        let mut inside: BTreeMap<SmolStr, String> = BTreeMap::new();
        let (mut outside, mut names) = (String::new(), String::new());
        for key in pods {
            let (Some(number), Some(old)) = (self.pods.remove(&key), self.plan.pods.remove(&key)) else {
                continue;
            };
            let name = self.pod_name(number);
            let _ = writeln!(names, "netns delete {name}");
            changed.gone.push(name);
            if !nodes.contains(&old.node) {
                // A namespace goes when the kernel finds time: the link goes now, and what leads to it.
                let _ = writeln!(inside.entry(old.node.clone()).or_default(), "link delete p{number}");
                for address in &old.addresses {
                    let _ = writeln!(outside, "route delete {}", whole(*address));
                }
            }
        }
        for (node, lines) in inside {
            if let Some(name) = self.namespace(&Spot::Node(node)) {
                tool::ip(Some(&name), &lines)?;
            }
        }
        for node in nodes {
            if let Some(number) = self.nodes.remove(&node) {
                let name = self.node_name(number);
                let _ = writeln!(names, "netns delete {name}");
                let _ = writeln!(outside, "link delete n{number}");
                changed.gone.push(name);
            }
            self.plan.nodes.remove(&node);
        }
        // Links go before the namespaces that hold their other ends, which would take them along at any moment.
        tool::ip(Some(&self.outside()), &outside)?;
        tool::ip(None, &names)
    }

    /// Whoever is in the plan and not there comes.
    fn add(&mut self, plan: &Plan, outside: &mut String, changed: &mut Changed) -> Result<(), LabError> {
        let nodes: Vec<SmolStr> =
            plan.nodes.keys().filter(|name| !self.nodes.contains_key(*name)).cloned().collect();
        let pods: Vec<PodKey> =
            plan.pods.keys().filter(|key| !self.pods.contains_key(*key)).cloned().collect();
        let mut names = String::new();
        let mut links = String::new();
        for node in &nodes {
            let number = self.number();
            self.nodes.insert(node.clone(), number);
            let name = self.node_name(number);
            let _ = writeln!(names, "netns add {name}");
            link(&mut links, number, ("uplink", &name), (&format!("n{number}"), &self.outside()));
        }
        for key in &pods {
            let number = self.number();
            self.pods.insert(key.clone(), number);
            let name = self.pod_name(number);
            let _ = writeln!(names, "netns add {name}");
            let node = plan.pods.get(key).map(|pod| Spot::Node(pod.node.clone()));
            let node = node.and_then(|node| self.namespace(&node)).unwrap_or_default();
            link(&mut links, number, ("eth0", &name), (&format!("p{number}"), &node));
        }
        tool::ip(None, &names)?;
        for node in &nodes {
            if let Some(name) = self.namespace(&Spot::Node(node.clone())) {
                namespace::set(&name, &ANYWHERE)?;
                namespace::set(&name, &ROUTER)?;
            }
        }
        tool::ip(None, &links)?;
        let mut inside: BTreeMap<SmolStr, String> = BTreeMap::new();
        for node in &nodes {
            let (Some(number), Some(addresses)) = (self.nodes.get(node), plan.nodes.get(node)) else {
                continue;
            };
            let lines = inside.entry(node.clone()).or_default();
            let _ = writeln!(lines, "link set lo up");
            end(lines, "uplink", *number, 'b');
            own(lines, "uplink", addresses);
            let far = format!("n{number}");
            end(outside, &far, *number, 'a');
            lead(outside, &far, addresses);
            changed.new_nodes.push(node.clone());
        }
        for key in &pods {
            let (Some(number), Some(pod)) = (self.pods.get(key), plan.pods.get(key)) else { continue };
            self.pod(*number, pod, inside.entry(pod.node.clone()).or_default())?;
            if let Some(node) = self.nodes.get(&pod.node) {
                lead(outside, &format!("n{node}"), &pod.addresses);
            }
            changed.new_pods += 1;
        }
        for (node, lines) in inside {
            if let Some(name) = self.namespace(&Spot::Node(node)) {
                tool::ip(Some(&name), &lines)?;
            }
        }
        Ok(())
    }

    fn pod(&self, number: u32, pod: &PodPlan, node: &mut String) -> Result<(), LabError> {
        let name = self.pod_name(number);
        namespace::set(&name, &ANYWHERE)?;
        let mut lines = String::from("link set lo up\n");
        end(&mut lines, "eth0", number, 'b');
        own(&mut lines, "eth0", &pod.addresses);
        tool::ip(Some(&name), &lines)?;
        let near = format!("p{number}");
        end(node, &near, number, 'a');
        lead(node, &near, &pod.addresses);
        Ok(())
    }

    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn node_name(&self, number: u32) -> String {
        self.run.name(&format!("n{number}"))
    }

    fn pod_name(&self, number: u32) -> String {
        self.run.name(&format!("p{number}"))
    }

    /// Takes everything away. What the kernel does not take now, the next run finds.
    pub fn clear(&mut self) -> Result<(), LabError> {
        let mut names = String::new();
        let all = self.pods().map(|(_, name)| name).chain(self.nodes().map(|(_, name)| name));
        for name in all.chain(self.begun.then(|| self.outside())) {
            if std::path::Path::new(namespace::FOLDER).join(&name).exists() {
                let _ = writeln!(names, "netns delete {name}");
            }
        }
        self.pods.clear();
        self.nodes.clear();
        self.plan = Plan::default();
        self.begun = false;
        tool::ip(None, &names)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // There is nobody left to tell; the next run cleans up what is left.
        let _ = self.clear();
    }
}

/// A link: its near end (with the hardware address `a`) in one namespace, its far end in another.
fn link(lines: &mut String, number: u32, near: (&str, &str), far: (&str, &str)) {
    let _ = writeln!(
        lines,
        "link add {} address {} netns {} type veth peer name {} address {} netns {}",
        near.0,
        hardware(number, 'a'),
        near.1,
        far.0,
        hardware(number, 'b'),
        far.1
    );
}

/// Puts one end up, whose peer has this hardware address.
fn end(lines: &mut String, device: &str, number: u32, peer: char) {
    let _ = writeln!(lines, "link set dev {device} addrgenmode none\nlink set dev {device} up");
    for address in [PEER4, PEER6] {
        let hardware = hardware(number, peer);
        let _ = writeln!(lines, "neighbour replace {address} dev {device} lladdr {hardware} nud permanent");
    }
}

/// Gives a device its addresses, and leads everything else through it.
fn own(lines: &mut String, device: &str, addresses: &[IpAddr]) {
    for address in addresses {
        let _ = writeln!(lines, "address add {} dev {device}{}", whole(*address), at_once(*address));
    }
    for peer in [PEER4, PEER6] {
        let _ = writeln!(lines, "route add default via {peer} dev {device} onlink");
    }
}

/// Leads these addresses through a device.
fn lead(lines: &mut String, device: &str, addresses: &[IpAddr]) {
    for address in addresses {
        let peer = if address.is_ipv4() { PEER4 } else { PEER6 };
        let _ = writeln!(lines, "route replace {} via {peer} dev {device} onlink", whole(*address));
    }
}

fn whole(address: IpAddr) -> String {
    format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 })
}

/// Nobody else can have the address: it need not be asked about first.
fn at_once(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "" } else { " nodad" }
}

fn hardware(number: u32, end: char) -> String {
    let [_, two, one, zero] = number.to_be_bytes();
    format!("02:70:{two:02x}:{one:02x}:{zero:02x}:0{end}")
}
