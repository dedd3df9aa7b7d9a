//! The schemas of what only the command line prints are those in docs/schemas.

use palisade_report::schema::same_schema;

use super::{enforce, lab};

#[test]
fn the_schemas_of_lab_are_the_ones_in_docs() {
    same_schema::<lab::LabReport>("lab");
    same_schema::<lab::PacketTests>("lab-test");
}

#[test]
fn the_schema_of_enforce_status_is_the_one_in_docs() {
    same_schema::<enforce::Status>("enforce-status");
}
