//! Putting objects together, and finding whom a question asks about.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod builders;

use builders::*;
use palisade_model::cluster::{
    Endpoints, NAMESPACE_NAME_LABEL, Owner, Pod, Service, ServiceKind, ServicePort, TargetPort, Workload,
};
use palisade_model::entrance::BackendPort;
use palisade_model::flow::FlowPattern;
use palisade_model::policy::ServiceName;
use palisade_model::snapshot::{Objects, ResolveError, Snapshot};
use palisade_model::traffic::Protocol;

fn owner(kind: &str, name: &str) -> Option<Owner> {
    Some(Owner { kind: kind.into(), name: name.into() })
}

fn workload(kind: &str, name: &str, owner: Option<Owner>) -> Workload {
    Workload { kind: kind.into(), owner, template: Pod { node: None, ..pod("x", name, "app=w", "") } }
}

/// `source -> destination traffic` of every flow that a question stands for.
fn flows(snapshot: &Snapshot, text: &str) -> Vec<String> {
    let pattern: FlowPattern = text.parse().unwrap();
    let one = |flow: &palisade_model::flow::Flow| {
        format!(
            "{} -> {} {}",
            snapshot.describe(flow.source),
            snapshot.describe(flow.destination),
            flow.traffic
        )
    };
    snapshot.flows(&pattern).unwrap().iter().map(one).collect()
}

fn refused(snapshot: &Snapshot, text: &str) -> String {
    let pattern: FlowPattern = text.parse().unwrap();
    let error = snapshot.flows(&pattern).unwrap_err();
    let help = error.help().map(|help| format!("\n  {help}")).unwrap_or_default();
    format!("{error}{help}")
}

fn names(snapshot: &Snapshot) -> Vec<String> {
    snapshot.pods().iter().map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect()
}

#[test]
fn every_namespace_carries_its_name_and_mentioned_ones_exist() {
    let mut objects =
        Objects { namespaces: vec![namespace("x", "kubernetes.io/metadata.name=lie")], ..Objects::default() };
    objects.pods.push(pod("only-mentioned", "a", "", ""));
    let snapshot = Snapshot::new(objects);
    let label =
        |name: &str| snapshot.namespace(name).unwrap().labels.get(NAMESPACE_NAME_LABEL).unwrap().to_owned();
    assert_eq!(label("x"), "x");
    assert_eq!(label("only-mentioned"), "only-mentioned");
}

#[test]
fn a_template_stands_for_pods_that_are_not_there() {
    let objects = Objects { workloads: vec![workload("Deployment", "web", None)], ..Objects::default() };
    let snapshot = Snapshot::new(objects);
    assert_eq!(names(&snapshot), ["x/web"]);
    assert_eq!(snapshot.pods()[0].stand_in.as_deref(), Some("Deployment"));
}

#[test]
fn nobody_stands_in_for_pods_that_are_there() {
    let made = |rs: &str, hash: &str| Pod {
        owner: owner("ReplicaSet", rs),
        labels: labels(&format!("pod-template-hash={hash}")),
        ..pod("x", "web-1-abc", "", "")
    };
    let all = vec![
        workload("Deployment", "web", None),
        workload("ReplicaSet", "web-1", owner("Deployment", "web")),
        workload("ReplicaSet", "web-0", owner("Deployment", "web")),
    ];
    let snapshot = Snapshot::new(Objects {
        workloads: all.clone(),
        pods: vec![made("web-1", "1")],
        ..Objects::default()
    });
    assert_eq!(names(&snapshot), ["x/web-1-abc"], "the old ReplicaSet is the Deployment's, too");
    // Without the hash label the chain through the ReplicaSet object tells.
    let snapshot = Snapshot::new(Objects {
        workloads: all.clone(),
        pods: vec![made("web-1", "")],
        ..Objects::default()
    });
    assert_eq!(names(&snapshot), ["x/web-1-abc"]);
    let snapshot = Snapshot::new(Objects { workloads: all, ..Objects::default() });
    assert_eq!(names(&snapshot), ["x/web"], "without pods the Deployment alone stands for them");
}

#[test]
fn the_dead_staff_nothing() {
    let job = |finished| {
        let mut job = workload("Job", "cron-1", owner("CronJob", "cron"));
        job.template.terminated = finished;
        job
    };
    let pod_of_job =
        |terminated| Pod { terminated, owner: owner("Job", "cron-1"), ..pod("x", "cron-1-a", "", "") };
    let all = |finished| Objects {
        workloads: vec![workload("CronJob", "cron", None), job(finished)],
        pods: vec![pod_of_job(finished)],
        ..Objects::default()
    };
    let over = Snapshot::new(all(true));
    assert_eq!(flows(&over, "x/cron -> ip:192.0.2.1 tcp/80"), ["x/cron -> 192.0.2.1 tcp/80"]);
    assert!(over.pods().iter().any(|pod| pod.stand_in.as_deref() == Some("CronJob")));
    // While the Job runs, its pod is the CronJob's, through two makers.
    let running = Snapshot::new(all(false));
    assert_eq!(flows(&running, "x/cron -> ip:192.0.2.1 tcp/80"), ["x/cron-1-a -> 192.0.2.1 tcp/80"]);
}

#[test]
fn workloads_of_one_name_are_all_asked_about() {
    let all = vec![workload("Deployment", "redis", None), workload("StatefulSet", "redis", None)];
    let snapshot = Snapshot::new(Objects {
        workloads: all,
        pods: vec![pod("x", "redis", "", "")],
        ..Objects::default()
    });
    assert_eq!(flows(&snapshot, "x/redis -> ip:192.0.2.1 tcp/80").len(), 3);
}

#[test]
fn a_workload_never_stands_for_a_pod_and_itself() {
    let mut objects = world();
    for name in ["w-1", "w-2"] {
        objects.pods.push(Pod { owner: owner("StatefulSet", "w"), ..pod("x", name, "", "") });
    }
    let snapshot = Snapshot::new(objects);
    assert_eq!(flows(&snapshot, "x/w -> x/w tcp/80"), ["x/w-1 -> x/w-2 tcp/80", "x/w-2 -> x/w-1 tcp/80"]);
}

#[test]
fn wildcards_stand_for_living_pods_and_never_for_a_pod_and_itself() {
    let mut objects = world();
    objects.pods.push(Pod { terminated: true, ..pod("x", "done", "", "10.0.0.9") });
    let snapshot = Snapshot::new(objects);
    assert_eq!(flows(&snapshot, "x/* -> x/* tcp/80"), ["x/a -> x/b tcp/80", "x/b -> x/a tcp/80"]);
    assert_eq!(flows(&snapshot, "*/a -> x/b tcp/80").len(), 3);
    assert_eq!(flows(&snapshot, "x/a -> x/a tcp/80").len(), 1, "named, it is asked about");
    assert_eq!(
        refused(&snapshot, "x/done -> x/a tcp/80"),
        "pod x/done has terminated: it has no network any more"
    );
    assert_eq!(refused(&snapshot, "q*/* -> x/a tcp/80"), "q*/* matches no pod");
}

#[test]
fn a_workloads_name_stands_for_its_pods() {
    let mut objects = world();
    for name in ["web-5d-1", "web-5d-2"] {
        let labels = labels("pod-template-hash=5d");
        objects.pods.push(Pod { owner: owner("ReplicaSet", "web-5d"), labels, ..pod("x", name, "", "") });
    }
    let snapshot = Snapshot::new(objects);
    let want = ["x/web-5d-1 -> y/a tcp/80", "x/web-5d-2 -> y/a tcp/80"];
    assert_eq!(flows(&snapshot, "x/web -> y/a tcp/80"), want);
    assert_eq!(flows(&snapshot, "x/web-5d -> y/a tcp/80"), want);
}

#[test]
fn a_name_that_does_not_exist_gets_the_nearest_ones_that_do() {
    let mut objects = world();
    objects.pods.push(pod("shop", "web", "", ""));
    objects.pods.push(pod("shop", "web-canary", "", ""));
    let snapshot = Snapshot::new(objects);
    assert_eq!(
        refused(&snapshot, "shop/wep -> x/a tcp/80"),
        "no pod or workload shop/wep\n  did you mean shop/web?"
    );
    assert_eq!(refused(&snapshot, "shup/web -> x/a tcp/80"), "no namespace shup\n  did you mean shop/web?");
    assert_eq!(
        refused(&snapshot, "x/web -> x/a tcp/80"),
        "no pod or workload x/web\n  did you mean shop/web?"
    );
    assert_eq!(refused(&snapshot, "x/a -> node:n9 tcp/80"), "no node n9\n  did you mean node:n0, node:n1?");
    assert_eq!(refused(&snapshot, "x/a -> svc:x/web tcp/80"), "no service x/web");
}

fn service(objects: &mut Objects, target: TargetPort) {
    objects.services.push(Service {
        namespace: "x".into(),
        name: "s".into(),
        addresses: vec!["10.96.0.1".parse().unwrap()],
        ports: vec![ServicePort {
            name: "".into(),
            protocol: Protocol::Tcp,
            port: 8080,
            node_port: None,
            target,
        }],
        publish_not_ready: false,
        kind: ServiceKind::ClusterAddress { selector: Some(selector("app=b")) },
        at: None,
        ..Service::default()
    });
}

#[test]
fn an_external_name_leads_to_a_dns_name() {
    let mut objects = world();
    service(&mut objects, TargetPort::Number(80));
    objects.services[0].kind = ServiceKind::ExternalName("db.example.com".into());
    // Endpoints that carry its name are nobody's: it has none.
    let ready = vec!["10.0.0.1".parse().unwrap()];
    let ports = vec![("".into(), Protocol::Tcp, 80)];
    objects.endpoints.push(Endpoints { namespace: "x".into(), service: "s".into(), ports, ready });
    let snapshot = Snapshot::new(objects);
    let why = "service x/s has no endpoints: it is an ExternalName for the DNS name db.example.com";
    let help = "ask about an address of db.example.com: ip:ADDRESS";
    for traffic in ["tcp/8080", "tcp/81", "icmp"] {
        assert_eq!(refused(&snapshot, &format!("y/a -> svc:x/s {traffic}")), format!("{why}\n  {help}"));
    }
    let name = ServiceName { namespace: "x".into(), name: "s".into() };
    for port in [BackendPort::Number(8080), BackendPort::Number(81), BackendPort::All] {
        assert_eq!(snapshot.openings(&name, &port, Protocol::Tcp), Ok(Vec::new()));
    }
}

#[test]
fn a_headless_service_leads_to_its_ready_pods_at_any_port() {
    let mut objects = world();
    objects.pods.push(Pod { ready: false, ..pod("x", "late", "app=b", "10.0.0.9") });
    service(&mut objects, TargetPort::Number(80));
    objects.services[0].kind = ServiceKind::Headless { selector: Some(selector("app=b")) };
    let snapshot = Snapshot::new(objects);
    for traffic in ["tcp/8080", "tcp/80", "udp/53", "icmp"] {
        let through = flows(&snapshot, &format!("y/a -> svc:x/s {traffic}"));
        assert_eq!(through, [format!("y/a -> x/b {traffic}")]);
    }
    // Ingress controllers connect to the endpoints that the Service's port has, so they do translate.
    let name = ServiceName { namespace: "x".into(), name: "s".into() };
    let openings = snapshot.openings(&name, &BackendPort::Number(8080), Protocol::Tcp).unwrap();
    assert_eq!(openings.iter().map(|opening| opening.port).collect::<Vec<_>>(), [80]);
}

#[test]
fn a_service_leads_to_its_ready_pods() {
    let mut objects = world();
    objects.pods.push(Pod { ready: false, ..pod("x", "late", "app=b", "10.0.0.9") });
    service(&mut objects, TargetPort::Name("web".into()));
    let snapshot = Snapshot::new(objects);
    assert_eq!(flows(&snapshot, "y/a -> svc:x/s tcp/8080"), ["y/a -> x/b tcp/80"]);
    assert_eq!(
        flows(&snapshot, "y/a -> ip:10.96.0.1 tcp/8080"),
        ["y/a -> x/b tcp/80"],
        "by its address, too"
    );
    assert_eq!(
        refused(&snapshot, "y/a -> svc:x/s tcp/80"),
        "service x/s has no port tcp/80: it has tcp/8080"
    );
    assert_eq!(flows(&snapshot, "x/b -> svc:x/s tcp/8080"), ["x/b -> x/b tcp/80"], "a hairpin is a question");
    assert!(matches!(
        snapshot.flows(&"x/b* -> svc:x/s tcp/8080".parse().unwrap()),
        Err(ResolveError::OnlySelf(_))
    ));
}

#[test]
fn endpoints_tell_better_than_the_selector() {
    let mut objects = world();
    service(&mut objects, TargetPort::Number(80));
    objects.endpoints.push(Endpoints {
        namespace: "x".into(),
        service: "s".into(),
        ports: vec![("".into(), Protocol::Tcp, 9090)],
        ready: vec!["10.0.1.0".parse().unwrap(), "203.0.113.7".parse().unwrap()],
    });
    let snapshot = Snapshot::new(objects);
    assert_eq!(
        flows(&snapshot, "z/a -> svc:x/s tcp/8080"),
        ["z/a -> y/a tcp/9090", "z/a -> 203.0.113.7 tcp/9090"]
    );
}

#[test]
fn a_slice_serves_the_ports_it_names() {
    let mut objects = world();
    service(&mut objects, TargetPort::Number(80));
    objects.services[0].ports[0].name = "metrics".into();
    let slice = |ports: Vec<(&str, u16)>, ready: &str| Endpoints {
        namespace: "x".into(),
        service: "s".into(),
        ports: ports.into_iter().map(|(name, port)| (name.into(), Protocol::Tcp, port)).collect(),
        ready: vec![ready.parse().unwrap()],
    };
    objects.endpoints.push(slice(vec![("web", 8080)], "10.0.0.0"));
    objects.endpoints.push(slice(vec![("web", 8080), ("metrics", 9100)], "10.0.0.1"));
    assert_eq!(flows(&Snapshot::new(objects), "z/a -> svc:x/s tcp/8080"), ["z/a -> x/b tcp/9100"]);
}

#[test]
fn a_cluster_address_leads_to_endpoints_of_its_family() {
    let mut objects = world();
    service(&mut objects, TargetPort::Number(80));
    objects.services[0].addresses.push("fd96::1".parse().unwrap());
    let snapshot = Snapshot::new(objects);
    let to = |text: &str| {
        snapshot.flows(&text.parse().unwrap()).unwrap()[0].destination.address.unwrap().to_string()
    };
    assert_eq!(to("z/a -> ip:10.96.0.1 tcp/8080"), "10.0.0.1");
    assert_eq!(to("z/a -> ip:fd96::1 tcp/8080"), "fd00::1");
}

#[test]
fn nobody_connects_across_families() {
    let mut objects = world();
    objects.pods.push(pod("x", "four", "", "10.0.0.44"));
    objects.pods.push(pod("x", "six", "", "fd00::66"));
    let snapshot = Snapshot::new(objects);
    assert!(refused(&snapshot, "x/four -> x/six tcp/80").contains("no address family in common"));
    assert!(!flows(&snapshot, "x/* -> x/six tcp/80").contains(&"x/four -> x/six tcp/80".to_owned()));
}

#[test]
fn ends_use_a_family_that_both_have() {
    let mut objects = world();
    objects.pods.push(pod("x", "six", "", "fd00::9"));
    objects.pods.push(pod("x", "none", "", ""));
    let snapshot = Snapshot::new(objects);
    let addresses = |text: &str| {
        let flow = snapshot.flows(&text.parse().unwrap()).unwrap()[0];
        [flow.source, flow.destination].map(|party| party.address.map(|a| a.to_string()).unwrap_or_default())
    };
    assert_eq!(addresses("x/a -> y/a tcp/80"), ["10.0.0.0", "10.0.1.0"]);
    assert_eq!(addresses("x/a -> x/six tcp/80"), ["fd00::", "fd00::9"]);
    assert_eq!(addresses("ip:2001:db8::7 -> y/a tcp/80"), ["2001:db8::7", "fd00::1:0"]);
    assert_eq!(addresses("x/none -> y/a tcp/80"), ["", "10.0.1.0"]);
}
