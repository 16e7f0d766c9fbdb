//! Opening a session: the checks that touch the disk, the settings, the model.
use crate::model;
use crate::process;
use crate::session::instructions::{self, Surroundings};
use crate::session::permission::Permissions;
use crate::session::{ClientCapabilities, Context, LOGIN_NAME, NewSession, Session};
use crate::settings;
use crate::settings::config::{self, SessionSettings};
use crate::settings::llm::LlmError;
use crate::tools::paths::Seen;
use crate::tools::{self, Workspace, skill};
use crate::wire::acp::SessionId;
use crate::wire::jsonrpc::RpcError;
use serde_json::json;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A session ready for its first prompt.
pub struct Opened {
    /// The session.
    pub session: Session,
    /// Lines for the log once it is announced.
    pub log: Vec<String>,
}

/// Checks, in the order of `wire.md`: `cwd`, further directories, settings, the model's configuration.
///
/// # Errors
/// `-32602` for a directory, `-32603` for a broken file (naming the place), `-32000` without a model.
pub fn open(
    id: &SessionId,
    params: &NewSession,
    client: ClientCapabilities,
    context: &Context,
) -> Result<Opened, RpcError> {
    let mut roots = vec![directory("cwd", &params.cwd)?];
    for (i, path) in params.additional_directories.iter().enumerate() {
        roots.push(directory(&format!("additionalDirectories[{i}]"), path)?);
    }
    let config = config::load(context.config_file.as_deref())
        .and_then(|config| config.with_project(&params.cwd, context.user_folder.as_deref()))
        .map_err(|error| {
            RpcError::internal(format!("Internal error: {error}"))
                .with_data(json!({ "error": error.to_string() }))
        })?
        .with_flags(context.flags);
    config.warnings.iter().for_each(|warning| log::warn!("{warning}"));
    let resolved = settings::resolve_model(&context.environment, &params.cwd, context.user_folder.as_deref())
        .map_err(|error| llm_error(&error, client, context))?;
    resolved.warnings.iter().for_each(|warning| log::warn!("{warning}"));
    let settings = config.session;
    let hidden = if settings.pass_keys { Vec::new() } else { resolved.hidden_variables };
    let workspace = workspace(params, roots, hidden, &settings, context);
    let skills: Vec<_> =
        skill::list(&workspace).into_iter().map(|skill| (skill.name, skill.description)).collect();
    let surroundings = Surroundings {
        cwd: &workspace.cwd,
        now: SystemTime::now(),
        shell: process::shell().name,
        skills: &skills,
    };
    let instructions = instructions::system_prompt(&surroundings);
    instructions.warnings.iter().for_each(|warning| log::warn!("{warning}"));
    let tools = tools::built_in();
    let session = Session {
        id: id.clone(),
        system: instructions.text,
        workspace,
        history: Vec::new(),
        provider: model::connect(&resolved.config, &context.process.net, &context.environment),
        model: resolved.config.model().to_string(),
        specs: tools.iter().map(|tool| tool.spec()).collect(),
        tools,
        mode_id: settings.mode.id().to_string(),
        permissions: Permissions { mode: settings.mode, rules: settings.rules, always: HashMap::new() },
        max_model_calls: settings.max_model_calls,
        notices: notices(&params.mcp_servers),
    };
    let count = params.mcp_servers.len();
    let cwd = crate::text::clean(&session.workspace.cwd.to_string_lossy()).into_owned();
    let mut log = vec![format!("[acp] session {id} created in {cwd}, {count} MCP server(s)")];
    log.extend(resolved.notice);
    Ok(Opened { session, log })
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
    params: &NewSession,
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
    let names: Vec<_> = mcp_servers.iter().map(|name| crate::text::clean(name)).collect();
    vec![format!("MCP servers are not supported by this version; not started: {}.", names.join(", "))]
}
