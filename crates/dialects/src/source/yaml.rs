//! YAML as kubectl reads it, with the place of every value.
//!
//! The grammar is `saphyr-parser`'s; the tree is built here from its events (see `builder`), pulled one by one so
//! that a limit stops the parser too: a tree made elsewhere would have been built before anybody could object to it.
//! What it may read before the first of them is limited below it (see `bounded`).
//! Each document gets a parser of its own (see `chunks`): an error in one hides no other, and memory is that of one
//! document. The parser allocates every scalar anew; nearly all of them are found again in the text and borrowed.

mod bounded;
mod builder;
mod chunks;
mod marks;
mod scalar;
#[cfg(test)]
mod tests;

use saphyr_parser::{Event, Parser};

use self::bounded::{Bounded, Budget};
use self::builder::Builder;
use self::chunks::Chunks;
use super::limits::Limits;
use super::syntax::SyntaxError;
use super::tree::{Node, Source};

/// The documents of a YAML text; see [`documents`].
struct Documents<'s> {
    text: &'s str,
    limits: &'s Limits,
    chunks: Chunks<'s>,
    parser: Option<Parser<'s, Bounded<'s>>>,
    budget: Budget,
    builder: Builder<'s>,
    documents: usize,
}

/// The documents of a YAML text, one after the other; empty ones are left out. An error takes the place of a document
/// that cannot be read, and those behind the next `---` still come.
pub fn documents<'s>(
    source: &'s Source,
    limits: &'s Limits,
) -> impl Iterator<Item = Result<Node<'s>, SyntaxError>> + 's {
    let text = source.text();
    Documents {
        text,
        limits,
        chunks: Chunks::new(text),
        parser: None,
        budget: Budget::default(),
        builder: Builder::new(text, limits),
        documents: 0,
    }
}

// === impl Documents ===

impl<'s> Documents<'s> {
    /// The next document of the current chunk.
    fn document(&mut self) -> Option<Result<Node<'s>, SyntaxError>> {
        let parser = self.parser.as_mut()?;
        loop {
            self.budget.refill(self.limits.stretch);
            let event = parser.next_event();
            if self.budget.is_spent() {
                self.parser = None;
                return Some(Err(self.builder.too_long()));
            }
            let result = match event? {
                Ok((Event::DocumentEnd, _)) => match self.builder.take() {
                    Some(root) => return Some(Ok(root)),
                    None => continue,
                },
                Ok((event, span)) => self.builder.event(event, span),
                Err(error) => Err(self.builder.scan_error(&error)),
            };
            if let Err(error) = result {
                self.parser = None;
                return Some(Err(error));
            }
        }
    }
}

impl<'s> Iterator for Documents<'s> {
    type Item = Result<Node<'s>, SyntaxError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(result) = self.document() {
                self.documents += 1;
                let most = self.limits.documents;
                if self.documents <= most {
                    return Some(result);
                }
                self.parser = None;
                self.chunks = Chunks::new("");
                let place = result.map_or_else(|error| error.span, |node| node.span);
                return Some(Err(SyntaxError::too_many_documents(most, place)));
            }
            let chunk = self.chunks.next()?;
            let text = self.text.get(chunk.start..chunk.end).unwrap_or_default();
            self.parser = Some(Parser::new(Bounded::new(text, self.budget.clone())));
            self.builder.begin_chunk(chunk);
        }
    }
}
