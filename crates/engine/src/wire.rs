//! The wire form of views and deltas: protobuf, version 1, as `proto/palisade/feed/v1/feed.proto` documents it.
//!
//! ```text
//!   Delta, View ──► encode.rs ──► bytes ──► decode.rs ──► Delta, View
//! ```
//!
//! Bytes come from the network. Decoding never panics, allocates in proportion to the input, checks whatever the
//! types promise (ordered ranges, canonical selections, known members), and refuses what it does not know instead of skipping
//! it: an unknown field may be a condition, and a rule without it would allow more than the sender means.

mod decode;
mod encode;
mod protobuf;
#[cfg(test)]
mod tests;

use thiserror::Error;

use crate::delta::Delta;
use crate::view::{OutOfStep, View};

/// The version that this release writes, and the only one that it reads.
pub const VERSION: u32 = 1;

/// The largest frame that is read, in bytes: some ten times the view of a cluster with 100,000 pods and 10,000 policies.
pub const MAX_FRAME: usize = 1 << 30;

/// What a frame carries.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// A whole view, which replaces what the receiver has.
    Whole(View),
    /// The next delta.
    Delta(Delta),
}

/// Why bytes are no frame. Not retryable: the same bytes fail again.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The frame is longer than [`MAX_FRAME`].
    #[error("the frame has {0} bytes, more than {MAX_FRAME}")]
    TooLarge(usize),
    /// Another version.
    #[error("the frame is of version {0}; this release reads version {VERSION}")]
    Version(u32),
    /// The bytes are not protobuf as version 1 writes it.
    #[error("{0} is malformed")]
    Malformed(&'static str),
    /// A field that version 1 does not have: the sender is newer.
    #[error("{message} has a field {field} that version {VERSION} does not know")]
    UnknownField {
        /// The message.
        message: &'static str,
        /// The field's number.
        field: u32,
    },
    /// A value of an enum that version 1 does not have: the sender is newer.
    #[error("{what} has the value {value} that version {VERSION} does not know")]
    UnknownValue {
        /// The enum.
        what: &'static str,
        /// The value.
        value: u64,
    },
    /// A required part is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A number, length or index is out of range.
    #[error("{0} is out of range")]
    OutOfRange(&'static str),
    /// The encoding of a selection is not canonical, or of an unknown version or kind.
    #[error("the selection of a set is not canonical, or newer than version 1")]
    Selection,
    /// A whole view contradicts itself.
    #[error("the view contradicts itself: {0}")]
    Contradiction(#[from] OutOfStep),
}
