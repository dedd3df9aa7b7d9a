//! v1alpha1: AdminNetworkPolicy, BaselineAdminNetworkPolicy, and the peers of before v0.1.2.

mod crd;
mod legacy;
mod lower;
mod types;

use palisade_model::policy::Policy;

use super::ApiKind;
use crate::decode::Reader;
use crate::definition::schema::Schema;
use crate::meta::ObjectMeta;
use crate::object::Header;

pub use types::{AdminNetworkPolicy, BaselineAdminNetworkPolicy};

impl ApiKind for AdminNetworkPolicy {
    const SCHEMA: &'static Schema = &crd::ADMIN;

    fn metadata(&self) -> Option<&ObjectMeta> {
        self.metadata.as_ref()
    }

    fn lower(&self, header: &Header, reader: &Reader<'_>) -> Policy {
        lower::admin(self, header, reader)
    }
}

impl ApiKind for BaselineAdminNetworkPolicy {
    const SCHEMA: &'static Schema = &crd::BASELINE;

    fn metadata(&self) -> Option<&ObjectMeta> {
        self.metadata.as_ref()
    }

    fn lower(&self, header: &Header, reader: &Reader<'_>) -> Policy {
        lower::baseline(self, header, reader)
    }
}
