//! A file of Bob's own, written whole: who reads it, or looks after a crash, sees the old one or the new one.
use super::below::{Links, check_regular, open};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, fsync, openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{BorrowedFd, OwnedFd};

/// What may stand under the name of a file that is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Nothing.
    Nothing,
    /// Nothing, or a regular file.
    AFile,
}

/// Something that was saved and that a power cut may still take.
#[derive(Debug)]
pub struct Unsynced {
    file: File,
    folder: OwnedFd,
}

impl Unsynced {
    /// Waits until file and name are on the disk.
    ///
    /// # Errors
    /// The disk's.
    pub fn sync(self) -> io::Result<()> {
        self.file.sync_data()?;
        // The handle held may be one that only names the folder.
        let folder = openat(&self.folder, ".", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(fsync(folder)?)
    }
}

/// Writes `pieces`, one behind the other, as the file `name` of `folder` (0600). Only one writer at a time may save
/// under a name: what another left behind of its try is taken away.
///
/// # Errors
/// There is something else under the name ([`io::ErrorKind::AlreadyExists`] for [`Over::Nothing`]), no room, no
/// permission. What was there is there then, and no temporary file is.
pub fn save(folder: BorrowedFd<'_>, name: &OsStr, pieces: &[&[u8]], over: Over) -> io::Result<Unsynced> {
    let beside = beside(name);
    let file = make(folder, &beside)?;
    let saved = write(&file, pieces).and_then(|()| match over {
        Over::Nothing => rename_new(folder, &beside, name),
        Over::AFile => rename_over(folder, &beside, name),
    });
    if let Err(error) = saved {
        let _ = unlinkat(folder, &beside, AtFlags::empty()); // it may have its name already
        return Err(error);
    }
    Ok(Unsynced { file, folder: folder.try_clone_to_owned()? })
}

/// The name a file has while it is written.
fn beside(name: &OsStr) -> OsString {
    let mut beside = OsString::from(".");
    beside.push(name);
    beside.push(".tmp");
    beside
}

fn make(folder: BorrowedFd<'_>, beside: &OsStr) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let make = || open(folder, beside.as_ref(), flags, Mode::from_raw_mode(0o600), Links::Never);
    let file = match make() {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            unlinkat(folder, beside, AtFlags::empty())?;
            make()?
        }
        file => file?,
    };
    check_regular(&file)?;
    Ok(file.into())
}

fn write(mut file: &File, pieces: &[&[u8]]) -> io::Result<()> {
    pieces.iter().try_for_each(|piece| file.write_all(piece))
}

/// Gives a file of `folder` another name, where nothing or a regular file is, which is then gone.
///
/// # Errors
/// There is something else under the name, no permission.
pub(super) fn rename_over(folder: BorrowedFd<'_>, old: &OsStr, new: &OsStr) -> io::Result<()> {
    match statat(folder, new, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => {}
        there if FileType::from_raw_mode(there?.st_mode) == FileType::RegularFile => {}
        _ => return Err(io::Error::other("there is something else than a file under its name")),
    }
    Ok(renameat(folder, old, folder, new)?)
}

/// Gives a file of `folder` another name, which nobody has.
///
/// # Errors
/// Somebody has it ([`io::ErrorKind::AlreadyExists`]), there is no such file, no permission.
pub fn rename_new(folder: BorrowedFd<'_>, old: &OsStr, new: &OsStr) -> io::Result<()> {
    let renamed = match renameat_with(folder, old, folder, new, RenameFlags::NOREPLACE) {
        // Where the disk knows no rename that spares a file: asked just before.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            match statat(folder, new, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Err(Errno::EXIST),
                Err(_) => renameat(folder, old, folder, new),
            }
        }
        other => other,
    };
    Ok(renamed?)
}

#[cfg(test)]
mod tests {
    use super::super::folder;
    use super::*;
    use std::fs;
    use std::os::fd::AsFd;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::path::Path;

    fn names(folder: &Path) -> Vec<OsString> {
        let mut names: Vec<_> = folder.read_dir().unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    }

    fn text(folder: &Path) -> String {
        fs::read_to_string(folder.join("file")).unwrap()
    }

    #[test]
    fn a_file_is_made_and_replaced_whole() {
        let place = tempfile::tempdir().unwrap();
        let folder = folder(place.path()).unwrap();
        let save = |pieces: &[&[u8]], over| super::save(folder.as_fd(), "file".as_ref(), pieces, over);
        save(&[b"one ", b"", b"two"], Over::Nothing).unwrap().sync().unwrap();
        assert_eq!(text(place.path()), "one two");
        assert_eq!(save(&[b"x"], Over::Nothing).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(text(place.path()), "one two");
        save(&[b"three"], Over::AFile).unwrap();
        assert_eq!(text(place.path()), "three");
        assert_eq!(place.path().join("file").metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(names(place.path()), ["file"]);
        let unsynced = save(&[b"four"], Over::AFile).unwrap();
        save(&[b"five"], Over::AFile).unwrap();
        unsynced.sync().unwrap();
        assert_eq!(text(place.path()), "five", "an older one may be synced late");
    }

    #[test]
    fn only_a_regular_file_is_replaced() {
        let place = tempfile::tempdir().unwrap();
        let here = folder(place.path()).unwrap();
        let save = |name: &str| super::save(here.as_fd(), name.as_ref(), &[b"new"], Over::AFile);
        fs::create_dir(place.path().join("folder")).unwrap();
        symlink("target", place.path().join("link")).unwrap();
        rustix::fs::mkfifoat(&here, "pipe", Mode::RWXU).unwrap();
        for name in ["folder", "link", "pipe"] {
            assert!(save(name).is_err(), "{name}");
        }
        assert_eq!(names(place.path()), ["folder", "link", "pipe"]);
        symlink("target", place.path().join(".file.tmp")).unwrap();
        save("file").unwrap();
        assert_eq!(
            names(place.path()),
            ["file", "folder", "link", "pipe"],
            "a link in the way is taken away"
        );
    }

    #[test]
    fn a_new_name_is_nobodys() {
        let place = tempfile::tempdir().unwrap();
        let folder = folder(place.path()).unwrap();
        for name in ["a", "b"] {
            super::save(folder.as_fd(), name.as_ref(), &[name.as_bytes()], Over::Nothing).unwrap();
        }
        let rename = |old: &str, new: &str| rename_new(folder.as_fd(), old.as_ref(), new.as_ref());
        assert_eq!(rename("a", "b").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        rename("a", "c").unwrap();
        assert_eq!(rename("a", "d").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(names(place.path()), ["b", "c"]);
    }
}
