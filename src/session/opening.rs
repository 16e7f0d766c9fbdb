//! Opening a session: the checks that touch the disk, the settings, the model.
use crate::model;
use crate::process;
use crate::session::catalog::Catalog;
use crate::session::conversation::{self, Conversation};
use crate::session::instructions::{self, Surroundings};
use crate::session::permission::{self, Permissions};
use crate::session::usage::Window;
use crate::session::{ClientCapabilities, Context, LOGIN_NAME, OpenParams, Opening, Origin, Session};
use crate::settings;
use crate::settings::config::{self, SessionSettings};
use crate::settings::llm::{LlmError, Resolved};
use crate::text::clean;
use crate::tools::paths::Seen;
use crate::tools::{self, Workspace, skill};
use crate::wire::acp::SessionId;
use crate::wire::jsonrpc::RpcError;
use serde_json::json;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// A session ready for its first prompt.
pub struct Opened {
    /// The session.
    pub session: Session,
    /// Its conversation goes on.
    pub is_old: bool,
    /// Lines for the log once it is announced.
    pub log: Vec<String>,
}

/// Checks, in the order of `wire.md`: `cwd`, further directories, settings, the model's configuration, the saved
/// conversation.
///
/// # Errors
/// `-32602` for a directory or a saved session, `-32603` for a broken file (naming the place), `-32000` without a model.
pub fn open(id: &SessionId, opening: &Opening, context: &Context) -> Result<Opened, RpcError> {
    let params = &opening.params;
    let roots = roots(params).map_err(|error| match opening.origin {
        Origin::Saved { .. } => error.about_session(id.as_str()),
        Origin::New { .. } | Origin::Resume(_) => error,
    })?;
    let settings = settings_for(&params.cwd, context)?;
    let resolved =
        model_for(&params.cwd, context).map_err(|error| llm_error(&error, opening.client, context))?;
    let conversation = conversation::begin(id, opening, &settings, resolved.config.model(), context)?;
    context.calls.lift(conversation.history.highest_call());
    let Conversation { id, store, history, is_old } = conversation;
    let (mode, rules, described) = (settings.mode.id(), settings.rules.len(), resolved.config.to_string());
    log::debug!("session {id}: mode {mode}, {rules} rule(s), model {}", clean(&described));
    let hidden = if settings.pass_keys { Vec::new() } else { resolved.hidden_variables };
    let workspace = workspace(params, roots, hidden, &settings, context);
    let session = Session {
        system: system_prompt(&workspace),
        workspace,
        history,
        store,
        client: opening.client,
        provider: model::connect(&resolved.config, &context.process.net, &context.environment),
        model: resolved.config.model().to_string(),
        thinking: resolved.config.thinking(),
        catalog: Arc::new(Catalog::new(
            resolved.config,
            context.process.net.clone(),
            context.environment.clone(),
        )),
        tools: tools::built_in(),
        specs: tools::built_in_specs(),
        mode_id: settings.mode.id().to_string(),
        permissions: Permissions { mode: settings.mode, rules: settings.rules, always: HashMap::new() },
        cost: None,
        max_model_calls: settings.max_model_calls,
        window: Window::new(settings.window, settings.threshold),
        keep_last_turns: settings.keep_last_turns,
        notices: notices(&params.mcp_servers),
        id,
    };
    let cwd = clean(&session.workspace.cwd.to_string_lossy()).into_owned();
    let mut log = Vec::new();
    if !is_old {
        let count = params.mcp_servers.len();
        log.push(format!("[acp] session {} created in {cwd}, {count} MCP server(s)", session.id));
    }
    log.extend(resolved.notice);
    Ok(Opened { session, is_old, log })
}

fn model_for(cwd: &Path, context: &Context) -> Result<Resolved, LlmError> {
    let (environment, user_folder) = (&context.environment, context.user_folder.as_deref());
    let mut warnings = Vec::new();
    let resolved = settings::resolve_model(environment, cwd, user_folder, &mut warnings);
    warnings.iter().for_each(|warning| log::warn!("{warning}"));
    resolved
}

fn settings_for(cwd: &Path, context: &Context) -> Result<SessionSettings, RpcError> {
    let config = config::load(context.config_file.as_deref())
        .and_then(|config| config.with_project(cwd, context.user_folder.as_deref()))
        .map_err(|error| {
            let error = error.to_string();
            RpcError::internal(format!("Internal error: {error}")).with_data(json!({ "error": error }))
        })?
        .with_flags(context.flags);
    config.warnings.iter().for_each(|warning| log::warn!("{warning}"));
    permission::warnings(&config.session.rules).iter().for_each(|warning| log::warn!("{warning}"));
    Ok(config.session)
}

fn system_prompt(workspace: &Workspace) -> String {
    let skills: Vec<_> =
        skill::list(workspace).into_iter().map(|skill| (skill.name, skill.description)).collect();
    let surroundings = Surroundings {
        cwd: &workspace.cwd,
        now: SystemTime::now(),
        shell: process::shell().name,
        skills: &skills,
    };
    let instructions = instructions::system_prompt(&surroundings);
    instructions.warnings.iter().for_each(|warning| log::warn!("{warning}"));
    instructions.text
}

fn roots(params: &OpenParams) -> Result<Vec<PathBuf>, RpcError> {
    let mut roots = vec![directory("cwd", &params.cwd)?];
    for (i, path) in params.additional_directories.iter().enumerate() {
        roots.push(directory(&format!("additionalDirectories[{i}]"), path)?);
    }
    Ok(roots)
}

/// The resolved path of an existing directory.
fn directory(field: &str, path: &Path) -> Result<PathBuf, RpcError> {
    let invalid = |why: &str| RpcError::invalid_params(field, why);
    match path.canonicalize() {
        Ok(resolved) if resolved.is_dir() => Ok(resolved),
        Ok(_) => Err(invalid("is not a directory")),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(invalid("does not exist")),
        Err(e) => Err(invalid(&format!("can't be used: {e}"))),
    }
}

fn llm_error(error: &LlmError, client: ClientCapabilities, context: &Context) -> RpcError {
    let login = if client.has_login() {
        format!("Choose \u{201c}{LOGIN_NAME}\u{201d} in this editor")
    } else {
        format!("Run `{} --login` in a terminal", shell_word(&context.program.to_string_lossy()))
    };
    match error {
        LlmError::Missing { missing, .. } => {
            RpcError::auth_required(error.with_login(&login)).with_data(json!({ "missing": missing }))
        }
        LlmError::Broken(_) => RpcError::internal(error.to_string()),
    }
}

/// As a shell takes it for one word.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@".contains(c);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

fn workspace(
    params: &OpenParams,
    roots: Vec<PathBuf>,
    hidden_variables: Vec<std::ffi::OsString>,
    settings: &SessionSettings,
    context: &Context,
) -> Workspace {
    Workspace {
        cwd: params.cwd.clone(),
        roots,
        home: context.environment.home(),
        user_folder: context.user_folder.clone(),
        bash_timeout: settings.bash_timeout,
        bash_max_output: settings.bash_max_output,
        hidden_variables,
        seen: Seen::default(),
        left: Vec::new(),
    }
}

fn notices(mcp_servers: &[String]) -> Vec<String> {
    if mcp_servers.is_empty() {
        return Vec::new();
    }
    let names: Vec<_> = mcp_servers.iter().map(|name| clean(name)).collect();
    vec![format!("MCP servers are not supported by this version; not started: {}.", names.join(", "))]
}
