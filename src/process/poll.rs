//! Waiting for descriptors.
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// What to wait for on a descriptor. An error or a hang-up of the other side counts always.
#[derive(Clone, Copy, Debug)]
pub enum Watch<'a> {
    /// Something to read, or its end.
    Input(BorrowedFd<'a>),
    /// Room for something to write: in a pipe, for a page.
    Output(BorrowedFd<'a>),
    /// That the other side is gone, and nothing else.
    HangUp(BorrowedFd<'a>),
}

/// Waits until one of `watched` is ready or `timeout` is over (`None`: for ever) and says which are. None may be:
/// after a signal it returns early. What is `None` is left out.
///
/// # Errors
/// Those of `poll(2)`: too many descriptors, no memory.
pub fn wait<const N: usize>(
    watched: [Option<Watch<'_>>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut polled: Vec<_> = watched.iter().flatten().map(|watch| watch.to_poll()).collect();
    poll(&mut polled, timeout)?;
    let mut ready = polled.iter().map(|fd| !fd.revents().is_empty());
    Ok(watched.map(|watch| watch.is_some() && ready.next() == Some(true)))
}

impl<'a> Watch<'a> {
    fn to_poll(self) -> PollFd<'a> {
        match self {
            Watch::Input(fd) => PollFd::from_borrowed_fd(fd, PollFlags::IN),
            Watch::Output(fd) => PollFd::from_borrowed_fd(fd, PollFlags::OUT),
            Watch::HangUp(fd) => PollFd::from_borrowed_fd(fd, PollFlags::empty()),
        }
    }
}

/// `poll(2)`. A signal ends it early, with nothing ready.
pub(super) fn poll(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<(), Errno> {
    // What doesn't fit is for ever.
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match rustix::event::poll(fds, timeout.as_ref()) {
        Ok(_) => Ok(()),
        Err(Errno::INTR) => {
            fds.iter_mut().for_each(PollFd::clear_revents);
            Ok(())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn says_which_are_ready() {
        let (quiet, _kept) = io::pipe().unwrap();
        let (written, mut writer) = io::pipe().unwrap();
        writer.write_all(b"x").unwrap();
        let watched = [Some(Watch::Input(quiet.as_fd())), None, Some(Watch::Input(written.as_fd()))];
        assert_eq!(wait(watched, None).unwrap(), [false, false, true]);
        let hang_up = [Some(Watch::HangUp(written.as_fd()))];
        assert_eq!(wait(hang_up, Some(Duration::ZERO)).unwrap(), [false], "input is no hang-up");
    }

    #[test]
    fn a_reader_that_left_is_a_hang_up() {
        let (reader, writer) = io::pipe().unwrap();
        let hang_up = [Some(Watch::HangUp(writer.as_fd()))];
        assert_eq!(wait(hang_up, Some(Duration::ZERO)).unwrap(), [false]);
        drop(reader);
        assert_eq!(wait(hang_up, None).unwrap(), [true]);
    }

    #[test]
    fn a_timeout_ends_it() {
        assert_eq!(wait([None], Some(Duration::from_millis(1))).unwrap(), [false]);
    }
}
