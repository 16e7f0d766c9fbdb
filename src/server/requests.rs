//! A line of input as what it asks for: params are checked here, so that the dispatcher only routes.
use crate::mcp;
use crate::server::switching;
use crate::session::options::Change;
use crate::session::{ClientCapabilities, OpenParams, Prompt};
use crate::tools;
use crate::wire::acp::SessionId;
use crate::wire::jsonrpc::{self, Id, Message, RpcError};
use crate::wire::outbox::{Answer, RefusedByClient};
use crate::wire::params::{ParamError, array, members, object, optional, params, required, string, typed};
use serde_json::value::RawValue;
use std::path::PathBuf;

/// One line, decoded.
pub enum Incoming {
    /// To be answered.
    Request {
        /// Echoed.
        id: Id,
        /// For the error before `initialize`.
        method: String,
        /// What it asks for, or what is wrong with it. An unknown method is told before the handshake is
        /// missed, wrong params after.
        request: Result<Request, RpcError>,
    },
    /// `session/cancel`.
    Cancel(SessionId),
    /// `$/cancel_request`, for a request of the client's.
    CancelRequest(Id),
    /// To a question of ours; `None`: it names none.
    Answer(Option<Id>, Answer),
    /// Neither; answered with an error.
    Bad {
        /// If there is a usable one.
        id: Option<Id>,
        /// Why.
        error: RpcError,
    },
    /// Nothing to do.
    Ignored,
}

/// What a request asks for.
pub enum Request {
    /// `initialize`.
    Initialize(Client),
    /// `authenticate`: there is nothing to do.
    Authenticate,
    /// `logout`.
    Logout,
    /// `session/new`.
    NewSession(OpenParams),
    /// `session/load`, or `session/resume`, which tells nothing again.
    Load {
        /// Whose saved conversation.
        id: SessionId,
        /// As a new session's.
        params: OpenParams,
        /// Told to the client once more.
        replay: bool,
    },
    /// `session/list`: a page of the saved sessions.
    List {
        /// Only of this folder.
        cwd: Option<PathBuf>,
        /// Where the last page ended.
        cursor: Option<String>,
    },
    /// `session/delete`.
    Delete(SessionId),
    /// `session/prompt`.
    Prompt(SessionId, Prompt),
    /// `session/set_mode`, `session/set_config_option`, `_agentao.cn/set_model`, `session/set_model`.
    Change(SessionId, Change),
    /// `session/list_models`.
    ListModels(SessionId),
    /// `session/close`.
    Close(SessionId),
    /// `session/cancel` sent as a request.
    Cancel(SessionId),
}

/// Who the client says it is.
pub struct Client {
    /// `clientInfo.name`.
    pub name: String,
    /// `clientInfo.version`.
    pub version: String,
    /// The protocol version it asked for, in its digits.
    pub protocol: String,
    /// What it can do.
    pub capabilities: ClientCapabilities,
}

/// Decodes one line that is not blank.
pub fn decode(line: &[u8]) -> Incoming {
    match jsonrpc::parse(line) {
        Message::Request { id, method, params } => {
            let request = decode_request(&method, params);
            Incoming::Request { id, method: method.into_owned(), request }
        }
        Message::Notification { method, params } => decode_notification(&method, params),
        Message::Answer { id, outcome } => {
            Incoming::Answer(id, outcome.map(ToOwned::to_owned).map_err(|_| RefusedByClient))
        }
        Message::Bad { id, error } => Incoming::Bad { id, error },
    }
}

/// A line that was too long to be read: an answer's question has failed, anything else is told.
pub fn too_long(beginning: &[u8], limit: usize) -> Incoming {
    match jsonrpc::id_in_beginning(beginning) {
        Some(id @ Id::Text(_)) if id.to_string().starts_with("\"srv_") => {
            Incoming::Answer(Some(id), Err(RefusedByClient))
        }
        _ => Incoming::Bad {
            id: None,
            error: RpcError::invalid_request(format!("Invalid request: a line longer than {limit} bytes")),
        },
    }
}

fn decode_request(method: &str, raw: Option<&RawValue>) -> Result<Request, RpcError> {
    let decoded = match method {
        "initialize" => initialize(raw),
        "authenticate" => object_or_nothing(raw).map(|()| Request::Authenticate),
        "logout" => object_or_nothing(raw).map(|()| Request::Logout),
        "session/new" => open_params(raw, true).map(Request::NewSession),
        "session/load" => load(raw, true),
        "session/resume" => load(raw, false),
        "session/list" => list(raw),
        "session/delete" => session_id(raw).map(Request::Delete),
        "session/prompt" => prompt(raw),
        "session/set_mode" => change(raw, switching::set_mode),
        "session/set_config_option" => change(raw, switching::set_config_option),
        "_agentao.cn/set_model" | "session/set_model" => change(raw, switching::set_model),
        "session/list_models" => session_id(raw).map(Request::ListModels),
        "session/close" => session_id(raw).map(Request::Close),
        "session/cancel" => session_id(raw).map(Request::Cancel),
        _ => return Err(RpcError::method_not_found(method)),
    };
    decoded.map_err(|error| invalid(&error, raw))
}

/// `-32602`, with the `sessionId` where one was given.
fn invalid(error: &ParamError, raw: Option<&RawValue>) -> RpcError {
    let invalid = RpcError::invalid_params(&error.field, &error.why);
    let given = raw.and_then(|raw| members(raw, ["sessionId"]).ok()).and_then(|[id]| id);
    match given.and_then(|id| serde_json::from_str::<String>(id.get()).ok()) {
        Some(id) => invalid.about_session(&crate::text::clean(&id)),
        None => invalid,
    }
}

fn decode_notification(method: &str, raw: Option<&RawValue>) -> Incoming {
    match method {
        "session/cancel" => match session_id(raw) {
            Ok(id) => return Incoming::Cancel(id),
            Err(error) => log::warn!("[acp] session/cancel: {}: {}", error.field, error.why),
        },
        "$/cancel_request" => {
            let id = params(raw, ["requestId"]).ok().and_then(|[id]| Id::from_json(id?.get()));
            return id.map_or(Incoming::Ignored, Incoming::CancelRequest);
        }
        _ if method.starts_with("$/") || method.starts_with('_') => {}
        _ => log::warn!("[acp] {} came without an id: nothing is done", crate::text::clean(method)),
    }
    Incoming::Ignored
}

fn initialize(raw: Option<&RawValue>) -> Result<Request, ParamError> {
    let [version, capabilities, info] = params(raw, ["protocolVersion", "clientCapabilities", "clientInfo"])?;
    let version = required("protocolVersion", version)?.get();
    if !matches!(Id::from_json(version), Some(Id::Number(_))) {
        return Err(ParamError::new("protocolVersion", "must be an integer"));
    }
    let capabilities = required("clientCapabilities", capabilities)?;
    object("clientCapabilities", capabilities)?;
    let [name, client_version] = match optional(info) {
        Some(info) => members(info, ["name", "version"])
            .map_err(|_| ParamError::new("clientInfo", "must be an object"))?,
        None => [None, None],
    };
    let text = |raw: Option<&RawValue>| {
        let text = raw.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        text.unwrap_or_else(|| "unknown".into())
    };
    Ok(Request::Initialize(Client {
        name: text(name),
        version: text(client_version),
        protocol: version.to_string(),
        capabilities: capabilities_of(capabilities),
    }))
}

/// A member of a wrong type counts as absent.
fn capabilities_of(raw: &RawValue) -> ClientCapabilities {
    let at = |path: [&str; 2]| {
        let [outer] = members(raw, [path[0]]).ok()?;
        let [inner] = members(outer?, [path[1]]).ok()?;
        inner
    };
    let is_true = |path| at(path).is_some_and(|value| value.get() == "true");
    ClientCapabilities {
        terminal_auth: is_true(["auth", "terminal"]),
        terminal_auth_meta: is_true(["_meta", "terminal-auth"]),
        compaction: at(["session", "compaction"]).is_some_and(|value| object("", value).is_ok()),
    }
}

/// Params that nothing is read from.
fn object_or_nothing(raw: Option<&RawValue>) -> Result<(), ParamError> {
    raw.map_or(Ok(()), |raw| object("params", raw))
}

fn load(raw: Option<&RawValue>, replay: bool) -> Result<Request, ParamError> {
    let [id] = params(raw, ["sessionId"])?;
    let id = check_session_id(id)?;
    Ok(Request::Load { id, params: open_params(raw, replay)?, replay })
}

fn list(raw: Option<&RawValue>) -> Result<Request, ParamError> {
    let [cwd, cursor] = raw.map_or(Ok([None; 2]), |raw| params(Some(raw), ["cwd", "cursor"]))?;
    let cwd = optional(cwd).map(|cwd| absolute("cwd", typed("cwd", cwd, "a string")?)).transpose()?;
    let cursor = optional(cursor).map(|cursor| typed("cursor", cursor, "a string")).transpose()?;
    Ok(Request::List { cwd, cursor })
}

fn open_params(raw: Option<&RawValue>, needs_servers: bool) -> Result<OpenParams, ParamError> {
    let [cwd, servers, directories] = params(raw, ["cwd", "mcpServers", "additionalDirectories"])?;
    let cwd = absolute("cwd", string("cwd", cwd)?)?;
    let mcp_servers = match optional(servers) {
        None if needs_servers => return Err(ParamError::new("mcpServers", "missing")),
        None => Vec::new(),
        Some(servers) => mcp::check_servers(servers, tools::NAMES)?,
    };
    let additional_directories = match optional(directories) {
        None => Vec::new(),
        Some(raw) => array("additionalDirectories", raw)?
            .into_iter()
            .enumerate()
            .map(|(i, raw)| {
                let field = format!("additionalDirectories[{i}]");
                absolute(&field, typed(&field, raw, "a string")?)
            })
            .collect::<Result<_, _>>()?,
    };
    Ok(OpenParams { cwd, additional_directories, mcp_servers })
}

fn absolute(field: &str, path: String) -> Result<PathBuf, ParamError> {
    let path = PathBuf::from(path);
    if path.is_absolute() { Ok(path) } else { Err(ParamError::new(field, "must be an absolute path")) }
}

fn prompt(raw: Option<&RawValue>) -> Result<Request, ParamError> {
    let [id, blocks] = params(raw, ["sessionId", "prompt"])?;
    let id = check_session_id(id)?;
    let blocks = array("prompt", required("prompt", blocks)?)?;
    let prompt = Prompt::check(blocks).map_err(|error| ParamError::new(error.field, error.why))?;
    Ok(Request::Prompt(id, prompt))
}

fn change(
    raw: Option<&RawValue>,
    of: fn(Option<&RawValue>) -> Result<Change, ParamError>,
) -> Result<Request, ParamError> {
    Ok(Request::Change(session_id(raw)?, of(raw)?))
}

fn session_id(raw: Option<&RawValue>) -> Result<SessionId, ParamError> {
    let [id] = params(raw, ["sessionId"])?;
    check_session_id(id)
}

fn check_session_id(raw: Option<&RawValue>) -> Result<SessionId, ParamError> {
    let id = string("sessionId", raw)?;
    SessionId::parse(&id).ok_or_else(|| ParamError::new("sessionId", "must be 1 to 64 of A-Z a-z 0-9 _ -"))
}
