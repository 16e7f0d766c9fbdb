//! Everything that leaves: bounded in bytes, written by one thread. Also what is still open: one lock over lines,
//! replies and questions makes "answer all that is open, then take no more" one step.
use crate::cancel::CancelToken;
use crate::text::{clean, clean_to};
use crate::wire::acp::{PromptResponse, StopReason};
use crate::wire::jsonrpc::{self, Id, RpcError};
use crossbeam_channel::{Receiver, Sender, bounded, select};
use parking_lot::{Condvar, Mutex};
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};
use std::sync::Arc;

/// Bytes of replies that may wait unread before the reader pauses.
const REPLIES_BOUND: usize = 8 << 20;
/// Bytes the writer takes for one write, unless one line is longer.
const BATCH: usize = 64 << 10;
/// An error's message is logged up to here.
const LOGGED_CHARACTERS: usize = 1000;

/// The queue to stdout, shared by all who speak.
#[derive(Clone)]
pub struct Outbox(Arc<Shared>);

struct Shared {
    /// For what waits for room. It is small, for a cancel's answer waits behind it; a larger line passes when it
    /// is alone.
    bound: usize,
    state: Mutex<State>,
    to_write: Condvar,
    replies_fit: Condvar,
}

#[derive(Default)]
struct State {
    phase: Phase,
    lines: VecDeque<Line>,
    /// In `lines` and in the batch being written.
    bytes: usize,
    /// The replies' part of `bytes`.
    reply_bytes: usize,
    waiting: VecDeque<Waiting>,
    last_key: u64,
    /// Requests of the client without an answer yet.
    open: HashMap<Id, Open>,
    questions: HashMap<u64, Sender<Answer>>,
    nobody_answers: bool,
    reader_paused: bool,
}

/// A request of the client's.
struct Open {
    /// For the log.
    method: Box<str>,
    at_deadline: AtDeadline,
}

#[derive(Default, PartialEq, Clone, Copy)]
enum Phase {
    #[default]
    Open,
    /// Takes nothing more; what is there is still written.
    Finishing,
    /// Nobody reads any more.
    Dead,
}

struct Line {
    text: String,
    is_reply: bool,
}

/// A line that waits for room: first come, first served, so that a big one is not starved.
struct Waiting {
    key: u64,
    text: String,
    /// Dropped when the line is taken in: that wakes its sender.
    _admitted: Sender<()>,
}

/// How a request is answered when the process ends before its answer is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtDeadline {
    /// A prompt: `stopReason: cancelled`.
    Cancelled,
    /// Anything else: `-32800`.
    Error,
}

/// What the client answered to a request of ours: a result, or an error.
pub type Answer = Result<Box<RawValue>, RefusedByClient>;

/// The client answered with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedByClient;

impl State {
    fn push(&mut self, text: String, is_reply: bool) {
        self.bytes += text.len();
        self.reply_bytes += if is_reply { text.len() } else { 0 };
        self.lines.push_back(Line { text, is_reply });
    }

    fn fits(&self, len: usize, bound: usize) -> bool {
        self.bytes == 0 || self.bytes + len <= bound
    }

    fn admit(&mut self, bound: usize) {
        while self.waiting.front().is_some_and(|first| self.fits(first.text.len(), bound))
            && let Some(first) = self.waiting.pop_front()
        {
            self.push(first.text, false);
        }
    }

    fn new_key(&mut self) -> u64 {
        self.last_key += 1;
        self.last_key
    }
}

impl Outbox {
    /// `bound` in bytes: what may wait to be written before who speaks has to wait.
    pub fn new(bound: usize) -> Self {
        Self(Arc::new(Shared {
            bound,
            state: Mutex::default(),
            to_write: Condvar::new(),
            replies_fit: Condvar::new(),
        }))
    }

    /// Hands a line over; waits for room, or for a cancel. A cancelled turn passes the bound with the line that
    /// waited and with its last words: the client has then seen all the history holds.
    pub fn notify(&self, line: String, cancel: &CancelToken) {
        self.notify_soon(line, cancel);
        self.flush();
    }

    /// As [`notify`](Self::notify), but the writer may sleep on until a whole batch is there, or [`flush`](Self::flush) or
    /// anything else wakes it.
    pub fn notify_soon(&self, line: String, cancel: &CancelToken) {
        let Some((key, wake)) = self.try_notify(line) else { return };
        select! {
            recv(wake) -> _ => return, // taken in, or the outbox is closed
            recv(cancel.fired()) -> _ => {}
        }
        let mut state = self.0.state.lock();
        if let Some(at) = state.waiting.iter().position(|waiting| waiting.key == key)
            && let Some(mine) = state.waiting.remove(at)
        {
            state.push(mine.text, false);
            state.admit(self.0.bound);
            self.0.to_write.notify_one();
        }
    }

    /// Wakes the writer for what [`notify_soon`](Self::notify_soon) handed over.
    pub fn flush(&self) {
        if !self.0.state.lock().lines.is_empty() {
            self.0.to_write.notify_one();
        }
    }

    /// `None`: it is in, or nobody wants it. Else it stands in line.
    fn try_notify(&self, line: String) -> Option<(u64, Receiver<()>)> {
        let mut state = self.0.state.lock();
        if state.phase != Phase::Open {
            return None;
        }
        if state.waiting.is_empty() && state.fits(line.len(), self.0.bound) {
            state.push(line, false);
            if state.bytes >= BATCH {
                self.0.to_write.notify_one();
            }
            return None;
        }
        self.0.to_write.notify_one(); // room is made by writing
        let (admitted, wake) = bounded(0);
        let key = state.new_key();
        state.waiting.push_back(Waiting { key, text: line, _admitted: admitted });
        Some((key, wake))
    }

    /// Hands a line over only if there is room now. For what the next line of its kind restates anyway.
    pub fn notify_if_room(&self, line: String) {
        let mut state = self.0.state.lock();
        if state.phase == Phase::Open && state.waiting.is_empty() && state.fits(line.len(), self.0.bound) {
            state.push(line, false);
            self.0.to_write.notify_one();
        }
    }

    /// Asks the client, and waits for its answer or a cancel; a dropped question is withdrawn with
    /// `$/cancel_request`. `None`: cancelled, or nobody will answer.
    pub fn request(&self, method: &str, params: &impl Serialize, cancel: &CancelToken) -> Option<Answer> {
        let (answer, answered) = bounded(1);
        let key = {
            let mut state = self.0.state.lock();
            if state.phase != Phase::Open || state.nobody_answers {
                return None;
            }
            let key = state.new_key();
            state.questions.insert(key, answer);
            key
        };
        self.notify(jsonrpc::request(&question_id(key), method, params), cancel);
        select! {
            recv(answered) -> answer => return answer.ok(),
            recv(cancel.fired()) -> _ => {}
        }
        self.withdraw(key);
        None
    }

    fn withdraw(&self, key: u64) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Params {
            request_id: Id,
        }
        let line = jsonrpc::notification("$/cancel_request", &Params { request_id: question_id(key) });
        let mut state = self.0.state.lock();
        if state.questions.remove(&key).is_some() && state.phase == Phase::Open {
            state.push(line, false);
            self.0.to_write.notify_one();
        }
    }

    /// The client answered. False: no question of that id is open.
    pub fn answer(&self, id: &Id, answer: Answer) -> bool {
        let question = question_key(id).and_then(|key| self.0.state.lock().questions.remove(&key));
        question.is_some_and(|question| question.send(answer).is_ok()) // room for one, and this is the one
    }

    /// Every question, open or yet to come, counts as refused: the client's end of input was its last word.
    pub fn nobody_answers(&self) {
        let mut state = self.0.state.lock();
        state.nobody_answers = true;
        state.questions.clear();
    }

    /// Takes a request of the client's in, whose method is for the log. `None`: one with this id is still open.
    pub fn open(&self, id: Id, method: &str, at_deadline: AtDeadline) -> Option<Reply> {
        let mut state = self.0.state.lock();
        if state.open.contains_key(&id) {
            return None;
        }
        state.open.insert(id.clone(), Open { method: method.into(), at_deadline });
        Some(Reply { outbox: self.clone(), id, answered: false })
    }

    /// An answer to what has no usable id.
    pub fn reply_to_nobody(&self, error: &RpcError) {
        log_error("?", None, error);
        let mut state = self.0.state.lock();
        if state.phase == Phase::Open {
            state.push(jsonrpc::failure(None, error), true);
            self.0.to_write.notify_one();
        }
    }

    /// What was answered; `None`: it had been already.
    fn reply(&self, id: &Id, line: String, then: Vec<String>) -> Option<Open> {
        let mut state = self.0.state.lock();
        let open = state.open.remove(id)?;
        if state.phase == Phase::Open {
            state.push(line, true);
            then.into_iter().for_each(|line| state.push(line, true));
            self.0.to_write.notify_one();
        }
        Some(open)
    }

    /// Answers what is open and takes nothing more: no word of a turn can follow its answer.
    pub fn finish(&self) {
        let mut state = self.0.state.lock();
        if state.phase != Phase::Open {
            return;
        }
        state.phase = Phase::Finishing;
        let open = std::mem::take(&mut state.open);
        for (id, Open { at_deadline, .. }) in &open {
            state.push(at_deadline.line(id), true);
        }
        self.release(&mut state);
        drop(state);
        for (id, Open { method, .. }) in open.iter().filter(|(_, open)| open.at_deadline == AtDeadline::Error)
        {
            log_error(method, Some(id), &RpcError::cancelled());
        }
    }

    /// stdout is dead: the rest is dropped, and all who wait wake.
    pub fn dead(&self) {
        let mut state = self.0.state.lock();
        state.phase = Phase::Dead;
        state.lines.clear();
        self.release(&mut state);
    }

    fn release(&self, state: &mut State) {
        state.waiting.clear();
        state.questions.clear();
        self.0.to_write.notify_one();
        self.0.replies_fit.notify_all();
    }

    /// The reader's pause: a client that asks and never reads the answers is not read on. `paused` is called when it
    /// begins, under the outbox's lock.
    pub fn wait_until_replies_fit(&self, paused: impl Fn()) {
        let mut state = self.0.state.lock();
        while state.reply_bytes > REPLIES_BOUND && state.phase == Phase::Open {
            state.reader_paused = true;
            paused();
            self.0.replies_fit.wait(&mut state);
        }
        state.reader_paused = false;
    }

    /// Whether the reader is in its pause, and so does not see the end of input.
    pub fn reader_paused(&self) -> bool {
        self.0.state.lock().reader_paused
    }

    /// The writer's loop: one write for all that is there, up to 64 KiB.
    ///
    /// # Errors
    /// Nobody reads any more.
    pub fn write_all(&self, out: &mut impl Write) -> io::Result<()> {
        let mut batch = Vec::new();
        while let Some(taken) = self.take_batch(&mut batch) {
            out.write_all(&batch)?;
            self.written(&taken);
            batch.clear();
            batch.shrink_to(BATCH);
        }
        Ok(())
    }

    fn take_batch(&self, batch: &mut Vec<u8>) -> Option<Taken> {
        let mut taken = Taken::default();
        let mut state = self.0.state.lock();
        while state.lines.is_empty() {
            if state.phase != Phase::Open {
                return None;
            }
            self.0.to_write.wait(&mut state);
        }
        while batch.len() < BATCH
            && let Some(line) = state.lines.pop_front()
        {
            taken.bytes += line.text.len();
            taken.reply_bytes += if line.is_reply { line.text.len() } else { 0 };
            batch.extend_from_slice(line.text.as_bytes());
            batch.push(b'\n');
        }
        Some(taken)
    }

    fn written(&self, taken: &Taken) {
        let mut state = self.0.state.lock();
        state.bytes -= taken.bytes;
        state.reply_bytes -= taken.reply_bytes;
        state.admit(self.0.bound);
        if state.reply_bytes <= REPLIES_BOUND {
            self.0.replies_fit.notify_all();
        }
    }
}

/// What a batch frees once it is written.
#[derive(Default)]
struct Taken {
    bytes: usize,
    reply_bytes: usize,
}

impl AtDeadline {
    fn line(self, id: &Id) -> String {
        match self {
            Self::Cancelled => {
                jsonrpc::success(id, &PromptResponse { stop_reason: StopReason::Cancelled, usage: None })
            }
            Self::Error => jsonrpc::failure(Some(id), &RpcError::cancelled()),
        }
    }
}

const QUESTION: &str = "srv_";

fn question_id(key: u64) -> Id {
    Id::Text(format!("{QUESTION}{key}").into())
}

fn question_key(id: &Id) -> Option<u64> {
    match id {
        Id::Text(text) => text.strip_prefix(QUESTION)?.parse().ok(),
        Id::Number(_) => None,
    }
}

/// The one answer of one request: consumed by giving it; dropped without, it answers `-32603` itself.
#[must_use = "a request waits for its answer"]
pub struct Reply {
    outbox: Outbox,
    id: Id,
    /// Once it is, the client may use the id again: whoever has it then is none of ours.
    answered: bool,
}

impl Reply {
    /// The request's.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// Answers with a result.
    pub fn ok(self, result: &impl Serialize) {
        self.ok_then(result, Vec::new());
    }

    /// Answers with a result, and `then` says what may follow only that.
    pub fn ok_then(mut self, result: &impl Serialize, then: Vec<String>) {
        let line = jsonrpc::success(&self.id, result);
        drop(self.answer(line, then));
    }

    /// Answers with an error.
    pub fn err(mut self, error: &RpcError) {
        self.fail(error);
    }

    /// Answers as a request that was cancelled before it began.
    pub fn declined(mut self, how: AtDeadline) {
        match how {
            AtDeadline::Cancelled => drop(self.answer(how.line(&self.id), Vec::new())),
            AtDeadline::Error => self.fail(&RpcError::cancelled()),
        }
    }

    fn fail(&mut self, error: &RpcError) {
        if let Some(open) = self.answer(jsonrpc::failure(Some(&self.id), error), Vec::new()) {
            log_error(&open.method, Some(&self.id), error);
        }
    }

    fn answer(&mut self, line: String, then: Vec<String>) -> Option<Open> {
        self.answered = true;
        self.outbox.reply(&self.id, line, then)
    }
}

/// Many clients show little of an error; the log has each that was answered.
fn log_error(method: &str, id: Option<&Id>, error: &RpcError) {
    let id = id.map_or_else(|| "null".to_owned(), Id::to_string);
    let message = clean_to(&error.message, LOGGED_CHARACTERS);
    log::info!("[acp] {} {}: {} {message}", clean(method), clean(&id), error.code);
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.answered {
            self.fail(&RpcError::internal("Internal error: the request was dropped"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::CancelSource;

    fn id(n: u32) -> Id {
        Id::Number(n.to_string().into())
    }

    fn written(outbox: &Outbox) -> String {
        outbox.finish();
        let mut out = Vec::new();
        outbox.write_all(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_dropped_reply_answers_itself_once() {
        let outbox = Outbox::new(1000);
        drop(outbox.open(id(1), "m", AtDeadline::Error).unwrap());
        outbox.open(id(2), "m", AtDeadline::Error).unwrap().ok(&());
        let lines = written(&outbox);
        assert_eq!(lines.matches("-32603").count(), 1, "{lines}");
        assert!(lines.ends_with("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":null}\n"), "{lines}");
    }

    #[test]
    fn an_id_in_flight_is_not_taken_twice_but_again_later() {
        let outbox = Outbox::new(1000);
        let reply = outbox.open(id(1), "m", AtDeadline::Error).unwrap();
        assert!(outbox.open(id(1), "m", AtDeadline::Error).is_none());
        assert!(outbox.open(Id::Text("1".into()), "m", AtDeadline::Error).is_some());
        reply.ok(&());
        assert!(outbox.open(id(1), "m", AtDeadline::Error).is_some());
    }

    #[test]
    fn a_reply_that_was_given_leaves_the_next_request_of_its_id_alone() {
        let outbox = Outbox::new(1000);
        let mut first = outbox.open(id(1), "m", AtDeadline::Error).unwrap();
        drop(first.answer(jsonrpc::success(&id(1), &1), Vec::new()));
        let second = outbox.open(id(1), "m", AtDeadline::Error).unwrap();
        drop(first);
        second.ok(&2);
        let lines = written(&outbox);
        assert!(lines.ends_with("\"result\":1}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":2}\n"), "{lines}");
    }

    #[test]
    fn what_is_open_at_the_deadline_is_answered_and_nothing_follows() {
        let outbox = Outbox::new(1000);
        let prompt = outbox.open(id(1), "m", AtDeadline::Cancelled).unwrap();
        let lines = written(&outbox);
        assert_eq!(lines, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"stopReason\":\"cancelled\"}}\n");
        prompt.ok(&());
        outbox.notify("late".into(), &CancelSource::new().token());
        assert_eq!(written(&outbox), "");
    }

    #[test]
    fn who_waits_for_room_goes_past_the_bound_on_cancel() {
        let outbox = Outbox::new(10);
        let source = CancelSource::new();
        outbox.notify("x".repeat(100), &source.token()); // alone: passes
        std::thread::scope(|scope| {
            let token = source.token();
            let waits = outbox.clone();
            let waiter = scope.spawn(move || waits.notify("waited".into(), &token));
            source.cancel();
            waiter.join().unwrap();
        });
        assert!(written(&outbox).ends_with("waited\n"));
    }

    #[test]
    fn a_question_ends_with_its_answer_with_a_cancel_or_with_the_client() {
        let outbox = Outbox::new(1000);
        let source = CancelSource::new();
        let ask = |token| outbox.request("m", &(), &token);
        let yes = || Ok(RawValue::from_string("1".into()).unwrap());
        let wait_for_question = || {
            while outbox.0.state.lock().questions.is_empty() {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| ask(source.token()));
            wait_for_question();
            assert!(!outbox.answer(&Id::Text("srv_99".into()), yes()));
            assert!(outbox.answer(&Id::Text("srv_1".into()), yes()));
            assert!(asked.join().unwrap().is_some_and(|a| a.is_ok()));
            let asked = scope.spawn(|| ask(source.token()));
            wait_for_question();
            source.cancel();
            assert!(asked.join().unwrap().is_none());
        });
        assert!(!outbox.answer(&Id::Text("srv_2".into()), yes()), "late");
        outbox.nobody_answers();
        assert!(ask(CancelSource::new().token()).is_none());
        assert!(written(&outbox).contains(r#""method":"$/cancel_request","params":{"requestId":"srv_2"}"#));
    }
}
