//! What an API server would say to a request: create, update or delete of one object.

use palisade_model::diagnostic::Diagnostic;

use crate::antrea;
use crate::decode::Reader;
use crate::object::{self, recognise};
use crate::source::tree::{Node, Source};
use crate::world::World;

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

/// Everything that speaks against the request, and the warnings, where the objects of the world are there already. It is
/// refused if one of them is an error.
pub fn admit(source: &Source, request: Request<'_>, world: &World) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let node = match request {
        Request::Create(new) => {
            object::review(source, new, &mut found);
            new
        }
        Request::Update(old, new) => {
            if let Some((kind, header)) = recognise(source, new, &mut found) {
                let mut reader = Reader::new(source, new, &mut found);
                reader.subject = header.subject();
                (kind.update)(old, &header, new, &mut reader);
            }
            new
        }
        // What cannot be recognised cannot be deleted.
        Request::Delete(old) => {
            recognise(source, old, &mut found);
            old
        }
    };
    if let Some((_, header)) = recognise(source, node, &mut Vec::new()) {
        let mut reader = Reader::new(source, node, &mut found);
        reader.subject = header.subject();
        antrea::world::among(request, &header, world, &mut reader);
    }
    found
}
