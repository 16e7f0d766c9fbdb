//! Disk work that the dispatcher does not wait for and that belongs to no session: one thread, in order.
use crate::session::Context;
use crate::settings::login_file;
use crate::wire::jsonrpc::RpcError;
use crate::wire::outbox::Reply;
use crossbeam_channel::{Receiver, Sender, bounded};
use serde_json::json;

/// Errands that may wait.
const BOUND: usize = 64;

/// What is to be done.
pub enum Errand {
    /// `logout`: the login file is removed.
    Logout(Reply),
}

/// Where errands are given. The thread ends with the last of them once this is dropped.
pub struct Errands(Sender<Errand>);

impl Errands {
    /// With the thread's end.
    pub fn new() -> (Self, Receiver<Errand>) {
        let (give, given) = bounded(BOUND);
        (Self(give), given)
    }

    /// Never waits: what there is no room for is refused.
    pub fn give(&self, errand: Errand) {
        if let Err(refused) = self.0.try_send(errand) {
            let Errand::Logout(reply) = refused.into_inner();
            reply.err(&RpcError::invalid_request("too much is waiting for the disk: try again"));
        }
    }
}

/// The errands thread's body.
pub fn run(given: &Receiver<Errand>, context: &Context) {
    for errand in given {
        match errand {
            Errand::Logout(reply) => logout(context, reply),
        }
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
