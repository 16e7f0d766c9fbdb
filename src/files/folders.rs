//! What Bob writes below a folder of its own: never through a link, at any component.
use super::below::{FOLDER, Links, check_regular, folder, open};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

/// A regular file below `root`, to write at its end; made (0600), and the folders on the way, where missing. A
/// `.bob` that is made gets a `.gitignore` of `*`.
///
/// # Errors
/// No folder `root` (it is never made), a link at any component, not a regular file, no permission.
pub fn append_below(root: &Path, relative: &Path) -> io::Result<File> {
    let (Some(parent), Some(name)) = (relative.parent(), relative.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let parent = make_folders(root, parent)?;
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
    let fd = open(parent.as_fd(), name.as_ref(), flags, Mode::from_raw_mode(0o600), Links::Never)?;
    check_regular(&fd)?;
    Ok(fd.into())
}

/// A folder below `root`, made where missing, with those on the way. A `.bob` that is made gets a `.gitignore` of
/// `*`: what Bob keeps there is nobody's to commit.
///
/// # Errors
/// No folder `root` (it is never made), a `..`, a link or something else at any component, no permission.
pub fn make_folders(root: &Path, relative: &Path) -> io::Result<OwnedFd> {
    make_folders_as(root, relative, Mode::from_raw_mode(0o777))
}

/// [`make_folders`], the last of them for nobody else to look into where it is made (0700).
///
/// # Errors
/// As there.
pub fn make_private_folder(root: &Path, relative: &Path) -> io::Result<OwnedFd> {
    make_folders_as(root, relative, Mode::from_raw_mode(0o700))
}

fn make_folders_as(root: &Path, relative: &Path, last: Mode) -> io::Result<OwnedFd> {
    let mut here = folder(root)?;
    let mut names = names(relative)?.into_iter().peekable();
    while let Some(name) = names.next() {
        let mode = if names.peek().is_some() { Mode::from_raw_mode(0o777) } else { last };
        let (next, made) = enter(here.as_fd(), name, mode)?;
        if made && name == ".bob" {
            ignore_all(next.as_fd())?;
        }
        here = next;
    }
    Ok(here)
}

/// A folder below `root` that is there.
///
/// # Errors
/// Not found, a `..`, a link or something else at any component, no permission.
pub fn folder_below(root: &Path, relative: &Path) -> io::Result<OwnedFd> {
    let mut here = folder(root)?;
    for name in names(relative)? {
        here = step(here.as_fd(), name)?;
    }
    Ok(here)
}

/// Puts a `.gitignore` of `*` into a folder that has none.
///
/// # Errors
/// It can't be made or written.
pub fn ignore_all(folder: BorrowedFd<'_>) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    match open(folder, ".gitignore".as_ref(), flags, Mode::from_raw_mode(0o644), Links::Never) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => File::from(made?).write_all(b"*\n"),
    }
}

/// The folder at an absolute path without links.
pub(super) fn resolved_folder(path: &Path) -> io::Result<OwnedFd> {
    folder_below(Path::new("/"), path.strip_prefix("/").map_err(io::Error::other)?)
}

/// [`resolved_folder`], made where missing.
pub(super) fn made_folder(path: &Path) -> io::Result<(OwnedFd, Made)> {
    let mut here = folder(Path::new("/"))?;
    let mut made = Made(Vec::new());
    for name in names(path.strip_prefix("/").map_err(io::Error::other)?)? {
        let (next, is_new) = enter(here.as_fd(), name, Mode::from_raw_mode(0o777))?;
        let parent = std::mem::replace(&mut here, next);
        if is_new {
            made.0.push((parent, name.to_owned()));
        }
    }
    Ok((here, made))
}

/// Folders that were made for a file, each with its parent. Dropped, those that are empty are gone again.
pub(super) struct Made(Vec<(OwnedFd, OsString)>);

impl Made {
    /// They have what they were made for.
    pub(super) fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for (parent, name) in self.0.iter().rev() {
            let _ = unlinkat(parent, name, AtFlags::REMOVEDIR); // somebody may have put something into it
        }
    }
}

fn names(relative: &Path) -> io::Result<Vec<&OsStr>> {
    let names = relative.components().filter(|component| *component != Component::CurDir);
    names
        .map(|component| match component {
            Component::Normal(name) => Ok(name),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        })
        .collect()
}

/// The folder `name`, and whether it was made.
fn enter(here: BorrowedFd<'_>, name: &OsStr, mode: Mode) -> io::Result<(OwnedFd, bool)> {
    match step(here, name) {
        Err(Errno::NOENT) => {}
        found => return Ok((found?, false)),
    }
    match mkdirat(here, name, mode) {
        Err(Errno::EXIST) => Ok((step(here, name)?, false)),
        made => {
            made?;
            Ok((step(here, name)?, true))
        }
    }
}

fn step(here: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    openat(here, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn a_log_is_made_with_its_folders_and_grows() {
        let cwd = tempfile::tempdir().unwrap();
        for line in ["one\n", "two\n"] {
            append_below(cwd.path(), ".bob/bob.log".as_ref()).unwrap().write_all(line.as_bytes()).unwrap();
        }
        let log = cwd.path().join(".bob/bob.log");
        assert_eq!(fs::read_to_string(&log).unwrap(), "one\ntwo\n");
        assert_eq!(log.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(cwd.path().join(".bob/.gitignore")).unwrap(), "*\n");
    }

    #[test]
    fn a_private_folder_is_private_where_it_is_made() {
        let cwd = tempfile::tempdir().unwrap();
        let mode = |path: &str| cwd.path().join(path).metadata().unwrap().mode() & 0o777;
        make_private_folder(cwd.path(), "a/b/private".as_ref()).unwrap();
        assert_eq!(mode("a/b/private"), 0o700);
        let public = mode("a");
        assert_eq!(public, mode("a/b"));
        make_private_folder(cwd.path(), "a".as_ref()).unwrap();
        assert_eq!(mode("a"), public, "what was there stays as it is");
        folder_below(cwd.path(), "a/b".as_ref()).unwrap();
        symlink("a", cwd.path().join("link")).unwrap();
        for wrong in ["link", "link/b", "none", "../x"] {
            assert!(folder_below(cwd.path(), wrong.as_ref()).is_err(), "{wrong}");
        }
        assert!(!cwd.path().join("none").exists());
    }

    #[test]
    fn a_folder_that_was_there_gets_no_gitignore() {
        let cwd = tempfile::tempdir().unwrap();
        fs::create_dir(cwd.path().join(".bob")).unwrap();
        append_below(cwd.path(), ".bob/bob.log".as_ref()).unwrap();
        assert!(!cwd.path().join(".bob/.gitignore").exists());
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let place = tempfile::tempdir().unwrap();
        let bashrc = place.path().join("bashrc");
        File::create(&bashrc).unwrap();
        for (link, target) in [
            ("log/.bob/bob.log", bashrc.as_path()),
            ("dangling/.bob/bob.log", Path::new("../../new")),
            ("inside/.bob/bob.log", Path::new("other.log")),
            ("folder/.bob", place.path()),
        ] {
            let link = place.path().join(link);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(target, &link).unwrap();
        }
        for project in ["log", "dangling", "inside", "folder"] {
            let got = append_below(&place.path().join(project), ".bob/bob.log".as_ref());
            assert!(got.is_err(), "{project}: {got:?}");
        }
        assert_eq!(fs::read(&bashrc).unwrap(), b"");
        assert!(!place.path().join("new").exists() && !place.path().join("bob.log").exists());
    }

    #[test]
    fn a_cwd_that_is_gone_is_not_made_and_none_is_left() {
        let place = tempfile::tempdir().unwrap();
        let gone = place.path().join("gone");
        assert_eq!(append_below(&gone, "log".as_ref()).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(append_below(place.path(), "../log".as_ref()).is_err());
        assert!(append_below(place.path(), "".as_ref()).is_err());
        assert!(!gone.exists());
    }

    #[test]
    fn a_pipe_is_no_log() {
        use rustix::fs::{CWD, FileType, mknodat};
        let cwd = tempfile::tempdir().unwrap();
        let pipe = cwd.path().join("bob.log");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert!(append_below(cwd.path(), "bob.log".as_ref()).is_err());
    }
}
