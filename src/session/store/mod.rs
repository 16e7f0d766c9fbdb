//! Saved sessions: each in a file of its own below its project, found again through an index of the user's.
//!
//! A failed write is never the end of a turn: it is told once, and the file stays as it was.
mod file;
mod index;
#[cfg(test)]
mod tests;
mod title;

pub use file::{Head, LoadError, Loaded, time};
pub use index::{BadCursor, DeleteError, Index};
pub use title::title_of;

use crate::files::{self, Links, LockFile, Over, Unsynced};
use crate::session::history::History;
use crate::text::clean;
use crate::wire::acp::SessionId;
use file::FILE_AT_MOST;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

/// Session files in one folder, at most, that a prefix is looked for among.
const NAMES_AT_MOST: usize = 100_000;

/// Where the sessions of a project are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    cwd: PathBuf,
    folder: PathBuf,
}

impl Place {
    /// `folder` is `sessions.dir`: below `cwd`, and not `cwd` itself.
    ///
    /// # Errors
    /// It is not.
    pub fn new(cwd: PathBuf, folder: &Path) -> io::Result<Self> {
        let inside = folder.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
        let below = folder.components().any(|c| matches!(c, Component::Normal(_)));
        match inside && below {
            true => Ok(Self { cwd, folder: folder.components().collect() }),
            false => Err(io::Error::other("sessions.dir is not a folder below the working directory")),
        }
    }

    /// The project.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    fn file(&self, id: &SessionId) -> PathBuf {
        self.folder.join(file_name(id))
    }

    fn make(&self) -> io::Result<OwnedFd> {
        let folder = files::make_private_folder(&self.cwd, &self.folder)?;
        files::ignore_all(folder.as_fd())?;
        Ok(folder)
    }

    fn open(&self) -> io::Result<OwnedFd> {
        files::folder_below(&self.cwd, &self.folder)
    }

    /// For `--resume ID`: the saved session of this id, or the one whose id begins so.
    ///
    /// # Errors
    /// There is none, or more than one; in words for a warning.
    pub fn find(&self, beginning: &str) -> Result<SessionId, String> {
        let names = files::names_below(&self.cwd, &self.folder, NAMES_AT_MOST)
            .map_err(|error| format!("there are no saved sessions here: {error}"))?;
        let ids = names.iter().filter_map(|name| SessionId::parse(name.to_str()?.strip_suffix(".json")?));
        let mut found: Vec<_> = ids.filter(|id| id.as_str().starts_with(beginning)).collect();
        let exact = found.iter().position(|id| id.as_str() == beginning);
        match (exact, found.len()) {
            (Some(at), _) => Ok(found.swap_remove(at)),
            (None, 1) => Ok(found.swap_remove(0)),
            (None, 0) => Err(format!("no saved session here begins with {}", clean(beginning))),
            (None, count) => Err(format!("{count} saved sessions here begin with {}", clean(beginning))),
        }
    }
}

fn file_name(id: &SessionId) -> OsString {
    format!("{id}.json").into()
}

fn lock_name(id: &SessionId) -> OsString {
    format!("{id}.lock").into()
}

/// A session's file, which nobody else writes meanwhile. Dropped, others may open it.
#[derive(Debug)]
pub struct Store {
    /// All but the conversation; what is changed here is saved with the next step.
    pub head: Head,
    saving: Option<Saving>,
}

#[derive(Debug)]
struct Saving {
    place: Place,
    id: SessionId,
    index: Option<Index>,
    lock: Option<LockFile>,
    /// Largest file, bytes.
    limit: u64,
    /// The last write failed, and the user knows.
    failing: bool,
    /// [`Transcript::changes`](crate::session::history::Transcript::changes) of what the file holds.
    saved: Option<u64>,
    unsynced: Option<Unsynced>,
}

/// Why a session can't have the id it was to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdTaken {
    /// A saved session has it.
    Saved,
    /// One that another process has open.
    Open,
}

impl fmt::Display for IdTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Saved => "a saved session has this id",
            Self::Open => "a session of this id is open in another process",
        })
    }
}

impl std::error::Error for IdTaken {}

impl Store {
    /// For a session that is not to be saved.
    pub fn off(head: Head) -> Self {
        Self { head, saving: None }
    }

    /// The file of a new session, written at once. Where none can be written saving is off for this session, with
    /// a warning.
    ///
    /// # Errors
    /// The id is not free.
    pub fn create(place: Place, head: Head, index: Option<Index>) -> Result<Self, IdTaken> {
        let mut saving = Saving::new(place, head.id.clone(), index);
        match saving.write(&head, &History::default(), Over::Nothing) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(IdTaken::Saved),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(IdTaken::Open),
            Err(error) => {
                log::warn!("session {}: it is not saved: {}", head.id, clean(&error.to_string()));
                return Ok(Self::off(head));
            }
        }
        saving.tell_index(&head.id);
        Ok(Self { head, saving: Some(saving) })
    }

    /// Opens the saved session `head.id` in `place` and nowhere else. Title, skills and times are the file's; all
    /// else of `head` holds.
    ///
    /// # Errors
    /// [`LoadError`]; the file is untouched.
    pub fn open(place: Place, head: Head, index: Option<Index>) -> Result<(Self, History), LoadError> {
        let folder = place.open()?;
        // Looked at before it is locked: a lock is a file, and none is left for an id that is nobody's.
        files::open_below(folder.as_fd(), file_name(&head.id).as_ref(), Links::Never)?;
        let mut saving = Saving::new(place, head.id.clone(), index);
        saving.lock(folder.as_fd()).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => LoadError::Locked,
            _ => LoadError::Unreadable(error),
        })?;
        let Loaded { history, title, created_at, updated_at, skills } = read(folder.as_fd(), &saving.id)?;
        saving.tell_index(&head.id);
        let head = Head { title, created_at, updated_at, skills, ..head };
        Ok((Self { head, saving: Some(saving) }, history))
    }

    /// Whether it is saved at all.
    pub fn is_on(&self) -> bool {
        self.saving.is_some()
    }

    /// Writes the conversation as it stands, with the time. A failure is a warning, told once until a write
    /// succeeds again.
    pub fn save(&mut self, history: &History) {
        self.head.updated_at = SystemTime::now();
        let Some(saving) = &mut self.saving else { return };
        match saving.write(&self.head, history, Over::AFile) {
            Ok(()) => {
                saving.failing = false;
                saving.saved = Some(history.transcript().changes());
            }
            Err(error) => {
                saving.saved = None;
                if !saving.failing {
                    log::warn!("session {}: it could not be saved: {}", saving.id, clean(&error.to_string()));
                }
                saving.failing = true;
            }
        }
    }

    /// [`save`](Self::save), unless the file holds the conversation as it stands.
    pub fn save_changes(&mut self, history: &History) {
        let saved = self.saving.as_ref().and_then(|saving| saving.saved);
        if saved != Some(history.transcript().changes()) {
            self.save(history);
        }
    }

    /// Keeps the conversation under an id of its own, before `/new` forgets it. Whether it is kept; there is
    /// nothing to keep of an empty one.
    pub fn keep_past(&mut self, new_id: SessionId, history: &History) -> bool {
        let Some(saving) = self.saving.as_ref().filter(|_| !history.transcript().is_empty()) else {
            return false;
        };
        let head = Head { id: new_id.clone(), ..self.head.clone() };
        let mut past = Saving::new(saving.place.clone(), new_id, saving.index.clone());
        let kept = past.write(&head, history, Over::Nothing).or_else(|error| {
            log::warn!("session {}: {}", saving.id, clean(&error.to_string()));
            saving.rename(&past.id) // needs no room
        });
        if let Err(error) = &kept {
            log::warn!("session {}: its past is not kept: {}", saving.id, clean(&error.to_string()));
            return false;
        }
        log::info!("[acp] session {}: previous conversation kept as {}", saving.id, past.id);
        past.tell_index(&head.id);
        true
    }

    /// What was written since it was last asked for, to be made to last by a thread that may wait for the disk.
    pub fn unsynced(&mut self) -> Option<Unsynced> {
        self.saving.as_mut()?.unsynced.take()
    }
}

impl Saving {
    fn new(place: Place, id: SessionId, index: Option<Index>) -> Self {
        Self {
            place,
            id,
            index,
            lock: None,
            limit: FILE_AT_MOST,
            failing: false,
            saved: None,
            unsynced: None,
        }
    }

    fn write(&mut self, head: &Head, history: &History, over: Over) -> io::Result<()> {
        let transcript = history.transcript();
        let (before, behind) = file::around(head, transcript);
        let pieces = [&before, transcript.bytes(), behind];
        if pieces.iter().map(|piece| piece.len() as u64).sum::<u64>() > self.limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let folder = self.place.make()?;
        self.lock(folder.as_fd())?;
        self.unsynced = Some(files::save(folder.as_fd(), &file_name(&self.id), &pieces, over)?);
        Ok(())
    }

    /// Holds the lock that is beside the file now: the folder may be another one than it was.
    fn lock(&mut self, folder: BorrowedFd<'_>) -> io::Result<()> {
        let name = lock_name(&self.id);
        if self.lock.as_ref().is_none_or(|lock| !lock.is_named(folder, &name)) {
            self.lock = files::try_lock(folder, &name)?;
        }
        let open = || io::Error::new(io::ErrorKind::WouldBlock, "it is open in another process");
        self.lock.as_ref().map(drop).ok_or_else(open)
    }

    fn rename(&self, new_id: &SessionId) -> io::Result<()> {
        files::rename_new(self.place.open()?.as_fd(), &file_name(&self.id), &file_name(new_id))
    }

    fn tell_index(&self, id: &SessionId) {
        let Some(index) = &self.index else { return };
        if let Err(error) = index.add(id, &self.place.cwd, &self.place.file(id)) {
            log::warn!("session {id}: it will not be listed: {index}: {}", clean(&error.to_string()));
        }
    }
}

impl Drop for Saving {
    fn drop(&mut self) {
        let Some(lock) = self.lock.take() else { return };
        let name = lock_name(&self.id);
        if let Ok(folder) = self.place.open()
            && lock.is_named(folder.as_fd(), &name)
        {
            let _ = lock.remove(folder.as_fd(), &name); // an empty file more harms nobody
        }
    }
}

/// Makes room for a new session of the name `id`: one that is saved under it is kept under `new_id`. Whether there
/// was one.
///
/// # Errors
/// It is open in another process ([`io::ErrorKind::WouldBlock`]); the disk's.
pub fn set_aside(
    place: &Place,
    id: &SessionId,
    new_id: &SessionId,
    index: Option<&Index>,
) -> io::Result<bool> {
    let folder = match place.open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        folder => folder?,
    };
    let mut saving = Saving::new(place.clone(), id.clone(), index.cloned());
    saving.lock(folder.as_fd())?;
    // As it is, whole or broken; what it says of its id nobody asks.
    match saving.rename(new_id) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        renamed => renamed?,
    }
    saving.tell_index(new_id);
    Ok(true)
}

fn read(folder: BorrowedFd<'_>, id: &SessionId) -> Result<Loaded, LoadError> {
    let file = files::open_below(folder, file_name(id).as_ref(), Links::Never)?;
    file::decode(&files::read_all(file, FILE_AT_MOST)?)
}
