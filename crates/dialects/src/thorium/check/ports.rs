//! Ports and protocols of a rule.

use palisade_model::traffic::{PortRange, Protocol};

use super::Checks;
use crate::apimachinery::field::Path;
use crate::thorium::codes;
use crate::thorium::policy::Ports;
use crate::thorium::types;

impl Checks<'_, '_> {
    /// `ports`, as the document and as the program have them.
    pub(super) fn ports(
        &mut self,
        rule: &types::Rule,
        path: &Path<'_>,
        unreadable: &mut Option<String>,
    ) -> (Vec<Ports>, Vec<Ports>) {
        let (mut all, mut program) = (Vec::new(), Vec::new());
        for (index, port) in rule.ports.iter().flatten().enumerate() {
            let path = path.child("ports");
            let path = path.index(index);
            let range = self.range(port, &path);
            let protocol = self.protocol(port, &path);
            if let (Some(range), Some(protocols)) = (range, &protocol) {
                all.extend(protocols.iter().map(|protocol| Ports { protocol: *protocol, range }));
                program.extend(protocols.first().map(|protocol| Ports { protocol: *protocol, range }));
            }
            if range.is_none() || protocol.is_none() || port.unreadable.is_some() {
                unreadable.get_or_insert(format!("{path} cannot be read"));
            }
        }
        (all, program)
    }

    fn range(&mut self, port: &types::Port, path: &Path<'_>) -> Option<PortRange> {
        let mut number = |value: Option<i64>, key: &str| -> Option<u16> {
            let value = value?;
            let number = u16::try_from(value).ok().filter(|number| *number > 0);
            if number.is_none() {
                let path = path.child(key);
                let message = format!("{value} is not a port: they go from 1 to 65535");
                self.error(&codes::PORT, &path, &message);
            }
            number
        };
        let (first, last) = (number(port.port, "port"), number(port.end_port, "end_port"));
        if port.port.is_none() && port.unreadable.is_none() {
            self.error(&codes::MISSING_FIELD, &path.child("port"), "a port needs its number");
        }
        let first = first?;
        let last = if port.end_port.is_some() { last? } else { first };
        if last < first {
            let message = format!("end_port {last} is below port {first}");
            self.error(&codes::PORT_RANGE, &path.child("end_port"), &message);
            return None;
        }
        Some(PortRange { first, last })
    }

    /// The protocols of a port; the first is the one that the program takes.
    fn protocol(&mut self, port: &types::Port, path: &Path<'_>) -> Option<Vec<Protocol>> {
        let Some(name) = port.protocol.as_deref() else {
            let message = "no protocol means TCP, UDP and SCTP; in Thorium's program it is TCP only";
            self.differs(&codes::DIFFERS_PROTOCOL, path, message);
            return Some(vec![Protocol::Tcp, Protocol::Udp, Protocol::Sctp]);
        };
        let protocol = Protocol::from_kubernetes(name);
        if protocol.is_none() {
            let message = format!("{name:?} is not TCP, UDP or SCTP");
            let capitals = Protocol::from_kubernetes(&name.to_ascii_uppercase());
            self.error(&codes::PROTOCOL, &path.child("protocol"), &message).help =
                capitals.map(|protocol| format!("write {}", protocol.as_kubernetes()));
        }
        protocol.map(|protocol| vec![protocol])
    }
}
