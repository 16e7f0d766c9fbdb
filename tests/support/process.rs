//! What can be seen of a process from outside: whether it is there, what it holds, whether it rests.
use super::HANG;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::fs;
use std::time::Instant;

/// Sends a signal to a process the test knows the id of.
pub fn signal(id: u32, signal: Signal) {
    kill_process(pid(id), signal).expect("it is ours, and there");
}

/// Whether a process has ended; one that nobody has reaped yet counts.
pub fn is_gone(id: u32) -> bool {
    fs::read_to_string(format!("/proc/{id}/stat")).map_or(true, |stat| matches!(state(&stat), 'Z' | 'X'))
}

/// Waits for the end of a process that need not be a child.
#[track_caller]
pub fn wait_gone(id: u32) {
    let pidfd = match pidfd_open(pid(id), PidfdFlags::empty()) {
        Err(Errno::SRCH) => return,
        pidfd => pidfd.expect("this system has pidfds"),
    };
    let mut polled = [PollFd::new(&pidfd, PollFlags::IN)];
    let ready = poll(&mut polled, Some(&HANG.try_into().expect("it fits"))).expect("it can be polled");
    assert_eq!(ready, 1, "process {id} is still there after {HANG:?}");
}

/// Resident memory in KiB.
pub fn memory_kib(id: u32) -> u64 {
    kib(id, "VmRSS:")
}

/// The most resident memory it ever had, in KiB.
pub fn peak_kib(id: u32) -> u64 {
    kib(id, "VmHWM:")
}

fn kib(id: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).expect("it is there");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a process has memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Waits until a process has nothing to do: every thread sleeps, and none has run while this looked many times.
/// There is no event for what does not happen, so it asks, and gives its time slice away in between.
#[track_caller]
pub fn wait_at_rest(id: u32) {
    const LOOKS: usize = 300;
    let since = Instant::now();
    let (mut before, mut same) = (None, 0);
    while same < LOOKS {
        assert!(since.elapsed() < HANG, "process {id} does not come to rest");
        let now = asleep(id);
        same = if now.is_some() && now == before { same + 1 } else { 0 };
        before = now;
        std::thread::yield_now();
    }
}

/// How often each thread has gone to sleep; `None`: one is awake.
fn asleep(id: u32) -> Option<Vec<String>> {
    let tasks = fs::read_dir(format!("/proc/{id}/task")).expect("it is there");
    let mut slept = Vec::new();
    for task in tasks {
        let status = fs::read_to_string(task.ok()?.path().join("status")).ok()?;
        status.lines().find(|line| line.starts_with("State:\tS"))?;
        slept.extend(status.lines().filter(|line| line.contains("_ctxt_switches")).map(str::to_owned));
    }
    Some(slept)
}

fn state(stat: &str) -> char {
    // Behind the name, which stands in parentheses and may hold anything.
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('X')
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(id.cast_signed()).expect("a process has an id")
}
