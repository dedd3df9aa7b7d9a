//! The points that the APIs leave open, each with the default that the product documents.

use thiserror::Error;

/// How to decide what the APIs do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Options {
    /// `ipBlockMatchesPods`: whether address blocks also match pods, by their address.
    pub ip_block_matches_pods: bool,
    /// `hostNetworkPods`: what a pod in its node's network is.
    pub host_network_pods: HostNetworkPods,
    /// `selfTraffic`: whether a pod's traffic to its own address is subject to policy.
    pub self_traffic: SelfTraffic,
}

/// What a pod in its node's network is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HostNetworkPods {
    /// It is its node.
    Node,
    /// It is an address and nothing else: no selector finds it, and it is no pod's own node.
    Ignore,
}

/// Whether policies hold for a pod's traffic to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SelfTraffic {
    /// It is always allowed.
    Allow,
    /// It is evaluated like any other.
    Evaluate,
}

/// An option nobody knows, or a value it does not have. Not retryable: the text is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OptionError {
    /// No such option.
    #[error("unknown option {0:?}: expected one of ipBlockMatchesPods, hostNetworkPods, selfTraffic")]
    Name(String),
    /// No such value.
    #[error("option {name} cannot be {value:?}: expected {expected}")]
    Value {
        /// The option.
        name: &'static str,
        /// What was written.
        value: String,
        /// What can be written.
        expected: &'static str,
    },
}

// === impl Options ===

impl Default for Options {
    fn default() -> Self {
        Options {
            ip_block_matches_pods: true,
            host_network_pods: HostNetworkPods::Node,
            self_traffic: SelfTraffic::Allow,
        }
    }
}

impl Options {
    /// Sets one option by the name and value users write.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let wrong = |name, expected| Err(OptionError::Value { name, value: value.to_owned(), expected });
        match (name, value) {
            ("ipBlockMatchesPods", "true") => self.ip_block_matches_pods = true,
            ("ipBlockMatchesPods", "false") => self.ip_block_matches_pods = false,
            ("ipBlockMatchesPods", _) => return wrong("ipBlockMatchesPods", "true or false"),
            ("hostNetworkPods", "node") => self.host_network_pods = HostNetworkPods::Node,
            ("hostNetworkPods", "ignore") => self.host_network_pods = HostNetworkPods::Ignore,
            ("hostNetworkPods", _) => return wrong("hostNetworkPods", "node or ignore"),
            ("selfTraffic", "allow") => self.self_traffic = SelfTraffic::Allow,
            ("selfTraffic", "evaluate") => self.self_traffic = SelfTraffic::Evaluate,
            ("selfTraffic", _) => return wrong("selfTraffic", "allow or evaluate"),
            _ => return Err(OptionError::Name(name.to_owned())),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_set_by_name() {
        let mut options = Options::default();
        options.set("ipBlockMatchesPods", "false").unwrap();
        options.set("hostNetworkPods", "ignore").unwrap();
        options.set("selfTraffic", "evaluate").unwrap();
        assert!(!options.ip_block_matches_pods);
        assert_eq!(options.host_network_pods, HostNetworkPods::Ignore);
        assert_eq!(options.self_traffic, SelfTraffic::Evaluate);
    }

    #[test]
    fn a_wrong_name_or_value_says_what_would_be_right() {
        let mut options = Options::default();
        assert!(options.set("selfTrafic", "allow").unwrap_err().to_string().contains("selfTraffic"));
        assert!(options.set("selfTraffic", "deny").unwrap_err().to_string().contains("allow or evaluate"));
    }
}
