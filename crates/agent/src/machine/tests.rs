use std::cell::RefCell;

use palisade_model::cluster::{MachinePod, Pod};
use palisade_model::label::Labels;
use palisade_model::snapshot::Objects;
use palisade_nftables::program::Interface;

use super::*;

/// A network of fixed interfaces.
#[derive(Default)]
struct FixedNetwork {
    here: Vec<Link>,
    inside: RefCell<BTreeMap<String, Result<Vec<Link>, String>>>,
    sees_bridged: bool,
}

impl Network for &FixedNetwork {
    fn links(&self, namespace: Option<&str>) -> Result<Vec<Link>, NetworkError> {
        let Some(name) = namespace else { return Ok(self.here.clone()) };
        match self.inside.borrow().get(name) {
            None => Err(NetworkError::NoNamespace(name.into())),
            Some(Ok(links)) => Ok(links.clone()),
            Some(Err(why)) => Err(std::io::Error::other(why.clone()).into()),
        }
    }

    fn name(&self) -> SmolStr {
        "here".into()
    }

    fn sees_bridged(&self) -> bool {
        self.sees_bridged
    }
}

impl<N: Network> Finder<N> {
    /// Places the machine, and makes the objects those with the machine in them.
    fn place_into(&mut self, objects: &mut Objects, machines: &[Machine]) -> Result<Placement, NetworkError> {
        let (placement, overrides) = self.place(objects, machines)?;
        for pod in overrides.pods {
            let is = |known: &Pod| known.namespace == pod.namespace && known.name == pod.name;
            match objects.pods.iter().position(is) {
                Some(at) => objects.pods[at] = pod,
                None => objects.pods.push(pod),
            }
        }
        for node in overrides.nodes {
            objects.nodes.retain(|known| known.name != node.name);
            objects.nodes.push(node);
        }
        Ok(placement)
    }
}

fn link(index: u32, name: &str, peer: Option<u32>, addresses: &[&str]) -> Link {
    let address = |text: &&str| {
        let scope = if text.starts_with("fe80") { Scope::Link } else { Scope::Global };
        (text.parse().unwrap(), scope)
    };
    let addresses = addresses.iter().map(address).collect();
    Link { index, name: name.into(), peer, addresses, ..Link::default() }
}

fn entry(pod: &str, addresses: &[&str], interface: Option<&str>, namespace: Option<&str>) -> MachinePod {
    let (own, name) = pod.split_once('/').unwrap();
    MachinePod {
        namespace: own.into(),
        name: name.into(),
        addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        interface: interface.map(Into::into),
        network_namespace: namespace.map(Into::into),
        at: None,
    }
}

fn machine(name: &str, pods: Vec<MachinePod>) -> Machine {
    Machine { name: name.into(), pods, at: None }
}

fn pod(name: &str) -> Pod {
    Pod { namespace: "shop".into(), name: name.into(), ready: true, ..Pod::default() }
}

fn world(pods: Vec<Pod>) -> Objects {
    Objects { pods, ..Objects::default() }
}

fn interface(name: &str) -> Interface {
    Interface::new(name).unwrap()
}

#[test]
fn a_pod_gets_the_addresses_and_the_interface_of_its_entry() {
    let network =
        FixedNetwork { here: vec![link(2, "eth0", None, &["192.0.2.1"])], ..FixedNetwork::default() };
    let mut objects = world(vec![pod("web")]);
    let machines = [machine("here", vec![entry("shop/web", &["10.0.0.7"], Some("veth0"), None)])];
    let place = Finder::new(&network, EmptyNode::Suspect, None).place_into(&mut objects, &machines).unwrap();
    assert_eq!(objects.pods[0].addresses, ["10.0.0.7".parse::<IpAddr>().unwrap()]);
    assert_eq!(objects.pods[0].node.as_deref(), Some("here"));
    assert_eq!(place.wiring[&interface("veth0")].len(), 1);
    assert_eq!(place.pods[0].interface.as_deref(), Some("veth0"));
    assert!(place.own.contains(&"192.0.2.1".parse().unwrap()));
    assert_eq!(place.notes, ["shop/web: there is no interface veth0 yet"]);
    // And this machine is a node.
    assert_eq!(objects.nodes.len(), 1);
    assert_eq!(objects.nodes[0].addresses, ["192.0.2.1".parse::<IpAddr>().unwrap()]);
}

#[test]
fn a_network_namespace_is_found_through_its_veth() {
    let network = FixedNetwork {
        here: vec![link(2, "eth0", None, &["192.0.2.1"]), link(9, "veth9", Some(3), &["fe80::1"])],
        ..FixedNetwork::default()
    };
    let inside = vec![
        Link { loopback: true, ..link(1, "lo", None, &["127.0.0.1"]) },
        link(3, "eth0", Some(9), &["10.0.0.7", "fe80::7"]),
        // Its other end is somewhere else, though the number is there.
        link(4, "eth1", Some(2), &["10.9.0.7"]),
    ];
    network.inside.borrow_mut().insert("web".to_owned(), Ok(inside));
    let mut objects = world(vec![pod("web")]);
    let machines = [machine("here", vec![entry("shop/web", &[], None, Some("web"))])];
    let mut finder = Finder::new(&network, EmptyNode::Suspect, None);
    let place = finder.place_into(&mut objects, &machines).unwrap();
    assert_eq!(objects.pods[0].addresses.len(), 2);
    assert_eq!(place.wiring.len(), 1);
    let own = &place.wiring[&interface("veth9")];
    // By its link-local address, for which there are no rules, a pod reaches nobody.
    assert!(!own.contains(&"fe80::7".parse().unwrap()) && own.contains(&"10.0.0.7".parse().unwrap()));
    // What cannot be read for a moment has not lost its addresses.
    network.inside.borrow_mut().insert("web".to_owned(), Err("not now".to_owned()));
    assert!(finder.look().unwrap() && !finder.look().unwrap());
    let mut objects = world(vec![pod("web")]);
    let later = finder.place_into(&mut objects, &machines).unwrap();
    assert_eq!(objects.pods[0].addresses.len(), 2);
    assert!(later.notes[0].contains("not now"), "{:?}", later.notes);
    assert_eq!(later.wiring, place.wiring);
    // Nor has what lost its name while its interface is there; what is gone has.
    network.inside.borrow_mut().clear();
    assert!(finder.look().unwrap());
    let mut objects = world(vec![pod("web")]);
    let later = finder.place_into(&mut objects, &machines).unwrap();
    assert_eq!(objects.pods[0].addresses.len(), 2);
    assert!(later.notes[0].contains("lost its name"), "{:?}", later.notes);
    let gone = FixedNetwork { here: vec![link(2, "eth0", None, &["192.0.2.1"])], ..FixedNetwork::default() };
    let mut finder = Finder::new(&gone, EmptyNode::Suspect, None);
    finder.remember(&later.pods);
    let mut objects = world(vec![pod("web")]);
    finder.place_into(&mut objects, &machines).unwrap();
    assert!(objects.pods[0].addresses.is_empty());
}

#[test]
fn what_cannot_be_looked_into_has_the_addresses_that_one_before_us_found() {
    let network = FixedNetwork { here: vec![link(9, "veth9", Some(3), &[])], ..FixedNetwork::default() };
    network.inside.borrow_mut().insert("web".to_owned(), Err("Operation not permitted".to_owned()));
    let machines = [machine("here", vec![entry("shop/web", &[], None, Some("web"))])];
    let mut finder = Finder::new(&network, EmptyNode::Suspect, None);
    let mut objects = world(vec![pod("web")]);
    let place = finder.place_into(&mut objects, &machines).unwrap();
    assert!(objects.pods[0].addresses.is_empty());
    assert!(place.gaps[0].contains("no rule is in force"), "{:?}", place.gaps);
    let own: IpAddr = "10.0.0.7".parse().unwrap();
    let known =
        PodState { pod: "shop/web".to_owned(), addresses: vec![own], interface: Some("veth9".to_owned()) };
    finder.remember(&[known]);
    let mut objects = world(vec![pod("web")]);
    let place = finder.place_into(&mut objects, &machines).unwrap();
    assert_eq!(objects.pods[0].addresses, [own]);
    assert_eq!(place.wiring[&interface("veth9")], BTreeSet::from([own]));
    assert!(place.gaps.is_empty(), "{:?}", place.gaps);
}

#[test]
fn a_name_that_is_nearly_a_pods_is_an_error() {
    let network = FixedNetwork::default();
    let machines = [machine("here", vec![entry("shop/wbe", &["10.0.0.7"], None, None)])];
    let mut objects = world(vec![pod("web")]);
    let place = Finder::new(&network, EmptyNode::Suspect, None).place_into(&mut objects, &machines).unwrap();
    assert!(
        place.errors[0].contains("there is no pod shop/wbe: did you mean shop/web?"),
        "{:?}",
        place.errors
    );
    // Beside one that is there it is another.
    let machines = [machine(
        "here",
        vec![entry("shop/wbe", &["10.0.0.7"], None, None), entry("shop/web", &["10.0.0.8"], None, None)],
    )];
    let mut objects = world(vec![pod("web")]);
    let place = Finder::new(&network, EmptyNode::Suspect, None).place_into(&mut objects, &machines).unwrap();
    assert!(place.errors.is_empty() && place.notes[0].contains("no labels"), "{place:?}");
}

#[test]
fn the_node_is_the_one_that_is_asked_for_or_has_our_address_or_our_name() {
    let network =
        FixedNetwork { here: vec![link(2, "eth0", None, &["192.0.2.1"])], ..FixedNetwork::default() };
    let node = |name: &str, address: &str| Node {
        name: name.into(),
        labels: Labels::default(),
        addresses: vec![address.parse().unwrap()],
        at: None,
    };
    let nodes = || vec![node("a", "192.0.2.9"), node("b", "192.0.2.1")];
    let asked = |asked: Option<&str>, nodes: Vec<Node>, machines: &[Machine]| {
        let mut objects = Objects { nodes, ..Objects::default() };
        Finder::new(&network, EmptyNode::Suspect, asked).place_into(&mut objects, machines).unwrap().node
    };
    assert_eq!(asked(Some("x"), nodes(), &[]), "x");
    assert_eq!(asked(None, nodes(), &[]), "b");
    assert_eq!(asked(None, Vec::new(), &[]), "here");
    assert_eq!(asked(None, Vec::new(), &[machine("only", Vec::new())]), "only");
    let two = [machine("one", Vec::new()), machine("two", Vec::new())];
    assert_eq!(asked(None, Vec::new(), &two), "here");
}

#[test]
fn an_entry_without_a_manifest_is_a_pod_all_the_same() {
    use palisade_model::cluster::Workload;
    let network = FixedNetwork::default();
    let labels = Labels::new([("app".into(), "db".into())]);
    let template = Pod { labels, ..pod("db") };
    let mut objects = Objects {
        workloads: vec![Workload { kind: "Deployment".into(), owner: None, template }],
        ..Objects::default()
    };
    let entries =
        vec![entry("shop/db", &["10.0.0.2"], None, None), entry("shop/odd", &["10.0.0.3"], None, None)];
    let machines =
        [machine("here", entries), machine("there", vec![entry("shop/far", &["10.0.1.1"], None, None)])];
    let place = Finder::new(&network, EmptyNode::Suspect, None).place_into(&mut objects, &machines).unwrap();
    assert_eq!(objects.pods.len(), 3);
    assert_eq!(objects.pods[0].labels.get("app"), Some("db"));
    let far = objects.pods.iter().find(|pod| pod.name == "far").unwrap();
    assert_eq!(far.node.as_deref(), Some("there"));
    assert_eq!(place.pods.len(), 2);
    assert!(place.notes.iter().any(|note| note.contains("shop/odd")), "{:?}", place.notes);
}

#[test]
fn a_manifest_that_says_where_its_pod_is_counts() {
    let network = FixedNetwork::default();
    let mut objects = world(vec![Pod {
        node: Some("there".into()),
        addresses: vec!["10.0.0.9".parse().unwrap()],
        ..pod("web")
    }]);
    let machines = [machine("here", vec![entry("shop/web", &["10.0.0.7"], Some("veth0"), None)])];
    let place =
        Finder::new(&network, EmptyNode::Suspect, Some("here")).place_into(&mut objects, &machines).unwrap();
    assert_eq!(objects.pods[0].node.as_deref(), Some("there"));
    assert!(place.wiring.is_empty() && place.pods.is_empty());
    assert!(place.notes.iter().any(|note| note.contains("there counts")), "{:?}", place.notes);
}

#[test]
fn a_pod_does_not_get_what_is_somebody_elses_by_giving_it_to_itself() {
    let network = FixedNetwork {
        here: vec![
            link(1, "lo", None, &["127.0.0.1", "10.9.9.9"]),
            link(5, "v-web", Some(2), &[]),
            link(6, "v-bad", Some(2), &[]),
        ],
        ..FixedNetwork::default()
    };
    let put = |name: &str, index: u32, addresses: &[&str]| {
        network.inside.borrow_mut().insert(name.into(), Ok(vec![link(2, "eth0", Some(index), addresses)]));
    };
    put("web", 5, &["10.1.0.1"]);
    put("bad", 6, &["10.1.0.3"]);
    let machines = [machine(
        "here",
        // It comes before the other, and does not get what that one had first.
        vec![
            entry("shop/bad", &[], None, Some("bad")),
            entry("shop/web", &[], None, Some("web")),
            entry("shop/db", &["10.1.0.2"], None, None),
        ],
    )];
    let mut finder = Finder::new(&network, EmptyNode::Suspect, None);
    let place = |finder: &mut Finder<&FixedNetwork>| {
        let mut objects = world(vec![pod("web"), pod("bad"), pod("db")]);
        let place = finder.place_into(&mut objects, &machines).unwrap();
        let of = |name: &str| objects.pods.iter().find(|pod| pod.name == name).unwrap().addresses.clone();
        (of("web"), of("bad"), place)
    };
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let (web, bad, _) = place(&mut finder);
    assert_eq!((web, bad), (vec![address("10.1.0.1")], vec![address("10.1.0.3")]));
    // Of another namespace, of what is written, of the machine; and one that is free.
    put("bad", 6, &["10.1.0.3", "10.1.0.1", "10.1.0.2", "10.9.9.9", "10.1.0.4"]);
    finder.look().unwrap();
    let (web, bad, found) = place(&mut finder);
    assert_eq!((web, bad), (vec![address("10.1.0.1")], vec![address("10.1.0.3"), address("10.1.0.4")]));
    assert_eq!(found.wiring[&interface("v-bad")], BTreeSet::from([address("10.1.0.3"), address("10.1.0.4")]));
    assert_eq!(found.wiring[&interface("v-web")], BTreeSet::from([address("10.1.0.1")]));
    for owner in ["shop/web", "shop/db", "this machine"] {
        assert!(
            found.notes.iter().any(|note| note.contains(&format!("which is {owner}'s"))),
            "{:?}",
            found.notes
        );
    }
    // Who had it has it no more.
    put("web", 5, &["10.1.0.5"]);
    finder.look().unwrap();
    let (web, bad, _) = place(&mut finder);
    assert_eq!(web, [address("10.1.0.5")]);
    assert!(bad.contains(&address("10.1.0.1")));
}

#[test]
fn addresses_that_are_written_count_and_the_namespace_says_only_the_way() {
    let network = FixedNetwork { here: vec![link(5, "v-web", Some(2), &[])], ..FixedNetwork::default() };
    network
        .inside
        .borrow_mut()
        .insert("web".into(), Ok(vec![link(2, "eth0", Some(5), &["10.1.0.1", "10.1.0.7"])]));
    let machines = [machine("here", vec![entry("shop/web", &["10.1.0.1"], None, Some("web"))])];
    let mut objects = world(vec![pod("web")]);
    let place = Finder::new(&network, EmptyNode::Suspect, None).place_into(&mut objects, &machines).unwrap();
    let own: IpAddr = "10.1.0.1".parse().unwrap();
    assert_eq!(objects.pods[0].addresses, [own]);
    assert_eq!(place.wiring[&interface("v-web")], BTreeSet::from([own]));
}

#[test]
fn behind_a_bridge_a_pod_has_no_interface_of_its_own_and_rules_need_the_kernel_to_show_its_packets() {
    for sees_bridged in [false, true] {
        let near = Link { bridge: Some("br0".into()), ..link(9, "veth9", Some(3), &[]) };
        let network = FixedNetwork { here: vec![near], sees_bridged, ..FixedNetwork::default() };
        network.inside.borrow_mut().insert("web".into(), Ok(vec![link(3, "eth0", Some(9), &["10.0.0.7"])]));
        let machines = [machine("here", vec![entry("shop/web", &[], None, Some("web"))])];
        let mut objects = world(vec![pod("web")]);
        let place =
            Finder::new(&network, EmptyNode::Suspect, None).place_into(&mut objects, &machines).unwrap();
        assert_eq!(objects.pods[0].addresses, ["10.0.0.7".parse::<IpAddr>().unwrap()]);
        // What it sends comes in by the bridge, as what its neighbours send does.
        assert!(place.wiring.is_empty(), "{:?}", place.wiring);
        let trouble = "shop/web: it is behind the bridge br0";
        assert_eq!(place.gaps.iter().any(|one| one.starts_with(trouble)), !sees_bridged);
        assert_eq!(place.notes, place.gaps);
    }
}

#[test]
fn a_pod_in_the_network_of_its_node_has_the_nodes_addresses_and_no_interface() {
    let network =
        FixedNetwork { here: vec![link(2, "eth0", None, &["192.0.2.1"])], ..FixedNetwork::default() };
    let host = Pod { host_network: true, node: Some("here".into()), ..pod("agent") };
    let elsewhere = Pod { host_network: true, node: Some("there".into()), ..pod("far") };
    let mut objects = world(vec![host, elsewhere]);
    let machines = [machine("here", vec![entry("shop/agent", &["192.0.2.1"], Some("eth0"), None)])];
    let place =
        Finder::new(&network, EmptyNode::Suspect, Some("here")).place_into(&mut objects, &machines).unwrap();
    // Else whatever comes by eth0 with another address would be forged.
    assert!(place.wiring.is_empty() && place.pods.is_empty(), "{place:?}");
    // The same without an entry.
    let mut objects =
        world(objects.pods.into_iter().map(|pod| Pod { addresses: Vec::new(), ..pod }).collect());
    Finder::new(&network, EmptyNode::Suspect, Some("here")).place_into(&mut objects, &[]).unwrap();
    assert_eq!(objects.pods[0].addresses, ["192.0.2.1".parse::<IpAddr>().unwrap()]);
    assert!(objects.pods[1].addresses.is_empty());
}

#[test]
fn what_nobody_lives_at_any_more_is_free_and_what_is_the_machines_is_not() {
    let network = FixedNetwork {
        here: vec![link(2, "eth0", None, &["192.0.2.1"]), link(5, "v-web", Some(2), &[])],
        ..FixedNetwork::default()
    };
    let inside = vec![link(2, "eth0", Some(5), &["10.1.0.1", "192.0.2.1"])];
    network.inside.borrow_mut().insert("web".into(), Ok(inside));
    let address = |text: &str| vec![text.parse::<IpAddr>().unwrap()];
    let over = Pod { terminated: true, addresses: address("10.1.0.1"), ..pod("over") };
    let host = Pod { host_network: true, addresses: address("192.0.2.1"), ..pod("agent") };
    let mut objects = world(vec![pod("web"), over, host]);
    let machines = [machine("here", vec![entry("shop/web", &[], None, Some("web"))])];
    let place = Finder::new(&network, EmptyNode::Suspect, None).place_into(&mut objects, &machines).unwrap();
    assert_eq!(objects.pods[0].addresses, address("10.1.0.1"));
    assert!(place.notes[0].contains("192.0.2.1, which is this machine's"), "{:?}", place.notes);
}

#[test]
fn a_network_namespace_that_nobody_names_any_more_is_not_looked_at() {
    let network = FixedNetwork::default();
    network.inside.borrow_mut().insert("web".into(), Ok(vec![link(2, "eth0", Some(5), &["10.1.0.1"])]));
    let machines = [machine("here", vec![entry("shop/web", &[], None, Some("web"))])];
    let mut finder = Finder::new(&network, EmptyNode::Suspect, None);
    finder.place_into(&mut world(vec![pod("web")]), &machines).unwrap();
    assert!(finder.has_namespaces());
    finder.place_into(&mut world(vec![pod("web")]), &[machine("here", Vec::new())]).unwrap();
    assert!(!finder.has_namespaces());
    // Nor is what happens there a reason to place anything.
    network.inside.borrow_mut().clear();
    finder.look().unwrap();
    assert!(!finder.look().unwrap());
}

#[test]
fn the_machine_as_a_node_has_its_global_addresses_that_are_no_pods() {
    let network = FixedNetwork {
        here: vec![link(2, "eth0", None, &["192.0.2.1", "fe80::1"]), link(7, "tap0", None, &["10.0.0.7"])],
        ..FixedNetwork::default()
    };
    let machines = [machine("here", vec![entry("shop/web", &["10.0.0.7"], None, None)])];
    let addresses = |nodes: Vec<Node>| {
        let mut objects = Objects { nodes, ..world(vec![pod("web")]) };
        let place = Finder::new(&network, EmptyNode::Suspect, Some("here"))
            .place_into(&mut objects, &machines)
            .unwrap();
        assert_eq!(place.own.len(), 3);
        let [node] = &objects.nodes[..] else { panic!("{:?}", objects.nodes) };
        node.addresses.clone()
    };
    let (own, other): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "192.0.2.9".parse().unwrap());
    let node = |addresses| Node { name: "here".into(), labels: Labels::default(), addresses, at: None };
    assert_eq!(addresses(Vec::new()), [own]);
    assert_eq!(addresses(vec![node(Vec::new())]), [own]);
    // What its manifest says counts.
    assert_eq!(addresses(vec![node(vec![other])]), [other]);
}

#[test]
fn a_pod_of_another_node_gets_nothing_of_an_entry_and_one_with_addresses_keeps_them() {
    let network = FixedNetwork::default();
    let (own, other): (IpAddr, IpAddr) = ("10.0.0.9".parse().unwrap(), "10.0.0.7".parse().unwrap());
    let machines = [machine("here", vec![entry("shop/web", &["10.0.0.7"], None, None)])];
    let placed = |pod: Pod| {
        let mut objects = world(vec![pod]);
        let place = Finder::new(&network, EmptyNode::Suspect, Some("here"))
            .place_into(&mut objects, &machines)
            .unwrap();
        (objects.pods.remove(0), place.notes)
    };
    let (far, _) = placed(Pod { node: Some("there".into()), ..pod("web") });
    assert_eq!((far.node.as_deref(), far.addresses), (Some("there"), Vec::new()));
    let (kept, notes) = placed(Pod { addresses: vec![own], ..pod("web") });
    assert_eq!((kept.node.as_deref(), kept.addresses), (Some("here"), vec![own]));
    let note = format!("shop/web: has {other}, which its manifest does not say: rules are for what it says");
    assert_eq!(notes, [note]);
    let (new, notes) = placed(Pod { node: Some("here".into()), ..pod("web") });
    assert_eq!((new.addresses, notes), (vec![other], Vec::new()));
}

/// From files, a node without pods is a mistake; in a cluster it is a node like others.
#[test]
fn a_node_without_pods_is_what_its_source_makes_of_it() {
    use super::continuity::{Continuity, Discontinuity};

    let network = FixedNetwork::default();
    let placed = |source: EmptyNode, pods: Vec<MachinePod>| {
        let mut finder = Finder::new(&network, source, Some("here"));
        finder.place_into(&mut world(Vec::new()), &[machine("here", pods)]).unwrap()
    };
    for source in [EmptyNode::Suspect, EmptyNode::Believed] {
        let busy = placed(source, vec![entry("shop/web", &["10.0.0.7"], None, None)]);
        let empty = placed(source, Vec::new());
        assert_eq!(empty.notes.is_empty(), source == EmptyNode::Believed, "{source:?}: {:?}", empty.notes);
        let mut continuity = Continuity::new(source);
        assert_eq!(continuity.check(&empty), Ok(()), "{source:?}: nothing is known yet");
        continuity.remember(&busy.node, &busy.pods);
        assert_eq!(continuity.check(&busy), Ok(()));
        let refused = Err(Discontinuity::NoPods { node: "here".into(), pods: 1 });
        let wanted = if source == EmptyNode::Suspect { refused } else { Ok(()) };
        assert_eq!(continuity.check(&empty), wanted, "{source:?}");
        continuity.remember(&empty.node, &empty.pods);
        assert_eq!(continuity.check(&empty), Ok(()), "{source:?}: it was empty before");
        let other = Placement { node: "there".into(), ..busy };
        assert!(matches!(continuity.check(&other), Err(Discontinuity::OtherNode { .. })), "{source:?}");
    }
}
