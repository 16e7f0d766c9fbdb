//! A project and a user's folder that outlast the processes, so that what one saved another can load.
use super::client::{Client, Launch, Permission, Turn};
use super::formats::Format;
use super::model_server::ModelServer;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Both folders, and a model that takes no broken history.
pub struct Place {
    project: TempDir,
    /// `BOB_HOME`.
    pub user: TempDir,
    /// The model.
    pub model: ModelServer,
    format: Format,
}

/// A load that was answered.
pub struct Loaded {
    /// The whole response.
    pub response: Value,
    /// Every `update` before it.
    pub updates: Vec<Value>,
}

impl Place {
    /// The model talks `openai-completions`.
    pub fn new() -> Self {
        Self::talking(Format::Completions)
    }

    /// The model talks this format.
    pub fn talking(format: Format) -> Self {
        let folder = || tempfile::tempdir().unwrap();
        Self { project: folder(), user: folder(), model: ModelServer::start().strict(), format }
    }

    /// The project.
    pub fn cwd(&self) -> &Path {
        self.project.path()
    }

    /// Bob in mode `full-access` with further arguments.
    pub fn start(&self, args: &[&str]) -> Client {
        let args = ["--acp", "--mode", "full-access"].iter().chain(args);
        let mut client = self.launch(Launch::with_args(args)).start();
        client.permission(Permission::Select("allow"));
        client.initialize();
        client
    }

    /// With this place's model and user.
    pub fn launch(&self, launch: Launch) -> Launch {
        let launch = launch.model(&self.model.base_url()).env("LOCAL_API_FORMAT", self.format.name());
        launch.env("BOB_HOME", self.user.path())
    }

    /// A prompt that the model answers with `answer to TEXT`.
    #[track_caller]
    pub fn prompt(&self, client: &mut Client, session: &str, text: &str) -> Turn {
        self.model.push(self.format.say(&format!("answer to {text}")));
        client.prompt(session, text)
    }

    /// A session in which this was said, closed again; its id.
    #[track_caller]
    pub fn saved(&self, client: &mut Client, text: &str) -> String {
        let session = client.new_session(self.cwd());
        self.prompt(client, &session, text);
        close(client, &session);
        session
    }

    /// `session/load` in the project.
    #[track_caller]
    pub fn load(&self, client: &mut Client, session: &str) -> Loaded {
        load_in(client, session, self.cwd())
    }

    /// Params of `session/load` and `session/resume`.
    pub fn params(&self, session: &str) -> Value {
        json!({"sessionId": session, "cwd": self.cwd(), "mcpServers": []})
    }

    /// Where a session is saved.
    pub fn file(&self, session: &str) -> PathBuf {
        self.cwd().join(".bob/sessions").join(format!("{session}.json"))
    }

    /// Fails if the model was asked something it has no answer to, or a strict one would refuse; ends Bob.
    #[track_caller]
    pub fn finish(&self, mut client: Client) {
        client.finish();
        assert_eq!(self.model.violations(), [] as [String; 0]);
    }
}

impl Loaded {
    /// Fails unless it was loaded.
    #[track_caller]
    pub fn done(self) -> Self {
        assert!(self.response.get("result").is_some(), "{}", self.response);
        self
    }

    /// The error's code; null if there is none.
    pub fn code(&self) -> &Value {
        &self.response["error"]["code"]
    }

    /// The updates of one kind, in order.
    pub fn of_kind(&self, kind: &str) -> Vec<&Value> {
        self.updates.iter().filter(|update| update["sessionUpdate"] == kind).collect()
    }

    /// The kinds of all updates.
    pub fn kinds(&self) -> Vec<&str> {
        self.updates.iter().filter_map(|update| update["sessionUpdate"].as_str()).collect()
    }

    /// What the user had said.
    pub fn questions(&self) -> Vec<&str> {
        let chunks = self.of_kind("user_message_chunk");
        chunks.into_iter().filter_map(|chunk| chunk["content"]["text"].as_str()).collect()
    }
}

/// `session/load` in a folder.
#[track_caller]
pub fn load_in(client: &mut Client, session: &str, cwd: &Path) -> Loaded {
    let id = client.request("session/load", json!({"sessionId": session, "cwd": cwd, "mcpServers": []}));
    wait_load(client, session, &id)
}

/// Waits for a load's response; takes it and the session's updates before it.
#[track_caller]
pub fn wait_load(client: &mut Client, session: &str, id: &Value) -> Loaded {
    let Turn { response, updates } = client.wait_turn(session, id);
    Loaded { response, updates }
}

/// `session/close`.
#[track_caller]
pub fn close(client: &mut Client, session: &str) {
    let closed = client.call("session/close", json!({"sessionId": session}));
    assert_eq!(closed["result"], json!({}), "{closed}");
}

/// The ids that `session/list` names, of all folders or of one.
#[track_caller]
pub fn listed(client: &mut Client, cwd: Option<&Path>) -> Vec<String> {
    let answer = client.call("session/list", json!({"cwd": cwd}));
    let sessions = answer["result"]["sessions"].as_array().unwrap_or_else(|| panic!("{answer}"));
    sessions.iter().map(|session| session["sessionId"].as_str().unwrap_or_default().to_owned()).collect()
}
