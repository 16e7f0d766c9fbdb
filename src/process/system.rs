//! What Linux and macOS do differently, and signals' defaults.
use rustix::io::Errno;
use rustix::process::{self, Pid};
use std::os::fd::OwnedFd;

/// Gives a signal its default action. Safe between fork and exec. What can't be changed stays.
pub(super) fn reset_signal(signal: i32) {
    #[expect(unsafe_code, reason = "neither std nor rustix sets a signal's action")]
    // SAFETY: `signal` is async-signal-safe, and the default action runs no code of ours.
    unsafe {
        libc::signal(signal, libc::SIG_DFL)
    };
}

/// Has this process ignore a signal from now on.
pub(super) fn ignore_signal(signal: i32) {
    #[expect(unsafe_code, reason = "neither std nor rustix sets a signal's action")]
    // SAFETY: ignoring runs no code of ours.
    unsafe {
        libc::signal(signal, libc::SIG_IGN)
    };
}

/// Has the C library's allocator make at most so many heaps; others than glibc's have no such number.
pub(super) fn limit_heaps(most: i32) {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "the allocator is C's")]
    // SAFETY: sets a number of the allocator's own.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, most)
    };
    #[cfg(not(target_env = "gnu"))]
    let _ = most;
}

/// The signals this process ignores. Not for between fork and exec.
pub(super) fn ignored_signals() -> Vec<i32> {
    (1..=LAST_SIGNAL).filter(|signal| is_ignored(*signal)).collect()
}

fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    #[expect(unsafe_code, reason = "neither std nor rustix reads a signal's action")]
    // SAFETY: a null action changes nothing; the old one is written, or, without such a signal, stays zero, which is a
    // valid value of this plain struct.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

/// The process session of any process; 0 for those of the kernel. rustix's `getsid` takes 0 for impossible.
pub(super) fn session_of(pid: Pid) -> Option<i32> {
    #[expect(unsafe_code, reason = "see above")]
    // SAFETY: takes and gives a number.
    let session = unsafe { libc::getsid(pid.as_raw_pid()) };
    (session >= 0).then_some(session)
}

/// `SIGKILL`, or `signal 42` for one without a common name.
pub fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

/// No system has more signals.
const LAST_SIGNAL: i32 = 64;

#[cfg(target_os = "linux")]
pub(super) use linux::{all_pids, exit_fd, is_alive_by_name, is_newest};
#[cfg(target_os = "macos")]
pub(super) use macos::{all_pids, exit_fd, is_alive_by_name, is_newest};

#[cfg(target_os = "linux")]
mod linux {
    use super::{Errno, OwnedFd, Pid, process};

    /// Ready when the process has ended. Before Linux 5.3 there is no such descriptor.
    pub(in crate::process) fn exit_fd(pid: Pid) -> Result<OwnedFd, Errno> {
        #[cfg(test)]
        if NO_PIDFD.get() {
            return Err(Errno::NOSYS);
        }
        process::pidfd_open(pid, process::PidfdFlags::empty())
    }

    #[cfg(test)]
    thread_local! {
        /// Lets a test play a kernel without process descriptors.
        pub(in crate::process) static NO_PIDFD: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }

    /// A zombie is not.
    pub(in crate::process) fn is_alive_by_name(pid: Pid) -> bool {
        let stat = std::fs::read(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default();
        // The name may hold anything, also `) Z`: the state is behind the last `)`.
        let state = stat.iter().rposition(|b| *b == b')').and_then(|i| stat.get(i + 2));
        !matches!(state, None | Some(b'Z' | b'X'))
    }

    /// Nothing was started anywhere since this process, which is not reaped yet: then it has left nobody behind. The last
    /// word of `/proc/loadavg` is the id that was given last, and an id in use is given to nobody else.
    pub(in crate::process) fn is_newest(pid: Pid) -> bool {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        load.trim_end().rsplit(' ').next() == Some(pid.as_raw_pid().to_string().as_str())
    }

    pub(in crate::process) fn all_pids() -> impl Iterator<Item = Pid> {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
    }
}

#[cfg(all(test, target_os = "linux"))]
pub(super) use linux::NO_PIDFD;

#[cfg(target_os = "macos")]
mod macos {
    use super::{Errno, OwnedFd, Pid, process};
    use rustix::event::kqueue::{Event, EventFilter, EventFlags, ProcessEvents, kevent, kqueue};

    /// Ready when the process has ended: a kqueue with one thing to say can be polled.
    pub(in crate::process) fn exit_fd(pid: Pid) -> Result<OwnedFd, Errno> {
        let queue = kqueue()?;
        let filter = EventFilter::Proc { pid, flags: ProcessEvents::EXIT };
        let event = Event::new(filter, EventFlags::ADD, std::ptr::null_mut());
        #[expect(unsafe_code, reason = "an event may name a descriptor")]
        // SAFETY: this one names none.
        unsafe {
            kevent(&queue, &[event], &mut [] as &mut [Event], None)?;
        }
        Ok(queue)
    }

    /// Zombies have no session here, so they are never asked about.
    pub(in crate::process) fn is_alive_by_name(pid: Pid) -> bool {
        process::test_kill_process(pid).is_ok()
    }

    /// Nobody tells here.
    pub(in crate::process) fn is_newest(_: Pid) -> bool {
        false
    }

    pub(in crate::process) fn all_pids() -> impl Iterator<Item = Pid> {
        let mut pids = vec![0_i32; 16384];
        let bytes = i32::try_from(size_of_val(&pids[..])).unwrap_or(i32::MAX);
        #[expect(unsafe_code, reason = "rustix has no call that lists process ids")]
        // SAFETY: it writes at most `bytes` bytes, which the buffer has.
        let found = unsafe { libc::proc_listallpids(pids.as_mut_ptr().cast(), bytes) };
        pids.truncate(usize::try_from(found).unwrap_or(0));
        pids.into_iter().filter_map(Pid::from_raw)
    }
}
