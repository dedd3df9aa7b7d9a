//! What can be wrong with Thorium's policies.

use palisade_model::diagnostic::{Code, Severity};

use crate::codes::codes;

codes! {
    /// A field that must be there.
    MISSING_FIELD = "T0101" Error "a required field is missing":
        "Thorium's document calls this field required.";
}
