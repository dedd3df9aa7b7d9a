//! An ExternalEntity: a machine outside the cluster that policies can select by its labels.

use std::net::IpAddr;

use palisade_model::cluster::{ContainerPort, Pod};
use palisade_model::traffic::Protocol;

use super::types::ExternalEntity;
use crate::definition::typed::Whole;
use crate::object::Header;

/// As an endpoint. Addresses and ports that are none are left out: they have been reported.
pub fn lower(written: &ExternalEntity, header: &Header) -> Pod {
    let spec = written.spec.as_deref().cloned().unwrap_or_default();
    let address = |text: &str| text.parse::<IpAddr>().ok().map(|address| address.to_canonical());
    let endpoints = spec.endpoints.as_deref().unwrap_or_default();
    let addresses = endpoints.iter().filter_map(|endpoint| address(endpoint.ip.as_ref()?)).collect();
    let ports = spec.ports.as_deref().unwrap_or_default().iter().filter_map(|port| {
        let protocol = port.protocol.as_ref().map_or("TCP", |text| text.as_str());
        let Whole(number) = port.port?;
        Some(ContainerPort {
            name: port.name.as_ref().map(|name| name.0.clone()),
            protocol: Protocol::from_kubernetes(protocol)?,
            number: u16::try_from(number).ok().filter(|port| *port > 0)?,
        })
    });
    Pod {
        namespace: header.namespace.clone().unwrap_or_default(),
        name: header.name.clone(),
        labels: written.metadata.as_ref().map(|meta| meta.labels()).unwrap_or_default(),
        addresses,
        ports: ports.collect(),
        external: true,
        ready: true,
        at: Some(header.at.clone()),
        ..Pod::default()
    }
}
