//! Why a text could not be read, and where.
//!
//! Both readers fail with this one type, so that whoever reports it need not know the format. It tells what is wrong
//! with the text from what is merely too much, because only the first is the author's mistake.

use super::tree::Span;

/// A document that could not be read.
#[derive(Debug, Clone, PartialEq)]
pub struct SyntaxError {
    /// Wrong, or too much.
    pub kind: SyntaxErrorKind,
    /// What is wrong, in a clause without a place.
    pub message: String,
    /// Where it is wrong.
    pub span: Span,
}

/// Wrong, or too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyntaxErrorKind {
    /// The text is not what its format allows.
    Syntax,
    /// The text exceeds one of the [`Limits`](super::limits::Limits).
    Limit,
}

// === impl SyntaxError ===

impl SyntaxError {
    /// The text is wrong here.
    pub(super) fn syntax(message: impl Into<String>, span: Span) -> Self {
        SyntaxError { kind: SyntaxErrorKind::Syntax, message: message.into(), span }
    }

    /// The text asks too much here.
    pub(super) fn limit(message: impl Into<String>, span: Span) -> Self {
        SyntaxError { kind: SyntaxErrorKind::Limit, message: message.into(), span }
    }

    /// Lists and mappings nest too deep.
    pub(super) fn too_deep(depth: usize, span: Span) -> Self {
        Self::limit(format!("lists and mappings are nested more than {depth} deep"), span)
    }

    /// A document is too large.
    pub(super) fn too_many_nodes(nodes: usize, span: Span) -> Self {
        Self::limit(format!("the document holds more than {nodes} values"), span)
    }

    /// A value in brackets or a scalar is too long.
    pub(super) fn too_long(stretch: usize, span: Span) -> Self {
        Self::limit(
            format!("a scalar, list or mapping begins here that goes on for more than {stretch} characters"),
            span,
        )
    }

    /// A text holds too many documents.
    pub(super) fn too_many_documents(documents: usize, span: Span) -> Self {
        Self::limit(format!("the text holds more than {documents} documents"), span)
    }
}
