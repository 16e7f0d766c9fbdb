//! A file that grows, and gives its name to a new one.
use super::lock_file::is_named;
use super::save::rename_over;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;

/// Gives `file`, which was opened as `name` of `folder`, the name `old`, where nothing or a regular file is that is
/// then gone. Nothing is done where somebody else has done it since, or is at it: of two processes that both find
/// the file too large, the second would take the first one's new file for it.
///
/// # Errors
/// There is something else under the name `old`, no permission.
pub fn rotate(file: &File, folder: BorrowedFd<'_>, name: &OsStr, old: &OsStr) -> io::Result<()> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return Ok(()),
        locked => locked?, // until the file is closed, which has lost its name by then
    }
    if is_named(file, folder, name) { rename_over(folder, name, old) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::super::{append_below, folder};
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    fn open(place: &Path, content: &str) -> File {
        let mut file = append_below(place, "log".as_ref()).unwrap();
        file.write_all(content.as_bytes()).unwrap();
        file
    }

    fn rotate(place: &Path, file: &File) -> io::Result<()> {
        super::rotate(file, folder(place).unwrap().as_fd(), "log".as_ref(), "log.1".as_ref())
    }

    fn read(place: &Path, name: &str) -> Option<String> {
        fs::read_to_string(place.join(name)).ok()
    }

    #[test]
    fn of_two_who_find_it_too_large_only_one_gives_it_another_name() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path();
        open(place, "older");
        rotate(place, &open(place, "")).unwrap();
        let (one, two) = (open(place, "old"), open(place, ""));
        rotate(place, &one).unwrap();
        let _new = open(place, "new");
        rotate(place, &two).unwrap(); // while the first has it open still
        drop(one);
        rotate(place, &two).unwrap();
        assert_eq!(read(place, "log.1").as_deref(), Some("old"));
        assert_eq!(read(place, "log").as_deref(), Some("new"));
    }

    #[test]
    fn only_a_regular_file_gives_way() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path();
        let file = open(place, "full");
        let target = place.join("target");
        File::create(&target).unwrap();
        symlink(&target, place.join("log.1")).unwrap();
        assert!(rotate(place, &file).is_err());
        fs::remove_file(place.join("log.1")).unwrap();
        fs::create_dir(place.join("log.1")).unwrap();
        assert!(rotate(place, &file).is_err());
        assert_eq!(read(place, "target").as_deref(), Some(""));
        assert_eq!(read(place, "log").as_deref(), Some("full"));
    }
}
