//! A project's own `.bob/config.json`: anybody may have written it, so it can make things stricter and no looser.
use super::config::{Config, SessionSettings};
use super::mode::{Mode, RuleAction};
use super::raw::{self, ConfigError, Raw};
use crate::files;
use std::io;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Component, Path};
use std::time::Duration;

/// Largest project file, bytes.
const AT_MOST: u64 = 1 << 20;

/// What a project may set.
const ALLOWED: [&str; 9] = [
    "context.keepLastTurns",
    "context.threshold",
    "context.window",
    "mode",
    "permissions",
    "sessions.dir",
    "tools.bash.maxOutput",
    "tools.bash.timeoutSeconds",
    "turns.maxModelCalls",
];

impl Config {
    /// A project's own file over it, `<cwd>/.bob/config.json`, as far as a project may say; the rest is a warning each. If
    /// that `.bob` is the user's own folder its file has been read already.
    ///
    /// # Errors
    /// The file is broken, named with line and column.
    pub fn with_project(mut self, cwd: &Path, user_folder: Option<&Path>) -> Result<Self, ConfigError> {
        self.warnings.extend(lay_over(&mut self.session, cwd, user_folder)?);
        Ok(self)
    }
}

/// Lays the project's file over `session`; gives a warning for each thing it may not say.
///
/// # Errors
/// The file is broken, named with line and column. One that can't be read safely (a link that leaves the project, a
/// pipe) is skipped with a warning instead.
fn lay_over(
    session: &mut SessionSettings,
    cwd: &Path,
    user_folder: Option<&Path>,
) -> Result<Vec<String>, ConfigError> {
    let relative = Path::new(".bob/config.json");
    let path = cwd.join(relative);
    if is_users(&cwd.join(".bob"), user_folder) {
        return Ok(Vec::new());
    }
    let bytes = match files::read_below(cwd, relative, AT_MOST) {
        Ok(bytes) => bytes,
        // A `.bob` that is no folder holds no settings.
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            return Err(ConfigError::unreadable(&path, &e));
        }
        Err(e) => return Ok(vec![format!("{} is skipped: {e}", path.display())]),
    };
    let (raw, keys) = raw::parse_keys(&path, &bytes)?;
    let forbidden = keys.iter().filter(|key| !ALLOWED.contains(&key.as_str()));
    let forbidden = forbidden.map(|key| raw::warning(&path, "a project may not set", key));
    let looser =
        narrow(session, raw).into_iter().map(|key| raw::warning(&path, "a project may not loosen", key));
    Ok(forbidden.chain(looser).collect())
}

fn is_users(folder: &Path, user_folder: Option<&Path>) -> bool {
    let users = user_folder.and_then(|user| user.canonicalize().ok());
    users.is_some_and(|users| folder.canonicalize().is_ok_and(|folder| folder == users))
}

/// Takes what makes `session` stricter; gives the keys of what would make it looser.
fn narrow(session: &mut SessionSettings, raw: Raw) -> Vec<&'static str> {
    let mut looser = Vec::new();
    match raw.mode {
        Some(mode @ Mode::Ask) => session.mode = mode,
        Some(Mode::FullAccess) => looser.push("mode"),
        None => {}
    }
    for rule in raw.permissions.unwrap_or_default() {
        match rule.action {
            RuleAction::Ask | RuleAction::Deny => session.rules.push(rule),
            RuleAction::Allow => looser.push("permissions"),
        }
    }
    let calls = raw.turns.max_model_calls.map(NonZeroU32::get);
    lower(&mut session.max_model_calls, calls, "turns.maxModelCalls", &mut looser);
    let timeout = raw.tools.bash.timeout_seconds.map(|seconds| Duration::from_secs(seconds.get().into()));
    lower(&mut session.bash_timeout, timeout, "tools.bash.timeoutSeconds", &mut looser);
    let output = raw.tools.bash.max_output.map(NonZeroUsize::get);
    lower(&mut session.bash_max_output, output, "tools.bash.maxOutput", &mut looser);
    session.window = raw.context.window.map(NonZeroUsize::get).or(session.window);
    session.threshold = raw.context.threshold.map_or(session.threshold, |share| share.0);
    session.keep_last_turns = raw.context.keep_last_turns.unwrap_or(session.keep_last_turns);
    match raw.sessions.dir {
        Some(dir) if stays_inside(&dir) => session.sessions_dir = dir,
        Some(_) => looser.push("sessions.dir"),
        None => {}
    }
    looser
}

fn lower<T: PartialOrd>(value: &mut T, wanted: Option<T>, key: &'static str, looser: &mut Vec<&'static str>) {
    match wanted {
        Some(wanted) if wanted <= *value => *value = wanted,
        Some(_) => looser.push(key),
        None => {}
    }
}

fn stays_inside(path: &Path) -> bool {
    let inside = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    inside && path.components().any(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn with_project(text: &str) -> Result<Config, String> {
        let project = tempfile::tempdir().unwrap();
        fs::create_dir(project.path().join(".bob")).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test's own file")]
        fs::write(project.path().join(".bob/config.json"), text).unwrap();
        Config::default().with_project(project.path(), None).map_err(|error| error.to_string())
    }

    #[test]
    fn a_project_makes_things_stricter() {
        let config = with_project(
            r#"{"mode": "ask", "permissions": [{"tool": "bash", "action": "deny"}], "turns": {"maxModelCalls": 3},
                "tools": {"bash": {"timeoutSeconds": 5, "maxOutput": 100}}, "sessions": {"dir": "state/bob"},
                "context": {"window": 8000, "threshold": 0.5, "keepLastTurns": 1}}"#,
        )
        .unwrap();
        assert!(config.warnings.is_empty(), "{:?}", config.warnings);
        let session = config.session;
        assert_eq!((session.rules.len(), session.max_model_calls, session.bash_max_output), (1, 3, 100));
        assert_eq!((session.bash_timeout, session.window), (Duration::from_secs(5), Some(8000)));
        assert_eq!((session.sessions_dir.to_str(), session.keep_last_turns), (Some("state/bob"), 1));
    }

    #[test]
    fn a_project_makes_nothing_looser() {
        let looser = [
            r#"{"mode": "full-access"}"#,
            r#"{"permissions": [{"tool": "bash", "action": "allow"}]}"#,
            r#"{"turns": {"maxModelCalls": 1000}}"#,
            r#"{"tools": {"bash": {"timeoutSeconds": 600}}}"#,
            r#"{"tools": {"bash": {"maxOutput": 3000000}}}"#,
            r#"{"tools": {"passKeys": true}}"#,
            r#"{"sessions": {"dir": "../elsewhere"}}"#,
            r#"{"sessions": {"dir": "/etc"}}"#,
            r#"{"sessions": {"dir": "."}}"#,
            r#"{"sessions": {"enabled": false}}"#,
            r#"{"turns": {"parallel": true}}"#,
            r#"{"limits": {"messageBytes": 1}}"#,
            r#"{"net": {"caFile": "evil.pem"}}"#,
            r#"{"mcp": {"trustProject": true}}"#,
            r#"{"prices": {}}"#,
            r#"{"client": {"fs": false}}"#,
            r#"{"no": 1}"#,
        ];
        for text in looser {
            let config = with_project(text).expect(text);
            assert_eq!(config.warnings.len(), 1, "{text}: {:?}", config.warnings);
            assert_eq!(config.session, Config::default().session, "{text}");
        }
    }

    #[test]
    fn a_broken_project_file_names_the_place() {
        let error = with_project("{\n \"mode\": 3}").map(drop).unwrap_err();
        assert!(error.contains(".bob/config.json:2:"), "{error}");
    }

    #[test]
    fn the_users_folder_is_no_project_and_a_file_named_bob_holds_nothing() {
        let home = tempfile::tempdir().unwrap();
        let user = home.path().join(".bob");
        fs::create_dir(&user).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test's own file")]
        fs::write(user.join("config.json"), "{ broken").unwrap();
        assert!(Config::default().with_project(home.path(), Some(&user)).is_ok());
        let project = tempfile::tempdir().unwrap();
        fs::File::create(project.path().join(".bob")).unwrap();
        assert!(Config::default().with_project(project.path(), None).unwrap().warnings.is_empty());
    }

    #[test]
    fn a_link_out_of_the_project_is_skipped() {
        let project = tempfile::tempdir().unwrap();
        fs::create_dir(project.path().join(".bob")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", project.path().join(".bob/config.json")).unwrap();
        let config = Config::default().with_project(project.path(), None).unwrap();
        assert_eq!(config.warnings.len(), 1, "{:?}", config.warnings);
    }
}
