//! Reports the children of a process as they are forked, and selects those with a wanted title.
//!
//! PostgreSQL's parallel workers are children of the server, not of the session that they work for.
//! One perf event on the server reports each fork and wakes a thread, which reads the title of the
//! child (`parallel worker for PID 4711`). Workers of the session are attached within some 10 ms of
//! their start. The server's other children cost nothing.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::super::forked::ForkedChildren;
use super::super::source::Forks;
use super::open;
use super::record::{self, Payload, Record};
use super::ring::{Ring, page_bytes};
use super::tracepoints::Tracepoints;

/// How long the watcher sleeps when no child is forked.
const IDLE_NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// How often the titles of undecided children are read.
const UNTITLED_NAP: Duration = Duration::from_millis(1);

/// Implements [`Observer::forks`](super::super::source::Observer::forks).
pub fn forks(parent: i32, title: &str) -> io::Result<Forks> {
    let mut watch = Watch::new(parent, title)?;
    Ok(Box::new(move || watch.next()))
}

/// Watches a server that forks a process for each session or worker. It costs the server only a
/// record per fork, and its other children nothing at all.
struct Watch {
    /// None once the server has ended: its descriptor would stay readable forever.
    event: Option<OwnedFd>,
    ring: Ring,
    forked: ForkedChildren,
}

impl Watch {
    /// Watches `parent` for children whose command line contains `wanted`, not followed by a digit.
    fn new(parent: i32, wanted: &str) -> io::Result<Watch> {
        let event = open::forks(parent)?;
        let ring = Ring::map(event.as_fd(), page_bytes())?;
        Ok(Watch { event: Some(event), ring, forked: ForkedChildren::of(parent, wanted) })
    }

    /// Sleeps until a child is forked, or an undecided child has had time to set its title.
    fn wait(&self) {
        match &self.event {
            _ if self.forked.waits() => std::thread::sleep(UNTITLED_NAP),
            // A signal ends the poll early, which does no harm.
            Some(event) => {
                let _ = poll(&mut [PollFd::new(event, PollFlags::IN)], Some(&IDLE_NAP));
            }
            None => std::thread::sleep(Duration::from_millis(100)),
        }
    }

    /// Waits; returns the wanted children that were decided since the last call.
    fn next(&mut self) -> Vec<i32> {
        self.wait();
        let none = Tracepoints::default();
        self.ring.drain(|bytes| match record::parse(bytes, &none) {
            Some(Record { payload: Payload::Fork { .. }, pid, .. }) => self.forked.add(pid),
            Some(Record { payload: Payload::ThreadExit, pid, .. }) if pid == self.forked.parent => {
                self.event = None;
            }
            _ => (),
        });
        let decided = self.forked.decide().into_iter();
        decided.filter_map(|(pid, wanted)| wanted.then_some(pid)).collect()
    }
}
