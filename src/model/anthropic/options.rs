//! All members of a request but the conversation: what the settings come to, and what refusals make of them.
use crate::model::dialect;
use crate::settings::llm::{Endpoint, Thinking};
use serde_json::{Map, Value, json};

/// The limit of a reply where the user sets none: the format demands one. What a model allows less, its refusal says.
const LIMIT: u64 = 32_000;
/// The limit after a refusal that names no number: every model allows it.
const LOW_LIMIT: u64 = 4096;
/// What thinking leaves for the answer, at least.
const ANSWER: u64 = 8192;
/// The smallest budget that is accepted.
const LEAST_BUDGET: u64 = 1024;

/// The options of a session's first request.
pub(super) fn of(endpoint: &Endpoint) -> Map<String, Value> {
    let asked = endpoint.thinking.and_then(budget);
    let own = endpoint.extra_body.contains_key("thinking").then(|| budget_of(&endpoint.extra_body));
    let room = LIMIT.max(own.unwrap_or(asked).unwrap_or_default().saturating_add(ANSWER));
    let mut options = Map::new();
    let mut set = |name: &str, value: Value| drop(options.insert(name.to_owned(), value));
    set("stream", json!(true));
    set("max_tokens", json!(endpoint.max_tokens.unwrap_or(room)));
    match (endpoint.thinking, asked) {
        (Some(Thinking::Off), _) => set("thinking", json!({"type": "disabled"})),
        (_, Some(budget)) => set("thinking", json!({"type": "enabled", "budget_tokens": budget})),
        _ => {}
    }
    dialect::merge_extra(&mut options, endpoint);
    fit_budget(&mut options);
    // With thinking only the default temperature is accepted.
    if let Some(temperature) = endpoint.temperature.filter(|_| !has_budget(&options)) {
        options.entry("temperature").or_insert(json!(temperature));
    }
    options
}

/// Tokens to think with; the levels' are the middle of what other formats mean by them.
fn budget(thinking: Thinking) -> Option<u64> {
    match thinking {
        Thinking::Off => None,
        Thinking::Low => Some(2048),
        Thinking::On | Thinking::Medium => Some(8192),
        Thinking::High => Some(24_576),
        Thinking::Budget(tokens) => Some(tokens.max(LEAST_BUDGET)),
    }
}

/// Thinking is asked for by a budget.
pub(super) fn has_budget(options: &Map<String, Value>) -> bool {
    budget_of(options).is_some()
}

fn budget_of(options: &Map<String, Value>) -> Option<u64> {
    options.get("thinking")?["budget_tokens"].as_u64()
}

/// A budget has to be below the reply's limit, which counts thinking too; a limit too low for any is one without
/// thinking.
fn fit_budget(options: &mut Map<String, Value>) {
    let Some(limit) = options.get("max_tokens").and_then(Value::as_u64) else { return };
    match budget_of(options) {
        Some(budget) if budget < limit => {}
        Some(_) if limit / 2 >= LEAST_BUDGET => options["thinking"]["budget_tokens"] = json!(limit / 2),
        Some(_) => {
            log::warn!("no thinking: a reply of at most {limit} tokens leaves no room for it");
            options.remove("thinking");
        }
        None => {}
    }
}

/// Asks for as much thinking as the budget stands for, without a budget.
pub(super) fn make_adaptive(options: &mut Map<String, Value>) -> bool {
    let Some(budget) = budget_of(options) else { return false };
    options.insert("thinking".into(), json!({"type": "adaptive"}));
    let effort = json!(dialect::effort(Thinking::Budget(budget)));
    match options.get_mut("output_config") {
        Some(Value::Object(config)) => drop(config.entry("effort").or_insert(effort)),
        _ => drop(options.insert("output_config".into(), json!({"effort": effort}))),
    }
    true
}

/// Lowers the reply's limit to the one that a refusal names (`max_tokens: 32000 > 8192, which is …`).
pub(super) fn lower_limit(options: &mut Map<String, Value>, words: &str) -> bool {
    let sent = options.get("max_tokens").and_then(Value::as_u64).unwrap_or(LIMIT);
    let numbers = words.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok());
    let named = numbers.filter(|number| (LEAST_BUDGET..sent).contains(number)).max();
    let limit = named.unwrap_or(LOW_LIMIT);
    if limit >= sent {
        return false;
    }
    options.insert("max_tokens".into(), json!(limit));
    fit_budget(options);
    true
}
