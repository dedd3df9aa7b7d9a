//! Flows that no packet of this machine can measure, and why.

use std::net::IpAddr;

use thiserror::Error;

/// Why a flow is not sent. Not retryable: it is a property of the flow and its world, and the same in every run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unmeasurable {
    /// An end without an address.
    #[error("{0} has no address")]
    NoAddress(String),
    /// A multicast, loopback or link-local address.
    #[error("{0} is no address that one machine can have")]
    Unusable(IpAddr),
    /// An address that several pods, nodes or services have.
    #[error("several claim the address {0}")]
    Shared(IpAddr),
    /// An end that is no pod or node of the lab.
    #[error("{0} has no network of its own here")]
    NoNetwork(String),
    /// An end that was not built.
    #[error("{0} is not there")]
    NotBuilt(String),
    /// Two ends without a common address family.
    #[error("the two ends have no address family in common")]
    NoCommonFamily,
    /// Two ends outside the cluster: no node is on the way.
    #[error("both ends are outside")]
    BothOutside,
    /// A service that no address leads through to the flow's backend, e.g. the 64th of one service.
    #[error("the service has no address that leads there")]
    NoServiceAddress,
    /// A template and itself: two pods in a cluster, and one here.
    #[error("a template stands for several pods, and is one here")]
    Template,
    /// A verdict that an address of the lab's own ranges changes.
    #[error("the answer depends on an address that the lab gave")]
    LabAddress,
    /// A condition on layer 7.
    #[error("it is allowed on a condition of layer 7, which the kernel cannot check")]
    Layer7,
    /// A policy that applies to an end outside the cluster.
    #[error("a policy on something outside is not enforced by a node")]
    OutsidePolicy,
    /// A rejected error message of ICMP.
    #[error("nobody answers an error of ICMP with another: a refusal looks like silence")]
    IcmpError,
    /// A verdict that depends on the source port, which the flow leaves open.
    #[error("the answer depends on the source port, and the flow names none")]
    SourcePort,
    /// A policy that applies to a service.
    #[error("a policy applies to the service itself, which is not enforced here")]
    ServicePolicy,
}
