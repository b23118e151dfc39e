//! Children of a process, told when they are born; the wanted ones by what they call themselves.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use super::open;
use super::record::{self, Record, What};
use super::ring::{Ring, page_bytes};
use super::tracepoints::Tracepoints;
use crate::system::now_ns;

/// How long the watcher sleeps when no child is born.
const NAP: Duration = Duration::from_millis(100);
/// How often children that have not said yet what they are are looked at.
const NAMELESS_NAP: Duration = Duration::from_millis(1);
/// How long a child may take to say what it is; one that never does is not wanted.
const NAMELESS_NS: u64 = 2_000_000_000;

/// Watches a server that forks a process for each session or worker. It costs the server nothing
/// but a record a fork, and its other children nothing at all.
pub struct Births {
    parent: i32,
    /// None once the server has ended: its descriptor would be readable for ever.
    event: Option<OwnedFd>,
    ring: Ring,
    /// Command line of the server, which a child has until it sets its own.
    parent_title: Vec<u8>,
    wanted: Vec<u8>,
    nameless: Vec<(i32, u64)>,
}

impl Births {
    /// Watches `parent` for children whose command line holds `wanted`, not followed by a digit.
    pub fn watch(parent: i32, wanted: &str) -> io::Result<Births> {
        let event = open::births(parent)?;
        let ring = Ring::map(event.as_raw_fd(), page_bytes())?;
        let (parent_title, wanted) = (title(parent).unwrap_or_default(), wanted.into());
        Ok(Births { parent, event: Some(event), ring, parent_title, wanted, nameless: Vec::new() })
    }

    /// Sleeps until a child is born, or one that was has had the time to say what it is.
    pub fn wait(&self) {
        let nap = if self.nameless.is_empty() { NAP } else { NAMELESS_NAP };
        let Some(event) = self.event.as_ref().filter(|_| self.nameless.is_empty()) else {
            return std::thread::sleep(nap);
        };
        let mut polled = libc::pollfd { fd: event.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd of ours is passed.
        unsafe { libc::poll(&mut polled, 1, nap.as_millis() as i32) };
    }

    /// The wanted children that are known since the last look.
    pub fn take(&mut self) -> Vec<i32> {
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
