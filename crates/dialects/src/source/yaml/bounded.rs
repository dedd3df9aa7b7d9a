//! The parser's input, which ends early when too much is read at a stretch.
//!
//! A list or mapping in brackets may turn out to be a key. Until its end has shown that, the parser gives no event and
//! keeps every token of it, at a hundred times their size in the text: neither the tree's limits nor the tree itself
//! would ever hear of a text that is one such list. So what goes by between two events is counted here, below the
//! parser. Comments are not, since nothing is kept of them.

use std::cell::Cell;
use std::rc::Rc;

use saphyr_parser::input::SkipTabs;
use saphyr_parser::{Input, StrInput};

/// How many characters may still be read until the next event; shared with whoever sees the events.
#[derive(Debug, Clone, Default)]
pub(super) struct Budget(Rc<Cell<usize>>);

/// A text that ends when the budget does.
pub(super) struct Bounded<'s> {
    text: StrInput<'s>,
    budget: Budget,
}

// === impl Budget ===

impl Budget {
    pub(super) fn refill(&self, characters: usize) {
        self.0.set(characters);
    }

    pub(super) fn is_spent(&self) -> bool {
        self.0.get() == 0
    }
}

// === impl Bounded ===

impl<'s> Bounded<'s> {
    pub(super) fn new(text: &'s str, budget: Budget) -> Self {
        Bounded { text: StrInput::new(text), budget }
    }

    #[inline]
    fn spend(&mut self, characters: usize) {
        let left = self.budget.0.get().saturating_sub(characters);
        self.budget.0.set(left);
        if left == 0 {
            self.end();
        }
    }

    #[cold]
    fn end(&mut self) {
        let promised = self.text.buflen();
        self.text = StrInput::new("");
        self.text.lookahead(promised);
    }
}

/// Methods that look: handed on.
macro_rules! look {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        $(#[inline]
        fn $name(&self $(, $arg: $type)*) -> $result {
            self.text.$name($($arg),*)
        })*
    };
}

/// Methods that move on: handed on, and paid for.
macro_rules! walk {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty, $cost:expr;)*) => {
        $(#[inline]
        fn $name(&mut self $(, $arg: $type)*) -> $result {
            let result = self.text.$name($($arg),*);
            let cost: fn(&$result) -> usize = $cost;
            self.spend(cost(&result));
            result
        })*
    };
}

impl Input for Bounded<'_> {
    look! {
        buflen() -> usize;
        bufmaxlen() -> usize;
        buf_is_empty() -> bool;
        peek() -> char;
        peek_nth(n: usize) -> char;
        peek_opt() -> Option<char>;
        next_char_is(c: char) -> bool;
        nth_char_is(n: usize, c: char) -> bool;
        next_2_are(first: char, second: char) -> bool;
        next_3_are(first: char, second: char, third: char) -> bool;
        next_is_document_indicator() -> bool;
        next_is_document_start() -> bool;
        next_is_document_end() -> bool;
        next_can_be_plain_scalar(in_flow: bool) -> bool;
        next_is_blank_or_break() -> bool;
        next_is_blank_or_breakz() -> bool;
        next_is_blank() -> bool;
        next_is_break() -> bool;
        next_is_breakz() -> bool;
        next_is_z() -> bool;
        next_is_flow() -> bool;
        next_is_digit() -> bool;
        next_is_alpha() -> bool;
    }

    walk! {
        raw_read_ch() -> char, |_| 1;
        raw_read_non_breakz_ch() -> Option<char>, |read| usize::from(read.is_some());
        skip() -> (), |()| 1;
        skip_while_blank() -> usize, |read| *read;
        fetch_while_is_alpha(out: &mut String) -> usize, |read| *read;
        fetch_while_is_yaml_non_space(out: &mut String) -> usize, |read| *read;
        // These two also skip comments.
        skip_ws_to_eol(tabs: SkipTabs) -> (usize, Result<SkipTabs, &'static str>), |_| 0;
        skip_while_non_breakz() -> usize, |_| 0;
    }

    #[inline]
    fn lookahead(&mut self, count: usize) {
        self.text.lookahead(count);
    }

    #[inline]
    fn look_ch(&mut self) -> char {
        self.text.look_ch()
    }

    #[inline]
    fn skip_n(&mut self, count: usize) {
        self.text.skip_n(count);
        self.spend(count);
    }
}
