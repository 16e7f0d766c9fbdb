//! The session table and the handshake. It routes, and never waits but for its own inbox.
use crate::server::errands::{Errand, Errands};
use crate::server::ids;
use crate::server::inbox::Event;
use crate::server::requests::{Client, Incoming, Request};
use crate::server::{Server, handshake};
use crate::session::busy::{Busy, Item, Refused, Work, declined};
use crate::session::{ClientCapabilities, Ended, HowEnded, NewSession, worker};
use crate::text::clean;
use crate::wire::acp::SessionId;
use crate::wire::jsonrpc::{Id, RpcError};
use crate::wire::outbox::{AtDeadline, Reply};
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;

/// The one thread that knows which sessions there are.
pub struct Dispatcher {
    server: Arc<Server>,
    table: HashMap<SessionId, Entry>,
    errands: Errands,
    /// What `initialize` told; `None` before it.
    client: Option<ClientCapabilities>,
    /// What `--script` calls the first session, until one bears it.
    script: Option<SessionId>,
    ending: Ending,
}

enum Entry {
    /// Opening and live look alike from here: the opening is the first item of the inbox.
    Open(Arc<Busy>),
    /// Closing, or failed and not yet gone: requests wait in order for the worker's end.
    Ending(Arc<Busy>, Vec<Waiting>),
    /// A panic ended it; kept until it is closed.
    Failed,
}

/// A request for a session that is ending.
struct Waiting {
    id: SessionId,
    work: Work,
    reply: Reply,
}

/// How far the process is on its way out.
#[derive(PartialEq, Eq, Clone, Copy)]
enum Ending {
    No,
    /// What was asked for is still done.
    WhenDone,
    /// Prompts are cancelled.
    Now,
}

impl Dispatcher {
    /// Knows no session yet.
    pub fn new(server: Arc<Server>, script: Option<SessionId>, errands: Errands) -> Self {
        Self { server, table: HashMap::new(), errands, client: None, script, ending: Ending::No }
    }

    /// Until the end has begun and every worker is gone.
    pub fn run(mut self) {
        while self.ending == Ending::No || self.table.values().any(|entry| !matches!(entry, Entry::Failed)) {
            match self.server.inbox.next() {
                Event::Line(incoming, _) => self.line(incoming),
                Event::Ended(ended) => self.ended(ended),
                Event::LastLine => self.end_all(Ending::WhenDone),
                Event::Shutdown => self.end_all(Ending::Now),
            }
        }
    }

    fn line(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Request { id, method, request } => self.request(&id, &method, request),
            Incoming::Cancel(session) => {
                self.cancel(&session, None);
            }
            Incoming::CancelRequest(id) => {
                for session in self.sessions() {
                    self.cancel(&session, Some(&id));
                }
            }
            Incoming::Answer(id, answer) => {
                let known = id.as_ref().is_some_and(|id| self.server.context.outbox.answer(id, answer));
                if !known {
                    let id = id.map_or("null".into(), |id| id.to_string());
                    log::info!("[acp] an answer to {}, which is no open request of ours", clean(&id));
                }
            }
            Incoming::Bad { id, error } => match id.and_then(|id| self.open(id, AtDeadline::Error)) {
                Some(reply) => reply.err(&error),
                None => self.server.context.outbox.reply_to_nobody(&error),
            },
            Incoming::Ignored => {}
        }
    }

    fn open(&self, id: Id, at_deadline: AtDeadline) -> Option<Reply> {
        self.server.context.outbox.open(id, at_deadline)
    }

    fn request(&mut self, id: &Id, method: &str, request: Result<Request, RpcError>) {
        let at_deadline = match &request {
            Ok(Request::Prompt(..)) => AtDeadline::Cancelled,
            _ => AtDeadline::Error,
        };
        let Some(reply) = self.open(id.clone(), at_deadline) else {
            let error = RpcError::invalid_request("Invalid request: a request with this id is still open");
            return self.server.context.outbox.reply_to_nobody(&error.with_data(json!({ "id": id })));
        };
        match request {
            _ if self.ending == Ending::Now => reply.declined(at_deadline),
            Err(error) if error.is_method_not_found() => reply.err(&error),
            Ok(Request::Initialize(client)) => self.initialize(&client, reply),
            _ if self.client.is_none() && method != "initialize" => {
                reply.err(&RpcError::not_initialized(method))
            }
            Err(error) => reply.err(&error),
            Ok(request) => self.route(request, reply),
        }
    }

    fn initialize(&mut self, client: &Client, reply: Reply) {
        let Client { name, version, protocol, capabilities } = client;
        log::info!("[acp] client {} {}, protocol {}", clean(name), clean(version), clean(protocol));
        self.client = Some(*capabilities);
        reply.ok(&handshake::result(*capabilities, &self.server.context));
    }

    fn route(&mut self, request: Request, reply: Reply) {
        match request {
            Request::Initialize(client) => self.initialize(&client, reply),
            Request::Authenticate => reply.ok(&json!({})),
            Request::Logout => self.errands.give(Errand::Logout(reply)),
            Request::NewSession(params) => self.new_session(params, reply),
            Request::Prompt(id, prompt) => self.hand_over(Waiting { id, work: Work::Prompt(prompt), reply }),
            Request::SetMode(id, mode) => self.hand_over(Waiting { id, work: Work::SetMode(mode), reply }),
            Request::Close(id) => self.hand_over(Waiting { id, work: Work::Close, reply }),
            Request::Cancel(id) if self.cancel(&id, None) => reply.ok(&()),
            Request::Cancel(id) => {
                let error = RpcError::invalid_request(format!("there is no session {id}"));
                reply.err(&error.with_data(json!({ "sessionId": id })));
            }
        }
    }

    fn new_session(&mut self, params: NewSession, reply: Reply) {
        let limit = self.server.context.process.sessions;
        if self.table.len() >= limit {
            return reply.err(&RpcError::invalid_request(format!("too many sessions: {limit} are live")));
        }
        let free = |id: &SessionId| !self.table.contains_key(id);
        let id = self.script.take_if(|id| free(id)).unwrap_or_else(|| ids::new_session_id(free));
        let opening = Item::new(Work::Open(params, self.client.unwrap_or_default()), Some(reply));
        let context = &self.server.context;
        let busy = Arc::new(Busy::new(id.clone(), context.gate.clone(), context.process.queue, opening));
        if let Err(error) = worker::spawn(busy.clone(), context.clone()) {
            let error = RpcError::internal(format!("Internal error: no thread for a session: {error}"));
            busy.left().into_iter().filter_map(|item| item.reply).for_each(|reply| reply.err(&error));
            return;
        }
        self.table.insert(id.clone(), Entry::Open(busy));
        if self.ending != Ending::No {
            self.end(&id); // asked for before the last line, seen behind it
        }
    }

    /// Gives a request to its session's worker.
    fn hand_over(&mut self, Waiting { id, work, reply }: Waiting) {
        let busy = match self.table.get_mut(&id) {
            None => return reply.err(&RpcError::unknown_session(id.as_str())),
            Some(Entry::Failed) if matches!(work, Work::Close) => {
                self.table.remove(&id);
                return reply.ok(&json!({}));
            }
            Some(Entry::Failed) => {
                return reply.err(&RpcError::internal("Internal error: this session failed; load it again"));
            }
            Some(Entry::Ending(_, waiting)) => return waiting.push(Waiting { id, work, reply }),
            Some(Entry::Open(busy)) => busy.clone(),
        };
        let closing = matches!(work, Work::Close);
        if closing {
            self.cancel(&id, None);
        }
        match busy.accept(Item::new(work, Some(reply))) {
            Ok(()) if closing => drop(self.table.insert(id, Entry::Ending(busy, Vec::new()))),
            Ok(()) => {}
            Err((refused, Item { work, reply: Some(reply), .. })) => {
                self.refuse(refused, busy, Waiting { id, work, reply });
            }
            Err((_, Item { reply: None, .. })) => {}
        }
    }

    fn refuse(&mut self, refused: Refused, busy: Arc<Busy>, request: Waiting) {
        let id = &request.id;
        let why = match (refused, &request.work) {
            (Refused::Ending, _) => {
                self.table.insert(id.clone(), Entry::Ending(busy, vec![request]));
                return;
            }
            (Refused::Full, _) => format!("session {id} has too much waiting"),
            (Refused::Busy, Work::Prompt(_)) => format!("session {id} already has an active turn"),
            (Refused::Busy, _) => format!("session {id} has an active turn: retry after the turn"),
        };
        let error = RpcError::invalid_request(why).with_data(json!({ "sessionId": id }));
        request.reply.err(&error);
    }

    /// Ends every prompt of a session accepted before, or the one of that request id, also those that wait for an
    /// opening or a close. What had not begun is answered here and now. False: no such session.
    fn cancel(&mut self, session: &SessionId, id: Option<&Id>) -> bool {
        let unbegun: Vec<(Work, Reply)> = match self.table.get_mut(session) {
            None => return false,
            Some(Entry::Failed) => return true,
            Some(Entry::Open(busy)) => unbegun(busy, id),
            Some(Entry::Ending(busy, waiting)) => {
                let meant = |w: &mut Waiting| {
                    matches!(w.work, Work::Prompt(_)) && id.is_none_or(|id| id == w.reply.id())
                };
                let mut all = unbegun(busy, id);
                all.extend(waiting.extract_if(.., meant).map(|w| (w.work, w.reply)));
                all
            }
        };
        for (work, reply) in unbegun {
            reply.declined(declined(&work));
        }
        true
    }

    fn end_all(&mut self, how: Ending) {
        if self.ending == Ending::Now {
            return;
        }
        let begun = self.ending != Ending::No;
        self.ending = how;
        if how == Ending::WhenDone {
            self.server.context.outbox.nobody_answers(); // here, not in the reader: behind the answers it has read
        }
        for session in self.sessions() {
            if how == Ending::Now {
                self.cancel(&session, None);
            }
            if !begun {
                self.end(&session);
            }
        }
    }

    /// The session ends when all that was accepted is done.
    fn end(&self, session: &SessionId) {
        if let Some(Entry::Open(busy)) = self.table.get(session) {
            drop(busy.accept(Item::new(Work::End, None)));
        }
    }

    fn ended(&mut self, Ended { id, how, last }: Ended) {
        let was = self.table.remove(&id);
        if how == HowEnded::NotOpened && self.server.script.as_ref() == Some(&id) {
            self.script = Some(id.clone()); // the next one may bear it
        }
        if how == HowEnded::Failed {
            self.table.insert(id, Entry::Failed);
        }
        for (reply, answer) in last {
            match answer {
                Ok(()) => reply.ok(&json!({})),
                Err(error) => reply.err(&error),
            }
        }
        if let Some(Entry::Ending(_, waiting)) = was {
            waiting.into_iter().for_each(|request| self.hand_over(request));
        }
    }

    fn sessions(&self) -> Vec<SessionId> {
        self.table.keys().cloned().collect()
    }
}

fn unbegun(busy: &Busy, id: Option<&Id>) -> Vec<(Work, Reply)> {
    busy.cancel(id).into_iter().filter_map(|item| Some((item.work, item.reply?))).collect()
}
