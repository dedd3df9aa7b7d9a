//! A cluster on this machine: every verdict that is predicted can be measured with a packet.
//!
//! ```text
//!   pod ──┐                              ┌── pod            a network namespace each
//!   pod ──┤ veth                         ├── pod
//!         node ───── outside ───── node                     a namespace each: routes, Services by DNAT (table
//!                    203.0.113.7 …                          `palisade_lab`) and the compiled program (table `palisade`)
//! ```
//!
//! - **Completing** (world.rs): adds what a cluster would have added to the manifests: an address for each pod and service, a node for
//!   each pod, a pod for each template.
//! - **Building** (plan.rs, cluster.rs, namespace.rs): the world as namespaces, links and routes. A changed world is reached by the
//!   difference, so that an update is what it would be in a cluster.
//! - **Enforcing** (lab.rs, services.rs): for each node its part of the index's view, compiled, in one transaction.
//! - **Asking** (listen.rs, probe.rs, raw.rs): listeners and probes are sockets of this process. A socket stays in the namespace
//!   where it was made, so a short-lived thread enters, opens some, and is gone; nothing is started in a pod.
//!
//! A node is a namespace of its own, because it matters on which one a pod is: its own node always reaches it and no other
//! does, and each node has only its part of the view. The namespace in the middle forwards without any rule, and owns all
//! addresses that are nobody's.
//!
//! Everything is in namespaces whose names say which process made them (namespace.rs), so what a crashed run left behind can be told
//! from what a living one needs. The machine's own network is never touched.

pub mod clean;
pub mod cluster;
pub mod conntrack;
pub mod error;
pub mod lab;
pub mod listen;
pub mod matrix;
pub mod namespace;
pub mod plan;
pub mod probe;
pub mod raw;
pub mod ready;
pub mod services;
pub mod tool;
pub mod unmeasurable;
pub mod world;

pub use error::LabError;
pub use lab::{Lab, Measured};
