//! The session table and the handshake. It routes, and never waits but for its own inbox.
use crate::server::errands::{Errand, Errands};
use crate::server::inbox::Event;
use crate::server::requests::{Client, Incoming, Request};
use crate::server::waiting::{Queue, Waiting, too_much};
use crate::server::{Server, handshake};
use crate::session::busy::{Busy, Item, Refused, Work, declined, is_open};
use crate::session::{self, ClientCapabilities, Ended, HowEnded, OpenParams, Opening, Origin, ids, worker};
use crate::text::clean;
use crate::wire::acp::SessionId;
use crate::wire::jsonrpc::{Id, RpcError};
use crate::wire::outbox::{AtDeadline, Reply};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// The one thread that knows which sessions there are.
pub struct Dispatcher {
    server: Arc<Server>,
    table: HashMap<SessionId, Entry>,
    /// Other names of sessions in the table: a session that continues a saved one goes by that one's, too.
    aliases: HashMap<SessionId, SessionId>,
    errands: Errands,
    /// What `initialize` told; `None` before it.
    client: Option<ClientCapabilities>,
    /// What `--script` calls the first session, until one bears it.
    script: Option<SessionId>,
    /// What `--resume` wants the first session to continue, until one was opened with it.
    resume: Option<Option<String>>,
    /// The session that was given what only the first one gets, until it is known whether it was opened.
    first: Option<SessionId>,
    /// The session that `--resume` continues, until its name is known.
    resuming: Option<Resuming>,
    ending: Ending,
}

/// What names no session in the table may be meant for this one, and waits.
struct Resuming {
    id: SessionId,
    waiting: Queue,
}

enum Entry {
    /// Opening and live look alike from here: the opening is the first item of the inbox.
    Open(Arc<Busy>),
    /// Closing, or failed and not yet gone: requests wait in order for the worker's end. Without a worker: its file is
    /// being deleted.
    Ending(Option<Arc<Busy>>, Queue),
    /// A panic ended it; kept until it is closed.
    Failed,
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
    pub fn new(server: Arc<Server>, errands: Errands) -> Self {
        Self {
            table: HashMap::new(),
            aliases: HashMap::new(),
            errands,
            client: None,
            script: server.script.clone(),
            resume: server.resume.clone().filter(|_| server.context.process.save_sessions),
            first: None,
            resuming: None,
            ending: Ending::No,
            server,
        }
    }

    /// Until the end has begun and every worker is gone.
    pub fn run(mut self) {
        while self.ending == Ending::No || self.table.values().any(|entry| !matches!(entry, Entry::Failed)) {
            match self.server.inbox.next() {
                Event::Line(incoming, _) => self.line(incoming),
                Event::Session(event) => self.session(event),
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
                self.cancel_held(|held| held.is_cancelled_by(Some(&id)));
            }
            Incoming::Answer(id, answer) => {
                let known = id.as_ref().is_some_and(|id| self.server.context.outbox.answer(id, answer));
                if !known {
                    let id = id.map_or("null".into(), |id| id.to_string());
                    log::info!("[acp] an answer to {}, which is no open request of ours", clean(&id));
                }
            }
            Incoming::Bad { id, error } => match id.and_then(|id| self.open(id, "?", AtDeadline::Error)) {
                Some(reply) => reply.err(&error),
                None => self.server.context.outbox.reply_to_nobody(&error),
            },
            Incoming::Ignored => {}
        }
    }

    fn session(&mut self, event: session::Event) {
        match event {
            session::Event::Named { id, name } => self.named(&id, name),
            session::Event::Unsynced(unsynced, log) => drop(self.errands.give(Errand::Sync(unsynced, log))),
            session::Event::Ended(ended) => self.ended(ended),
        }
    }

    fn named(&mut self, id: &SessionId, name: SessionId) {
        if name != *id {
            self.aliases.insert(name, id.clone());
        }
        self.resumed(id);
    }

    /// What may have been meant for the session that `--resume` continues goes on: it has its name, or never will.
    fn resumed(&mut self, id: &SessionId) {
        if let Some(resuming) = self.resuming.take_if(|resuming| resuming.id == *id) {
            self.go_on(resuming.waiting);
            if self.ending != Ending::No {
                self.end(id);
            }
        }
    }

    /// What has waited is done now, in order. At the end of input that was the last of it.
    fn go_on(&mut self, waiting: impl IntoIterator<Item = Waiting>) {
        let mut ids = Vec::new();
        for request in waiting {
            ids.push(request.id.clone());
            self.hand_over(request);
        }
        if self.ending != Ending::No {
            ids.iter().for_each(|id| self.end(&self.key(id)));
        }
    }

    /// The name under which a session stands in the table.
    fn key(&self, id: &SessionId) -> SessionId {
        self.aliases.get(id).unwrap_or(id).clone()
    }

    /// The name under which a session of the table is saved.
    fn saved_name(&self, key: &SessionId) -> SessionId {
        let own = self.aliases.iter().find(|(_, of)| *of == key);
        own.map_or(key, |(name, _)| name).clone()
    }

    fn open(&self, id: Id, method: &str, at_deadline: AtDeadline) -> Option<Reply> {
        self.server.context.outbox.open(id, method, at_deadline)
    }

    fn request(&mut self, id: &Id, method: &str, request: Result<Request, RpcError>) {
        let at_deadline = match &request {
            Ok(Request::Prompt(..)) => AtDeadline::Cancelled,
            _ => AtDeadline::Error,
        };
        log::debug!("[acp] {} {}", clean(method), clean(&id.to_string()));
        let Some(reply) = self.open(id.clone(), method, at_deadline) else {
            let error = RpcError::invalid_request("Invalid request: a request with this id is still open");
            return self
                .server
                .context
                .outbox
                .reply_to_nobody(&error.with_data(json!({ "id": Value::from(id) })));
        };
        let request = request.and_then(|request| self.known(method, request));
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

    /// Without saved sessions there are no methods for them.
    fn known(&self, method: &str, request: Request) -> Result<Request, RpcError> {
        match request {
            Request::Load { .. } | Request::List { .. } | Request::Delete(_)
                if !self.server.context.process.save_sessions =>
            {
                Err(RpcError::method_not_found(method))
            }
            request => Ok(request),
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
            Request::Logout => drop(self.errands.give(Errand::Logout(reply))),
            Request::NewSession(params) => self.new_session(params, reply),
            Request::Load { id, params, replay } => {
                let work = Work::Open(self.opening(params, Origin::Saved { replay }));
                self.hand_over(Waiting { id, work, reply });
            }
            Request::List { cwd, cursor } => drop(self.errands.give(Errand::List { cwd, cursor, reply })),
            Request::Delete(id) => self.hand_over(Waiting { id, work: Work::Delete, reply }),
            Request::Prompt(id, prompt) => self.hand_over(Waiting { id, work: Work::Prompt(prompt), reply }),
            Request::Change(id, change) => {
                self.hand_over(Waiting { id, work: Work::Change(change), reply });
            }
            Request::ListModels(id) => self.hand_over(Waiting { id, work: Work::ListModels, reply }),
            Request::Close(id) => self.hand_over(Waiting { id, work: Work::Close, reply }),
            Request::Cancel(id) if self.cancel(&id, None) => reply.ok(&()),
            Request::Cancel(id) => {
                let error = RpcError::invalid_request(format!("there is no session {id}"));
                reply.err(&error.about_session(id.as_str()));
            }
        }
    }

    fn opening(&self, params: OpenParams, origin: Origin) -> Opening {
        Opening { params, client: self.client.unwrap_or_default(), origin }
    }

    fn new_session(&mut self, params: OpenParams, reply: Reply) {
        let free = |id: &SessionId| !self.table.contains_key(id) && !self.aliases.contains_key(id);
        let named = self.script.take_if(|id| free(id));
        let origin = match self.resume.take() {
            Some(wanted) => Origin::Resume(wanted),
            None => Origin::New { named: named.is_some() },
        };
        let resumes = matches!(origin, Origin::Resume(_));
        let is_first = named.is_some() || resumes;
        let id = named.unwrap_or_else(|| ids::new_session_id(free));
        if is_first {
            self.first = Some(id.clone());
        }
        self.start(&id, self.opening(params, origin), reply);
        if resumes && self.table.contains_key(&id) {
            self.resuming = Some(Resuming { id, waiting: Queue::default() });
        }
    }

    /// Begins a session with its opening.
    fn start(&mut self, id: &SessionId, opening: Opening, reply: Reply) {
        let limit = self.server.context.process.sessions;
        if self.table.len() >= limit {
            self.give_back(id);
            return reply.err(&RpcError::invalid_request(format!("too many sessions: {limit} are live")));
        }
        let opening = Item::new(Work::Open(opening), Some(reply));
        let context = &self.server.context;
        let busy = Arc::new(Busy::new(id.clone(), context.gate.clone(), context.process.queue, opening));
        if let Err(error) = worker::spawn(busy.clone(), context.clone()) {
            let error = RpcError::internal(format!("Internal error: no thread for a session: {error}"));
            busy.take().into_iter().filter_map(|item| item.reply).for_each(|reply| reply.err(&error));
            return self.give_back(id);
        }
        self.table.insert(id.clone(), Entry::Open(busy));
    }

    /// What only the first session gets, another may have: this one was not opened.
    fn give_back(&mut self, id: &SessionId) {
        if self.first.take_if(|first| first == id).is_some() {
            self.script.clone_from(&self.server.script);
            self.resume = self.server.resume.clone().filter(|_| self.server.context.process.save_sessions);
        }
    }

    /// Gives a request to its session, in whatever state that is.
    fn hand_over(&mut self, request: Waiting) {
        let key = self.key(&request.id);
        if let Some(resuming) = self.resuming.as_mut().filter(|_| !self.table.contains_key(&key)) {
            return resuming.waiting.push(request);
        }
        match self.table.get_mut(&key) {
            Some(Entry::Ending(_, waiting)) => waiting.push(request),
            Some(Entry::Open(busy)) => {
                let busy = busy.clone();
                self.give_worker(key, busy, request);
            }
            Some(Entry::Failed) | None => self.without_worker(&key, request),
        }
    }

    fn give_worker(&mut self, key: SessionId, busy: Arc<Busy>, request: Waiting) {
        if matches!(request.work, Work::Delete) {
            return self.close_to_delete(key, busy, request);
        }
        let Waiting { id, work, reply } = request;
        let _scope = busy.log_scope();
        let closing = matches!(work, Work::Close);
        if closing {
            self.cancel(&id, None);
        }
        match busy.accept(Item::new(work, Some(reply))) {
            Ok(()) if closing => drop(self.table.insert(key, Entry::Ending(Some(busy), Queue::default()))),
            Ok(()) => {}
            Err((refused, Item { work, reply: Some(reply), .. })) => {
                self.refuse(refused, key, busy, Waiting { id, work, reply });
            }
            Err((_, Item { reply: None, .. })) => {}
        }
    }

    /// A request for a session that failed, or that is not in the table at all.
    fn without_worker(&mut self, key: &SessionId, Waiting { id, work, reply }: Waiting) {
        let failed = self.table.contains_key(key);
        match work {
            Work::Open(opening) => {
                if failed {
                    self.forget(key); // it is closed by being loaded again
                }
                self.start(&id, opening, reply);
            }
            Work::Delete => {
                let saved = self.saved_name(key);
                self.forget(key);
                if self.errands.give(Errand::Delete(saved.clone(), reply)) {
                    self.table.insert(saved, Entry::Ending(None, Queue::default()));
                }
            }
            Work::Close if failed => {
                self.forget(key);
                reply.ok(&json!({}));
            }
            _ if failed => {
                reply.err(&RpcError::internal("Internal error: this session failed; load it again"));
            }
            _ => reply.err(&RpcError::unknown_session(id.as_str())),
        }
    }

    /// A live session is closed first; whoever asks for it meanwhile waits behind the delete.
    fn close_to_delete(&mut self, key: SessionId, busy: Arc<Busy>, delete: Waiting) {
        self.cancel(&key, None);
        drop(busy.accept(Item::new(Work::Close, None))); // refused only if it is ending anyway
        self.table.insert(key, Entry::Ending(Some(busy), delete.into()));
    }

    fn refuse(&mut self, refused: Refused, key: SessionId, busy: Arc<Busy>, request: Waiting) {
        let id = &request.id;
        let why = match (refused, &request.work) {
            (Refused::Ending, _) => {
                self.table.insert(key, Entry::Ending(Some(busy), request.into()));
                return;
            }
            (Refused::Live, _) => return request.reply.err(&is_open(id)),
            (Refused::Full, _) => return request.reply.err(&too_much(id)),
            (Refused::Busy, Work::Prompt(_)) => format!("session {id} already has an active turn"),
            (Refused::Busy, _) => format!("session {id} has an active turn: retry after the turn"),
        };
        let error = RpcError::invalid_request(why).about_session(id.as_str());
        request.reply.err(&error);
    }

    /// Ends every prompt of a session accepted before, or the one of that request id, also those that wait for an
    /// opening or a close. What had not begun is answered here and now. False: no such session.
    fn cancel(&mut self, session: &SessionId, id: Option<&Id>) -> bool {
        let key = self.key(session);
        let busy = match self.table.get_mut(&key) {
            None => return self.cancel_held(|held| held.id == *session && held.is_cancelled_by(id)),
            Some(Entry::Failed) => return true,
            Some(Entry::Open(busy)) => Some(busy),
            Some(Entry::Ending(busy, waiting)) => {
                waiting.cancel(|waiting| waiting.is_cancelled_by(id));
                busy.as_mut()
            }
        };
        for Item { work, reply, .. } in busy.map(|busy| busy.cancel(id)).into_iter().flatten() {
            reply.into_iter().for_each(|reply| reply.declined(declined(&work)));
        }
        true
    }

    /// The same for what waits for the name of the session that `--resume` continues. False: nothing is meant.
    fn cancel_held(&mut self, meant: impl Fn(&Waiting) -> bool) -> bool {
        self.resuming.as_mut().is_some_and(|resuming| resuming.waiting.cancel(meant))
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
        if how == Ending::Now {
            self.cancel_held(|held| held.is_cancelled_by(None));
        }
    }

    /// The session ends when all that was accepted is done. What waits for its name is still to come.
    fn end(&self, session: &SessionId) {
        if self.resuming.as_ref().is_some_and(|resuming| resuming.id == *session) {
            return;
        }
        if let Some(Entry::Open(busy)) = self.table.get(session) {
            drop(busy.accept(Item::new(Work::End, None)));
        }
    }

    fn ended(&mut self, Ended { id, how, last }: Ended) {
        let saved = self.saved_name(&id);
        let was = self.forget(&id);
        match how {
            HowEnded::NotOpened => self.give_back(&id),
            HowEnded::Failed | HowEnded::Closed => {
                self.first.take_if(|first| *first == id); // it was opened
                if how == HowEnded::Failed {
                    self.table.insert(id.clone(), Entry::Failed);
                }
            }
        }
        for (reply, answer) in last {
            match answer {
                Ok(()) => reply.ok(&json!({})),
                Err(error) => reply.err(&error),
            }
        }
        self.go_on(waited_for(&id, &saved, was));
        self.resumed(&id);
    }

    /// Takes a session out of the table, with all its names.
    fn forget(&mut self, key: &SessionId) -> Option<Entry> {
        self.aliases.retain(|_, name| name != key);
        self.table.remove(key)
    }

    fn sessions(&self) -> Vec<SessionId> {
        self.table.keys().cloned().collect()
    }
}

/// What was left of an entry that is gone.
fn waited_for(key: &SessionId, saved: &SessionId, was: Option<Entry>) -> Vec<Waiting> {
    let (busy, mut waiting) = match was {
        Some(Entry::Open(busy)) => (Some(busy), Queue::default()),
        Some(Entry::Ending(busy, waiting)) => (busy, waiting),
        Some(Entry::Failed) | None => return Vec::new(),
    };
    waiting.retarget_deletes(key, saved);
    let left = busy.map(|busy| busy.take()).into_iter().flatten();
    let left =
        left.filter_map(|Item { work, reply, .. }| Some(Waiting { id: key.clone(), work, reply: reply? }));
    left.chain(waiting).collect()
}
