//! What can be wrong with Antrea's objects.

use palisade_model::diagnostic::{Code, Severity};

use crate::codes::codes;

codes! {
    /// Required.
    REQUIRED = "N0101" Error "a required field is missing":
        "Antrea's custom resource definitions want this field. The message is the API server's own.";
}
