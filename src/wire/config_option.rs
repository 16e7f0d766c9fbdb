//! Settings of a session that a client shows as menus (agentclientprotocol.com/protocol/session-config-options).
use serde::Serialize;

/// One menu.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigOption {
    /// For `session/set_config_option`.
    pub id: &'static str,
    /// For the menu.
    pub name: &'static str,
    /// One line.
    pub description: &'static str,
    /// What it is about: `mode`, `model`, `thought_level`.
    pub category: &'static str,
    /// How it is shown, and what it may be set to.
    #[serde(flatten)]
    pub kind: ConfigKind,
}

/// How an option is shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum ConfigKind {
    /// One of a list.
    Select {
        /// One of `options`.
        current_value: String,
        /// All there are.
        options: Vec<ConfigValue>,
    },
}

/// One line of a menu.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigValue {
    /// For `session/set_config_option`.
    pub value: String,
    /// For the menu.
    pub name: String,
    /// One line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<&'static str>,
}

/// The result of `session/list_models`, a method of Bob's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListModelsResponse {
    /// Their names as the endpoint knows them.
    pub models: Vec<String>,
    /// Why these are only those that were known anyway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}
