//! The login file, `llm.json` in the user's folder, as a layer like the others. Writing it is the login's.
use super::fields::provider_name;
use super::llm::{DEFAULT_PROVIDER, LlmError};
use super::{Environment, user_file};
use serde_json::{Map, Value};
use std::io;
use std::path::Path;

/// Its name in the user's folder.
pub(super) const NAME: &str = "llm.json";

/// The file's members as the variables they stand for; nothing if there is no file.
///
/// # Errors
/// [`LlmError::Broken`]: unreadable, not JSON, a member that is no text. It never shows a value.
pub(super) fn read(path: &Path) -> Result<Environment, LlmError> {
    match user_file::read(path) {
        Ok(bytes) => variables(path, &bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Environment::default()),
        Err(error) => Err(LlmError::Broken(format!("{}: {error}", path.display()))),
    }
}

fn variables(path: &Path, bytes: &[u8]) -> Result<Environment, LlmError> {
    let broken = |why: &str| LlmError::Broken(format!("{}{why}", path.display()));
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    // Only the place: the parser's words may hold what it read.
    let parsed: Value = serde_json::from_slice(bytes).map_err(|error| {
        broken(&format!(":{}:{}: not valid JSON", error.line().max(1), error.column().max(1)))
    })?;
    let Value::Object(members) = parsed else { return Err(broken(": not a JSON object")) };
    let text = |name| text(&members, name).map_err(|()| broken(&format!(": `{name}` is not a string")));
    let named = text("provider")?;
    let provider = match named {
        Some(name) => provider_name(name).ok_or_else(|| broken(": `provider` is not a provider's name"))?,
        None => DEFAULT_PROVIDER.to_owned(),
    };
    let values = [
        ("LLM_PROVIDER".to_owned(), named),
        (format!("{provider}_API_KEY"), text("api_key")?),
        (format!("{provider}_BASE_URL"), text("base_url")?),
        (format!("{provider}_MODEL"), text("model")?),
        (format!("{provider}_API_FORMAT"), text("api_format")?),
    ];
    Ok(values.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
}

/// A member's text; absent, null and blank are the same.
fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, ()> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.trim().is_empty())),
        Some(_) => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Environment, String> {
        variables(Path::new("/u/llm.json"), text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn members_stand_for_the_variables_of_their_provider() {
        let file = r#"{"provider": "deepSeek", "api_key": "k", "base_url": "u", "model": "m", "api_format": "f", "x": 1}"#;
        let variables = of(file).unwrap();
        for (name, value) in
            [("LLM_PROVIDER", "deepSeek"), ("DEEPSEEK_API_KEY", "k"), ("DEEPSEEK_BASE_URL", "u")]
        {
            assert_eq!(variables.get(name), Some(value));
        }
        assert_eq!(variables.get("DEEPSEEK_MODEL"), Some("m"));
        assert_eq!(variables.get("DEEPSEEK_API_FORMAT"), Some("f"));
    }

    #[test]
    fn without_a_provider_it_is_the_default_ones() {
        let variables = of(r#"{"api_key": "k", "model": null, "base_url": " "}"#).unwrap();
        assert_eq!(variables.get("OPENAI_API_KEY"), Some("k"));
        assert_eq!(variables.get("LLM_PROVIDER"), None);
        assert_eq!(variables.get("OPENAI_MODEL"), None);
    }

    #[test]
    fn a_broken_file_is_named_without_a_value() {
        for (text, why) in [
            ("", ":1:1: not valid JSON"),
            ("{\n  \"api_key\": \"sk-secret\",\n}", ":3:1: not valid JSON"),
            ("{\"api_key\": sk-secret}", ":1:13: not valid JSON"),
            ("\"sk-secret\"", ": not a JSON object"),
            ("{\"api_key\": 5714}", ": `api_key` is not a string"),
            ("{\"provider\": \"sk secret\"}", ": `provider` is not a provider's name"),
        ] {
            let error = of(text).unwrap_err();
            assert_eq!(error, format!("LLM configuration error: /u/llm.json{why}"));
        }
    }
}
