//! Replacing a file at once, and only if it is still what was looked at.
use super::below::{Links, open, open_below};
use super::folders::{made_folder, resolved_folder};
use parking_lot::Mutex;
use rustix::fs::{self, AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

/// Why a file was not replaced. It is then as it was.
#[derive(Debug)]
pub enum Refused {
    /// It is not what the plan was made against.
    Changed,
    /// It can't be written.
    Failed(io::Error),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Changed => f.write_str("it changed meanwhile"),
            Refused::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Refused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Refused::Changed => None,
            Refused::Failed(error) => Some(error),
        }
    }
}

impl<E: Into<io::Error>> From<E> for Refused {
    fn from(error: E) -> Self {
        Refused::Failed(error.into())
    }
}

/// Writes `new` to `path`, absolute and without links, if what is there is still `planned` (`None`: nothing, and
/// missing folders are made). Another program's save in between is never lost where the disk can swap two names.
///
/// Mode bits stay, and the owner where that is allowed; a new file's mode is the umask's. The file is a new one, so
/// another hard link to the old one, its extended attributes and its access list don't follow.
///
/// # Errors
/// [`Refused`]; nothing was written then, and neither a temporary file nor a new folder is left.
pub fn replace(path: &Path, planned: Option<&[u8]>, new: &[u8]) -> Result<(), Refused> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::ISDIR.into());
    };
    // All names are taken from one handle, so that a folder swapped meanwhile changes nothing.
    one_at_a_time(path, || {
        let Some(planned) = planned else {
            let (parent, made) = made_folder(parent)?;
            create(&parent, name, new)?;
            made.keep();
            return Ok(());
        };
        match resolved_folder(parent) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(Refused::Changed),
            parent => exchange(&parent?, name, planned, new),
        }
    })
}

fn create(parent: &OwnedFd, name: &OsStr, new: &[u8]) -> Result<(), Refused> {
    let mut beside = Beside::write(parent, Mode::from_raw_mode(0o666), new)?;
    match beside.become_new(name) {
        Err(Errno::EXIST) => Err(Refused::Changed),
        other => Ok(other?),
    }
}

fn exchange(parent: &OwnedFd, name: &OsStr, planned: &[u8], new: &[u8]) -> Result<(), Refused> {
    // Private until the mode it is to have is known.
    let beside = Beside::write(parent, Mode::from_raw_mode(0o600), new)?;
    compare(parent, name, planned, &beside.file)?;
    swap_and_compare(beside, name, planned)
}

/// Swaps the two names and looks at what came out: a program that knows nothing of our locks may have saved after
/// the first comparison. It then gets its file back.
fn swap_and_compare(mut beside: Beside<'_>, name: &OsStr, planned: &[u8]) -> Result<(), Refused> {
    match beside.swap(name) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => return Ok(beside.replace(name)?),
        swapped => swapped?,
    }
    if beside.holds(planned) {
        return Ok(());
    }
    if let Err(error) = beside.swap(name) {
        beside.keep(); // it is the other program's
        return Err(error.into());
    }
    Err(Refused::Changed)
}

/// Whether the file is still `planned`; then `beside` gets its owner and mode.
fn compare(parent: &OwnedFd, name: &OsStr, planned: &[u8], beside: &File) -> Result<(), Refused> {
    let old = match open_below(parent.as_fd(), name.as_ref(), Links::Never) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(Refused::Changed),
        Err(e) if e.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => return Err(Refused::Changed),
        old => old?,
    };
    // A rename asks nobody: without this a read-only file would be replaced.
    fs::accessat(parent, name, fs::Access::WRITE_OK, AtFlags::EACCESS)?;
    inherit(&old, beside)?;
    if same(old, planned)? { Ok(()) } else { Err(Refused::Changed) }
}

fn inherit(old: &File, new: &File) -> io::Result<()> {
    let (was, now) = (fs::fstat(old)?, fs::fstat(new)?);
    let mut mode = Mode::from_raw_mode(was.st_mode) & Mode::from_raw_mode(0o7777);
    if (was.st_uid, was.st_gid) != (now.st_uid, now.st_gid) {
        let (user, group) = (fs::Uid::from_raw(was.st_uid), fs::Gid::from_raw(was.st_gid));
        if fs::fchown(new, Some(user), Some(group)).is_err() {
            mode &= Mode::from_raw_mode(0o777); // setuid would now mean us
        }
    }
    Ok(fs::fchmod(new, mode)?)
}

/// Whether a file holds exactly these bytes. The file is not held in memory: it may have grown to any size.
fn same(mut file: File, mut bytes: &[u8]) -> io::Result<bool> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = match file.read(&mut buffer) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        match bytes.strip_prefix(&buffer[..read]) {
            Some(_) if read == 0 => return Ok(bytes.is_empty()),
            Some(rest) => bytes = rest,
            None => return Ok(false),
        }
    }
}

/// New content on the disk that is to hold it. Dropped, it is gone.
struct Beside<'a> {
    parent: &'a OwnedFd,
    file: File,
    /// `None`: without a name yet, so that nothing stays if we are killed while writing.
    name: Option<OsString>,
}

impl<'a> Beside<'a> {
    fn write(parent: &'a OwnedFd, mode: Mode, content: &[u8]) -> io::Result<Self> {
        let beside = match unnamed(parent, mode) {
            Some(file) => Self { parent, file, name: None },
            None => Self::named(parent, mode)?,
        };
        (&beside.file).write_all(content)?;
        // The swap of names doesn't make the disk write it out first, and a power cut could leave it empty.
        beside.file.sync_data()?;
        Ok(beside)
    }

    fn named(parent: &'a OwnedFd, mode: Mode) -> io::Result<Self> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
        loop {
            let name = free_name();
            match open(parent.as_fd(), name.as_ref(), flags, mode, Links::Never) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                made => return Ok(Self { parent, file: made?.into(), name: Some(name) }),
            }
        }
    }

    /// Takes a name that nobody has.
    fn become_new(&mut self, name: &OsStr) -> Result<(), Errno> {
        let Some(old) = &self.name else { return link(&self.file, self.parent, name) };
        match fs::renameat_with(self.parent, old, self.parent, name, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => self.become_new_or_replace(name)?,
            other => other?,
        }
        self.name = None;
        Ok(())
    }

    /// Where the disk knows no rename that spares a file: asked just before.
    fn become_new_or_replace(&self, name: &OsStr) -> Result<(), Errno> {
        match fs::statat(self.parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(Errno::EXIST),
            Err(_) => fs::renameat(self.parent, self.own_name(), self.parent, name),
        }
    }

    fn replace(&mut self, name: &OsStr) -> Result<(), Errno> {
        fs::renameat(self.parent, self.own_name(), self.parent, name)?;
        self.name = None;
        Ok(())
    }

    fn swap(&mut self, name: &OsStr) -> Result<(), Errno> {
        while self.name.is_none() {
            let free = free_name();
            match link(&self.file, self.parent, &free) {
                Err(Errno::EXIST) => {}
                linked => {
                    linked?;
                    self.name = Some(free);
                }
            }
        }
        fs::renameat_with(self.parent, self.own_name(), self.parent, name, RenameFlags::EXCHANGE)
    }

    /// Whether what stands under its name is this content (after a swap: the old file).
    fn holds(&self, content: &[u8]) -> bool {
        let file = open_below(self.parent.as_fd(), self.own_name().as_ref(), Links::Never);
        file.and_then(|file| same(file, content)).unwrap_or(false)
    }

    /// Leaves the file under its name.
    fn keep(&mut self) {
        self.name = None;
    }

    fn own_name(&self) -> &OsStr {
        self.name.as_deref().unwrap_or_default()
    }
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // Nothing better can be done about a name that can't be removed.
            let _ = fs::unlinkat(self.parent, name, AtFlags::empty());
        }
    }
}

/// `None`: the disk knows no files without a name, or there is no procfs to name them by.
#[cfg(target_os = "linux")]
fn unnamed(parent: &OwnedFd, mode: Mode) -> Option<File> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = File::from(fs::openat(parent, ".", flags, mode).ok()?);
    Path::new(&by_descriptor(&file)).exists().then_some(file)
}

#[cfg(not(target_os = "linux"))]
fn unnamed(_: &OwnedFd, _: Mode) -> Option<File> {
    None
}

/// Gives a file without a name one that nobody has.
fn link(file: &File, parent: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    fs::linkat(CWD, by_descriptor(file), parent, name, AtFlags::SYMLINK_FOLLOW)
}

fn by_descriptor(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn free_name() -> OsString {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!(".bob-{}-{}.tmp", std::process::id(), NEXT.fetch_add(1, Relaxed)).into()
}

type Locks = HashMap<String, Arc<Mutex<()>>>;

/// One writer at a time for each path. Where a disk takes `A` and `a` for one name they must share a lock;
/// elsewhere sharing harms nobody.
fn one_at_a_time<T>(path: &Path, work: impl FnOnce() -> T) -> T {
    static LOCKS: LazyLock<Mutex<Locks>> = LazyLock::new(Mutex::default);
    let key = path.to_string_lossy().to_lowercase();
    let lock = LOCKS.lock().entry(key.clone()).or_default().clone();
    let result = {
        let _turn = lock.lock();
        work()
    };
    let mut locks = LOCKS.lock();
    if Arc::strong_count(&lock) == 2 {
        locks.remove(&key); // the map's and ours: nobody waits
    }
    result
}

#[cfg(test)]
mod tests {
    use super::super::{open_resolved, read_all};
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::path::PathBuf;
    use std::thread;
    use tempfile::TempDir;

    /// A folder whose path has no links.
    fn place() -> (TempDir, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().canonicalize().unwrap();
        (place, path)
    }

    fn write(path: &Path, text: &str) {
        File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn text(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    fn names(folder: &Path) -> Vec<OsString> {
        let mut names: Vec<_> = folder.read_dir().unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn folders_made_for_a_file_that_was_not_written_are_gone_again() {
        let (_place, root) = place();
        std::fs::create_dir(root.join("there")).unwrap();
        let long = "x".repeat(300); // no name of a file
        assert!(replace(&root.join("there/a/b").join(&long), None, b"new").is_err());
        assert_eq!((names(&root), names(&root.join("there")).len()), (vec!["there".into()], 0));
        replace(&root.join("there/a/b/file"), None, b"new").unwrap();
        assert_eq!(text(&root.join("there/a/b/file")), "new");
    }

    #[test]
    fn mode_bits_stay_and_nothing_else_is_left() {
        for mode in [0o755, 0o600, 0o640, 0o4711] {
            let (_place, root) = place();
            let path = root.join("file");
            write(&path, "old");
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            replace(&path, Some(b"old"), b"new").unwrap();
            assert_eq!((text(&path).as_str(), path.metadata().unwrap().mode() & 0o7777), ("new", mode));
            assert_eq!(names(&root), ["file"]);
        }
    }

    #[test]
    fn the_owner_stays_where_we_may_set_it() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: only root may give files away");
        }
        let (_place, root) = place();
        let path = root.join("file");
        write(&path, "old");
        std::os::unix::fs::chown(&path, Some(1234), Some(4321)).unwrap();
        replace(&path, Some(b"old"), b"new").unwrap();
        let owner = path.metadata().unwrap();
        assert_eq!((owner.uid(), owner.gid()), (1234, 4321));
    }

    #[test]
    fn a_new_file_gets_its_folders_and_the_umask() {
        let (_place, root) = place();
        let path = root.join("a/b/new");
        replace(&path, None, b"text").unwrap();
        write(&root.join("plain"), "");
        let mode = |path: &Path| path.metadata().unwrap().mode();
        assert_eq!((text(&path).as_str(), mode(&path)), ("text", mode(&root.join("plain"))));
        assert_eq!(names(&root.join("a/b")), ["new"]);
    }

    #[test]
    fn what_is_not_as_planned_is_not_replaced() {
        let (_place, root) = place();
        let at = |name: &str| root.join(name);
        write(&at("file"), "now");
        symlink("file", at("link")).unwrap();
        for (name, planned) in [
            ("file", Some("old")),
            ("file", Some("now and more")),
            ("file", Some("no")),
            ("file", Some("")),
            ("file", None),
            ("gone", Some("")),
            ("gone/too", Some("")),
            ("link", Some("now")),
            ("link", None),
        ] {
            let got = replace(&at(name), planned.map(str::as_bytes), b"new");
            assert!(matches!(got, Err(Refused::Changed)), "{name} {planned:?}: {got:?}");
        }
        assert_eq!(text(&at("file")), "now");
        assert_eq!(names(&root), ["file", "link"]);
    }

    #[test]
    fn folders_pipes_and_ways_through_links_are_not_replaced() {
        let (_place, root) = place();
        let at = |name: &str| root.join(name);
        std::fs::create_dir(at("folder")).unwrap();
        write(&at("folder/file"), "old");
        symlink("folder", at("swapped")).unwrap();
        fs::mknodat(CWD, at("pipe"), fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        for (name, planned) in
            [("folder", Some("")), ("pipe", Some("")), ("swapped/file", Some("old")), ("swapped/new", None)]
        {
            let got = replace(&at(name), planned.map(str::as_bytes), b"new");
            assert!(got.is_err(), "{name}");
        }
        assert!(replace(Path::new("/"), Some(b""), b"new").is_err());
        assert_eq!(names(&at("folder")), ["file"]);
        assert_eq!(text(&at("folder/file")), "old");
    }

    #[test]
    fn a_read_only_file_or_folder_is_left_alone() {
        if rustix::process::geteuid().is_root() {
            return println!("skipped: root may write everywhere");
        }
        let (_place, root) = place();
        let path = root.join("folder/file");
        std::fs::create_dir(root.join("folder")).unwrap();
        write(&path, "old");
        for (locked, mode, back) in [(path.clone(), 0o444, 0o644), (root.join("folder"), 0o555, 0o755)] {
            std::fs::set_permissions(&locked, PermissionsExt::from_mode(mode)).unwrap();
            assert!(matches!(replace(&path, Some(b"old"), b"new"), Err(Refused::Failed(_))));
            std::fs::set_permissions(&locked, PermissionsExt::from_mode(back)).unwrap();
        }
        assert_eq!((text(&path).as_str(), names(&root.join("folder"))), ("old", vec!["file".into()]));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn who_is_killed_while_writing_leaves_nothing() {
        let (_place, root) = place();
        let parent = resolved_folder(&root).unwrap();
        let beside = Beside::write(&parent, Mode::from_raw_mode(0o600), b"new").unwrap();
        if beside.name.is_some() {
            return println!("skipped: this disk knows no files without a name");
        }
        assert!(names(&root).is_empty());
    }

    /// The way for disks that know no files without a name.
    #[test]
    fn a_named_file_beside_serves_as_well() {
        let (_place, root) = place();
        let parent = resolved_folder(&root).unwrap();
        let beside = || {
            let beside = Beside::named(&parent, Mode::from_raw_mode(0o600)).unwrap();
            (&beside.file).write_all(b"new").unwrap();
            beside
        };
        drop(beside());
        assert!(names(&root).is_empty(), "gone when dropped");
        beside().become_new("file".as_ref()).unwrap();
        assert_eq!(beside().become_new("file".as_ref()), Err(Errno::EXIST));
        assert_eq!(beside().become_new_or_replace("file".as_ref()), Err(Errno::EXIST));
        write(&root.join("file"), "old");
        let mut swapped = beside();
        swapped.swap("file".as_ref()).unwrap();
        assert!(swapped.holds(b"old"));
        drop(swapped);
        assert_eq!((text(&root.join("file")).as_str(), names(&root)), ("new", vec!["file".into()]));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_leaves_the_old_file_and_nothing_else() {
        use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
        let (_place, root) = place();
        if mount("tmpfs", &root, "tmpfs", MountFlags::empty(), c"size=64k").is_err() {
            return println!("skipped: no permission to mount a small disk");
        }
        struct Unmount<'a>(&'a Path);
        impl Drop for Unmount<'_> {
            fn drop(&mut self) {
                let _ = unmount(self.0, UnmountFlags::DETACH);
            }
        }
        let _unmount = Unmount(&root);
        let path = root.join("file");
        write(&path, "old");
        let large = vec![b'x'; 1 << 20];
        for (path, planned) in [(&path, Some(&b"old"[..])), (&root.join("new"), None)] {
            match replace(path, planned, &large) {
                Err(Refused::Failed(e)) => assert_eq!(e.kind(), io::ErrorKind::StorageFull),
                other => panic!("{other:?}"),
            }
        }
        let mut beside = Beside::named(&resolved_folder(&root).unwrap(), Mode::from_raw_mode(0o600))
            .map(|beside| (&beside.file).write_all(&large).is_err());
        assert!(beside.as_mut().is_ok_and(|failed| *failed));
        assert_eq!((text(&path).as_str(), names(&root)), ("old", vec!["file".into()]));
    }

    #[test]
    fn edits_of_one_file_all_land() {
        const EACH: u32 = 40;
        let (_place, root) = place();
        let path = root.join("n");
        write(&path, "0");
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    let mut landed = 0;
                    while landed < EACH {
                        let old = read_all(open_resolved(&path).unwrap(), 100).unwrap();
                        let n: u32 = String::from_utf8(old.clone()).unwrap().parse().unwrap();
                        match replace(&path, Some(&old), (n + 1).to_string().as_bytes()) {
                            Ok(()) => landed += 1,
                            Err(Refused::Changed) => {}
                            Err(Refused::Failed(e)) => panic!("{e}"),
                        }
                    }
                });
            }
        });
        assert_eq!(text(&path), (6 * EACH).to_string());
        assert_eq!(names(&root), ["n"]);
    }

    /// A program that knows nothing of our lock saves in the last moment, in place or by rename.
    #[test]
    fn a_save_between_comparison_and_swap_is_given_back() {
        for by_rename in [false, true] {
            let (_place, root) = place();
            let path = root.join("file");
            write(&path, "old");
            let parent = resolved_folder(&root).unwrap();
            let beside = Beside::write(&parent, Mode::from_raw_mode(0o600), b"new").unwrap();
            compare(&parent, "file".as_ref(), b"old", &beside.file).unwrap();
            if by_rename {
                write(&root.join("save"), "editor's");
                std::fs::rename(root.join("save"), &path).unwrap();
            } else {
                write(&path, "editor's");
            }
            let got = swap_and_compare(beside, "file".as_ref(), b"old");
            assert!(matches!(got, Err(Refused::Changed)), "{got:?}");
            assert_eq!((text(&path).as_str(), names(&root)), ("editor's", vec!["file".into()]));
        }
    }
}
