//! What must hold of every conversation, whatever a test is about. It sees both directions and speaks up at the
//! first line that breaks a rule.
use super::schema;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The updates that may come at any time. All others belong to a turn.
const ANY_TIME: &[&str] = &[
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "notice",
    "compaction_update",
];
/// The updates a client has to know; each of the others must have been declared.
const KNOWN: &[&str] = &[
    "available_commands_update",
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "current_mode_update",
    "config_option_update",
    "usage_update",
    "session_info_update",
];
/// What the client has to declare before Bob may send it: method or update, and where it is declared.
const DECLARED: &[(&str, &str)] = &[
    ("fs/read_text_file", "/fs/readTextFile"),
    ("fs/write_text_file", "/fs/writeTextFile"),
    ("terminal/create", "/terminal"),
    ("elicitation/create", "/elicitation/form"),
    ("notice", "/session/notices"),
    ("compaction_update", "/session/compaction"),
];

/// One connection, as far as it has gone.
#[derive(Debug, Default)]
pub struct Checker {
    /// Bob was started with `--resume`: the past of the first session is told before its answer.
    resumes: bool,
    /// Bob was started with `--script`: its first session may go by a name that is not in its answer.
    scripted: bool,
    is_begun: bool,
    capabilities: Value,
    /// The client's requests without an answer, oldest first.
    pending: Vec<Pending>,
    /// Ids that came with a line which is no good request: an error may name them.
    doubtful: Vec<Value>,
    /// Sessions the client knows.
    sessions: BTreeSet<String>,
    /// Calls by session and id; true once completed or failed.
    calls: BTreeMap<(String, String), bool>,
    /// Ids of Bob's own requests, ever and without an answer.
    asked: BTreeSet<String>,
    unanswered: BTreeSet<String>,
}

#[derive(Debug)]
struct Pending {
    id: Value,
    method: String,
    session: Option<String>,
}

impl Checker {
    /// `resumes`: Bob was started with `--resume`; `scripted`: with `--script`.
    pub fn new(resumes: bool, scripted: bool) -> Self {
        Self { resumes, scripted, ..Self::default() }
    }

    /// Takes note of a line the client writes.
    pub fn sent(&mut self, line: &[u8]) {
        let line = match self.is_begun {
            true => line,
            false => line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line),
        };
        self.is_begun = true;
        let Ok(message) = serde_json::from_slice::<Value>(line) else { return };
        let id = &message["id"];
        let usable = id.is_string() || id.is_i64() || id.is_u64();
        match message["method"].as_str() {
            Some(method) if usable && message["jsonrpc"] == "2.0" => {
                let session = message["params"]["sessionId"].as_str().map(Into::into);
                self.pending.push(Pending { id: id.clone(), method: method.into(), session });
                if method == "initialize" {
                    self.capabilities = message["params"]["clientCapabilities"].clone();
                }
            }
            None if message.get("result").or(message.get("error")).is_some() => {
                self.unanswered.remove(id.as_str().unwrap_or_default());
            }
            _ if usable => self.doubtful.push(id.clone()),
            _ => {}
        }
    }

    /// Judges a line Bob wrote (without its newline).
    ///
    /// # Errors
    /// The rule it breaks.
    pub fn received(&mut self, line: &[u8]) -> Result<Value, String> {
        let message: Value = serde_json::from_slice(line).map_err(|error| format!("not JSON: {error}"))?;
        let members = message.as_object().ok_or("not a JSON object")?;
        if members.get("jsonrpc") != Some(&"2.0".into()) {
            return Err("without `jsonrpc: \"2.0\"`".into());
        }
        if let Some(name) = members
            .keys()
            .find(|name| !["jsonrpc", "id", "method", "params", "result", "error"].contains(&name.as_str()))
        {
            return Err(format!("`{name}` is no member of a JSON-RPC message"));
        }
        let params = &message["params"];
        match (members.get("method"), members.get("id")) {
            (Some(Value::String(method)), Some(id)) => self.request(method, id, params)?,
            (Some(Value::String(method)), None) => self.notification(method, params)?,
            (None, Some(id)) => self.response(id, members.get("result"), members.get("error"))?,
            _ => return Err("neither request, notification nor response".into()),
        }
        Ok(message)
    }

    /// Judges the end of a connection that was ended in order.
    ///
    /// # Errors
    /// A request that was never answered.
    pub fn ended(&self) -> Result<(), String> {
        match self.pending.first() {
            Some(request) => Err(format!("{} {} was never answered", request.method, request.id)),
            None => Ok(()),
        }
    }

    fn request(&mut self, method: &str, id: &Value, params: &Value) -> Result<(), String> {
        schema::check_request(method, params)?;
        self.check_declared(method)?;
        let id = id.as_str().ok_or("an id of ours is a string")?;
        if !self.asked.insert(id.into()) {
            return Err(format!("the id {id} was used before"));
        }
        self.unanswered.insert(id.into());
        let session = session_of(params)?;
        self.check_in_turn(session, method)?;
        if method == "session/request_permission" {
            self.check_open(session, &params["toolCall"]["toolCallId"])?;
        }
        Ok(())
    }

    fn notification(&mut self, method: &str, params: &Value) -> Result<(), String> {
        schema::check_notification(method, params)?;
        match method {
            "session/update" => self.update(session_of(params)?, &params["update"]),
            "$/cancel_request" => match params["requestId"].as_str() {
                Some(id) if self.asked.contains(id) => Ok(()),
                _ => Err("cancels a request that it never sent".into()),
            },
            _ => Err(format!("{method} is no notification of ours")),
        }
    }

    fn update(&mut self, session: &str, update: &Value) -> Result<(), String> {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        if !KNOWN.contains(&kind) {
            self.check_declared(kind)?;
        }
        if self.is_replayed(session) {
            let ended = matches!(update["status"].as_str(), Some("completed" | "failed"));
            if let Some(id) = update["toolCallId"].as_str() {
                self.calls.insert((session.into(), id.into()), ended);
            }
            return Ok(());
        }
        if !self.sessions.contains(session) {
            return Err(format!("an update of {session}, which the client does not know"));
        }
        if !ANY_TIME.contains(&kind) {
            self.check_in_turn(session, kind)?;
        }
        match kind {
            "tool_call" => self.announce(session, update),
            "tool_call_update" => self.progress(session, update),
            _ => Ok(()),
        }
    }

    fn announce(&mut self, session: &str, update: &Value) -> Result<(), String> {
        let id = update["toolCallId"].as_str().unwrap_or_default();
        let ended = matches!(update["status"].as_str(), Some("completed" | "failed"));
        match self.calls.insert((session.into(), id.into()), ended) {
            Some(_) => Err(format!("the call {id} was announced before")),
            None => Ok(()),
        }
    }

    fn progress(&mut self, session: &str, update: &Value) -> Result<(), String> {
        self.check_open(session, &update["toolCallId"])?;
        if matches!(update["status"].as_str(), Some("completed" | "failed")) {
            let id = update["toolCallId"].as_str().unwrap_or_default();
            self.calls.insert((session.into(), id.into()), true);
        }
        Ok(())
    }

    fn response(&mut self, id: &Value, result: Option<&Value>, error: Option<&Value>) -> Result<(), String> {
        match (result, error) {
            (Some(result), None) => {
                let request = self.settle(id)?;
                schema::check_result(&request.method, result)?;
                self.answered(&request, Some(result))
            }
            (None, Some(error)) => {
                schema::check_error(error)?;
                self.refused(id, error)
            }
            _ => Err("a response holds either result or error".into()),
        }
    }

    fn refused(&mut self, id: &Value, error: &Value) -> Result<(), String> {
        if id.is_null() {
            // The later of two requests with one id is refused this way.
            let twin = self.pending.iter().rposition(|request| request.id == error["data"]["id"]);
            twin.map(|twin| self.pending.remove(twin));
            return Ok(());
        }
        if let Some(at) = self.doubtful.iter().position(|doubtful| doubtful == id) {
            self.doubtful.remove(at);
            return Ok(());
        }
        let request = self.settle(id)?;
        self.answered(&request, None)
    }

    fn settle(&mut self, id: &Value) -> Result<Pending, String> {
        let at = self.pending.iter().position(|request| request.id == *id);
        let at = at.ok_or_else(|| format!("an answer to {id}, which waits for none"))?;
        if self.pending[at].method == "session/prompt" {
            self.check_calls_ended(at)?;
        }
        Ok(self.pending.remove(at))
    }

    /// Only the oldest prompt of a session can be the one that ran; those behind it are refused or taken out.
    fn check_calls_ended(&self, at: usize) -> Result<(), String> {
        let prompt = &self.pending[at];
        let older = |request: &&Pending| request.method == prompt.method && request.session == prompt.session;
        if self.pending[..at].iter().any(|request| older(&request)) {
            return Ok(());
        }
        let open = |((session, _), ended): &(&(String, String), &bool)| {
            Some(session) == prompt.session.as_ref() && !**ended
        };
        match self.calls.iter().find(open) {
            Some(((_, call), _)) => Err(format!("the turn is over and its call {call} is not")),
            None => Ok(()),
        }
    }

    fn answered(&mut self, request: &Pending, result: Option<&Value>) -> Result<(), String> {
        match (request.method.as_str(), result) {
            ("session/new", Some(result)) => {
                let session = result["sessionId"].as_str().unwrap_or_default();
                if !self.sessions.insert(session.into()) {
                    return Err(format!("the session id {session} is in use"));
                }
            }
            ("session/load" | "session/resume", Some(_)) => self.sessions.extend(request.session.clone()),
            ("session/close" | "session/delete", Some(_)) => {
                self.sessions.remove(request.session.as_deref().unwrap_or_default());
            }
            _ => {}
        }
        Ok(())
    }

    fn check_open(&self, session: &str, id: &Value) -> Result<(), String> {
        let id = id.as_str().unwrap_or_default();
        match self.calls.get(&(session.into(), id.into())) {
            Some(false) => Ok(()),
            Some(true) => Err(format!("the call {id} has ended before")),
            None => Err(format!("the call {id} was not announced")),
        }
    }

    fn check_in_turn(&self, session: &str, what: &str) -> Result<(), String> {
        let by_another_name = |request: &Pending| {
            request.method == "session/prompt"
                && request.session.as_ref().is_some_and(|name| !self.sessions.contains(name))
        };
        let aliased = self.scripted && self.pending.iter().any(by_another_name);
        match aliased || self.waits_for(session, &["session/prompt"]) {
            true => Ok(()),
            false => Err(format!("{what} without a turn of {session}")),
        }
    }

    fn check_declared(&self, what: &str) -> Result<(), String> {
        let declared = DECLARED.iter().find(|(name, _)| *name == what).map(|(_, place)| *place);
        let value = declared.and_then(|place| self.capabilities.pointer(place));
        match (what.contains('/'), declared, value) {
            (true, None, _) => Ok(()), // a method everybody has
            (_, _, Some(Value::Bool(true) | Value::Object(_))) => Ok(()),
            _ => Err(format!("{what} was not declared by the client")),
        }
    }

    fn is_replayed(&self, session: &str) -> bool {
        let resumed = self.resumes && self.pending.iter().any(|request| request.method == "session/new");
        resumed || self.waits_for(session, &["session/load", "session/resume"])
    }

    fn waits_for(&self, session: &str, methods: &[&str]) -> bool {
        let mut pending = self.pending.iter();
        pending.any(|request| {
            methods.contains(&request.method.as_str()) && request.session.as_deref() == Some(session)
        })
    }
}

fn session_of(params: &Value) -> Result<&str, String> {
    params["sessionId"].as_str().ok_or_else(|| "without a sessionId".into())
}
