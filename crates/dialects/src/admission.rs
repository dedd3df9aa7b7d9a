//! What an API server would say to a request: create, update or delete of one object.

use palisade_model::diagnostic::Diagnostic;

use crate::decode::Reader;
use crate::object::{self, recognise};
use crate::source::tree::{Node, Source};

/// A request about one object.
#[derive(Debug, Clone, Copy)]
pub enum Request<'n> {
    /// It shall come into being.
    Create(&'n Node<'n>),
    /// It shall change from the first to the second.
    Update(&'n Node<'n>, &'n Node<'n>),
    /// It shall go.
    Delete(&'n Node<'n>),
}

/// Everything that speaks against the request, and the warnings. It is refused if one of them is an error.
pub fn admit(source: &Source, request: Request<'_>) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    match request {
        Request::Create(new) => {
            object::review(source, new, &mut found);
        }
        Request::Update(old, new) => {
            if let Some((kind, header)) = recognise(source, new, &mut found) {
                let mut reader = Reader::new(source, new, &mut found);
                reader.subject = header.subject();
                (kind.update)(old, &header, new, &mut reader);
            }
        }
        // None of the Kubernetes policies refuses to be deleted; what cannot be recognised cannot be.
        Request::Delete(old) => drop(recognise(source, old, &mut found)),
    }
    found
}
