//! Tools' schemas for servers that make a grammar of them.
use crate::model::ToolSpec;
use serde_json::{Value, json};

/// A tool's schema as it is sent.
pub(super) fn of(tool: &ToolSpec, plain: bool) -> Value {
    let mut schema = tool.schema.clone();
    if plain {
        simplify(&mut schema, 0);
    }
    schema
}

/// Takes out the keywords that servers which make a grammar of the schema stumble over.
fn simplify(schema: &mut Value, depth: usize) {
    const STUMBLING: &[&str] =
        &["pattern", "format", "minLength", "maxLength", "minItems", "maxItems", "$schema", "$id", "default"];
    match schema {
        _ if depth > 64 => *schema = json!({}),
        Value::Array(list) => list.iter_mut().for_each(|each| simplify(each, depth + 1)),
        Value::Object(members) => {
            if members.contains_key("$ref") {
                *schema = json!({});
                return;
            }
            // A property may well be named like a keyword: keywords' values are text, numbers or values.
            members.retain(|name, value| !STUMBLING.contains(&name.as_str()) || value.is_object());
            if let Some(Value::Array(kinds)) = members.get("type") {
                let kind = kinds.iter().find(|kind| *kind != "null").cloned().unwrap_or(json!("string"));
                members.insert("type".into(), kind);
            }
            members.values_mut().for_each(|each| simplify(each, depth + 1));
        }
        _ => {}
    }
}
