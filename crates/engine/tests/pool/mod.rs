//! Objects to make worlds of: each in several versions, of all dialects, small enough that they meet.

use palisade_dialects::load::load;
use palisade_dialects::object::Lowered;
use palisade_dialects::source::Limits;
use palisade_dialects::source::tree::Source;
use palisade_dialects::world::World;
use palisade_engine::Item;

/// A small generator with a fixed sequence, so that a failure can be repeated.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % sides as u64).unwrap()
    }
}

/// Each object in its versions: one document, in which `A|B|C` inside of `<…>` are alternatives.
const OBJECTS: &str = include_str!("objects.yaml");

/// All objects, each with its versions.
pub fn pool() -> Vec<Vec<Item>> {
    let mut pool: Vec<Vec<Item>> = OBJECTS.split("\n---\n").map(versions).collect();
    pool.push(vec![Item::Tier("mine".into(), 10), Item::Tier("mine".into(), 253)]);
    for (name, priority) in [("application", 250), ("baseline", 253), ("securityops", 100)] {
        pool.push(vec![Item::Tier(name.into(), priority)]);
    }
    let names = |address: &str| Item::Name("api.example.com".into(), vec![address.parse().unwrap()]);
    pool.push(vec![names("203.0.113.7"), names("192.0.2.1")]);
    pool
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
    texts.iter().map(|text| item(text)).collect()
}

fn item(text: &str) -> Item {
    let (mut world, mut found) = (World::default(), Vec::new());
    load(&Source::new("pool.yaml", text), &Limits::default(), &mut world, &mut found);
    let loaded = world.iter().next().unwrap_or_else(|| panic!("{text}\n{found:#?}"));
    match loaded.lowered.clone() {
        Lowered::Namespace(namespace, None) => Item::Namespace(namespace),
        Lowered::Pod(pod) => Item::Pod(pod),
        Lowered::Node(node) => Item::Node(node),
        Lowered::Service(service) => Item::Service(service),
        Lowered::Policy(policy) => Item::Policy(policy),
        Lowered::Group(group) => Item::Group(group),
        other => panic!("{other:?}"),
    }
}
