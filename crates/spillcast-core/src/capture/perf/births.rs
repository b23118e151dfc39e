//! Children of a process, told when they are born; the wanted ones by what they call themselves.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::open;
use super::record::{self, Record, What};
use super::ring::{Ring, page_bytes};
use super::tracepoints::Tracepoints;
use crate::system::now_ns;

/// How long the watcher sleeps when no child is born.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// How often children that have not said yet what they are are looked at.
const NAMELESS_NAP: Duration = Duration::from_millis(1);
/// How long a child may take to say what it is; one that never does is not wanted.
const NAMELESS_NS: u64 = 2_000_000_000;

/// Watches a server that forks a process for each session or worker. It costs the server nothing
/// but a record a fork, and its other children nothing at all.
pub struct Watch {
    parent: i32,
    /// None once the server has ended: its descriptor would be readable for ever.
    event: Option<OwnedFd>,
    ring: Ring,
    /// Command line of the server, which a child has until it sets its own.
    parent_title: Vec<u8>,
    wanted: Vec<u8>,
    nameless: Vec<(i32, u64)>,
}

impl Watch {
    /// Watches `parent` for children whose command line holds `wanted`, not followed by a digit.
    pub fn new(parent: i32, wanted: &str) -> io::Result<Watch> {
        let event = open::births(parent)?;
        let ring = Ring::map(event.as_fd(), page_bytes())?;
        let (parent_title, wanted) = (title(parent).unwrap_or_default(), wanted.into());
        Ok(Watch { parent, event: Some(event), ring, parent_title, wanted, nameless: Vec::new() })
    }

    /// Sleeps until a child is born, or one that was has had the time to say what it is.
    fn wait(&self) {
        match &self.event {
            // A signal ends it early, which does no harm.
            Some(event) if self.nameless.is_empty() => {
                let _ = poll(&mut [PollFd::new(event, PollFlags::IN)], Some(&NAP));
            }
            None if self.nameless.is_empty() => std::thread::sleep(Duration::from_millis(100)),
            _ => std::thread::sleep(NAMELESS_NAP),
        }
    }

    /// Waits; the wanted children that are known since the last time.
    pub fn next(&mut self) -> Vec<i32> {
        self.wait();
        let none = Tracepoints::default();
        self.ring.drain(|bytes| match record::parse(bytes, &none) {
            Some(Record { what: What::Fork { .. }, pid, time_ns, .. }) => {
                self.nameless.push((pid, time_ns));
            }
            Some(Record { what: What::ThreadExit, pid, .. }) if pid == self.parent => {
                self.event = None;
            }
            _ => (),
        });
        let mut found = Vec::new();
        let now_ns = now_ns();
        self.nameless.retain(|&(pid, born_ns)| match title(pid) {
            Some(title) if title == self.parent_title => now_ns < born_ns + NAMELESS_NS,
            Some(title) => {
                found.extend(holds(&title, &self.wanted).then_some(pid));
                false
            }
            None => false,
        });
        found
    }
}

fn title(pid: i32) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/cmdline")).ok()
}

fn holds(title: &[u8], wanted: &[u8]) -> bool {
    title.windows(wanted.len()).enumerate().any(|(at, part)| {
        part == wanted && !title.get(at + wanted.len()).is_some_and(u8::is_ascii_digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_the_whole_number() {
        let title = b"postgres: main: parallel worker for PID 4711 \0\0";
        assert!(holds(title, b"parallel worker for PID 4711"));
        assert!(!holds(title, b"parallel worker for PID 471"));
        assert!(!holds(title, b"parallel worker for PID 47110"));
        assert!(holds(b"worker for PID 12", b"for PID 12"));
    }
}
