//! Turns that stay where they are, and how a client sees that they are there; and one that goes through.
use super::client::{Client, Permission};
use super::model_server::{Answer, Hold, ModelServer};
use super::openai;
use super::process::is_gone;
use serde_json::{Value, json};

/// A turn goes through, in which the model says one word.
#[track_caller]
pub fn works(client: &mut Client, session: &str, server: &ModelServer) {
    server.push(openai::say("hello"));
    let turn = client.prompt(session, "hi");
    assert_eq!((turn.stop_reason(), turn.text().as_str()), ("end_turn", "hello"), "{}", turn.response);
}

/// A place where a turn can stay for as long as the test likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The model has the request and says nothing.
    Headers,
    /// The model has begun to speak.
    Text,
    /// A command runs, in two processes.
    Command,
    /// Permission is asked.
    Question,
    /// The model was overloaded and is to be tried again in a minute.
    Retry,
}

/// A turn that stays.
pub struct Staying {
    /// The prompt's id.
    pub prompt: Value,
    /// The connection its model call uses.
    pub connection: usize,
    /// The processes of its command.
    pub processes: Vec<u32>,
    /// The id of its question.
    pub question: Value,
    /// Lets the model go on.
    pub hold: Option<Hold>,
}

impl Place {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Headers, Self::Text, Self::Command, Self::Question, Self::Retry];

    /// Brings a new turn of a session in mode `ask` there. Its text is in no other request.
    #[track_caller]
    pub fn reach(self, client: &mut Client, server: &ModelServer, session: &str, text: &str) -> Staying {
        let (answer, hold) = self.answer();
        client.permission(match self {
            Self::Command => Permission::Select("allow"),
            _ => Permission::Test,
        });
        server.push_for(text, answer);
        let asked = server.requests().len();
        let prompt = client.send_prompt(session, text);
        let connection = server.wait_request(asked).connection;
        let (mut processes, mut question) = (Vec::new(), Value::Null);
        match self {
            Self::Headers => {}
            Self::Text => drop(client.wait_update(said_something)),
            Self::Command => processes = wait_processes(client),
            Self::Question => question = client.wait_request("session/request_permission")["id"].take(),
            Self::Retry => drop(client.wait_update(|u| u["sessionUpdate"] == "agent_thought_chunk")),
        }
        Staying { prompt, connection, processes, question, hold }
    }

    fn answer(self) -> (Answer, Option<Hold>) {
        match self {
            Self::Headers => hold(Answer::sse()),
            Self::Text => {
                let (answer, hold) = talking([]);
                (answer, Some(hold))
            }
            Self::Command => (bash(TWO_PROCESSES), None),
            Self::Question => (bash("touch ran"), None),
            Self::Retry => (openai::refuse(503, "overloaded").header("retry-after", "60"), None),
        }
    }
}

impl Staying {
    /// Nothing of it is left: no process, and no connection that says more.
    #[track_caller]
    pub fn left_nothing(&self, server: &ModelServer) {
        assert!(self.processes.iter().all(|id| is_gone(*id)), "{:?} are still there", self.processes);
        if self.hold.is_some() {
            server.wait_closed(self.connection);
        }
    }
}

fn hold(answer: Answer) -> (Answer, Option<Hold>) {
    let (answer, hold) = answer.hold();
    (answer, Some(hold))
}

/// Says a word after these chunks, then nothing more.
pub fn talking(before: impl IntoIterator<Item = Value>) -> (Answer, Hold) {
    let chunks = before.into_iter().chain([openai::text("So: ")]);
    chunks.fold(Answer::sse(), |answer, chunk| answer.write(openai::event(&chunk))).hold()
}

/// Whether an update is the word of [`talking`].
pub fn said_something(update: &Value) -> bool {
    update["sessionUpdate"] == "agent_message_chunk" && update["content"]["text"] == "So: "
}

/// The end of an answer that went on.
pub fn and_stops(answer: Answer) -> Answer {
    answer.write(openai::event(&openai::finish("stop"))).write("data: [DONE]\n\n")
}

/// A call of the tool `bash`.
pub fn bash(command: &str) -> Answer {
    openai::call([("model_1", "bash", json!({"command": command}))])
}

/// Two processes that say their ids and stay; one of them is the shell.
pub const TWO_PROCESSES: &str = "sleep 300 & echo $! $$; sleep 300";

/// The ids that [`TWO_PROCESSES`] says.
#[track_caller]
pub fn wait_processes(client: &mut Client) -> Vec<u32> {
    let update = client.wait_update(|update| {
        update["status"] == "in_progress" && update["content"][0]["content"]["text"].is_string()
    });
    let output = update["content"][0]["content"]["text"].as_str().expect("it was looked at");
    let ids: Vec<_> = output.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(!ids.is_empty(), "{output}");
    ids
}

/// A prompt of one text, as a line without its end.
pub fn prompt_line(id: &Value, session: &str, text: &str) -> String {
    let prompt = json!([{"type": "text", "text": text}]);
    request_line(id, "session/prompt", json!({"sessionId": session, "prompt": prompt}))
}

/// A request, as a line without its end.
pub fn request_line(id: &Value, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// `session/cancel`, as a line without its end.
pub fn cancel_line(session: &str) -> String {
    json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}).to_string()
}
