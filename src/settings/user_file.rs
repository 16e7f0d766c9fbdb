//! Reading a file in the user's own folder.
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Largest settings or login file, bytes.
const AT_MOST: u64 = 1 << 20;

/// A file of the user's own, whole. Links are followed wherever they lead (dotfiles are kept elsewhere), but a
/// pipe or a device neither blocks nor counts.
///
/// # Errors
/// Not found, not a regular file, larger than [`AT_MOST`], unreadable.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = open_without_waiting(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(AT_MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > AT_MOST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 1 MiB"));
    }
    Ok(bytes)
}

#[cfg(unix)]
fn open_without_waiting(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(open(path, flags, Mode::empty())?.into())
}

#[cfg(not(unix))]
fn open_without_waiting(path: &Path) -> io::Result<File> {
    File::open(path)
}
