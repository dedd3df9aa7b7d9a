//! A rule in JSON, byte by byte as Go writes Antrea's types: their order of fields, without what is empty.
//!
//! What cannot be read cannot be written: then there is no text at all.

use std::fmt::Write;

use crate::antrea::types::{
    AppliedTo, Http, Icmp, Igmp, IpBlock, L7Protocol, NamespacedName, Peer, PeerNamespaces, PeerService,
    Port, Protocol, Rule, Tls,
};
use crate::apimachinery::field::json_quoted;
use crate::definition::selector::{LabelSelector, LabelSelectorRequirement};
use crate::definition::typed::{List, NumberOrText, Object, Text, Texts, Whole};

/// A rule.
pub fn rule(rule: &Rule) -> Option<String> {
    rule.json()
}

/// Can be written as Go does.
trait Json {
    /// The text; `None` if something in it cannot be read.
    fn json(&self) -> Option<String>;

    /// Whether Go leaves it out with `omitempty`.
    fn is_empty(&self) -> bool {
        false
    }
}

/// An object on the way.
struct Fields {
    out: String,
    readable: bool,
}

impl Fields {
    fn new(unreadable: &Option<String>) -> Self {
        Fields { out: "{".to_owned(), readable: unreadable.is_none() }
    }

    /// One more field, unless it is empty.
    fn field<T: Json>(self, key: &str, value: &Option<T>) -> Self {
        match value {
            Some(value) if !value.is_empty() => self.always(key, value.json()),
            _ => self,
        }
    }

    /// One more field, empty or not.
    fn always(mut self, key: &str, value: Option<String>) -> Self {
        self.readable &= value.is_some();
        let comma = if self.out.len() > 1 { "," } else { "" };
        let _ = write!(self.out, "{comma}\"{key}\":{}", value.unwrap_or_default());
        self
    }

    fn end(mut self) -> Option<String> {
        self.out.push('}');
        self.readable.then_some(self.out)
    }
}

fn list(items: impl Iterator<Item = Option<String>>) -> Option<String> {
    items.collect::<Option<Vec<String>>>().map(|items| format!("[{}]", items.join(",")))
}

// === impl Json ===

impl Json for Text {
    fn json(&self) -> Option<String> {
        Some(json_quoted(&self.0))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Json for Texts {
    fn json(&self) -> Option<String> {
        list(self.0.iter().map(|text| Some(json_quoted(text))))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Json for Whole {
    fn json(&self) -> Option<String> {
        Some(self.0.to_string())
    }
}

impl Json for NumberOrText {
    fn json(&self) -> Option<String> {
        Some(match self {
            NumberOrText::Number(number) => number.to_string(),
            NumberOrText::Text(text) => json_quoted(text),
        })
    }
}

impl<T: Json> Json for Object<T> {
    fn json(&self) -> Option<String> {
        (**self).json()
    }
}

impl<T: Json> Json for List<T> {
    fn json(&self) -> Option<String> {
        list(self.iter().map(|item| item.json()))
    }

    fn is_empty(&self) -> bool {
        (**self).is_empty()
    }
}

/// The fields of a type in Go's order, each left out when it is empty.
macro_rules! json {
    ($($name:ident { $($key:literal $field:ident)* })*) => {$(
        impl Json for $name {
            fn json(&self) -> Option<String> {
                Fields::new(&self.unreadable)$(.field($key, &self.$field))*.end()
            }
        }
    )*};
}

json! {
    AppliedTo {
        "podSelector" pod_selector
        "namespaceSelector" namespace_selector
        "externalEntitySelector" external_entity_selector
        "group" group
        "serviceAccount" service_account
        "service" service
        "nodeSelector" node_selector
    }
    Peer {
        "ipBlock" ip_block
        "podSelector" pod_selector
        "namespaceSelector" namespace_selector
        "namespaces" namespaces
        "externalEntitySelector" external_entity_selector
        "group" group
        "fqdn" fqdn
        "serviceAccount" service_account
        "nodeSelector" node_selector
        "scope" scope
    }
    PeerNamespaces { "match" matching "sameLabels" same_labels }
    NamespacedName { "name" name "namespace" namespace }
    PeerService { "name" name "namespace" namespace "scope" scope }
    Port {
        "protocol" protocol
        "port" port
        "endPort" end_port
        "sourcePort" source_port
        "sourceEndPort" source_end_port
    }
    Protocol { "icmp" icmp "igmp" igmp }
    Icmp { "icmpType" icmp_type "icmpCode" icmp_code }
    Igmp { "igmpType" igmp_type "groupAddress" group_address }
    L7Protocol { "http" http "tls" tls }
    Http { "host" host "method" method "path" path }
    Tls { "sni" sni }
}

impl Json for IpBlock {
    fn json(&self) -> Option<String> {
        let cidr = self.cidr.as_ref().map_or_else(|| Some("\"\"".to_owned()), Json::json);
        Fields::new(&self.unreadable).always("cidr", cidr).field("except", &self.except).end()
    }
}

impl Json for LabelSelector {
    fn json(&self) -> Option<String> {
        let mut labels: Vec<_> = self.match_labels.iter().flat_map(|labels| labels.0.iter()).collect();
        labels.sort();
        let mut fields = Fields::new(&self.unreadable);
        if !labels.is_empty() {
            let labels =
                labels.iter().map(|(key, value)| format!("{}:{}", json_quoted(key), json_quoted(value)));
            let labels = format!("{{{}}}", labels.collect::<Vec<_>>().join(","));
            fields = fields.always("matchLabels", Some(labels));
        }
        fields.field("matchExpressions", &self.match_expressions).end()
    }
}

impl Json for LabelSelectorRequirement {
    fn json(&self) -> Option<String> {
        let text = |text: &Option<Text>| text.as_ref().map_or_else(|| Some("\"\"".to_owned()), Json::json);
        Fields::new(&self.unreadable)
            .always("key", text(&self.key))
            .always("operator", text(&self.operator))
            .field("values", &self.values)
            .end()
    }
}

impl Json for Rule {
    fn json(&self) -> Option<String> {
        let logging = self.enable_logging.is_some_and(|logging| logging.0);
        Fields::new(&self.unreadable)
            .always("action", self.action.as_ref().and_then(Json::json))
            .field("ports", &self.ports)
            .field("protocols", &self.protocols)
            .field("l7Protocols", &self.l7_protocols)
            .field("from", &self.from)
            .field("to", &self.to)
            .field("toServices", &self.to_services)
            .field("name", &self.name)
            .always("enableLogging", Some(logging.to_string()))
            .field("logLabel", &self.log_label)
            .field("appliedTo", &self.applied_to)
            .end()
    }
}
