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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::acp::SessionId;
    use log::Level;
    use std::fs;
    use std::sync::Arc;

    fn session(cwd: &Path) -> Arc<SessionLog> {
        SessionLog::new(SessionId::parse("s").unwrap(), cwd.to_owned())
    }

    fn read(cwd: &Path, name: &str) -> String {
        fs::read_to_string(cwd.join(FOLDER).join(name)).unwrap()
    }

    #[test]
    fn lines_go_to_the_folder_of_their_session_in_order() {
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let mut logs = FolderLogs::default();
        for n in 0..6 {
            let session = session(folders[n % 2].path());
            logs.write(&session, &Line::new(Level::Info, &format!("line {n}"))).unwrap();
        }
        for (at, folder) in folders.iter().enumerate() {
            let text = read(folder.path(), NAME);
            let ends: Vec<_> = text.lines().filter_map(|line| line.split_once(" INFO  s ")).collect();
            let expected: Vec<_> = (at..6).step_by(2).map(|n| format!("line {n}")).collect();
            assert_eq!(ends.iter().map(|(_, end)| *end).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn neither_file_outgrows_its_bound_however_much_is_logged_at_once() {
        let cwd = tempfile::tempdir().unwrap();
        let (session, mut logs) = (session(cwd.path()), FolderLogs::default());
        let line = Line::new(Level::Info, &"x".repeat(10_000));
        for _ in 0..250 {
            logs.write(&session, &line).unwrap();
        }
        for name in [NAME, OLD] {
            let text = read(cwd.path(), name);
            assert!(text.len() as u64 <= AT_MOST && text.lines().all(|line| line.len() > 10_000), "{name}");
        }
        assert!(read(cwd.path(), OLD).len() as u64 > AT_MOST - 20_000);
    }

    #[test]
    fn what_failed_once_is_not_tried_again() {
        let cwd = tempfile::tempdir().unwrap();
        let blocked = cwd.path().join(FOLDER);
        File::create(&blocked).unwrap();
        let (session, mut logs) = (session(cwd.path()), FolderLogs::default());
        let line = Line::new(Level::Info, &"a line");
        let told = logs.write(&session, &line).unwrap_err();
        assert!(told.starts_with("session s: nothing more goes to "), "{told}");
        fs::remove_file(&blocked).unwrap();
        logs.write(&session, &line).unwrap();
        assert!(!blocked.exists());
        logs.write(&self::session(cwd.path()), &line).unwrap();
        assert!(blocked.exists(), "another session tries for itself");
    }
}
