//! The dispatcher's inbox: one queue, so that an event sent before a reply is seen before what the client does about
//! that reply. Bounded in bytes for the reader; the program's own events always fit.
use crate::server::requests::Incoming;
use crate::session;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;

/// Bytes of lines that may wait; one longer line passes when nothing else waits.
const BOUND: usize = 1 << 20;

/// All that can happen.
pub enum Event {
    /// The client said something; with the length of its line.
    Line(Incoming, usize),
    /// The client has said its last word, and is owed all the same what it asked for (`--script`).
    LastLine,
    /// A session's worker has something to tell.
    Session(session::Event),
    /// The process ends.
    Shutdown,
}

/// The queue.
#[derive(Default)]
pub struct Inbox {
    state: Mutex<State>,
    more: Condvar,
    room: Condvar,
}

#[derive(Default)]
struct State {
    events: VecDeque<Event>,
    bytes: usize,
}

impl Inbox {
    /// The reader's side: waits for room.
    pub fn line(&self, incoming: Incoming, bytes: usize) {
        let mut state = self.state.lock();
        self.room.wait_while(&mut state, |state| state.bytes > 0 && state.bytes + bytes > BOUND);
        state.bytes += bytes;
        state.events.push_back(Event::Line(incoming, bytes));
        self.more.notify_one();
    }

    /// Everybody else's: never waits.
    pub fn event(&self, event: Event) {
        self.state.lock().events.push_back(event);
        self.more.notify_one();
    }

    /// The dispatcher's side.
    pub fn next(&self) -> Event {
        let mut state = self.state.lock();
        loop {
            match state.events.pop_front() {
                Some(event) => {
                    if let Event::Line(_, bytes) = &event {
                        state.bytes -= bytes;
                        self.room.notify_one();
                    }
                    return event;
                }
                None => self.more.wait(&mut state),
            }
        }
    }
}
