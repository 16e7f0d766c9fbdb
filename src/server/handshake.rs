//! What `initialize` answers (agentclientprotocol.com/protocol/initialization).
use crate::wire::acp::PROTOCOL_VERSION;
use serde_json::{Value, json};

/// The result. Whether a key is configured plays no part in it.
pub fn result() -> Value {
    json!({
        "protocolVersion": PROTOCOL_VERSION,
        "agentInfo": { "name": "bob", "title": "Bob (bash-first agent)", "version": env!("CARGO_PKG_VERSION") },
        "agentCapabilities": {
            "promptCapabilities": { "image": true, "audio": false, "embeddedContext": true },
            "mcpCapabilities": { "http": false, "sse": false },
            "sessionCapabilities": { "close": {}, "additionalDirectories": {} },
        },
        "authMethods": [],
    })
}
