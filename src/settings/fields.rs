//! Single settings of a model, with where each comes from: text checked and turned into what it means. No error shows a value.
use super::Secret;
use super::llm::{Format, LlmError, NEVER_EXTRA, Thinking};
use serde_json::{Map, Value};
use std::fmt;
use std::path::PathBuf;

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The environment the process was started with.
    Launch,
    /// The project's `.env`: not the user's own words.
    Project(PathBuf),
    /// The login file.
    Login(PathBuf),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Launch => f.write_str("the environment"),
            Self::Project(path) | Self::Login(path) => path.display().fmt(f),
        }
    }
}

/// A setting with where it comes from.
#[derive(Clone, Copy)]
pub(super) struct Setting<'a> {
    pub(super) name: &'a str,
    /// Never blank, without blanks around it.
    pub(super) value: &'a str,
    pub(super) source: &'a Source,
}

impl Setting<'_> {
    /// The error that it `is …`; `why` never holds the value.
    pub(super) fn broken(&self, why: impl fmt::Display) -> LlmError {
        LlmError::Broken(format!("{} in {} {why}", self.name, self.source))
    }
}

/// Upper case. `None` unless it can begin a variable's name: a letter, then letters, digits, `_`, at most 64.
pub fn provider_name(text: &str) -> Option<String> {
    let text = text.trim();
    let is_name = text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then(|| text.to_ascii_uppercase())
}

/// A key as a header can carry it.
pub(super) fn api_key(setting: Setting<'_>) -> Result<Secret, LlmError> {
    check_api_key(setting.value).map_err(|why| setting.broken(why))
}

/// A key as a header can carry it.
///
/// # Errors
/// What is wrong with it, as the rest of a sentence.
pub fn check_api_key(text: &str) -> Result<Secret, &'static str> {
    let is_key = text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_key { Ok(Secret::new(text)) } else { Err("holds characters that no key has") }
}

/// See [`check_base_url`].
pub(super) fn base_url(setting: Setting<'_>) -> Result<String, LlmError> {
    check_base_url(setting.value).map_err(|why| setting.broken(why))
}

/// Without trailing slashes. A user name or password in it is refused: it would be a secret in every log line that
/// names the endpoint.
///
/// # Errors
/// What is wrong with it, as the rest of a sentence.
pub fn check_base_url(text: &str) -> Result<String, &'static str> {
    let url = text.trim_end_matches('/');
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return Err("is not an http or https URL");
    }
    if url.contains(['?', '#']) {
        return Err("has a query or a fragment");
    }
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.contains('@') {
        return Err("holds a user name or password; a key belongs into the API key's setting");
    }
    if !is_authority(authority) || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("is not a URL");
    }
    Ok(url.to_owned())
}

/// The host (and port) of a checked base URL.
pub(super) fn host(base_url: &str) -> &str {
    base_url.split('/').nth(2).unwrap_or_default()
}

fn is_authority(authority: &str) -> bool {
    // The colons of an IPv6 address are inside brackets.
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = match bare {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        }
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    is_host && port.is_none_or(is_port)
}

/// See [`check_model`].
pub(super) fn model(setting: Setting<'_>) -> Result<String, LlmError> {
    check_model(setting.value).map_err(|why| setting.broken(why))
}

/// The longest name of a model, in bytes.
const MODEL_AT_MOST: usize = 256;

/// A model's name: one line of text.
///
/// # Errors
/// What is wrong with it, as the rest of a sentence.
pub fn check_model(text: &str) -> Result<String, &'static str> {
    let is_odd = |character: char| character.is_control() || character == '\u{fffd}';
    match text {
        _ if text.len() > MODEL_AT_MOST => Err("is longer than 256 bytes"),
        _ if text.chars().any(is_odd) => Err("holds characters that no model's name has"),
        _ => Ok(text.into()),
    }
}

/// The wire format.
pub(super) fn format(setting: Setting<'_>) -> Result<Format, LlmError> {
    let named = Format::ALL.into_iter().find(|format| format.name() == setting.value);
    named.ok_or_else(|| {
        setting.broken("is not one of openai-completions, anthropic-messages, openai-responses")
    })
}

/// `LLM_TEMPERATURE`.
pub(super) fn temperature(setting: Setting<'_>) -> Result<f64, LlmError> {
    let number = setting.value.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| setting.broken("is not a number from 0 up"))
}

/// `LLM_MAX_TOKENS`.
pub(super) fn max_tokens(setting: Setting<'_>) -> Result<u64, LlmError> {
    positive(setting.value).ok_or_else(|| setting.broken("is not a whole number above 0"))
}

/// `LLM_THINKING`.
pub(super) fn thinking(setting: Setting<'_>) -> Result<Thinking, LlmError> {
    let broken = || setting.broken("is not off, on, low, medium, high or a number of tokens above 0");
    Ok(match setting.value.to_ascii_lowercase().as_str() {
        "off" => Thinking::Off,
        "on" => Thinking::On,
        "low" => Thinking::Low,
        "medium" => Thinking::Medium,
        "high" => Thinking::High,
        budget => Thinking::Budget(positive(budget).ok_or_else(broken)?),
    })
}

fn positive(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number| *number > 0)
}

/// `LLM_EXTRA_BODY`, without what it may not set; each of those is a warning.
pub(super) fn extra_body(
    setting: Setting<'_>,
    warnings: &mut Vec<String>,
) -> Result<Map<String, Value>, LlmError> {
    if setting.value.contains('\u{fffd}') {
        return Err(setting.broken("is not UTF-8"));
    }
    let mut body: Map<String, Value> = serde_json::from_str(setting.value).map_err(|error| {
        setting.broken(format_args!(
            "is not a JSON object (line {}, column {})",
            error.line().max(1),
            error.column().max(1)
        ))
    })?;
    for name in NEVER_EXTRA {
        if body.remove(name).is_some() {
            warnings.push(format!("{} in {} may not set `{name}`: dropped", setting.name, setting.source));
        }
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(value: &str) -> Setting<'_> {
        Setting { name: "NAME", value, source: &Source::Launch }
    }

    #[track_caller]
    fn refused<T: std::fmt::Debug>(value: &str, check: impl Fn(Setting<'_>) -> Result<T, LlmError>) {
        let error = check(setting(value)).expect_err(value).to_string();
        assert!(error.starts_with("LLM configuration error: NAME in the environment "), "{error}");
        assert!(!error.contains(value), "{error} shows the value");
    }

    #[test]
    fn provider_names_become_names_of_variables() {
        for (text, name) in [
            ("openai", Some("OPENAI")),
            (" My_1 ", Some("MY_1")),
            ("1A", None),
            ("_A", None),
            ("a-b", None),
            ("a b", None),
            ("ä", None),
            ("", None),
            ("LLM\nX", None),
        ] {
            assert_eq!(provider_name(text).as_deref(), name, "{text}");
        }
        assert_eq!(provider_name(&"a".repeat(65)), None);
    }

    #[test]
    fn base_urls() {
        for (text, url) in [
            ("https://api.x.com/v1/", "https://api.x.com/v1"),
            ("http://localhost:11434", "http://localhost:11434"),
            ("HTTPS://X//", "HTTPS://X"),
            ("http://[::1]:8080/v1", "http://[::1]:8080/v1"),
            ("http://my_host", "http://my_host"),
        ] {
            assert_eq!(base_url(setting(text)).unwrap(), url);
        }
        for text in [
            "api.x.com/v1",
            "ftp://x.y",
            "file:///etc/passwd",
            "https://",
            "https:///v1",
            "http://user:pw@x.y",
            "http://k@x.y/v1",
            "http://x.y/v1?key=1",
            "http://x.y/#a",
            "http://x y",
            "http://x:99999",
            "http://x:",
            "http://x:+80",
            "http://[::1",
            "http://x.y/\u{202e}",
            "http://x\r\ny",
            "http://ex\\@y",
        ] {
            refused(text, base_url);
        }
        assert_eq!(host("http://[::1]:8080/v1"), "[::1]:8080");
    }

    #[test]
    fn numbers_and_words() {
        assert_eq!(temperature(setting("0.7")), Ok(0.7));
        assert_eq!(max_tokens(setting("4096")), Ok(4096));
        for (text, level) in [
            ("off", Thinking::Off),
            ("On", Thinking::On),
            ("low", Thinking::Low),
            ("medium", Thinking::Medium),
            ("HIGH", Thinking::High),
            ("2048", Thinking::Budget(2048)),
        ] {
            assert_eq!(thinking(setting(text)), Ok(level));
            assert_eq!(level.to_string(), text.to_ascii_lowercase());
        }
        ["warm", "NaN", "inf", "-1"].iter().for_each(|text| refused(text, temperature));
        ["many", "-7", "1.5", "1e3", "00"].iter().for_each(|text| refused(text, max_tokens));
        ["much", "-7", "1.5", "00"].iter().for_each(|text| refused(text, thinking));
    }

    #[test]
    fn formats_are_never_guessed() {
        for (name, expected) in [
            ("openai-completions", Format::OpenAiCompletions),
            ("anthropic-messages", Format::AnthropicMessages),
            ("openai-responses", Format::OpenAiResponses),
        ] {
            assert_eq!(format(setting(name)), Ok(expected));
        }
        ["gemini", "Anthropic-Messages"].iter().for_each(|text| refused(text, format));
    }

    #[test]
    fn keys_and_models_fit_their_place() {
        assert_eq!(api_key(setting("sk-1")).unwrap().expose(), "sk-1");
        ["sk 1", "sk\u{fffd}", "sk\nX-Evil: 1", "schlüssel"].iter().for_each(|text| refused(text, api_key));
        assert_eq!(model(setting("qwen/qwen 3:8b")).unwrap(), "qwen/qwen 3:8b");
        ["a\nb", "a\u{fffd}", &"m".repeat(257)].iter().for_each(|text| refused(text, model));
        assert!(model(setting(&"m".repeat(256))).is_ok());
    }

    #[test]
    fn the_extra_body_never_sets_what_bob_rests_on() {
        let mut warnings = Vec::new();
        let text = r#"{"top_k": 3, "model": "x", "messages": [], "input": 1, "system": "s", "tools": [], "tool_choice": 1, "instructions": "s",
                       "stream": false, "store": true, "mcp_servers": []}"#;
        let body = extra_body(setting(text), &mut warnings).unwrap();
        assert_eq!(Value::Object(body), serde_json::json!({"top_k": 3}));
        assert_eq!(warnings.len(), NEVER_EXTRA.len());
        for text in ["[1]", "{\"a\": secret}", "null", "x", "{\"a\": \"\u{fffd}\"}"] {
            refused(text, |setting| extra_body(setting, &mut Vec::new()));
        }
    }
}
