//! Test helper that compares the schemas of JSON forms with docs/schemas.

use crate::text::documents::json;

/// Panics unless docs/schemas/`name`.json is the schema of `T`. With UPDATE_SCHEMAS set it is written first.
pub fn same_schema<T: schemars::JsonSchema>(name: &str) {
    let path = format!("{}/../../docs/schemas/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let schema = schemars::generate::SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<T>();
    let now = json(&schema).to_string();
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        let _ = std::fs::write(&path, &now);
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == now, "docs/schemas/{name}.json is stale: run `make docs`");
}
