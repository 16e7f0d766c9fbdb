//! What `initialize` answers (agentclientprotocol.com/protocol/initialization).
use crate::session::{ClientCapabilities, Context, LOGIN_NAME};
use crate::wire::acp::PROTOCOL_VERSION;
use serde_json::{Value, json};
use std::path::Path;

/// The result. Whether a key is configured plays no part in it.
pub fn result(client: ClientCapabilities, context: &Context) -> Value {
    let mut result = json!({
        "protocolVersion": PROTOCOL_VERSION,
        "agentInfo": { "name": "bob", "title": "Bob (bash-first agent)", "version": env!("CARGO_PKG_VERSION") },
        "agentCapabilities": {
            "promptCapabilities": { "image": true, "audio": false, "embeddedContext": true },
            "mcpCapabilities": { "http": false, "sse": false },
            "sessionCapabilities": { "close": {}, "additionalDirectories": {} },
        },
        "authMethods": auth_methods(client, &context.program),
        "_meta": { "_agentao.cn/extensions": [{
            "method": "_agentao.cn/set_model",
            "description": "Chooses the model of a session, by any name its provider knows",
        }] },
    });
    if context.process.save_sessions {
        let capabilities = &mut result["agentCapabilities"];
        capabilities["loadSession"] = true.into();
        for method in ["list", "resume", "delete"] {
            capabilities["sessionCapabilities"][method] = json!({});
        }
    }
    if context.keeps_logins {
        result["agentCapabilities"]["auth"] = json!({ "logout": {} });
    }
    result
}

/// Our login in a terminal, for a client that can show one.
fn auth_methods(client: ClientCapabilities, program: &Path) -> Vec<Value> {
    if !client.has_login() {
        return Vec::new();
    }
    let mut login = json!({
        "id": "bob-login",
        "name": LOGIN_NAME,
        "description": "Choose a model provider and enter its API key, in a terminal",
        "type": "terminal",
        "args": ["--login"],
    });
    if client.terminal_auth_meta {
        let command = program.to_string_lossy();
        login["_meta"] = json!({
            "terminal-auth": { "label": LOGIN_NAME, "command": command, "args": ["--login"], "env": {} },
        });
    }
    vec![login]
}
