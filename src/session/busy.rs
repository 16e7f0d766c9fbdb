//! What a session has accepted, as the dispatcher and the session's worker share it: one lock over its phase, what
//! runs, and its inbox. The inbox is the list of accepted prompts, so a cancel can take one out of its middle.
use crate::cancel::CancelSource;
use crate::logging::{self, SessionLog};
use crate::session::catalog::Catalog;
use crate::session::commands::Command;
use crate::session::gate::{Gate, Place};
use crate::session::options::Change;
use crate::session::{Opening, Origin, Prompt};
use crate::wire::acp::SessionId;
use crate::wire::jsonrpc::{Id, RpcError};
use crate::wire::outbox::{AtDeadline, Reply};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;

/// Requests that may wait behind the running one.
const ITEMS: usize = 64;
/// Bytes of their prompts.
const BYTES: usize = 64 << 20;

/// A session's accepted requests.
pub struct Busy {
    /// The session's.
    pub id: SessionId,
    gate: Gate,
    queue: bool,
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    phase: Phase,
    running: Option<Running>,
    inbox: VecDeque<Item>,
    /// Once the session is open.
    catalog: Option<Arc<Catalog>>,
    /// Likewise.
    log: Option<Arc<SessionLog>>,
}

/// Where a session is in its life.
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub enum Phase {
    /// Takes requests, which wait for its opening: the first of them.
    Opening,
    /// Takes requests.
    Live,
    /// A panic; its worker is on its way out.
    Failed,
    /// Never opened, or closed.
    Closing,
}

/// The request the worker is at.
struct Running {
    id: Option<Id>,
    kind: Kind,
    cancel: CancelSource,
}

/// What the rules of who waits for whom look at.
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
enum Kind {
    /// Takes the gate.
    Turn,
    /// A prompt that is a slash command: it waits its turn, and others wait for it.
    Command(Command),
    /// May be cancelled, by its own id.
    Load,
    Other,
}

impl Kind {
    fn is_prompt(self) -> bool {
        matches!(self, Self::Turn | Self::Command(_))
    }

    /// It can be cancelled by its id; without one every prompt is meant.
    fn is_cancelled_by(self, own: Option<&Id>, wanted: Option<&Id>) -> bool {
        match wanted {
            None => self.is_prompt(),
            Some(_) => own == wanted && (self.is_prompt() || self == Self::Load),
        }
    }

    /// It asks the model.
    fn takes_gate(self) -> bool {
        matches!(self, Self::Turn | Self::Command(Command::Compact))
    }
}

/// A request for a session.
pub enum Work {
    /// `session/new`, `load` or `resume`: always the first.
    Open(Opening),
    /// `session/prompt`.
    Prompt(Prompt),
    /// `session/set_mode` and its like.
    Change(Change),
    /// `session/list_models`: waits for the opening, and for nothing else.
    ListModels,
    /// `session/close`.
    Close,
    /// `session/delete`: waits for the end of a live session; never in an inbox.
    Delete,
    /// The process ends.
    End,
}

impl Work {
    fn kind(&self) -> Kind {
        match self {
            Self::Prompt(prompt) => Command::parse(&prompt.text).map_or(Kind::Turn, Kind::Command),
            Self::Open(Opening { origin: Origin::Saved { .. }, .. }) => Kind::Load,
            _ => Kind::Other,
        }
    }

    /// Whether a cancel ends it: that of a whole session, or of the request `wanted` if its `own` id is that.
    pub fn is_cancelled_by(&self, own: &Id, wanted: Option<&Id>) -> bool {
        self.kind().is_cancelled_by(Some(own), wanted)
    }

    fn bytes(&self) -> usize {
        if let Self::Prompt(prompt) = self {
            prompt.blocks.iter().map(|block| block.get().len()).sum()
        } else {
            0
        }
    }
}

/// A request in the inbox, with the means to end it.
pub struct Item {
    /// What is wanted.
    pub work: Work,
    /// `None` only for [`Work::End`].
    pub reply: Option<Reply>,
    /// Made when it is accepted, so that a cancel one line behind its prompt can't be lost.
    pub cancel: CancelSource,
    place: Option<Place>,
}

/// Why a request was not accepted.
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub enum Refused {
    /// The session has a prompt.
    Busy,
    /// It is open, and was asked to be opened.
    Live,
    /// Too much waits.
    Full,
    /// The worker is ending: whoever asks waits for that.
    Ending,
}

impl Item {
    /// Not cancelled, without a number.
    pub fn new(work: Work, reply: Option<Reply>) -> Self {
        Self { work, reply, cancel: CancelSource::new(), place: None }
    }

    fn id(&self) -> Option<&Id> {
        self.reply.as_ref().map(Reply::id)
    }
}

impl State {
    /// Whether a prompt that is not cancelled runs or waits. `turns_only`: slash commands don't count. Nor does what
    /// stands before an opening that waits: either that is refused, or the other ends first.
    fn has_prompt(&self, turns_only: bool) -> bool {
        let counts = |kind: Kind| if turns_only { kind == Kind::Turn } else { kind.is_prompt() };
        self.running.as_ref().is_some_and(|r| counts(r.kind) && !r.cancel.is_cancelled())
            || self
                .inbox
                .iter()
                .rev()
                .take_while(|item| !matches!(item.work, Work::Open(_)))
                .any(|item| counts(item.work.kind()))
    }

    /// What takes the gate and has nothing before it gets its number.
    fn number_first(&mut self, gate: &Gate) {
        if self.running.is_none()
            && self.phase == Phase::Live
            && let Some(first) = self.inbox.front_mut().filter(|item| item.work.kind().takes_gate())
        {
            first.place.get_or_insert_with(|| gate.number());
        }
    }

    fn refuses(&self, work: &Work, queue: bool) -> Option<Refused> {
        let busy = match work {
            Work::Close | Work::End => return None,
            Work::Open(_) if self.phase == Phase::Live => return Some(Refused::Live),
            Work::Prompt(_) if work.kind() == Kind::Turn => self.has_prompt(true),
            Work::Change(_) => self.has_prompt(false),
            Work::Prompt(_) | Work::Open(_) | Work::ListModels | Work::Delete => false,
        };
        let full = is_full(self.inbox.iter().map(|item| &item.work), work);
        match () {
            () if busy && !queue => Some(Refused::Busy),
            () if full => Some(Refused::Full),
            () => None,
        }
    }
}

/// Whether there is no room for `work` behind what waits already.
pub fn is_full<'a>(waiting: impl Iterator<Item = &'a Work>, work: &Work) -> bool {
    let (count, bytes) = waiting.fold((0, 0), |(count, bytes), work| (count + 1, bytes + work.bytes()));
    count >= ITEMS || (bytes > 0 && bytes + work.bytes() > BYTES)
}

impl Busy {
    /// A session whose first request is `opening`. `queue`: prompts line up instead of being refused.
    pub fn new(id: SessionId, gate: Gate, queue: bool, opening: Item) -> Self {
        let state =
            State { phase: Phase::Opening, running: None, inbox: [opening].into(), catalog: None, log: None };
        Self { id, gate, queue, state: Mutex::new(state), wake: Condvar::new() }
    }

    /// Where the session is in its life.
    pub fn phase(&self) -> Phase {
        self.state.lock().phase
    }

    /// While it lives, what the dispatcher logs is of this session, if that is open.
    pub fn log_scope(&self) -> Option<logging::Scope> {
        self.state.lock().log.clone().map(logging::of)
    }

    /// The dispatcher's side: never waits.
    ///
    /// # Errors
    /// The request comes back with the reason.
    pub fn accept(&self, item: Item) -> Result<(), (Refused, Item)> {
        let mut state = self.state.lock();
        if matches!(state.phase, Phase::Failed | Phase::Closing) {
            return Err((Refused::Ending, item));
        }
        if let (Work::ListModels, Some(catalog)) = (&item.work, &state.catalog) {
            let catalog = catalog.clone();
            drop(state);
            item.reply.into_iter().for_each(|reply| catalog.list(reply));
            return Ok(());
        }
        if let Some(refused) = state.refuses(&item.work, self.queue) {
            return Err((refused, item));
        }
        state.inbox.push_back(item);
        state.number_first(&self.gate);
        self.wake.notify_one();
        Ok(())
    }

    /// Ends the prompts meant (`None`: every one; else the one of that id, which may be a load), and hands back what
    /// had not begun, for an answer at once. The opening answers itself: the worker begins with it, cancelled or not.
    pub fn cancel(&self, id: Option<&Id>) -> VecDeque<Item> {
        let mut state = self.state.lock();
        let meant = |item: &Item| item.work.kind().is_cancelled_by(item.id(), id);
        let is_begun = state.phase != Phase::Opening || state.running.is_some();
        let opening = if is_begun { None } else { state.inbox.pop_front() };
        if let Some(opening) = opening.as_ref().filter(|opening| meant(opening)) {
            opening.cancel.cancel(); // nobody has hooks on it yet
        }
        let running = state.running.as_ref().filter(|r| r.kind.is_cancelled_by(r.id.as_ref(), id));
        let running = running.map(|running| running.cancel.clone());
        let (out, stay): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut state.inbox).into_iter().partition(meant);
        state.inbox = opening.into_iter().chain(stay).collect();
        state.number_first(&self.gate);
        drop(state); // hooks run, and places are given back, outside the lock
        running.inspect(CancelSource::cancel);
        out
    }

    /// The worker's side: the session is open. Whoever asked for its models is answered, and who wanted to open it too.
    pub fn opened(&self, catalog: &Arc<Catalog>) {
        let mut state = self.state.lock();
        state.catalog = Some(catalog.clone());
        state.log = logging::current();
        let has_waited = |item: &Item| matches!(item.work, Work::ListModels | Work::Open(_));
        let (waited, stay): (VecDeque<_>, _) =
            std::mem::take(&mut state.inbox).into_iter().partition(has_waited);
        state.inbox = stay;
        state.number_first(&self.gate);
        drop(state);
        for Item { work, reply, .. } in waited {
            match (work, reply) {
                (Work::Open(_), Some(reply)) => reply.err(&is_open(&self.id)),
                (_, Some(reply)) => catalog.list(reply),
                (_, None) => {}
            }
        }
    }

    /// The worker's side: waits for the next request.
    pub fn next(&self) -> Job<'_> {
        let mut state = self.state.lock();
        let mut item = loop {
            match state.inbox.pop_front() {
                Some(item) => break item,
                None => self.wake.wait(&mut state),
            }
        };
        state.running =
            Some(Running { id: item.id().cloned(), kind: item.work.kind(), cancel: item.cancel.clone() });
        Job {
            busy: self,
            after: Phase::Live,
            place: item.place.take(),
            cancel: item.cancel,
            work: item.work,
            reply: item.reply,
        }
    }

    /// What was left when the worker ended, for it to be refused; not what waits for another opening.
    pub fn left(&self) -> VecDeque<Item> {
        let mut state = self.state.lock();
        let openings = state.inbox.iter().position(|item| matches!(item.work, Work::Open(_)));
        let end = openings.unwrap_or(state.inbox.len());
        state.inbox.drain(..end).collect()
    }

    /// All that is left, beginning with an opening: it is to be tried, now that the one before it has failed.
    pub fn take(&self) -> VecDeque<Item> {
        std::mem::take(&mut self.state.lock().inbox)
    }
}

/// To who wants to open a session that is open.
pub fn is_open(id: &SessionId) -> RpcError {
    let error = RpcError::invalid_request(format!("session {id} is open on this connection"));
    error.about_session(id.as_str())
}

/// What the worker is at. Its end frees the session and the gate, and numbers the next prompt; only then may the
/// reply go, also in a panic.
pub struct Job<'a> {
    busy: &'a Busy,
    /// What the session is when it ends.
    pub after: Phase,
    /// Its place at the gate, if it takes that.
    pub place: Option<Place>,
    /// Its own.
    pub cancel: CancelSource,
    /// What is wanted.
    pub work: Work,
    reply: Option<Reply>, // behind `place`: dropped after it
}

impl Job<'_> {
    /// Ends it, and gives the reply to be answered now.
    pub fn end(mut self) -> Option<Reply> {
        self.reply.take() // `self` is dropped before the caller has it
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        self.place = None; // its number goes before the next is given
        let mut state = self.busy.state.lock();
        state.running = None;
        state.phase = if std::thread::panicking() { Phase::Failed } else { self.after };
        state.number_first(&self.busy.gate);
    }
}

/// How a request that never began is answered.
pub fn declined(work: &Work) -> AtDeadline {
    if work.kind().is_prompt() { AtDeadline::Cancelled } else { AtDeadline::Error }
}
