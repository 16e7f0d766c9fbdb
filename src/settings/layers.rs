//! The layers a model configuration comes from, and what each of them sets.
use super::fields::{Setting, Source};
use super::llm::LlmError;
use super::{Environment, dotenv, login_file};
use crate::files::read_below;
use std::io;
use std::path::Path;

/// A project's `.env` is read up to here, bytes.
const DOTENV_AT_MOST: u64 = 1 << 20;

/// Bad lines of it that are told.
const WARNINGS_AT_MOST: usize = 5;

/// One layer.
pub(super) struct Layer {
    pub(super) source: Source,
    variables: Environment,
}

impl Layer {
    /// A setting of this layer; blank counts as unset.
    pub(super) fn get<'a>(&'a self, name: &'a str) -> Option<Setting<'a>> {
        let value = self.variables.get(name)?.trim();
        Some(Setting { name, value, source: &self.source })
    }
}

/// All layers, the highest first.
pub(super) struct Layers(pub(super) [Layer; 3]);

impl Layers {
    /// Reads them. A `.env` that can't be taken (a link out of the project, a pipe, too large) is a warning.
    ///
    /// # Errors
    /// [`LlmError::Broken`]: a `.env` we may not read, a broken login file.
    pub(super) fn read(
        launch: &Environment,
        cwd: &Path,
        user_folder: Option<&Path>,
        warnings: &mut Vec<String>,
    ) -> Result<Self, LlmError> {
        let project = cwd.join(".env");
        let login = user_folder.map(|folder| folder.join(login_file::NAME));
        Ok(Self([
            Layer { source: Source::Launch, variables: launch.lossy() },
            Layer { variables: read_dotenv(cwd, &project, warnings)?, source: Source::Project(project) },
            Layer {
                variables: login.as_deref().map_or(Ok(Environment::default()), login_file::read)?,
                source: Source::Login(login.unwrap_or_default()),
            },
        ]))
    }

    /// The highest layer that sets `name` says what it is.
    pub(super) fn highest<'a>(&'a self, name: &'a str) -> Option<Setting<'a>> {
        self.0.iter().find_map(|layer| layer.get(name))
    }

    /// The same, but only from `lowest` and the layers above it.
    pub(super) fn highest_down_to<'a>(&'a self, lowest: usize, name: &'a str) -> Option<Setting<'a>> {
        self.0.iter().take(lowest + 1).find_map(|layer| layer.get(name))
    }
}

fn read_dotenv(cwd: &Path, path: &Path, warnings: &mut Vec<String>) -> Result<Environment, LlmError> {
    match read_below(cwd, Path::new(".env"), DOTENV_AT_MOST) {
        Ok(bytes) => {
            // What is not UTF-8 may stand in a line that isn't ours; in one that is, the setting's own check finds it.
            let (variables, bad_lines) = dotenv::parse(&String::from_utf8_lossy(&bytes));
            warnings.extend(bad_lines.iter().take(WARNINGS_AT_MOST).map(|line| {
                format!(
                    "{}:{line}: ignored: a quote is not closed, or the values are too large",
                    path.display()
                )
            }));
            Ok(variables)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Environment::default()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(LlmError::Broken(format!("{} can't be read: {error}", path.display())))
        }
        Err(error) => {
            warnings.push(format!("{} skipped: {error}", path.display()));
            Ok(Environment::default())
        }
    }
}
