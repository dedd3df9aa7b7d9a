//! The part of Kubernetes' apimachinery validation that the dialects share, with the API server's own texts.
//!
//! Nothing here knows our types: every check takes plain text and numbers, so that NetworkPolicy, the CRDs and the
//! tests can all use it. The texts and their order are those of Kubernetes 1.37.1; where the API server has a quirk, we
//! have it too, because a text that differs from the one a user gets from `kubectl` cannot be searched for. A value
//! that passes costs no allocation (but for a `generateName`, and an annotation's key with capitals): lists of messages
//! stay empty, paths live on the stack.
//!
//! | module | what it gives |
//! |---|---|
//! | [`field`] | paths of fields, and the bodies of field errors (`Invalid value: "x": …`) |
//! | [`names`] | DNS names, label keys and values, ports |
//! | [`cidr`] | the lax reading of CIDRs, the strict check, the warnings |
//! | [`selector`] | labels and label selectors |
//! | [`meta`] | `metadata`: names, namespaces, annotations, what an update must keep |
//!
//! Checks of one value return their messages, without the field; checks that reach several fields report to a
//! [`field::Sink`].

pub mod cidr;
pub mod field;
pub mod meta;
pub mod names;
pub mod selector;
