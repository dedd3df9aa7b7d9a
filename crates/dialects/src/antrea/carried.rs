//! What a rule wants a connection to carry: ports at both ends, ICMP and IGMP, and conditions on layer 7.

use std::net::IpAddr;

use palisade_model::policy::{IcmpMatch, Layer7, PortMatch, TrafficMatch, TrafficMatches};
use palisade_model::traffic::{PortRange, Protocol};
use smol_str::SmolStr;

use super::ends::only;
use super::types::{self, Icmp, Igmp, L7Protocol, Port, Rule};
use crate::definition::typed::{NumberOrText, Object, Text, Whole};

/// `ports` and `protocols`, which add up; anything when there is neither.
pub fn traffic(rule: &Rule) -> Result<TrafficMatches, String> {
    let ports = rule.ports.as_deref().unwrap_or_default().iter().map(|entry| port(entry));
    let protocols = rule.protocols.as_deref().unwrap_or_default().iter().map(|entry| protocol(entry));
    let all = ports.chain(protocols).collect::<Result<Vec<_>, String>>()?;
    Ok(if all.is_empty() { TrafficMatches::Any } else { TrafficMatches::Of(all) })
}

/// `l7Protocols`, as far as they can be read.
pub fn layer7(written: Option<&[Object<L7Protocol>]>) -> Vec<Layer7> {
    written.unwrap_or_default().iter().filter_map(|entry| condition(entry).ok()).collect()
}

/// What of `l7Protocols` cannot be read.
pub fn check_layer7(rule: &Rule) -> Result<(), String> {
    rule.l7_protocols.as_deref().unwrap_or_default().iter().try_for_each(|entry| condition(entry).map(drop))
}

fn port(entry: &Port) -> Result<TrafficMatch, String> {
    if let Some(why) = &entry.unreadable {
        return Err(why.clone());
    }
    let protocol = match entry.protocol.as_ref().map(|text| text.as_str()) {
        None | Some("") => Protocol::Tcp,
        Some(name) => Protocol::from_kubernetes(name).ok_or_else(|| format!("protocol {name:?}"))?,
    };
    let here = match (&entry.port, entry.end_port) {
        (None, None) => PortMatch::Numbers(protocol, PortRange::ALL),
        (None, Some(_)) => return Err("endPort without port".to_owned()),
        (Some(NumberOrText::Number(first)), last) => {
            PortMatch::Numbers(protocol, range(*first, last.map_or(*first, |Whole(last)| last))?)
        }
        (Some(NumberOrText::Text(name)), None) if !name.is_empty() => {
            PortMatch::Named(Some(protocol), name.clone())
        }
        (Some(NumberOrText::Text(name)), _) => return Err(format!("port {name:?} with endPort")),
    };
    match (entry.source_port, entry.source_end_port) {
        (None, None) => Ok(here.into()),
        (None, Some(_)) => Err("sourceEndPort without sourcePort".to_owned()),
        (Some(Whole(first)), last) => {
            let range = range(first, last.map_or(first, |Whole(last)| last))?;
            Ok(TrafficMatch::From(range, Box::new(here)))
        }
    }
}

fn range(first: i64, last: i64) -> Result<PortRange, String> {
    match (u16::try_from(first), u16::try_from(last)) {
        (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(PortRange { first, last }),
        _ => Err(format!("ports {first} to {last}")),
    }
}

fn protocol(entry: &types::Protocol) -> Result<TrafficMatch, String> {
    if let Some(why) = &entry.unreadable {
        return Err(why.clone());
    }
    only("a protocol", [entry.icmp.as_deref().map(icmp), entry.igmp.as_deref().map(igmp)])
}

fn icmp(written: &Icmp) -> Result<TrafficMatch, String> {
    if let Some(why) = &written.unreadable {
        return Err(why.clone());
    }
    let (kind, code) = (byte(written.icmp_type, "icmpType")?, byte(written.icmp_code, "icmpCode")?);
    Ok(TrafficMatch::Icmp(IcmpMatch { kind, code }))
}

fn igmp(written: &Igmp) -> Result<TrafficMatch, String> {
    if let Some(why) = &written.unreadable {
        return Err(why.clone());
    }
    let group = match written.group_address.as_ref().map(|text| text.as_str()) {
        None | Some("") => None,
        Some(text) => Some(text.parse::<IpAddr>().map_err(|_| format!("groupAddress {text:?}"))?),
    };
    Ok(TrafficMatch::Igmp(byte(written.igmp_type, "igmpType")?, group))
}

fn byte(written: Option<Whole>, name: &str) -> Result<Option<u8>, String> {
    written.map(|Whole(number)| u8::try_from(number).map_err(|_| format!("{name} {number}"))).transpose()
}

fn condition(entry: &L7Protocol) -> Result<Layer7, String> {
    if let Some(why) = &entry.unreadable {
        return Err(why.clone());
    }
    let text = |text: &Option<Text>| -> Option<SmolStr> {
        text.as_ref().map(|text| text.0.clone()).filter(|text| !text.is_empty())
    };
    let http = entry.http.as_deref().map(|http| match &http.unreadable {
        Some(why) => Err(why.clone()),
        None => {
            Ok(Layer7::Http { host: text(&http.host), method: text(&http.method), path: text(&http.path) })
        }
    });
    let tls = entry.tls.as_deref().map(|tls| match &tls.unreadable {
        Some(why) => Err(why.clone()),
        None => Ok(Layer7::Tls { sni: text(&tls.sni) }),
    });
    only("an l7Protocol", [http, tls])
}
