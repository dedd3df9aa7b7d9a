//! What a rule is made of, as text: one path for each variant, and each presence or absence of a field, that a value has.
//!
//! `Rule.traffic/Of/Icmp.code/Some` is the shape of a rule that matches ICMP by code. [`Shape::all`] lists the shapes that a type
//! can have, [`Shape::describe`] those of a value. Both come from one list for each type, which the compiler checks: a variant or a field
//! that is missing there is a pattern that is not exhaustive. What is listed must then be generated and must change a verdict
//! (`tests/coverage.rs`).

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use palisade_model::address::{Block, Family};
use palisade_model::diagnostic::Location;
use palisade_model::group::{Group, GroupName, Members};
use palisade_model::label::{Operator, Requirement, Selector};
use palisade_model::options::{HostNetworkPods, Options, SelfTraffic};
use palisade_model::policy::{
    Action, Direction, DomainName, IcmpMatch, Isolation, Layer7, Namespaces, Object, Peer, Peers, Placement,
    PodSet, Policy, PortMatch, Priority, Rule, ServiceName, Subject, Tier, TrafficMatch, TrafficMatches,
};
use palisade_model::traffic::{PortRange, Protocol, Traffic};
use smol_str::SmolStr;

/// Paths of variants and fields.
pub type Shapes = BTreeSet<String>;

/// A type whose values have shapes.
pub trait Shape {
    /// Adds every shape that values of the type can have, below a path.
    fn all(path: &str, into: &mut Shapes);

    /// Adds the shapes of this value, below a path.
    fn describe(&self, path: &str, into: &mut Shapes);
}

/// The shapes that values of a type can have.
pub fn all<T: Shape>(name: &str) -> Shapes {
    let mut shapes = Shapes::new();
    T::all(name, &mut shapes);
    shapes
}

/// The shapes of a value.
pub fn of<T: Shape>(name: &str, value: &T) -> Shapes {
    let mut shapes = Shapes::new();
    value.describe(name, &mut shapes);
    shapes
}

/// A type by its variants and fields, as in its definition. The braces keep rustfmt out.
macro_rules! shape {
    (struct $name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        impl Shape for $name {
            fn all(path: &str, into: &mut Shapes) {
                $(<$type>::all(&format!("{path}.{}", stringify!($field)), into);)*
            }

            fn describe(&self, path: &str, into: &mut Shapes) {
                let $name { $($field),* } = self;
                $(<$type as Shape>::describe($field, &format!("{path}.{}", stringify!($field)), into);)*
            }
        }
    };
    (enum $name:ident { $($variant:ident $(($($item:ident: $of:ty),*))? $({$($field:ident: $type:ty),*})?),* $(,)? }) => {
        impl Shape for $name {
            fn all(path: &str, into: &mut Shapes) {
                $({
                    let path = format!("{path}/{}", stringify!($variant));
                    $($(<$of>::all(&format!("{path}.{}", stringify!($item)), into);)*)?
                    $($(<$type>::all(&format!("{path}.{}", stringify!($field)), into);)*)?
                    into.insert(path);
                })*
            }

            fn describe(&self, path: &str, into: &mut Shapes) {
                match self {
                    $($name::$variant $(($($item),*))? $({$($field),*})? => {
                        let path = format!("{path}/{}", stringify!($variant));
                        $($(<$of as Shape>::describe($item, &format!("{path}.{}", stringify!($item)), into);)*)?
                        $($(<$type as Shape>::describe($field, &format!("{path}.{}", stringify!($field)), into);)*)?
                        into.insert(path);
                    })*
                }
            }
        }
    };
}

/// Types whose values are all of one shape: names, numbers, and where something is written.
macro_rules! leaf {
    ($($type:ty),* $(,)?) => {$(
        impl Shape for $type {
            fn all(_: &str, _: &mut Shapes) {}

            fn describe(&self, _: &str, _: &mut Shapes) {}
        }
    )*};
}

leaf!(u8, u16, u32, String, SmolStr, &'static str, Priority, Object, Location);

shape! { struct Policy {
    object: Arc<Object>, placement: Placement, isolations: Vec<Isolation>, rules: Vec<Rule>, unreadable: Option<String>,
} }
shape! { enum Placement { Tier { tier: Tier, priority: Priority }, Union } }
shape! { enum Tier { Fixed(number: u8, name: &'static str), Named(name: SmolStr) } }
shape! { enum Direction { Egress, Ingress } }
shape! { enum Action { Allow, Deny, Reject, Pass } }
shape! { struct Isolation { subjects: Arc<[Subject]>, direction: Direction } }
shape! { struct Rule {
    direction: Direction, index: u32, name: Option<SmolStr>, subjects: Arc<[Subject]>, action: Action, peers: Peers,
    traffic: TrafficMatches, layer7: Vec<Layer7>, log: Option<SmolStr>, at: Option<Location>,
} }

shape! { enum Subject {
    Pods(set: PodSet), Nodes(selector: Selector), Service(name: ServiceName), Group { group: GroupName, within: Option<SmolStr> },
} }
shape! { struct ServiceName { namespace: SmolStr, name: SmolStr } }
shape! { struct GroupName { namespace: Option<SmolStr>, name: SmolStr } }
shape! { struct PodSet { namespaces: Namespaces, pods: Selector, account: Option<SmolStr>, external: bool } }
shape! { enum Namespaces {
    Named(name: SmolStr), Matching(selector: Selector), Own, SameLabels(keys: Vec<SmolStr>), NotSameLabels(keys: Vec<SmolStr>),
} }
shape! { enum Peers { Any, Of(list: Vec<Peer>) } }
shape! { enum Peer {
    Pods(set: PodSet), Addresses(block: Block), Nodes(selector: Selector), Names(names: Vec<DomainName>),
    Service(name: ServiceName), Group(name: GroupName), Unknown(what: String),
} }
shape! { enum DomainName { Exact(name: SmolStr), Below(name: SmolStr), Form(form: SmolStr) } }

shape! { enum TrafficMatches { Any, Of(list: Vec<TrafficMatch>) } }
shape! { enum TrafficMatch {
    Ports(protocol: Protocol, range: PortRange), Named(protocol: Option<Protocol>, name: SmolStr),
    From(range: PortRange, port: Box<PortMatch>), Icmp(icmp: IcmpMatch), Igmp(kind: Option<u8>, group: Option<IpAddr>),
    Unknown(what: String),
} }
shape! { enum PortMatch { Numbers(protocol: Protocol, range: PortRange), Named(protocol: Option<Protocol>, name: SmolStr) } }
shape! { struct IcmpMatch { kind: Option<u8>, code: Option<u8> } }
shape! { enum Protocol { Tcp, Udp, Sctp, Icmp, Igmp } }
shape! { enum Layer7 {
    Http { host: Option<SmolStr>, method: Option<SmolStr>, path: Option<SmolStr> }, Tls { sni: Option<SmolStr> },
} }

shape! { struct Group { object: Arc<Object>, members: Members } }
shape! { enum Members {
    Pods(set: PodSet), Nodes(selector: Selector), Addresses(blocks: Vec<Block>), Service(name: ServiceName),
    Children(names: Vec<SmolStr>), Nobody, Unknown(what: String),
} }

shape! { struct Options {
    ip_block_matches_pods: bool, host_network_pods: HostNetworkPods, self_traffic: SelfTraffic,
} }
shape! { enum HostNetworkPods { Node, Ignore } }
shape! { enum SelfTraffic { Allow, Evaluate } }

shape! { struct Traffic { protocol: Protocol, port: u16, source_port: Option<u16>, icmp: Option<(u8, Option<u8>)> } }

shape! { struct Requirement { key: SmolStr, operator: Operator } }
shape! { enum Family { V4, V6 } }

// What has no variants of its own to list.

impl Shape for bool {
    fn all(path: &str, into: &mut Shapes) {
        into.extend([format!("{path}/true"), format!("{path}/false")]);
    }

    fn describe(&self, path: &str, into: &mut Shapes) {
        into.insert(format!("{path}/{self}"));
    }
}

impl<T: Shape> Shape for Option<T> {
    fn all(path: &str, into: &mut Shapes) {
        into.extend([format!("{path}/None"), format!("{path}/Some")]);
        T::all(&format!("{path}/Some"), into);
    }

    fn describe(&self, path: &str, into: &mut Shapes) {
        match self {
            None => drop(into.insert(format!("{path}/None"))),
            Some(value) => {
                into.insert(format!("{path}/Some"));
                value.describe(&format!("{path}/Some"), into);
            }
        }
    }
}

/// Lists have a shape for each length that code treats alone.
fn of_list<T: Shape>(list: &[T], path: &str, into: &mut Shapes) {
    into.insert(format!("{path}[{}]", ["none", "one", "several"][list.len().min(2)]));
    list.iter().for_each(|value| value.describe(path, into));
}

fn all_of_list<T: Shape>(path: &str, into: &mut Shapes) {
    into.extend(["none", "one", "several"].map(|length| format!("{path}[{length}]")));
    T::all(path, into);
}

impl<T: Shape> Shape for Vec<T> {
    fn all(path: &str, into: &mut Shapes) {
        all_of_list::<T>(path, into);
    }

    fn describe(&self, path: &str, into: &mut Shapes) {
        of_list(self, path, into);
    }
}

impl<T: Shape> Shape for Arc<[T]> {
    fn all(path: &str, into: &mut Shapes) {
        all_of_list::<T>(path, into);
    }

    fn describe(&self, path: &str, into: &mut Shapes) {
        of_list(self, path, into);
    }
}

impl<T: Shape> Shape for Arc<T> {
    fn all(path: &str, into: &mut Shapes) {
        T::all(path, into);
    }

    fn describe(&self, path: &str, into: &mut Shapes) {
        T::describe(self, path, into);
    }
}

impl<T: Shape> Shape for Box<T> {
    fn all(path: &str, into: &mut Shapes) {
        T::all(path, into);
    }

    fn describe(&self, path: &str, into: &mut Shapes) {
        T::describe(self, path, into);
    }
}

impl<A: Shape, B: Shape> Shape for (A, B) {
    fn all(path: &str, into: &mut Shapes) {
        A::all(&format!("{path}.0"), into);
        B::all(&format!("{path}.1"), into);
    }

    fn describe(&self, path: &str, into: &mut Shapes) {
        self.0.describe(&format!("{path}.0"), into);
        self.1.describe(&format!("{path}.1"), into);
    }
}

impl Shape for IpAddr {
    fn all(path: &str, into: &mut Shapes) {
        Family::all(path, into);
    }

    fn describe(&self, path: &str, into: &mut Shapes) {
        Family::of(*self).describe(path, into);
    }
}

impl Shape for PortRange {
    fn all(path: &str, into: &mut Shapes) {
        into.extend(["single", "range", "all"].map(|width| format!("{path}/{width}")));
    }

    fn describe(&self, path: &str, into: &mut Shapes) {
        let PortRange { first, last } = self;
        let width = match *self {
            PortRange::ALL => "all",
            _ if first == last => "single",
            _ => "range",
        };
        into.insert(format!("{path}/{width}"));
    }
}

impl Shape for Block {
    fn all(path: &str, into: &mut Shapes) {
        Family::all(path, into);
        into.extend([format!("{path}.except[none]"), format!("{path}.except[some]")]);
    }

    fn describe(&self, path: &str, into: &mut Shapes) {
        self.family().describe(path, into);
        let except = if self.except().is_empty() { "none" } else { "some" };
        into.insert(format!("{path}.except[{except}]"));
    }
}

impl Shape for Selector {
    fn all(path: &str, into: &mut Shapes) {
        all_of_list::<Requirement>(path, into);
    }

    fn describe(&self, path: &str, into: &mut Shapes) {
        of_list(self.requirements(), path, into);
    }
}

/// Values: an `In` without any is written by no API.
impl Shape for Operator {
    fn all(path: &str, into: &mut Shapes) {
        let shapes = ["In[one]", "In[several]", "NotIn[one]", "NotIn[several]", "Exists", "DoesNotExist"];
        into.extend(shapes.map(|shape| format!("{path}/{shape}")));
    }

    fn describe(&self, path: &str, into: &mut Shapes) {
        let length = |values: &[SmolStr]| ["none", "one", "several"][values.len().min(2)];
        into.insert(match self {
            Operator::In(values) => format!("{path}/In[{}]", length(values)),
            Operator::NotIn(values) => format!("{path}/NotIn[{}]", length(values)),
            Operator::Exists => format!("{path}/Exists"),
            Operator::DoesNotExist => format!("{path}/DoesNotExist"),
        });
    }
}
