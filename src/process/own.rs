//! Our own process: stdout kept for ourselves, signals as bytes, the environment hidden.
use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;

/// What each signal writes into the socket given to [`signals_to`].
pub const SIGNAL_BYTE: u8 = b'X';

/// The real stdout, closed on exec. From then on fd 1 is stderr, so that whoever prints can't break the protocol.
///
/// # Errors
/// No descriptor is free.
pub fn take_stdout() -> io::Result<File> {
    let real = rustix::stdio::stdout().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(real.into())
}

/// From now on each SIGTERM, SIGINT and SIGHUP writes a [`SIGNAL_BYTE`] into `socket`, without waiting, and does
/// nothing else. SIGCHLD gets its default back: a launcher that ignored it would have the kernel throw away how
/// our children ended.
///
/// # Errors
/// No descriptor is free.
pub fn signals_to(socket: &UnixStream) -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    super::system::reset_signal(libc::SIGCHLD);
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, socket.try_clone()?)?;
    }
    Ok(())
}

/// The same for SIGQUIT, for who has more to put right than to end: a terminal.
///
/// # Errors
/// No descriptor is free.
pub fn quit_signal_to(socket: &UnixStream) -> io::Result<()> {
    signal_hook::low_level::pipe::register(signal_hook::consts::SIGQUIT, socket.try_clone()?).map(drop)
}

/// A write past the file size limit (`ulimit -f`) fails like one to a full disk, instead of ending the process. A
/// command gets the signal's default back.
pub fn survive_file_size_limit() {
    super::system::ignore_signal(libc::SIGXFSZ);
}

/// Threads share two heaps. glibc would give each of the first sixteen its own: 134 MB of address space, a page or more,
/// 20 µs, and what one thread frees another can't have. Of what Bob's threads do little is allocating. Must come before
/// any thread.
pub fn share_heaps() {
    super::system::limit_heaps(2);
}

/// Other processes of the same user can't read our environment and memory any more (Linux; elsewhere nothing is
/// done). Has no effect on root's.
///
/// # Errors
/// The kernel refused.
pub fn hide_environment() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, getpid, kill_process};
    use std::io::Read;

    #[test]
    fn each_signal_is_a_byte() {
        let (mut read, write) = UnixStream::pair().unwrap();
        signals_to(&write).unwrap();
        for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
            kill_process(getpid(), signal).unwrap();
            let mut byte = [0];
            read.read_exact(&mut byte).unwrap();
            assert_eq!(byte, [SIGNAL_BYTE]);
        }
    }
}
