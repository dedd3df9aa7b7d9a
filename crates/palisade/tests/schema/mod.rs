//! What a command prints in JSON is what its schema in docs/schemas says.

use serde_json::Value;

/// Holds a document to the schema of this name.
pub fn holds(name: &str, value: &Value) {
    let path = format!("{}/../../docs/schemas/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    fits(value, &schema, &schema, "$").unwrap();
}

/// As much of JSON Schema as our schemas use.
fn fits(value: &Value, schema: &Value, root: &Value, at: &str) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.strip_prefix("#/$defs/").unwrap();
        return fits(value, &root["$defs"][name], root, at);
    }
    if let Some(options) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        let good = options.iter().any(|option| fits(value, option, root, at).is_ok());
        return if good { Ok(()) } else { Err(format!("{at}: {value} fits none of {schema}")) };
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().map(|name| name.as_str().unwrap()).collect(),
        _ => return Ok(()),
    };
    let own = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if !types.contains(&own) {
        return Err(format!("{at}: {value} is {own}, not {types:?}"));
    }
    if let Value::Object(fields) = value {
        for required in schema["required"].as_array().into_iter().flatten() {
            if !fields.contains_key(required.as_str().unwrap()) {
                return Err(format!("{at}: {required} is missing"));
            }
        }
        for (key, field) in fields {
            let known = match &schema["properties"][key] {
                Value::Null => &schema["additionalProperties"],
                known => known,
            };
            if known.is_null() {
                return Err(format!("{at}: {key} is not in the schema"));
            }
            fits(field, known, root, &format!("{at}.{key}"))?;
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        let own = schema["prefixItems"].get(index).unwrap_or(&schema["items"]);
        fits(item, own, root, &format!("{at}[{index}]"))?;
    }
    Ok(())
}
