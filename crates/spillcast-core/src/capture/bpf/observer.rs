//! Which threads the programs observe: the kernel's map of them, filled by any thread of ours.

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use aya::Ebpf;

use super::super::forked::ForkedChildren;
use super::super::source::{self, Forks};
use super::load::{OBSERVED, Threads, WATCHED};
use crate::proc::threads_of;
use crate::system::now_ns;

/// How long one who waits for children sleeps when none is forked.
const NAP: Duration = Duration::from_millis(100);

/// Puts threads into the kernel's map, and takes them out.
pub struct Observer {
    pub threads: Mutex<Threads>,
    /// The servers whose children are waited for.
    pub children: Mutex<Vec<(ForkedChildren, Arc<Wanted>)>>,
    /// The programs go with it.
    pub(crate) _loaded: Ebpf,
}

/// Children that are wanted, until they are asked for.
#[derive(Default)]
pub(crate) struct Wanted {
    pids: Mutex<Vec<i32>>,
    any: Condvar,
}

impl Observer {
    /// Adds to what is observed of a process, with all its threads.
    fn observe(&self, pid: i32, role: u32) -> io::Result<()> {
        let mut threads = self.threads.lock().expect("no holder panics");
        let mut known = 0;
        // Threads that start while the list is read are in the map already if who starts them is;
        // those that are missed by one look are not missed by two in a row.
        loop {
            let tids = threads_of(pid)?;
            for &tid in &tids {
                let thread = threads.get(&tid, 0).unwrap_or_default();
                if thread.role & role == 0 {
                    // The map has room for so many threads and no more.
                    let full = |_| io::Error::from_raw_os_error(libc::E2BIG);
                    threads.insert(tid, thread.with(role), 0).map_err(full)?;
                }
            }
            if tids.is_empty() {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            if tids.len() == known {
                return Ok(());
            }
            known = tids.len();
        }
    }

    /// CPU time that threads have used since they were last reported.
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

    /// A child of a server was forked.
    pub(crate) fn add_forked(&self, parent: i32, child: i32) {
        let mut servers = self.children.lock().expect("no holder panics");
        servers.iter_mut().filter(|(forked, _)| forked.parent == parent).for_each(|(forked, _)| {
            forked.add(child);
        });
    }

    /// Observes a process no longer, with all its threads.
    pub(crate) fn forget(&self, pid: i32) {
        let mut threads = self.threads.lock().expect("no holder panics");
        // Until none has started meanwhile. It may have ended.
        while threads_of(pid)
            .is_ok_and(|tids| tids.iter().filter(|tid| threads.remove(*tid).is_ok()).count() > 0)
        {
        }
    }

    /// Children that have said what they are.
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
