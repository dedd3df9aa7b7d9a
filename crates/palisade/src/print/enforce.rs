//! What is in force, for people and for programs.

use palisade_agent::deciders::{Decider, FORGED, NO_POLICY};
use palisade_agent::state::PodState;
use palisade_nftables::text::GUARD;
use palisade_report::diagnostics::plural;
use palisade_report::style::Look;
use palisade_report::text::Text;
use serde::Serialize;

/// What `enforce status --output json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Whether an enforcer is running, which follows the files.
    pub running: bool,
    /// Its number.
    pub process: Option<u32>,
    /// What is in the kernel.
    pub table: Table,
    /// The second table, `inet palisade_guard`, if it is there: it refuses what the policy that it is for does not allow.
    pub guard: Option<Guard>,
    /// The node that this machine is.
    pub node: Option<String>,
    /// Since when rules are in force, and since when these.
    pub since: Option<String>,
    pub changed: Option<String>,
    /// How many events of the index they come from.
    pub epoch: Option<u64>,
    /// How many policies there are.
    pub policies: usize,
    /// The files that they come from.
    pub files: Vec<File>,
    /// The pods of this machine.
    pub pods: Vec<Pod>,
    /// What was counted, by the rule that decided.
    pub rules: Vec<Rule>,
    /// What of the policies the kernel cannot do.
    pub lacks: Vec<String>,
    /// Why what is in force is not what the files say, if it is not.
    pub trouble: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Table {
    /// Our table is as it was left.
    AsLeft,
    /// Somebody else has changed it.
    Changed,
    /// There is none: nothing is in force.
    None,
    /// There is one, and nobody knows whether it is as it was left.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Guard {
    /// Who put it there.
    pub owner: GuardOwner,
    /// The number of the owner's process, if it is running.
    pub process: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GuardOwner {
    /// The enforcer that is running, which makes a change: it goes with the change.
    Enforcer,
    /// An enforcer that is running with another state folder: it goes with that one's change.
    OtherEnforcer,
    /// No enforcer is running: one that was killed during a change left it. The next one removes it, and so does `stop`.
    LeftBehind,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct File {
    pub name: String,
    /// SHA-256 of the version that is in force.
    pub digest: String,
    /// Whether the file is another one now, or gone.
    pub changed_since: bool,
    /// Whether it is gone.
    pub gone: bool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Pod {
    /// As namespace/name.
    pub pod: String,
    pub addresses: Vec<String>,
    /// The interface that leads to it, if that is known.
    pub interface: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// The policy that decided, e.g. `NetworkPolicy shop/db`.
    pub policy: String,
    /// `egress` or `ingress`.
    pub direction: String,
    /// The rule's index in its direction; null where the policy's isolation decided.
    pub rule: Option<u32>,
    /// `allowed`, `denied` or `rejected`.
    pub verdict: String,
    pub packets: u64,
    pub bytes: u64,
}

// === impl Status ===

impl Status {
    /// Whether what the files say is in force.
    pub fn is_good(&self) -> bool {
        let follows = self.running || !self.files.iter().any(|file| file.changed_since);
        let is_guarded = self.guard.is_some_and(|guard| guard.owner != GuardOwner::Enforcer);
        self.table == Table::AsLeft && self.trouble.is_empty() && follows && !is_guarded
    }
}

// === impl Guard ===

impl Guard {
    /// Says what the table is and how it goes away.
    fn words(self) -> String {
        let process = self.process.map(|process| format!(", process {process}")).unwrap_or_default();
        let about = match self.owner {
            GuardOwner::Enforcer => {
                format!("belongs to the enforcer that makes a change{process}; it goes with the change")
            }
            GuardOwner::OtherEnforcer => format!(
                "belongs to an enforcer with another --state{process}; it goes with the change that one makes"
            ),
            GuardOwner::LeftBehind => "was left by an enforcer that was killed during a change, and refuses what was not \
                                       allowed then; start palisade enforce, or run palisade enforce stop: both remove it"
                .to_owned(),
        };
        format!("table inet {GUARD} {about}")
    }
}

// === impl Pod ===

impl From<&PodState> for Pod {
    fn from(pod: &PodState) -> Self {
        Pod {
            pod: pod.pod.clone(),
            addresses: pod.addresses.iter().map(ToString::to_string).collect(),
            interface: pod.interface.clone(),
        }
    }
}

// === impl Rule ===

impl Rule {
    pub fn new(decider: &Decider, packets: u64, bytes: u64) -> Self {
        let Decider { policy, direction, rule, verdict } = decider.clone();
        Rule { policy, direction, rule, verdict, packets, bytes }
    }
}

/// The same for people: the answer first, then from what, then what was counted.
pub fn status(status: &Status, look: Look) -> Text {
    let mut out = Text::new();
    let table = match status.table {
        Table::AsLeft if status.trouble.is_empty() => look.good("in force"),
        Table::AsLeft => look.warning("in force, but not as the files say"),
        Table::Changed => look.bad("in force, but somebody changed the table"),
        Table::None => look.bad("nothing is in force"),
        Table::Unknown => look.warning("a table is there; whether it is as it was left is not known"),
    };
    let policies =
        if status.policies == 1 { "1 policy".to_owned() } else { format!("{} policies", status.policies) };
    match &status.node {
        Some(node) => {
            let pods = plural(status.pods.len(), "pod");
            write_line!(out, "{table}: {policies} for {pods} on node {node}");
        }
        None => {
            write_line!(out, "{table}");
        }
    }
    if let (Some(since), Some(changed), Some(epoch)) = (&status.since, &status.changed, status.epoch) {
        write_line!(out, "  since {since}, changed {changed} (epoch {epoch})");
    }
    let runs = match (status.running, status.process) {
        (true, Some(process)) => text!("an enforcer follows the files, process {process}"),
        (true, None) => Text::own("an enforcer follows the files"),
        (false, _) => look.warning("no enforcer is running: changes of the files are not followed"),
    };
    write_line!(out, "  {runs}");
    if let Some(guard) = status.guard {
        let label = match guard.owner {
            GuardOwner::Enforcer => look.strong("guard:"),
            GuardOwner::OtherEnforcer | GuardOwner::LeftBehind => look.bad("guard:"),
        };
        write_line!(out, "  {label} {}", guard.words());
    }
    for trouble in &status.trouble {
        let mut lines = trouble.lines();
        write_line!(out, "  {} {}", look.bad("trouble:"), lines.next().unwrap_or_default());
        for line in lines {
            write_line!(out, "    {line}");
        }
    }
    for lack in &status.lacks {
        write_line!(out, "  {} {lack}", look.warning("the kernel cannot:"));
    }
    if !status.files.is_empty() {
        out.push_own("\nfrom\n");
    }
    for file in &status.files {
        let digest = file.digest.get(..12).unwrap_or(&file.digest);
        let other = match (file.gone, file.changed_since) {
            (true, _) => look.warning("   is gone"),
            (_, true) => look.warning("   is another now"),
            _ => Text::new(),
        };
        write_line!(out, "  {digest}  {}{other}", file.name);
    }
    if !status.pods.is_empty() {
        out.push_own("\npods\n");
    }
    for pod in &status.pods {
        let by = pod.interface.as_ref().map(|name| format!("   by {name}")).unwrap_or_default();
        let addresses =
            if pod.addresses.is_empty() { "no address".to_owned() } else { pod.addresses.join(", ") };
        write_line!(out, "  {:<30} {addresses}{by}", pod.pod);
    }
    if !status.rules.is_empty() {
        out.push_own("\n     packets         bytes   decided by\n");
    }
    for rule in &status.rules {
        let by = match rule.rule {
            Some(number) => format!(" by {}, rule {number}", rule.policy),
            None if rule.policy == NO_POLICY => ": no policy decides it".to_owned(),
            None if rule.policy == FORGED => ": not the pod's own source address".to_owned(),
            None => format!(" by {}, which isolates", rule.policy),
        };
        write_line!(out, "{:>12} {:>13}   {} {}{by}", rule.packets, rule.bytes, rule.direction, rule.verdict);
    }
    out
}
