//! Is what Bob writes ACP? The judge is the official crate.
//!
//! Its types are lenient: an optional member of a wrong type reads as absent, an unknown one is dropped. So what
//! was sent is compared with what the types write again: everything sent must still be there.
use agent_client_protocol_schema::v1::{
    AgentNotification, AgentRequest, AgentResponse, Error, ProtocolLevelNotification,
};
use serde::Serialize;
use serde_json::{Value, json};

/// Members we send that the types drop: the method, and the member's path.
const OURS: &[(&str, &str)] = &[("session/set_mode", "modeId")];

/// Methods that are not ACP's, with names that don't say so by `_`: older spellings we keep.
const OUR_METHODS: &[&str] = &["session/set_model", "session/list_models", "session/cancel"];

/// Whether a request of Bob's is one ACP knows, and whole.
pub fn check_request(method: &str, params: &Value) -> Result<(), String> {
    if method.starts_with('_') {
        return Ok(());
    }
    same(method, params, AgentRequest::from_method_and_params(method, params))
}

/// Whether a notification of Bob's is one ACP knows, and whole.
pub fn check_notification(method: &str, params: &Value) -> Result<(), String> {
    if method.starts_with("$/") {
        return same(method, params, ProtocolLevelNotification::from_method_and_params(method, params));
    }
    same(method, params, AgentNotification::from_method_and_params(method, params))
}

/// Whether a result of Bob's is what ACP says this method's result is.
pub fn check_result(method: &str, result: &Value) -> Result<(), String> {
    if method.starts_with('_') || OUR_METHODS.contains(&method) {
        return Ok(());
    }
    if !result.is_object() {
        return Err(format!("{method}: a result is an object, not {result}"));
    }
    same(method, result, AgentResponse::from_method_and_result(method, result.clone()))
}

/// Whether an error of Bob's is a JSON-RPC error object.
pub fn check_error(error: &Value) -> Result<(), String> {
    same("error", error, serde_json::from_value::<Error>(error.clone()))
}

fn same<T: Serialize, E: std::fmt::Display>(
    method: &str,
    sent: &Value,
    read: Result<T, E>,
) -> Result<(), String> {
    let read = read.map_err(|error| format!("{method}: {error} in {sent}"))?;
    let again = serde_json::to_value(read).map_err(|error| format!("{method}: {error}"))?;
    kept(method, "", sent, &again)
}

/// Everything in `sent` is in `again`, nulls and defaults apart. `again` may hold more: defaults written out.
fn kept(method: &str, path: &str, sent: &Value, again: &Value) -> Result<(), String> {
    match (sent, again) {
        (Value::Object(sent), Value::Object(again)) => {
            for (name, value) in sent {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                match again.get(name) {
                    Some(again) => kept(method, &path, value, again)?,
                    None if may_be_dropped(method, &path, name, value) => {}
                    None => return Err(format!("{method}: ACP has no `{path}` of this kind: {value}")),
                }
            }
            Ok(())
        }
        (Value::Array(sent), Value::Array(again)) if sent.len() == again.len() => {
            sent.iter().zip(again).try_for_each(|(sent, again)| kept(method, path, sent, again))
        }
        _ if sent == again => Ok(()),
        _ => Err(format!("{method}: `{path}` reads as {again}, sent was {sent}")),
    }
}

fn may_be_dropped(method: &str, path: &str, name: &str, value: &Value) -> bool {
    // What the types leave out when they write, because it is what an absent member means.
    let default = match name {
        "kind" => json!("other"),
        "status" => json!("pending"),
        "content" | "locations" | "args" => json!([]),
        "env" => json!({}),
        _ => Value::Null,
    };
    value.is_null() || *value == default || OURS.contains(&(method, path))
}
