//! How much a text may ask of the reader.
//!
//! A text comes from anybody: a pull request, a cluster, a download. Size alone bounds nothing, because a few bytes
//! can stand for very much (aliases) or very deep (brackets). Each bound here names one way to blow up; the defaults
//! are far above what any cluster holds and far below what hurts.

/// The bounds of one reading. What exceeds them is refused as [`Limit`](super::syntax::SyntaxErrorKind::Limit).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many lists and mappings may stand inside each other, also after aliases are expanded. Everything behind
    /// the readers may recurse over a tree because of this, and so does dropping one: a few hundred is safe.
    /// 128 unless told.
    pub depth: usize,
    /// How many values one document may hold, aliases expanded. 8 000 000 unless told.
    pub nodes: usize,
    /// How many values of one YAML document may come from expanding aliases. What anchors hold is kept aside for
    /// that, and is bounded by the same number again. 100 000 unless told.
    pub alias_nodes: usize,
    /// How many bytes the values that come from expanding aliases may take: their texts, and the tree around them. All
    /// documents of a text share them, because the objects of all are kept. What anchors hold is bounded by the same
    /// number again, one document at a time. 32 MiB unless told: three hundred bytes for each of `alias_nodes`.
    pub alias_bytes: usize,
    /// How many documents one text may hold. 1 000 000 unless told.
    pub documents: usize,
    /// How many characters a YAML scalar may have, or a list or mapping in brackets where a key may stand: the parser
    /// keeps all of it, at a hundred times its size, until it knows whether it is one. 2 000 000 unless told.
    pub stretch: usize,
}

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Limits {
            depth: 128,
            nodes: 8_000_000,
            alias_nodes: 100_000,
            alias_bytes: 32 << 20,
            documents: 1_000_000,
            stretch: 2_000_000,
        }
    }
}
