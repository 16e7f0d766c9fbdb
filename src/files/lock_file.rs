//! One process at a time.
use super::below::{Links, check_regular, open};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, fstat, statat, unlinkat};
use rustix::io::{Errno, retry_on_intr};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A lock, held until dropped.
#[derive(Debug)]
pub struct LockFile {
    held: OwnedFd,
}

impl LockFile {
    /// Takes the name away while the lock is held, then gives the lock back.
    ///
    /// # Errors
    /// It can't be removed.
    pub fn remove(self, folder: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(folder, name, AtFlags::empty())?)
    }

    /// Whether it is still the file `name` of `folder` that is locked: somebody may have cleared the folder.
    pub fn is_named(&self, folder: BorrowedFd<'_>, name: &OsStr) -> bool {
        is_named(&self.held, folder, name)
    }
}

/// [`try_lock`], waiting for who holds it. For what is held for a moment only.
///
/// # Errors
/// As there.
pub fn lock(folder: BorrowedFd<'_>, name: &OsStr) -> io::Result<LockFile> {
    take(folder, name, FlockOperation::LockExclusive)?.ok_or_else(|| io::ErrorKind::WouldBlock.into())
}

/// Locks the file `name` of `folder`, made where missing, never through a link; `None`: another one holds it.
///
/// # Errors
/// A link, not a regular file, no permission.
pub fn try_lock(folder: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<LockFile>> {
    take(folder, name, FlockOperation::NonBlockingLockExclusive)
}

fn take(folder: BorrowedFd<'_>, name: &OsStr, how: FlockOperation) -> io::Result<Option<LockFile>> {
    let flags = OFlags::RDWR | OFlags::CREATE;
    loop {
        let file = open(folder, name.as_ref(), flags, Mode::from_raw_mode(0o600), Links::Never)?;
        check_regular(&file)?;
        match retry_on_intr(|| flock(&file, how)) {
            Err(Errno::WOULDBLOCK) => return Ok(None),
            locked => locked?,
        }
        // Who opened it just before its holder removed it has locked a file without a name.
        if is_named(&file, folder, name) {
            return Ok(Some(LockFile { held: file }));
        }
    }
}

/// Whether `file` is the one that is called `name` in `folder`.
pub(super) fn is_named(file: impl AsFd, folder: BorrowedFd<'_>, name: &OsStr) -> bool {
    match (fstat(file), statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)) {
        (Ok(held), Ok(named)) => (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::folder;
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use std::thread;

    #[test]
    fn a_removed_lock_file_never_lets_two_in() {
        let place = tempfile::tempdir().unwrap();
        let folder = folder(place.path()).unwrap();
        let (inside, entered) = (AtomicU32::new(0), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while entered.load(SeqCst) < 500 {
                        if let Some(lock) = try_lock(folder.as_fd(), "lock".as_ref()).unwrap() {
                            assert_eq!(inside.fetch_add(1, SeqCst), 0, "two inside");
                            entered.fetch_add(1, SeqCst);
                            thread::yield_now();
                            inside.fetch_sub(1, SeqCst);
                            lock.remove(folder.as_fd(), "lock".as_ref()).unwrap();
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn who_waits_for_a_lock_gets_it_when_its_holder_goes() {
        let place = tempfile::tempdir().unwrap();
        let folder = folder(place.path()).unwrap();
        let held = AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let _lock = lock(folder.as_fd(), "lock".as_ref()).unwrap();
                        assert_eq!(held.fetch_add(1, SeqCst), 0, "two hold it");
                        held.fetch_sub(1, SeqCst);
                    }
                });
            }
        });
    }

    #[test]
    fn a_lock_whose_file_was_taken_away_is_named_no_more() {
        let place = tempfile::tempdir().unwrap();
        let folder = folder(place.path()).unwrap();
        let (folder, name) = (folder.as_fd(), OsStr::new("lock"));
        let held = try_lock(folder, name).unwrap().unwrap();
        assert!(held.is_named(folder, name));
        std::fs::remove_file(place.path().join("lock")).unwrap();
        assert!(!held.is_named(folder, name));
        let other = try_lock(folder, name).unwrap().unwrap();
        assert!(other.is_named(folder, name) && !held.is_named(folder, name));
    }

    #[test]
    fn a_held_lock_says_so_and_is_given_back() {
        let place = tempfile::tempdir().unwrap();
        let folder = folder(place.path()).unwrap();
        let lock = || try_lock(folder.as_fd(), "lock".as_ref()).unwrap();
        let held = lock();
        assert!(held.is_some() && lock().is_none());
        drop(held);
        assert!(lock().is_some());
        symlink("elsewhere", place.path().join("bait")).unwrap();
        assert!(try_lock(folder.as_fd(), "bait".as_ref()).is_err());
    }
}
