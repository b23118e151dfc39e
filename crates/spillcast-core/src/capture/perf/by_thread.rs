//! Events on single threads, which an ordinary user may open: a descriptor for each call and CPU.
//!
//! An ordinary user may observe threads only, and following new threads and children (`inherit`)
//! needs one perf event for each tracepoint on each CPU. That is some 100 descriptors for a thread
//! on 2 CPUs and 3,000 on 64 CPUs, where starting an observed thread costs the kernel the same
//! number of allocations.
//!
//! The limit of descriptors is raised as far as permitted. Beyond it threads are skipped, evenly
//! over all processes; meta.json and stderr report that, and a forecast warns. A process that an
//! observed process started is observed by inheritance and is not attached again.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex};

use rustix::process::{Resource, getrlimit};

use super::super::source::{self, Forks};
use super::events::Events;
use super::forks;
use crate::lock::lock;
use crate::proc::{children, family, numbers_in, parent, threads_of, visit_all};
use crate::system::raise_descriptor_limit;

/// Descriptors that are reserved for everything else that a recorder opens.
const RESERVED: usize = 48;

/// Observes threads one by one; the threads and processes that they start are followed.
pub(crate) struct ByThread {
    events: Arc<Events>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Processes that were attached, each with the children that it had before.
    attached: HashMap<i32, HashSet<i32>>,
    /// How many threads can be observed, of how many there are; None if all can be.
    room: Option<(usize, usize)>,
    sample: Sample,
}

/// Number of observed threads, and of all threads that were listed.
#[derive(Clone, Copy, Default)]
struct Sample {
    seen: usize,
    of: usize,
}

impl ByThread {
    pub fn new(events: Arc<Events>) -> ByThread {
        ByThread { events, state: Mutex::default() }
    }

    /// Numbers of observed and of all threads; None if no thread was skipped.
    pub fn sampled(&self) -> Option<(u64, u64)> {
        let Sample { seen, of } = lock(&self.state).sample;
        (seen < of).then_some((seen as u64, of as u64))
    }

    fn attach_thread(&self, state: &mut State, pid: i32, tid: i32) -> io::Result<()> {
        let Sample { seen, of } = state.sample;
        state.sample.of += 1;
        // Observes the first of each process, and others evenly spread over all.
        if let Some((room, all)) = state.room
            && tid != pid
            && of * room % all >= room
        {
            return Ok(());
        }
        match self.events.open_on(tid) {
            // The thread ended in between.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => state.sample.of -= 1,
            // More threads were started since they were counted.
            Err(error) if error.raw_os_error() == Some(libc::EMFILE) && seen > 0 => (),
            Err(error) => return Err(error),
            Ok(()) => state.sample.seen += 1,
        }
        Ok(())
    }
}

impl State {
    /// Whether a process is already followed, because an observed process started it.
    fn follows(&self, pid: i32) -> bool {
        let starter = parent(pid).and_then(|parent| self.attached.get(&parent));
        self.attached.contains_key(&pid) || starter.is_some_and(|older| !older.contains(&pid))
    }
}

impl source::Observer for ByThread {
    fn expect(&self, pid: i32) -> io::Result<()> {
        raise_descriptor_limit();
        let processes = family(pid);
        let threads = |&pid: &i32| Ok(threads_of(pid)?.len());
        let threads: usize = processes.iter().map(threads).sum::<io::Result<usize>>()?;
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) as usize;
        let used = numbers_in("/proc/self/fd")?.len() + RESERVED;
        let room = limit.saturating_sub(used) / self.events.descriptors();
        if room == 0 {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        let state = &mut lock(&self.state);
        // The first thread of each process is observed in addition to the sample.
        let spread = room.saturating_sub(processes.len()).max(1);
        state.room = (room < threads).then_some((spread, threads));
        Ok(())
    }

    fn attach(&self, pid: i32) -> io::Result<()> {
        let state = &mut lock(&self.state);
        if state.follows(pid) {
            return Ok(());
        }
        state.attached.insert(pid, children(pid).into_iter().collect());
        let tids = visit_all(|_| threads_of(pid), |tid| self.attach_thread(state, pid, tid))?;
        if tids.is_empty() {
            state.attached.remove(&pid);
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(())
    }

    fn forks(&self, parent: i32, title: &str) -> io::Result<Forks> {
        forks::forks(parent, title)
    }
}
