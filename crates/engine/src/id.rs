//! Identifiers: 32-bit numbers with the type of what they identify.
//!
//! Numbers start at 1, so that `Option` of an identifier takes no more room than the identifier and a missing number in the
//! wire form is not mistaken for one. The engine reuses the number of a removed object for a later one.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU32;

/// Defines a public identifier, which is an index into an arena of the engine.
macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(NonZeroU32);

        impl $name {
            /// Returns the identifier with this number. Only numbers that an engine assigned identify anything.
            pub fn new(number: NonZeroU32) -> Self {
                $name(number)
            }

            /// Returns the number, as it is in the wire form.
            pub fn get(self) -> u32 {
                self.0.get()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl ArenaIndex for $name {
            fn from_number(number: NonZeroU32) -> Self {
                $name(number)
            }

            fn number(self) -> NonZeroU32 {
                self.0
            }
        }
    };
}

identifier! {
    /// Identifies a set of a view.
    SetId
}
identifier! {
    /// Identifies a rule of a view.
    RuleId
}
identifier! {
    /// Identifies a policy of a view.
    PolicyId
}

/// Identifies a `T` in an [`crate::arena::Arena`] of the engine.
pub(crate) struct Id<T>(NonZeroU32, PhantomData<fn() -> T>);

/// A typed index of an arena.
pub(crate) trait ArenaIndex: Copy + Eq + Hash + Ord + fmt::Display {
    fn from_number(number: NonZeroU32) -> Self;
    fn number(self) -> NonZeroU32;

    /// Returns the index as flows carry it.
    fn position(self) -> usize {
        self.number().get() as usize
    }

    /// Returns the index for a position of a flow; `None` for one that no arena hands out.
    fn at(position: usize) -> Option<Self> {
        let number = u32::try_from(position).ok().and_then(NonZeroU32::new)?;
        Some(Self::from_number(number))
    }
}

// === impl Id ===

impl<T> ArenaIndex for Id<T> {
    #[inline]
    fn from_number(number: NonZeroU32) -> Self {
        Id(number, PhantomData)
    }

    #[inline]
    fn number(self) -> NonZeroU32 {
        self.0
    }
}

// Derived implementations would ask for the same of `T`.

impl<T> Clone for Id<T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for Id<T> {}

impl<T> PartialOrd for Id<T> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Id<T> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl<T> Hash for Id<T> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> fmt::Display for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// No derived identifier grows: absence takes no room of its own.
const _: () = assert!(size_of::<Option<SetId>>() == 4 && size_of::<Option<Id<String>>>() == 4);
