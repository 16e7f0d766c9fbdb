//! The login file, `llm.json` in the user's folder: a layer like the others, and the only one that Bob writes.
use super::fields::provider_name;
use super::llm::{DEFAULT_PROVIDER, Format, LlmError};
use super::{Environment, Secret, user_file};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use serde::Serialize;
use serde_json::{Map, Value};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Its name in the user's folder.
pub(super) const NAME: &str = "llm.json";

/// What a login file says.
#[derive(Clone, Debug)]
pub struct Login {
    /// Upper case.
    pub provider: String,
    /// `None`: it needs none (LOCAL).
    pub api_key: Option<Secret>,
    /// http or https, without a trailing slash.
    pub base_url: String,
    /// The model's name.
    pub model: String,
    /// How to talk to it.
    pub format: Format,
}

/// The file as it is written, in this order.
#[derive(Serialize)]
struct Members<'a> {
    provider: &'a str,
    api_key: &'a str,
    base_url: &'a str,
    model: &'a str,
    api_format: &'a str,
}

/// Where the file is, in the user's folder.
pub fn path(user_folder: &Path) -> PathBuf {
    user_folder.join(NAME)
}

/// Writes the file (0600) at once or not at all, whatever was there; the folder is made where missing, and the
/// user's alone (0700). A link in the file's place is replaced, not followed.
///
/// # Errors
/// The folder or the file can't be made; what was there is as it was.
pub fn write(user_folder: &Path, login: &Login) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(user_folder)?;
    fs::set_permissions(user_folder, Permissions::from_mode(0o700)).map_err(|error| {
        io::Error::new(error.kind(), format!("its folder can't be closed to others: {error}"))
    })?;
    let members = Members {
        provider: &login.provider,
        api_key: login.api_key.as_ref().map_or("", Secret::expose),
        base_url: &login.base_url,
        model: &login.model,
        api_format: login.format.name(),
    };
    // Made 0600, under a name nobody has, and removed again if anything below fails.
    let mut beside = tempfile::Builder::new().prefix(".llm-").tempfile_in(user_folder)?;
    serde_json::to_writer_pretty(&mut beside, &members)?;
    beside.write_all(b"\n")?;
    beside.as_file().sync_all()?;
    beside.persist(path(user_folder))?;
    sync(user_folder);
    Ok(())
}

/// Removes the file; one that isn't there is fine.
///
/// # Errors
/// It is there and can't be removed.
pub fn remove(user_folder: &Path) -> io::Result<()> {
    use io::ErrorKind::{NotADirectory, NotFound};
    match fs::remove_file(path(user_folder)) {
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(()),
        Err(error) => Err(error),
        Ok(()) => {
            sync(user_folder);
            Ok(())
        }
    }
}

/// The change of a name reaches the disk. It has happened all the same where a disk doesn't know how.
fn sync(folder: &Path) {
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
}

/// Whether the file could be written: into the folder, or, where there is none, into the nearest above it.
pub fn is_writable(user_folder: &Path) -> bool {
    let Ok(absolute) = std::path::absolute(user_folder) else { return false };
    let there = absolute.ancestors().find(|folder| folder.symlink_metadata().is_ok());
    let may_write = |folder| accessat(CWD, folder, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS);
    there.is_some_and(|folder| folder.is_dir() && may_write(folder).is_ok())
}

/// The file's members as the variables they stand for; nothing if there is no file.
///
/// # Errors
/// [`LlmError::Broken`]: unreadable, not JSON, a member that is no text. It never shows a value.
pub(super) fn read(path: &Path) -> Result<Environment, LlmError> {
    match user_file::read(path) {
        Ok(bytes) => variables(path, &bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Environment::default()),
        Err(error) => Err(LlmError::Broken(format!("{}: {error}", path.display()))),
    }
}

fn variables(path: &Path, bytes: &[u8]) -> Result<Environment, LlmError> {
    let broken = |why: &str| LlmError::Broken(format!("{}{why}", path.display()));
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    // Only the place: the parser's words may hold what it read.
    let parsed: Value = serde_json::from_slice(bytes).map_err(|error| {
        broken(&format!(":{}:{}: not valid JSON", error.line().max(1), error.column().max(1)))
    })?;
    let Value::Object(members) = parsed else { return Err(broken(": not a JSON object")) };
    let text = |name| text(&members, name).map_err(|()| broken(&format!(": `{name}` is not a string")));
    let named = text("provider")?;
    let provider = match named {
        Some(name) => provider_name(name).ok_or_else(|| broken(": `provider` is not a provider's name"))?,
        None => DEFAULT_PROVIDER.to_owned(),
    };
    let values = [
        ("LLM_PROVIDER".to_owned(), named),
        (format!("{provider}_API_KEY"), text("api_key")?),
        (format!("{provider}_BASE_URL"), text("base_url")?),
        (format!("{provider}_MODEL"), text("model")?),
        (format!("{provider}_API_FORMAT"), text("api_format")?),
    ];
    Ok(values.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
}

/// A member's text; absent, null and blank are the same.
fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, ()> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.trim().is_empty())),
        Some(_) => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    fn login() -> Login {
        Login {
            provider: "OPENAI".into(),
            api_key: Some(Secret::new("sk-1")),
            base_url: "https://h/v1".into(),
            model: "m \"q\"".into(),
            format: Format::AnthropicMessages,
        }
    }

    #[test]
    fn what_is_written_is_read_and_the_users_alone() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("a/.bob");
        assert!(is_writable(&folder));
        for api_key in [Some(Secret::new("sk-1")), None] {
            write(&folder, &Login { api_key: api_key.clone(), ..login() }).unwrap();
            let read = read(&path(&folder)).unwrap();
            assert_eq!(read.get("LLM_PROVIDER"), Some("OPENAI"));
            assert_eq!(read.get("OPENAI_API_KEY"), api_key.as_ref().map(Secret::expose));
            assert_eq!(read.get("OPENAI_MODEL"), Some("m \"q\""));
            assert_eq!(read.get("OPENAI_API_FORMAT"), Some("anthropic-messages"));
        }
        assert_eq!(path(&folder).metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(folder.metadata().unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "something was left beside it");
        remove(&folder).unwrap();
        remove(&folder).unwrap();
        assert!(!path(&folder).exists());
    }

    #[test]
    fn a_folder_open_to_others_is_closed_to_them() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        write(folder.path(), &login()).unwrap();
        assert_eq!(folder.path().metadata().unwrap().mode() & 0o777, 0o700);
    }

    /// One of somebody else's, or on a disk without modes.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_folder_that_stays_open_to_others_gets_no_key() {
        let error = write(Path::new("/proc/self/fd"), &login()).unwrap_err();
        assert!(error.to_string().starts_with("its folder can't be closed to others: "), "{error}");
    }

    #[test]
    fn a_link_is_replaced_and_its_target_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let (folder, target) = (place.path().join("bob"), place.path().join("target"));
        fs::create_dir(&folder).unwrap();
        File::create(&target).unwrap();
        symlink(&target, path(&folder)).unwrap();
        write(&folder, &login()).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"");
        assert!(path(&folder).symlink_metadata().unwrap().is_file());
    }

    #[test]
    fn a_failed_write_leaves_what_was_there() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("bob");
        fs::create_dir_all(path(&folder)).unwrap(); // a folder in the file's place
        assert!(write(&folder, &login()).is_err());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "a temporary file was left");
        let file = place.path().join("file");
        File::create(&file).unwrap();
        assert!(write(&file, &login()).is_err() && write(&file.join("below"), &login()).is_err());
        assert!(!is_writable(&file) && !is_writable(&file.join("below")));
    }

    fn of(text: &str) -> Result<Environment, String> {
        variables(Path::new("/u/llm.json"), text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn members_stand_for_the_variables_of_their_provider() {
        let file = r#"{"provider": "deepSeek", "api_key": "k", "base_url": "u", "model": "m", "api_format": "f", "x": 1}"#;
        let variables = of(file).unwrap();
        for (name, value) in
            [("LLM_PROVIDER", "deepSeek"), ("DEEPSEEK_API_KEY", "k"), ("DEEPSEEK_BASE_URL", "u")]
        {
            assert_eq!(variables.get(name), Some(value));
        }
        assert_eq!(variables.get("DEEPSEEK_MODEL"), Some("m"));
        assert_eq!(variables.get("DEEPSEEK_API_FORMAT"), Some("f"));
    }

    #[test]
    fn without_a_provider_it_is_the_default_ones() {
        let variables = of(r#"{"api_key": "k", "model": null, "base_url": " "}"#).unwrap();
        assert_eq!(variables.get("OPENAI_API_KEY"), Some("k"));
        assert_eq!(variables.get("LLM_PROVIDER"), None);
        assert_eq!(variables.get("OPENAI_MODEL"), None);
    }

    #[test]
    fn a_broken_file_is_named_without_a_value() {
        for (text, why) in [
            ("", ":1:1: not valid JSON"),
            ("{\n  \"api_key\": \"sk-secret\",\n}", ":3:1: not valid JSON"),
            ("{\"api_key\": sk-secret}", ":1:13: not valid JSON"),
            ("\"sk-secret\"", ": not a JSON object"),
            ("{\"api_key\": 5714}", ": `api_key` is not a string"),
            ("{\"provider\": \"sk secret\"}", ": `provider` is not a provider's name"),
        ] {
            let error = of(text).unwrap_err();
            assert_eq!(error, format!("LLM configuration error: /u/llm.json{why}"));
        }
    }
}
