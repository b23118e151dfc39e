//! The kernel's map of observed threads, which any thread of this process may fill.

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use aya::Ebpf;

use super::super::forked::ForkedChildren;
use super::super::source::{self, Forks};
use super::load::{OBSERVED, Threads, WATCHED};
use crate::proc::{threads_of, visit_all};
use crate::system::now_ns;

/// How long a thread that waits for children sleeps when none is forked.
const NAP: Duration = Duration::from_millis(100);

/// Adds threads to the kernel's map, and removes them.
pub struct Observer {
    pub threads: Mutex<Threads>,
    /// The servers whose children are waited for.
    pub children: Mutex<Vec<(ForkedChildren, Arc<Wanted>)>>,
    /// Keeps the programs loaded.
    pub(crate) _loaded: Ebpf,
}

/// Wanted children that have not been taken yet.
#[derive(Default)]
pub(crate) struct Wanted {
    pids: Mutex<Vec<i32>>,
    any: Condvar,
}

impl Observer {
    /// Adds `role` to what is observed of a process, for all its threads.
    fn observe(&self, pid: i32, role: u32) -> io::Result<()> {
        let mut threads = self.threads.lock().expect("no holder panics");
        // A thread that starts meanwhile is in the map already if its starter is.
        let tids = visit_all(
            |_| threads_of(pid),
            |tid| {
                let thread = threads.get(&tid, 0).unwrap_or_default();
                if thread.role & role != 0 {
                    return Ok(());
                }
                // The map has room for a limited number of threads.
                let full = |_| io::Error::from_raw_os_error(libc::E2BIG);
                threads.insert(tid, thread.with(role), 0).map_err(full)
            },
        )?;
        match tids.is_empty() {
            true => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            false => Ok(()),
        }
    }

    /// CPU time that threads have used since their last report.
    pub(crate) fn unreported_cpu_ns(&self) -> u64 {
        let threads = self.threads.lock().expect("no holder panics");
        let now_ns = now_ns();
        let observed = threads.iter().flatten().map(|(_, thread)| thread);
        observed
            .map(|thread| match thread.on_cpu_since_ns {
                0 => thread.cpu_ns,
                since_ns => thread.cpu_ns + now_ns.saturating_sub(since_ns),
            })
            .sum()
    }

    /// Adds a child that a server has forked.
    pub(crate) fn add_forked(&self, parent: i32, child: i32) {
        let mut servers = self.children.lock().expect("no holder panics");
        servers.iter_mut().filter(|(forked, _)| forked.parent == parent).for_each(|(forked, _)| {
            forked.add(child);
        });
    }

    /// Stops observing a process with all its threads.
    pub(crate) fn forget(&self, pid: i32) {
        let mut threads = self.threads.lock().expect("no holder panics");
        // Until no thread has started meanwhile. The process may have ended.
        while threads_of(pid)
            .is_ok_and(|tids| tids.iter().filter(|tid| threads.remove(*tid).is_ok()).count() > 0)
        {
        }
    }

    /// The children decided since the last call, and whether each is wanted.
    pub(crate) fn decide(&self) -> Vec<(i32, bool)> {
        let mut decided = Vec::new();
        for (children, wanted) in self.children.lock().expect("no holder panics").iter_mut() {
            for (pid, is_wanted) in children.decide() {
                if is_wanted {
                    wanted.pids.lock().expect("no holder panics").push(pid);
                    wanted.any.notify_one();
                }
                decided.push((pid, is_wanted));
            }
        }
        decided
    }
}

impl source::Observer for Observer {
    fn attach(&self, pid: i32) -> io::Result<()> {
        self.observe(pid, OBSERVED)
    }

    fn forks(&self, parent: i32, title: &str) -> io::Result<Forks> {
        let wanted = Arc::<Wanted>::default();
        let children = ForkedChildren::of(parent, title);
        self.children.lock().expect("no holder panics").push((children, wanted.clone()));
        self.observe(parent, WATCHED)?;
        Ok(Box::new(move || {
            let pids = wanted.pids.lock().expect("no holder panics");
            let (mut pids, _) = wanted.any.wait_timeout(pids, NAP).expect("no holder panics");
            std::mem::take(&mut *pids)
        }))
    }
}
