//! Whose a line is: the thread that logs it knows.
use super::{Entry, Line, Log};
use crate::wire::acp::SessionId;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Lines that are kept of a session that is being opened; what more it says is on stderr alone.
const HELD: usize = 100;

/// Where the lines of one session go besides stderr: to the log file of its folder.
#[derive(Debug)]
pub struct SessionLog {
    pub(super) id: SessionId,
    pub(super) cwd: PathBuf,
    /// It could not be written once, and the user knows.
    pub(super) off: AtomicBool,
}

impl SessionLog {
    /// Of the session `id` that works in `cwd`. Touches no disk.
    pub fn new(id: SessionId, cwd: PathBuf) -> Arc<Self> {
        Arc::new(Self { id, cwd, off: AtomicBool::new(false) })
    }
}

enum Whose {
    /// The process's: stderr alone.
    Process,
    /// A session's that may never come to be: a copy waits for [`opened`].
    Opening(Vec<Line>),
    Session(Arc<SessionLog>),
}

thread_local! {
    static WHOSE: RefCell<Whose> = const { RefCell::new(Whose::Process) };
}

/// While it lives, what its thread logs is a session's; dropped, it is whosever it was before.
#[must_use = "dropped at once it changes nothing"]
pub struct Scope {
    before: Whose,
    _of_this_thread: PhantomData<*const ()>,
}

impl Scope {
    fn enter(whose: Whose) -> Self {
        Self { before: WHOSE.replace(whose), _of_this_thread: PhantomData }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        WHOSE.set(std::mem::replace(&mut self.before, Whose::Process));
    }
}

/// What the thread logs is this session's.
pub fn of(session: Arc<SessionLog>) -> Scope {
    Scope::enter(Whose::Session(session))
}

/// What the thread logs is of a session that is being opened: its folder hears of it if that succeeds.
pub fn of_opening() -> Scope {
    Scope::enter(Whose::Opening(Vec::new()))
}

/// It is opened: what was logged on the way goes to its folder, and so does all that follows within the scope.
pub fn opened(session: &Arc<SessionLog>) {
    let before = WHOSE.replace(Whose::Session(session.clone()));
    if let (Whose::Opening(held), Some(log)) = (before, Log::installed()) {
        held.into_iter().for_each(|line| log.send(Entry::Held(Box::new(line), session.clone())));
    }
}

/// The session whose lines this thread logs, if there is one and it is open.
pub fn current() -> Option<Arc<SessionLog>> {
    WHOSE.with_borrow(|whose| match whose {
        Whose::Session(session) => Some(session.clone()),
        Whose::Process | Whose::Opening(_) => None,
    })
}

/// For a helper thread: what `body` logs there is of the session that starts it here.
pub fn carried<T>(body: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let session = current();
    move || {
        let _scope = session.map(of);
        body()
    }
}

/// The session a line of this thread is of. A copy is kept where it is being opened.
pub(super) fn session_of(line: &Line) -> Option<Arc<SessionLog>> {
    let note = |whose: &RefCell<Whose>| match &mut *whose.borrow_mut() {
        Whose::Process => None,
        Whose::Opening(held) => {
            if held.len() < HELD {
                held.push(line.clone());
            }
            None
        }
        Whose::Session(session) => Some(session.clone()),
    };
    WHOSE.try_with(note).ok().flatten() // a thread on its way out is nobody's
}

#[cfg(test)]
mod tests {
    use super::*;
    use log::Level;

    fn session(id: &str) -> Arc<SessionLog> {
        SessionLog::new(SessionId::parse(id).unwrap(), "/nowhere".into())
    }

    fn logged() -> Option<String> {
        session_of(&Line::new(Level::Info, &"something")).map(|session| session.id.to_string())
    }

    #[test]
    fn a_line_is_of_the_session_whose_scope_it_is_in() {
        assert_eq!(logged(), None);
        let one = of(session("one"));
        {
            let _two = of(session("two"));
            assert_eq!(logged().as_deref(), Some("two"));
        }
        assert_eq!(logged().as_deref(), Some("one"));
        drop(one);
        assert_eq!(logged(), None);
    }

    #[test]
    fn a_helper_takes_the_session_along() {
        let run = |body: Box<dyn FnOnce() -> Option<String> + Send>| {
            std::thread::Builder::new().spawn(body).unwrap().join().unwrap()
        };
        let _one = of(session("one"));
        assert_eq!(run(Box::new(carried(logged))).as_deref(), Some("one"));
        assert_eq!(run(Box::new(logged)), None);
    }

    #[test]
    fn a_session_has_no_lines_before_it_is_open() {
        let scope = of_opening();
        assert!(logged().is_none() && current().is_none());
        opened(&session("new"));
        assert_eq!(logged().as_deref(), Some("new"));
        drop(scope);
        assert_eq!(logged(), None);
    }

    #[test]
    fn what_is_kept_of_an_opening_is_bounded() {
        let _scope = of_opening();
        (0..2 * HELD).for_each(|_| drop(logged()));
        WHOSE.with_borrow(|whose| assert!(matches!(whose, Whose::Opening(held) if held.len() == HELD)));
    }
}
