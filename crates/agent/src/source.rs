//! Where the objects of a node come from, and what that means for what is in force.

/// The sort of a source of pods and policies.
///
/// Whatever is missing in files can be missing by mistake: a volume is not mounted, an editor saved half. A cluster's API lists what there
/// is, and an agent is told nothing before the list is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Manifests that people or programs write into a folder.
    Files,
    /// A cluster's API, listed completely.
    Cluster,
}

// === impl Source ===

impl Source {
    /// Whether a node that has no pods any more is believed: their rules go out of force. Otherwise they stay, and that is reported.
    pub fn lists_empty_nodes(self) -> bool {
        match self {
            Source::Files => false,
            Source::Cluster => true,
        }
    }
}
