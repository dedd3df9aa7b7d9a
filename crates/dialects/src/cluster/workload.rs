//! Deployments and the other objects that make pods: each stands for a pod of its template.

use palisade_model::cluster::Workload;

use super::pod::described;
use super::{dig, items, metadata, no_update, text};
use crate::apimachinery::field::Path;
use crate::decode::Reader;
use crate::object::{Header, Kind, Lowered};
use crate::source::tree::Node;

const APPS: &[&str] = &["v1", "v1beta2", "v1beta1"];

const fn workload(group: &'static str, versions: &'static [&'static str], kind: &'static str) -> Kind {
    Kind { group, versions, kind, namespaced: true, read, update: no_update }
}

/// The kind.
pub const DEPLOYMENT: Kind = workload("apps", APPS, "Deployment");
/// The kind.
pub const STATEFUL_SET: Kind = workload("apps", APPS, "StatefulSet");
/// The kind.
pub const DAEMON_SET: Kind = workload("apps", APPS, "DaemonSet");
/// The kind.
pub const REPLICA_SET: Kind = workload("apps", APPS, "ReplicaSet");
/// The kind, in its old group.
pub const DEPLOYMENT_EXTENSIONS: Kind = workload("extensions", &["v1beta1"], "Deployment");
/// The kind, in its old group.
pub const DAEMON_SET_EXTENSIONS: Kind = workload("extensions", &["v1beta1"], "DaemonSet");
/// The kind, in its old group.
pub const REPLICA_SET_EXTENSIONS: Kind = workload("extensions", &["v1beta1"], "ReplicaSet");
/// The kind.
pub const REPLICATION_CONTROLLER: Kind = workload("", &["v1"], "ReplicationController");
/// The kind.
pub const JOB: Kind = workload("batch", &["v1"], "Job");
/// The kind.
pub const CRON_JOB: Kind = workload("batch", &["v1", "v1beta1"], "CronJob");

fn read(header: &Header, node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Lowered> {
    let root = Path::root();
    let meta = metadata(node, &root, reader);
    let cron = header.kind == "CronJob";
    let spec = Path::new("spec");
    let mut pod = if cron {
        let job = spec.child("jobTemplate");
        let job = job.child("spec");
        described(dig(node, "spec.jobTemplate.spec.template")?, &job.child("template"), reader)
    } else {
        described(dig(node, "spec.template")?, &spec.child("template"), reader)
    };
    pod.namespace = header.namespace.clone().unwrap_or_default();
    pod.name = header.name.clone();
    // A template may name a node only by mistake; the pods of one workload run on many.
    pod.node = None;
    pod.terminated = header.kind == "Job" && finished(node, reader);
    pod.at = Some(header.at.clone());
    Some(Lowered::Workload(Workload { kind: header.kind.clone(), owner: meta.owner(), template: pod }))
}

/// Whether a Job is over: its pods are then, too.
fn finished(node: &Node<'_>, reader: &mut Reader<'_>) -> bool {
    items(node, "status.conditions", &Path::root(), reader).iter().any(|condition| {
        matches!(text(condition, "type"), Some("Complete" | "Failed"))
            && text(condition, "status") == Some("True")
    })
}
