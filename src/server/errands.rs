//! Disk work that the dispatcher does not wait for and that belongs to no session: one thread, in order.
use crate::files::Unsynced;
use crate::logging::{self, SessionLog};
use crate::session::store::{DeleteError, Index};
use crate::session::{Context, Ended, Event, HowEnded};
use crate::settings::login_file;
use crate::wire::acp::{ListSessionsResponse, SessionId};
use crate::wire::jsonrpc::RpcError;
use crate::wire::outbox::Reply;
use crossbeam_channel::{Receiver, Sender, bounded};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Errands that may wait.
const BOUND: usize = 64;

/// What is to be done.
pub enum Errand {
    /// `logout`: the login file is removed.
    Logout(Reply),
    /// `session/list`.
    List {
        /// Only of this folder.
        cwd: Option<PathBuf>,
        /// Where the last page ended.
        cursor: Option<String>,
        /// Its answer.
        reply: Reply,
    },
    /// `session/delete` of one that is not live. The dispatcher answers it when it hears that it is done: what came
    /// for the session behind it waits for that.
    Delete(SessionId, Reply),
    /// What was written is made to last. What there is to tell is of that session.
    Sync(Unsynced, Option<Arc<SessionLog>>),
}

/// Where errands are given. The thread ends with the last of them once this is dropped.
pub struct Errands(Sender<Errand>);

impl Errands {
    /// With the thread's end.
    pub fn new() -> (Self, Receiver<Errand>) {
        let (give, given) = bounded(BOUND);
        (Self(give), given)
    }

    /// Never waits: what there is no room for is refused. Whether there was room.
    pub fn give(&self, errand: Errand) -> bool {
        let Err(refused) = self.0.try_send(errand) else { return true };
        match refused.into_inner() {
            Errand::Logout(reply) | Errand::List { reply, .. } | Errand::Delete(_, reply) => {
                reply.err(&RpcError::invalid_request("too much is waiting for the disk: try again"));
            }
            Errand::Sync(..) => {} // it is written; the next turn's makes it last
        }
        false
    }
}

/// The errands thread's body.
pub fn run(given: &Receiver<Errand>, context: &Context) {
    for errand in given {
        match errand {
            Errand::Logout(reply) => logout(context, reply),
            Errand::List { cwd, cursor, reply } => list(context, cwd.as_deref(), cursor.as_deref(), reply),
            Errand::Delete(id, reply) => delete(context, id, reply),
            Errand::Sync(unsynced, log) => {
                let _lines = log.map(logging::of);
                sync(unsynced);
            }
        }
    }
}

fn list(context: &Context, cwd: Option<&Path>, cursor: Option<&str>, reply: Reply) {
    let index = context.user_folder.as_ref().map(Index::of_user);
    let page = index.map_or_else(|| Ok(ListSessionsResponse::default()), |index| index.list(cwd, cursor));
    match page {
        Ok(page) => reply.ok(&page),
        Err(error) => reply.err(&RpcError::invalid_params("cursor", &error.to_string())),
    }
}

fn delete(context: &Context, id: SessionId, reply: Reply) {
    let index = context.user_folder.as_ref().map(Index::of_user);
    let deleted = index.map_or(Ok(()), |index| index.delete(&id)).map_err(|error| not_deleted(&id, &error));
    (context.tell)(Event::Ended(Ended { id, how: HowEnded::Closed, last: vec![(reply, deleted)] }));
}

fn not_deleted(id: &SessionId, error: &DeleteError) -> RpcError {
    let refused = match error {
        DeleteError::Locked => RpcError::invalid_request(format!("session {id} is {error}")),
        DeleteError::Failed(_) => RpcError::internal(format!("Internal error: {error}")),
    };
    refused.with_data(json!({ "sessionId": id, "error": error.to_string() }))
}

fn sync(unsynced: Unsynced) {
    if let Err(error) = unsynced.sync() {
        log::warn!("a session file may not outlast a power cut: {error}");
    }
}

/// Sessions that exist keep their settings.
fn logout(context: &Context, reply: Reply) {
    let Some(folder) = &context.user_folder else { return reply.ok(&json!({})) };
    match login_file::remove(folder) {
        Ok(()) => reply.ok(&json!({})),
        Err(error) => {
            let path = login_file::path(folder);
            let why = format!("failed to remove `{}`: {error}", path.display());
            let data = json!({ "error": why });
            reply.err(&RpcError::internal(format!("Internal error: {why}")).with_data(data));
        }
    }
}
