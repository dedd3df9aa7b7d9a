//! Objects to make worlds of: each in several versions, of all dialects, small enough that they meet.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::collections::BTreeMap;

use palisade_dialects::load::load;
use palisade_dialects::object::Lowered;
use palisade_dialects::source::Limits;
use palisade_dialects::source::tree::Source;
use palisade_dialects::world::World;
use palisade_model::event::{Item, Key};

pub use palisade_testing::dice::Dice;

/// Each object in its versions: one document, in which `A|B|C` inside of `<…>` are alternatives.
const OBJECTS: &str = include_str!("objects.yaml");

/// Some of the objects, each in one of its versions: all but one in so many.
pub fn some(pool: &[Vec<Item>], one_in: usize, dice: &mut Dice) -> BTreeMap<Key, Item> {
    let mut state = BTreeMap::new();
    for versions in pool {
        if dice.roll(one_in) > 0 {
            let item = versions[dice.roll(versions.len())].clone();
            state.insert(item.key(), item);
        }
    }
    state
}

/// All objects, each with its versions.
pub fn pool() -> Vec<Vec<Item>> {
    let mut all: Vec<Item> = OBJECTS.trim_end().split("\n---\n").flat_map(versions).collect();
    all.extend([Item::Tier("mine".into(), 10), Item::Tier("mine".into(), 253)]);
    for (name, priority) in [("application", 250), ("baseline", 253), ("securityops", 100)] {
        all.push(Item::Tier(name.into(), priority));
    }
    // Names that share addresses, also with each other and with a pod.
    let address = |text: &str| text.parse().unwrap();
    for addresses in [["203.0.113.7", "192.0.2.1"], ["192.0.2.1", "10.0.0.1"]] {
        all.push(Item::Name("api.example.com".into(), vec![address(addresses[0])]));
        all.push(Item::Name("www.example.com".into(), addresses.map(address).into()));
    }
    // What a document becomes may be two objects, one of them in some of its versions only.
    let mut pool: BTreeMap<Key, Vec<Item>> = BTreeMap::new();
    for item in all {
        pool.entry(item.key()).or_default().push(item);
    }
    pool.into_values().collect()
}

/// All combinations of the alternatives.
fn versions(text: &str) -> Vec<Item> {
    let mut texts = vec![text.to_owned()];
    while texts[0].contains('<') {
        let expand = |text: &String| -> Vec<String> {
            let (open, close) = (text.find('<').unwrap(), text.find('>').unwrap());
            let (head, tail) = (&text[..open], &text[close + 1..]);
            text[open + 1..close].split('|').map(|one| format!("{head}{one}{tail}")).collect()
        };
        texts = texts.iter().flat_map(expand).collect();
    }
    texts.iter().flat_map(|text| items(text)).collect()
}

fn items(text: &str) -> Vec<Item> {
    let (mut world, mut found) = (World::default(), Vec::new());
    load(&Source::new("pool.yaml", text), &Limits::default(), &mut world, &mut found);
    let loaded = world.iter().next().unwrap_or_else(|| panic!("{text}\n{found:#?}"));
    match loaded.lowered.clone() {
        Lowered::Namespace(namespace, policy) => {
            std::iter::once(Item::Namespace(namespace)).chain(policy.map(Item::Policy)).collect()
        }
        Lowered::Pod(pod) => vec![Item::Pod(pod)],
        Lowered::Node(node) => vec![Item::Node(node)],
        Lowered::Service(service) => vec![Item::Service(service)],
        Lowered::Endpoints(all) => {
            all.into_iter().map(|endpoints| Item::Endpoints(loaded.key.name.clone(), endpoints)).collect()
        }
        Lowered::Policy(policy) => vec![Item::Policy(policy)],
        Lowered::Group(group) => vec![Item::Group(group)],
        other => panic!("{other:?}"),
    }
}
