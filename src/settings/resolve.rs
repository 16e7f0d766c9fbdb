//! The model configuration, resolved from its layers.
use super::fields::{self, Setting, Source};
use super::layers::{Layer, Layers};
use super::llm::{DEFAULT_PROVIDER, Endpoint, Format, LlmError, ModelConfig, Resolved};
use super::{Environment, Secret};
use crate::text::clean_to;
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::path::Path;

/// Resolves the model configuration anew: the launch environment over `<cwd>/.env` over the login file in
/// `user_folder`. What is to be told about them goes into `warnings`, one line each, without any key: also where it
/// fails, since what was skipped may be why.
///
/// # Errors
/// [`LlmError`]: something is missing, or there but broken.
pub fn resolve_model(
    environment: &Environment,
    cwd: &Path,
    user_folder: Option<&Path>,
    warnings: &mut Vec<String>,
) -> Result<Resolved, LlmError> {
    let layers = Layers::read(environment, cwd, user_folder, warnings)?;
    let provider = provider(&layers)?;
    if provider == "DEMO" {
        let config = demo(&layers, environment, cwd)?;
        return Ok(Resolved { config, hidden_variables: Vec::new(), notice: None });
    }
    let names = Names::of(&provider);
    let carrier = Carrier::find(&layers, &names)?;
    let endpoint = endpoint(&provider, &layers, &carrier, warnings)?;
    Ok(Resolved {
        hidden_variables: hidden_variables(environment, &names.api_key, endpoint.api_key.as_ref()),
        notice: carrier.notice(&endpoint),
        config: ModelConfig::Endpoint(endpoint),
    })
}

/// The highest layer that names one says which.
pub(super) fn provider(layers: &Layers) -> Result<String, LlmError> {
    match layers.highest("LLM_PROVIDER") {
        Some(named) => fields::provider_name(named.value)
            .ok_or_else(|| named.broken("is not a provider's name (letters, digits and _)")),
        None => Ok(DEFAULT_PROVIDER.to_owned()),
    }
}

/// `DEMO_SCRIPT` is the user's alone: a project's would have Bob read any file it names.
fn demo(layers: &Layers, environment: &Environment, cwd: &Path) -> Result<ModelConfig, LlmError> {
    let model = layers.highest("DEMO_MODEL").map(fields::model).transpose()?;
    Ok(ModelConfig::Demo {
        script: environment.get("DEMO_SCRIPT").map(|script| cwd.join(script.trim())),
        model: model.unwrap_or_else(|| "demo".to_owned()),
    })
}

/// The variables of one provider.
pub(super) struct Names {
    pub(super) provider: String,
    pub(super) api_key: String,
    pub(super) base_url: String,
    pub(super) model: String,
    pub(super) format: String,
}

impl Names {
    pub(super) fn of(provider: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            api_key: format!("{provider}_API_KEY"),
            base_url: format!("{provider}_BASE_URL"),
            model: format!("{provider}_MODEL"),
            format: format!("{provider}_API_FORMAT"),
        }
    }

    /// Whether this provider works without a key.
    fn keyless(&self) -> bool {
        self.provider == "LOCAL"
    }
}

/// The highest layer with a key, and its place; for LOCAL, which needs none, the highest with a base URL.
pub(super) fn carrying_layer<'a>(layers: &'a Layers, names: &Names) -> Option<(usize, &'a Layer)> {
    let carrying = if names.keyless() { &names.base_url } else { &names.api_key };
    layers.0.iter().enumerate().find(|(_, layer)| layer.get(carrying).is_some())
}

/// The layer that key, base URL and format come from, together: a URL from another layer would get the key.
struct Carrier<'a> {
    /// Its place among the layers, 0 the highest.
    place: usize,
    layer: &'a Layer,
    api_key: Option<Setting<'a>>,
    base_url: Setting<'a>,
    format: Option<Setting<'a>>,
    model: Setting<'a>,
}

impl<'a> Carrier<'a> {
    fn find(layers: &'a Layers, names: &'a Names) -> Result<Self, LlmError> {
        let found = carrying_layer(layers, names);
        let model = layers.highest(&names.model);
        let base_url = match found {
            Some((_, layer)) => layer.get(&names.base_url),
            None => layers.highest(&names.base_url),
        };
        match (found, base_url, model) {
            (Some((place, layer)), Some(base_url), Some(model)) => Ok(Self {
                place,
                layer,
                api_key: layer.get(&names.api_key),
                base_url,
                format: layer.get(&names.format),
                model,
            }),
            (found, base_url, model) => {
                let parts = [
                    ("api_key", found.is_some() || names.keyless()),
                    ("base_url", base_url.is_some()),
                    ("model", model.is_some()),
                ];
                let missing =
                    parts.into_iter().filter_map(|(name, is_there)| (!is_there).then_some(name)).collect();
                let elsewhere = layers.highest(&names.base_url).filter(|_| base_url.is_none());
                Err(LlmError::Missing {
                    provider: names.provider.clone(),
                    missing,
                    unborrowed: elsewhere.map(|url| url.source.to_string()),
                })
            }
        }
    }

    fn notice(&self, endpoint: &Endpoint) -> Option<String> {
        match &self.layer.source {
            Source::Project(path) => {
                let path = path.display().to_string();
                let host = fields::host(&endpoint.base_url);
                Some(format!("model endpoint {} comes from {}", clean_to(host, 255), clean_to(&path, 4096)))
            }
            Source::Launch | Source::Login(_) => None,
        }
    }
}

fn endpoint(
    provider: &str,
    layers: &Layers,
    carrier: &Carrier<'_>,
    warnings: &mut Vec<String>,
) -> Result<Endpoint, LlmError> {
    let api_key = carrier.api_key.map(fields::api_key).transpose()?;
    // Both are shown: in the log, to the client, in the session's file.
    let keyless = |setting: Setting<'_>| match &api_key {
        Some(key) if key.is_in(setting.value) => Err(setting.broken("holds the API key")),
        _ => Ok(()),
    };
    keyless(carrier.base_url).and_then(|()| keyless(carrier.model))?;
    Ok(Endpoint {
        provider: provider.to_owned(),
        format: carrier.format.map_or(Ok(Format::OpenAiCompletions), fields::format)?,
        base_url: fields::base_url(carrier.base_url)?,
        model: fields::model(carrier.model)?,
        temperature: layers.highest("LLM_TEMPERATURE").map(fields::temperature).transpose()?,
        max_tokens: layers.highest("LLM_MAX_TOKENS").map(fields::max_tokens).transpose()?,
        thinking: layers.highest("LLM_THINKING").map(fields::thinking).transpose()?,
        extra_body: extra_body(layers, carrier.place, warnings)?,
        api_key,
    })
}

/// Only from the layer that gave the key or a higher one: who did not bring the key has no say in what it pays for.
fn extra_body(
    layers: &Layers,
    carrier: usize,
    warnings: &mut Vec<String>,
) -> Result<Map<String, Value>, LlmError> {
    match (layers.highest_down_to(carrier, "LLM_EXTRA_BODY"), layers.highest("LLM_EXTRA_BODY")) {
        (Some(setting), _) => fields::extra_body(setting, warnings),
        (None, Some(ignored)) => {
            warnings.push(format!(
                "{} in {} ignored: the key comes from elsewhere",
                ignored.name, ignored.source
            ));
            Ok(Map::new())
        }
        (None, None) => Ok(Map::new()),
    }
}

/// The provider's own variable, and any that holds the same key under another name.
fn hidden_variables(environment: &Environment, own: &str, key: Option<&Secret>) -> Vec<OsString> {
    let own = OsString::from(own);
    let others = key.into_iter().flat_map(|key| environment.names_with(key)).filter(|name| **name != own);
    let mut hidden: Vec<OsString> = others.cloned().collect();
    hidden.push(own);
    hidden
}

#[cfg(test)]
mod tests {
    use super::super::llm::Thinking;
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::path::PathBuf;

    /// A project and a user's folder.
    struct Folders(tempfile::TempDir);

    impl Folders {
        fn new() -> Self {
            let folders = Self(tempfile::tempdir().unwrap());
            fs::create_dir(folders.cwd()).unwrap();
            fs::create_dir(folders.user()).unwrap();
            folders
        }

        fn cwd(&self) -> PathBuf {
            self.0.path().join("project")
        }

        fn user(&self) -> PathBuf {
            self.0.path().join("user")
        }

        fn dotenv(self, text: &str) -> Self {
            fs::File::create(self.cwd().join(".env")).unwrap().write_all(text.as_bytes()).unwrap();
            self
        }

        fn login(self, text: &str) -> Self {
            fs::File::create(self.user().join("llm.json")).unwrap().write_all(text.as_bytes()).unwrap();
            self
        }

        fn resolve(&self, environment: &[(&str, &str)]) -> Result<Resolved, LlmError> {
            let environment = environment.iter().copied().collect();
            resolve_model(&environment, &self.cwd(), Some(&self.user()), &mut Vec::new())
        }

        fn warnings(&self, environment: &[(&str, &str)]) -> Vec<String> {
            let (environment, mut warnings) = (environment.iter().copied().collect(), Vec::new());
            let _ = resolve_model(&environment, &self.cwd(), Some(&self.user()), &mut warnings);
            warnings
        }

        #[track_caller]
        fn endpoint(&self, environment: &[(&str, &str)]) -> (Endpoint, Resolved) {
            let resolved = self.resolve(environment).unwrap();
            match resolved.config.clone() {
                ModelConfig::Endpoint(endpoint) => (endpoint, resolved),
                ModelConfig::Demo { .. } => panic!("demo"),
            }
        }

        /// Key, base URL, model.
        #[track_caller]
        fn gives(&self, environment: &[(&str, &str)], expected: (&str, &str, &str)) {
            let (endpoint, _) = self.endpoint(environment);
            let key = endpoint.api_key.as_ref().map_or("", Secret::expose);
            assert_eq!((key, endpoint.base_url.as_str(), endpoint.model.as_str()), expected);
        }

        #[track_caller]
        fn misses(&self, environment: &[(&str, &str)], fields: &[&str]) {
            match self.resolve(environment) {
                Err(LlmError::Missing { missing, .. }) => assert_eq!(missing, fields),
                other => panic!("{other:?}"),
            }
        }
    }

    const OPENAI: [(&str, &str); 3] =
        [("OPENAI_API_KEY", "sk-env"), ("OPENAI_BASE_URL", "https://env/v1/"), ("OPENAI_MODEL", "m-env")];
    const DOTENV: &str = "OPENAI_API_KEY=sk-dot\nOPENAI_BASE_URL=https://dot/v1\nOPENAI_MODEL=m-dot\n";
    const LOGIN: &str = r#"{"provider": "openai", "api_key": "sk-login", "base_url": "https://login/v1", "model": "m-login"}"#;

    #[test]
    fn the_highest_layer_with_a_key_carries_it() {
        let all = Folders::new().dotenv(DOTENV).login(LOGIN);
        all.gives(&OPENAI, ("sk-env", "https://env/v1", "m-env"));
        all.gives(&[], ("sk-dot", "https://dot/v1", "m-dot"));
        Folders::new().login(LOGIN).gives(&[], ("sk-login", "https://login/v1", "m-login"));
        // Blank is unset.
        all.gives(&[("OPENAI_API_KEY", " "), ("OPENAI_MODEL", "")], ("sk-dot", "https://dot/v1", "m-dot"));
    }

    #[test]
    fn a_url_is_never_borrowed_for_a_key_of_another_layer() {
        Folders::new().login(LOGIN).misses(&[("OPENAI_API_KEY", "k")], &["base_url"]);
        let project = Folders::new().dotenv("OPENAI_BASE_URL=https://evil/v1\nOPENAI_API_FORMAT=nonsense\n");
        project.misses(&[("OPENAI_API_KEY", "k"), ("OPENAI_MODEL", "m")], &["base_url"]);
        project.gives(&OPENAI, ("sk-env", "https://env/v1", "m-env"));
        let project = project.login(LOGIN);
        project.gives(&[], ("sk-login", "https://login/v1", "m-login"));
    }

    #[test]
    fn a_url_that_is_not_borrowed_is_told() {
        let project = Folders::new().dotenv("OPENAI_BASE_URL=https://evil/v1\n");
        let told = |variables: &[(&str, &str)]| project.resolve(variables).unwrap_err().to_string();
        let place = project.cwd().join(".env");
        let note =
            format!("missing base_url, model (the base_url in {} counts only with a key", place.display());
        assert!(told(&OPENAI[..1]).contains(&note), "{}", told(&OPENAI[..1]));
        assert!(!told(&[]).contains("counts only") && !told(&OPENAI[..2]).contains("counts only"));
    }

    #[test]
    fn the_model_and_the_rest_merge_field_by_field() {
        let folders = Folders::new()
            .login(LOGIN)
            .dotenv("LLM_TEMPERATURE=0.5\nLLM_MAX_TOKENS=9\nLLM_THINKING=low\nOPENAI_MODEL=m-dot");
        folders.gives(&[], ("sk-login", "https://login/v1", "m-dot"));
        let (endpoint, resolved) = folders.endpoint(&[("LLM_MAX_TOKENS", "7"), ("LLM_THINKING", "500")]);
        assert_eq!((endpoint.temperature, endpoint.max_tokens), (Some(0.5), Some(7)));
        assert_eq!(endpoint.thinking, Some(Thinking::Budget(500)));
        assert_eq!(resolved.notice, None);
        let (endpoint, _) = Folders::new().login(LOGIN).endpoint(&[]);
        assert_eq!((endpoint.temperature, endpoint.max_tokens, endpoint.thinking), (None, None, None));
        assert_eq!(endpoint.format, Format::OpenAiCompletions);
    }

    #[test]
    fn the_provider_comes_first_and_keys_play_no_part() {
        let folders = Folders::new().login(LOGIN);
        match folders.resolve(&[("LLM_PROVIDER", "deepseek"), ("OPENAI_API_KEY", "k")]) {
            Err(LlmError::Missing { provider, missing, .. }) => {
                assert_eq!(
                    (provider.as_str(), missing.as_slice()),
                    ("DEEPSEEK", &["api_key", "base_url", "model"][..])
                );
            }
            other => panic!("{other:?}"),
        }
        let folders = Folders::new().login(&LOGIN.replace("openai", "DeepSeek"));
        folders.gives(&OPENAI, ("sk-login", "https://login/v1", "m-login"));
        folders.gives(&[("LLM_PROVIDER", "dEEPsEEK")], ("sk-login", "https://login/v1", "m-login"));
        let (endpoint, _) = folders.endpoint(&[]);
        assert_eq!(endpoint.provider, "DEEPSEEK");
        folders.dotenv("LLM_PROVIDER=OPENAI").gives(&OPENAI, ("sk-env", "https://env/v1", "m-env"));
    }

    #[test]
    fn local_needs_no_key_and_borrows_none() {
        let local = [("LLM_PROVIDER", "local"), ("LOCAL_MODEL", "qwen")];
        let with = |more: &[(&'static str, &'static str)]| [&local[..], more].concat();
        let url = ("LOCAL_BASE_URL", "http://localhost:11434/v1");
        Folders::new().gives(&with(&[url]), ("", "http://localhost:11434/v1", "qwen"));
        Folders::new()
            .gives(&with(&[url, ("LOCAL_API_KEY", "k")]), ("k", "http://localhost:11434/v1", "qwen"));
        Folders::new().misses(&local, &["base_url"]);
        Folders::new().misses(&[("LLM_PROVIDER", "LOCAL")], &["base_url", "model"]);
        let project = Folders::new().dotenv("LOCAL_BASE_URL=http://evil");
        project.gives(&with(&[("LOCAL_API_KEY", "k")]), ("", "http://evil", "qwen"));
    }

    #[test]
    fn what_is_missing_is_named_and_nothing_else() {
        let folders = Folders::new();
        folders.misses(&[], &["api_key", "base_url", "model"]);
        folders.misses(&OPENAI[1..], &["api_key"]);
        folders.misses(&OPENAI[..2], &["model"]);
        folders.misses(&OPENAI[..1], &["base_url", "model"]);
        Folders::new().dotenv("OPENAI_MODEL=m").misses(&[], &["api_key", "base_url"]);
        let message = folders.resolve(&OPENAI[1..2]).unwrap_err().with_login("Log in");
        for word in [
            "model. Log in, or set ",
            "OPENAI",
            "api_key, model",
            "OPENAI_API_KEY, OPENAI_MODEL",
            "LLM_PROVIDER=DEMO",
        ] {
            assert!(message.contains(word), "{message}");
        }
        assert!(!message.contains("base_url"), "{message}");
    }

    #[test]
    fn the_demo_needs_nothing() {
        let folders = Folders::new();
        for (variables, script, model) in [
            (vec![("LLM_PROVIDER", "demo")], None, "demo"),
            (
                vec![("LLM_PROVIDER", "DEMO"), ("DEMO_SCRIPT", "s.json")],
                Some(folders.cwd().join("s.json")),
                "demo",
            ),
            (
                vec![("LLM_PROVIDER", "DEMO"), ("DEMO_SCRIPT", "/s.json"), ("DEMO_MODEL", "x")],
                Some("/s.json".into()),
                "x",
            ),
        ] {
            match folders.resolve(&variables).unwrap().config {
                ModelConfig::Demo { script: found, model: named } => {
                    assert_eq!((found, named.as_str()), (script, model))
                }
                ModelConfig::Endpoint(endpoint) => panic!("{endpoint:?}"),
            }
        }
    }

    #[test]
    fn a_projects_dotenv_names_no_script() {
        let folders = Folders::new().dotenv("LLM_PROVIDER=DEMO\nDEMO_SCRIPT=/etc/passwd\nDEMO_MODEL=x");
        match folders.resolve(&[]).unwrap().config {
            ModelConfig::Demo { script, model } => assert_eq!((script, model.as_str()), (None, "x")),
            ModelConfig::Endpoint(endpoint) => panic!("{endpoint:?}"),
        }
    }

    #[test]
    fn an_endpoint_from_the_project_is_told() {
        let folders = Folders::new().dotenv(DOTENV);
        let (_, resolved) = folders.endpoint(&[]);
        let file = folders.cwd().join(".env");
        assert_eq!(resolved.notice, Some(format!("model endpoint dot comes from {}", file.display())));
        assert_eq!(folders.endpoint(&OPENAI).1.notice, None);
    }

    #[test]
    fn who_did_not_bring_the_key_adds_nothing_to_the_request() {
        let body = "LLM_EXTRA_BODY={\"top_k\": 1, \"model\": \"other\"}";
        let folders = Folders::new().dotenv(body);
        assert!(folders.endpoint(&OPENAI).0.extra_body.is_empty());
        assert!(
            folders.warnings(&OPENAI)[0].contains("LLM_EXTRA_BODY in"),
            "{:?}",
            folders.warnings(&OPENAI)
        );
        let folders = folders.dotenv(&format!("{DOTENV}{body}"));
        assert_eq!(Value::Object(folders.endpoint(&[]).0.extra_body), serde_json::json!({"top_k": 1}));
        assert!(folders.warnings(&[])[0].ends_with("may not set `model`: dropped"));
        // A higher layer may.
        let environment = [("LLM_EXTRA_BODY", "{\"top_k\": 2}")];
        let (endpoint, _) = Folders::new().login(LOGIN).dotenv(body).endpoint(&environment);
        assert_eq!(Value::Object(endpoint.extra_body), serde_json::json!({"top_k": 2}));
    }

    /// The key is where it was skipped.
    #[test]
    fn what_was_skipped_is_told_also_where_something_is_missing() {
        let folders = Folders::new().dotenv("OPENAI_API_KEY=\"open\n");
        folders.misses(&[], &["api_key", "base_url", "model"]);
        assert!(folders.warnings(&[])[0].contains(".env:1: ignored"), "{:?}", folders.warnings(&[]));
    }

    /// Counted as unset it would leave the choice to a lower layer: a project's `.env`.
    #[test]
    fn a_variable_that_is_not_utf8_is_not_unset() {
        use std::os::unix::ffi::OsStrExt;
        let folders = Folders::new().dotenv(DOTENV);
        for name in ["LLM_PROVIDER", "OPENAI_API_KEY", "OPENAI_MODEL", "LLM_THINKING", "LLM_EXTRA_BODY"] {
            let odd = (std::ffi::OsStr::new(name), std::ffi::OsStr::from_bytes(b"\"\xff\""));
            let usual = OPENAI.map(|(name, value)| (name.as_ref(), value.as_ref()));
            let environment: Environment = usual.into_iter().chain([odd]).collect();
            let error = resolve_model(&environment, &folders.cwd(), None, &mut Vec::new()).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(&format!("error: {name} in the environment ")), "{error}");
        }
    }

    #[test]
    fn a_value_that_cannot_be_used_is_named_and_never_shown() {
        for (name, value) in [
            ("LLM_PROVIDER", "sk-oops!"),
            ("OPENAI_API_KEY", "sk oops!"),
            ("OPENAI_BASE_URL", "sk-oops!"),
            ("OPENAI_API_FORMAT", "sk-oops!"),
            ("LLM_TEMPERATURE", "sk-oops!"),
            ("LLM_MAX_TOKENS", "sk-oops!"),
            ("LLM_THINKING", "sk-oops!"),
            ("LLM_EXTRA_BODY", "sk-oops!"),
        ] {
            let environment: Environment = OPENAI.into_iter().chain([(name, value)]).collect();
            let folders = Folders::new();
            let error =
                resolve_model(&environment, &folders.cwd(), None, &mut Vec::new()).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("LLM configuration error: {name} in the environment ")),
                "{error}"
            );
            assert!(!error.contains("oops"), "{error}");
        }
        let error =
            Folders::new().login("{\n\"api_key\": sk-oops}").resolve(&OPENAI).unwrap_err().to_string();
        assert!(error.ends_with("llm.json:2:12: not valid JSON"), "{error}");
    }

    #[test]
    fn commands_get_no_variable_with_the_key() {
        let key = "sk-0123456789abcdef";
        let mut environment = OPENAI.to_vec();
        environment[0].1 = key;
        environment.extend([("MY_KEY", key), ("GH_TOKEN", "ghp-0123456789abcdef"), ("SHORT", "sk")]);
        environment.push(("HEADER", "Authorization: Bearer sk-0123456789abcdef"));
        let hidden = Folders::new().endpoint(&environment).1.hidden_variables;
        assert_eq!(hidden, ["HEADER", "MY_KEY", "OPENAI_API_KEY"]);
        let short = [&OPENAI[1..], &[("OPENAI_API_KEY", "1"), ("SHLVL", "1")]].concat();
        assert_eq!(Folders::new().endpoint(&short).1.hidden_variables, ["OPENAI_API_KEY"]);
        assert_eq!(Folders::new().login(LOGIN).endpoint(&[]).1.hidden_variables, ["OPENAI_API_KEY"]);
    }

    #[test]
    fn debugging_shows_no_key() {
        let (_, resolved) = Folders::new().endpoint(&OPENAI);
        assert!(!format!("{resolved:?}").contains("sk-env"));
    }

    #[cfg(unix)]
    #[test]
    fn a_dotenv_that_is_a_trap_is_skipped_with_a_warning() {
        use rustix::fs::{CWD, Mode, mkfifoat};
        use std::os::unix::fs::symlink;
        type Trap = fn(&Path);
        let traps: [Trap; 5] = [
            |path| mkfifoat(CWD, path, Mode::RWXU).unwrap(),
            |path| symlink("/proc/self/environ", path).unwrap(),
            |path| symlink("../outside.env", path).unwrap(),
            |path| fs::create_dir(path).unwrap(),
            |path| fs::File::create(path).unwrap().set_len((1 << 20) + 1).unwrap(),
        ];
        for trap in traps {
            let folders = Folders::new().login(LOGIN);
            fs::File::create(folders.0.path().join("outside.env"))
                .unwrap()
                .write_all(DOTENV.as_bytes())
                .unwrap();
            trap(&folders.cwd().join(".env"));
            folders.gives(&[], ("sk-login", "https://login/v1", "m-login"));
            let warnings = folders.warnings(&[]);
            assert!(warnings.len() == 1 && warnings[0].contains("skipped"), "{warnings:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_login_file_may_be_a_link_but_no_pipe() {
        let folders = Folders::new();
        fs::File::create(folders.0.path().join("kept.json")).unwrap().write_all(LOGIN.as_bytes()).unwrap();
        let login = folders.user().join("llm.json");
        std::os::unix::fs::symlink("../kept.json", &login).unwrap();
        folders.gives(&[], ("sk-login", "https://login/v1", "m-login"));
        fs::remove_file(&login).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &login, rustix::fs::Mode::RWXU).unwrap();
        let error = folders.resolve(&[]).unwrap_err().to_string();
        assert!(error.ends_with("llm.json: not a regular file"), "{error}");
    }
}
