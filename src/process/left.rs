//! The processes of one process session: counted, signalled, waited for.
//!
//! The session's id stays ours because its first process, the shell, is not reaped. Signals go to groups, never to
//! single processes: a group is met at once, also while it forks. The id of another group than the shell's is pinned
//! by the member that was seen in it a microsecond before; ids are handed out in a circle, so a stranger could have
//! it only after a full turn of 32,768 forks.
use super::pipe::Pipe;
use super::poll::poll;
use super::system::{all_pids, exit_fd, is_alive_by_name, is_newest, session_of};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{self, Pid, Signal};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::time::{Duration, Instant};

/// How long TERM is given on cancel before KILL.
pub(super) const PATIENCE_ON_CANCEL: Duration = Duration::from_millis(5);
/// How long TERM is given on timeout before KILL.
pub(super) const PATIENCE_ON_TIMEOUT: Duration = Duration::from_secs(2);
/// A process in the kernel's hands may outlast KILL; nobody waits for it longer.
const KILL_LIMIT: Duration = Duration::from_millis(500);
/// Only where the kernel can't tell about an exit through a descriptor.
pub(super) const TICK: Duration = Duration::from_millis(10);
/// Waiting holds this many descriptors at most, for where 256 are all there are.
const WATCHED: usize = 64;

/// Processes that outlived their shell. Dropping it ends them, as on cancel.
///
/// The shell stays unreaped as long as this lives: an id that still names a dead child is never given to another.
pub struct Left {
    shell: Child,
    session: ProcessSession,
}

impl Left {
    pub(super) fn new(shell: Child, session: ProcessSession) -> Self {
        Self { shell, session }
    }

    /// How many still live.
    pub fn count(&self) -> usize {
        self.session.count()
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        self.session.end(PATIENCE_ON_CANCEL, &mut Pipe::closed(&mut ()));
        let _ = self.shell.try_wait(); // never waits for one that can't die
    }
}

/// A process session whose leader is our unreaped child.
#[derive(Clone, Copy)]
pub(super) struct ProcessSession(pub(super) Pid);

impl ProcessSession {
    /// How many live.
    pub(super) fn count(self) -> usize {
        self.living().count()
    }

    /// Waits until nobody lives or `until` comes, taking output meanwhile. How many live then.
    pub(super) fn settle(self, until: Instant, pipe: &mut Pipe<'_>) -> usize {
        if is_newest(self.0) || self.count() == 0 {
            return 0; // nearly always, so it costs one look
        }
        while self.watch(until, pipe) && Instant::now() < until {}
        self.count()
    }

    /// Ends every member: TERM, `patience`, KILL. Says how many withstood: those of another user (`sudo`) and those
    /// that sit in the kernel.
    pub(super) fn end(self, patience: Duration, pipe: &mut Pipe<'_>) -> usize {
        // A stopped process acts on TERM only when it is continued.
        self.signal(&[Signal::TERM, Signal::CONT]);
        let kill_at = Instant::now() + patience;
        while self.watch(kill_at, pipe) && Instant::now() < kill_at {}
        let give_up_at = Instant::now() + KILL_LIMIT;
        loop {
            self.signal(&[Signal::KILL]);
            if !self.watch(give_up_at, pipe) || Instant::now() >= give_up_at {
                return self.count();
            }
        }
    }

    /// Waits until those that live now are gone or `until` comes. False: there is nobody to wait for.
    fn watch(self, until: Instant, pipe: &mut Pipe<'_>) -> bool {
        let mut watched: Vec<_> = self.living().filter(Member::is_ours).take(WATCHED).collect();
        let any = !watched.is_empty();
        while !watched.is_empty() && Instant::now() < until {
            let blind = watched.iter().any(|member| member.exit.is_none());
            let wake_at = if blind { until.min(Instant::now() + TICK) } else { until };
            pipe.wait(watched.iter().filter_map(|member| Some(member.exit.as_ref()?.as_fd())), wake_at);
            watched.retain(Member::is_alive);
        }
        any
    }

    /// To every group of the session, each once: many take a second TERM as "at once". The shell's own goes first,
    /// before the time that looking takes.
    fn signal(self, signals: &[Signal]) {
        let send = |group| {
            for signal in signals {
                let _ = process::kill_process_group(group, *signal); // gone already, or not ours
            }
        };
        send(self.0);
        let mut groups = vec![self.0];
        for pid in self.pids() {
            // Zombies too: they show the group of a chain that forks and ends.
            if let Ok(group) = process::getpgid(Some(pid))
                && !groups.contains(&group)
            {
                groups.push(group);
                send(group);
            }
        }
    }

    fn living(self) -> impl Iterator<Item = Member> {
        // Opened first and asked then: what has the session's id now is what the descriptor stands for.
        let member = move |pid| Member::open(pid).filter(|member| self.has(pid) && member.is_alive());
        self.pids().filter_map(member)
    }

    /// Zombies included. A stranger costs one `getsid`, a tenth of reading its `/proc/PID/stat`.
    fn pids(self) -> impl Iterator<Item = Pid> {
        all_pids().filter(move |pid| self.has(*pid))
    }

    fn has(self, pid: Pid) -> bool {
        session_of(pid) == Some(self.0.as_raw_pid())
    }
}

struct Member {
    pid: Pid,
    /// Ready when it has ended. `None` where the kernel has no such descriptor.
    exit: Option<OwnedFd>,
}

impl Member {
    fn open(pid: Pid) -> Option<Self> {
        match exit_fd(pid) {
            Err(Errno::SRCH) => None,
            exit => Some(Self { pid, exit: exit.ok() }),
        }
    }

    /// Not another user's: no use in waiting for that.
    fn is_ours(&self) -> bool {
        process::test_kill_process(self.pid) != Err(Errno::PERM)
    }

    /// A zombie is not.
    fn is_alive(&self) -> bool {
        let Some(exit) = &self.exit else { return is_alive_by_name(self.pid) };
        let mut polled = [PollFd::new(exit, PollFlags::IN)];
        poll(&mut polled, Some(Duration::ZERO)).is_ok() && polled[0].revents().is_empty()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_the_newest_until_another_starts() {
        #[expect(clippy::disallowed_methods, reason = "any child will do")]
        let start = || Command::new("true").spawn().unwrap();
        let mut newest = None;
        for _ in 0..10_000 {
            let mut child = start(); // others start things too
            if is_newest(Pid::from_child(&child)) {
                newest = Some(child);
                break;
            }
            child.wait().unwrap();
        }
        let mut newest = newest.expect("for a moment nobody else starts anything");
        let mut next = start();
        assert!(!is_newest(Pid::from_child(&newest)));
        next.wait().unwrap();
        newest.wait().unwrap();
    }
}
