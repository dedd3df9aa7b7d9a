//! Verdicts without reasons must be the plain evaluator's, on every flow: for every form of a rule there is, and for random
//! worlds of several policies under all options.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use palisade_model::evaluate::evaluate;
use palisade_model::flow::Flow;
use palisade_model::options::Options;
use palisade_model::policy::Policy;
use palisade_model::snapshot::Snapshot;
use palisade_model::verdicts::Verdicts;
use palisade_testing::cases::{About, cases};
use palisade_testing::random::Generator;
use palisade_testing::universe::{all_ends, all_traffic, objects, options, traffic};

fn agree(snapshot: &Snapshot, flows: &[Flow], options: &Options) -> usize {
    let verdicts = Verdicts::new(snapshot, options);
    for flow in flows {
        let plain = evaluate(snapshot, flow, options);
        assert_eq!(verdicts.verdict(flow), plain.verdict, "{plain:#?}\n{:#?}", snapshot.policies());
    }
    flows.len()
}

#[test]
fn for_every_form_of_a_rule_alone() {
    let mut flows = 0;
    for (at, case) in cases(3).into_iter().enumerate() {
        let snapshot = Snapshot::new(objects(case.background.into_iter().chain([case.policy])));
        let asked = match case.about {
            About::Ends => all_ends(&snapshot, traffic()[0]),
            About::Traffic => all_traffic(&snapshot),
        };
        flows += agree(&snapshot, &asked, &options(at));
    }
    assert!(flows > 500_000, "{flows}");
}

#[test]
fn for_random_worlds_under_all_options() {
    let mut random = Generator::new(7);
    let mut flows = 0;
    for at in 0..250 {
        let snapshot = Snapshot::new(objects(random.policies(8)));
        let mut asked = all_traffic(&snapshot);
        asked.extend(all_ends(&snapshot, random.dice().one(&traffic())));
        flows += agree(&snapshot, &asked, &options(at));
    }
    assert!(flows > 150_000, "{flows}");
}

#[test]
fn the_order_in_which_objects_come_does_not_matter() {
    let mut random = Generator::new(11);
    for _ in 0..20 {
        let policies: Vec<Policy> = random.policies(8);
        let mut turned = objects(policies.iter().rev().cloned());
        turned.pods.reverse();
        turned.nodes.reverse();
        turned.namespaces.reverse();
        turned.groups.reverse();
        let (one, other) = (Snapshot::new(objects(policies)), Snapshot::new(turned));
        let flows = |snapshot: &Snapshot| {
            let mut flows = all_traffic(snapshot);
            flows.extend(all_ends(snapshot, traffic()[0]));
            flows
        };
        for (a, b) in flows(&one).iter().zip(flows(&other)) {
            let options = Options::default();
            let (a, b) = (evaluate(&one, a, &options), evaluate(&other, &b, &options));
            assert_eq!(format!("{a:?}"), format!("{b:?}"));
        }
    }
}
