//! Opening what lies below a folder, whatever links someone put there.
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, fstat, openat, readlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path};

/// What an opening does about symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Follows them while they stay below the root at every step. An absolute link never does.
    Inside,
    /// Refuses one at any component.
    Never,
}

/// Links followed on one path, as in the kernel.
pub const LINKS_AT_MOST: u32 = 40;

#[cfg(target_os = "linux")]
pub(super) const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
pub(super) const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// The whole of a regular file below `root`, at most `limit` bytes. Links are followed while they stay below
/// `root`. Never blocks on a pipe or device.
///
/// # Errors
/// Not found, outside, not a regular file, larger than `limit`, unreadable.
pub fn read_below(root: &Path, relative: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_all(open_below(folder(root)?.as_fd(), relative, Links::Inside)?, limit)
}

/// A regular file below `root`, to read.
///
/// # Errors
/// Not found, outside, not a regular file, unreadable, [`Links::Never`] and a link.
pub fn open_below(root: BorrowedFd<'_>, relative: &Path, links: Links) -> io::Result<File> {
    // Looked at before it is opened: the mere opening of a device may act on it, and a writer that waits at a
    // pipe would go on, and die as soon as we close our end.
    #[cfg(target_os = "linux")]
    check_regular(&open(root, relative, OFlags::PATH, Mode::empty(), links)?)?;
    let fd = open(root, relative, OFlags::RDONLY, Mode::empty(), links)?;
    check_regular(&fd)?;
    Ok(fd.into())
}

/// A regular file, to read, by an absolute path without links (`tools::paths::resolve`).
///
/// # Errors
/// As [`open_below`]; a link at any component, put there since the path was resolved, is one.
pub fn open_resolved(path: &Path) -> io::Result<File> {
    let relative = path.strip_prefix("/").map_err(io::Error::other)?;
    open_below(folder(Path::new("/"))?.as_fd(), relative, Links::Never)
}

/// All of a file.
///
/// # Errors
/// [`io::ErrorKind::FileTooLarge`] past `limit` bytes, whatever its size was before; unreadable.
pub fn read_all(file: File, limit: u64) -> io::Result<Vec<u8>> {
    if file.metadata()?.len() > limit {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?; // it may grow meanwhile
    if bytes.len() as u64 > limit { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

/// The names in a folder below `root`, sorted. Links are followed while they stay below `root`.
///
/// # Errors
/// Not found, outside, not a folder, unreadable, more than `limit` names.
pub fn names_below(root: &Path, relative: &Path, limit: usize) -> io::Result<Vec<OsString>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let fd = open(folder(root)?.as_fd(), relative, flags, Mode::empty(), Links::Inside)?;
    let mut names = Vec::new();
    for entry in Dir::new(fd)? {
        let entry = entry?;
        match entry.file_name().to_bytes() {
            b"." | b".." => {}
            _ if names.len() == limit => return Err(io::Error::other(format!("more than {limit} names"))),
            name => names.push(OsStr::from_bytes(name).to_owned()),
        }
    }
    names.sort();
    Ok(names)
}

/// A handle on a folder, to start from. Only for paths that are trusted: links are followed.
///
/// # Errors
/// Not found, not a folder, no permission.
pub fn folder(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, FOLDER, Mode::empty())?)
}

/// An error for all but a regular file. On procfs nothing is one: what looks so is a window into a process.
pub(super) fn check_regular(fd: &OwnedFd) -> io::Result<()> {
    match FileType::from_raw_mode(fstat(fd)?.st_mode) {
        FileType::RegularFile if !is_on_procfs(fd)? => Ok(()),
        FileType::Directory => Err(io::ErrorKind::IsADirectory.into()),
        _ => Err(io::Error::other("not a regular file")),
    }
}

#[cfg(target_os = "linux")]
fn is_on_procfs(fd: &OwnedFd) -> io::Result<bool> {
    Ok(rustix::fs::fstatfs(fd)?.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

#[cfg(not(target_os = "linux"))]
fn is_on_procfs(_: &OwnedFd) -> io::Result<bool> {
    Ok(false)
}

/// Opens whatever is there, never waiting for the other end of a pipe. `flags` as for `open`; `mode` counts with
/// `CREATE`, which takes [`Links::Never`].
pub(super) fn open(
    root: BorrowedFd<'_>,
    relative: &Path,
    flags: OFlags,
    mode: Mode,
    links: Links,
) -> io::Result<OwnedFd> {
    match by_kernel(root, relative, flags, mode, links) {
        // No such call, a sandbox that forbids what it doesn't know, or names that don't come to rest.
        Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => by_hand(root, relative, flags, mode, links),
        other => other,
    }
    .map_err(|error| match error {
        // In the system's words it is an "invalid cross-device link".
        Errno::XDEV => io::Error::new(io::ErrorKind::CrossesDevices, "a link leads outside, or is absolute"),
        other => other.into(),
    })
}

/// A pipe must not hold us up, a terminal not become ours, a child not inherit it.
fn careful(flags: OFlags) -> OFlags {
    #[cfg(target_os = "linux")]
    if flags.contains(OFlags::PATH) {
        return flags | OFlags::CLOEXEC; // nothing is opened, and openat2 refuses the rest
    }
    flags | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY
}

#[cfg(target_os = "linux")]
fn by_kernel(
    root: BorrowedFd<'_>,
    relative: &Path,
    flags: OFlags,
    mode: Mode,
    links: Links,
) -> Result<OwnedFd, Errno> {
    use rustix::fs::{ResolveFlags, openat2};
    const TRIES: u32 = 8;
    let resolve = ResolveFlags::BENEATH
        | match links {
            Links::Inside => ResolveFlags::NO_MAGICLINKS,
            Links::Never => ResolveFlags::NO_SYMLINKS,
        };
    let mut tries = 1;
    loop {
        // After a rename somewhere else the kernel can't vouch for a `..` and says AGAIN.
        match openat2(root, relative, careful(flags), mode, resolve) {
            Err(Errno::AGAIN) if tries < TRIES => tries += 1,
            other => return other,
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn by_kernel(_: BorrowedFd<'_>, _: &Path, _: OFlags, _: Mode, _: Links) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

/// Component by component, none followed: a link is read and its text walked. `..` goes back to the folder we came
/// from, never to what the disk by now says is above.
fn by_hand(
    root: BorrowedFd<'_>,
    relative: &Path,
    flags: OFlags,
    mode: Mode,
    links: Links,
) -> Result<OwnedFd, Errno> {
    let mut folders: Vec<OwnedFd> = Vec::new();
    let mut todo = Vec::new();
    push_components(&mut todo, relative)?;
    let mut followed = 0;
    while let Some(name) = todo.pop() {
        if name == ".." {
            folders.pop().ok_or(Errno::XDEV)?;
            continue;
        }
        let here = folders.last().map_or(root, AsFd::as_fd);
        let last = todo.is_empty();
        let wanted = if last { careful(flags) } else { FOLDER } | OFlags::NOFOLLOW;
        match openat(here, &name, wanted, mode) {
            Ok(fd) if last && !is_link(&fd)? => return Ok(fd),
            Ok(fd) if !last => folders.push(fd),
            // A link is LOOP as the last one, NOTDIR as a folder, and opened itself where only looked at.
            Ok(_) | Err(Errno::LOOP | Errno::NOTDIR) => {
                let target = readlinkat(here, &name, Vec::new()).map_err(|_| Errno::NOTDIR)?;
                followed += 1;
                if links == Links::Never || followed > LINKS_AT_MOST {
                    return Err(Errno::LOOP);
                }
                push_components(&mut todo, Path::new(&OsString::from_vec(target.into_bytes())))?;
            }
            Err(error) => return Err(error),
        }
    }
    Err(Errno::ISDIR)
}

fn is_link(fd: &OwnedFd) -> Result<bool, Errno> {
    Ok(FileType::from_raw_mode(fstat(fd)?.st_mode) == FileType::Symlink)
}

/// The last first, as a stack to walk from.
fn push_components(todo: &mut Vec<OsString>, path: &Path) -> Result<(), Errno> {
    for component in path.components().rev() {
        match component {
            Component::Normal(_) | Component::ParentDir => todo.push(component.as_os_str().to_owned()),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return Err(Errno::XDEV),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{RenameFlags, mknodat, renameat_with};
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::{fs, thread};
    use tempfile::TempDir;

    type Open = fn(BorrowedFd<'_>, &Path, OFlags, Mode, Links) -> Result<OwnedFd, Errno>;
    #[cfg(target_os = "linux")]
    const WAYS: [(&str, Open); 2] = [("kernel", by_kernel), ("hand", by_hand)];
    #[cfg(not(target_os = "linux"))]
    const WAYS: [(&str, Open); 1] = [("hand", by_hand)];

    /// `project/`, and beside it `outside/file`, which must not be reached.
    fn place() -> TempDir {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("project/docs/deep")).unwrap();
        fs::create_dir(place.path().join("outside")).unwrap();
        write(&place.path().join("outside/file"), "SECRET");
        write(&place.path().join("project/docs/guide"), "fine");
        place
    }

    fn write(path: &Path, text: &str) {
        io::Write::write_all(&mut File::create(path).unwrap(), text.as_bytes()).unwrap();
    }

    fn fifo(path: &Path) {
        mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    }

    fn read(way: Open, root: &OwnedFd, path: &str, links: Links) -> io::Result<String> {
        let fd = way(root.as_fd(), path.as_ref(), OFlags::RDONLY, Mode::empty(), links)?;
        check_regular(&fd)?;
        io::read_to_string(File::from(fd))
    }

    #[test]
    fn traps_of_a_clone_are_not_opened() {
        let place = place();
        let project = place.path().join("project");
        fifo(&project.join("pipe"));
        let _socket = UnixListener::bind(project.join("socket")).unwrap();
        for (link, target) in [
            ("environ", "/proc/self/environ"),
            ("environ-up", "../../../../../../../../proc/self/environ"),
            ("AGENTS.md", "/dev/stdin"),
            ("tty", "/dev/tty"),
            ("to-pipe", "pipe"),
            ("ssh", "../outside/file"),
            ("ssh-absolute", "/etc/passwd"),
            ("folder", "../outside"),
            ("loop", "loop"),
            ("dangling", "nowhere"),
            ("good", "docs/guide"),
            ("good-up", "docs/deep/../guide"),
            ("docs/up", "../docs/guide"),
            ("docs/out-and-in", "../../project/docs/guide"),
        ] {
            symlink(target, project.join(link)).unwrap();
        }
        symlink(project.join("docs/guide"), project.join("absolute-inside")).unwrap();
        let root = folder(&project).unwrap();
        for trap in [
            "environ",
            "environ-up",
            "AGENTS.md",
            "tty",
            "pipe",
            "to-pipe",
            "socket",
            "ssh",
            "ssh-absolute",
            "folder/file",
            "loop",
            "dangling",
            "docs",
            "docs/out-and-in",
            "absolute-inside",
            "../outside/file",
            "docs/../../outside/file",
            "/etc/passwd",
            "docs/guide/x",
            "",
        ] {
            for links in [Links::Inside, Links::Never] {
                for (name, way) in WAYS {
                    let got = read(way, &root, trap, links);
                    assert!(got.is_err(), "{name} {trap} {links:?}: {got:?}");
                }
                assert!(open_below(root.as_fd(), trap.as_ref(), links).is_err(), "{trap}");
            }
            assert!(read_below(&project, trap.as_ref(), 1 << 20).is_err(), "{trap}");
        }
        for good in ["docs/guide", "good", "good-up", "docs/up", "./docs/./guide", "docs/deep/../guide"] {
            for (name, way) in WAYS {
                assert_eq!(read(way, &root, good, Links::Inside).unwrap(), "fine", "{name} {good}");
            }
            assert_eq!(read_below(&project, good.as_ref(), 4).unwrap(), b"fine", "{good}");
        }
        for linked in ["good", "good-up", "docs/up"] {
            assert!(open_below(root.as_fd(), linked.as_ref(), Links::Never).is_err(), "{linked}");
        }
    }

    #[test]
    fn looking_by_hand_at_a_link_sees_what_it_leads_to() {
        let place = place();
        symlink("docs/guide", place.path().join("project/good")).unwrap();
        let root = folder(&place.path().join("project")).unwrap();
        let look = |links| by_hand(root.as_fd(), "good".as_ref(), OFlags::PATH, Mode::empty(), links);
        assert!(check_regular(&look(Links::Inside).unwrap()).is_ok());
        assert_eq!(look(Links::Never).unwrap_err(), Errno::LOOP);
    }

    /// By `fstat` `/proc/self/environ` is a regular file, and with the root `/` it is even below it.
    #[test]
    #[cfg(target_os = "linux")]
    fn nothing_on_procfs_is_a_regular_file() {
        for path in ["proc/self/environ", "proc/cpuinfo"] {
            assert!(read_below("/".as_ref(), path.as_ref(), 1 << 20).is_err(), "{path}");
            assert!(open_resolved(&Path::new("/").join(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn a_file_past_the_limit_is_an_error() {
        let place = place();
        let read = |limit| read_below(place.path(), "project/docs/guide".as_ref(), limit);
        assert_eq!(read(3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read(4).unwrap(), b"fine");
    }

    #[test]
    fn names_are_those_of_a_folder_below() {
        let place = place();
        let project = place.path().join("project");
        symlink("../outside", project.join("folder")).unwrap();
        symlink("docs", project.join("link")).unwrap();
        for folder in ["docs", "link"] {
            assert_eq!(names_below(&project, folder.as_ref(), 2).unwrap(), ["deep", "guide"]);
        }
        assert!(names_below(&project, "docs".as_ref(), 1).is_err());
        for wrong in ["folder", "docs/guide", "nowhere", ".."] {
            assert!(names_below(&project, wrong.as_ref(), 9).is_err(), "{wrong}");
        }
    }

    /// Swaps two names until told to stop. The folder is held, not named: through a swapped name the swapper
    /// itself would carry the secret inside.
    fn swap(folder: &OwnedFd, a: &str, b: &str, stop: &AtomicBool) {
        while !stop.load(SeqCst) {
            let _ = renameat_with(folder, a, folder, b, RenameFlags::EXCHANGE);
        }
    }

    /// Also when an assertion fails: else the swappers would never end.
    struct Stop<'a>(&'a AtomicBool);

    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }

    #[test]
    fn no_swap_of_names_leads_outside() {
        let place = place();
        let at = |name: &str| place.path().join("project").join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        write(&at("a/b/file"), "fine");
        write(&at("a/file"), "fine");
        symlink("../outside", at("evil")).unwrap();
        symlink(place.path().join("outside"), at("a/evil")).unwrap();
        symlink(place.path().join("outside/file"), at("a/evil-file")).unwrap();
        fifo(&at("a/pipe"));
        let (root, a) = (folder(&at("")).unwrap(), folder(&at("a")).unwrap());
        for (name, way) in WAYS {
            let stop = AtomicBool::new(false);
            let mut fine = 0;
            thread::scope(|scope| {
                let _stop = Stop(&stop);
                for (folder, x, y) in [(&a, "b", "evil"), (&a, "file", "evil-file"), (&root, "a", "evil")] {
                    let stop = &stop;
                    scope.spawn(move || swap(folder, x, y, stop));
                }
                let mut tries = 0;
                while tries < 3_000 || fine < 20 {
                    tries += 1;
                    for path in ["a/b/file", "a/file", "a/b/../file", "a/b/../../a/file"] {
                        for links in [Links::Inside, Links::Never] {
                            if let Ok(text) = read(way, &root, path, links) {
                                assert_eq!(text, "fine", "{name} {path} {links:?}");
                                fine += 1;
                            }
                        }
                    }
                }
            });
        }
    }
}
