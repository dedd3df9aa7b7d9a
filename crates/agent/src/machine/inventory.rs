//! The objects that placing a machine depends on, looked up without copying any.

use palisade_model::cluster::{Node, Pod, Service, Workload};
use palisade_model::snapshot::Objects;

/// Pods, and what a machine needs to know about them.
pub trait Inventory {
    /// Iterates over all pods and external entities.
    fn pods(&self) -> Box<dyn Iterator<Item = &Pod> + '_>;

    /// Returns a pod or external entity by name.
    fn pod(&self, namespace: &str, name: &str) -> Option<&Pod> {
        self.pods().find(|pod| pod.namespace == namespace && pod.name == name)
    }

    /// Iterates over the workloads.
    fn workloads(&self) -> Box<dyn Iterator<Item = &Workload> + '_>;

    /// Iterates over the nodes.
    fn nodes(&self) -> Box<dyn Iterator<Item = &Node> + '_>;

    /// Iterates over the services.
    fn services(&self) -> Box<dyn Iterator<Item = &Service> + '_>;
}

// === impl Objects ===

impl Inventory for Objects {
    fn pods(&self) -> Box<dyn Iterator<Item = &Pod> + '_> {
        Box::new(self.pods.iter())
    }

    fn workloads(&self) -> Box<dyn Iterator<Item = &Workload> + '_> {
        Box::new(self.workloads.iter())
    }

    fn nodes(&self) -> Box<dyn Iterator<Item = &Node> + '_> {
        Box::new(self.nodes.iter())
    }

    fn services(&self) -> Box<dyn Iterator<Item = &Service> + '_> {
        Box::new(self.services.iter())
    }
}
