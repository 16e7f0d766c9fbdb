//! What a user may change between two turns: the mode, the model, how much it thinks.
use crate::session::speaker::Speaker;
use crate::session::{MODES, Session};
use crate::settings::llm::{Format, ModelConfig, Thinking};
use crate::settings::{check_model, mode::Mode};
use crate::text::clean;
use crate::wire::acp::{ModeInfo, Update};
use crate::wire::config_option::{ConfigKind, ConfigOption, ConfigValue};
use crate::wire::jsonrpc::RpcError;
use serde_json::{Value, json};

const MODE: &str = "mode";
const MODEL: &str = "model";
const THOUGHT_LEVEL: &str = "thought_level";

/// All of a session's options with their current values (`configOptions`).
pub fn of(session: &Session) -> Vec<ConfigOption> {
    [Some(mode(session)), Some(model(session)), thought_level(session)].into_iter().flatten().collect()
}

/// A request that changes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// `session/set_mode`.
    Mode(String),
    /// `_agentao.cn/set_model`: a name that was [checked](check_name).
    Model(String),
    /// `session/set_config_option`.
    Option {
        /// Which.
        id: String,
        /// One of its values.
        value: String,
    },
}

/// Makes a change, and gives the request's result. What changed is told before this returns.
///
/// # Errors
/// `-32600`: no such option, or a model of another provider. `-32602`: no such value, or the key as a model's name.
pub fn apply(session: &mut Session, speaker: &Speaker<'_>, change: &Change) -> Result<Value, RpcError> {
    match change {
        Change::Mode(id) => {
            set_mode(session, speaker, id);
            Ok(json!({ "modeId": id }))
        }
        Change::Model(model) => {
            set_model(session, speaker, model, "model")?;
            Ok(json!({ "model": model }))
        }
        Change::Option { id, value } => {
            set(session, speaker, id, value)?;
            Ok(json!({ "configOptions": of(session) }))
        }
    }
}

fn set(session: &mut Session, speaker: &Speaker<'_>, id: &str, value: &str) -> Result<(), RpcError> {
    let invalid = |why: String| RpcError::invalid_params("value", &why);
    match id {
        MODE => {
            let mode = value.parse::<Mode>().map_err(|unknown| invalid(unknown.to_string()))?;
            set_mode(session, speaker, mode.id());
        }
        MODEL => {
            let model = own_model(value, session.catalog.config.provider())?.to_owned();
            set_model(session, speaker, &model, "value")?;
        }
        THOUGHT_LEVEL if has_levels(&session.catalog.config) => {
            let found = levels(session).into_iter().find(|level| level_value(*level) == value);
            session.thinking = found.ok_or_else(|| invalid("is not among the option's values".into()))?;
            tell(session, speaker);
        }
        _ => return Err(RpcError::invalid_request(format!("this session has no option {}", clean(id)))),
    }
    Ok(())
}

/// A mode of ours holds from now on; any other is the client's own affair, kept and echoed.
fn set_mode(session: &mut Session, speaker: &Speaker<'_>, mode_id: &str) {
    let ours = mode_id.parse::<Mode>();
    if let Ok(mode) = ours {
        session.permissions.mode = mode;
    }
    session.mode_id = mode_id.to_owned();
    speaker.update(&Update::CurrentModeUpdate { current_mode_id: mode_id });
    if ours.is_ok() {
        tell(session, speaker);
    }
}

/// The next request asks for `model`, which came as the member `field`.
fn set_model(session: &mut Session, speaker: &Speaker<'_>, model: &str, field: &str) -> Result<(), RpcError> {
    // It would be in the log and in the session's file.
    if session.catalog.config.api_key().is_some_and(|key| key.is_in(model)) {
        return Err(RpcError::invalid_params(
            field,
            "holds the API key: credentials never travel on the wire",
        ));
    }
    model.clone_into(&mut session.model);
    session.catalog.choose(model);
    log::info!("[acp] session {}: model {}", session.id, clean(model));
    tell(session, speaker);
    Ok(())
}

/// Whether it can be a model's name.
///
/// # Errors
/// What is wrong with it, as the rest of a sentence.
pub fn check_name(model: &str) -> Result<(), &'static str> {
    match model {
        _ if model.trim().is_empty() => Err("must not be blank"),
        _ => check_model(model).map(drop),
    }
}

fn tell(session: &Session, speaker: &Speaker<'_>) {
    speaker.update(&Update::ConfigOptionUpdate { config_options: &of(session) });
}

/// The mode that holds: the client's own modes are not among the values.
fn mode(session: &Session) -> ConfigOption {
    let value = |mode: &ModeInfo| ConfigValue {
        value: mode.id.into(),
        name: mode.name.into(),
        description: Some(mode.description),
    };
    ConfigOption {
        id: MODE,
        name: "Mode",
        description: "What Bob may do without asking",
        category: MODE,
        kind: ConfigKind::Select {
            current_value: session.permissions.mode.id().into(),
            options: MODES.iter().map(value).collect(),
        },
    }
}

/// Values are `provider/model`.
fn model(session: &Session) -> ConfigOption {
    let provider = session.catalog.config.provider().to_lowercase();
    let value = |model: &str| format!("{provider}/{model}");
    let models = session.catalog.known().into_iter();
    let shown = |name: String| ConfigValue {
        value: value(&name),
        name: clean(&name).into_owned(),
        description: None,
    };
    let options = models.map(shown).collect();
    ConfigOption {
        id: MODEL,
        name: "Model",
        description: "Which of the provider's models answers",
        category: MODEL,
        kind: ConfigKind::Select { current_value: value(&session.model), options },
    }
}

/// The model's part of `provider/model`. A value without a `/` is all model.
fn own_model<'v>(value: &'v str, provider: &str) -> Result<&'v str, RpcError> {
    let (other, model) = match value.split_once('/') {
        Some((other, model)) => (Some(other), model),
        None => (None, value),
    };
    let checked = check_name(model).and(match other {
        Some(other) if other.trim().is_empty() => Err("names no provider before its `/`"),
        _ => Ok(()),
    });
    checked.map_err(|why| RpcError::invalid_params("value", why))?;
    match other {
        Some(other) if !other.eq_ignore_ascii_case(provider) => {
            let provider = provider.to_lowercase();
            let why = format!("this session's provider is {provider}: only its models can be chosen");
            Err(RpcError::invalid_request(why))
        }
        _ => Ok(model),
    }
}

fn thought_level(session: &Session) -> Option<ConfigOption> {
    let value = |level| ConfigValue { value: level_value(level), name: level_name(level), description: None };
    has_levels(&session.catalog.config).then(|| ConfigOption {
        id: THOUGHT_LEVEL,
        name: "Thinking",
        description: "How much the model thinks before it answers",
        category: THOUGHT_LEVEL,
        kind: ConfigKind::Select {
            current_value: level_value(session.thinking),
            options: levels(session).into_iter().map(value).collect(),
        },
    })
}

/// Of models behind `openai-completions` many can't think, and refuse to be asked to: only who sets `LLM_THINKING` has
/// one that can.
fn has_levels(config: &ModelConfig) -> bool {
    match config {
        ModelConfig::Demo { .. } => false,
        ModelConfig::Endpoint(endpoint) => {
            endpoint.format != Format::OpenAiCompletions || endpoint.thinking.is_some()
        }
    }
}

/// The usual ones, behind the configured one where it is none of them, so that there is a way back.
fn levels(session: &Session) -> Vec<Option<Thinking>> {
    let usual = [Thinking::Off, Thinking::Low, Thinking::Medium, Thinking::High].map(Some);
    let configured = Some(session.catalog.config.thinking()).filter(|level| !usual.contains(level));
    configured.into_iter().chain(usual).collect()
}

fn level_value(level: Option<Thinking>) -> String {
    level.map_or("default".into(), |level| level.to_string())
}

fn level_name(level: Option<Thinking>) -> String {
    let name = match level {
        None => "The model's default",
        Some(Thinking::Off) => "Off",
        Some(Thinking::On) => "On",
        Some(Thinking::Low) => "Low",
        Some(Thinking::Medium) => "Medium",
        Some(Thinking::High) => "High",
        Some(Thinking::Budget(tokens)) => return format!("{tokens} tokens"),
    };
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, expected: Result<&str, i32>) {
        assert_eq!(own_model(value, "OPENROUTER").map_err(|error| error.code), expected, "{value:?}");
    }

    #[test]
    fn a_value_is_split_at_its_first_slash() {
        check("openrouter/a/b", Ok("a/b"));
        check("OpenRouter/a", Ok("a"));
        check("a", Ok("a"));
        check("a/b", Err(-32600));
        check("open router/a", Err(-32600));
    }

    #[test]
    fn blank_parts_are_told_before_the_provider_is_looked_at() {
        for blank in ["", " ", "/", "/a", " /a", "openrouter/", "openrouter/ ", "other/", "\t/\t"] {
            check(blank, Err(-32602));
        }
        check("other/a\u{0}", Err(-32602));
        check(&"x".repeat(257), Err(-32602));
        check(&"x".repeat(256), Ok(&"x".repeat(256)));
    }
}
