//! A folder's log file, `.bob/bob.log`: what its sessions logged.
use super::{Line, SessionLog};
use crate::files;
use crate::text::clean;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

const FOLDER: &str = ".bob";
const NAME: &str = "bob.log";
/// What it is called when a new one has begun.
const OLD: &str = "bob.log.1";
/// Bytes, of each of the two.
const AT_MOST: u64 = 1 << 20;

/// The log files, of which one is open while there is more to write: idle sessions cost no descriptor.
#[derive(Default)]
pub(super) struct FolderLogs {
    open: Option<FolderLog>,
}

impl FolderLogs {
    /// Writes a line of a session. The first that can't be written is the last that is tried.
    ///
    /// # Errors
    /// What the user is to be told.
    pub(super) fn write(&mut self, session: &SessionLog, line: &Line) -> Result<(), String> {
        if session.off.load(Relaxed) {
            return Ok(());
        }
        self.append(&session.cwd, line.in_folder(&session.id).as_bytes()).map_err(|error| {
            session.off.store(true, Relaxed);
            let path = session.cwd.join(FOLDER).join(NAME);
            format!(
                "session {}: nothing more goes to {}: {error}",
                session.id,
                clean(&path.to_string_lossy())
            )
        })
    }

    /// There is nothing to write for now.
    pub(super) fn close(&mut self) {
        self.open = None;
    }

    fn append(&mut self, cwd: &Path, line: &[u8]) -> io::Result<()> {
        let mut log = match self.open.take() {
            Some(log) if log.cwd == cwd => log,
            _ => FolderLog::open(cwd)?,
        };
        log.append(line)?;
        self.open = Some(log);
        Ok(())
    }
}

struct FolderLog {
    cwd: PathBuf,
    file: File,
    size: u64,
}

impl FolderLog {
    fn open(cwd: &Path) -> io::Result<Self> {
        let file = files::append_below(cwd, &Path::new(FOLDER).join(NAME))?;
        Ok(Self { cwd: cwd.to_owned(), size: file.metadata()?.len(), file })
    }

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if self.size > 0 && self.size + line.len() as u64 > AT_MOST {
            let folder = files::folder_below(&self.cwd, FOLDER.as_ref())?;
            files::rotate(&self.file, folder.as_fd(), NAME.as_ref(), OLD.as_ref())?;
            *self = Self::open(&self.cwd)?;
        }
        self.file.write_all(line)?; // in one write: a killed process leaves whole lines
        self.size += line.len() as u64;
        Ok(())
    }
}
