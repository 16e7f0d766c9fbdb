//! Files in folders that others may fill and change while we look.
use std::io;
use std::path::Path;

/// The whole of a regular file below `root`, at most `limit` bytes. Links are followed while they stay below
/// `root`. Never blocks on a pipe or device.
///
/// # Errors
/// Not found, outside, not a regular file, larger than `limit`, unreadable.
pub fn read_below(_root: &Path, _relative: &Path, _limit: u64) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}
