//! v1alpha2: ClusterNetworkPolicy, which is AdminNetworkPolicy and BaselineAdminNetworkPolicy in one.

mod crd;
mod lower;
mod types;

use palisade_model::policy::Policy;

use super::ApiKind;
use crate::decode::Reader;
use crate::definition::schema::Schema;
use crate::meta::ObjectMeta;
use crate::object::Header;

pub use types::ClusterNetworkPolicy;

impl ApiKind for ClusterNetworkPolicy {
    const SCHEMA: &'static Schema = &crd::CLUSTER;

    fn metadata(&self) -> Option<&ObjectMeta> {
        self.metadata.as_ref()
    }

    fn lower(&self, header: &Header, reader: &Reader<'_>) -> Policy {
        lower::cluster(self, header, reader)
    }
}
