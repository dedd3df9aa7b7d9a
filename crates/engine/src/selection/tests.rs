//! Pinned digests, and relations of selections checked against every pod that selectors can distinguish.

use palisade_model::address::Block;
use palisade_model::label::{Labels, Operator, Requirement, Selector};
use palisade_model::policy::{DomainName, Namespaces, PodSet, ServiceName};
use palisade_model::ranges::Ranges;
use palisade_model::traffic::Protocol;
use smol_str::SmolStr;

use super::{Breadth, Content, NamedPort, Selection, SetKind};

fn texts(texts: &[&str]) -> Vec<SmolStr> {
    texts.iter().map(|text| SmolStr::from(*text)).collect()
}

fn ranges(blocks: &[&str]) -> Ranges {
    let blocks: Vec<Block> = blocks.iter().map(|block| Block::new(block.parse().unwrap(), [])).collect();
    Ranges::of(&blocks)
}

fn requirement(key: &str, operator: Operator) -> Requirement {
    Requirement::new(key, operator)
}

fn pods(namespaces: Namespaces, pods: Selector) -> Selection {
    Content::Pods(PodSet::new(namespaces, pods), None).into()
}

/// A selection of every form. The `match` does not compile when a form is added; the new one then needs a vector.
pub(crate) fn of_every_form() -> Vec<Selection> {
    let all = [
        pods(Namespaces::Named("shop".into()), Selector::label("app", "web")),
        pods(
            Namespaces::Matching(Selector::new([
                requirement("team", Operator::In(texts(&["red", "blue"]))),
                requirement("old", Operator::DoesNotExist),
            ])),
            Selector::new([
                requirement("app", Operator::NotIn(texts(&["db", ""]))),
                requirement("zone", Operator::Exists),
            ]),
        ),
        pods(Namespaces::Matching(Selector::everything()), Selector::everything()),
        pods(Namespaces::Own, Selector::everything()),
        pods(Namespaces::SameLabels(texts(&["env", "team"])), Selector::everything()),
        pods(Namespaces::NotSameLabels(texts(&["team"])), Selector::everything()),
        Content::Pods(
            PodSet {
                account: Some("robot".into()),
                external: true,
                ..PodSet::new(Namespaces::Named("shop".into()), Selector::everything())
            },
            Some(NamedPort { name: "http".into(), protocol: Protocol::Tcp, number: 8080 }),
        )
        .into(),
        Content::Nodes(Selector::label("zone", "a")).into(),
        Content::Nodes(Selector::everything()).into(),
        Content::Addresses(ranges(&["10.0.0.0/8", "192.0.2.7/32", "2001:db8::/32"])).into(),
        Content::Addresses(ranges(&[])).into(),
        Content::Names(vec![
            DomainName::Exact("example.com".into()),
            DomainName::Below("example.org".into()),
            DomainName::Form("a*.example.net".into()),
        ])
        .into(),
        Content::Service(ServiceName { namespace: "shop".into(), name: "web".into() }).into(),
    ];
    let all = Vec::from(all);
    for selection in &all {
        match &selection.content {
            Content::Pods(PodSet { namespaces, pods: _, account: _, external: _ }, _) => match namespaces {
                Namespaces::Named(_) | Namespaces::Matching(_) | Namespaces::Own => {}
                Namespaces::SameLabels(_) | Namespaces::NotSameLabels(_) => {}
            },
            Content::Nodes(_) | Content::Addresses(_) | Content::Names(_) | Content::Service(_) => {}
        }
    }
    all
}

/// Digests are identities across processes and releases: a digest here never changes. A new form adds a line.
/// They were computed from `docs/dev/set-digest.md` by another program.
const VECTORS: [(&str, &str); 13] = [
    (
        "pods with app=web of namespace shop",
        "b01302ee901ec7050844aa96541df11a1d23ebfa8712ba99ddb285e496d3f983",
    ),
    (
        "pods with app notin (,db),zone of namespaces with !old,team in (blue,red)",
        "1e78a0c2548782450542cd367cabea09b7eeb7167b0dfb27ad060d15577957c7",
    ),
    ("any pod", "def682466c67b9eee2aa6a4ea049e71a46a16e70b90638110b8a541a944b6d5b"),
    ("pods of the same namespace", "227c4ca78f4cc8be3cc2c75fb7d2de3b9e12ae97229218923851adf524d787bb"),
    (
        "pods of namespaces with the same env, team",
        "acca17395c812a18e278191713851ba9c9f16f2d7aadc2e898e71a215ee93fcb",
    ),
    (
        "pods of namespaces with another team",
        "52db5ce95103987f7fd0e229589d1acc1172e8964f8fcc3351afcec84464c657",
    ),
    (
        "external entities with service account robot of namespace shop whose port http is tcp/8080",
        "aa99f7f317432e14fa4d0c205a5301e71a4b4e198c08e8edd09976a5596e6854",
    ),
    ("nodes with zone=a", "2be90afeb2724a9f3543848b469cccc3da0996ee62f1779b3300f079e5352df0"),
    ("any node", "361595a6901387c14718e6b6cc57183f07ed5c6440273d5adddeb76f70eea7a7"),
    (
        "10.0.0.0-10.255.255.255, 192.0.2.7, 2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
        "5647c25b1e25e8b6e4f36e2ee1b8e8e356a47e9c3a477bb2ab89c7ad009da1d4",
    ),
    ("no address", "6853f3040e02466d94f66bda6bb39fafa6b90143e08ec131376199e2e8517c5e"),
    (
        "example.com or *.example.org or a*.example.net",
        "ef77044fff3782e5829b33ec411b97598320e82592e96739af0640a051d8f11a",
    ),
    ("service shop/web", "30ca223333a26a3d6d94524cdd8871fe121e9da8d13c53f6181cfad37950100e"),
];

#[test]
fn digests_are_those_of_the_specification() {
    let all = of_every_form();
    assert_eq!(all.len(), VECTORS.len());
    for (selection, (text, digest)) in all.iter().zip(VECTORS) {
        assert_eq!(selection.digest().to_string(), digest, "{text}: {selection}");
    }
}

#[test]
fn an_encoding_is_the_one_that_the_specification_shows() {
    let selection = pods(Namespaces::Named("shop".into()), Selector::label("app", "web"));
    let wanted = b"\x01\x01\x00\x01\x00\x00\x00\x04shop\x00\x00\x00\x01\x00\x00\x00\x03app\x01\x00\x00\x00\x01\x00\x00\x00\x03web";
    assert_eq!(selection.encode(), wanted);
    let node = Selection::from(Content::Nodes(Selector::new([requirement("a", Operator::Exists)])));
    assert_eq!(node.encode(), b"\x01\x02\x00\x00\x00\x01\x00\x00\x00\x01a\x03");
    let range = Selection::from(Content::Addresses(ranges(&["192.0.2.0/31"])));
    assert_eq!(range.encode(), b"\x01\x03\x00\x00\x00\x01\x04\xc0\x00\x02\x00\xc0\x00\x02\x01");
}

#[test]
fn collections_are_ordered_by_their_encodings() {
    // By length first, because a length comes first: not the order in memory.
    let own = Selector::new([requirement("k", Operator::In(texts(&["aa", "b"])))]);
    let encoded = Selection::from(Content::Nodes(own)).encode();
    assert_eq!(encoded[encoded.len() - 11..], *b"\x00\x00\x00\x01b\x00\x00\x00\x02aa");
}

#[test]
fn distinct_selections_have_distinct_digests_and_equal_ones_equal_digests() {
    let (one, other) = (of_every_form(), of_every_form());
    for (at, first) in one.iter().enumerate() {
        for (place, second) in other.iter().enumerate() {
            assert_eq!(first.digest() == second.digest(), at == place, "{first} and {second}");
            assert_eq!(first == second, at == place);
        }
    }
    let digest = one[0].digest();
    assert_eq!(format!("{digest:.12}"), digest.to_string()[..24]);
    assert_eq!(digest.as_bytes().len(), 32);
}

#[test]
fn breadth_grows_with_each_condition_that_is_missing() {
    let (some, all) = (Selector::label("a", "b"), Selector::everything());
    let breadth = |namespaces: &Selector, own: &Selector| {
        pods(Namespaces::Matching(namespaces.clone()), own.clone()).breadth()
    };
    assert_eq!(pods(Namespaces::Named("x".into()), all.clone()).breadth(), Breadth::OneNamespace);
    assert_eq!(breadth(&some, &some), Breadth::SeveralNamespaces);
    assert_eq!((breadth(&all, &some), breadth(&some, &all)), (Breadth::Broad, Breadth::Broad));
    assert_eq!(breadth(&all, &all), Breadth::Everything);
    assert!(Breadth::OneNamespace < Breadth::SeveralNamespaces && Breadth::Broad < Breadth::Everything);
    assert_eq!(of_every_form()[7].kind(), SetKind::Nodes);
}

/// Every selection over two namespaces, one label of namespaces, one of pods, two accounts and one port's name.
fn small_universe() -> Vec<Selection> {
    let operators = [
        Operator::In(texts(&["a"])),
        Operator::In(texts(&["a", "b"])),
        Operator::NotIn(texts(&["a"])),
        Operator::Exists,
        Operator::DoesNotExist,
    ];
    let mut selectors = vec![Selector::everything()];
    selectors.extend(operators.map(|operator| Selector::new([requirement("k", operator)])));
    let mut namespaces = vec![Namespaces::Named("x".into()), Namespaces::Named("z".into())];
    namespaces.extend(selectors.iter().cloned().map(Namespaces::Matching));
    let port = |number| Some(NamedPort { name: "p".into(), protocol: Protocol::Tcp, number });
    let mut all = Vec::new();
    for namespaces in &namespaces {
        for own in &selectors {
            for account in [None, Some("a"), Some("b")] {
                for port in [None, port(1), port(2)] {
                    for external in [false, true] {
                        let account = account.map(SmolStr::from);
                        let set =
                            PodSet { namespaces: namespaces.clone(), pods: own.clone(), account, external };
                        all.push(Content::Pods(set, port.clone()).into());
                    }
                }
            }
        }
    }
    all
}

#[test]
fn relations_of_pod_sets_hold_for_every_pod() {
    let labels = [None, Some("a"), Some("b"), Some("c")]
        .map(|value| Labels::new(value.map(|value| ("k".into(), value.into()))));
    // Namespace, its labels, labels, account, number of the port, external.
    let mut universe = Vec::new();
    for name in ["x", "z"] {
        for namespace in &labels {
            for own in &labels {
                for account in ["a", "b"] {
                    for port in [0, 1, 2] {
                        for external in [false, true] {
                            universe.push((SmolStr::from(name), namespace, own, account, port, external));
                        }
                    }
                }
            }
        }
    }
    let members = |selection: &Selection| -> Vec<bool> {
        let Content::Pods(set, port) = &selection.content else { return Vec::new() };
        let holds = |(name, namespace, own, account, number, external): &(
            SmolStr,
            &Labels,
            &Labels,
            &str,
            u16,
            bool,
        )| {
            crate::sets::matches(&set.namespaces, name, namespace)
                && set.pods.matches(own)
                && set.account.as_ref().is_none_or(|wanted| wanted == account)
                && port.as_ref().is_none_or(|port| port.number == *number)
                && set.external == *external
        };
        universe.iter().map(holds).collect()
    };
    let all: Vec<(Selection, Vec<bool>)> = small_universe()
        .into_iter()
        .map(|selection| {
            let members = members(&selection);
            (selection, members)
        })
        .collect();
    let (mut contained, mut disjoint) = (0, 0);
    for (one, in_one) in all.iter().step_by(3) {
        for (other, in_other) in all.iter().step_by(2) {
            let both = || in_one.iter().zip(in_other);
            if one.is_subset_of(other) {
                contained += 1;
                assert!(both().all(|(one, other)| !one || *other), "{one} is no part of {other}");
            }
            if one.is_disjoint_from(other) {
                disjoint += 1;
                assert!(!both().any(|(one, other)| *one && *other), "{one} overlaps {other}");
            }
        }
    }
    assert!(contained > 1000 && disjoint > 10_000, "{contained} {disjoint}");
    assert!(all.iter().all(|(one, _)| one.is_subset_of(one) && !one.is_disjoint_from(one)));
}

#[test]
fn relations_of_ranges_and_names() {
    let addresses = |blocks: &[&str]| Selection::from(Content::Addresses(ranges(blocks)));
    let (ten, part) = (addresses(&["10.0.0.0/8", "::/0"]), addresses(&["10.1.0.0/16", "10.200.0.0/16"]));
    assert!(part.is_subset_of(&ten) && !ten.is_subset_of(&part) && !part.is_disjoint_from(&ten));
    let other = addresses(&["192.0.2.0/24", "9.0.0.0/8"]);
    assert!(other.is_disjoint_from(&ten) && ten.is_disjoint_from(&other) && !other.is_subset_of(&ten));
    let (v6, v4) = (addresses(&["::/0"]), addresses(&["0.0.0.0/0"]));
    assert!(v6.is_disjoint_from(&v4) && v4.is_disjoint_from(&v6) && !v6.is_subset_of(&v4));
    assert!(addresses(&[]).is_subset_of(&part) && addresses(&[]).is_disjoint_from(&part));
    let names = |names: &[DomainName]| Selection::from(Content::Names(names.to_vec()));
    let exact = names(&[DomainName::Exact("a.example.org".into())]);
    let below = names(&[DomainName::Below("example.org".into())]);
    assert!(exact.is_subset_of(&below) && !below.is_subset_of(&exact) && !exact.is_disjoint_from(&below));
    let node = Selection::from(Content::Nodes(Selector::everything()));
    let pod = pods(Namespaces::Own, Selector::everything());
    assert!(node.is_disjoint_from(&pod) && !node.is_disjoint_from(&v4) && !pod.is_subset_of(&node));
}
