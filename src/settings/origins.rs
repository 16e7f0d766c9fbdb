//! Where each value of the model configuration comes from, to tell the user. Works also where something is missing.
use super::fields::{self, Setting, Source};
use super::layers::Layers;
use super::llm::{Format, LlmError};
use super::resolve::{Names, carrying_layer, provider};
use super::{Environment, Secret};
use std::path::Path;

/// A value in words, with where it comes from. Never a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// `provider`, `api_key`, `base_url`, `model`, `api_format`, or the variable's name.
    pub what: String,
    /// The value as it is written; `None`: it is there and not for showing, a key or something that can't be used
    /// (and so may be anything, also a key in the wrong place).
    pub value: Option<String>,
    /// `the environment (OPENAI_MODEL)`, `/project/.env (OPENAI_MODEL)`, `/home/u/.bob/llm.json`, `the default`.
    pub from: String,
}

type IsGood = fn(Setting<'_>) -> bool;

/// Settings that merge field by field, and whether such a value can be used.
const MERGED: [(&str, IsGood); 3] = [
    ("LLM_TEMPERATURE", |setting| fields::temperature(setting).is_ok()),
    ("LLM_MAX_TOKENS", |setting| fields::max_tokens(setting).is_ok()),
    ("LLM_THINKING", |setting| fields::thinking(setting).is_ok()),
];

/// All that counts, by the rules of [`resolve_model`](super::resolve_model): the provider first, what is not set left
/// out.
///
/// # Errors
/// [`LlmError::Broken`]: a layer can't be read, or the provider's name is none.
pub fn origins(
    environment: &Environment,
    cwd: &Path,
    user_folder: Option<&Path>,
) -> Result<Vec<Origin>, LlmError> {
    let layers = Layers::read(environment, cwd, user_folder, &mut Vec::new())?;
    let provider = provider(&layers)?;
    let named = layers.highest("LLM_PROVIDER");
    let from = named.map_or_else(|| "the default".to_owned(), from);
    let mut all = vec![Origin { what: "provider".into(), value: Some(provider.clone()), from }];
    if provider == "DEMO" {
        all.extend(layers.highest("DEMO_MODEL").map(model));
        all.extend(environment.get("DEMO_SCRIPT").map(|script| Origin {
            what: "DEMO_SCRIPT".into(),
            value: Some(script.to_owned()),
            from: format!("{} (DEMO_SCRIPT)", Source::Launch),
        }));
    } else {
        all.extend(of_endpoint(&layers, &Names::of(&provider)));
    }
    Ok(all)
}

fn of_endpoint(layers: &Layers, names: &Names) -> Vec<Origin> {
    let carrier = carrying_layer(layers, names);
    let carried = |name| carrier.and_then(|(_, layer)| layer.get(name));
    let base_url = if carrier.is_some() { carried(&names.base_url) } else { layers.highest(&names.base_url) };
    let extra = carrier.and_then(|(place, _)| layers.highest_down_to(place, "LLM_EXTRA_BODY"));
    let own = [
        carried(&names.api_key).map(|setting| origin("api_key", setting, false)),
        base_url.map(|setting| origin("base_url", setting, fields::base_url(setting).is_ok())),
        layers.highest(&names.model).map(model),
        carrier.map(|_| format(carried(&names.format))),
    ];
    let merged = MERGED.into_iter().filter_map(|(name, is_good)| {
        let setting = layers.highest(name)?;
        Some(origin(name, setting, is_good(setting)))
    });
    // Its members may hold anything, also a secret.
    let extra = extra.map(|setting| origin("LLM_EXTRA_BODY", setting, false));
    let key = carried(&names.api_key).map(|setting| Secret::new(setting.value));
    let without_key = |mut origin: Origin| {
        origin.value = origin.value.filter(|value| !key.as_ref().is_some_and(|key| key.is_in(value)));
        origin
    };
    own.into_iter().flatten().chain(merged).chain(extra).map(without_key).collect()
}

fn model(setting: Setting<'_>) -> Origin {
    origin("model", setting, fields::model(setting).is_ok())
}

fn format(setting: Option<Setting<'_>>) -> Origin {
    let name = |format: &Format| setting.is_some_and(|setting| setting.value == format.name());
    match setting {
        Some(setting) => origin("api_format", setting, Format::ALL.iter().any(name)),
        None => {
            let value = Some(Format::ALL[0].name().to_owned());
            Origin { what: "api_format".into(), value, from: "the default".into() }
        }
    }
}

fn origin(what: &str, setting: Setting<'_>, show: bool) -> Origin {
    let value = show.then(|| setting.value.to_owned());
    Origin { what: what.to_owned(), value, from: from(setting) }
}

fn from(setting: Setting<'_>) -> String {
    match setting.source {
        Source::Login(path) => path.display().to_string(), // its members have other names
        source => format!("{source} ({})", setting.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::path::PathBuf;

    /// `what=value from`, with the project's folder as `P` and the user's as `U`.
    fn told(environment: &[(&str, &str)], dotenv: &str, login: &str) -> Vec<String> {
        let place = tempfile::tempdir().unwrap();
        let folders = ["P", "U"].map(|name| place.path().join(name));
        for (folder, name, text) in [(&folders[0], ".env", dotenv), (&folders[1], "llm.json", login)] {
            std::fs::create_dir(folder).unwrap();
            if !text.is_empty() {
                std::fs::File::create(folder.join(name)).unwrap().write_all(text.as_bytes()).unwrap();
            }
        }
        let environment = environment.iter().copied().collect();
        let all = origins(&environment, &folders[0], Some(&folders[1])).unwrap();
        let short = |text: String| text.replace(&PathBuf::from(place.path()).display().to_string(), "");
        all.into_iter()
            .map(|origin| {
                format!("{}={} {}", origin.what, origin.value.unwrap_or("*".into()), short(origin.from))
            })
            .collect()
    }

    const LOGIN: &str = r#"{"provider": "OPENAI", "api_key": "sk-login", "base_url": "https://l/v1", "model": "m-l",
        "api_format": "openai-completions"}"#;

    #[test]
    fn each_value_is_told_with_its_layer_and_no_key_is() {
        let environment = [("OPENAI_MODEL", "m-e"), ("LLM_TEMPERATURE", "0.5")];
        let dotenv = "OPENAI_API_KEY=sk-dot\nOPENAI_BASE_URL=https://d/v1\nOPENAI_MODEL=m-d\n";
        assert_eq!(
            told(&environment, dotenv, LOGIN),
            [
                "provider=OPENAI /U/llm.json",
                "api_key=* /P/.env (OPENAI_API_KEY)",
                "base_url=https://d/v1 /P/.env (OPENAI_BASE_URL)",
                "model=m-e the environment (OPENAI_MODEL)",
                "api_format=openai-completions the default",
                "LLM_TEMPERATURE=0.5 the environment (LLM_TEMPERATURE)",
            ]
        );
    }

    #[test]
    fn what_is_missing_is_left_out() {
        assert_eq!(told(&[], "", ""), ["provider=OPENAI the default"]);
        let partial = [("LLM_PROVIDER", "local"), ("LOCAL_MODEL", "m")];
        assert_eq!(
            told(&partial, "", LOGIN),
            ["provider=LOCAL the environment (LLM_PROVIDER)", "model=m the environment (LOCAL_MODEL)"]
        );
        let demo = [("LLM_PROVIDER", "DEMO"), ("DEMO_SCRIPT", "s.json")];
        assert_eq!(told(&demo, "", "")[1..], ["DEMO_SCRIPT=s.json the environment (DEMO_SCRIPT)"]);
    }

    #[test]
    fn a_value_in_the_wrong_place_is_not_shown() {
        let environment = [
            ("OPENAI_API_KEY", "sk-oops"),
            ("OPENAI_BASE_URL", "https://user:sk-oops@h"),
            ("OPENAI_API_FORMAT", "sk-oops"),
            ("OPENAI_MODEL", "a\nsk-oops"),
            ("LLM_THINKING", "sk-oops"),
            ("LLM_EXTRA_BODY", "{\"k\": \"sk-oops\"}"),
        ];
        let told = told(&environment, "", "");
        assert_eq!(told.len(), 7);
        assert!(!told.concat().contains("oops"), "{told:?}");
    }
}
