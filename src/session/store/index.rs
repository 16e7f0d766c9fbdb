//! Which sessions there are: `sessions.jsonl` in the user's folder names each with its folder and file. Only what it
//! names is listed, so that a repository can't put sessions of its own among the user's.
use super::file::{self, Glance};
use super::{file_name, lock_name, time};
use crate::files::{self, Links, Over};
use crate::text::clean;
use crate::wire::acp::{ListSessionsResponse, SessionId, SessionInfo};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::DirBuilder;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const NAME: &str = "sessions.jsonl";
const LOCK: &str = "sessions.lock";
/// What is read of an index, bytes: its end, some 400,000 openings.
const BYTES_AT_MOST: u64 = 64 << 20;
/// Lines from which on an index is looked through for those that say nothing any more.
const LINES_TO_TIDY: usize = 10_000;
/// Sessions of one page.
const PAGE: usize = 50;

/// The index in the user's folder. Nothing of it is held in memory: other processes write it too.
#[derive(Clone, Debug)]
pub struct Index {
    folder: PathBuf,
}

#[derive(Deserialize, Serialize)]
struct Line {
    id: String,
    cwd: String,
    /// Below `cwd`.
    file: String,
}

/// A session that the index names.
#[derive(Clone, Debug)]
struct Entry {
    id: SessionId,
    cwd: PathBuf,
    file: PathBuf,
}

/// Its path, for a message.
impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&clean(&self.folder.join(NAME).to_string_lossy()))
    }
}

/// A cursor that no list gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadCursor;

impl fmt::Display for BadCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("is not a cursor of this list")
    }
}

impl std::error::Error for BadCursor {}

/// Why a saved session is not deleted.
#[derive(Debug)]
pub enum DeleteError {
    /// Another process has it open.
    Locked,
    /// The disk's.
    Failed(io::Error),
}

impl fmt::Display for DeleteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked => f.write_str("open in another process"),
            Self::Failed(error) => write!(f, "the session file can't be removed: {error}"),
        }
    }
}

impl std::error::Error for DeleteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Locked => None,
            Self::Failed(error) => Some(error),
        }
    }
}

impl<E: Into<io::Error>> From<E> for DeleteError {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Index {
    /// That of the user whose folder this is. It need not be there.
    pub fn of_user(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Names a session's file, below its `cwd`. The last word about an id counts.
    ///
    /// # Errors
    /// The disk's; a path that is no text.
    pub fn add(&self, id: &SessionId, cwd: &Path, file: &Path) -> io::Result<()> {
        let text = |path: &Path| path.to_str().map(str::to_owned).ok_or(io::ErrorKind::InvalidInput);
        let line = Line { id: id.to_string(), cwd: text(cwd)?, file: text(file)? };
        let line = serde_json::to_string(&line)? + "\n";
        // What is in there is the user's alone.
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let folder = files::folder(&self.folder)?;
        let _lock = files::lock(folder.as_fd(), LOCK.as_ref())?;
        let mut file = files::append_below(&self.folder, NAME.as_ref())?;
        if !self.ends_whole()? {
            file.write_all(b"\n")?; // somebody was killed within a line
        }
        file.write_all(line.as_bytes())
    }

    fn ends_whole(&self) -> io::Result<bool> {
        let folder = files::folder(&self.folder)?;
        let mut file = files::open_below(folder.as_fd(), NAME.as_ref(), Links::Never)?;
        let mut last = [b'\n'];
        if file.seek(SeekFrom::End(0))? > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        Ok(last == [b'\n'])
    }

    /// A page of the sessions in which the user has said something, newest first; of all folders, or of `cwd`.
    ///
    /// A page begins behind the last session of the page before it, wherever that is by now, so sessions that come
    /// and go meanwhile make none of the others come twice or never.
    ///
    /// # Errors
    /// The cursor.
    pub fn list(&self, cwd: Option<&Path>, cursor: Option<&str>) -> Result<ListSessionsResponse, BadCursor> {
        let behind = cursor.map(Position::parse).transpose()?;
        if behind.is_none() {
            // A list that can't be tidied is as good as before.
            let _ = self.tidy(LINES_TO_TIDY);
        }
        let mut listed = self.listed(cwd);
        listed.sort_by(|(a, _), (b, _)| b.cmp(a));
        let start = behind.map_or(0, |behind| listed.partition_point(|(position, _)| *position >= behind));
        let rest = listed.len() - start;
        let page: Vec<_> = listed.into_iter().skip(start).take(PAGE).collect();
        let last = page.last().filter(|_| rest > PAGE).map(|(position, _)| position.to_cursor());
        Ok(ListSessionsResponse {
            sessions: page.into_iter().map(|(_, session)| session).collect(),
            next_cursor: last,
        })
    }

    /// The newest session of a folder in which the user has said something.
    pub fn newest(&self, cwd: &Path) -> Option<SessionId> {
        let newest = self.listed(Some(cwd)).into_iter().max_by(|(a, _), (b, _)| a.cmp(b));
        newest.map(|(position, _)| position.id)
    }

    /// Removes a saved session; nothing is done about one that is not there.
    ///
    /// # Errors
    /// It is open, or stays for another reason: the index can't be read, and nobody knows where it is.
    pub fn delete(&self, id: &SessionId) -> Result<(), DeleteError> {
        let Some(entry) = self.entries()?.remove(id) else { return Ok(()) };
        let parent = entry.file.parent().unwrap_or(Path::new(""));
        let folder = match files::folder_below(&entry.cwd, parent) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            folder => folder?,
        };
        let name = lock_name(id);
        let lock = files::try_lock(folder.as_fd(), &name)?.ok_or(DeleteError::Locked)?;
        let removed = match unlinkat(&folder, file_name(id), AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            removed => removed,
        };
        lock.remove(folder.as_fd(), &name)?;
        Ok(removed?)
    }

    fn listed(&self, cwd: Option<&Path>) -> Vec<(Position, SessionInfo)> {
        let mut is_wanted = SameFolder::new(cwd);
        let entries = self.entries().unwrap_or_else(|error| {
            log::warn!("which sessions are saved can't be read: {error}");
            HashMap::new()
        });
        entries.into_values().filter(|entry| is_wanted.is(&entry.cwd)).filter_map(Entry::look).collect()
    }

    /// The last word about each id.
    fn entries(&self) -> io::Result<HashMap<SessionId, Entry>> {
        let text = self.read()?;
        Ok(lines(&text).filter_map(Entry::parse).map(|entry| (entry.id.clone(), entry)).collect())
    }

    /// Nothing, if there is none. Of a huge one the end, since the last word about an id counts; the line it may begin
    /// within is no JSON.
    fn read(&self) -> io::Result<Vec<u8>> {
        let open = || files::open_below(files::folder(&self.folder)?.as_fd(), NAME.as_ref(), Links::Inside);
        let mut file = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            file => file?,
        };
        let before = file.metadata()?.len().saturating_sub(BYTES_AT_MOST);
        file.seek(SeekFrom::Start(before))?;
        let mut text = Vec::new();
        file.take(BYTES_AT_MOST).read_to_end(&mut text)?;
        Ok(text)
    }

    /// Writes a long index anew if most of it is of files that are gone, or was said again later.
    pub(super) fn tidy(&self, long: usize) -> io::Result<()> {
        if lines(&self.read()?).nth(long).is_none() {
            return Ok(());
        }
        let folder = files::folder(&self.folder)?;
        let _lock = files::lock(folder.as_fd(), LOCK.as_ref())?;
        let text = self.read()?;
        let mut seen = HashSet::new();
        let mut says_something = |line: &&[u8]| {
            Entry::parse(line).is_some_and(|entry| seen.insert(entry.id.clone()) && entry.is_there())
        };
        let all: Vec<&[u8]> = lines(&text).collect();
        let mut kept: Vec<&[u8]> = all.iter().rev().copied().filter(&mut says_something).collect();
        kept.reverse();
        if kept.len() * 2 <= all.len() {
            let mut text = kept.join(&b"\n"[..]);
            text.push(b'\n');
            files::save(folder.as_fd(), NAME.as_ref(), &[&text], Over::AFile)?;
        }
        Ok(())
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

impl Entry {
    fn parse(line: &[u8]) -> Option<Self> {
        let Line { id, cwd, file } = serde_json::from_slice(line).ok()?;
        let entry = Self { id: SessionId::parse(&id)?, cwd: cwd.into(), file: file.into() };
        (entry.file.file_name() == Some(&file_name(&entry.id))).then_some(entry)
    }

    fn is_there(&self) -> bool {
        self.cwd.join(&self.file).symlink_metadata().is_ok()
    }

    /// What the file's head says now; `None`: there is no such session any more, or nothing was said in it.
    fn look(self) -> Option<(Position, SessionInfo)> {
        let root = files::folder(&self.cwd).ok()?;
        let file = files::open_below(root.as_fd(), &self.file, Links::Never).ok()?;
        let Glance { title, updated_at, begun: true } = file::glance(file)? else { return None };
        let session = SessionInfo {
            session_id: self.id.clone(),
            cwd: self.cwd.to_string_lossy().into_owned(),
            title,
            updated_at: time(updated_at),
        };
        Some((Position { updated_at, id: self.id }, session))
    }
}

/// Whether a folder is the one that is wanted, however it is spelled.
struct SameFolder<'a> {
    wanted: Option<&'a Path>,
    resolved: Option<PathBuf>,
    known: HashMap<PathBuf, bool>,
}

impl<'a> SameFolder<'a> {
    fn new(wanted: Option<&'a Path>) -> Self {
        let resolved = wanted.and_then(|wanted| wanted.canonicalize().ok());
        Self { wanted, resolved, known: HashMap::new() }
    }

    fn is(&mut self, folder: &Path) -> bool {
        if self.wanted.is_none_or(|wanted| wanted == folder) {
            return true;
        }
        if let Some(known) = self.known.get(folder) {
            return *known;
        }
        let same = self.resolved.is_some() && folder.canonicalize().ok() == self.resolved;
        self.known.insert(folder.to_owned(), same);
        same
    }
}

/// Where a session stands in the list: by its time, then its id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    updated_at: SystemTime,
    id: SessionId,
}

impl Position {
    fn to_cursor(&self) -> String {
        let nanoseconds = self.updated_at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        BASE64_URL_SAFE_NO_PAD.encode(format!("{nanoseconds} {}", self.id))
    }

    fn parse(cursor: &str) -> Result<Self, BadCursor> {
        let read = || {
            let text = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
            let (nanoseconds, id) = text.split_once(' ')?;
            let nanoseconds: u128 = nanoseconds.parse().ok()?;
            let since = Duration::new(
                u64::try_from(nanoseconds / 1_000_000_000).ok()?,
                (nanoseconds % 1_000_000_000) as u32,
            );
            Some(Self { updated_at: UNIX_EPOCH.checked_add(since)?, id: SessionId::parse(id)? })
        };
        read().ok_or(BadCursor)
    }
}
