//! Order, bounds and turns of several sessions: what comes first, what waits, what is refused.
#![allow(clippy::needless_pass_by_value, reason = "callers write json!(…) in place")]
mod support;

use serde_json::{Value, json};
use std::collections::BTreeMap;
use support::client::{Client, Launch};
use support::model_server::ModelServer;
use support::process::memory_kib;
use support::turns::{Place, and_stops, bash, cancel_line, request_line, said_something, talking};
use support::{openai, write_file};

fn launch_with(config: Value) -> Launch {
    let launch = Launch::new();
    write_file(launch.home(), ".bob/config.json", config.to_string());
    launch
}

/// Bob in mode `full-access` before a model, with this much configured.
fn start(mut config: Value) -> (ModelServer, Client) {
    config["mode"] = json!("full-access");
    let server = ModelServer::start().strict();
    let client = launch_with(config).model(&server.base_url()).start();
    (server, client)
}

/// What a session was told by the agent, joined.
fn text_of(messages: &[Value], session: &str) -> String {
    let updates =
        messages.iter().filter(|m| m["params"]["sessionId"] == session).map(|m| &m["params"]["update"]);
    let chunks = updates.filter(|update| update["sessionUpdate"] == "agent_message_chunk");
    chunks.filter_map(|update| update["content"]["text"].as_str()).collect()
}

/// All that comes until these requests are answered, in order.
#[track_caller]
fn until_answered(client: &mut Client, prompts: &[Value]) -> Vec<Value> {
    let (mut open, mut messages) = (prompts.to_vec(), Vec::new());
    while !open.is_empty() {
        let message = client.next().expect("stdout is open");
        if message.get("method").is_none() {
            open.retain(|id| *id != message["id"]);
        }
        messages.push(message);
    }
    messages
}

// --- what is said

fn numbers() -> impl Iterator<Item = String> {
    (0..2000).map(|n| format!("{n} "))
}

#[test]
fn deltas_come_in_order_also_of_two_sessions_at_once() {
    let (server, mut client) = start(json!({"turns": {"parallel": true}}));
    let sessions = [client.open(), {
        let cwd = client.cwd();
        client.new_session(&cwd)
    }];
    let prompts = sessions.each_ref().map(|session| {
        let chunks = numbers().map(|text| openai::text(&text)).chain([openai::finish("stop")]);
        server.push_for(session, openai::stream(chunks));
        client.send_prompt(session, session)
    });
    let messages = until_answered(&mut client, &prompts);
    for session in &sessions {
        assert_eq!(text_of(&messages, session), numbers().collect::<String>());
    }
    client.finish();
}

#[test]
fn the_last_word_comes_before_the_answer_and_nothing_after_it() {
    let (server, mut client) = start(json!({}));
    let session = client.open();
    write_file(&client.cwd(), "a.txt", "one line\n");
    for round in 0..200 {
        server.push(openai::call([(
            "model_1",
            "read_file",
            json!({"path": format!("a.txt"), "offset": round + 1}),
        )]));
        server.push(openai::say("Last words."));
        let turn = client.prompt(&session, "go"); // the checker refuses an update behind the answer
        assert_eq!((turn.stop_reason(), turn.text().as_str()), ("end_turn", "Last words."));
        assert_eq!(turn.of_kind("tool_call").count(), 1);
    }
    client.finish();
}

#[test]
fn a_session_is_announced_before_it_is_updated() {
    let mut client = Launch::new().demo().start();
    client.initialize();
    let cwd = client.cwd();
    let ids: Vec<_> =
        (0..300).map(|_| client.request("session/new", json!({"cwd": cwd, "mcpServers": []}))).collect();
    let mut announced = BTreeMap::new(); // the checker refuses updates of sessions without an answer
    while announced.len() < 300 || announced.values().any(|updates| *updates == 0) {
        let message = client.next().expect("stdout is open");
        match message["result"]["sessionId"].as_str() {
            Some(session) => assert_eq!(announced.insert(session.to_owned(), 0), None),
            None => {
                assert_eq!(message["params"]["update"]["sessionUpdate"], "available_commands_update");
                let session = message["params"]["sessionId"].as_str().expect("it is of a session");
                *announced.get_mut(session).expect("it was announced") += 1;
            }
        }
    }
    assert_eq!(ids.len(), announced.len());
    assert!(announced.values().all(|updates| *updates == 1));
    client.finish();
}

#[test]
fn an_id_may_be_used_again_as_soon_as_it_is_answered() {
    let mut client = Launch::new().demo().start();
    let session = client.open();
    let mode =
        request_line(&json!("same"), "session/set_mode", json!({"sessionId": session, "modeId": "ask"}));
    for _ in 0..2000 {
        client.send_raw(format!("{mode}\n").as_bytes());
        assert_eq!(client.wait_response(&json!("same"))["result"]["modeId"], "ask");
    }
    client.finish();
}

// --- bounds

#[test]
fn there_is_a_limit_of_live_sessions() {
    let mut client = launch_with(json!({"limits": {"sessions": 3}})).demo().start();
    let first = client.open();
    let cwd = client.cwd();
    client.new_session(&cwd);
    client.new_session(&cwd);
    let params = json!({"cwd": cwd, "mcpServers": []});
    let refused = client.call("session/new", params.clone());
    assert_eq!(refused["error"]["code"], -32600);
    assert!(refused["error"]["message"].as_str().is_some_and(|text| text.contains("too many sessions")));
    assert_eq!(client.call("session/close", json!({"sessionId": first}))["result"], json!({}));
    client.new_session(&cwd);
    assert_eq!(
        client.call("session/new", json!({"cwd": "/nowhere/at/all", "mcpServers": []}))["error"]["code"],
        -32600
    );
    client.finish();
}

#[test]
fn a_session_that_could_not_be_opened_is_not_live() {
    let mut client = launch_with(json!({"limits": {"sessions": 1}})).demo().start();
    client.initialize();
    for _ in 0..50 {
        let failed = client.call("session/new", json!({"cwd": "/nowhere/at/all", "mcpServers": []}));
        assert_eq!(failed["error"]["code"], -32602);
    }
    let cwd = client.cwd();
    client.new_session(&cwd);
    client.finish();
}

#[test]
fn sixty_four_requests_may_wait_for_a_session() {
    let (server, mut client) = start(json!({"turns": {"queue": true}}));
    let session = client.open();
    let (answer, hold) = talking([]);
    server.push(and_stops(answer));
    let running = client.send_prompt(&session, "first");
    client.wait_update(said_something);
    let waiting: Vec<_> = (0..64)
        .map(|n| match n % 2 {
            0 => client.send_prompt(&session, "/new"),
            _ => client.request("session/set_mode", json!({"sessionId": session, "modeId": "ask"})),
        })
        .collect();
    let refused = client.send_prompt(&session, "/new");
    let refused = client.wait_response(&refused);
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["data"]["sessionId"]),
        (&json!(-32600), &json!(session))
    );
    client.notify("$/cancel_request", json!({"requestId": waiting[10]}));
    assert_eq!(client.wait_response(&waiting[10])["result"]["stopReason"], "cancelled");
    let last = client.send_prompt(&session, "/new"); // its place is free
    hold.release();
    let mut answers = Vec::new();
    for message in until_answered(&mut client, std::slice::from_ref(&last)) {
        if message.get("method").is_none() {
            assert!(message.get("result").is_some(), "{message}");
            answers.push(message["id"].clone());
        }
    }
    let accepted = waiting.iter().enumerate().filter(|(at, _)| *at != 10).map(|(_, id)| id);
    let in_order: Vec<_> = [&running].into_iter().chain(accepted).chain([&last]).cloned().collect();
    assert_eq!(answers, in_order);
    client.finish();
}

#[test]
fn long_prompts_are_taken() {
    let (server, mut client) = start(json!({}));
    let session = client.open();
    server.push(openai::say("Long."));
    assert_eq!(client.prompt(&session, &"x".repeat(5 << 20)).text(), "Long.");
    let resource = json!({"uri": "file:///big.txt", "mimeType": "text/plain", "text": "y".repeat(9 << 20)});
    let prompt = json!([{"type": "resource", "resource": resource}]);
    server.push(openai::say("Longer."));
    let id = client.request("session/prompt", json!({"sessionId": session, "prompt": prompt}));
    assert_eq!(client.wait_turn(&session, &id).text(), "Longer.");
    server.push(openai::say("Short."));
    assert_eq!(client.prompt(&session, "small").text(), "Short.");
    let sent = server.requests().pop().expect("it was asked").raw.len();
    assert!(sent > 14 << 20, "{sent}");
    client.finish();
}

#[test]
fn a_line_past_the_limit_is_skipped_without_being_held() {
    let mut client = launch_with(json!({"limits": {"messageBytes": 10_000}})).demo().start();
    let session = client.open();
    let before = memory_kib(client.id());
    for _ in 0..3 {
        client.send_raw(format!("{{\"jsonrpc\":\"2.0\",\"x\":\"{}\"}}\n", "x".repeat(20 << 20)).as_bytes());
        let refused = client.next().expect("it is answered");
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(null), &json!(-32600)), "{refused}");
    }
    let after = memory_kib(client.id());
    assert!(after < before + 10_000, "{before} KiB, then {after} KiB");
    assert_eq!(client.prompt(&session, "hello").stop_reason(), "end_turn");
    client.finish();
}

#[test]
fn an_answer_past_the_limit_is_a_refusal() {
    let server = ModelServer::with([bash("touch ran"), openai::say("A pity.")]).strict();
    let launch = launch_with(json!({"limits": {"messageBytes": 10_000}})).model(&server.base_url());
    let mut client = launch.start();
    let session = client.open();
    let prompt = client.send_prompt(&session, "go");
    let question = client.wait_request("session/request_permission")["id"].clone();
    let outcome = json!({"outcome": "selected", "optionId": "allow"});
    client.answer(&question, json!({"outcome": outcome, "_meta": {"x": "x".repeat(20_000)}}));
    assert_eq!(client.wait_turn(&session, &prompt).text(), "A pity.");
    assert!(!client.cwd().join("ran").exists());
    client.finish();
}

#[test]
fn many_small_deltas_stay_right() {
    let (server, mut client) = start(json!({}));
    let session = client.open();
    let chunks = (0..10_000).map(|n| openai::text(["a", "b", "é"][n % 3]));
    server.push(openai::stream(chunks.chain([openai::finish("stop")])));
    let expected: String = (0..10_000).map(|n| ["a", "b", "é"][n % 3]).collect();
    assert_eq!(client.prompt(&session, "go").text(), expected);
    client.finish();
}

// --- turns of several sessions

#[test]
fn turns_go_one_at_a_time_in_the_order_they_were_asked_for() {
    let (server, mut client) = start(json!({}));
    let first = client.open();
    let cwd = client.cwd();
    let others: Vec<_> = (0..12).map(|_| client.new_session(&cwd)).collect();
    for round in 0..10 {
        let turn = Place::Text.reach(&mut client, &server, &first, &format!("hold {round};"));
        let before = server.requests().len();
        // Pipelined, and each time in another order of the sessions.
        let order: Vec<_> = (0..others.len()).map(|n| &others[(n * 5 + round) % others.len()]).collect();
        let prompts: Vec<_> = order
            .iter()
            .map(|session| {
                server.push_for(&format!("of {session} {round};"), openai::say("Mine."));
                client.send_prompt(session, &format!("of {session} {round};"))
            })
            .collect();
        client.call("authenticate", json!({"methodId": "x"})); // all of them are accepted
        assert_eq!(server.requests().len(), before, "nobody works beside the first");
        client.notify("session/cancel", json!({"sessionId": first}));
        assert_eq!(client.wait_turn(&first, &turn.prompt).stop_reason(), "cancelled");
        for prompt in &prompts {
            assert_eq!(client.wait_response(prompt)["result"]["stopReason"], "end_turn");
        }
        let asked: Vec<_> =
            server.requests()[before..].iter().map(|request| request.body.to_string()).collect();
        for (session, body) in order.iter().zip(&asked) {
            assert!(body.contains(&format!("of {session} {round};")), "out of order: {body}");
        }
    }
    client.finish();
}

#[test]
fn an_open_question_does_not_keep_the_others_waiting() {
    let server = ModelServer::start().strict();
    let mut client = Launch::new().model(&server.base_url()).start();
    let asking = client.open();
    let cwd = client.cwd();
    let other = client.new_session(&cwd);
    let turn = Place::Question.reach(&mut client, &server, &asking, "ask me");
    for _ in 0..5 {
        server.push(openai::say("I work."));
        assert_eq!(client.prompt(&other, "work").text(), "I work.");
    }
    client.finish();
    assert_eq!(client.wait_response(&turn.prompt)["result"]["stopReason"], "cancelled");
    assert!(!client.cwd().join("ran").exists());
}

#[test]
fn a_retrys_pause_does_not_keep_the_others_waiting() {
    let server = ModelServer::start().strict();
    let mut client = Launch::new().model(&server.base_url()).start();
    let waiting = client.open();
    let cwd = client.cwd();
    let other = client.new_session(&cwd);
    let turn = Place::Retry.reach(&mut client, &server, &waiting, "later");
    server.push(openai::say("I work."));
    assert_eq!(client.prompt(&other, "work").text(), "I work.");
    client.finish();
    assert_eq!(client.wait_response(&turn.prompt)["result"]["stopReason"], "cancelled");
}

#[test]
fn an_answered_turn_goes_before_those_that_came_later() {
    let server = ModelServer::start().strict();
    let mut client = Launch::new().model(&server.base_url()).start();
    let cwd = {
        client.initialize();
        client.cwd()
    };
    let sessions: Vec<_> = (0..4).map(|_| client.new_session(&cwd)).collect();
    let asked = Place::Question.reach(&mut client, &server, &sessions[0], "ask me;");
    let busy = Place::Text.reach(&mut client, &server, &sessions[1], "hold;");
    let later: Vec<_> = sessions[2..]
        .iter()
        .map(|session| {
            server.push_for(&format!("later {session}"), openai::say("Later."));
            client.send_prompt(session, &format!("later {session}"))
        })
        .collect();
    client.answer(&asked.question, json!({"outcome": {"outcome": "selected", "optionId": "reject"}}));
    server.push_for("ask me;", openai::say("Back."));
    client.call("authenticate", json!({"methodId": "x"}));
    client.notify("session/cancel", json!({"sessionId": sessions[1]}));
    let mut order = Vec::new();
    let open = [&asked.prompt, &busy.prompt, &later[0], &later[1]].map(Clone::clone);
    for message in until_answered(&mut client, &open) {
        if message.get("method").is_none() {
            order.push(message["id"].clone());
        }
    }
    assert_eq!(order, [&busy.prompt, &asked.prompt, &later[0], &later[1]].map(Clone::clone));
    client.finish();
}

#[test]
fn with_turns_parallel_sessions_work_side_by_side_each_in_its_own_folder() {
    let (server, mut client) = start(json!({"turns": {"parallel": true}}));
    client.initialize();
    let root = client.cwd();
    let folders = ["a", "b"].map(|name| {
        write_file(&root, &format!("{name}/.keep"), "");
        root.join(name)
    });
    let sessions = folders.each_ref().map(|folder| client.new_session(folder));
    // Each waits for the file that only the other makes: they must run at the same time.
    let prompts = [0, 1].map(|n| {
        let (mine, theirs) = (&folders[n], &folders[1 - n]);
        let wait =
            format!("pwd > x.txt; mkfifo -m 600 go; cd {}; until [ -p go ]; do :; done", theirs.display());
        server.push_for(&format!("in {}", mine.display()), bash(&wait));
        server.push_for(&format!("in {}", mine.display()), openai::say("Done."));
        client.send_prompt(&sessions[n], &format!("in {}", mine.display()))
    });
    for prompt in &prompts {
        assert_eq!(client.wait_response(prompt)["result"]["stopReason"], "end_turn");
    }
    for folder in &folders {
        let written = std::fs::read_to_string(folder.join("x.txt")).expect("it was written");
        assert_eq!(written.trim(), folder.display().to_string());
    }
    for request in server.requests() {
        let (system, prompt) = (request.messages()[0].to_string(), request.messages()[1].to_string());
        let folder =
            folders.iter().find(|folder| prompt.contains(&folder.display().to_string())).expect("one");
        assert!(system.contains(&folder.display().to_string()), "the system prompt names its own folder");
    }
    client.finish();
}

// --- anything, in any order

/// A small generator of numbers, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).expect("it is smaller than a usize")
    }
}

/// What the fuzz knows of a session.
#[derive(Default)]
struct Known {
    /// Prompts that are not answered yet, as they were sent.
    prompts: Vec<Value>,
    /// None was sent since the last cancel.
    quiet: bool,
    closed: bool,
}

struct Fuzz {
    dice: Dice,
    client: Client,
    sessions: BTreeMap<String, Known>,
    /// What must hold of an answer that is still to come.
    expected: BTreeMap<String, (String, Expected)>,
    questions: Vec<Value>,
    next: u64,
    queue: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// `end_turn`, `cancelled`, or a refusal since the session is busy.
    Turn,
    /// As above, but nothing is in its way.
    TurnForSure,
    Mode,
    Closed,
    Cancelled,
    UnknownSession,
    UnknownMethod,
}

const TEXTS: [&str; 8] = [
    "hello",
    "run true",
    "run sleep 300",
    "read a.txt",
    "write b.txt x",
    "/new",
    "/compact",
    "run for i in 1 2 3; do echo $i; done",
];

impl Fuzz {
    fn new(seed: u64, config: Value) -> Self {
        let queue = config["turns"]["queue"] == true;
        let mut client = launch_with(config).demo().start();
        write_file(&client.cwd(), "a.txt", "a line\n");
        client.initialize();
        let sessions = BTreeMap::new();
        Self {
            dice: Dice(seed),
            client,
            sessions,
            expected: BTreeMap::new(),
            questions: Vec::new(),
            next: 0,
            queue,
        }
    }

    /// Some lines at once, then perhaps some of what came.
    fn step(&mut self) {
        let live = self.sessions.values().filter(|known| !known.closed).count();
        if live < 2 || (live < 5 && self.dice.roll(20) == 0) {
            return self.open();
        }
        let count = 1 + self.dice.roll(5);
        let lines: Vec<_> = (0..count).map(|_| self.line() + "\n").collect();
        self.client.send_raw(lines.concat().as_bytes());
        match self.dice.roll(4) {
            0 => self.wait_for_cancelled(),
            1 => self.answer_questions(),
            _ => {}
        }
    }

    fn open(&mut self) {
        let id = self.new_id();
        let params = json!({"cwd": self.client.cwd(), "mcpServers": []});
        self.client.send_raw((request_line(&id, "session/new", params) + "\n").as_bytes());
        let answer = loop {
            let message = self.client.next().expect("stdout is open");
            match message["id"] == id {
                true => break message,
                false => self.take(&message),
            }
        };
        let session = answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        self.sessions.insert(session, Known { quiet: true, ..Known::default() });
    }

    fn new_id(&mut self) -> Value {
        self.next += 1;
        json!(format!("f{}", self.next))
    }

    /// Mostly one that lives.
    fn any_session(&mut self) -> String {
        let closed_too = self.dice.roll(8) == 0;
        let known: Vec<_> = self.sessions.iter().filter(|(_, known)| closed_too || !known.closed).collect();
        let at = self.dice.roll(known.len().max(1));
        let any = known.get(at).map(|(id, _)| (*id).clone());
        any.unwrap_or_else(|| self.sessions.keys().next().expect("one was opened").clone())
    }

    fn line(&mut self) -> String {
        let session = self.any_session();
        let closed = self.sessions[&session].closed;
        let in_session = json!({"sessionId": session});
        match self.dice.roll(12) {
            0..=4 => self.prompt(&session),
            5 | 6 => {
                let known = self.sessions.get_mut(&session).expect("it is known");
                known.quiet = true;
                cancel_line(&session)
            }
            7 => {
                let mode = ["ask", "full-access", "of-mine"][self.dice.roll(3)];
                let expected = if closed { Expected::UnknownSession } else { Expected::Mode };
                self.expect(
                    &session,
                    expected,
                    "session/set_mode",
                    json!({"sessionId": session, "modeId": mode}),
                )
            }
            8 if self.dice.roll(3) == 0 => {
                let expected = if closed { Expected::UnknownSession } else { Expected::Closed };
                self.sessions.get_mut(&session).expect("it is known").closed = true;
                self.expect(&session, expected, "session/close", in_session)
            }
            9 => {
                self.sessions.get_mut(&session).expect("it is known").quiet = true;
                self.expect(&session, Expected::Cancelled, "session/cancel", in_session)
            }
            10 => {
                let id = format!("f{}", 1 + self.dice.roll(usize::try_from(self.next).expect("few")));
                json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}})
                    .to_string()
            }
            _ => self.expect(&session, Expected::UnknownMethod, "no/such/method", in_session),
        }
    }

    fn prompt(&mut self, session: &str) -> String {
        let text = TEXTS[self.dice.roll(TEXTS.len())];
        let known = self.sessions.get_mut(session).expect("it is known");
        let expected = match (known.closed, known.quiet || self.queue || text.starts_with('/')) {
            (true, _) => Expected::UnknownSession,
            (false, true) => Expected::TurnForSure,
            (false, false) => Expected::Turn,
        };
        known.quiet = false;
        let prompt = json!([{"type": "text", "text": text}]);
        let line =
            self.expect(session, expected, "session/prompt", json!({"sessionId": session, "prompt": prompt}));
        if expected != Expected::UnknownSession {
            let id = json!(format!("f{}", self.next));
            self.sessions.get_mut(session).expect("it is known").prompts.push(id);
        }
        line
    }

    fn expect(&mut self, session: &str, expected: Expected, method: &str, params: Value) -> String {
        let id = self.new_id();
        self.expected.insert(format!("f{}", self.next), (session.to_owned(), expected));
        request_line(&id, method, params)
    }

    /// Cancels a session; all its prompts must be answered then, whatever they were at.
    fn wait_for_cancelled(&mut self) {
        let session = self.any_session();
        self.client.send_raw((cancel_line(&session) + "\n").as_bytes());
        self.sessions.get_mut(&session).expect("it is known").quiet = true;
        while !self.sessions[&session].prompts.is_empty() {
            let message = self.client.next().expect("stdout is open");
            self.take(&message);
        }
    }

    fn answer_questions(&mut self) {
        for question in std::mem::take(&mut self.questions) {
            let option = ["allow", "reject", "allow_always", "nonsense"][self.dice.roll(4)];
            self.client.answer(&question, json!({"outcome": {"outcome": "selected", "optionId": option}}));
        }
    }

    /// One message: a question is kept, an answer must be as expected.
    #[track_caller]
    fn take(&mut self, message: &Value) {
        if message["method"] == "session/request_permission" {
            self.questions.push(message["id"].clone());
        }
        if message.get("method").is_some() {
            return;
        }
        let id = message["id"].as_str().expect("only our ids are answered");
        let (session, expected) =
            self.expected.remove(id).unwrap_or_else(|| panic!("nobody asked: {message}"));
        let known = self.sessions.get_mut(&session).expect("it is known");
        if let Some(at) = known.prompts.iter().position(|prompt| *prompt == message["id"]) {
            known.prompts.remove(at);
            // Only a prompt that was cancelled or refused is answered before one that came earlier.
            assert!(at == 0 || message["result"]["stopReason"] != "end_turn", "out of order: {message}");
        }
        let (result, code) = (&message["result"], message["error"]["code"].as_i64());
        let is_turn =
            ["end_turn", "cancelled", "max_turn_requests"].iter().any(|end| result["stopReason"] == *end);
        let good = match expected {
            Expected::Turn => is_turn || code == Some(-32600),
            Expected::TurnForSure => is_turn,
            Expected::Mode => result["modeId"].is_string() || code == Some(-32600),
            Expected::Closed => *result == json!({}),
            Expected::Cancelled => {
                (code.is_none() && result.is_null()) || (code == Some(-32600) && known.closed)
            }
            Expected::UnknownSession => {
                code == Some(-32602) || (known.closed && result["stopReason"] == "cancelled")
            }
            Expected::UnknownMethod => code == Some(-32601),
        };
        assert!(good, "{expected:?} expected: {message}");
    }

    /// The end of input: whatever is open is answered, and it ends in order.
    fn end(mut self) {
        self.client.finish();
        while let Some(message) = self.client.next() {
            self.take(&message);
        }
        assert!(self.expected.is_empty(), "{:?}", self.expected);
    }
}

#[track_caller]
fn fuzz(seed: u64, steps: usize, config: Value) {
    let mut fuzz = Fuzz::new(seed, config);
    for _ in 0..steps {
        fuzz.step();
    }
    fuzz.end();
}

#[test]
fn whatever_is_asked_in_whatever_order_is_answered_once() {
    for seed in 1..=6 {
        fuzz(seed * 7919, 150, json!({}));
    }
}

#[test]
fn the_same_with_queues_and_turns_side_by_side() {
    for seed in 1..=3 {
        fuzz(seed * 104_729, 150, json!({"turns": {"queue": true}}));
        fuzz(seed * 15_485_863, 150, json!({"turns": {"parallel": true}}));
    }
}

/// The seeds of [`whatever_is_asked_in_whatever_order_is_answered_once`], each cut short by the end of input.
#[test]
fn the_end_may_come_at_any_step() {
    for seed in 1..=12 {
        fuzz(seed * 7919, usize::try_from(seed).expect("small") * 3, json!({"mode": "full-access"}));
    }
}
