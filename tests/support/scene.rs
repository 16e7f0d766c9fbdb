//! One project, one session, a model that makes the calls a test wants: what came of each, seen from all sides.
use super::client::{Client, Launch, Permission, Turn};
use super::model_server::{Answer, ModelServer, Recorded};
use super::{openai, write_file};
use serde_json::{Value, json};
use std::path::PathBuf;

/// A Bob with a session and a model.
pub struct Scene {
    /// The client.
    pub client: Client,
    /// The model; strict about calls and their results.
    pub model: ModelServer,
    /// The session.
    pub session: String,
}

/// What came of one call.
#[derive(Debug)]
pub struct Ran {
    /// The announcement.
    pub call: Value,
    /// Its last update; the announcement itself if that was the end.
    pub last: Value,
    /// What the model read.
    pub told: String,
    /// The whole question, if there was one.
    pub asked: Option<Value>,
}

impl Ran {
    /// How it ended.
    pub fn status(&self) -> &str {
        self.last["status"].as_str().unwrap_or_default()
    }

    /// Fails unless it was done.
    #[track_caller]
    pub fn done(self) -> Self {
        assert_eq!(self.status(), "completed", "{self:#?}");
        self
    }

    /// Fails unless it failed with a text that holds `why`.
    #[track_caller]
    pub fn failed(self, why: &str) -> Self {
        assert_eq!(self.status(), "failed", "{self:#?}");
        assert!(self.told.contains(why), "{why:?} is not in {self:#?}");
        self
    }
}

impl Scene {
    /// Without anything set up. Every question is answered with "allow".
    pub fn new() -> Self {
        Self::with(|launch| launch)
    }

    /// With a user's `config.json`.
    pub fn configured(config: &Value) -> Self {
        Self::with(|launch| {
            write_file(launch.home(), ".bob/config.json", config.to_string());
            launch
        })
    }

    /// With what is set up before the start.
    pub fn with(set_up: impl FnOnce(Launch) -> Launch) -> Self {
        Self::launched(Launch::new(), set_up)
    }

    /// The same, started in another way.
    pub fn launched(launch: Launch, set_up: impl FnOnce(Launch) -> Launch) -> Self {
        let model = ModelServer::start().strict();
        let mut client = set_up(launch.model(&model.base_url())).start();
        client.permission(Permission::Select("allow"));
        let session = client.open();
        Self { client, model, session }
    }

    /// Another session in the same folder takes its place.
    pub fn new_session(&mut self) {
        let cwd = self.client.cwd();
        self.session = self.client.new_session(&cwd);
    }

    /// A file of the project, made.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        write_file(&self.client.cwd(), name, content)
    }

    /// A file of the project.
    pub fn at(&self, name: &str) -> PathBuf {
        self.client.cwd().join(name)
    }

    /// A file's bytes.
    #[track_caller]
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.at(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The model makes one call and says "done".
    #[track_caller]
    pub fn run(&mut self, tool: &str, arguments: Value) -> Ran {
        self.run_all([(tool, arguments)]).pop().expect("there is one call")
    }

    /// A command.
    #[track_caller]
    pub fn bash(&mut self, command: &str) -> Ran {
        self.run("bash", json!({"command": command}))
    }

    /// The model makes these calls in one reply and then says "done".
    #[track_caller]
    pub fn run_all<'a>(&mut self, calls: impl IntoIterator<Item = (&'a str, Value)>) -> Vec<Ran> {
        let calls: Vec<_> = calls.into_iter().enumerate().collect();
        let ids: Vec<_> = calls.iter().map(|(at, _)| format!("c{at}")).collect();
        let calls = ids.iter().zip(calls).map(|(id, (_, (name, arguments)))| (id.as_str(), name, arguments));
        self.model.push(openai::call(calls));
        self.model.push(openai::say("done"));
        let turn = self.prompt("go");
        assert_eq!(turn.stop_reason(), "end_turn", "{}", turn.response);
        self.came_of(&turn)
    }

    /// The model gives these answers to one prompt.
    #[track_caller]
    pub fn answers(&mut self, answers: impl IntoIterator<Item = Answer>) -> Turn {
        self.prompt_with("go", answers)
    }

    /// The same with a prompt of its own.
    #[track_caller]
    pub fn prompt_with(&mut self, text: &str, answers: impl IntoIterator<Item = Answer>) -> Turn {
        answers.into_iter().for_each(|answer| self.model.push(answer));
        self.prompt(text)
    }

    /// A prompt of one text.
    #[track_caller]
    pub fn prompt(&mut self, text: &str) -> Turn {
        let session = self.session.clone();
        self.client.prompt(&session, text)
    }

    /// What came of each call of a turn that has ended. Takes the questions.
    pub fn came_of(&mut self, turn: &Turn) -> Vec<Ran> {
        let questions = self.client.take_requests("session/request_permission");
        let calls: Vec<_> = turn.of_kind("tool_call").cloned().collect();
        let results = self.results();
        let told = results.len().saturating_sub(calls.len());
        let told = results.into_iter().skip(told);
        calls
            .into_iter()
            .zip(told.chain(std::iter::repeat(String::new())))
            .map(|(call, told)| {
                let is_it = |update: &&Value| update["toolCallId"] == call["toolCallId"];
                let last = turn.updates.iter().rfind(is_it).cloned().unwrap_or_default();
                let mut asked =
                    questions.iter().filter(|q| q["params"]["toolCall"]["toolCallId"] == call["toolCallId"]);
                let question = asked.next().cloned();
                assert_eq!(asked.next(), None, "a call is asked about once");
                Ran { call, last, told, asked: question }
            })
            .collect()
    }

    /// Every tool result in the last request, in order.
    pub fn results(&self) -> Vec<String> {
        let last = self.model.requests().pop();
        let messages = last.as_ref().map(Recorded::messages).unwrap_or_default();
        let results = messages.iter().filter(|message| message["role"] == "tool");
        results.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Sets a mode.
    #[track_caller]
    pub fn set_mode(&mut self, mode: &str) -> Value {
        let session = self.session.clone();
        self.client.call("session/set_mode", json!({"sessionId": session, "modeId": mode}))
    }

    /// Fails if the model was asked something it has no answer to, or a strict one would refuse; ends Bob.
    #[track_caller]
    pub fn finish(mut self) {
        assert_eq!(self.model.violations(), [] as [String; 0]);
        self.client.finish();
    }
}
