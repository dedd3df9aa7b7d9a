//! What a user did wrong, or may regret: a code, where it stands, what it says and what would be right.
//!
//! Diagnostics are data. Every check in every crate returns a list of them, all at once; how they look on a
//! terminal, in JSON or in SARIF is the printer's business. A code exists once, as a [`Code`] that also carries its
//! documentation, so that `palisade check --explain` and `docs/diagnostics.md` cannot drift from the program.

use std::fmt;
use std::sync::Arc;

use smol_str::SmolStr;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; never changes an exit code.
    Note,
    /// Legal, and probably not what was meant.
    Warning,
    /// The API would refuse it, or it cannot be read.
    Error,
}

/// One kind of diagnostic, with its documentation.
#[derive(Debug, PartialEq)]
pub struct Code {
    /// The stable name, e.g. `K0203`.
    pub id: &'static str,
    /// The severity every diagnostic of this code has.
    pub severity: Severity,
    /// One line: what the code is about.
    pub title: &'static str,
    /// Why it matters and what to do, in a few sentences of Markdown, with an example where one helps.
    pub explanation: &'static str,
}

/// A place in a source text. Lines and columns count from 1; columns count characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The file as the user named it, or `<stdin>`.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// How many characters the value takes on that line, at least 1.
    pub width: u32,
}

/// The object a diagnostic is about, as far as it could be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Subject {
    /// Its kind, empty when unknown.
    pub kind: SmolStr,
    /// Its namespace; `None` for cluster-scoped objects.
    pub namespace: Option<SmolStr>,
    /// Its name, empty when unknown.
    pub name: SmolStr,
}

/// One finding.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnostic {
    /// Which kind of finding.
    pub code: &'static Code,
    /// What is wrong, in one sentence. Where the API server has a text for it, that text.
    pub message: String,
    /// The object concerned.
    pub subject: Option<Subject>,
    /// The path of the field in the object, as the API writes it: `spec.ingress[0].ports[1].endPort`.
    pub field: String,
    /// Where it stands.
    pub location: Option<Location>,
    /// A short word for the caret, e.g. `not inside 10.1.0.0/16`.
    pub label: Option<String>,
    /// What would be right.
    pub help: Option<String>,
}

// === impl Severity ===

impl Severity {
    /// `error`, `warning` or `note`.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Location ===

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

// === impl Subject ===

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        match (&self.namespace, self.name.is_empty()) {
            (Some(namespace), false) => write!(f, " {namespace}/{}", self.name),
            (None, false) => write!(f, " {}", self.name),
            _ => Ok(()),
        }
    }
}

// === impl Diagnostic ===

impl Diagnostic {
    /// Whether another one says the same of the same field of the same object, wherever that is written.
    pub fn says_the_same(&self, other: &Diagnostic) -> bool {
        (self.code.id, &self.message, &self.field, &self.subject)
            == (other.code.id, &other.message, &other.field, &other.subject)
    }

    /// A finding without a place yet.
    pub fn new(code: &'static Code, message: impl Into<String>) -> Self {
        Diagnostic {
            code,
            message: message.into(),
            subject: None,
            field: String::new(),
            location: None,
            label: None,
            help: None,
        }
    }

    /// The code's severity.
    pub fn severity(&self) -> Severity {
        self.code.severity
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        self.severity() == Severity::Error
    }

    /// Sets the field path.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = field.into();
        self
    }

    /// Sets the place.
    #[must_use]
    pub fn at(mut self, location: Option<Location>) -> Self {
        self.location = location;
        self
    }

    /// Sets the object.
    #[must_use]
    pub fn about(mut self, subject: Subject) -> Self {
        self.subject = Some(subject);
        self
    }

    /// Sets the word at the caret.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Sets the help line.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}
