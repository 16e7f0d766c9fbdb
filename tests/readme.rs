//! Every example of the README: heredocs run, JSON parses and settings load, the names of make's targets exist.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test of shell commands")]
use serde_json::Value;
use std::ffi::OsString;
use std::process::Command;

fn read(file: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    std::fs::read_to_string(path).unwrap()
}

/// The bodies of the README's fenced blocks in a language.
fn blocks(language: &str) -> Vec<String> {
    let readme = read("README.md");
    let opening = format!("```{language}\n");
    readme.split(&opening).skip(1).map(|rest| rest.split("```").next().unwrap().to_string()).collect()
}

#[test]
fn heredocs_run_as_they_stand() {
    let bob = std::path::Path::new(env!("CARGO_BIN_EXE_bob")).parent().unwrap();
    let path = format!("{}:{}", bob.display(), std::env::var("PATH").unwrap());
    let heredocs: Vec<_> = blocks("sh").into_iter().filter(|block| block.contains("<<END")).collect();
    assert!(!heredocs.is_empty());
    for heredoc in heredocs {
        let home = tempfile::tempdir().unwrap();
        let run = Command::new("sh")
            .args(["-euc", &heredoc])
            .env_clear()
            .envs([("PATH", path.as_str()), ("HOME", home.path().to_str().unwrap())])
            .current_dir(home.path())
            .output()
            .unwrap();
        let (out, log) = (String::from_utf8(run.stdout).unwrap(), String::from_utf8_lossy(&run.stderr));
        let prompts = heredoc.matches("session/prompt").count();
        assert!(run.status.success(), "{log}");
        assert_eq!(out.matches(r#""stopReason":"end_turn""#).count(), prompts, "{out}\n{log}");
        assert!(out.contains(r#""status":"completed""#), "{out}");
    }
}

#[test]
fn json_is_json_and_the_settings_are_settings() {
    let home = tempfile::tempdir().unwrap();
    let mut settings = 0;
    for block in blocks("json") {
        let value: Value = serde_json::from_str(&block).unwrap();
        match value.get("agent_servers").and_then(|servers| servers.get("Bob")) {
            Some(bob) => assert_eq!(bob["args"], serde_json::json!(["--acp"])),
            None => {
                let file = home.path().join("config.json");
                std::fs::write(&file, &block).unwrap();
                let config = bob::settings::config::load(Some(&file)).unwrap();
                assert!(config.warnings.is_empty(), "{:?}", config.warnings);
                settings += 1;
            }
        }
    }
    assert_eq!(settings, 1);
}

/// Each line of variables for a model, in a table or a block.
fn variables_of_models() -> Vec<Vec<(String, String)>> {
    let readme = read("README.md");
    let chapter = readme.split("\n## ").find(|chapter| chapter.starts_with("Models\n")).unwrap();
    let lines = chapter
        .split(['`', '\n'])
        .filter(|text| text.contains("LLM_PROVIDER=") && text.contains("_BASE_URL="));
    let variable = |word: &str| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    lines.map(|line| line.split_whitespace().filter_map(variable).collect()).collect()
}

#[test]
fn variables_of_models_are_understood() {
    let folder = tempfile::tempdir().unwrap();
    let models = variables_of_models();
    assert!(models.len() >= 5, "{models:?}");
    for variables in models {
        for form in ["openai-completions", "anthropic-messages", "openai-responses"] {
            // What a line leaves to the next one or to the reader: model, key and format.
            let provider = &variables.iter().find(|(name, _)| name == "LLM_PROVIDER").unwrap().1;
            let left = [("MODEL", "m"), ("API_KEY", "k"), ("API_FORMAT", form)];
            let left = left.map(|(name, value)| (format!("{provider}_{name}"), value.to_owned()));
            let all = left.into_iter().chain(variables.clone());
            let environment =
                all.map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
            let mut warnings = Vec::new();
            bob::settings::resolve_model(&environment, folder.path(), None, &mut warnings).unwrap();
            assert!(warnings.is_empty(), "{variables:?}: {warnings:?}");
        }
    }
}

#[test]
fn what_make_is_asked_for_is_there() {
    let makefile = read("Makefile");
    for target in ["demo", "test", "install", "check", "smoke", "bench", "clients", "real", "ci"] {
        assert!(makefile.contains(&format!("\n{target}:")), "make {target}");
    }
    for line in
        blocks("sh").iter().flat_map(|block| block.lines()).filter_map(|line| line.strip_prefix("make "))
    {
        let target = line.split_whitespace().next().unwrap();
        assert!(makefile.contains(&format!("\n{target}:")), "make {target}");
    }
}

#[test]
fn links_lead_somewhere() {
    let readme = read("README.md");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    for target in readme.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
        if !target.starts_with("http") && !target.starts_with('#') {
            assert!(root.join(target).exists(), "{target}");
        }
    }
}
