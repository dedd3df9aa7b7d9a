use std::sync::Arc;

use palisade_dialects::load::load;
use palisade_dialects::source::Limits;
use palisade_dialects::source::tree::Source;
use palisade_dialects::world::World;

use super::*;

const PODS: &str = "\
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: web, labels: {app: web}}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: db, labels: {app: db}}}
";
/// Names one port, and closes all others.
const EGRESS: &str = "\
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: web}
spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: [{ports: [{port: 443}]}]}
";
const PLAIN: Look = Look { color: false, width: 116 };

fn objects(text: &str) -> Objects {
    let (mut world, mut found) = (World::default(), Vec::new());
    load(&Arc::new(Source::new("world.yaml", text)), &Limits::default(), &mut world, &mut found);
    assert!(found.is_empty(), "{found:#?}");
    world.into_objects()
}

fn words(before: &str, after: &str) -> String {
    between(objects(before), objects(after)).words(PLAIN).to_string()
}

#[test]
fn a_policy_that_names_one_port_closes_all_others() {
    let (without, with) = (PODS.to_owned(), format!("{PODS}{EGRESS}"));
    assert_eq!(
        words(&without, &with),
        "closes shop/web → shop/db, anywhere outside over IPv4 all but tcp/443"
    );
    assert_eq!(
        words(&with, &without),
        "opens shop/web → shop/db, anywhere outside over IPv4 all but tcp/443"
    );
    assert_eq!(words(&with, &with), "no connection opens or closes");
}

#[test]
fn what_policies_say_of_pods_that_are_not_there_yet_is_said() {
    let later = EGRESS.replace("app: web", "app: later");
    let words = words(PODS, &format!("{PODS}{later}"));
    assert!(words.starts_with("no connection opens or closes; "), "{words}");
    assert!(words.contains("closes, e.g. "), "{words}");
}

#[test]
fn long_lists_have_some_of_each() {
    let items = |count: usize| (0..count).map(|at| at.to_string()).collect::<Vec<_>>();
    let changes = |opens, closes| Changes { opens: items(opens), closes: items(closes), notes: Vec::new() };
    let count = |text: &str, word: &str| text.matches(word).count();
    for (opens, closes, listed) in
        [(9, 0, (6, 0)), (0, 9, (0, 6)), (9, 1, (5, 1)), (9, 9, (3, 3)), (2, 2, (2, 2))]
    {
        let text = changes(opens, closes).words(PLAIN).to_string();
        assert_eq!((count(&text, "opens"), count(&text, "closes")), listed, "{text}");
        let more = opens + closes - listed.0 - listed.1;
        assert_eq!(text.contains(&format!("and {more} more")), more > 0, "{text}");
    }
}

/// The number of pairs that are looked at is bounded, however many differ.
#[test]
fn what_is_too_much_work_to_compare_is_noted() {
    use std::fmt::Write;
    let mut pods = String::new();
    for pod in 0..400 {
        let _ = write!(
            pods,
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{namespace: shop, name: p{pod}, labels: {{n: \"{pod}\"}}}}}}\n"
        );
    }
    let closed = EGRESS.replace("{matchLabels: {app: web}}", "{}");
    let compared = |work| limited(objects(&pods), objects(&format!("{pods}{closed}")), work);
    let whole = compared(Work::default());
    assert!(!whole.closes.is_empty() && whole.notes.is_empty(), "{:?}", whole.notes);
    let part = compared(Work::new(10_000_000));
    assert!(part.closes.len() < whole.closes.len(), "{}", part.closes.len());
    assert!(part.notes.iter().any(|note| note.contains("too much work")), "{:?}", part.notes);
}
