//! What a session begins with: nothing said yet, or a conversation that was saved.
use crate::session::history::History;
use crate::session::store::{self, Head, Index, LoadError, Store};
use crate::session::{Context, Opening, Origin, ids};
use crate::settings::config::SessionSettings;
use crate::wire::acp::SessionId;
use crate::wire::jsonrpc::RpcError;
use std::io;

/// What was said so far, and the file it is in.
pub struct Conversation {
    /// The name it is saved under: mostly the one that was wanted, the saved session's where one goes on.
    pub id: SessionId,
    /// Its file.
    pub store: Store,
    /// Empty, or what was said.
    pub history: History,
    /// It goes on.
    pub is_old: bool,
}

/// A new conversation with its file, or the saved one that is asked for.
///
/// # Errors
/// `session/load` or `resume` of one that can't be had.
pub fn begin(
    id: &SessionId,
    opening: &Opening,
    settings: &SessionSettings,
    model: &str,
    context: &Context,
) -> Result<Conversation, RpcError> {
    let cwd = &opening.params.cwd;
    let head = |id: &SessionId| Head::new(id.clone(), cwd.clone(), model, settings.mode.id());
    let begun = |store: Store| Conversation {
        id: store.head.id.clone(),
        store,
        history: History::default(),
        is_old: false,
    };
    let place = match store::Place::new(cwd.clone(), &settings.sessions_dir) {
        _ if !context.process.save_sessions => return Ok(begun(Store::off(head(id)))),
        Err(error) if matches!(opening.origin, Origin::Saved { .. }) => {
            return Err(LoadError::Unreadable(error).to_rpc(id));
        }
        Err(error) => {
            log::warn!("session {id}: it is not saved: {error}");
            return Ok(begun(Store::off(head(id))));
        }
        Ok(place) => place,
    };
    let index = context.user_folder.as_ref().map(Index::of_user);
    let open = |saved: &SessionId| {
        let (store, history) = Store::open(place.clone(), head(saved), index.clone())?;
        Ok(Conversation { id: saved.clone(), store, history, is_old: true })
    };
    match &opening.origin {
        Origin::Saved { .. } => open(id).map_err(|error: LoadError| error.to_rpc(id)),
        Origin::Resume(wanted) => match resumed(wanted.as_deref(), &place, index.as_ref(), open) {
            Ok(conversation) => Ok(conversation),
            Err(why) => {
                log::warn!("--resume: {why}; this is a new session");
                Ok(begun(create(&place, head(id), index, false)))
            }
        },
        Origin::New { named } => Ok(begun(create(&place, head(id), index, *named))),
    }
}

/// The session that `--resume` means, or why it can't be had.
fn resumed(
    wanted: Option<&str>,
    place: &store::Place,
    index: Option<&Index>,
    open: impl Fn(&SessionId) -> Result<Conversation, LoadError>,
) -> Result<Conversation, String> {
    let saved = match wanted {
        Some(beginning) => place.find(beginning)?,
        None => index
            .and_then(|index| index.newest(place.cwd()))
            .ok_or("there is no saved session of this folder")?,
    };
    open(&saved).map_err(|error| match error {
        LoadError::Locked => format!("session {saved} is open already"), // here or elsewhere
        error => format!("session {saved}: {error}"),
    })
}

/// The file of a new session. One that bears its name already is set aside, if the name is the user's; where another
/// process has that open, this one is saved under a name of its own.
fn create(place: &store::Place, head: Head, index: Option<Index>, named: bool) -> Store {
    if named && let Ok(true) = set_aside(place, &head, index.as_ref()) {
        log::info!("[acp] session {}: the saved one of this name is kept under a new id", head.id);
    }
    let other = Head { id: ids::new_session_id(|_| true), ..head.clone() };
    Store::create(place.clone(), head, index.clone()).unwrap_or_else(|taken| {
        log::warn!("{taken}; the new session is {}", other.id);
        let spare = Store::off(other.clone());
        Store::create(place.clone(), other, index).unwrap_or(spare)
    })
}

fn set_aside(place: &store::Place, head: &Head, index: Option<&Index>) -> io::Result<bool> {
    store::set_aside(place, &head.id, &ids::new_session_id(|_| true), index)
}
