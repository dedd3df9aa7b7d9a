//! A command of the built binary with a world on standard input, and its JSON held to its schema.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

/// The exit code, what it says, and what it says besides.
pub fn ask(command: &str, world: &str, arguments: &[&str]) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_palisade"))
        .args([command, "-f", "-"])
        .args(arguments)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .env_remove("COLUMNS")
        .env_remove("NO_COLOR")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program may refuse its arguments and never read.
    let _ = child.stdin.take().unwrap().write_all(world.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The same in JSON.
pub fn json_of(command: &str, world: &str, arguments: &[&str]) -> Value {
    let (_, out, err) = ask(command, world, &[arguments, &["--output", "json"]].concat());
    let value: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    let path = format!("{}/../../docs/schemas/{command}.json", env!("CARGO_MANIFEST_DIR"));
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    fits(&value, &schema, &schema, "$").unwrap();
    value
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
            let known = &schema["properties"][key];
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
