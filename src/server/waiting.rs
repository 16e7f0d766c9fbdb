//! Requests that wait until a session has ended, or until its name is known: in order, as many as an open one takes.
use crate::session::busy::{Work, declined, is_full};
use crate::wire::acp::SessionId;
use crate::wire::jsonrpc::{Id, RpcError};
use crate::wire::outbox::Reply;

/// A request for a session.
pub(super) struct Waiting {
    /// As it names the session.
    pub(super) id: SessionId,
    /// What is wanted.
    pub(super) work: Work,
    /// Its answer.
    pub(super) reply: Reply,
}

impl Waiting {
    /// A cancel of all prompts of its session means it, or one of the request `id`.
    pub(super) fn is_cancelled_by(&self, id: Option<&Id>) -> bool {
        self.work.is_cancelled_by(self.reply.id(), id)
    }
}

/// Those that wait, oldest first.
#[derive(Default)]
pub(super) struct Queue(Vec<Waiting>);

impl Queue {
    /// One more, if there is room.
    pub(super) fn push(&mut self, request: Waiting) {
        match is_full(self.0.iter().map(|waiting| &waiting.work), &request.work) {
            true => request.reply.err(&too_much(&request.id)),
            false => self.0.push(request),
        }
    }

    /// Takes those that are meant out and answers them. Whether there were any.
    pub(super) fn cancel(&mut self, meant: impl Fn(&Waiting) -> bool) -> bool {
        let taken: Vec<_> = self.0.extract_if(.., |waiting| meant(waiting)).collect();
        let any = !taken.is_empty();
        taken.into_iter().for_each(|Waiting { work, reply, .. }| reply.declined(declined(&work)));
        any
    }

    /// What waited by the name `key` to delete a session deletes the file it had, whatever else bears that name.
    pub(super) fn retarget_deletes(&mut self, key: &SessionId, saved: &SessionId) {
        let deletes = |request: &&mut Waiting| request.id == *key && matches!(request.work, Work::Delete);
        self.0.iter_mut().filter(deletes).for_each(|request| request.id = saved.clone());
    }
}

impl From<Waiting> for Queue {
    fn from(first: Waiting) -> Self {
        Self(vec![first])
    }
}

impl IntoIterator for Queue {
    type Item = Waiting;
    type IntoIter = std::vec::IntoIter<Waiting>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// To who asks for what there is no room for.
pub(super) fn too_much(id: &SessionId) -> RpcError {
    let error = RpcError::invalid_request(format!("session {id} has too much waiting"));
    error.about_session(id.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::outbox::{AtDeadline, Outbox};

    #[test]
    fn no_more_wait_than_an_open_session_takes() {
        let (outbox, mut queue) = (Outbox::new(1 << 20), Queue::default());
        let id = SessionId::parse("s").unwrap();
        let open = |n: u32| outbox.open(Id::Number(n.to_string().into()), "session/close", AtDeadline::Error);
        for n in 0..64 {
            queue.push(Waiting { id: id.clone(), work: Work::Close, reply: open(n).unwrap() });
        }
        assert!((0..64).all(|n| open(n).is_none()), "they wait for their answers");
        queue.push(Waiting { id, work: Work::Close, reply: open(64).unwrap() });
        assert!(open(64).is_some(), "it was refused, so its id is free");
        assert_eq!(queue.into_iter().count(), 64);
    }
}
